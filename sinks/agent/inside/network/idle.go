package network

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// An interface counts as unused after it was idle for idleFor. systemd-networkd has letGo to leave it alone before that,
// which takes it some seconds on a busy machine.
const (
	letGo   = 8 * time.Second
	idleFor = 2 * time.Second
)

// isSole reports whether systemd-networkd alone sets up the machine's interfaces. Another manager may be about to set
// one up, such as by DHCP, and nothing would show that.
func (a activation) isSole(ctx context.Context) bool {
	if a.manager != Networkd && a.manager != Netplan || !a.f.active(ctx, a.h, Networkd) || !onlyLoopback(a.h) {
		return false
	}
	for _, unit := range []string{services[NetworkManager], "dhcpcd.service", "connman.service"} {
		out, err := a.h.Exec(ctx, inside.Command{Path: "systemctl", Args: []string{"is-active", unit}, Timeout: 10 * time.Second})
		if err != nil || !slices.Contains([]string{"inactive", "failed", "unknown"}, strings.TrimSpace(string(out.Out))) {
			return false
		}
	}
	return true
}

// onlyLoopback reports whether the files of ifupdown say nothing but how the loopback is set up, as on a new Debian.
// Whether its service runs does not count: udev starts ifupdown for a port too.
func onlyLoopback(h *inside.Host) bool {
	paths, err := filepath.Glob(h.Path(interfacesFolder + "/*"))
	if err != nil {
		return false
	}
	for _, at := range append(paths, h.Path(interfacesFile)) {
		text, err := os.ReadFile(at)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false
		}
		for line := range strings.Lines(string(text)) {
			words := append(strings.Fields(line), "", "")
			switch word, of := words[0], words[1]; {
			case word == "" || strings.HasPrefix(word, "#"):
			case slices.Contains([]string{"auto", "allow-hotplug", "iface"}, word) && of == "lo" && (word == "iface" || words[2] == ""):
			case slices.Contains([]string{"source", "source-directory"}, word) && slices.Contains([]string{interfacesFolder, interfacesFolder + "/", interfacesFolder + "/*", "interfaces.d/*"}, of):
			default:
				return false
			}
		}
	}
	return true
}

// stayIdle waits once for several interfaces, and returns those that are idle for idleFor without a break.
func (a activation) stayIdle(ctx context.Context, ids []string) []string {
	since := map[string]time.Time{}
	stays := func(id string) bool { return !since[id].IsZero() && time.Since(since[id]) >= idleFor }
	a.f.until(ctx, letGo+idleFor, func() bool {
		for _, id := range ids {
			switch {
			case !a.isIdle(id):
				delete(since, id)
			case since[id].IsZero():
				since[id] = time.Now()
			}
		}
		return !slices.ContainsFunc(ids, func(id string) bool { return !stays(id) })
	})
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !stays(id) })
}

// isIdle reports whether systemd-networkd has left an interface alone and nobody else uses it. What cannot be read counts
// as use. Programs that take packets without a socket, such as XDP and traffic control, are not seen.
func (a activation) isIdle(id string) bool {
	folder := a.h.Path("/sys/class/net/" + id)
	r := readLink(folder)
	upper, err := filepath.Glob(filepath.Join(folder, "upper_*"))
	state := strings.Split(inside.Text(a.h.Path("/run/systemd/netif/links/"+number(r.index))), "\n")
	if err != nil || len(upper) > 0 || r.Functions > 0 || !slices.Contains(state, "ADMIN_STATE=unmanaged") {
		return false
	}
	own, err := linkLocal(r.MAC)
	if err != nil {
		return false
	}
	uses, err := a.f.tables.uses()
	if err != nil {
		return false
	}
	isUsed := func(u kernelUse) bool { return (u.index == r.index || u.index == 0) && !u.isOwn(own) }
	return !slices.ContainsFunc(uses, isUsed) && !isHeard(a.h, r.index, own)
}

// linkLocal is the link-local address that the kernel makes from a MAC address (RFC 4291, appendix A).
func linkLocal(mac string) (netip.Addr, error) {
	m, err := hex.DecodeString(strings.ReplaceAll(mac, ":", ""))
	if err != nil || len(m) != 6 {
		return netip.Addr{}, fmt.Errorf("%q is not a MAC address of 6 bytes", mac)
	}
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]}), nil
}

// isOwn reports whether the kernel itself gives an address or route to every interface that is up and has a link-local
// address.
func (u kernelUse) isOwn(own netip.Addr) bool {
	if !u.route {
		return u.prefix == netip.PrefixFrom(own, 64)
	}
	return u.kernel && slices.Contains([]netip.Prefix{
		netip.MustParsePrefix("fe80::/64"), netip.MustParsePrefix("fe80::/128"), netip.MustParsePrefix("ff00::/8"), netip.PrefixFrom(own, 128),
	}, u.prefix)
}

// isHeard reports whether a program has a packet socket on an interface, or waits there for the answer of a DHCP server.
// A DHCP client without a lease has one of the two. The tables are those of proc_net(5).
func isHeard(h *inside.Host, index int, own netip.Addr) bool {
	const any4, any6 = "00000000", "00000000000000000000000000000000"
	const client4, client6 = ":0044", ":0222" // the ports 68 and 546
	for _, t := range []struct {
		path   string
		column int
		values []string
	}{
		{"/proc/net/packet", 4, []string{strconv.Itoa(index), "0"}}, // 0 is every interface
		{"/proc/net/udp", 1, []string{any4 + client4}},
		{"/proc/net/udp6", 1, []string{any6 + client4, any6 + client6, procAddress(own) + client6}},
	} {
		text, err := os.ReadFile(h.Path(t.path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without such sockets has no table of them
			return true
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > t.column && slices.Contains(t.values, f[t.column]) {
				return true
			}
		}
	}
	return false
}

// procAddress is an IPv6 address as /proc/net/udp6 has it: 4 numbers of 32 bits.
func procAddress(a netip.Addr) string {
	var text strings.Builder
	for word := range slices.Chunk(a.AsSlice(), 4) {
		fmt.Fprintf(&text, "%08X", binary.NativeEndian.Uint32(word))
	}
	return text.String()
}
