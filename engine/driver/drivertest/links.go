package drivertest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// links are what a fake system sees of its network.
type links struct {
	ports   []item.Port
	heard   map[string]item.Neighbour
	silent  []string
	targets func(n *site.Node) []item.Target
	tried   []item.Target
	listens int
}

// sees returns what a look sees. By default all ports are up and everybody answers. The caller
// holds the machine's lock.
func (m *FakeMachine) sees(asked item.LinkProbes) *item.LinksSeen {
	seen := &item.LinksSeen{BootID: fmt.Sprint(m.boots), Ports: slices.Clone(m.links.ports)}
	if seen.Ports == nil {
		for _, name := range asked.Ports {
			seen.Ports = append(seen.Ports, item.Port{Name: name, Carrier: "up", Speed: 25000, MTU: 1500})
		}
	}
	for _, t := range asked.Targets {
		r := item.Reached{Target: t, Answers: item.Answered, Sized: item.Answered}
		if slices.Contains(m.links.silent, t.Address) {
			r.Answers, r.Sized = item.Silent, ""
		}
		seen.Reached = append(seen.Reached, r)
	}
	return seen
}

// Targets implements driver.Linked.
func (s system) Targets(of func(n *site.Node) []item.Target) {
	defer s.m.look()()
	s.m.links.targets = of
}

// targets returns what a look at links tries.
func (s system) targets(n *site.Node) []item.Target {
	unlock := s.m.look()
	of := s.m.links.targets
	unlock()
	if of == nil {
		return nil
	}
	return of(n)
}

// Listen implements driver.Linked. It takes the full time.
func (s system) Listen(ctx context.Context, n *site.Node) (*item.LinksSeen, error) {
	if err := s.ask(ctx); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(item.MaxListen * time.Second):
	}
	defer s.m.look()()
	if !s.m.answers() {
		return nil, fmt.Errorf("%w: no system answers", driver.ErrUnreachable)
	}
	s.m.links.listens++
	asked, _ := n.LinkProbes()
	seen := s.m.sees(asked)
	for i, p := range seen.Ports {
		if x, heard := s.m.links.heard[p.Name]; heard && p.Carrier == "up" {
			x.By, x.Heard = "slipway", time.Now()
			seen.Ports[i].Neighbours = []item.Neighbour{x}
		}
	}
	return seen, nil
}
