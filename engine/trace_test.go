package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// parts is a tracer that keeps what it is told, also from one daemon to the next.
type parts struct {
	mu  sync.Mutex
	all []site.TracePart
}

func (p *parts) Trace(x site.TracePart) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, x)
}

// of returns the parts of a revision and kind, of one node if it is named.
func (p *parts) of(revision string, kind site.TraceKind, node string) (those []site.TracePart) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.all {
		if x.Revision.ID == revision && x.Kind == kind && (node == "" || x.Node == node) {
			those = append(those, x)
		}
	}
	return those
}

// one returns the only such part.
func (p *parts) one(t *testing.T, revision string, kind site.TraceKind, node string) site.TracePart {
	t.Helper()
	those := p.of(revision, kind, node)
	if len(those) != 1 {
		t.Fatalf("%d parts %s of %s %s: %+v", len(those), kind, revision, node, those)
	}
	return those[0]
}

// whole fails the test if a part ends before it begins, or one of a rollout lies outside of it.
func (p *parts) whole(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := map[string]bool{}
	for _, x := range p.all {
		if x.From.IsZero() || x.To.Before(x.From) {
			t.Errorf("%s of %s is from %s to %s", x.Kind, x.Node, x.From, x.To)
		}
		if !x.Rollout.IsZero() && x.Kind != site.TraceRollout && x.Kind != site.TraceStep && x.From.Before(x.Rollout) {
			t.Errorf("%s of %s began before its rollout: %s", x.Kind, x.Node, x.Gate)
		}
		if x.Outcome == "" || x.Revision.ID == "" {
			t.Errorf("%s of %s has outcome %q and revision %q", x.Kind, x.Node, x.Outcome, x.Revision.ID)
		}
		key := fmt.Sprint(x.Revision.ID, x.Kind, x.Node, x.Rollout, x.From)
		if seen[key] {
			t.Errorf("twice: %s", key)
		}
		seen[key] = true
	}
}

func TestARevisionIsTraced(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		p := &parts{}
		w.tracer = p
		d := w.serving("n1", "n2")
		w.patch(d, "2", nil)
		w.after(30 * time.Minute)
		w.want("n2", site.InSync)
		rev := w.source.newest()

		root := p.one(t, rev, site.TraceRevision, "")
		if root.Outcome != "in force" || root.Failed || root.Revision.Subject == "" {
			t.Errorf("revision is %+v", root)
		}
		for _, kind := range []site.TraceKind{site.TraceFetch, site.TraceEvaluate, site.TracePlan} {
			if x := p.one(t, rev, kind, ""); x.From.Before(root.From) || x.To.After(root.To) {
				t.Errorf("%s is not within its revision: %+v", kind, x)
			}
		}
		if x := p.one(t, rev, site.TracePlan, ""); x.Nodes != 2 {
			t.Errorf("planned %d nodes", x.Nodes)
		}
		rollout := p.one(t, rev, site.TraceRollout, "")
		if rollout.Outcome != "converged" || rollout.Nodes != 2 || rollout.Done != 2 || !rollout.Rollout.Equal(rollout.From) {
			t.Errorf("rollout is %+v", rollout)
		}
		for _, name := range names(2) {
			node := p.one(t, rev, site.TraceNode, name)
			if node.Outcome != "in-sync" || !node.Rollout.Equal(rollout.From) || node.From.Before(rollout.From) || node.To.After(rollout.To) {
				t.Errorf("%s is %+v", name, node)
			}
			step := p.one(t, rev, site.TraceStep, name)
			if step.Action != site.ActionPackages || step.Facet != site.FacetPackages || step.Driver != "ssh" || step.Attempt != 1 || step.Outcome != "ok" {
				t.Errorf("step of %s is %+v", name, step)
			}
			if took := step.To.Sub(step.From); took < 2*time.Minute || took > 3*time.Minute {
				t.Errorf("the step of %s took %s", name, took)
			}
			if step.From.Before(node.From) || step.To.After(node.To) {
				t.Errorf("the step of %s is not within its node", name)
			}
		}
		// One machine may be out of service at a time, so one waits for the other.
		waits := p.of(rev, site.TraceWait, "")
		if len(waits) == 0 {
			t.Fatal("nobody waited")
		}
		wait := waits[0]
		for _, x := range waits {
			if strings.HasPrefix(x.Gate, string(site.ActionPackages)) || x.Gate == "its design has changed" {
				t.Errorf("a step is a wait: %+v", x)
			}
			if x.To.Sub(x.From) > wait.To.Sub(wait.From) {
				wait = x
			}
		}
		if wait.State != site.Blocked || wait.Gate == "" || wait.Release == "" || wait.To.Sub(wait.From) < 2*time.Minute {
			t.Errorf("wait is %+v", wait)
		}
		p.whole(t)
	}, names(2)...)
}

func TestARefusedRevisionIsTraced(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		p := &parts{}
		w.tracer = p
		w.serving("n1")
		w.source.add(nil, []site.Finding{{Code: "x", Severity: site.SeverityError, Message: "no such role"}})
		w.after(time.Minute)
		rev := w.source.newest()
		if x := p.one(t, rev, site.TraceRevision, ""); x.Outcome != "refused" || !x.Failed || !strings.Contains(x.Why, "no such role") {
			t.Errorf("revision is %+v", x)
		}
		if x := p.one(t, rev, site.TraceEvaluate, ""); x.Outcome != "refused" || !x.Failed {
			t.Errorf("evaluation is %+v", x)
		}
		if len(p.of(rev, site.TracePlan, "")) > 0 || len(p.of(rev, site.TraceRollout, "")) > 0 {
			t.Error("it was planned")
		}
		p.whole(t)
	}, "n1")
}

// A daemon that is restarted goes on where the other was: the wait for an approval and the node are
// one each, from their real beginning.
func TestATraceGoesOnAfterARestart(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		p := &parts{}
		w.tracer = p
		w.waitsForApproval("n1")
		rev, began := w.source.newest(), w.rollout().Since
		w.after(10 * time.Minute)
		w.down()
		w.after(time.Hour)
		w.up()
		w.after(10 * time.Minute)
		w.approve()
		w.until("installing", 10*time.Minute, w.is(site.Progressing, "n1"))
		w.after(time.Minute)
		w.down()
		w.up()
		w.after(time.Second)
		w.until("installed", time.Hour, w.is(site.InSync, "n1"))
		w.after(time.Minute)

		var long site.TracePart
		for _, x := range p.of(rev, site.TraceWait, "n1") {
			if x.To.Sub(x.From) > long.To.Sub(long.From) {
				long = x
			}
		}
		if took := long.To.Sub(long.From); took < 80*time.Minute || !strings.Contains(long.Gate, "approv") || long.State != site.Blocked {
			t.Errorf("the longest wait took %s: %+v", took, long)
		}
		if !slices.ContainsFunc(p.of(rev, site.TraceWait, "n1"), func(x site.TracePart) bool {
			return x.State == site.Progressing && x.To.Sub(x.From) > 3*time.Minute
		}) {
			t.Error("nobody waited for the installer")
		}
		if x := p.one(t, rev, site.TraceRollout, ""); !x.Rollout.Equal(began) || !x.From.Equal(began) {
			t.Errorf("rollout began %s, and is %+v", began, x)
		}
		if x := p.one(t, rev, site.TraceNode, "n1"); !x.Rollout.Equal(began) || x.Outcome != "in-sync" {
			t.Errorf("node is %+v", x)
		}
		for _, x := range p.of(rev, site.TraceStep, "n1") {
			if !x.Rollout.Equal(began) {
				t.Errorf("%s is of another rollout: %+v", x.Action, x)
			}
		}
		if len(p.of(rev, site.TraceRevision, "")) != 1 {
			t.Error("the revision was traced again")
		}
		p.whole(t)
	}, "n1")
}

// resetting is a driver whose next steps fail.
type resetting struct {
	driver.Driver
	err  error
	left atomic.Int64 // steps
}

func (c *resetting) Unwrap() any { return c.Driver }

func (c *resetting) Open(ctx context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	m, err := c.Driver.Open(ctx, e, s)
	return resetMachine{m, c}, err
}

type resetMachine struct {
	driver.Machine
	by *resetting
}

func (m resetMachine) Unwrap() any { return m.Machine }

func (m resetMachine) Apply(ctx context.Context, s site.Step, n *site.Node, may driver.Permit) error {
	if m.by.left.Add(-1) >= 0 {
		return m.by.err
	}
	return m.Machine.Apply(ctx, s, n, may)
}

func TestTriesOfAStepAreCounted(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		p := &parts{}
		w.tracer = p
		cuts := &resetting{Driver: w.fleet.OSDriver(), err: fmt.Errorf("%w: connection reset by peer", driver.ErrUnreachable)}
		w.systems = cuts
		d := w.serving("n1")
		cuts.left.Store(3)
		w.patch(d, "2", nil)
		w.after(30 * time.Minute)
		w.want("n1", site.InSync)
		steps := p.of(w.source.newest(), site.TraceStep, "n1")
		if len(steps) != 4 {
			t.Fatalf("%d tries: %+v", len(steps), steps)
		}
		for i, x := range steps {
			last := i == 3
			if x.Attempt != i+1 || x.Failed == last || last != (x.Outcome == "ok") || !last && !strings.Contains(x.Why, "reset by peer") {
				t.Errorf("try %d is %+v", i+1, x)
			}
		}
		p.whole(t)
	}, "n1")
}

// What a later revision overtakes is reported under the earlier one.
func TestAnOvertakenRolloutIsTraced(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		p := &parts{}
		w.tracer = p
		d := w.serving(names(3)...)
		w.patch(d, "2", nil)
		first := w.source.newest()
		w.after(time.Minute)
		w.patch(d, "3", nil)
		second := w.source.newest()
		w.after(30 * time.Minute)
		if x := p.one(t, first, site.TraceRollout, ""); x.Outcome != "superseded" {
			t.Errorf("first rollout is %+v", x)
		}
		if x := p.one(t, second, site.TraceRollout, ""); x.Outcome != "converged" {
			t.Errorf("second rollout is %+v", x)
		}
		for _, name := range names(3) {
			if x := p.one(t, first, site.TraceNode, name); x.Outcome != "left" {
				t.Errorf("%s is %+v", name, x)
			}
			if x := p.one(t, second, site.TraceNode, name); x.Outcome != "in-sync" {
				t.Errorf("%s is %+v", name, x)
			}
		}
		p.whole(t)
	}, names(3)...)
}

// Drift is repaired outside of rollouts, and belongs to the revision in force.
func TestDriftIsTraced(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		p := &parts{}
		w.tracer = p
		w.serving("n1")
		w.after(10 * time.Minute)
		w.fleet.Machine("n1").SetPower("off")
		w.after(10 * time.Minute)
		w.want("n1", site.InSync)
		x := p.one(t, w.source.newest(), site.TraceStep, "n1")
		if x.Action != site.ActionPowerOn || !x.Rollout.IsZero() || x.Driver != "redfish" {
			t.Errorf("step is %+v", x)
		}
		p.whole(t)
	}, "n1")
}

// A failing evaluation is tried at each poll, and a trace does not grow by that.
func TestAnEvaluationThatFailsIsTracedOnce(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		p := &parts{}
		w.tracer = p
		d := w.serving("n1")
		fails := errors.New("the worker was killed: out of memory")
		w.source.fail(fails)
		w.patch(d, "2", nil)
		w.after(10 * time.Minute)
		rev := w.source.newest()
		if x := p.one(t, rev, site.TraceEvaluate, ""); x.Outcome != "error" || !x.Failed || !strings.Contains(x.Why, "out of memory") {
			t.Errorf("evaluation is %+v", x)
		}
		if len(p.of(rev, site.TraceRevision, "")) > 0 {
			t.Error("the revision was decided on")
		}
		w.source.fail(nil)
		w.after(time.Minute)
		p.one(t, rev, site.TraceRevision, "")
		if got := p.of(rev, site.TraceEvaluate, ""); len(got) != 2 || got[1].Outcome != "ok" {
			t.Errorf("evaluations are %+v", got)
		}
		p.whole(t)
	}, "n1")
}

// A node that fails is reported when its rollout ends, and one that was done before a restart is not
// reported again.
func TestFailedAndDoneNodesAreTracedOnce(t *testing.T) {
	inBubble(t, patched, func(w *world) {
		p := &parts{}
		w.tracer = p
		cuts := &resetting{Driver: w.fleet.OSDriver(), err: fmt.Errorf("%w: no such package", driver.ErrRefused)}
		w.systems = cuts
		d := w.serving(names(3)...)
		cuts.left.Store(1) // the first node alone
		w.patch(d, "2", func(d *site.Site) { d.Rollout.MaxFailures, d.Rollout.MaxUnavailable = "3", "2" })
		rev := w.source.newest()
		w.until("one is done", 20*time.Minute, func() bool { return w.rollout().Done == 1 })
		w.down()
		w.up()
		w.after(30 * time.Minute)
		outcomes := map[string]int{}
		for _, name := range names(3) {
			x := p.one(t, rev, site.TraceNode, name)
			outcomes[x.Outcome]++
			if x.Failed != (x.Outcome == "failed") || x.Failed && !strings.Contains(x.Why, "no such package") {
				t.Errorf("%s is %+v", name, x)
			}
		}
		if outcomes["failed"] != 1 || outcomes["in-sync"] != 2 {
			t.Errorf("nodes ended %v", outcomes)
		}
		if x := p.one(t, rev, site.TraceRollout, ""); x.Outcome != "incomplete" || x.Lost != 1 || x.Done != 2 || !x.Failed {
			t.Errorf("rollout is %+v", x)
		}
		p.whole(t)
	}, names(3)...)
}
