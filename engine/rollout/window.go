package rollout

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/window"
)

// WindowOf names the window of a step; empty for any time. The drift policy of a facet
// takes precedence over the step's impact. A renewal of host certificates does not wait: they
// would be over.
func WindowOf(n *site.Node, s *site.Step) string {
	switch policy := policyOf(n, s); {
	case s.Impact == site.ImpactNone || s.Renewal || s.Drift && policy == "enforce":
		return ""
	case s.Drift && policy == "repair":
		return cmp.Or(n.WindowFor(s.Impact), n.Window)
	}
	return n.WindowFor(s.Impact)
}

// policyOf returns the drift policy of a step: that of its facet. For a restart it is
// the policy that all facets it serves share, if they do.
func policyOf(n *site.Node, s *site.Step) string {
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

// together returns how long the first of some steps takes, with the following steps
// that must run in the same opening of its window. It stops at the first step with
// another window.
func together(n *site.Node, steps []site.Step) site.Duration {
	var all site.Duration
	name := ""
	for i := range steps {
		if w := WindowOf(n, &steps[i]); i == 0 {
			name = w
		} else if w != "" && w != name {
			break
		}
		all += steps[i].Expect
	}
	return all
}

// mostOpenings bounds how many openings of a window a picture has.
const mostOpenings = 200

// Openings returns when a window of the design is open between two moments, and from when on that is not known: of a
// window that cannot be read, and after the first of many openings.
func (f *Facts) Openings(name string, from, to time.Time) site.WindowTimes {
	w := site.WindowTimes{Name: name}
	o, err := f.opening(name)
	if err != nil {
		w.Unknown, w.Why = site.Span{From: from, To: to}, "it cannot be read: "+err.Error()
		return w
	}
	open, until, next := o.window.At(from)
	if open {
		w.Open = append(w.Open, site.Span{From: from, To: until.UTC()})
	}
	for !next.IsZero() && next.Before(to) {
		if len(w.Open) == mostOpenings {
			w.Unknown, w.Why = site.Span{From: next.UTC(), To: to}, fmt.Sprintf("only the first %d openings are drawn", mostOpenings)
			break
		}
		begins := next
		_, until, next = o.window.At(begins)
		w.Open = append(w.Open, site.Span{From: begins.UTC(), To: until.UTC()})
	}
	if last := len(w.Open) - 1; last >= 0 && w.Open[last].To.After(to) {
		w.Open[last].To = to
	}
	return w
}

// opening is a window that is asked again and again: it caches the last answer.
type opening struct {
	name        string
	window      window.Window
	asked       time.Time
	open        bool
	until, next time.Time
}

func (o *opening) at(t time.Time) (open bool, until, next time.Time) {
	if !o.asked.Equal(t) {
		o.asked = t
		o.open, o.until, o.next = o.window.At(t)
	}
	return o.open, o.until, o.next
}

// fits reports whether the window is open for as long as something takes.
func (o *opening) fits(t time.Time, takes site.Duration) bool {
	open, until, _ := o.at(t)
	return open && until.Sub(t) >= time.Duration(takes)
}

// neverFits reports whether even the whole next opening is too short.
func (o *opening) neverFits(opens time.Time, takes site.Duration) bool {
	_, until, _ := o.window.At(opens)
	return until.Sub(opens) < time.Duration(takes)
}

// opening returns a window of the design in the form that the rules use.
func (f *Facts) opening(name string) (*opening, error) {
	if o := f.windows[name]; o != nil {
		return o, nil
	}
	w, err := window.Parse(f.Site.Windows[name])
	if err != nil {
		return nil, err
	}
	if f.windows == nil {
		f.windows = map[string]*opening{}
	}
	f.windows[name] = &opening{name: name, window: w}
	return f.windows[name], nil
}

// waitsFor names the window that a step has to wait for; empty for none. A begun step
// or installation is finished past the window's end. So is a node taken out of service
// in this rollout, unless the window says to stop. A machine that only a quarantine
// has switched off was not begun.
func (f *Facts) waitsFor(t Try) string {
	name := WindowOf(t.Node.Design, t.Step)
	d := f.Site.Windows[name]
	disrupted := t.Node.InHand && t.Node.Disrupted
	if d == nil || t.Begun || disrupted && d.Overrun != "stop" {
		return ""
	}
	return name
}

// Shut is the reason that the window of a step is not open, or not long enough for
// what is left to do.
type Shut struct {
	Name  string
	Takes site.Duration
	// Err is why the window cannot be read; nil if it can.
	Err error
	// Open is set if the window is open; it then closes at Until. Next is when it
	// opens next; zero for never.
	Open        bool
	Until, Next time.Time
	// NeverFits is set if what is left to do is longer than the next opening.
	NeverFits bool
}

// windowFor lets a step pass only in the window that the design names for its impact,
// and only if what is left to do is expected to fit.
func (f *Facts) windowFor(t Try) *Shut {
	name := f.waitsFor(t)
	if name == "" {
		return nil
	}
	o, err := f.opening(name)
	if err != nil {
		return &Shut{Name: name, Err: err}
	}
	takes := together(t.Node.Design, t.Steps)
	if o.fits(f.Now, takes) {
		return nil
	}
	s := &Shut{Name: name, Takes: takes}
	s.Open, s.Until, s.Next = o.at(f.Now)
	s.NeverFits = !s.Next.IsZero() && o.neverFits(s.Next, takes)
	return s
}

// Verdict implements Reason.
func (r *Shut) Verdict(*Facts) Verdict {
	switch {
	case r.Err != nil:
		return Verdict{Person: true, Release: "a commit that corrects the window", Sentence: fmt.Sprintf("its window %s cannot be understood: %s", r.Name, r.Err)}
	case r.Next.IsZero():
		return Verdict{Person: true, Release: "a commit that changes the window", Sentence: fmt.Sprintf("its window %s does not open again", r.Name)}
	case r.NeverFits:
		return Verdict{Person: true, Release: "a longer window, or fewer changes at once",
			Sentence: fmt.Sprintf("about %s of work do not fit into its window %s", say.Brief(r.Takes), r.Name)}
	case r.Open:
		return Verdict{Until: r.Next, Release: "the window opening again at " + say.Clock(r.Next),
			Sentence: fmt.Sprintf("about %s of work do not fit before its window %s ends at %s; it opens again at %s",
				say.Brief(r.Takes), r.Name, say.Clock(r.Until), say.Clock(r.Next))}
	}
	return Verdict{Until: r.Next, Release: "the window opening at " + say.Clock(r.Next),
		Sentence: fmt.Sprintf("its window %s opens at %s", r.Name, say.Clock(r.Next))}
}
