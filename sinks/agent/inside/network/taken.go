package network

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// taken finds designed IPv4 addresses that this machine does not have yet and another machine uses, on existing
// interfaces. A machine that took such an address over would get half of the other's packets, and its own
// connections would prove nothing. taken is empty if nobody answers. For IPv6 the kernel detects duplicates itself,
// and the address does not come up.
func (f *Facet) taken(ctx context.Context, h *inside.Host, before, m *machine, all links) string {
	var asking sync.WaitGroup
	var lock sync.Mutex
	var found []string
	for _, id := range all.names() {
		for _, text := range all[id].Addresses {
			p, err := netip.ParsePrefix(text)
			if r := m.links[id]; err != nil || !p.Addr().Is4() || r == nil || !r.carrier || before.has(p.Addr()) {
				continue
			}
			asking.Go(func() {
				if mac := f.holder(ctx, h, id, p.Addr()); mac != "" && !m.isOwn(mac) {
					lock.Lock()
					found = append(found, fmt.Sprintf("%s of %s is the address of another machine (%s)", p.Addr(), id, mac))
					lock.Unlock()
				}
			})
		}
	}
	asking.Wait()
	slices.Sort(found)
	return strings.Join(found, "; ")
}

// isOwn reports whether a hardware address belongs to this machine. Its kernel answers for any of its addresses on
// every interface, even if two are on one network.
func (m *machine) isOwn(mac string) bool {
	for _, r := range m.links {
		if strings.EqualFold(r.MAC, mac) {
			return true
		}
	}
	return false
}

// has reports whether an interface has an address.
func (m *machine) has(a netip.Addr) bool {
	for _, r := range m.links {
		is := func(text string) bool { p, err := netip.ParsePrefix(text); return err == nil && p.Addr() == a }
		if slices.ContainsFunc(r.Addresses, is) || slices.ContainsFunc(r.hosts, is) || slices.ContainsFunc(r.dynamic, func(p netip.Prefix) bool { return p.Addr() == a }) {
			return true
		}
	}
	return false
}

const (
	typeARP     = 0x0806
	probes      = 3
	betweenARPs = 300 * time.Millisecond
)

// holder is the hardware address of another machine that uses an IPv4 address on an interface's network; empty if
// none answers within a second. It sends a probe of RFC 5227, section 2.1.1. If the kernel does not allow that,
// nobody answered.
func holder(ctx context.Context, h *inside.Host, name string, a netip.Addr) string {
	index, _ := strconv.Atoi(inside.Text(h.Path("/sys/class/net/" + name + "/ifindex")))
	own, err := hex.DecodeString(strings.ReplaceAll(inside.Text(h.Path("/sys/class/net/"+name+"/address")), ":", ""))
	if index == 0 || err != nil || len(own) != 6 || !h.Live {
		return ""
	}
	protocol := int(binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, typeARP)))
	fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, protocol)
	if err != nil {
		return ""
	}
	defer syscall.Close(fd)
	wait := syscall.NsecToTimeval(int64(50 * time.Millisecond))
	at := &syscall.SockaddrLinklayer{Protocol: uint16(protocol), Ifindex: index}
	if syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &wait) != nil || syscall.Bind(fd, at) != nil {
		return ""
	}
	frame := make([]byte, 2048)
	for range probes {
		_ = syscall.Sendto(fd, probe(own, a), 0, at) // on a link that is down no answer comes
		for end := time.Now().Add(betweenARPs); ctx.Err() == nil && time.Now().Before(end); {
			size, _, err := syscall.Recvfrom(fd, frame, 0)
			if err != nil {
				continue // usually a timeout
			}
			if mac, is := announces(frame[:size], a); is && !bytes.Equal(mac, own) {
				return colons(mac)
			}
		}
	}
	return ""
}

// probe asks who has an address, without a sender address.
func probe(own []byte, a netip.Addr) []byte {
	frame := slices.Concat([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, own)
	frame = binary.BigEndian.AppendUint16(frame, typeARP)
	frame = append(frame, 0, 1, 0x08, 0, 6, 4, 0, 1) // a request for Ethernet and IPv4
	frame = append(append(frame, own...), 0, 0, 0, 0)
	four := a.As4()
	return append(append(frame, 0, 0, 0, 0, 0, 0), four[:]...)
}

// announces reports whether an ARP frame comes from a machine that has the address, and returns its hardware
// address.
func announces(frame []byte, a netip.Addr) (mac []byte, is bool) {
	const head, length = 14, 28
	if len(frame) < head+length || binary.BigEndian.Uint16(frame[12:]) != typeARP || binary.BigEndian.Uint16(frame[head+2:]) != syscall.ETH_P_IP {
		return nil, false
	}
	four := a.As4()
	return frame[head+8 : head+14], bytes.Equal(frame[head+14:head+18], four[:])
}

func colons(mac []byte) string {
	parts := make([]string, len(mac))
	for i, b := range mac {
		parts[i] = fmt.Sprintf("%02x", b)
	}
	return strings.Join(parts, ":")
}
