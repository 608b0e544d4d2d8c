package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// question is what a person is asked about one node, as a turn has found it; none has no text.
type question struct {
	kind questionKind
	text string // what happens when it is approved
	// certificate is the one that is asked about with asksBMC.
	certificate string
}

// questionKind is what an approval of a node lets happen.
type questionKind string

const (
	asksRemoval questionKind = "removal" // it leaves the records
	asksSystem  questionKind = "system"  // another system counts as the installed one
	asksContact questionKind = "contact" // its first disruption or its first change inside
	asksList    questionKind = "list"    // another list of what Slipway made there
	asksBMC     questionKind = "bmc"     // derived passwords go to its BMC
)

// standsLocked says whether the question is still one about the node.
func (q question) standsLocked(w *worker) bool {
	return q.text != "" && (q.kind == asksRemoval) == w.leaving
}

// approvalLocked names what is approved with a question: not its words alone, which are the same for
// many machines and at many times, but the machine, the system on it, the steps and the revision that
// they are about.
func (w *worker) approvalLocked(q question) string {
	about := struct {
		Node, Text, Revision string
		Kind                 questionKind
		Machine              site.Identity
		Marker, Stranger     string
		List                 string
		Foreign, Unproven    string
		Steps                []string
		Generation           int
	}{
		Node: w.name, Kind: q.kind, Text: q.text, Revision: w.e.applied.ID, Machine: w.memory.Observed.Identity,
		Marker: w.memory.Observed.Marker.Digest(), Stranger: w.stranger, Foreign: w.plan.Foreign, Unproven: w.plan.Unproven,
		Generation: w.memory.Recorded.Generation(),
	}
	about.List, _ = w.memory.Observed.OwnedDigest()
	for _, s := range w.plan.Steps {
		about.Steps = append(about.Steps, s.Digest())
	}
	text, err := json.Marshal(about)
	if err != nil {
		return "" // which nothing is approved by
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:site.DigestDigits]
}

// askNothingLocked takes back what the status asks a person.
func (w *worker) askNothingLocked() {
	w.asks, w.status.Approve, w.status.Approval = question{}, "", ""
}

func (w *worker) askNothing() {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	w.askNothingLocked()
}

// answered is a question that a person has approved, with what it was about.
type answered struct {
	question
	job    job
	inside bool   // the plan changes a system that Slipway did not install
	only   bool   // and nothing else, so that the first disruption is asked about again
	list   string // digest of the list on the machine
}

// answer is the question of a node that an order approves, if it is exactly what its person was shown.
func (w *worker) answer(o site.Order) (a answered, err error) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	switch now, q := w.approvalLocked(w.asks), w.memory.Recorded.Quarantined; {
	case q != nil:
		return a, fmt.Errorf("%w: %s is quarantined by %s: release it first: `%s`", site.ErrRefused, w.name, q.By, q.Release(w.name))
	case !w.asks.standsLocked(w) || now == "":
		return a, site.NothingToApprove(w.name)
	case o.Shown != now || w.status.Approval != now:
		return a, fmt.Errorf("%w: what waits for approval of %s is not what you were shown; read it again: %s", site.ErrRefused, w.name, w.asks.text)
	}
	a = answered{question: w.asks, job: job{site: w.e.design, node: w.node, revision: w.e.applied, leaving: w.leaving, memory: w.memory}}
	isInside := func(s site.Step) bool { return site.IsInside(s.Facet) }
	a.inside = !w.memory.Recorded.Installed.ByUs() && slices.ContainsFunc(w.plan.Steps, isInside)
	a.only = a.inside && !slices.ContainsFunc(w.plan.Steps, func(s site.Step) bool { return !isInside(s) })
	a.list, _ = w.memory.Observed.OwnedDigest()
	w.askNothingLocked() // it is answered once
	return a, nil
}

// approveNode lets a node's first disruption or its removal from the design go
// on, or takes a system on its machine for the one that was installed.
func (e *Engine) approveNode(ctx context.Context, w *worker, o site.Order) (string, error) {
	a, err := w.answer(o)
	if err != nil {
		return "", err
	}
	defer w.wakeUp()
	switch a.kind {
	case asksRemoval:
		if why := w.stays(); why != "" {
			return "", fmt.Errorf("%w: %s was not removed from the records: %s", site.ErrRefused, w.name, why)
		}
		e.countRemoval(w.name)
		return "removed " + w.name + " from the records; its machine was not changed", e.remove(ctx, w)
	case asksSystem:
		return w.acceptSystem(ctx, a.job)
	case asksBMC:
		return w.acceptBMC(ctx, a.job.node, a.certificate, o.By)
	case asksContact:
		what := w.name + " may be disrupted to be as designed"
		if was := a.job.memory.Recorded.Adopted; was != nil && !was.Settled.IsZero() {
			what = "the system of " + w.name + " may be changed to be as designed"
		}
		return what, w.save(ctx, met(!a.only, a.inside))
	}
	what := "the list on " + w.name + " of what Slipway made is accepted; Slipway removes what left the design"
	if a.list == "" {
		what = "a new list of what Slipway makes begins on " + w.name + "; what it made before stays there even when it leaves the design"
	}
	return what, w.save(ctx, func(r *site.Recorded) { r.Owned = site.Owned{Digest: a.list} })
}

// countRemoval counts the removal of a node for the budget of removals.
func (e *Engine) countRemoval(node string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.removals = append(e.removals, record.Removal{Node: node, When: time.Now()})
}

// acceptSystem takes the system that answers for the one that was installed on
// the node, because a person says so of what the job has.
func (w *worker) acceptSystem(ctx context.Context, j job) (string, error) {
	mk := j.memory.Observed.Marker
	generation, image := plan.AcceptedGeneration(j.node, j.memory), ""
	if mk != nil {
		image = mk.Image
	}
	given := site.FirstBoot{HostKeys: w.e.publishedKeys(w.name)}
	err := w.save(ctx, func(r *site.Recorded) {
		if r.Installed != nil {
			given = r.Installed.FirstBoot
		}
		r.Installed = &site.Installation{Generation: generation, Image: image, Since: time.Now(), Proven: true, Reported: mk != nil, Accepted: mk.Digest(), FirstBoot: given}
		r.Owned = site.Owned{}
		if r.Adopted != nil { // what is inside this system nobody has seen as designed
			a := *r.Adopted
			a.Inside = time.Time{}
			r.Adopted = &a
		}
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("the system on %s is accepted and counts as generation %d", w.name, generation), nil
}
