package network

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// change is an unconfirmed change of the network, as stored in the marker. While the marker exists, a timer and a
// boot unit restore the earlier network, whatever happens to this program, its connection or the machine's power.
// Both exist before the first configuration file is touched. Removing the marker makes the change permanent.
type change struct {
	Name    string    `json:"name"`
	Manager string    `json:"manager"`
	Until   time.Time `json:"until"`
	// Armed says that both ways back are ready. Nothing is touched before.
	Armed bool `json:"armed"`
	// Room says that disk space for the way back is reserved. The reserve exists until the way back begins.
	Room bool `json:"room,omitempty"`
	// Applied says that the machine's own checks have passed.
	Applied bool `json:"applied"`
	// Undone says that the revert has begun, so nobody can confirm the change any more. Why and Again go into the
	// record of the revert. Undos counts its tries.
	Undone bool   `json:"undone,omitempty"`
	Why    string `json:"why,omitempty"`
	Again  bool   `json:"again,omitempty"`
	Undos  int    `json:"undos,omitempty"`
	// Paths are the files to write. Their earlier contents are in the folder of the change.
	Paths []string `json:"paths"`
	// Absent are the paths that did not exist before.
	Absent []string `json:"absent,omitempty"`
	// Names are the interfaces that are set up, before or after.
	Names []string `json:"names"`
	// Makes are interfaces that did not exist before.
	Makes []string `json:"makes,omitempty"`
	// Anew are the interfaces that the change deletes and creates again, because they cannot be changed as
	// requested. The revert must create them again too.
	Anew []string `json:"anew,omitempty"`
	// Renames are the earlier names by MAC address.
	Renames map[string]string `json:"renames,omitempty"`
	// Stopped are units of other managers that ran before. Started are those that did not.
	Stopped []string `json:"stopped,omitempty"`
	Started []string `json:"started,omitempty"`
	// Owned is the earlier list of what Slipway made.
	Owned map[string]inside.Entry `json:"owned"`
	// Kernel is the earlier kernel state of interfaces, to be restored if no configuration does.
	Kernel map[string]kept `json:"kernel"`
	// Ports are the bonds and bridges by their ports that belong to others, which no configuration restores.
	Ports map[string]string `json:"ports,omitempty"`
}

// kept is the earlier state of an interface.
type kept struct {
	Addresses []string     `json:"addresses,omitempty"`
	Routes    []item.Route `json:"routes,omitempty"`
	Up        bool         `json:"up,omitempty"`
	MTU       int          `json:"mtu,omitempty"`
	// Shared are addresses that may come and go meanwhile.
	Shared []string `json:"shared,omitempty"`
	// Master is its bond or bridge. Parent is the interface under a VLAN.
	Master string `json:"master,omitempty"`
	Parent string `json:"parent,omitempty"`
	// STP reports whether a bridge used the spanning tree protocol; nil for other interfaces.
	STP *bool `json:"stp,omitempty"`
}

// These are the files of a change. The link makes the unit start at boot.
const (
	markerFile   = inside.Folder + "/network-unconfirmed"
	revertedFile = inside.Folder + "/reverted"
	lockFile     = inside.Folder + "/network.lock"
	bootUnit     = "/etc/systemd/system/slipway-network-revert.service"
	bootLink     = "/etc/systemd/system/sysinit.target.wants/slipway-network-revert.service"
)

// lockWait is how long a change waits for another one to end. A revert waits no longer for the program whose change
// it reverts.
const lockWait = 10 * time.Second

func folder(name string) string { return inside.Folder + "/network-before-" + name }

func timerUnit(name string) string { return "slipway-revert-" + name }

// settle ends an earlier unconfirmed change. If the earlier change is the requested one, it reports that this
// change waits for its confirmation.
func (f *Facet) settle(ctx context.Context, h *inside.Host, asked string) (waits bool, err error) {
	c, err := readMarker(h)
	switch {
	case err != nil || c == nil:
		return false, err
	case !c.Armed: // nothing was touched
		return false, f.disarm(ctx, h, c.Name)
	case c.Undone:
		return false, f.undo(ctx, h, c, c.Why, c.Again)
	case !c.Applied: // its program is dead, because this program holds the lock
		return false, f.undo(ctx, h, c, cutShort, true)
	case !f.succeeds(ctx, h, "systemctl", "is-active", "--quiet", timerUnit(c.Name)+".timer"):
		return false, f.setBack(ctx, h, c, "nobody confirmed it, and its timer is gone")
	case c.Name == asked:
		return true, nil
	}
	return false, &wire.Error{Class: wire.Busy, Text: fmt.Sprintf("change %s of the network is not confirmed yet; it is reverted at %s", c.Name, c.Until.Format(time.TimeOnly))}
}

// guarded carries out a plan on a running system, with both ways back armed.
func (f *Facet) guarded(ctx context.Context, h *inside.Host, p *plan) error {
	m, err := f.tables.look(h)
	if err != nil {
		return &wire.Error{Class: wire.Failed, Text: "the interfaces cannot be read: " + err.Error()}
	}
	if p.done(m) {
		return f.forget(h)
	}
	if r, ok := readReverted(h); ok && r.Name == p.name && !r.Again && !h.Again {
		return &wire.Error{Class: wire.Refused, Text: r.Text() + ". Change the design, or run `slipway retry NODE` to make the same change once more"}
	}
	if err := m.missing(p.after); err != nil {
		return err
	}
	if err := f.spares(ctx, h, p, m); err != nil {
		return err
	}
	if err := f.leavesToIfupdown(ctx, h, p, m); err != nil {
		return err
	}
	if whose := f.taken(ctx, h, m, m, p.after); whose != "" {
		return &wire.Error{Class: wire.Refused, Text: whose + ": nothing was changed. Give the node another address in the design, or take it from that machine"}
	}

	answered := f.reached(ctx, h, m)

	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE) // the connection may be lost, but the change must be finished
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.Deadline-f.Deadline/10)
	defer cancel()
	c := f.newChange(h, p, m)
	for _, unit := range p.stops {
		if f.succeeds(ctx, h, "systemctl", "is-active", "--quiet", unit) {
			c.Stopped = append(c.Stopped, unit)
		}
	}
	c.Started = p.starts
	if err := f.arm(ctx, h, c); err != nil {
		return err
	}
	h.Tell(fmt.Sprintf("changes the network; without a confirmation it is set back at %s", c.Until.Format(time.TimeOnly)))
	if err := f.carryOut(ctx, h, p, m, answered); err != nil {
		return f.setBack(ctx, h, c, err.Error())
	}
	c.Applied = true
	f.step("the marker says applied")
	return writeMarker(h, c)
}

// newChange records what a plan changes, and the state before.
func (f *Facet) newChange(h *inside.Host, p *plan, m *machine) *change {
	c := &change{Name: p.name, Manager: p.manager, Until: f.now().Add(f.Deadline), Renames: map[string]string{}, Owned: map[string]inside.Entry{}, Kernel: map[string]kept{}}
	for _, w := range p.writes {
		c.Paths = append(c.Paths, w.path)
	}
	for _, key := range h.Owned.Keys(name) {
		c.Owned[key], _ = h.Owned.Entry(name, key)
	}
	both := p.both()
	c.Names = both.names()
	for _, id := range c.Names {
		if l := both[id]; m.links[id] == nil && l.Kind != "ethernet" {
			c.Makes = append(c.Makes, id)
		}
		if l, r := p.after[id], m.links[id]; r != nil && l.Kind != "" && r.mustBeMadeAnew(l) {
			c.Anew = append(c.Anew, id)
		}
		if old := m.byMAC(both[id].MAC); old != "" && old != id {
			c.Renames[strings.ToLower(both[id].MAC)] = old
		}
	}
	for id, r := range m.links {
		if !slices.Contains(c.Names, id) && !slices.Contains(slices.Collect(maps.Values(c.Renames)), id) {
			continue // it belongs to others, such as a container, and may come and go
		}
		// A shared address may have moved to another machine before this one is reverted.
		shared := append(slices.Clone(p.before[id].Shared), both[id].Shared...)
		addresses := without(append(slices.Clone(r.Addresses), r.hosts...), shared)
		c.Kernel[id] = kept{addresses, r.Routes, r.up, r.MTU, shared, m.master(id), r.Parent, r.spanningTree()}
	}
	c.keep(m)
	return c
}

// carryOut carries out the plan and runs the machine's own checks.
func (f *Facet) carryOut(ctx context.Context, h *inside.Host, p *plan, m *machine, answered []item.Target) error {
	before := f.gateways(ctx, h, m, p.after)
	if err := f.own(h, p, m); err != nil {
		return err
	}
	a := activation{f: f, h: h, manager: p.manager, changed: m.changed(p)}
	if err := a.takeDown(ctx, p, m); err != nil {
		return err
	}
	if len(p.stops) > 0 {
		a.changed = p.all.names() // stopping the other manager may take any of them down
		if err := f.stop(ctx, h, p.stops); err != nil {
			return err
		}
	}
	for _, w := range p.writes {
		if err := f.write(h, w); err != nil {
			return err
		}
	}
	if err := a.prepare(ctx, p, m); err != nil {
		return err
	}
	if err := a.activate(ctx, p.all); err != nil {
		return err
	}
	if err := a.release(ctx, p); err != nil {
		return err
	}
	if err := f.putOn(ctx, h, m.ports(p.ours(m), "bridge")); err != nil { // NetworkManager drops them with a bridge that it sets up again
		return err
	}
	if err := f.start(ctx, h, p.starts); err != nil {
		return err
	}
	if err := f.note(h, p); err != nil {
		return err
	}
	if err := f.prove(ctx, h, p, m, before); err != nil {
		return err
	}
	return f.stillReached(ctx, h, answered)
}

// changed are the interfaces that a plan changes.
func (m *machine) changed(p *plan) (names []string) {
	both := p.both()
	differ := m.differs(p.after, both)
	for _, id := range both.names() {
		_, kernel := differ[id]
		was, before := p.before[id]
		is, after := p.after[id]
		was.Shared, is.Shared = nil, nil // nothing is configured for them
		moved := p.before.master(id) != p.after.master(id)
		if kernel || before != after || moved || !equal(was, is) || len(p.writes) > 0 && p.manager == Netplan {
			names = append(names, id)
		}
	}
	if p.manager == Ifupdown {
		return both.goWith(names)
	}
	return names
}

// goWith adds the interfaces that go down with those that ifupdown deletes and creates again: the ports of a bond
// or bridge, which would no longer be in it, and the VLANs on an interface.
func (all links) goWith(names []string) []string {
	names = slices.Clone(names)
	for more := true; more; {
		more = false
		for _, id := range all.names() {
			goes := func(on string) bool { return on != "" && slices.Contains(names, on) }
			if (goes(all.master(id)) || goes(all[id].Parent)) && !slices.Contains(names, id) {
				names, more = append(names, id), true
			}
		}
	}
	slices.Sort(names)
	return names
}

// Unconfirmed returns the change that waits for Confirm, and the seconds left. The name is empty if there is none.
func (f *Facet) Unconfirmed(h *inside.Host) (name string, seconds int) {
	c, err := readMarker(h)
	if err != nil || c == nil || !c.Applied || c.Undone {
		return "", 0
	}
	return c.Name, f.left(c)
}

// CutShort reports whether a change will be reverted because its program was ended, and the seconds until then. It
// also reports this while that program still runs.
func (f *Facet) CutShort(h *inside.Host) (seconds int, is bool) {
	c, err := readMarker(h)
	if err != nil || c == nil || !c.Armed || c.Applied || c.Undone {
		return 0, false
	}
	seconds = f.left(c)
	return seconds, seconds > 0 // later nothing may be left to revert it, and the next change does
}

// left is the seconds that a change still waits. The clock may have been set meanwhile.
func (f *Facet) left(c *change) int {
	return max(int(min(c.Until.Sub(f.now()), f.Deadline).Seconds()), 0)
}

// Confirm makes a change permanent. Only a caller over a new connection may use it.
func (f *Facet) Confirm(ctx context.Context, h *inside.Host, name string) error {
	unlock, err := lock(ctx, h, lockWait)
	if err != nil {
		return err
	}
	defer unlock()
	c, err := readMarker(h)
	switch {
	case err != nil:
		return err
	case c == nil:
		if r, ok := readReverted(h); ok && r.Name == name {
			return &wire.Error{Class: wire.Reverted, Text: r.Text()}
		}
		return f.disarm(ctx, h, name) // it was confirmed before, but that was interrupted
	case c.Name != name:
		return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("the change that waits is %s, not %s", c.Name, printable([]byte(name)))}
	case c.Undone:
		return &wire.Error{Class: wire.Reverted, Text: fmt.Sprintf("change %s of the network is being set back already; nobody confirmed it in time", c.Name)}
	case !c.Applied:
		return &wire.Error{Class: wire.Busy, Text: fmt.Sprintf("change %s of the network is not done yet", c.Name)}
	}
	if err := f.write(h, write{path: revertedFile}); err != nil { // after the marker is gone, this file would say that the change was reverted
		return err
	}
	return f.disarm(ctx, h, name)
}

// disarm removes the marker first. After that nothing reverts the network.
func (f *Facet) disarm(ctx context.Context, h *inside.Host, name string) error {
	for _, path := range []string{markerFile, bootLink, bootUnit} {
		if err := f.write(h, write{path: path}); err != nil {
			return err
		}
	}
	if f.succeeds(ctx, h, "systemctl", "is-active", "--quiet", timerUnit(name)+".timer") {
		if err := f.run(ctx, h, "systemctl", "stop", timerUnit(name)+".timer"); err != nil {
			return err
		}
	}
	f.step("remove the saved trees")
	return removeSaved(h)
}

// removeSaved removes the saved trees of all changes.
func removeSaved(h *inside.Host) error {
	found, err := filepath.Glob(h.Path(folder("*")))
	if err != nil {
		return err
	}
	for _, at := range found {
		if err := os.RemoveAll(at); err != nil {
			return err
		}
	}
	return nil
}

// forget removes leftovers of a finished change whose cleanup was interrupted.
func (f *Facet) forget(h *inside.Host) error {
	for _, path := range []string{bootLink, bootUnit} {
		if err := f.write(h, write{path: path}); err != nil {
			return err
		}
	}
	if found, err := filepath.Glob(h.Path(folder("*"))); err == nil && len(found) > 0 {
		f.step("remove the saved trees")
		return removeSaved(h)
	}
	return nil
}

func (f *Facet) succeeds(ctx context.Context, h *inside.Host, path string, args ...string) bool {
	out, err := h.Exec(ctx, inside.Command{Path: path, Args: args, Timeout: 10 * time.Second})
	return err == nil && out.Code == 0
}
