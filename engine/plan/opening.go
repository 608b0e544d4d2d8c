package plan

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/window"
)

// opening is a window of the design as a simulation asks for it, in times
// since its beginning. A nil opening is open at any time.
type opening struct {
	name   string
	stop   bool // a node does not go on when it ends
	window window.Window
	now    time.Time
	// What was asked last, and how long it is open at most.
	asked       time.Duration
	open        bool
	until, next time.Duration
	known       bool
	most        time.Duration
}

// openings bounds how many openings are looked at for one that is long enough.
// It has to reach over a year of nights, of which one is an hour longer.
const openings = 400

// never is a time that does not come.
const never = time.Duration(1<<63 - 1)

// windowFor is the window that a member's next step has to wait for. What was
// begun is brought to its end past a window, unless that says to stop.
func (sim *simulation) windowFor(m *member) *opening {
	w := sim.opening(WindowOf(m.node, m.steps[m.next]))
	if w != nil && (m.begun || m.disrupts) && !w.stop {
		return nil
	}
	return w
}

// WindowOf names the window of a step; empty for any time. The drift policy of
// a facet speaks before its impact.
func WindowOf(n *site.Node, s site.Step) string {
	switch policy := policyOf(n, s); {
	case s.Impact == site.ImpactNone || s.Drift && policy == "enforce":
		return ""
	case s.Drift && policy == "repair":
		return cmp.Or(n.WindowFor(s.Impact), n.Window)
	}
	return n.WindowFor(s.Impact)
}

// policyOf is the drift policy of a step: of its facet, or for a restart of
// those that it serves, where each has the same.
func policyOf(n *site.Node, s site.Step) string {
	if s.Action != site.ActionRestart {
		return n.Drift[s.Facet]
	}
	policy := ""
	for i, c := range s.Changes {
		facet, _, _ := strings.Cut(c.Field, ".")
		of := n.Drift[site.Facet(facet)]
		if i > 0 && of != policy {
			return ""
		}
		policy = of
	}
	return policy
}

// Together is how long the first of some steps and those after it take that
// have to be done in the same opening of its window: up to the first that has
// another one.
func Together(n *site.Node, steps []site.Step) site.Duration {
	var all site.Duration
	name := ""
	for i, s := range steps {
		if w := WindowOf(n, s); i == 0 {
			name = w
		} else if w != "" && w != name {
			break
		}
		all += s.Expect
	}
	return all
}

func (sim *simulation) opening(name string) *opening {
	w, known := sim.windows[name]
	designed := sim.site.Windows[name]
	if known || designed == nil {
		return w
	}
	parsed, err := window.Parse(designed)
	if err != nil {
		sim.broken = append(sim.broken, fmt.Sprintf("the window %s cannot be read, and this forecast takes it for open: %v", name, err))
	} else {
		w = &opening{name: name, stop: designed.Overrun == "stop", window: parsed, now: sim.now, asked: -1}
	}
	sim.windows[name] = w
	return w
}

func (w *opening) at(t time.Duration) (open bool, until, next time.Duration) {
	if w.asked != t {
		open, until, next := w.window.At(w.now.Add(t))
		w.asked, w.open, w.until, w.next = t, open, w.since(until), w.since(next)
	}
	return w.open, w.until, w.next
}

func (w *opening) since(t time.Time) time.Duration {
	if t.IsZero() {
		return never
	}
	return t.Sub(w.now)
}

// fit is when, from a time on, something can begin that takes so long; not ok
// when the window opens no more. What fits into no opening begins with one.
func (w *opening) fit(from, takes time.Duration) (at time.Duration, ok bool) {
	if w == nil {
		return from, true
	}
	misfit := takes > w.longest()
	for range openings {
		open, until, next := w.at(from)
		switch {
		case open && (misfit || from+takes <= until):
			return from, true
		case next == never:
			return 0, false
		}
		from = next
	}
	return 0, false
}

// longest is the length of the longest opening to come.
func (w *opening) longest() time.Duration {
	if w.known {
		return w.most
	}
	w.known = true
	open, until, next := w.at(0)
	if open {
		w.most = until
	}
	for i := 0; i < openings && next != never; i++ {
		from := next
		_, until, next = w.at(from)
		w.most = max(w.most, until-from)
	}
	return w.most
}
