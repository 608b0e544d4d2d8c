package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// Interfaces that neither the design nor an earlier change names belong to others, such as the taps of guests. They
// come and go. Slipway takes them out of bonds only, and deletes nothing that they are on.

// both are the interfaces before and after, with members that have no other settings.
func (p *plan) both() links {
	all := links{}
	maps.Copy(all, p.before.complete())
	maps.Copy(all, p.all)
	return all
}

// ours are the interfaces before and after, also by the names that they still have.
func (p *plan) ours(m *machine) links {
	all := p.both()
	for id, l := range maps.Clone(all) {
		if old := m.byMAC(l.MAC); old != "" && l.Kind == "ethernet" {
			all[old] = all[id]
		}
	}
	return all
}

// as is the kernel's state of an interface in terms of the settings. A bridge has only those ports that are ours.
func (m *machine) as(id string, made item.Link, ours links) item.Link {
	return withoutPorts(m.links[id].as(made), func(port string) bool { _, is := ours[port]; return !is })
}

// guessed is the kernel's state of an interface that Slipway did not set up. A bridge has no ports that something else
// than the system's settings makes, such as taps.
func (m *machine) guessed(id string, isNamed func(port string) bool) item.Link {
	return withoutPorts(m.links[id].guessed(), func(port string) bool {
		r := m.links[port]
		return r != nil && !r.hardware && r.Kind == "ethernet" && !isNamed(port)
	})
}

// withoutPorts removes ports from a bridge. A bond keeps them: each of its ports carries its traffic.
func withoutPorts(l item.Link, others func(port string) bool) item.Link {
	if l.Kind == "bridge" {
		l.Members = slices.DeleteFunc(slices.Clone(l.Members), others)
	}
	return l
}

// seeOthers reports the ports of others on a bridge of ours as a fact. People are told of hardware alone: guests come
// and go.
func (m *machine) seeOthers(seen *inside.Seen, id string, ours links) {
	var all, hardware []string
	for _, port := range m.links[id].Members {
		if _, is := ours[port]; is || m.links[id].Kind != "bridge" {
			continue
		}
		all = append(all, port)
		if r := m.links[port]; r != nil && r.hardware {
			hardware = append(hardware, port)
		}
	}
	if len(all) > 0 {
		seen.Have["facts."+id+".others"] = item.List(all)
	}
	if len(hardware) > 0 {
		told := "it also has the port " + item.List(hardware) + ", which the design does not put there: add it to the design, or take it out"
		if asked := seen.Have[item.Asked(id)]; asked != "" {
			told = asked + "; " + told
		}
		seen.Have[item.Asked(id)] = told
	}
}

// ports are the bonds and bridges of ours by their ports that belong to others; of some kinds only.
func (m *machine) ports(ours links, kinds ...string) map[string]string {
	all := map[string]string{}
	for id := range ours {
		r := m.links[id]
		if r == nil || !slices.Contains(kinds, r.Kind) {
			continue
		}
		for _, port := range r.Members {
			if _, is := ours[port]; !is {
				all[port] = id
			}
		}
	}
	return all
}

// astray are ports that are not on their bond or bridge any more, nor on another. A port that is gone is that of a
// guest that has ended.
func (m *machine) astray(ports map[string]string) (all []string) {
	for _, port := range slices.Sorted(maps.Keys(ports)) {
		if m.links[port] != nil && m.links[ports[port]] != nil && m.master(port) == "" {
			all = append(all, port)
		}
	}
	return all
}

// putOn puts ports back on their bonds and bridges, because no manager knows them.
func (f *Facet) putOn(ctx context.Context, h *inside.Host, ports map[string]string) (troubles error) {
	if len(ports) == 0 {
		return nil
	}
	m, err := f.tables.look(h)
	if err != nil {
		return err
	}
	for _, port := range m.astray(ports) {
		master := ports[port]
		ways := [][]string{{"link", "set", "dev", port, "master", master}}
		if m.links[master].Kind == "bond" {
			ways = membership(port, kept{Master: master}, m.links[port].up)
		}
		for _, args := range ways {
			troubles = errors.Join(troubles, f.run(ctx, h, "ip", args...))
		}
	}
	return troubles
}

// keep adds ports of others that are there now to those that a change must not lose, such as those of guests that were
// started meanwhile. What it made itself is deleted with all that is on it.
func (c *change) keep(m *machine) {
	ours := links{}
	for _, id := range slices.Concat(c.Names, slices.Collect(maps.Values(c.Renames))) {
		ours[id] = item.Link{}
	}
	for port, master := range m.ports(ours, "bond", "bridge") {
		if _, known := c.Ports[port]; known || slices.Contains(c.Makes, master) {
			continue
		}
		if c.Ports == nil {
			c.Ports = map[string]string{}
		}
		c.Ports[port] = master
	}
}

// others are what is on an interface now and belongs to others: ports of a bond or bridge, VLANs, and the bond or
// bridge that it is a port of.
func others(h *inside.Host, id string, ours links) (all []string) {
	folder := h.Path("/sys/class/net/" + id)
	on := readLink(folder).Members
	uppers, _ := filepath.Glob(filepath.Join(folder, "upper_*")) // the names of interfaces are no patterns
	for _, at := range uppers {
		on = append(on, strings.TrimPrefix(filepath.Base(at), "upper_"))
	}
	for _, name := range on {
		if _, is := ours[name]; !is && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// deletion is an interface that a plan deletes, and why.
type deletion struct{ id, why string }

const (
	becauseLeaves   = "it leaves the design"
	becauseAnew     = "it has to be created again to become as designed"
	becauseIfupdown = "ifupdown deletes and creates it at each change"
)

// deletions are the existing interfaces that a plan deletes, if only to create them again.
func (f *Facet) deletions(ctx context.Context, h *inside.Host, p *plan, m *machine) (all []deletion, err error) {
	ours := p.ours(m)
	changed := m.changed(p)
	stops := slices.Contains(p.stops, services[Ifupdown])
	for _, id := range slices.Sorted(maps.Keys(ours)) {
		r := m.links[id]
		if r == nil || r.Kind == "ethernet" {
			continue
		}
		a := activation{f: f, h: h}
		leaves, err := a.isOursToDelete(p, id)
		if err != nil {
			return nil, err
		}
		l, stays := p.after[id]
		byIfupdown := p.manager == Ifupdown && slices.Contains(changed, id) || stops
		switch {
		case leaves:
			all = append(all, deletion{id, becauseLeaves})
		case stays && r.mustBeMadeAnew(l):
			all = append(all, deletion{id, becauseAnew})
		case byIfupdown && f.succeeds(ctx, h, "ifquery", "--state", id):
			all = append(all, deletion{id, becauseIfupdown})
		}
	}
	return all, nil
}

// isOursToDelete reports whether a bond, bridge or VLAN leaves the design and was not there before the design had it.
func (a activation) isOursToDelete(p *plan, id string) (bool, error) {
	l, before := p.before[id]
	if _, stays := p.after[id]; stays || !before || l.Kind == "ethernet" || l.Kind == "" {
		return false, nil
	}
	was, err := a.wasBefore(id)
	return !was.There, err
}

// spares refuses a plan that deletes what belongs to others, or what carries it.
func (f *Facet) spares(ctx context.Context, h *inside.Host, p *plan, m *machine) error {
	for _, id := range p.after.names() {
		if _, before := p.before[id]; !before && m.links[id] != nil && m.links[id].Kind != p.after[id].Kind && m.links[id].mustBeMadeAnew(p.after[id]) {
			return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(
				"this machine has a %s %s that Slipway did not make, and the design has a %s of that name: nothing was changed. Give one of the two another name, or delete the machine's",
				m.links[id].Kind, id, p.after[id].Kind)}
		}
	}
	all, err := f.deletions(ctx, h, p, m)
	if err != nil {
		return err
	}
	for _, d := range all {
		if err := sparesOn(h, d, p.ours(m)); err != nil {
			return err
		}
	}
	return nil
}

// mostNamed is how many interfaces of others a refusal names.
const mostNamed = 10

// sparesOn refuses to delete an interface that carries others.
func sparesOn(h *inside.Host, d deletion, ours links) error {
	on := others(h, d.id, ours)
	if len(on) == 0 {
		return nil
	}
	text := strings.Join(on[:min(len(on), mostNamed)], ", ")
	if more := len(on) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(
		"the change deletes %s (%s), and interfaces are attached to it that nobody designed: %s. They would lose their network. "+
			"Stop or move what uses them, such as guests, or leave %s in the design as it is", d.id, d.why, text, d.id)}
}
