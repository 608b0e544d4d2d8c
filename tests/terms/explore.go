package terms

import (
	"fmt"
	"strings"
	"time"
)

// move is something that a daemon may do next: it changes the world, or says that it cannot happen. Its name
// has %s for the daemon.
type move struct {
	name string
	do   func(r *rules, w *world, daemon int) bool
}

// happening is something that may happen to the machine or to a request. Its name may have %d for the
// request's term.
type happening struct {
	name    string
	request int // -1 for none
	do      func(*rules, *world) bool
}

// event is one of all that may happen.
type event struct {
	do   func(*rules, *world) bool
	name func(before *world) string
	// tick is set for the one that has time pass.
	tick bool
}

// events are all that may happen, in any world of the rules.
func (r *rules) events() []event {
	var all []event
	for _, m := range append(append(r.follow(), r.lead()...), r.work()...) {
		for n := range 2 {
			text := fmt.Sprintf(m.name, "daemon "+string(rune('A'+n)))
			all = append(all, event{
				do:   func(r *rules, w *world) bool { return m.do(r, w, n) },
				name: func(*world) string { return text },
			})
		}
	}
	for _, h := range r.arrive() {
		all = append(all, event{do: h.do, name: func(before *world) string {
			if h.request < 0 {
				return h.name
			}
			return fmt.Sprintf(h.name, before.under[h.request].term)
		}})
	}
	if r.timed() {
		all = append(all, event{do: func(r *rules, w *world) bool { return r.tick(w) }, tick: true})
	}
	return all
}

// spend counts an event that is bounded. It says whether it may happen.
func (w *world) spend(r *rules, kind int) bool {
	w.spent[kind]++
	return w.spent[kind] <= r.most[kind]
}

// tick has one unit of time pass.
func (r *rules) tick(w *world) bool {
	for i := range w.under {
		switch q := &w.under[i]; q.left {
		case 0:
		case 1:
			return false // now or never
		default:
			q.left--
		}
	}
	w.sort()
	for n := range w.daemons {
		d := &w.daemons[n]
		d.left, d.settles = less(d.left, 1), less(d.settles, 1)
		if d.role == follows {
			d.since = min(d.since+1, r.times.lease)
		}
		r.wait(d)
		if d.step == allowed && r.stops == steadily {
			if d.late++; d.late > r.times.margin {
				return false
			}
		}
	}
	return true
}

// wait has a write to etcd take one unit longer. A follower gives up after a lease; a renewal that takes longer
// than its lease renews nothing.
func (r *rules) wait(d *daemon) {
	switch {
	case d.asked == 0:
	case d.role == leads:
		d.asked = min(d.asked+1, 1+r.lasts())
	case d.asked > r.times.lease:
		d.asked = 0
	default:
		d.asked++
	}
}

// found is what an exploration has found.
type found struct {
	states, moves, depth int
	wrong                property
	trace                []string
}

// explore goes through all states that can be reached, the near ones first, until a property is broken.
func (r *rules) explore() found {
	type came struct {
		from uint32
		by   uint8
	}
	first := world{etcd: etcd{term: 1}, daemons: [2]daemon{{role: leads, term: 1}, {role: follows, current: true}}}
	if r.timed() {
		first.daemons[0].left = r.lasts()
	}
	all := r.events()
	seen := map[world]struct{}{first: {}}
	way := []came{{}}
	layer := []world{first}
	at := 0 // of the layer's first world, among all
	var f found
	for ; len(layer) > 0; f.depth++ {
		var next []world
		for i := range layer {
			for by := range all {
				w := layer[i]
				if !all[by].do(r, &w) {
					continue
				}
				w.judge()
				f.moves++
				if _, known := seen[w]; known {
					continue
				}
				seen[w] = struct{}{}
				way = append(way, came{uint32(at + i), uint8(by)})
				if w.wrong != holds {
					f.wrong, f.states = w.wrong, len(seen)
					var trail []uint8
					for n := len(way) - 1; n > 0; n = int(way[n].from) {
						trail = append(trail, way[n].by)
					}
					f.trace = r.tell(first, all, trail)
					return f
				}
				next = append(next, w)
			}
		}
		at += len(layer)
		layer = next
	}
	f.states = len(seen)
	return f
}

// tell says what has happened, the last event first in trail.
func (r *rules) tell(w world, all []event, trail []uint8) []string {
	var text []string
	passed := time.Duration(0)
	for i := len(trail) - 1; i >= 0; i-- {
		e := all[trail[i]]
		if e.tick {
			passed += r.times.unit
		} else {
			if passed > 0 {
				text = append(text, fmt.Sprintf("%g seconds pass", passed.Seconds()))
				passed = 0
			}
			text = append(text, e.name(&w))
		}
		e.do(r, &w)
	}
	return text
}

func (f found) text() string { return "\t" + strings.Join(f.trace, "\n\t") }
