package agent

import (
	"encoding/json"
	"strings"
	"unicode"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// inShell quotes a script as one word for any login shell. The script must contain no single quote and no pair of
// backslashes.
func inShell(script string) string {
	return "sh -c 'LC_ALL=C; PATH=$PATH:/usr/sbin:/sbin; export LC_ALL PATH; " + script + "'"
}

// markerScript prints the marker of the installation.
const markerScript = "echo --marker; [ ! -e /etc/slipway/marker.json ] || cat /etc/slipway/marker.json 2>/dev/null || echo " + wire.Unread + "; "

// addressesScript prints the addresses of all interfaces.
const addressesScript = "echo; echo --addresses; ip -o addr 2>/dev/null | head -c 131072; "

// reportScript prints everything that a look needs, each part behind its own line. Files may lack a final newline
// or be missing. A missing tool only costs its own part. Commands that read more than the kernel's memory have a
// timeout, and output that may be long has a size limit.
const reportScript = markerScript +
	"echo; echo --boot; cat /proc/sys/kernel/random/boot_id; " +
	"echo; echo --os; cat /etc/os-release; " +
	"echo; echo --kernel; uname -r; " +
	"echo; echo --booted; grep ^btime /proc/stat; " +
	"echo; echo --memory; head -c 8192 /proc/meminfo; " +
	"echo; echo --links; { ip -o link 2>/dev/null || " + linksOfSysfs + "; } | head -c 131072; " +
	addressesScript +
	"echo; echo --disks; { timeout -s KILL 5 lsblk -b -n -P -e 1,7 -o NAME,TYPE,SIZE,MODEL,SERIAL 2>/dev/null || " + disksOfSysfs + "; } | head -c 65536; " +
	"echo; echo --mounts; timeout -s KILL 5 df -PkTl 2>/dev/null | head -c 65536; " +
	"echo; echo --failed; { timeout -s KILL 5 systemctl list-units --state=failed --plain --no-legend --no-pager 2>/dev/null && echo " + wire.AllUnits + "; } | head -c 32768; " +
	"echo; "

// linksOfSysfs and disksOfSysfs print the same format where the tools are missing.
const (
	linksOfSysfs = `for i in /sys/class/net/*; do echo "0: ${i##*/}: mtu $(cat $i/mtu) state $(cat $i/operstate) link/ether $(cat $i/address)"; done 2>/dev/null`
	disksOfSysfs = `for i in /sys/block/*; do echo "NAME=\"${i##*/}\" TYPE=\"disk\" SIZE=\"$(($(cat $i/size) * 512))\""; done 2>/dev/null`
)

// parts are the parts of the command's output, in order.
var parts = []string{"marker", "boot", "os", "kernel", "booted", "memory", "links", "addresses", "disks", "mounts", "failed"}

// neededParts is how many parts every system has.
const neededParts = 4

// report is the parsed output of the command.
type report struct {
	marker                  *site.Marker
	markerUnread            string // why an existing marker could not be read
	bootID, release, kernel string
	inside                  *site.Inside
}

// parse reads the command's output and skips what a login script printed. It returns false for other output.
func parse(output []byte) (report, bool) {
	told := divide(string(output))
	r := report{
		bootID:  line(told["boot"]),
		release: parseRelease(told["os"]),
		kernel:  line(told["kernel"]),
		inside:  parseInside(told),
	}
	r.marker, r.markerUnread = parseMarker(told["marker"])
	return r, len(told) >= neededParts
}

// divide returns the text of each part that is there.
func divide(output string) map[string]string {
	told := map[string]string{}
	_, rest, found := strings.Cut(output, "--"+parts[0]+"\n")
	for i, part := range parts {
		if !found {
			break
		}
		told[part] = rest
		if i+1 < len(parts) {
			told[part], rest, found = strings.Cut(rest, "\n--"+parts[i+1]+"\n")
		}
	}
	return told
}

// parseMarker reads the text of a marker. Empty text means no marker. If a marker exists but cannot be read, it
// says why.
func parseMarker(text string) (_ *site.Marker, whyUnread string) {
	text = strings.TrimSpace(text)
	var m site.Marker
	switch {
	case text == "":
		return nil, ""
	case text == wire.Unread:
		return nil, "Slipway's account may not read it"
	case json.Unmarshal([]byte(text), &m) != nil:
		return nil, "it is not the JSON object of a marker"
	}
	m.Site, m.Node, m.Image, m.Token = line(m.Site), line(m.Node), line(m.Image), line(m.Token)
	m.Machine.UUID, m.Machine.Serial = line(m.Machine.UUID), line(m.Machine.Serial)
	if m.Node == "" || m.Generation < 0 {
		return nil, "it names no node, or a negative generation"
	}
	return &m, ""
}

// parseRelease is PRETTY_NAME of os-release(5).
func parseRelease(text string) string {
	for l := range strings.Lines(text) {
		if value, found := strings.CutPrefix(l, "PRETTY_NAME="); found {
			return line(unquote(line(value)))
		}
	}
	return ""
}

// unquote undoes shell quoting as os-release(5) allows it.
func unquote(s string) string {
	if len(s) >= 2 && s[0] == '\'' && s[len(s)-1] == '\'' {
		return s[1 : len(s)-1]
	}
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return s
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\$`, `$`, "\\`", "`").Replace(s[1 : len(s)-1])
}

// line is the first line of foreign text, printable and bounded.
func line(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200])
	}
	return strings.TrimSpace(s)
}
