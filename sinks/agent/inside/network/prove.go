package network

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/netlink"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// prove checks what the machine can see itself: interfaces are as designed, still have a carrier if they had one,
// and default gateways answer. Only the daemon can prove that the machine is reachable.
func (f *Facet) prove(ctx context.Context, h *inside.Host, p *plan, before *machine, answered map[netip.Addr]bool) error {
	var why map[string]string
	var m *machine
	var since time.Time // when it became as designed
	ours, ports := p.ours(before), before.ports(p.ours(before), "bridge")
	settles := func() bool {
		var err error
		if m, err = f.tables.look(h); err != nil {
			why, since = map[string]string{"interfaces": err.Error()}, time.Time{}
			return false
		}
		why = m.differs(p.after, ours)
		maps.Copy(why, m.withoutCarrier(p.after, before))
		for _, port := range m.astray(ports) {
			why[port] = "it is no longer a port of " + ports[port] + ", and the design does not ask for that"
		}
		if len(why) > 0 {
			since = time.Time{}
			return false
		}
		if since.IsZero() {
			since = time.Now()
		}
		return !m.isBeingSetUp(h, p) || time.Since(since) >= steady
	}
	// What became as designed only at the end must stay so, too.
	if !f.until(ctx, f.Deadline/2, settles) && (len(why) > 0 || !f.until(ctx, steady, settles)) {
		var parts []string
		if len(why) == 0 {
			parts = []string{fmt.Sprintf("they were as designed for less than %s without a break, while systemd-networkd set them up", steady)}
		}
		for _, id := range slices.Sorted(maps.Keys(why)) {
			parts = append(parts, id+": "+why[id])
		}
		return &wire.Error{Class: wire.Failed, Text: "the interfaces did not become what was asked: " + strings.Join(parts, "; ")}
	}
	if whose := f.taken(ctx, h, before, m, p.after); whose != "" {
		return &wire.Error{Class: wire.Failed, Text: whose}
	}
	for gateway, answers := range f.gateways(ctx, h, m, p.after) {
		if was, asked := answered[gateway]; !answers && (was || !asked) {
			return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("the default gateway %s does not answer", gateway)}
		}
	}
	return nil
}

// steady is how long interfaces must be as designed while systemd-networkd still sets them up. It never ends with one
// that waits for a carrier or for a router's announcement.
const steady = 3 * time.Second

// isBeingSetUp reports whether systemd-networkd still sets up an interface of the plan. It takes an interface's
// addresses away and adds them again, so that until then the kernel may show those of before, or none in a moment.
// networkctl returns once the state file says so (networkctl(1), "reconfigure"; the states are of networkd's link_state_table).
func (m *machine) isBeingSetUp(h *inside.Host, p *plan) bool {
	if p.manager != Networkd && p.manager != Netplan {
		return false
	}
	for _, id := range p.all.names() {
		if r := m.links[id]; r != nil && isAnyLine(inside.Text(h.Path("/run/systemd/netif/links/"+number(r.index))), "ADMIN_STATE=pending", "ADMIN_STATE=initialized", "ADMIN_STATE=configuring") {
			return true
		}
	}
	return false
}

func isAnyLine(text string, lines ...string) bool {
	return slices.ContainsFunc(strings.Split(text, "\n"), func(l string) bool { return slices.Contains(lines, l) })
}

// withoutCarrier are interfaces that lost their carrier.
func (m *machine) withoutCarrier(all links, before *machine) map[string]string {
	why := map[string]string{}
	for _, id := range all.names() {
		was := before.links[id]
		if r := m.links[id]; was != nil && was.carrier && r != nil && !r.carrier && all[id].Kind == "ethernet" {
			why[id] = "it has lost its carrier"
		}
	}
	return why
}

// gateways tries the designed default gateways on the machine's networks, and reports which of them answer.
func (f *Facet) gateways(ctx context.Context, h *inside.Host, m *machine, all links) map[netip.Addr]bool {
	answered := map[netip.Addr]bool{}
	for _, id := range all.names() {
		for _, r := range all[id].Routes {
			via, err := netip.ParseAddr(r.Via)
			if err == nil && defaultRoute(r.To) && m.reaches(via) {
				answered[via] = f.answers(ctx, h, via)
			}
		}
	}
	return answered
}

// reaches reports whether an address is in a network of the machine.
func (m *machine) reaches(a netip.Addr) bool {
	for _, r := range m.links {
		for _, text := range r.Addresses {
			if p, err := netip.ParsePrefix(text); err == nil && p.Contains(a) {
				return true
			}
		}
	}
	return false
}

// answers reports whether a machine on the same network answers. The kernel must resolve its hardware address
// before sending anything, and remembers the answer. No gateway can ignore that.
func answers(ctx context.Context, h *inside.Host, a netip.Addr) bool {
	_, _ = h.Exec(ctx, inside.Command{Path: "ip", Args: []string{"neighbor", "flush", "to", a.String()}, Timeout: 5 * time.Second}) // an old answer proves less
	end := time.After(5 * time.Second)
	for {
		send(a)
		if all, err := netlink.Neighbors(); err == nil && slices.ContainsFunc(all, func(n netlink.Neighbor) bool { return n.Address == a && n.Answered() }) {
			return true
		}
		select {
		case <-end:
			return false
		case <-ctx.Done():
			return false
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// send sends one byte to the port "discard".
func send(a netip.Addr) {
	family, to := syscall.AF_INET, syscall.Sockaddr(&syscall.SockaddrInet4{Port: 9, Addr: [4]byte(a.AsSlice()[:4])})
	if a.Is6() {
		family, to = syscall.AF_INET6, &syscall.SockaddrInet6{Port: 9, Addr: a.As16()}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer syscall.Close(fd)
	_ = syscall.Sendto(fd, []byte{0}, syscall.MSG_DONTWAIT, to) // only to make the kernel resolve the address
}

// writeKernel writes to a file of sysfs.
func writeKernel(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}
