// Package placement decides on which hypervisor each virtual machine of a site
// runs. A placed machine is never moved. A new machine goes where the rules of
// its role allow it and there is room. The package is pure: the same design and
// the same places give the same result on every computer.
package placement

import (
	"maps"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Of returns the placed machines of a design.
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

// Place gives every virtual node of a design its hypervisor, endpoint and rack.
// It does not modify the design, and returns one without virtual nodes as it
// is. The argument placed has the machines that have a place already, including
// those whose nodes left the design: they take room until they are gone. The
// findings are errors about machines that cannot be placed, or that are placed
// against the design, and notes on what the design leaves open.
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

// design returns the site with every machine in its place.
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

// at returns a node placed on a hypervisor.
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

// PlaceEvaluated is Place for a newly evaluated design: machines that cannot be
// placed become findings. It leaves a design with errors unchanged.
func PlaceEvaluated(s *site.Site, findings []site.Finding, placed map[string]site.Placed) (*site.Site, []site.Finding) {
	if s == nil || site.HasErrors(findings) {
		return s, findings
	}
	s, found := Place(s, placed)
	return s, slices.Concat(findings, found)
}

// With returns the placed machines, and those that a design adds to them.
func With(s *site.Site, placed map[string]site.Placed) map[string]site.Placed {
	all := Of(s)
	if len(all) == 0 {
		return placed
	}
	maps.Copy(all, placed)
	return all
}
