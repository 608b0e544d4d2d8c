package network

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// done reports whether the system already matches the plan.
func (p *plan) done(m *machine) bool {
	return len(p.writes) == 0 && maps.EqualFunc(p.before, p.after, equal) && len(m.differs(p.after, p.both())) == 0
}

func equal(a, b item.Link) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// differs are the interfaces whose kernel state differs from the wanted state, each with what is missing. Ports of a
// bridge that are not ours do not count.
func (m *machine) differs(all, ours links) map[string]string {
	why := map[string]string{}
	for _, name := range all.names() {
		l := all[name]
		r := m.links[name]
		if r == nil {
			why[name] = "it is not there"
			continue
		}
		have, want := m.as(name, l, ours).Fields(), l.Fields()
		for _, field := range slices.Sorted(maps.Keys(want)) {
			if have[field] != want[field] {
				why[name] = fmt.Sprintf("%s: %q instead of %q", field, have[field], want[field])
			}
		}
		for _, field := range slices.Sorted(maps.Keys(have)) {
			if _, wanted := want[field]; !wanted {
				why[name] = fmt.Sprintf("%s: %q, which nobody asked for", field, have[field])
			}
		}
		if l.DHCP4 && !slices.ContainsFunc(r.dynamic, isFour) && why[name] == "" && all.master(name) == "" {
			why[name] = "it has no lease"
		}
	}
	return why
}

// missing refuses interfaces that this machine does not have and that nothing creates.
func (m *machine) missing(all links) error {
	for _, name := range all.names("ethernet") {
		if m.links[name] != nil || m.byMAC(all[name].MAC) != "" {
			continue
		}
		return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("this machine has no interface %s; it has %s", name, strings.Join(slices.Sorted(maps.Keys(m.links)), ", "))}
	}
	for _, name := range all.names() {
		l := all[name]
		if _, designed := all[l.Parent]; l.Parent != "" && !designed {
			return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("%s is a VLAN of %s, which must be in the design too", name, l.Parent)}
		}
		for _, part := range l.Members {
			if _, designed := all[part]; !designed && m.links[part] == nil {
				return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("%s needs the interface %s, which neither this machine nor its design has", name, part)}
			}
		}
	}
	return nil
}

func (m *machine) byMAC(mac string) string {
	if mac == "" {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(m.links)) {
		if r := m.links[name]; r.Kind == "ethernet" && strings.EqualFold(r.MAC, mac) {
			return name
		}
	}
	return ""
}
