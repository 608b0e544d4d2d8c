package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// mostPeers is how many other nodes a node tries in each of its networks.
const mostPeers = 3

// mates holds a design's nodes by the networks in which they have an address, sorted by
// name.
type mates struct {
	design *site.Site
	in     map[string][]string
}

// targets returns what a look at a node's links tries: its gateways, and in each of its
// networks the next nodes by name that are in service.
func (e *Engine) targets(n *site.Node) []item.Target {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.design == nil {
		return nil
	}
	all := e.design.Gateways(n)
	for _, network := range slices.Sorted(maps.Keys(n.Addresses)) {
		others := e.matesLocked(network)
		at, _ := slices.BinarySearch(others, n.Name)
		tried := 0
		for i := range others {
			name := others[(at+i)%len(others)]
			if w := e.workers[name]; name == n.Name || w == nil || !w.isMateLocked() {
				continue
			} else if t, ok := n.Peer(w.node, network); ok && tried < mostPeers {
				all = append(all, t)
				tried++
			}
			if tried == mostPeers {
				break
			}
		}
	}
	return all
}

func (e *Engine) matesLocked(network string) []string {
	if e.mates.design != e.design {
		e.mates = mates{e.design, map[string][]string{}}
		for _, name := range slices.Sorted(maps.Keys(e.design.Nodes)) {
			for network := range e.design.Nodes[name].Addresses {
				e.mates.in[network] = append(e.mates.in[network], name)
			}
		}
	}
	return e.mates.in[network]
}

// isMateLocked reports whether other nodes may expect this node to answer at its
// designed addresses.
func (w *worker) isMateLocked() bool {
	return w.status.State == site.InSync && w.serviceLocked() == site.ServiceAnswers && !w.leaving && !w.outdated
}

// linksLocked returns the state of the node's links, as far as it is known now. What was
// seen before a failed look is unknown.
func (w *worker) linksLocked() site.Links {
	if w.e.design == nil || w.leaving {
		return site.Links{}
	}
	l, _ := plan.Links(w.e.design, w.node, w.memory.Observed, w.e.serves)
	why := ""
	switch {
	case l.State == "" || l.State == site.LinksUnknown:
	case w.blind:
		why = "the machine does not answer"
	case w.memory.Observed.Facets[site.FacetPower].Have["state"] == "off":
		why = "the machine is off"
	case w.blindInside:
		why = "its system did not answer"
	}
	if why != "" {
		return site.Links{State: site.LinksUnknown, Why: why}
	}
	return l
}

// Limits and times for listening for what is at the other end of cables. A worker
// listens while it would only wait.
const (
	longestListen = (item.MaxListen + 30) * time.Second
	listenAgain   = time.Hour       // after a round that heard nothing
	listenLater   = 5 * time.Minute // after a round that gave way
)

// listenMeanwhile listens for neighbours if that is useful, and reports whether
// something woke the worker meanwhile.
func (w *worker) listenMeanwhile(ctx context.Context) (woken bool) {
	j := w.job()
	if !w.listens(j, time.Now()) || !w.e.inspections.TryAcquire(1) {
		return false
	}
	defer w.e.inspections.Release(1)
	ctx, stop := context.WithTimeout(ctx, longestListen)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- w.listen(ctx, j) }()
	w.unlistened = time.Now().Add(retry.Jitter(w.dice, listenAgain))
	select {
	case err := <-done:
		if err != nil {
			w.e.Log.Info("ports not listened to", "node", w.name, "err", err)
		} else if !plan.Listens(j.node, w.job().memory.Observed, time.Now()) {
			w.unlistened = time.Time{} // everything was heard; listen at once when a cable is plugged in later
		}
		return false
	case <-w.wake:
		stop()
		if err := <-done; err != nil {
			w.unlistened = time.Now().Add(listenLater)
		}
		return true
	}
}

// listens reports whether to listen at the ports of the node's system now: nothing is
// under way there, and nothing else shows what they are plugged into.
func (w *worker) listens(j job, now time.Time) bool {
	if _, asks := j.node.LinkProbes(); !asks || j.leaving || !w.e.serves[site.FacetLinks] || now.Before(w.unlistened) {
		return false
	}
	r := j.memory.Recorded
	w.e.mu.Lock()
	sees := w.serviceLocked() == site.ServiceAnswers && !w.expected
	w.e.mu.Unlock()
	return sees && r.UnderWay() == 0 && r.InFlight == nil && w.failures == 0 && plan.Listens(j.node, j.memory.Observed, now)
}

// listen records what neighbours announced.
func (w *worker) listen(ctx context.Context, j job) error {
	m, err := w.open(ctx, j.node, site.OS)
	if err != nil {
		return err
	}
	able, ok := driver.As[driver.Linked](m)
	if !ok {
		return nil
	}
	seen, err := able.Listen(w.guarded(ctx, site.OS), j.node)
	if err != nil || seen == nil {
		return w.remember(site.OS, err)
	}
	hardware := w.hardware(ctx, j)
	w.e.mu.Lock()
	w.memory.Observed.Links = seen.After(w.memory.Observed.Links)
	w.findingsLocked(j, hardware)
	observed := w.memory.Observed
	w.e.mu.Unlock()
	w.e.Records.Observe(w.name, observed)
	w.e.touch()
	return nil
}
