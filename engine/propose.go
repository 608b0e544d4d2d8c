package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Proposer proposes changes of the design to people.
type Proposer interface {
	// Propose sees to it that each change was proposed once, and says what became of each, in their
	// order. The revision is that of the design in force; nothing new is proposed while the branch is
	// at another one. Fits says why a design changed so is still not as the machine was observed,
	// empty where it is. With an error it returns the results that it has, or nil.
	Propose(ctx context.Context, revision string, all []site.Amendment, fits func(site.Amendment, *site.Site) string) ([]site.Drafted, error)
}

// Times of the loop that proposes drift.
const (
	proposeTimeout = 10 * time.Minute
	// proposeAgain is how often it is looked whether what was proposed is still open.
	proposeAgain = 5 * time.Minute
)

// difference is drift that is to be proposed, and what was seen of its facet.
type difference struct {
	site.Amendment
	seen   site.FacetState
	looked time.Time
}

// keepProposed proposes drift for as long as the engine runs.
func (e *Engine) keepProposed(ctx context.Context) {
	if e.Proposer == nil {
		return
	}
	dice := e.dice("propose")
	lasting, last, done := map[string]time.Time{}, "", time.Time{}
	for retry.Sleep(ctx, retry.Jitter(dice, e.PollEvery())) {
		revision, all := e.differences()
		all = lastingOnes(lasting, all)
		what := revision + " " + digestOf(all)
		if what == last && time.Since(done) < proposeAgain {
			continue
		}
		err := e.propose(ctx, revision, all)
		if err != nil {
			err = fmt.Errorf("drift cannot be proposed: %w", err)
		}
		e.setProblem("drift", err)
		last, done = what, time.Now() // also after an error: the forge counts what is asked of it
	}
}

// differences are what is to be proposed now, in the order of the nodes. A daemon that does not act
// for the site proposes nothing, and neither does one whose last look at a machine failed.
func (e *Engine) differences() (revision string, all []difference) {
	if e.isBarred() {
		return "", nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.design == nil || e.readOnly != "" {
		return "", nil
	}
	for _, name := range e.namesLocked() {
		w := e.workers[name]
		if !w.turned || w.blind || w.outdated || w.leaving {
			continue
		}
		for _, a := range w.plan.Amendments {
			if a.Why == "" {
				all = append(all, difference{a, w.memory.Observed.Facets[a.Facet], w.looked})
			}
		}
	}
	return e.applied.ID, all
}

// lastingOnes are the differences that two looks have shown: what somebody is just trying out is
// not proposed. It keeps in lasting when each was seen first.
func lastingOnes(lasting map[string]time.Time, all []difference) []difference {
	there := map[string]bool{}
	ones := slices.DeleteFunc(all, func(d difference) bool {
		key := d.Digest()
		there[key] = true
		first, known := lasting[key]
		if !known {
			lasting[key] = d.looked
		}
		return !known || !d.looked.After(first)
	})
	maps.DeleteFunc(lasting, func(key string, _ time.Time) bool { return !there[key] })
	return ones
}

func digestOf(all []difference) string {
	var b strings.Builder
	for _, d := range all {
		b.WriteString(d.Digest() + " ")
	}
	return b.String()
}

// propose proposes differences, and has their nodes tell what became of it.
func (e *Engine) propose(ctx context.Context, revision string, all []difference) error {
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	var told []site.Drafted
	var err error
	if len(all) > 0 {
		amendments, seen := make([]site.Amendment, len(all)), map[string]site.FacetState{}
		for i, d := range all {
			amendments[i], seen[d.Digest()] = d.Amendment, d.seen
		}
		told, err = e.Proposer.Propose(ctx, revision, amendments, func(a site.Amendment, after *site.Site) string {
			n := after.Nodes[a.Node]
			if n == nil || !plan.AsDesigned(n, a.Facet, seen[a.Digest()]) {
				return "the design so changed would still differ from the machine"
			}
			return ""
		})
	}
	if told == nil && err != nil {
		return err
	}
	e.tellProposed(all, told)
	return err
}

// tellProposed notes what became of differences, and wakes the nodes that have to tell it.
func (e *Engine) tellProposed(all []difference, told []site.Drafted) {
	e.mu.Lock()
	defer e.mu.Unlock()
	is := make(map[string]site.Drafted, len(all))
	for i, d := range all {
		is[d.Digest()] = told[i]
		if w := e.workers[d.Node]; w != nil && e.drafted[d.Digest()] != told[i] {
			w.wakeUp()
		}
	}
	e.drafted = is
}

// draftedOf is what became of a node's differences.
func (w *worker) draftedOf(p site.NodePlan) (all []site.Drafted) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	for _, a := range p.Amendments {
		d, known := w.e.drafted[a.Digest()]
		switch {
		case known:
		case a.Why != "":
			d = site.Drafted{Why: a.Why}
		case w.e.Proposer == nil:
			d = site.Drafted{Why: "Slipway proposes only to a repository, and this daemon follows a folder"}
		}
		d.Facet = a.Facet
		all = append(all, d)
	}
	return all
}

// reported is the outcome for drift that the design does not want undone.
func (w *worker) reported(j job, p site.NodePlan) outcome {
	o := outcome{state: site.Blocked, reason: p.Reported[0], person: true, release: "a commit, or the machine as it was",
		wait: observeEvery(j.site), drafted: w.draftedOf(p)}
	if digest, is := plan.Disowned(j.memory); is {
		o.asks = question{asksList, "Slipway is to accept the list on the machine of what it made, and removes what left the design"}
		if digest == "" {
			o.asks.text = "Slipway begins a new list of what it makes on the machine; what it made before stays there even when it leaves the design"
		}
	}
	for _, d := range o.drafted {
		what := d.String()
		if len(o.drafted) > 1 {
			what = string(d.Facet) + ": " + what
		}
		o.reason += "; " + what
	}
	return o
}
