package agent

import (
	"cmp"
	"context"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// listenTimeout bounds listening on the ports of a system.
const listenTimeout = item.MaxListen*time.Second + 20*time.Second

// maxReached bounds how many targets are reported.
const maxReached = 256

// Targets implements driver.Linked.
func (m *machine) Targets(of func(n *site.Node) []item.Target) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.targets = of
}

// linkProbes is what a look asks about the node's links.
func (m *machine) linkProbes(n *site.Node) (item.LinkProbes, bool) {
	p, asks := n.LinkProbes()
	if asks {
		p.Targets = m.targetsOf(n)
	}
	return p, asks
}

// targetsOf lists peers on the node's networks that should answer.
func (m *machine) targetsOf(n *site.Node) []item.Target {
	m.mu.Lock()
	targets := m.targets
	m.mu.Unlock()
	if targets == nil {
		return nil
	}
	return targets(n)
}

// Listen implements driver.Linked, on a connection of its own. It never brings the helper to a machine.
func (m *machine) Listen(ctx context.Context, n *site.Node) (*item.LinksSeen, error) {
	p, asks := n.LinkProbes()
	if !asks || m.helpers.folder == "" {
		return nil, nil
	}
	p.Listen = item.MaxListen
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	conn, err := connect(ctx, m.client)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	request := m.named(wire.Request{Op: wire.OpObserve, Node: n.Name, Links: &p}, conn.entry)
	_, a, err := conn.run(ctx, exchange{script: helperScript(m.helpers.known()), request: &request})
	if err != nil || a.result == nil {
		return nil, err
	}
	_, seen := linked(a.result, nil)
	return seen, nil
}

// linked is what was seen of a system's links. If nothing was, the facet's state says why.
func linked(r *wire.Result, why error) (site.FacetState, *item.LinksSeen) {
	s := site.FacetState{Driver: Scheme}
	switch {
	case why != nil:
		s.Unread = site.Values{string(site.FacetLinks): brief(why.Error())}
		return s, nil
	case r == nil || r.Links == nil:
		unread := "the helper does not report them"
		if r != nil {
			unread = cmp.Or(r.LinksUnread, unread)
		}
		s.Unread = site.Values{string(site.FacetLinks): brief(unread)}
		return s, nil
	}
	s.Seen = time.Now()
	told, seen := r.Links, &item.LinksSeen{BootID: line(r.Links.BootID)}
	for _, p := range told.Ports[:min(len(told.Ports), maxLinks)] {
		seen.Ports = append(seen.Ports, portOf(p, s.Seen))
	}
	for _, t := range told.Reached[:min(len(told.Reached), maxReached)] {
		t.Network, t.Node, t.Address = line(t.Network), line(t.Node), line(t.Address)
		t.Answers, t.Sized = oneOf(t.Answers, item.Answered, item.Silent), oneOf(t.Sized, item.Answered, item.Silent)
		if t.Why != "" {
			t.Why = brief(t.Why)
		}
		seen.Reached = append(seen.Reached, t)
	}
	return s, seen
}

// portOf is a port as reported by a machine, printable and bounded.
func portOf(p item.Port, now time.Time) item.Port {
	const maxRate, maxMTU = 1_000_000_000, 1 << 20
	is := item.Port{
		Name: line(p.Name), MAC: line(p.MAC), Off: p.Off, Carrier: oneOf(p.Carrier, "up", "down"), Changes: p.Changes,
		Speed: min(max(p.Speed, 0), maxRate), Duplex: oneOf(p.Duplex, "full", "half"), MTU: min(max(p.MTU, 0), maxMTU), Master: line(p.Master),
	}
	is.Neighbours = neighboursOf(p.Neighbours)
	for i := range is.Neighbours {
		is.Neighbours[i].Heard = now.UTC().Truncate(time.Second)
	}
	return is
}

// neighboursOf are a port's neighbours as reported by a machine, printable and bounded. It drops the time when the
// machine heard them, because the machine's clock may be wrong.
func neighboursOf(told []item.Neighbour) (all []item.Neighbour) {
	for _, n := range told[:min(len(told), item.MaxNeighbours)] {
		all = append(all, item.Neighbour{Chassis: line(n.Chassis), System: line(n.System), Port: line(n.Port), PortDescription: line(n.PortDescription), By: line(n.By)})
	}
	return all
}

// oneOf returns a text if it is one of the known ones.
func oneOf(text string, known ...string) string {
	for _, k := range known {
		if text == k {
			return k
		}
	}
	return ""
}
