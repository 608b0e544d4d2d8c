package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// standing is a node's state in a rollout.
type standing = rollout.Part

// Short names for the parts.
const (
	aside   = rollout.Aside
	pending = rollout.Pending
	done    = rollout.Done
	failed  = rollout.Failed
	resting = rollout.Resting
)

// rolling is the rollout of the revision in force.
type rolling struct {
	site.RolloutStatus
	count map[standing]int
	saved bool // the records match, except for Done
	// moved is when one of its nodes last changed state.
	moved time.Time
}

// planLocked plans every node again for a design that has just come into force, so that the
// gates and the status use it before any machine is looked at.
func (e *Engine) planLocked() {
	for _, w := range e.workers {
		if !w.leaving {
			w.planIsLocked(e.planOfLocked(w, w.memory))
		}
	}
	e.undecided.known = false
	signal(e.wants)
}

func (e *Engine) planOfLocked(w *worker, m site.Memory) site.NodePlan {
	return plan.Node(e.design, w.node, e.knownOfLocked(w.name, m))
}

// rollOutLocked begins the rollout of the design that has just come into force, if it changes
// anything. Nodes that failed before and whose design is unchanged still count as failed, and
// a halt that they caused stays. Nodes under quarantine are excluded, except those about to be
// released.
func (e *Engine) rollOutLocked(released ...*worker) {
	r, was := &rolling{RolloutStatus: site.RolloutStatus{Revision: e.applied, Since: time.Now()}, count: map[standing]int{}}, e.rollout
	unfinished := e.unfinishedLocked()
	e.traceLeftLocked()
	for _, name := range e.namesLocked() {
		w := e.workers[name]
		again := was != nil && w.standing == failed && !w.outdated
		w.standing, w.spent = aside, 0
		kept := w.memory.Recorded.Quarantined != nil && !slices.Contains(released, w)
		if w.leaving || kept || len(w.plan.Steps) == 0 && w.plan.Waiting == "" {
			continue
		}
		if r.enter(w, pending); again {
			r.fail(w, was.Failed[name])
		}
	}
	r.Canaries = e.factsLocked().ChooseCanaries(r.Nodes)
	if len(r.Nodes) == 0 {
		e.endRolloutLocked(unfinished)
		return
	}
	e.traceRolloutLocked(traceSuperseded)
	e.rollout = r
	e.note(site.Event{Kind: site.EventRollout, Revision: e.applied.ID, Text: fmt.Sprintf("rollout of %s begins: %s", e.applied.Short(), e.changeLocked(r.Nodes))})
	if e.stayHaltedLocked(was); r.Halted != "" {
		return
	}
	if h, halts := e.factsLocked().Halts(""); halts {
		e.haltLocked(h, slices.Collect(maps.Keys(r.Failed))...)
	}
}

// stayHaltedLocked carries over the halt of the previous rollout to the new one, unless enough
// of the nodes that caused it have changed.
func (e *Engine) stayHaltedLocked(was *rolling) {
	if was == nil {
		return
	}
	same := e.factsLocked().StaysHalted(&was.RolloutStatus, func(n *rollout.Node) string { return wanted(e.design, n.Design) })
	if len(same) == 0 {
		return
	}
	r := e.rollout
	r.Halted, r.HaltedSince, r.HaltedBy, r.CanaryFailed = was.Halted, was.HaltedSince, same, was.CanaryFailed
	e.warn(site.Event{Kind: site.EventRollout, Revision: r.Revision.ID,
		Text: fmt.Sprintf("rollout stays halted: %s; the new revision does not change the design of %s", r.Halted, some(slices.Sorted(maps.Keys(same))))})
	e.touch()
}

// wanted returns a digest of what is designed for a node's machine. It leaves out what only
// sorts nodes or says when and whether they are worked on.
func wanted(s *site.Site, n *site.Node) string {
	x := *n
	x.Origins, x.Place, x.Tags, x.Labels, x.Rack, x.Position, x.Style = nil, site.Origin{}, nil, nil, "", site.Position{}, ""
	x.Window, x.Windows, x.Paused, x.Away = "", site.Windows{}, nil, ""
	if manager, ok := x.Endpoints[site.Manager]; ok { // named as in the recorded digests of halted rollouts
		x.Endpoints = maps.Clone(x.Endpoints)
		delete(x.Endpoints, site.Manager)
		x.Endpoints["bmc"] = manager
	}
	text, err := json.Marshal(struct {
		Node  *site.Node
		Image *site.Image
	}{&x, s.Images[n.Image]})
	if err != nil {
		panic(err) // a design comes from JSON
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// rollOutMissed begins a rollout of what came into force while the nodes about to be released
// were under quarantine. If a rollout is under way, the nodes join it by themselves.
func (e *Engine) rollOutMissed(ctx context.Context, released []*worker) error {
	e.mu.Lock()
	missed := false
	for _, w := range released {
		if w.leaving || e.rollout.running() {
			continue
		}
		m := w.memory
		m.Recorded.Quarantined = nil
		w.planIsLocked(e.planOfLocked(w, m))
		missed = missed || slices.ContainsFunc(w.plan.Steps, func(s site.Step) bool { return !s.Drift })
	}
	if missed {
		e.rollOutLocked(released...)
	}
	e.mu.Unlock()
	return e.saveRollout(ctx)
}

// haltLocked halts the rollout under way because of failed nodes, and reports it.
func (e *Engine) haltLocked(h rollout.Halt, by ...string) {
	r := e.rollout
	r.Halted, r.HaltedSince, r.HaltedBy, r.CanaryFailed = h.Why, time.Now(), map[string]string{}, h.Canary
	for _, name := range by {
		r.HaltedBy[name] = wanted(e.design, e.workers[name].node)
	}
	e.warn(site.Event{Kind: site.EventRollout, Revision: r.Revision.ID, Text: "rollout halted: " + h.Why})
	e.touch()
}

// enter adds a node to the rollout.
func (r *rolling) enter(w *worker, as standing) {
	w.standing = as
	r.count[as]++
	r.Nodes = append(r.Nodes, w.name)
	signal(w.e.joined)
}

// fail counts a node of the rollout as failed.
func (r *rolling) fail(w *worker, why string) {
	r.count[w.standing]--
	r.count[failed]++
	w.standing = failed
	r.failed(w.name, why)
}

// failed notes that a node has failed.
func (r *rolling) failed(name, why string) {
	r.Failed = without(r.Failed, name)
	r.Failed[name] = why
	r.Failures++
}

// keepRolloutLocked treats a revision that changes no node as the same rollout as the previous
// one: it neither begins a rollout nor lifts a halt.
func (e *Engine) keepRolloutLocked() {
	if r := e.rollout; r.running() {
		e.traceLeftLocked()
		e.traceRolloutLocked(traceContinued)
		r.Revision, r.Queued, r.saved = e.applied, nil, false
	}
}

// joinLocked adds a node that wants to take a step to a rollout, as the rules say.
func (e *Engine) joinLocked(w *worker, s site.Step) {
	r, f := e.rollout, e.factsLocked()
	n := w.factsLocked(f.Now)
	switch f.Joining(n, s) {
	case rollout.Begins:
		e.rollOutLocked()
	case rollout.Returns:
		r.saved = false
		w.standing = pending
		r.count[pending]++
	case rollout.Joins:
		r.saved = false
		r.Nodes = slices.Clip(r.Nodes) // a published slice stays as it is
		if f.AllBecomeCanaries(n) {
			r.Canaries = r.Nodes
		}
		r.enter(w, pending)
	}
}

// inHandLocked reports whether the node was begun in the rollout under way.
func (e *Engine) inHandLocked(w *worker) bool {
	return e.rollout.running() && w.standing != aside && w.memory.Recorded.Begun.In(&e.rollout.RolloutStatus)
}

// begun returns what to record of the node's part in the rollout when one of its steps is
// taken. It is nil if that is already recorded, or if the step ignores the rollout's order, as
// repairing drift does.
func (w *worker) begun(s site.Step) *site.Begun {
	e := w.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.rollout.running() || w.standing == aside || e.inHandLocked(w) || s.Drift || s.Impact == site.ImpactNone {
		return nil
	}
	now := time.Now()
	w.spent, w.counted = 0, now
	patience := max(site.Duration(rollout.LongestTry), 3*w.plan.Expect)
	if h := w.node.Health(); h != nil {
		patience += site.Duration(h.Wait()) // the health wait has its own end, see awaitHealth
	}
	return &site.Begun{Rollout: e.rollout.Since, Since: now, Patience: patience}
}

// endLocked returns what to record of the node's part in the rollout now that it was a part of its
// own before; nil for nothing. A node that was done or failed before a restart has ended then.
func (w *worker) endLocked(was standing) *site.Begun {
	b, ended := w.memory.Recorded.Begun, w.standing == done || w.standing == failed
	if b == nil || !b.In(&w.e.rollout.RolloutStatus) || ended != b.Ended.IsZero() && !(was == failed && w.standing == done) {
		return nil
	}
	own := *b
	own.Ended = time.Time{}
	if ended {
		own.Ended = time.Now()
	}
	return &own
}

// restoreRolloutLocked continues the recorded rollout. If there is none, or it is of another
// revision than the one in force, the daemon was stopped in between, and the rollout begins
// now.
func (e *Engine) restoreRolloutLocked(s *site.RolloutStatus) {
	if s != nil {
		e.rollout = &rolling{RolloutStatus: *s, count: map[standing]int{}, saved: true}
		e.rollout.Queued = nil
		if now := time.Now(); s.Proven.After(now) { // the clock was set back
			e.rollout.Proven, e.rollout.saved = now, false
		}
	}
	if s == nil || s.Revision.ID != e.applied.ID {
		e.rollOutLocked()
		return
	}
	for _, name := range s.Nodes {
		w := e.workers[name]
		_, hasFailed := s.Failed[name]
		switch {
		case w == nil:
			continue
		case hasFailed:
			w.standing = failed
		case s.Ended.IsZero():
			w.standing = pending
		}
		e.rollout.count[w.standing]++
	}
}

// running reports whether a rollout is under way, halted or not.
func (r *rolling) running() bool { return r != nil && r.Ended.IsZero() }

// standLocked notes how a reconcile has left a node, and what follows for the rollout. It returns
// what to record of the node's part; nil for nothing.
func (e *Engine) standLocked(w *worker) *site.Begun {
	r := e.rollout
	if !r.running() || w.standing == aside {
		return nil
	}
	if s := w.status.State; !w.counted.IsZero() && (s == site.Progressing || s == site.Retrying) {
		w.spent += time.Since(w.counted)
	}
	w.counted = time.Now()
	f := e.factsLocked()
	now := f.PartOf(w.factsLocked(f.Now))
	if w.status.Since.After(r.moved) {
		r.moved = w.status.Since
	}
	was := w.standing
	if now != was {
		r.count[was]--
		r.count[now]++
		e.fellOrRoseLocked(w, now)
		w.standing = now
		w.traceStandLocked(was)
		e.wakeLocked(rollout.PlaceTopic(w.name))
	}
	e.proveLocked()
	if r.count[pending] == 0 && r.count[resting] == 0 {
		e.endRolloutLocked(e.unfinishedLocked())
	}
	return w.endLocked(was)
}

// fellOrRoseLocked counts a failure, and halts the rollout if there are too many or the node
// is a canary. It takes the failure back when the node recovers.
func (e *Engine) fellOrRoseLocked(w *worker, now standing) {
	r := e.rollout
	r.saved = false
	if now != failed {
		if _, had := r.Failed[w.name]; had {
			r.Failed = without(r.Failed, w.name)
		}
		return
	}
	r.failed(w.name, w.status.Reason)
	h, halts := e.factsLocked().Halts(w.name)
	switch {
	case halts && h.Canary:
		e.haltLocked(h, w.name)
	case halts:
		e.haltLocked(h, slices.Collect(maps.Keys(r.Failed))...)
	}
}

// without returns a copy of a map without a key, so that the published map does not change.
func without(m map[string]string, key string) map[string]string {
	c := make(map[string]string, len(m)+1)
	for k, v := range m {
		if k != key {
			c[k] = v
		}
	}
	return c
}

// proveLocked notes since when all canaries are in-sync. If one falls out before they have
// soaked, the soak starts again.
func (e *Engine) proveLocked() {
	r, f := e.rollout, e.factsLocked()
	if len(r.Canaries) == 0 || f.HaveSoaked() {
		return
	}
	switch proven := f.CanariesAreProven(); {
	case proven == !r.Proven.IsZero():
		return
	case proven:
		r.Proven = f.Now
	default:
		r.Proven = time.Time{}
	}
	r.saved = false
	e.wakeLocked(rollout.CanariesProven)
}

// maxEnded is how many ended rollouts are remembered: more than can begin and end between two
// looks at merged proposals.
const maxEnded = 16

// unfinishedLocked returns the nodes of the rollout under way that are neither done nor failed.
func (e *Engine) unfinishedLocked() (names []string) {
	if !e.rollout.running() {
		return nil
	}
	for _, name := range e.rollout.Nodes {
		w := e.workers[name]
		if w == nil || w.standing == done || w.standing == failed {
			continue
		}
		if b := w.memory.Recorded.Begun; !b.In(&e.rollout.RolloutStatus) || b.Ended.IsZero() {
			names = append(names, name)
		}
	}
	return names
}

// endRolloutLocked ends the rollout under way, if there is one, without the nodes that are dropped.
func (e *Engine) endRolloutLocked(dropped []string) {
	r := e.rollout
	if !r.running() {
		return
	}
	e.traceLeftLocked()
	e.traceRolloutLocked(traceEnded)
	r.Done, r.Dropped, r.Ended, r.saved = r.count[done], dropped, time.Now(), false
	e.ended = append(e.ended[max(0, len(e.ended)-maxEnded+1):], r.RolloutStatus)
	e.Meter.Ended(r.RolloutStatus)
	e.note(site.Event{Kind: site.EventRollout, Revision: r.Revision.ID, Took: site.Duration(r.Ended.Sub(r.Since)),
		Text: fmt.Sprintf("rollout of %s ended: %s", r.Revision.Short(), r.Outcome())})
	signal(e.poke)
	e.touch()
}

// goOn continues a halted rollout, by a person's order.
func (e *Engine) goOn() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.rollout; r.running() && r.Halted != "" {
		r.Halted, r.HaltedSince, r.HaltedBy, r.CanaryFailed, r.Failed, r.saved = "", time.Time{}, nil, false, nil, false
		for _, w := range e.workers {
			if w.standing == failed {
				r.count[failed]--
				r.count[pending]++
				w.standing = pending
			}
			w.spent, w.counted = 0, time.Now()
		}
	}
}

// saveRollout records the rollout when it has changed.
func (e *Engine) saveRollout(ctx context.Context) error {
	e.rolling.Lock()
	defer e.rolling.Unlock()
	r, s := e.unsavedRollout()
	if r == nil {
		return nil
	}
	if err := e.Records.PutRollout(ctx, &s); err != nil {
		e.noteUnsaved(r)
		return fmt.Errorf("record rollout: %w", err)
	}
	return nil
}

// unsavedRollout returns the rollout and its state if it has changed since it was recorded,
// and marks it as recorded.
func (e *Engine) unsavedRollout() (*rolling, site.RolloutStatus) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.rollout
	if r == nil || r.saved {
		return nil, site.RolloutStatus{}
	}
	r.saved = true
	return r, r.RolloutStatus
}

// noteUnsaved notes that a rollout could not be recorded.
func (e *Engine) noteUnsaved(r *rolling) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r.saved = false
}

// queues reports whether a new revision has to wait for the rollout under way, and reports
// that to people.
func (e *Engine) queues(rev site.Revision) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.rollout
	if e.design == nil || e.readOnly != "" || r == nil || !e.factsLocked().Queues(r.moved) {
		return false
	}
	if r.Queued == nil || r.Queued.ID != rev.ID {
		e.note(site.Event{Kind: site.EventDesign, Revision: rev.ID, Text: fmt.Sprintf("revision %s waits for the rollout of %s to end", rev.Short(), r.Revision.Short())})
		r.Queued = &rev
		e.touch()
	}
	return true
}
