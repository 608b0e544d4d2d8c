package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// drafts takes what is proposed, and answers with a number for each change.
type drafts struct {
	mu     sync.Mutex
	got    []site.Amendment
	proven []string
	after  *site.Site // what a change would make of the design
	away   error
}

func (d *drafts) Propose(_ context.Context, revision string, all []site.Amendment, fits func(site.Amendment, *site.Site) string) ([]site.Drafted, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away != nil {
		return nil, d.away
	}
	d.got = append(d.got, all...)
	told := make([]site.Drafted, len(all))
	for i, a := range all {
		d.proven = append(d.proven, fits(a, d.after))
		told[i] = site.Drafted{Facet: a.Facet, Branch: "drift/" + revision, Number: 12, State: site.ProposalOpen}
	}
	return told, nil
}

func (d *drafts) all() []site.Amendment {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.got
}

// adrift is a machine that was once on as designed, and is off by itself.
func (w *world) adrift(d *drafts) *drivertest.FakeMachine {
	w.t.Helper()
	w.proposer = d
	s := w.design("n1")
	s.Rollout.FirstContact = "auto"
	s.Nodes["n1"].Drift = map[site.Facet]string{site.FacetPower: "propose"}
	w.commit(s)
	w.up()
	w.after(time.Minute)
	w.until("n1 is on as designed", 5*time.Minute, w.is(site.InSync, "n1"))
	if got := d.all(); len(got) > 0 {
		w.t.Fatalf("before the first time as designed it proposes %+v", got)
	}
	m := w.fleet.Machine("n1")
	m.SetPower("off")
	return m
}

// What was as designed and has changed is proposed once it lasts, told with its number, and not undone.
func TestDriftIsProposed(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		after := w.design("n1")
		after.Nodes["n1"].Power = "off"
		d := &drafts{after: after}
		m := w.adrift(d)
		writes := m.Counts().Writes
		w.until("it is told", 5*time.Minute, func() bool { return strings.HasSuffix(w.node("n1").Reason, "; proposed in #12") })
		n := w.node("n1")
		if n.State != site.Blocked || n.Reason != "power.state is off and is designed as on (drift propose); proposed in #12" || len(n.Drafted) != 1 || n.Drafted[0].Number != 12 {
			t.Errorf("n1 is %s: %s, %+v", n.State, n.Reason, n.Drafted)
		}
		if p := w.engine.Report().Plan.Nodes; len(p) != 1 || len(p[0].Reported) != 1 {
			t.Errorf("the plan does not have the difference: %+v", p)
		}
		a := d.all()[0]
		if a.Node != "n1" || a.Facet != site.FacetPower || len(a.Values) != 1 || a.Values[0].At() != "power" || string(a.Values[0].Value) != `"off"` {
			t.Errorf("proposed is %+v", a)
		}
		if d.proven[0] != "" {
			t.Errorf("the design so changed is refused: %s", d.proven[0])
		}
		w.after(4 * time.Minute)
		if got := m.Counts().Writes; got != writes || len(d.all()) > 2 {
			t.Errorf("%d writes instead of %d, %d questions", got, writes, len(d.all()))
		}
		m.SetPower("on")
		w.until("it is as designed again", 5*time.Minute, w.is(site.InSync, "n1"))
		if n := w.node("n1"); len(n.Drafted) > 0 {
			t.Errorf("it still tells of %+v", n.Drafted)
		}
	}, "n1")
}

// A difference that goes away before the next look is not proposed, and neither is one while the
// daemon is not the one that acts; what a change would not end is refused.
func TestDriftIsNotProposed(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := &drafts{after: w.design("n1")}
		m := w.adrift(d)
		w.until("it is seen", 5*time.Minute, w.is(site.Blocked, "n1"))
		if n := w.node("n1"); !strings.HasSuffix(n.Reason, "; Slipway will propose the change") {
			t.Errorf("at first it says %q", n.Reason)
		}
		m.SetPower("on")
		w.until("it is as designed again", 5*time.Minute, w.is(site.InSync, "n1"))
		if got := d.all(); len(got) > 0 {
			t.Errorf("what did not last is proposed: %+v", got)
		}
		m.SetPower("off")
		w.until("it is proposed", 10*time.Minute, func() bool { return len(d.all()) > 0 })
		if d.proven[0] == "" {
			t.Error("a change after which it still differs counts as proven")
		}
	}, "n1")
}

// Where nothing can be pushed the site has a problem until it can; without a repository the node says
// that.
func TestDriftCannotBeProposed(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		d := &drafts{after: w.design("n1"), away: errors.New("the key may not write")}
		w.adrift(d)
		problem := func() bool {
			for _, p := range w.engine.Report().Status.Problems {
				if p.About == "drift" && strings.Contains(p.What, "the key may not write") {
					return true
				}
			}
			return false
		}
		w.until("the site has a problem", 10*time.Minute, problem)
		d.mu.Lock()
		d.away = nil
		d.mu.Unlock()
		w.until("it is over", 10*time.Minute, func() bool { return !problem() })
		w.down()
		w.proposer = nil
		w.up()
		w.after(time.Minute)
		w.until("it is told", 5*time.Minute, func() bool {
			return strings.HasSuffix(w.node("n1").Reason, "; not proposed: Slipway proposes only to a repository, and this daemon follows a folder")
		})
	}, "n1")
}
