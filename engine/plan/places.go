package plan

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// bound is how many nodes of something may be out of service at once.
type bound struct {
	what string // "the site", "the rack r1"
	text string // as the design says it
	most int
	used int
	out  []string // those that are out of service and not brought back
	// freed is who gave back the last place that was missing.
	freed  *cause
	parked queues // those that wait for a place here
}

func (b *bound) full() bool { return b.used >= b.most }

// bounds are all bounds of a site; those of racks and roles are made as they
// are needed.
type bounds struct {
	whole *bound
	racks map[string]*bound
	duty  map[string]*bound
	rules rules
}

func newBounds(s *site.Site, r rules) bounds {
	b := bounds{whole: &bound{what: "the site", text: "maxUnavailable " + fmt.Sprint(r.maxUnavailable), most: r.maxUnavailable},
		racks: map[string]*bound{}, duty: map[string]*bound{}, rules: r}
	if r.unbounded {
		b.whole.most = len(s.Nodes) + 1
	}
	return b
}

// of are the bounds that a node counts for.
func (sim *simulation) of(n *site.Node) []*bound {
	all := []*bound{sim.whole}
	if b := sim.rack(n.Rack); b != nil {
		all = append(all, b)
	}
	if b := sim.role(n.Role); b != nil {
		all = append(all, b)
	}
	return all
}

func (sim *simulation) rack(name string) *bound {
	b, known := sim.racks[name]
	r := sim.site.Racks[name]
	if known || r == nil || r.MaxUnavailable == "" || sim.rules.unbounded {
		return b
	}
	b = &bound{what: "the rack " + name, text: "maxUnavailable " + r.MaxUnavailable, most: max(1, site.Bound(r.MaxUnavailable, sim.racked[name]))}
	sim.racks[name] = b
	return b
}

// role is the bound of a role: its own, or that it keeps its majority.
func (sim *simulation) role(name string) *bound {
	b, known := sim.duty[name]
	if known {
		return b
	}
	g := sim.roles[name]
	if g.role.MaxUnavailable != "" && !sim.rules.unbounded {
		b = &bound{what: "the role " + name, text: "maxUnavailable " + g.role.MaxUnavailable, most: max(1, site.Bound(g.role.MaxUnavailable, g.inUse))}
	}
	if minority := max(1, (g.inUse+g.away-1)/2) - g.away; g.role.Majority && (b == nil || minority < b.most) {
		b = &bound{what: "the role " + name, text: "it decides by majority", most: minority}
	}
	sim.duty[name] = b
	return b
}

// takePlaces counts the machines that are out of service already. Working on
// them costs no place. What is under way is taken to end by itself.
func (sim *simulation) takePlaces(p *site.Plan, known site.Known) {
	changes := map[string]*member{}
	for _, m := range sim.members {
		changes[m.node.Name] = m
	}
	unfit := sim.unfit(known)
	for _, np := range p.Nodes {
		n, m := sim.site.Nodes[np.Node], changes[np.Node]
		waits := m == nil && np.Waiting != ""
		if n == nil || waits || sim.site.Unused(n) != "" || !isOut(n, known.Nodes[np.Node]) {
			continue
		}
		places := sim.of(n)
		for _, b := range places {
			b.used++
		}
		delete(unfit, np.Node)
		if m != nil && known.Nodes[np.Node].Recorded.Quarantined == nil {
			m.out, m.places = true, places
			continue
		}
		for _, b := range places {
			b.out = append(b.out, n.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unfit)) {
		places := sim.of(unfit[name])
		for _, b := range places {
			b.used++
		}
		if m := changes[name]; m != nil {
			m.places = places // it comes back when its changes are done
			continue
		}
		for _, b := range places {
			b.out = append(b.out, name)
		}
	}
}

// unfit are the nodes that were healthy and are not known to be so now.
func (sim *simulation) unfit(known site.Known) map[string]*site.Node {
	all := map[string]*site.Node{}
	for name, n := range sim.site.Nodes {
		m := known.Nodes[name]
		if n.Health() != nil && sim.site.Unused(n) == "" && m.Recorded.HasLost(Health(n, m.Observed, known.Serves)) {
			all[name] = n
		}
	}
	return all
}

func isOut(n *site.Node, m site.Memory) bool {
	if f := m.Recorded.InFlight; m.Recorded.UnderWay() > 0 || m.Recorded.Quarantined != nil || f != nil && f.Step.Impact >= site.ImpactReboot {
		return true // it was taken out by us
	}
	if a := m.Recorded.Adopted; a == nil || a.Settled.IsZero() {
		return false // it never was in service
	}
	power := m.Observed.Facets[site.FacetPower]
	return n.Power == "on" && !n.Decommission && !power.Seen.IsZero() && power.Have["state"] != "on"
}

func (sim *simulation) giveBack(m *member, why cause) {
	for _, b := range m.places {
		b.used--
		if b.used == b.most-1 {
			why := why
			why.bound = b
			b.freed = &why
		}
		sim.offer(b)
	}
	m.places = nil
}

// offer has the next queue that waits for a bound tried again, if there is a
// place.
func (sim *simulation) offer(b *bound) {
	if !b.full() && len(b.parked) > 0 {
		q := heap.Pop(&b.parked).(*queue)
		q.parked = nil
		heap.Push(&sim.open, q)
	}
}

// queue is the members that wait for places under the same bounds, for a step
// that takes equally long in the same window: one of them can go on if any can.
type queue struct {
	bounds  []*bound
	window  *opening
	expect  time.Duration
	waiting []*member // a heap by name
	at      int       // in the heap of queues that it is in
	parked  *bound    // whose heap that is; nil for those that are open
	dormant bool      // it is in no heap, because nobody waits
	shut    *cause    // the wait for its window, while it lasts
	opened  *cause    // the last such wait
}

type queueKey struct {
	rack, role string
	window     *opening
	expect     time.Duration
}

// queues is a heap by the first member of each.
type queues []*queue

func (q queues) Len() int           { return len(q) }
func (q queues) Less(i, j int) bool { return q[i].waiting[0].index < q[j].waiting[0].index }
func (q queues) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}
func (q *queues) Push(x any) {
	x.(*queue).at = len(*q)
	*q = append(*q, x.(*queue))
}
func (q *queues) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

type byName []*member

func (b byName) Len() int           { return len(b) }
func (b byName) Less(i, j int) bool { return b[i].index < b[j].index }
func (b byName) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *byName) Push(x any)        { *b = append(*b, x.(*member)) }
func (b *byName) Pop() any {
	last := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return last
}

// enqueue has a member wait for its places.
func (sim *simulation) enqueue(m *member) {
	key := queueKey{m.node.Rack, m.node.Role, sim.windowFor(m), m.left()}
	q := sim.queues[key]
	if q == nil {
		q = &queue{bounds: sim.of(m.node), window: key.window, expect: key.expect, dormant: true}
		sim.queues[key] = q
	}
	heap.Push((*byName)(&q.waiting), m)
	switch {
	case q.shut != nil:
	case q.dormant:
		q.dormant = false
		heap.Push(&sim.open, q)
	case q.parked == nil:
		heap.Fix(&sim.open, q.at)
	case q.parked.full():
		heap.Fix(&q.parked.parked, q.at)
	default: // it may go before one that was offered the place
		heap.Remove(&q.parked.parked, q.at)
		q.parked = nil
		heap.Push(&sim.open, q)
	}
}

// dispatch takes everyone to work for whom there is a place now.
func (sim *simulation) dispatch() {
	for len(sim.open) > 0 && !sim.whole.full() {
		q := heap.Pop(&sim.open).(*queue)
		sim.try(q)
		for _, b := range q.bounds[1:] {
			sim.offer(b)
		}
	}
}

func (sim *simulation) try(q *queue) {
	if i := slices.IndexFunc(q.bounds, (*bound).full); i >= 0 {
		q.parked = q.bounds[i]
		heap.Push(&q.parked.parked, q)
		return
	}
	at, ok := q.window.fit(sim.due, q.expect)
	if !ok {
		q.shut = &cause{}
		return
	}
	if at > sim.due {
		q.shut = &cause{at: at, waited: true, window: q.window, before: sim.whyNow(q, q.waiting[0])}
		sim.schedule(event{at: at, order: -1, queue: q, cause: q.shut})
		return
	}
	m := heap.Pop((*byName)(&q.waiting)).(*member)
	if len(q.waiting) > 0 {
		heap.Push(&sim.open, q)
	} else {
		q.dormant = true
	}
	m.places = q.bounds
	for _, b := range q.bounds {
		b.used++
	}
	sim.begin(m, q.window, sim.whyNow(q, m))
}

// reopen tries a queue again whose window has opened.
func (sim *simulation) reopen(q *queue, opened *cause) {
	q.opened, q.shut = opened, nil
	heap.Push(&sim.open, q)
}

// whyNow is what a member waited for last that can go on now.
func (sim *simulation) whyNow(q *queue, m *member) *cause {
	if m.arrived.at == sim.due {
		return m.arrived
	}
	for _, b := range q.bounds {
		if b.freed != nil && b.freed.at == sim.due {
			return b.freed
		}
	}
	if q.opened != nil && q.opened.at == sim.due {
		if m.arrived.at > q.opened.before.at {
			return &cause{at: sim.due, waited: true, window: q.window, before: m.arrived}
		}
		return q.opened
	}
	return m.arrived
}
