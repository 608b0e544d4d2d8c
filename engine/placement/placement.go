// Package placement says on which hypervisor each virtual machine of a site
// runs. A machine that is placed stays: nothing here moves one. What is new is
// put where the rules of its role allow it and there is room. It is pure: the
// same design and the same places give the same, on every computer.
package placement

import (
	"maps"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Of are the machines that are placed in a design.
func Of(s *site.Site) map[string]site.Placed {
	var all map[string]site.Placed
	for name, n := range s.Nodes {
		if !n.IsVirtual() || n.Virtual.Host.Hypervisor == "" {
			continue
		}
		if all == nil {
			all = map[string]site.Placed{}
		}
		all[name] = site.Placed{Role: n.Role, Virtual: n.Virtual}
	}
	return all
}

// Place gives every virtual node of a design its hypervisor, and with it its
// endpoint and its rack. The design is not written to; one without virtual
// nodes is returned as it is. Placed are the machines that have a place
// already, also those of nodes that the design has no more: they take room
// until they are gone. The findings are errors: what cannot be placed, and what
// is placed otherwise than the design asks for.
func Place(s *site.Site, placed map[string]site.Placed) (*site.Site, []site.Finding) {
	if !hasVirtual(s) {
		return s, nil
	}
	f := newFleet(s, placed)
	f.settle()
	return f.design(), f.findings()
}

func hasVirtual(s *site.Site) bool {
	for _, n := range s.Nodes {
		if n.IsVirtual() {
			return true
		}
	}
	return false
}

// design is the site with every machine at its place.
func (f *fleet) design() *site.Site {
	is := *f.site
	is.Nodes = maps.Clone(f.site.Nodes)
	for _, g := range f.guests {
		if g.node != nil && g.at != nil {
			is.Nodes[g.name] = at(g.node, g.at, f.site.Name)
		}
	}
	return &is
}

// at is a node on a hypervisor.
func at(n *site.Node, h *host, siteName string) *site.Node {
	is := *n
	is.Virtual.Host = site.Host{Hypervisor: h.name, Accelerator: h.accelerator}
	is.Rack = h.rack
	is.Endpoints = maps.Clone(n.Endpoints)
	if is.Endpoints == nil {
		is.Endpoints = map[site.EndpointKind]site.Endpoint{}
	}
	is.Endpoints[site.Manager] = h.design.Endpoint(siteName, n.Name)
	return &is
}

// PlaceEvaluated is Place for a design that was just evaluated: what cannot be placed
// is found like any other mistake of it. A design with errors is left as it is.
func PlaceEvaluated(s *site.Site, findings []site.Finding, placed map[string]site.Placed) (*site.Site, []site.Finding) {
	if s == nil || site.HasErrors(findings) {
		return s, findings
	}
	s, found := Place(s, placed)
	return s, slices.Concat(findings, found)
}

// With are machines that have a place, and those that a design adds to them.
func With(s *site.Site, placed map[string]site.Placed) map[string]site.Placed {
	all := Of(s)
	if len(all) == 0 {
		return placed
	}
	maps.Copy(all, placed)
	return all
}
