package network

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// at finds the port at a PCI address, and its own MAC address. why says that there is none or more than one.
func (m *machine) at(pci string) (id, mac, why string) {
	var there, all []string
	for _, name := range slices.Sorted(maps.Keys(m.links)) {
		r := m.links[name]
		if r.Kind != "ethernet" || r.PCI == "" {
			continue
		}
		if all = append(all, name+" at "+r.PCI); strings.EqualFold(r.PCI, pci) {
			there, mac = append(there, name), strings.ToLower(r.MAC)
		}
	}
	switch {
	case len(there) == 1:
		return there[0], mac, ""
	case len(there) > 1:
		return "", "", fmt.Sprintf("the ports %s are all at the PCI address %s: name the port by its MAC address", strings.Join(there, ", "), pci)
	case len(all) == 0:
		return "", "", fmt.Sprintf("no network port is at the PCI address %s, nor at any other: name the port by its MAC address", pci)
	}
	return "", "", fmt.Sprintf("no network port is at the PCI address %s; there are %s. Correct the design, or put the adapter in", pci, strings.Join(all, ", "))
}

// resolve adds the MAC address to ports that are designed by their PCI address. The network manager recognizes a
// port by its MAC address under any name.
func (t tables) resolve(h *inside.Host, all links) error {
	var m *machine
	for _, id := range all.names() {
		l := all[id]
		if l.PCI == "" {
			continue
		}
		var err error
		if m == nil {
			if m, err = t.ports(h); err != nil {
				return fmt.Errorf("the interfaces could not be read: %w", err)
			}
		}
		_, mac, why := m.at(l.PCI)
		if why != "" {
			return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf("interface %q: %s", id, why)}
		}
		l.MAC = mac
		all[id] = l
	}
	return nil
}

// ports are the machine's interfaces. During an installation they come from the running system.
func (t tables) ports(h *inside.Host) (*machine, error) {
	m, err := t.look(h)
	if !h.Live && (errors.Is(err, fs.ErrNotExist) || err == nil && len(m.links) == 0) {
		running := *h
		running.Root = "/"
		return t.look(&running)
	}
	return m, err
}

// seePort reports an interface's PCI address if the design has one, or if the interface was made by one. The wanted
// port may still have another name.
func (m *machine) seePort(h *inside.Host, seen *inside.Seen, key string, made item.Link) {
	field := item.Name(key, "pci")
	want := h.Wants[field]
	if want != "" {
		if _, _, why := m.at(want); why != "" {
			seen.Cannot[key] = why
		}
	}
	r := m.links[item.ID(key)]
	if r == nil || want == "" && made.PCI == "" {
		return
	}
	delete(seen.Have, item.Name(key, "mac"))
	if r.PCI == "" {
		return
	}
	seen.Have[field] = r.PCI
	if made.PCI == r.PCI && !strings.EqualFold(made.MAC, r.MAC) {
		seen.Have[field] = r.PCI + ", but it was set up with the MAC address " + made.MAC + ", and another adapter is there"
	}
}
