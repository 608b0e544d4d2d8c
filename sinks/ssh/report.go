package ssh

import (
	"encoding/json"
	"strings"
	"unicode"

	"github.com/slipway-gitops/slipway/engine/site"
)

// command prints all that is looked at, each part behind its own line. Files
// need not end with a newline, and need not be there.
const command = "echo --marker; cat /etc/slipway/marker.json 2>/dev/null; " +
	"echo; echo --boot; cat /proc/sys/kernel/random/boot_id; " +
	"echo; echo --os; cat /etc/os-release; " +
	"echo; echo --kernel; uname -r"

// report is what the command told.
type report struct {
	marker                  *site.Marker
	bootID, release, kernel string
}

// parse reads the command's output, behind whatever a login script printed;
// false when it is no such output. A marker that cannot be read counts as none: the node then stays unproven, which is
// the truth.
func parse(output []byte) (report, bool) {
	_, rest, ok0 := strings.Cut(string(output), "--marker\n")
	marker, rest, ok1 := strings.Cut(rest, "\n--boot\n")
	boot, rest, ok2 := strings.Cut(rest, "\n--os\n")
	release, kernel, ok3 := strings.Cut(rest, "\n--kernel\n")
	return report{
		marker:  parseMarker(marker),
		bootID:  line(boot),
		release: parseRelease(release),
		kernel:  line(kernel),
	}, ok0 && ok1 && ok2 && ok3
}

func parseMarker(text string) *site.Marker {
	var m site.Marker
	if json.Unmarshal([]byte(text), &m) != nil {
		return nil
	}
	m.Node, m.Image, m.Token = line(m.Node), line(m.Image), line(m.Token)
	if m.Node == "" || m.Generation < 0 {
		return nil
	}
	return &m
}

// parseRelease is the name for people in os-release(5).
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

// line is the first line of foreign text, printable and of bounded length.
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
