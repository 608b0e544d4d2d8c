// Package network applies the designed interfaces to a system: addresses, routes, bonds, bridges and VLANs, in the
// configuration of the system's network manager. No change cuts a machine off permanently: it is reverted unless it
// is confirmed over a new connection (see change).
package network

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// name is the facet's name in the list of what Slipway made.
const name = "network"

// Facet observes and applies interfaces.
type Facet struct {
	// Deadline is how long a change waits for Confirm, counted from before it begins.
	Deadline time.Duration

	tables     tables
	answers    func(ctx context.Context, h *inside.Host, a netip.Addr) bool
	holder     func(ctx context.Context, h *inside.Host, name string, a netip.Addr) string
	executable func() (string, error)
	now        func() time.Time
	// step is called before everything that changes the system. Tests interrupt there.
	step func(what string)
}

// New makes the facet with a deadline of a minute.
func New() inside.Facet { return standard() }

func standard() *Facet {
	return &Facet{
		Deadline:   time.Minute,
		tables:     tables{readAddresses, readRoutes, readUses, readLargest},
		answers:    answers,
		holder:     holder,
		executable: os.Executable,
		now:        time.Now,
		step:       func(string) {},
	}
}

// Observe reports the kernel's state of interfaces, and whether our files are unchanged.
func (f *Facet) Observe(_ context.Context, h *inside.Host, keys []string) (inside.Seen, error) {
	seen := inside.Seen{Have: map[string]string{}, Unread: map[string]string{}, Cannot: map[string]string{}}
	if r, ok := readReverted(h); ok {
		seen.Have["facts.reverted"] = r.Text()
	}
	made, err := ownedLinks(h)
	if err != nil || len(keys) == 0 && len(made) == 0 { // the managers do not matter then
		return seen, err
	}
	manager := Manager(h)
	touched := changedFiles(h, manager, made)
	others := map[string]string{} // managers that also set up an interface
	if all, err := rivals(h, manager, designed(keys, made)); err == nil {
		for _, r := range all {
			for _, id := range r.ours {
				others[id] = r.manager
			}
			slices.Sort(r.ours)
			seen.Have[item.KindManagers+"."+r.manager] = "enabled, sets up " + strings.Join(r.ours, ", ")
		}
	}
	ours := designed(keys, made).complete()
	var m *machine
	if h.Live {
		if m, err = f.tables.look(h); err != nil {
			m = nil
		}
	}
	for _, key := range keys {
		id := item.ID(key)
		if manager == "" {
			seen.Cannot[key] = "Slipway sets up networks through systemd-networkd, netplan, NetworkManager or ifupdown, and this system has none of them enabled."
		}
		switch {
		case !h.Live:
			told(&seen, key, asDesigned(made[id]).Fields(), touched, others[id])
		case m == nil:
			seen.Unread[key] = "the interfaces could not be read: " + err.Error()
		case m.links[id] != nil:
			told(&seen, key, m.fields(id, made, ours), touched, others[id])
			for field, why := range m.unread {
				delete(seen.Have, item.Name(key, field))
				seen.Unread[item.Name(key, field)] = why
			}
			if l := made[id]; l.Kind != "" && m.master(id) == "" { // a member leaves that to its bond or bridge
				m.links[id].asked(&seen, id, l, m.unread["addresses"] == "")
			}
			leased(&seen, id, m.links[id])
			if made[id].Kind != "" {
				m.seeOthers(&seen, id, ours)
			}
		}
		if h.Live && m != nil {
			m.seeNames(h, &seen, id, manager, made)
			seeClient(h, &seen, id, manager)
		}
		if m != nil {
			m.seePort(h, &seen, key, made[id])
		}
	}
	return seen, nil
}

// asDesigned is an interface as in the design: an interface that is found by its PCI address has no MAC address
// there.
func asDesigned(l item.Link) item.Link {
	if l.PCI != "" {
		l.MAC = ""
	}
	return l
}

// designed are the observed interfaces, with their settings if known.
func designed(keys []string, made links) links {
	all := maps.Clone(made)
	for _, key := range keys {
		if _, known := all[item.ID(key)]; !known {
			all[item.ID(key)] = item.Link{}
		}
	}
	return all
}

// told adds the fields of an item to what was seen. If somebody changed the files for the next boot, or another
// manager sets it up differently then, the item does not count as unchanged.
func told(seen *inside.Seen, key string, fields map[string]string, touched []string, other string) {
	for field, text := range fields {
		if text == "" {
			continue
		}
		if field == "kind" && len(touched) > 0 {
			text += ", but somebody changed " + strings.Join(touched, ", ")
		}
		if field == "kind" && other != "" {
			text += ", but " + other + " is enabled and sets it up too"
		}
		seen.Have[item.Name(key, field)] = text
	}
}

// fields are the kernel's values of an interface.
func (m *machine) fields(id string, made, ours links) map[string]string {
	if l, is := made[id]; is {
		return m.as(id, l, ours).Fields()
	}
	return m.guessed(id, func(port string) bool { _, is := ours[port]; return is }).Fields()
}

// leased reports the addresses that leases and advertisements gave to an interface.
func leased(seen *inside.Seen, id string, r *real) {
	var dynamic []string
	for _, p := range r.dynamic {
		dynamic = append(dynamic, p.String())
	}
	if len(dynamic) > 0 {
		seen.Have["facts."+id+".leased"] = item.List(dynamic)
	}
}

// ownedLinks are the interfaces that Slipway made, with their settings. After an interrupted change an interface
// has no kind.
func ownedLinks(h *inside.Host) (links, error) {
	all := links{}
	for _, key := range h.Owned.Keys(name) {
		if item.Kind(key) != item.KindLinks {
			continue
		}
		e, _ := h.Owned.Entry(name, key)
		var l item.Link
		if len(e.Made) > 0 {
			if err := json.Unmarshal(e.Made, &l); err != nil {
				return nil, fmt.Errorf("the list of what Slipway made: %s: %w", key, err)
			}
		}
		all[item.ID(key)] = l
	}
	return all, nil
}

// made are the interfaces that were completed.
func (all links) made() links {
	whole := maps.Clone(all)
	maps.DeleteFunc(whole, func(_ string, l item.Link) bool { return l.Kind == "" })
	return whole
}

// changedFiles are our files whose contents have changed.
func changedFiles(h *inside.Host, manager string, made links) []string {
	var touched []string
	for path, f := range render(manager, made.made()) {
		text, err := os.ReadFile(h.Path(path))
		if err != nil || string(text) != f.text {
			touched = append(touched, path)
		}
	}
	slices.Sort(touched)
	return touched
}

// Apply makes interfaces match the request. On a running system it returns before the change is confirmed: see
// Unconfirmed.
func (f *Facet) Apply(ctx context.Context, h *inside.Host, items []item.Item, remove []string) error {
	unlock, err := lock(ctx, h, lockWait)
	if err != nil {
		return err
	}
	defer unlock()
	p, err := f.plan(h, items, remove)
	if err != nil {
		return err
	}
	if !h.Live {
		return f.applyFiles(h, p)
	}
	if waits, err := f.settle(ctx, h, p.name); err != nil || waits {
		return err
	}
	if p, err = f.plan(h, items, remove); err != nil { // settle may have restored files
		return err
	}
	return f.guarded(ctx, h, p)
}

// asked are all interfaces before and after: the owned ones and the requested ones, without those to remove.
func asked(h *inside.Host, items []item.Item, remove []string) (before, after links, err error) {
	if before, err = ownedLinks(h); err != nil {
		return nil, nil, err
	}
	after = maps.Clone(before.made())
	for _, key := range remove {
		delete(after, item.ID(key))
	}
	for _, i := range items {
		var l item.Link
		d := json.NewDecoder(bytes.NewReader(i.Body))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil || item.Kind(i.Key) != item.KindLinks {
			return nil, nil, &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("the item %q is not an interface that this program knows: %v", i.Key, err)}
		}
		after[item.ID(i.Key)] = l
	}
	return before, after, after.validate()
}

// digest identifies a state of all interfaces.
func digest(manager string, all links) string {
	text, _ := json.Marshal(struct {
		Manager string
		Links   links
	}{manager, all})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// applyFiles writes the files on a system that does not run.
func (f *Facet) applyFiles(h *inside.Host, p *plan) error {
	if err := f.own(h, p, nil); err != nil {
		return err
	}
	for _, w := range p.writes {
		if err := f.write(h, w); err != nil {
			return err
		}
	}
	return f.note(h, p)
}

// own takes ownership of a plan's interfaces before anything is written. The machine is nil on a system that does not
// run.
func (f *Facet) own(h *inside.Host, p *plan, m *machine) error {
	for _, id := range p.after.names() {
		before, _ := json.Marshal(p.priorOf(h, m, id))
		f.step("own " + id)
		if err := h.Owned.Take(name, item.KindLinks+"."+id, before); err != nil {
			return err
		}
	}
	return nil
}

// note records the settings of the interfaces, and forgets those that are gone.
func (f *Facet) note(h *inside.Host, p *plan) error {
	for _, id := range p.after.names() {
		f.step("note " + id)
		text, _ := json.Marshal(p.after[id])
		if err := h.Owned.Note(name, item.KindLinks+"."+id, text); err != nil {
			return err
		}
	}
	for id := range p.before {
		if _, stays := p.after[id]; !stays {
			f.step("drop " + id)
			if err := h.Owned.Drop(name, item.KindLinks+"."+id); err != nil {
				return err
			}
		}
	}
	return nil
}

// run runs a program that changes something. A nonzero exit code is an error with its last lines.
func (f *Facet) run(ctx context.Context, h *inside.Host, path string, args ...string) error {
	f.step(path + " " + strings.Join(args, " "))
	out, err := h.Exec(ctx, inside.Command{Path: path, Args: args, Timeout: 30 * time.Second})
	if err != nil {
		return &wire.Error{Class: wire.Failed, Text: err.Error()}
	}
	if out.Code != 0 {
		return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("%s %s ended with code %d: %s", path, strings.Join(args, " "), out.Code, lastLines(out))}
	}
	return nil
}

// lastLines are the last lines of a program's output, for people.
func lastLines(out inside.Output) string {
	text := inside.Said(append(slices.Clone(out.Out), out.Err...))
	text = text[max(0, len(text)-2000):]
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-5):]
	for i := range lines {
		lines[i] = printable([]byte(lines[i]))
	}
	return strings.Join(lines, "; ")
}

// write does one write of a plan, and skips it if it is already done.
func (f *Facet) write(h *inside.Host, w write) error {
	now, mode, err := readFile(h, w.path)
	gone := errors.Is(err, fs.ErrNotExist)
	if err != nil && !gone {
		return err
	}
	if w.content == nil {
		if gone {
			return nil
		}
		f.step("remove " + w.path)
		return removeFile(h, w.path)
	}
	if !gone && bytes.Equal(now, w.content) && mode == w.mode {
		return nil
	}
	f.step("write " + w.path)
	return writeFile(h, w.path, w.content, w.mode)
}
