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
	// Propose makes sure that each change was proposed once, and returns the results in the same
	// order. The revision is the design in force; nothing new is proposed while the branch is at
	// another one. Fits returns why a design with the change still differs from the machine as
	// observed; empty if it does not. On an error, Propose returns the results so far, or nil.
	Propose(ctx context.Context, revision string, all []site.Amendment, fits func(site.Amendment, *site.Site) string) ([]site.Drafted, error)
}

// Times of the loop that proposes drift.
const (
	proposeTimeout = 10 * time.Minute
	// proposeAgain is how often Slipway checks whether a proposal is still open.
	proposeAgain = 5 * time.Minute
)

// difference is drift to propose, and what was seen of its facet.
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
		last, done = what, time.Now() // also after an error: the forge limits requests
	}
}

// differences returns the drift to propose now, in the order of nodes. A daemon that does not act for
// the site proposes nothing. Nodes whose last look failed are left out.
func (e *Engine) differences() (revision string, all []difference) {
	if e.isBarred() || e.isSilent() {
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

// lastingOnes returns the differences that two looks have shown, so that nothing is proposed that
// somebody is just trying out. It keeps in lasting when each was first seen.
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

// propose proposes differences, and makes their nodes report the results.
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
				return "with this change the design would still differ from the machine"
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

// tellProposed stores the results for differences, and wakes the nodes that have to report them.
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

// draftedOf returns the results for a node's differences.
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

// reported returns the outcome for drift that the design does not want undone.
func (w *worker) reported(j job, p site.NodePlan) outcome {
	o := outcome{state: site.Blocked, reason: p.Reported[0], person: true, release: "a commit, or the machine as it was",
		wait: observeEvery(j.site), drafted: w.draftedOf(p)}
	if digest, is := plan.Disowned(j.memory); is {
		o.asks = question{kind: asksList, text: "Slipway accepts the list on the machine of what it made, and removes what left the design"}
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
