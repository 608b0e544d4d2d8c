package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// activation makes a manager use its files.
type activation struct {
	f       *Facet
	h       *inside.Host
	manager string
	changed []string // interfaces to set up again
	anew    bool     // some of them were deleted, to be created again
}

// services are the managers' units.
var services = map[string]string{
	Networkd: "systemd-networkd.service", NetworkManager: "NetworkManager.service", Ifupdown: "networking.service",
}

// active reports whether a manager runs. It does not during boot; then it reads its files when it starts.
func (f *Facet) active(ctx context.Context, h *inside.Host, manager string) bool {
	if manager == Netplan {
		return f.active(ctx, h, Networkd) || f.active(ctx, h, NetworkManager)
	}
	return f.succeeds(ctx, h, "systemctl", "is-active", "--quiet", services[manager])
}

// takeDown is for ifupdown. ifupdown can take an interface down only while its files still describe how it came up,
// and only under the name with which it came up.
func (a activation) takeDown(ctx context.Context, p *plan, m *machine) error {
	if a.manager != Ifupdown {
		return nil
	}
	names := slices.Clone(a.changed)
	for _, id := range p.after.names("ethernet") {
		if old := m.byMAC(p.after[id].MAC); old != "" && old != id && !slices.Contains(names, old) {
			names = append(names, old)
		}
	}
	return a.ifdown(ctx, m.now().sorted(names))
}

// ifdown takes interfaces down, last first.
func (a activation) ifdown(ctx context.Context, names []string) error {
	for _, id := range slices.Backward(names) {
		if !a.f.succeeds(ctx, a.h, "ifquery", "--state", id) {
			continue
		}
		if err := a.f.run(ctx, a.h, "ifdown", "--force", id); err != nil {
			return err
		}
	}
	return nil
}

// prepare does what managers do not do: it loads modules, renames interfaces, deletes interfaces that must be
// created again, and sets virtual functions.
func (a *activation) prepare(ctx context.Context, p *plan, m *machine) error {
	for kind, module := range map[string][]string{"bond": {"bonding", "max_bonds=0"}, "vlan": {"8021q"}} {
		if len(p.after.names(kind)) > 0 && !exists(a.h.Path("/sys/module/"+module[0])) {
			_ = a.f.run(ctx, a.h, "modprobe", module...) // on failure, whatever needs the module reports it
		}
	}
	for _, id := range p.after.names("ethernet") {
		if old := m.byMAC(p.after[id].MAC); old != "" && old != id {
			if err := a.rename(ctx, old, id); err != nil {
				return err
			}
		}
	}
	for _, id := range slices.Backward(inOrder(p.before.made())) {
		if err := a.leave(ctx, p, m, id); err != nil {
			return err
		}
	}
	for _, id := range slices.Backward(inOrder(p.after)) {
		if r := m.links[id]; r != nil && r.mustBeMadeAnew(p.after[id]) {
			if a.anew = true; !a.exists(id) {
				continue
			}
			if err := a.delete(ctx, deletion{id, becauseAnew}, p.ours(m)); err != nil {
				return err
			}
		}
	}
	for _, id := range p.after.names("bridge") {
		if err := a.spanningTree(ctx, id, m.links[id], p.after[id].STP); err != nil {
			return err
		}
	}
	if err := a.resetMTUs(ctx, p, m); err != nil {
		return err
	}
	for _, id := range p.after.names("ethernet") {
		if r, l := m.links[id], p.after[id]; r != nil && r.Functions != l.Functions && (l.Functions > 0 || p.before[id].Functions > 0) {
			if err := a.functions(id, r.Functions, l.Functions); err != nil {
				return err
			}
		}
	}
	return nil
}

// leave deletes a bond, bridge or VLAN that left the design. One that was there before the design had it stays, and a
// bridge gets its spanning tree setting back.
func (a activation) leave(ctx context.Context, p *plan, m *machine, id string) error {
	if _, stays := p.after[id]; stays || p.before[id].Kind == "ethernet" || !a.exists(id) {
		return nil
	}
	was, err := a.wasBefore(id)
	switch {
	case err != nil:
		return err
	case !was.There:
		return a.delete(ctx, deletion{id, becauseLeaves}, p.ours(m))
	case was.STP != nil:
		return a.spanningTree(ctx, id, m.links[id], *was.STP)
	}
	return nil
}

// delete deletes an interface that nobody else uses. Others may have begun to use it a moment ago.
func (a activation) delete(ctx context.Context, d deletion, ours links) error {
	if err := sparesOn(a.h, d, ours); err != nil {
		return err
	}
	return a.f.run(ctx, a.h, "ip", "link", "delete", "dev", d.id)
}

// exists reports whether an interface exists now: ifdown deletes what its files told it to create.
func (a activation) exists(id string) bool { return exists(a.h.Path("/sys/class/net/" + id)) }

// mustBeMadeAnew reports whether a virtual interface must be created again, because it cannot be changed as
// requested.
func (r *real) mustBeMadeAnew(l item.Link) bool {
	switch {
	case l.Kind == "ethernet":
		return false
	case r.Kind != l.Kind:
		return r.Kind != "ethernet"
	case l.Kind == "vlan":
		return r.VLAN != l.VLAN || r.Parent != l.Parent
	case l.Kind == "bond" && r.Bond != nil && l.Bond != nil:
		return r.as(l).Bond.Text() != l.Bond.Text()
	}
	return false
}

// spanningTree sets whether an existing bridge uses the spanning tree protocol. systemd-networkd sets this only
// when it creates a bridge, and creating it again would drop the ports of guests.
func (a activation) spanningTree(ctx context.Context, id string, is *real, on bool) error {
	if is == nil || is.Kind != "bridge" || is.STP == on || !a.exists(id) {
		return nil
	}
	return a.f.run(ctx, a.h, "ip", "link", "set", "dev", id, "type", "bridge", "stp_state", bit(on))
}

func (a activation) rename(ctx context.Context, from, to string) error {
	if err := a.f.run(ctx, a.h, "ip", "link", "set", "dev", from, "down"); err != nil {
		return err
	}
	return a.f.run(ctx, a.h, "ip", "link", "set", "dev", from, "name", to)
}

// functions sets the number of virtual functions. The kernel requires 0 between two other numbers.
func (a activation) functions(id string, from, to int) error {
	path := "/sys/class/net/" + id + "/device/sriov_numvfs"
	numbers := []int{to}
	if from > 0 && to > 0 {
		numbers = []int{0, to}
	}
	for _, n := range numbers {
		a.f.step(fmt.Sprintf("%s has %d virtual functions", id, n))
		if err := writeKernel(a.h.Path(path), strconv.Itoa(n)); err != nil {
			return fmt.Errorf("%s cannot have %d virtual functions: %w", id, n, err)
		}
	}
	return nil
}

// activate makes the manager use its files for the changed interfaces.
func (a activation) activate(ctx context.Context, all links) error {
	switch a.manager {
	case Networkd:
		return a.takeFiles(ctx)
	case Netplan:
		if err := a.f.run(ctx, a.h, "netplan", "apply"); err != nil || !a.anew || !a.f.active(ctx, a.h, Networkd) {
			return err
		}
		return a.takeFiles(ctx)
	case NetworkManager:
		return a.connections(ctx, all)
	}
	return a.ifup(ctx, all)
}

// takeFiles makes systemd-networkd use its files. Only a restart makes it read the file again of an interface that
// it has created, even after something else deleted the interface (networkctl(1), "reload").
func (a activation) takeFiles(ctx context.Context) error {
	switch {
	case !a.f.active(ctx, a.h, Networkd):
		return a.f.run(ctx, a.h, "systemctl", "start", services[Networkd])
	case a.anew:
		return a.f.run(ctx, a.h, "systemctl", "restart", services[Networkd])
	}
	if err := a.f.run(ctx, a.h, "networkctl", "reload"); err != nil {
		return err
	}
	return a.reconfigure(ctx)
}

// reconfigure makes systemd-networkd set up the existing interfaces again. It creates missing ones from their files
// by itself.
func (a activation) reconfigure(ctx context.Context) error {
	names := slices.DeleteFunc(slices.Clone(a.changed), func(id string) bool { return !a.exists(id) })
	if len(names) == 0 {
		return nil
	}
	return a.f.run(ctx, a.h, "networkctl", append([]string{"reconfigure"}, names...)...)
}

func (a activation) connections(ctx context.Context, all links) error {
	if err := a.f.run(ctx, a.h, "nmcli", "connection", "reload"); err != nil {
		return err
	}
	order := inOrder(all)
	rank := func(id string) int { // a bond must be up before its members
		return map[string]int{"bond": 0, "bridge": 0, "ethernet": 1, "vlan": 2}[all[id].Kind]
	}
	slices.SortStableFunc(order, func(x, y string) int { return rank(x) - rank(y) })
	for _, id := range order {
		if !slices.Contains(a.changed, id) {
			continue
		}
		if err := a.f.run(ctx, a.h, "nmcli", "--wait", "20", "connection", "up", "slipway-"+id); err != nil {
			return err
		}
	}
	for _, id := range a.gone(all) {
		_ = a.f.run(ctx, a.h, "nmcli", "--wait", "20", "device", "connect", id) // it may no longer have a profile
	}
	return nil
}

// gone are interfaces that left the design but still exist. Other files may set them up again.
func (a activation) gone(all links) []string {
	return slices.DeleteFunc(slices.Clone(a.changed), func(id string) bool {
		_, stays := all[id]
		return stays || !a.exists(id)
	})
}

func (a activation) ifup(ctx context.Context, all links) error {
	for _, id := range inOrder(all) {
		if !slices.Contains(a.changed, id) {
			continue
		}
		if err := a.f.run(ctx, a.h, "ifup", "--force", id); err != nil {
			return err
		}
	}
	for _, id := range a.changed { // also one that ifdown has deleted and other stanzas create
		if _, stays := all[id]; stays || !a.f.succeeds(ctx, a.h, "ifquery", id) {
			continue
		}
		if err := a.f.run(ctx, a.h, "ifup", "--force", id); err != nil {
			return err
		}
	}
	return nil
}

// backTo makes the interfaces match the restored files. It continues after an error, because each part restores
// something.
func (a activation) backTo(ctx context.Context, c *change, active bool) error {
	var troubles []error
	try := func(path string, args ...string) {
		troubles = append(troubles, a.f.run(ctx, a.h, path, args...))
	}
	if active && a.manager == Ifupdown { // its state file says which are up, but its files no longer say how
		for _, id := range c.Names {
			if a.exists(id) {
				_ = a.f.run(ctx, a.h, "ip", "address", "flush", "dev", id, "scope", "global") // the next look reports leftovers
			}
		}
	}
	troubles = append(troubles, a.unmake(ctx, c))
	for _, id := range slices.Backward(c.Anew) {
		if a.exists(id) {
			a.anew = true
			try("ip", "link", "delete", "dev", id)
		}
	}
	switch {
	case !active && a.manager == Netplan:
		try("netplan", "generate")
	case !active:
	case a.manager == Networkd:
		a.changed = present(c)
		troubles = append(troubles, a.takeFiles(ctx))
	case a.manager == Netplan:
		a.changed = present(c)
		troubles = append(troubles, a.activate(ctx, nil))
	case a.manager == NetworkManager:
		try("nmcli", "connection", "reload")
		for _, id := range present(c) {
			if a.exists(id) {
				_ = a.f.run(ctx, a.h, "nmcli", "--wait", "20", "device", "connect", id) // without a profile it is restored by hand
			}
		}
	case a.manager == Ifupdown:
		for _, id := range c.were().sorted(present(c)) {
			if a.f.succeeds(ctx, a.h, "ifquery", id) {
				try("ifup", "--force", id)
			}
		}
	}
	return errors.Join(troubles...)
}

// unmake removes the interfaces and names that a change created, and the ports that it added to bonds and bridges.
// No manager removes a port that its files do not mention.
func (a activation) unmake(ctx context.Context, c *change) (troubles error) {
	for _, id := range slices.Backward(c.Makes) {
		if a.exists(id) {
			troubles = errors.Join(troubles, a.f.run(ctx, a.h, "ip", "link", "delete", "dev", id))
		}
	}
	if m, err := a.f.tables.look(a.h); err == nil {
		for mac, old := range c.Renames {
			if is := m.byMAC(mac); is != "" && is != old {
				troubles = errors.Join(troubles, a.rename(ctx, is, old))
			}
		}
	}
	if m, err := a.f.tables.look(a.h); err == nil {
		for _, id := range slices.Sorted(maps.Keys(c.Kernel)) {
			if c.Kernel[id].Master == "" && m.master(id) != "" {
				troubles = errors.Join(troubles, a.f.run(ctx, a.h, "ip", "link", "set", "dev", id, "nomaster"))
			}
			if was := c.Kernel[id].STP; was != nil {
				troubles = errors.Join(troubles, a.spanningTree(ctx, id, m.links[id], *was))
			}
		}
	}
	return troubles
}

// byHand removes what a change gave to interfaces, without their manager. The caller then restores what they had.
func (a activation) byHand(ctx context.Context, c *change) error {
	troubles := a.unmake(ctx, c)
	m, err := a.f.tables.look(a.h)
	if err != nil {
		return errors.Join(troubles, err)
	}
	for _, id := range slices.Sorted(maps.Keys(c.Kernel)) {
		r, k := m.links[id], c.Kernel[id]
		if r == nil {
			continue
		}
		for _, route := range r.Routes {
			if !slices.Contains(k.Routes, route) {
				args := routeArguments(id, route)
				args[slices.Index(args, "replace")] = "delete"
				troubles = errors.Join(troubles, a.f.run(ctx, a.h, "ip", args...))
			}
		}
		for _, address := range without(r.Addresses, k.Shared) {
			if !slices.Contains(k.Addresses, address) {
				troubles = errors.Join(troubles, a.f.run(ctx, a.h, "ip", "address", "delete", address, "dev", id))
			}
		}
	}
	return troubles
}

// were are the earlier interfaces, only with how they depend on each other.
func (c *change) were() links {
	all := links{}
	for id, k := range c.Kernel {
		l := all[id]
		l.Parent = k.Parent
		all[id] = l
		if k.Master != "" {
			on := all[k.Master]
			on.Members = append(on.Members, id)
			all[k.Master] = on
		}
	}
	for id, l := range all {
		slices.Sort(l.Members)
		all[id] = l
	}
	return all
}

// present are the interfaces of a change under their earlier names.
func present(c *change) []string {
	names := slices.Clone(c.Names)
	for _, old := range c.Renames {
		names = append(names, old)
	}
	slices.Sort(names)
	names = slices.DeleteFunc(slices.Compact(names), func(id string) bool { return slices.Contains(c.Makes, id) })
	return names
}

// until polls whether a condition holds, for a limited time.
func (f *Facet) until(ctx context.Context, most time.Duration, so func() bool) bool {
	end := time.After(most)
	for !so() {
		select {
		case <-ctx.Done():
			return false
		case <-end:
			return false
		case <-time.After(100 * time.Millisecond):
		}
	}
	return true
}
