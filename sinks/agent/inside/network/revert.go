package network

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// reverted is the record of a reverted change, and of the state at that time.
type reverted struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
	Why  string    `json:"why"`
	Seen string    `json:"seen"`
	// Again says that the same change may be tried again, because it was not at fault.
	Again bool `json:"again,omitempty"`
}

// Text describes it for people.
func (r reverted) Text() string {
	return fmt.Sprintf("change %s of the network was reverted at %s: %s. Before that the interfaces were: %s", r.Name, r.At.UTC().Format(time.RFC3339), r.Why, r.Seen)
}

func readReverted(h *inside.Host) (r reverted, ok bool) {
	text, _, err := readFile(h, revertedFile)
	return r, err == nil && json.Unmarshal(text, &r) == nil
}

// Revert reverts an unconfirmed change of the network. The timer and the boot unit call it as `PROGRAM revert
// NAME`. If the change was confirmed, it only cleans up.
func Revert(ctx context.Context, h *inside.Host, name string) error {
	return standard().revert(ctx, h, name)
}

func (f *Facet) revert(ctx context.Context, h *inside.Host, name string) error {
	unlock, err := lock(ctx, h, lockWait)
	var busy *wire.Error
	isBusy := errors.As(err, &busy)
	if isBusy { // its program hangs, and the machine may be cut off
		unlock, err = func() {}, nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	c, err := readMarker(h)
	switch {
	case err != nil:
		return err
	case isBusy && c != nil && c.Undone:
		return busy // it is already being reverted; the timer fires again
	case c == nil && isBusy, c != nil && c.Name != name:
		return f.stopTimer(ctx, h, name) // a later change has its own ways back
	case c == nil:
		return errors.Join(f.forget(h), f.stopTimer(ctx, h, name))
	case c.Undone:
		return f.undo(ctx, h, c, c.Why, c.Again)
	}
	if !c.Armed { // nothing was touched yet
		return f.disarm(ctx, h, name)
	}
	if !c.Applied {
		return f.undo(ctx, h, c, cutShort, true)
	}
	return f.undo(ctx, h, c, unconfirmed, false)
}

// These are the reasons for a revert. With cutShort, the change is not at fault.
const (
	cutShort    = "the program that made it was ended in the middle"
	unwritten   = "the reason could not be recorded; the disk may have been full"
	unconfirmed = "nobody confirmed over a new connection that the machine can be reached"
)

// setBack reverts a change at once, because the machine's own checks failed.
func (f *Facet) setBack(ctx context.Context, h *inside.Host, c *change, why string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var later *wire.Error
	if err := f.undo(ctx, h, c, why, false); errors.As(err, &later) {
		return later
	} else if err != nil {
		return &wire.Error{Class: wire.Failed, Text: why + "; and setting the network back failed; trying again at the deadline: " + err.Error()}
	}
	return &wire.Error{Class: wire.Reverted, Text: "the network was set back: " + why}
}

// undo restores the files, the list of what Slipway made and the interfaces. It removes the marker last, so that an
// interrupted revert is repeated. It is also repeated, by the timer and at boot, if files or interfaces still
// differ from before.
func (f *Facet) undo(ctx context.Context, h *inside.Host, c *change, why string, again bool) error {
	m, err := f.tables.look(h)
	if err != nil {
		m = &machine{}
	}
	seen := m.summary(c.Names)
	c.keep(m)
	is, err := readMarker(h)
	switch {
	case err != nil:
		return err
	case is == nil || is.Name != c.Name:
		return nil // it was reverted meanwhile
	case is.Undone && !c.Undone:
		return &wire.Error{Class: wire.Busy, Text: fmt.Sprintf("change %s of the network is being set back already", c.Name)}
	}
	active := f.active(ctx, h, c.Manager)
	isBack := c.Undone && asBefore(h, c) && f.isBack(h, c, active) // but that could not be recorded
	if !c.Undone {
		c.Undone, c.Why, c.Again = true, why, again
	}
	c.Undos++
	f.step("the marker says undone")
	disk := writeMarker(h, c) // before the reserve is freed: without either, the reason would be lost
	f.step("give up the room")
	if disk = errors.Join(useRoom(h, c), disk); disk != nil {
		disk = writeMarker(h, c)
	}
	var files, troubles error
	if isBack {
		files = f.restoreOwned(h, c)
	} else {
		files, troubles = f.putBack(ctx, h, c, active, disk == nil)
	}
	if all := errors.Join(files, troubles); all != nil {
		why += "; while it was set back: " + all.Error()
	}
	if files != nil || troubles != nil && c.Undos < mostUndos && !f.isBack(h, c, active) {
		return f.undoLater(ctx, h, c, why)
	}
	if err := f.undone(ctx, h, c, reverted{c.Name, f.now(), why, seen, again}); err != nil {
		return f.undoLater(ctx, h, c, why+"; the network is as it was, and that could not be written down: "+err.Error())
	}
	return nil
}

// undone writes the record of a reverted change, and ends the change.
func (f *Facet) undone(ctx context.Context, h *inside.Host, c *change, r reverted) error {
	text, _ := json.Marshal(r)
	if err := f.write(h, write{revertedFile, text, 0o600}); err != nil {
		return err
	}
	for _, path := range []string{markerFile, bootLink, bootUnit} {
		if err := f.write(h, write{path: path}); err != nil {
			return err
		}
	}
	_ = f.stopTimer(ctx, h, c.Name) // it finds nothing to do and stops itself
	f.step("remove the saved trees")
	return removeSaved(h)
}

// putBack restores files, the list of what Slipway made, and interfaces. Its first error is about the disk. If the
// files cannot be restored, a manager would make the change again, so it restores the interfaces by hand. If
// nothing can be written, ifupdown takes nothing down, because it could not bring it up as before.
func (f *Facet) putBack(ctx context.Context, h *inside.Host, c *change, active, writable bool) (disk, troubles error) {
	a := activation{f: f, h: h, manager: c.Manager, changed: c.Names}
	if m, err := f.tables.look(h); err == nil && active && writable && c.Manager == Ifupdown { // its files must still say how interfaces came up
		_ = a.ifdown(ctx, m.now().sorted(c.Names)) // what stays up is flushed below
	}
	if active {
		_ = f.stop(ctx, h, c.Started) // the next look reports what still runs
	}
	files := f.restoreFiles(h, c)
	disk = errors.Join(files, f.restoreOwned(h, c))
	switch {
	case files == nil:
		troubles = a.backTo(ctx, c, active)
	case active:
		troubles = a.byHand(ctx, c)
	}
	troubles = errors.Join(troubles, f.start(ctx, h, c.Stopped))
	if active {
		troubles = errors.Join(troubles, f.restoreKernel(ctx, h, c))
	}
	return disk, troubles
}

// mostUndos bounds the reverts if interfaces do not become what they were. After that the files are restored, the
// record describes the problems, and another change is allowed.
const mostUndos = 10

// stopTimer stops the timer of a change, if it runs.
func (f *Facet) stopTimer(ctx context.Context, h *inside.Host, name string) error {
	if !f.succeeds(ctx, h, "systemctl", "is-active", "--quiet", timerUnit(name)+".timer") {
		return nil
	}
	return f.run(ctx, h, "systemctl", "stop", timerUnit(name)+".timer")
}

// isBack reports whether interfaces have their earlier state. If the manager does not run, only the manager's own
// success can tell.
func (f *Facet) isBack(h *inside.Host, c *change, active bool) bool {
	m, err := f.tables.look(h)
	if err != nil || !active || len(m.lost(c.Kernel)) > 0 || len(m.astray(c.Ports)) > 0 {
		return false
	}
	for id, k := range c.Kernel {
		r := m.links[id]
		if r == nil || slices.ContainsFunc(without(r.Addresses, k.Shared), func(a string) bool { return !slices.Contains(k.Addresses, a) }) {
			return false
		}
	}
	return !slices.ContainsFunc(c.Makes, func(id string) bool { return m.links[id] != nil })
}

// undoLater leaves both ways back armed, and always returns an error.
func (f *Facet) undoLater(ctx context.Context, h *inside.Host, c *change, why string) error {
	if !f.succeeds(ctx, h, "systemctl", "is-active", "--quiet", timerUnit(c.Name)+".timer") {
		program, err := f.executable()
		if err == nil {
			err = f.startTimer(ctx, h, c.Name, program, againAfter)
		}
		if err != nil {
			why += "; its timer could not be started: " + err.Error()
		}
	}
	return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("change %s of the network could not be set back; trying again every %s and when the machine starts: %s", c.Name, againAfter, why)}
}

// asBefore reports whether the files of a change match their earlier contents.
func asBefore(h *inside.Host, c *change) bool {
	return !slices.ContainsFunc(c.Paths, func(path string) bool {
		is, mode, err := readFile(h, path)
		was, wasMode, wasErr := readFile(h, folder(c.Name)+path)
		if errors.Is(wasErr, fs.ErrNotExist) {
			return !errors.Is(err, fs.ErrNotExist)
		}
		return err != nil || wasErr != nil || mode != wasMode || !bytes.Equal(is, was)
	})
}

// restoreFiles restores every file of a change that can be written. It stops at a missing copy, because the earlier
// content is unknown.
func (f *Facet) restoreFiles(h *inside.Host, c *change) error {
	var troubles error
	for _, path := range slices.Backward(c.Paths) {
		text, mode, err := readFile(h, folder(c.Name)+path)
		was := write{path, text, mode}
		switch {
		case errors.Is(err, fs.ErrNotExist) && slices.Contains(c.Absent, path):
			was = write{path: path}
		case err != nil:
			return errors.Join(troubles, err)
		case text == nil:
			was.content = []byte{}
		}
		troubles = errors.Join(troubles, f.write(h, was))
	}
	return troubles
}

// restoreOwned restores our entries in the list of what Slipway made.
func (f *Facet) restoreOwned(h *inside.Host, c *change) (err error) {
	if h.Owned, err = inside.LoadOwned(h.Root); err != nil {
		return err
	}
	for _, key := range h.Owned.Keys(name) {
		if _, was := c.Owned[key]; was {
			continue
		}
		f.step("drop " + key)
		if err := h.Owned.Drop(name, key); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Owned)) {
		was := c.Owned[key]
		if is, ours := h.Owned.Entry(name, key); ours && string(is.Made) == string(was.Made) {
			continue
		}
		f.step("take back " + key)
		if err := h.Owned.Take(name, key, was.Before); err != nil {
			return err
		}
		if err := h.Owned.Note(name, key, was.Made); err != nil {
			return err
		}
		if err := h.Owned.NoteAsked(name, []item.Item{askedFor(key, was.Asked)}); err != nil {
			return err
		}
	}
	return nil
}

// askedFor is an item with these field names. The list keeps only the names of what was requested.
func askedFor(key string, fields []string) item.Item {
	i := item.Item{Key: key, Fields: map[string]string{}}
	for _, field := range fields {
		i.Fields[field] = ""
	}
	return i
}

// restoreKernel waits for the configuration to restore addresses. It then restores by hand what no file knew about.
func (f *Facet) restoreKernel(ctx context.Context, h *inside.Host, c *change) error {
	lost := map[string]kept{}
	f.until(ctx, 5*time.Second, func() bool {
		m, err := f.tables.look(h)
		if err != nil {
			return true
		}
		lost = m.lost(c.Kernel)
		return len(lost) == 0
	})
	var troubles error
	for _, id := range slices.Sorted(maps.Keys(lost)) {
		k := lost[id]
		for _, args := range membership(id, k, c.Kernel[id].Up) {
			troubles = errors.Join(troubles, f.run(ctx, h, "ip", args...))
		}
		if k.Up {
			troubles = errors.Join(troubles, f.run(ctx, h, "ip", "link", "set", "dev", id, "up"))
		}
		if k.MTU != 0 {
			troubles = errors.Join(troubles, f.run(ctx, h, "ip", "link", "set", "dev", id, "mtu", fmt.Sprint(k.MTU)))
		}
		for _, a := range k.Addresses {
			troubles = errors.Join(troubles, f.run(ctx, h, "ip", "address", "replace", a, "dev", id))
		}
		for _, r := range k.Routes {
			troubles = errors.Join(troubles, f.run(ctx, h, "ip", routeArguments(id, r)...))
		}
	}
	return errors.Join(troubles, f.putOn(ctx, h, c.Ports))
}

// membership are the arguments of ip(8) that add an interface to its bond or bridge, which requires a port that is
// down.
func membership(id string, k kept, up bool) (all [][]string) {
	if k.Master == "" {
		return nil
	}
	all = [][]string{{"link", "set", "dev", id, "down"}, {"link", "set", "dev", id, "master", k.Master}}
	if up {
		all = append(all, []string{"link", "set", "dev", id, "up"})
	}
	return all
}

func routeArguments(id string, r item.Route) []string {
	args := []string{"route", "replace", r.To}
	if strings.Contains(r.To, ":") {
		args = append([]string{"-6"}, args...)
	}
	if r.Via != "" {
		args = append(args, "via", r.Via)
	}
	args = append(args, "dev", id)
	if r.Metric != 0 {
		args = append(args, "metric", fmt.Sprint(r.Metric))
	}
	return append(args, "proto", "static")
}

// lost is what interfaces had before and lack now.
func (m *machine) lost(before map[string]kept) map[string]kept {
	all := map[string]kept{}
	for id, k := range before {
		r := m.links[id]
		if r == nil {
			continue
		}
		has := append(slices.Clone(r.Addresses), r.hosts...)
		for _, p := range r.dynamic {
			has = append(has, p.String())
		}
		l := kept{
			Addresses: slices.DeleteFunc(slices.Clone(k.Addresses), func(a string) bool { return slices.Contains(has, a) }),
			Routes:    slices.DeleteFunc(slices.Clone(k.Routes), func(route item.Route) bool { return slices.Contains(r.Routes, route) }),
			Up:        k.Up && !r.up,
		}
		if k.MTU != r.MTU {
			l.MTU = k.MTU
		}
		if k.Master != "" && m.links[k.Master] != nil && m.master(id) != k.Master {
			l.Master = k.Master
		}
		if l.Master != "" || l.MTU != 0 || len(l.Addresses) > 0 || len(l.Routes) > 0 || l.Up {
			all[id] = l
		}
	}
	return all
}

// summary describes interfaces in one line.
func (m *machine) summary(names []string) string {
	var parts []string
	for _, id := range names {
		r := m.links[id]
		if r == nil {
			parts = append(parts, id+" not there")
			continue
		}
		text := id + map[bool]string{true: " with carrier", false: " without carrier"}[r.carrier]
		if l := item.List(append(slices.Clone(r.Addresses), r.hosts...)); l != "" {
			text += ", " + l
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

func isFour(p netip.Prefix) bool { return p.Addr().Is4() }
