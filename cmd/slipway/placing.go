package main

import (
	"context"
	"errors"
	"slices"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/placement"
	"github.com/slipway-gitops/slipway/engine/site"
)

// place puts the virtual machines of an evaluated design where a daemon would
// that has some placed already. It says whether there is still a site: what
// cannot be placed is a mistake of the design.
func place(r *design.Result, there map[string]site.Placed) bool {
	if r.Site == nil {
		return false
	}
	placed, found := placement.Place(r.Site, there)
	r.Site, r.Findings = placed, slices.Concat(r.Findings, found)
	site.SortFindings(r.Findings)
	if site.HasErrors(found) {
		r.Site = nil
	}
	return r.Site != nil
}

// placedBy are the machines that a daemon has placed; none without one that
// keeps the site. It is not asked about a site that has no virtual machines.
func (a *app) placedBy(ctx context.Context, state string, s *site.Site) map[string]site.Placed {
	if !hasVirtual(s) {
		return nil
	}
	daemon := daemonAt(state)
	defer daemon.Close()
	known, err := daemon.Known(ctx, s.Name)
	if err != nil && !isNoDaemon(err) {
		a.err.Printf("slipway: virtual machines are placed as if none had a place yet, because the daemon does not say where they are: %v\n", err)
	}
	return known.Placed
}

func isNoDaemon(err error) bool {
	return errors.Is(err, control.ErrNoDaemon) || errors.Is(err, site.ErrNotFound)
}

func hasVirtual(s *site.Site) bool {
	if s != nil {
		for _, n := range s.Nodes {
			if n.IsVirtual() {
				return true
			}
		}
	}
	return false
}

// placedAnew says of a plan without a daemon's records where virtual machines
// are taken to be.
func placedAnew(s *site.Site) string {
	if !hasVirtual(s) {
		return ""
	}
	return "; virtual machines are placed as if none had a place yet"
}

// placeOf says in a phrase where a virtual machine is placed; nothing of
// another.
func (a *app) placeOf(ctx context.Context, state string, s *site.Site, node string) string {
	if n := s.Nodes[node]; n == nil || !n.IsVirtual() {
		return ""
	}
	there := a.placedBy(ctx, state, s)
	placed, _ := placement.Place(s, there)
	host := placed.Nodes[node].Virtual.Host.Hypervisor
	switch _, known := there[node]; {
	case host == "":
		return "on no hypervisor: slipway check says why"
	case known:
		return "on " + host + ", where the daemon has placed it"
	case len(there) > 0:
		return "on " + host + ", once the design is in force"
	}
	return "on " + host + ", if no machine has a place yet"
}
