package agent

import (
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// These are the bounds on what is kept of a system.
const (
	maxLinks     = 64
	maxAddresses = 128 // of all links together
	maxDisks     = 128
	maxMounts    = 64
	maxUnits     = 32
)

// parseInside reads what a system reports about itself; nil if it reports nothing.
func parseInside(told map[string]string) *site.Inside {
	in := site.Inside{
		BootedAt:    parseBoot(told["booted"]),
		MemoryBytes: meminfo(told["memory"], "MemTotal:"),
		SwapBytes:   meminfo(told["memory"], "SwapTotal:"),
		Links:       parseLinks(told["links"], parseAddresses(told["addresses"])),
		Disks:       parseDisks(told["disks"]),
		Mounts:      parseMounts(told["mounts"]),
		FailedUnits: parseUnits(told["failed"]),
	}
	if reflect.ValueOf(in).IsZero() {
		return nil
	}
	return &in
}

// wholeLines splits each complete line into fields. It drops a line that was cut off.
func wholeLines(text string) [][]string {
	var all [][]string
	for l := range strings.Lines(text) {
		if fields := strings.Fields(l); strings.HasSuffix(l, "\n") && len(fields) > 0 {
			all = append(all, fields)
		}
	}
	return all
}

// parseBoot reads the line "btime SECONDS" of proc_stat(5), the boot time. It changes only when the clock is set.
func parseBoot(text string) time.Time {
	seconds, err := strconv.ParseInt(strings.TrimPrefix(line(text), "btime "), 10, 64)
	if err != nil || seconds <= 0 || seconds >= 1<<36 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC().Round(time.Minute)
}

// meminfo is an amount of proc_meminfo(5) in bytes; 0 if missing.
func meminfo(text, name string) int64 {
	for _, fields := range wholeLines(text) {
		if fields[0] == name && len(fields) == 3 && fields[2] == "kB" {
			return kibibytes(fields[1])
		}
	}
	return 0
}

func kibibytes(text string) int64 { return amount(text) << 10 }

// amount parses a number of bytes or larger units; 0 if invalid.
func amount(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n >= 1<<53 {
		return 0
	}
	return n
}

// parseLinks reads the lines of ip-link(8). It skips links without an address whose other end is in another
// namespace: those belong to containers.
func parseLinks(text string, addresses map[string][]string) []site.NetDevice {
	var links []site.NetDevice
	for _, fields := range wholeLines(text) {
		if links == nil {
			links = []site.NetDevice{}
		}
		if len(fields) < 2 || len(links) == maxLinks {
			continue
		}
		name, other, _ := strings.Cut(strings.TrimSuffix(fields[1], ":"), "@")
		link := site.NetDevice{Name: line(name), State: strings.ToLower(line(after(fields, "state"))), MTU: int(amount(after(fields, "mtu"))), MAC: line(after(fields, "link/ether"))}
		link.Addresses = addresses[link.Name]
		isLeft := link.Name == "lo" || strings.HasPrefix(other, "if")
		if link.Name != "" && (!isLeft || len(link.Addresses) > 0) {
			links = append(links, link)
		}
	}
	return links
}

// after is the field that follows a word.
func after(fields []string, word string) string {
	if i := slices.Index(fields, word); i >= 0 && i+1 < len(fields) {
		return fields[i+1]
	}
	return ""
}

// parseAddresses reads the lines of ip-address(8), by link. It skips addresses with host scope, IPv6 link-local
// addresses and temporary addresses.
func parseAddresses(text string) map[string][]string {
	all, count := map[string][]string{}, 0
	for _, fields := range wholeLines(text) {
		if len(fields) < 4 || count == maxAddresses {
			continue
		}
		scope, v6 := after(fields, "scope"), fields[2] == "inet6"
		if scope == "host" || v6 && scope == "link" || slices.Contains(fields, "temporary") || !isAddress(fields[3]) {
			continue
		}
		name, _, _ := strings.Cut(fields[1], "@")
		all[line(name)] = append(all[line(name)], fields[3])
		count++
	}
	return all
}

func isAddress(text string) bool {
	_, err := netip.ParsePrefix(text)
	_, errAlone := netip.ParseAddr(text)
	return (err == nil || errAlone == nil) && text == line(text)
}

// pair is NAME="value" as lsblk(8) prints it.
var pair = regexp.MustCompile(`([A-Z]+)="([^"]*)"`)

// parseDisks reads the lines of lsblk(8). lsblk lists a device made of several disks once for each disk.
func parseDisks(text string) []site.Block {
	var disks []site.Block
	known := map[string]bool{}
	for _, fields := range wholeLines(text) {
		told := map[string]string{}
		for _, p := range pair.FindAllStringSubmatch(strings.Join(fields, " "), -1) {
			told[p[1]] = line(unescape(p[2]))
		}
		d := site.Block{Name: told["NAME"], Kind: told["TYPE"], Bytes: amount(told["SIZE"]), Model: told["MODEL"], Serial: told["SERIAL"]}
		if d.Name != "" && d.Bytes > 0 && !known[d.Name] && len(disks) < maxDisks {
			known[d.Name] = true
			disks = append(disks, d)
		}
	}
	slices.SortFunc(disks, func(a, b site.Block) int { return strings.Compare(a.Name, b.Name) })
	return disks
}

// escaped matches an escaped byte of lsblk(8).
var escaped = regexp.MustCompile(`\\x[0-9a-f]{2}`)

func unescape(text string) string {
	return escaped.ReplaceAllStringFunc(text, func(hex string) string {
		b, _ := strconv.ParseUint(hex[2:], 16, 8)
		return string([]byte{byte(b)})
	})
}

// row matches a line of df(1): source, type, size, used, free, percentage and path. The path may contain spaces.
var row = regexp.MustCompile(`^(.+?) +(\S+) +(\d+) +(\d+) +(\d+) +(\d+)% (/.*)$`)

// alwaysFull lists file systems that are always full because they are read-only.
var alwaysFull = []string{"squashfs", "iso9660", "erofs", "udf"}

// parseMounts reads the lines of df(1). It keeps file systems on a disk, and the root on any source.
func parseMounts(text string) []site.Mount {
	var mounts []site.Mount
	for l := range strings.Lines(text) {
		f := row.FindStringSubmatch(strings.TrimSuffix(l, "\n"))
		if f == nil || !strings.HasSuffix(l, "\n") || slices.Contains(alwaysFull, f[2]) || len(mounts) == maxMounts {
			continue
		}
		m := site.Mount{Path: line(f[7]), Source: line(f[1]), FileSystem: line(f[2]), Bytes: kibibytes(f[3]), Used: int(min(amount(f[6]), 100)) / 5 * 5}
		if m.Path == "/" || m.FileSystem == "zfs" || strings.HasPrefix(m.Source, "/") {
			mounts = append(mounts, m)
		}
	}
	slices.SortFunc(mounts, func(a, b site.Mount) int { return strings.Compare(a.Path, b.Path) })
	return mounts
}

// parseUnits reads the lines of systemctl(1); nil if the list is incomplete.
func parseUnits(text string) []string {
	units, whole := []string{}, false
	for _, fields := range wholeLines(text) {
		name := line(fields[0])
		if whole = name == wire.AllUnits; !whole && name != "" && len(units) < maxUnits {
			units = append(units, name)
		}
	}
	if !whole {
		return nil
	}
	slices.Sort(units)
	return units
}
