package rollout

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// place is a bound in a simulation.
type place struct {
	*Bound
	// freed is the cause that freed the last missing place.
	freed  *cause
	parked [unhealthy + 1]queues // queues that wait for a place here
}

func (sim *simulation) place(b *Bound) *place {
	p := sim.places[b]
	if p == nil {
		p = &place{Bound: b}
		sim.places[b] = p
	}
	return p
}

// countPlaces finds which places the members take, and how many of them are left.
func (sim *simulation) countPlaces() {
	if len(sim.members) == 0 {
		return
	}
	same := map[[role + 1]*group][]*place{}
	for _, m := range sim.members {
		m.node.groups = sim.facts.groupsOf(m.node)
		key := m.node.groups
		if same[key] == nil {
			for _, g := range key {
				for _, b := range g.bounds {
					same[key] = append(same[key], sim.place(b))
				}
			}
		}
		m.places = same[key]
	}
	var all []*group
	for _, byName := range sim.facts.groups {
		all = slices.AppendSeq(all, maps.Values(byName))
	}
	sim.facts.count(all...)
	sim.whole = sim.members[0].places[0]
}

// mostPlaces is how many places a node may take.
const mostPlaces = 4

func (b *Bound) hasRoom(c class) bool {
	left, _ := b.room(c)
	return left > 0
}

// change changes what is known of a member's node, and retries those who may have a place
// now.
func (sim *simulation) change(m *member, why *cause, change func()) {
	var had [mostPlaces]bool
	for i, p := range m.places {
		had[i] = p.hasRoom(plain)
	}
	sim.facts.Change(m.node, change)
	for i, p := range m.places {
		if !had[i] && p.hasRoom(plain) {
			why := *why
			why.bound = p.Bound
			p.freed = &why
		}
		sim.offer(p)
	}
}

// offer retries the next queues that wait for a bound, if there is a place.
func (sim *simulation) offer(p *place) {
	for c := range p.parked {
		if len(p.parked[c]) > 0 && p.hasRoom(class(c)) {
			q := heap.Pop(&p.parked[c]).(*queue)
			q.parked = nil
			heap.Push(&sim.open[c], q)
		}
	}
}

// queue holds the members that wait for places under the same bounds, for a step of
// the same length in the same window: if any of them can go on, the first can.
type queue struct {
	places  []*place
	class   class
	window  *outlook
	expect  site.Duration
	waiting []*member // a heap by name
	at      int       // its index in the heap that it is in
	parked  *place    // the place whose heap that is; nil if the queue is open
	dormant bool      // in no heap, because nobody waits
	shut    *cause    // the wait for its window, while it lasts
	opened  *cause    // the last such wait
}

type queueKey struct {
	rack, role string
	class      class
	window     *outlook
	expect     site.Duration
}

// queues is a heap ordered by the first member of each queue.
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

// enqueue makes a member wait for its places.
func (sim *simulation) enqueue(m *member) {
	t := m.try()
	key := queueKey{m.node.Design.Rack, m.node.Design.Role, sim.facts.classOf(m.node), sim.windowFor(t), together(m.node.Design, t.Steps)}
	q := sim.queues[key]
	if q == nil {
		q = &queue{places: m.places, class: key.class, window: key.window, expect: key.expect, dormant: true}
		sim.queues[key] = q
	}
	heap.Push((*byName)(&q.waiting), m)
	switch {
	case q.shut != nil:
	case q.dormant:
		q.dormant = false
		heap.Push(&sim.open[q.class], q)
	case q.parked == nil:
		heap.Fix(&sim.open[q.class], q.at)
	case !q.parked.hasRoom(q.class):
		heap.Fix(&q.parked.parked[q.class], q.at)
	default: // it may go before the member that was offered the place
		heap.Remove(&q.parked.parked[q.class], q.at)
		q.parked = nil
		heap.Push(&sim.open[q.class], q)
	}
}

// dispatch begins the steps of all members that have a place now.
func (sim *simulation) dispatch() {
	for q := sim.nextOpen(); q != nil; q = sim.nextOpen() {
		sim.ask(q)
		for _, p := range q.places[1:] {
			sim.offer(p)
		}
	}
}

// nextOpen removes and returns the queue whose turn it is, if the site has a place
// for it.
func (sim *simulation) nextOpen() *queue {
	best := -1
	for c := range sim.open {
		if len(sim.open[c]) > 0 && sim.whole.hasRoom(class(c)) &&
			(best < 0 || sim.open[c][0].waiting[0].index < sim.open[best][0].waiting[0].index) {
			best = c
		}
	}
	if best < 0 {
		return nil
	}
	return heap.Pop(&sim.open[best]).(*queue)
}

// ask begins the step of a queue's first member, if the rules allow it.
func (sim *simulation) ask(q *queue) {
	m := q.waiting[0]
	if r, full := sim.facts.Room(m.try()).(*Full); full {
		q.parked = sim.place(r.Bound)
		heap.Push(&q.parked.parked[q.class], q)
		return
	}
	at, ok := q.window.fit(sim, q.expect)
	if !ok {
		q.shut = &cause{}
		return
	}
	if at > sim.now {
		q.shut = &cause{at: at, waited: true, window: q.window, before: sim.whyNow(q, m)}
		sim.schedule(event{at: at, order: -1, queue: q, cause: q.shut})
		return
	}
	heap.Pop((*byName)(&q.waiting))
	if len(q.waiting) > 0 {
		heap.Push(&sim.open[q.class], q)
	} else {
		q.dormant = true
	}
	sim.begin(m, q.window, sim.whyNow(q, m))
}

// reopen retries a queue whose window has opened.
func (sim *simulation) reopen(q *queue, opened *cause) {
	q.opened, q.shut = opened, nil
	heap.Push(&sim.open[q.class], q)
}

// whyNow returns what a member that can go on now waited for last.
func (sim *simulation) whyNow(q *queue, m *member) *cause {
	if m.arrived.at == sim.now {
		return m.arrived
	}
	for _, p := range q.places {
		if p.freed != nil && p.freed.at == sim.now {
			return p.freed
		}
	}
	if q.opened != nil && q.opened.at == sim.now {
		if m.arrived.at > q.opened.before.at {
			return &cause{at: sim.now, waited: true, window: q.window, before: m.arrived}
		}
		return q.opened
	}
	return m.arrived
}

// outlook is a window in a simulation. A nil outlook is open at any time.
type outlook struct {
	*opening
	known bool
	most  time.Duration // longest opening
}

// openings limits how many openings are examined to find one that is long enough.
// It must cover a year of nights, one of which is an hour longer.
const openings = 400

// windowFor returns the window that a step has to wait for. A window that cannot be
// read counts as open.
func (sim *simulation) windowFor(t Try) *outlook {
	name := sim.facts.waitsFor(t)
	if name == "" {
		return nil
	}
	w, known := sim.windows[name]
	if !known {
		if o, err := sim.facts.opening(name); err != nil {
			sim.broken = append(sim.broken, fmt.Sprintf("the window %s cannot be read; this forecast treats it as open: %v", name, err))
		} else {
			w = &outlook{opening: o}
		}
		sim.windows[name] = w
	}
	return w
}

// fit returns when, from now on, something of the given length can begin; not ok if
// the window opens no more. What fits into no opening begins with an opening.
func (w *outlook) fit(sim *simulation, takes site.Duration) (at time.Duration, ok bool) {
	if w == nil {
		return sim.now, true
	}
	misfit, from := time.Duration(takes) > w.longest(sim), sim.facts.Now
	for range openings {
		open, _, next := w.at(from)
		switch {
		case w.fits(from, takes), open && misfit:
			return from.Sub(sim.began), true
		case next.IsZero():
			return 0, false
		}
		from = next
	}
	return 0, false
}

// longest returns the length of the longest opening to come.
func (w *outlook) longest(sim *simulation) time.Duration {
	if w.known {
		return w.most
	}
	w.known = true
	open, until, next := w.at(sim.began)
	if open {
		w.most = until.Sub(sim.began)
	}
	for i := 0; i < openings && !next.IsZero(); i++ {
		from := next
		_, until, next = w.at(from)
		w.most = max(w.most, until.Sub(from))
	}
	return w.most
}
