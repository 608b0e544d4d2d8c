package engine

import (
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/window"
)

// windowGate lets a step pass only in the window that the design names for its
// impact, and only when what is left to do is expected to fit. A step and an
// installation that were begun are finished past the window's end, and so is
// the node unless the window says to stop. A machine that only a quarantine has
// switched off was not begun.
func windowGate(w *worker, t try, now time.Time) *held {
	name := plan.WindowOf(t.node, t.step)
	d := t.site.Windows[name]
	disrupted := t.inHand && !w.memory.Recorded.Disrupted.IsZero()
	if d == nil || t.begun || disrupted && d.Overrun != "stop" {
		return nil
	}
	win, err := window.Parse(d)
	if err != nil {
		return &held{state: site.Blocked, person: true, release: "a commit that mends the window", sentence: fmt.Sprintf("its window %s makes no sense: %s", name, err)}
	}
	takes := plan.Together(t.node, t.plan.Steps)
	open, until, next := win.At(now)
	fits := until.Sub(now) >= time.Duration(takes)
	switch {
	case open && fits:
		return nil
	case next.IsZero():
		return &held{state: site.Blocked, person: true, release: "a commit that changes the window", sentence: fmt.Sprintf("its window %s opens no more", name)}
	case neverFits(win, next, takes):
		return &held{state: site.Blocked, person: true, release: "a longer window, or fewer changes at once",
			sentence: fmt.Sprintf("about %s of work do not fit into its window %s", plan.Brief(takes), name)}
	case open:
		return &held{state: site.Blocked, until: next, release: "the window opening again at " + clock(next),
			sentence: fmt.Sprintf("about %s of work do not fit before its window %s ends at %s; it opens again at %s", plan.Brief(takes), name, clock(until), clock(next))}
	}
	return &held{state: site.Blocked, until: next, release: "the window opening at " + clock(next),
		sentence: fmt.Sprintf("its window %s opens at %s", name, clock(next))}
}

// neverFits says that not even the whole window is long enough.
func neverFits(win window.Window, opens time.Time, takes site.Duration) bool {
	_, until, _ := win.At(opens)
	return until.Sub(opens) < time.Duration(takes)
}

func clock(t time.Time) string { return t.Format("Mon 2006-01-02 15:04 MST") }
