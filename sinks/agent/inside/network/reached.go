package network

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

const (
	maxTargets = 32 // tried at once
	// reachTries is how often a network is tried if its peers answered before. A switch may need some seconds
	// before it forwards anything to a port.
	reachTries = 2
)

// reached are the targets that answer now. Apart from default gateways, they are the only evidence that a machine
// has about its networks: on the wrong VLAN its interfaces still look as designed.
func (f *Facet) reached(ctx context.Context, h *inside.Host, m *machine) []item.Target {
	targets := h.Targets[:min(len(h.Targets), maxTargets)]
	answers := make([]bool, len(targets))
	var asking sync.WaitGroup
	for i, t := range targets {
		if a, err := netip.ParseAddr(t.Address); err == nil && m.reaches(a) {
			asking.Go(func() { answers[i] = f.answers(ctx, h, a) })
		}
	}
	asking.Wait()
	var all []item.Target
	for i, t := range targets {
		if answers[i] {
			all = append(all, t)
		}
	}
	return all
}

// stillReached checks every network where a peer answered before and where the machine still has an address: at
// least one peer must answer. One answer shows that it is the designed network, because any single peer may have
// gone meanwhile. A network where nobody answered before proves nothing.
func (f *Facet) stillReached(ctx context.Context, h *inside.Host, before []item.Target) error {
	m, err := f.tables.look(h)
	if err != nil {
		return &wire.Error{Class: wire.Failed, Text: "the interfaces cannot be read: " + err.Error()}
	}
	silent := map[string][]string{}
	for _, t := range before {
		if a, err := netip.ParseAddr(t.Address); err == nil && m.reaches(a) {
			silent[t.Network] = append(silent[t.Network], described(t))
		}
	}
	left := *h
	for range reachTries {
		left.Targets = slices.DeleteFunc(slices.Clone(h.Targets), func(t item.Target) bool { return silent[t.Network] == nil })
		for _, t := range f.reached(ctx, &left, m) {
			delete(silent, t.Network)
		}
	}
	for _, network := range slices.Sorted(maps.Keys(silent)) {
		return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("in the network %s, %s answered before the change, and no machine does now: the interface may be on another VLAN",
			printable([]byte(network)), strings.Join(silent[network], ", "))}
	}
	return nil
}

// described describes a target for people.
func described(t item.Target) string {
	if t.Node == "" {
		return "the gateway " + printable([]byte(t.Address))
	}
	return fmt.Sprintf("%s (%s)", printable([]byte(t.Node)), printable([]byte(t.Address)))
}
