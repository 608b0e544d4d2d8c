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
	"github.com/slipway-gitops/slipway/engine/site"
)

// standing is how a node of a rollout stands.
type standing int

const (
	aside   standing = iota // no part of the rollout
	pending                 // to be brought to its end
	done                    // in-sync
	failed                  // begun, and not brought to its end
	resting                 // waits for a person
)

// rollout is the rollout of the revision in force.
type rollout struct {
	site.RolloutStatus
	count map[standing]int
	saved bool // what is recorded is what is here, but for Done
	// moved is when a node of it last came into another state.
	moved time.Time
}

// atRestAfter is how long nothing has to happen in a rollout whose nodes all
// wait for one another, or for a person, before it is taken to be at rest.
const atRestAfter = 5 * time.Minute

// longestTry is the least time that a node has for all it takes before it
// counts as failed.
const longestTry = 15 * time.Minute

// planLocked plans every node anew for a design that has just come into force,
// so that the gates and what people see go by it before anything is looked at.
func (e *Engine) planLocked() {
	for _, w := range e.workers {
		if !w.leaving {
			w.plan = e.planOfLocked(w, w.memory)
		}
	}
	e.undecided.known = false
	signal(e.wants)
}

func (e *Engine) planOfLocked(w *worker, m site.Memory) site.NodePlan {
	return plan.Node(e.design, w.node, e.knownOfLocked(w.name, m))
}

// rollOutLocked begins the rollout of the design that has just come into
// force, when it changes anything. Nodes that failed before, and whose design
// is the same, still count, and a halt that they caused goes on. Nodes under
// quarantine are excluded, but for those that are about to be released.
func (e *Engine) rollOutLocked(released ...*worker) {
	r, was := &rollout{RolloutStatus: site.RolloutStatus{Revision: e.applied, Since: time.Now()}, count: map[standing]int{}}, e.rollout
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
	r.Canaries = e.canariesLocked(r)
	if len(r.Nodes) == 0 {
		e.endRolloutLocked()
		return
	}
	e.rollout = r
	e.note(site.Event{Kind: site.EventRollout, Revision: e.applied.ID, Text: fmt.Sprintf("rollout of %s begins: %s", e.applied.Short(), change(len(r.Nodes)))})
	if e.stayHaltedLocked(was); r.Halted != "" {
		return
	}
	if allowed := maxFailures(e.design, len(r.Nodes)); len(r.Failed) > allowed {
		e.haltLocked(tooMany(r, allowed), slices.Collect(maps.Keys(r.Failed))...)
	}
}

// stayHaltedLocked carries the halt of the rollout before over to the one that
// has just begun, unless the new design changes what is designed for enough of
// the nodes that caused it. When that rollout has ended, those that came in-sync
// by themselves do not count either.
func (e *Engine) stayHaltedLocked(was *rollout) {
	if was == nil || was.Halted == "" {
		return
	}
	same, allowed := map[string]string{}, maxFailures(e.design, len(was.Nodes))
	if was.CanaryFailed {
		allowed = 0
	}
	for name, digest := range was.HaltedBy {
		w := e.workers[name]
		if w != nil && !was.running() && w.status.State == site.InSync {
			continue
		}
		if w != nil && !w.leaving && wanted(e.design, w.node) == digest {
			same[name] = digest
		}
	}
	if len(same) <= allowed {
		return
	}
	r := e.rollout
	r.Halted, r.HaltedSince, r.HaltedBy, r.CanaryFailed = was.Halted, was.HaltedSince, same, was.CanaryFailed
	e.warn(site.Event{Kind: site.EventRollout, Revision: r.Revision.ID,
		Text: fmt.Sprintf("rollout stays halted: %s; the new revision does not change what is designed for %s", r.Halted, some(slices.Sorted(maps.Keys(same))))})
	e.touch()
}

// wanted is a digest of what is designed for a node's machine. What only sorts
// nodes, or says when and whether they are worked on, is left out.
func wanted(s *site.Site, n *site.Node) string {
	x := *n
	x.Origins, x.Place, x.Tags, x.Labels, x.Rack, x.Style = nil, site.Origin{}, nil, nil, "", ""
	x.Window, x.Windows, x.Paused, x.Away = "", site.Windows{}, nil, ""
	text, err := json.Marshal(struct {
		Node  *site.Node
		Image *site.Image
	}{&x, s.Images[n.Image]})
	if err != nil {
		panic(err) // a design comes from JSON
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

func change(nodes int) string {
	if nodes == 1 {
		return "1 node changes"
	}
	return fmt.Sprintf("%d nodes change", nodes)
}

// rollOutMissed begins a rollout of what came into force while nodes that are
// about to be released were kept off. A rollout under way they join by
// themselves.
func (e *Engine) rollOutMissed(ctx context.Context, released []*worker) error {
	e.mu.Lock()
	missed := false
	for _, w := range released {
		if w.leaving || e.rollout.running() {
			continue
		}
		m := w.memory
		m.Recorded.Quarantined = nil
		w.plan = e.planOfLocked(w, m)
		missed = missed || slices.ContainsFunc(w.plan.Steps, func(s site.Step) bool { return !s.Drift })
	}
	if missed {
		e.rollOutLocked(released...)
	}
	e.mu.Unlock()
	return e.saveRollout(ctx)
}

// haltLocked halts the rollout under way because of nodes that have failed, and
// tells.
func (e *Engine) haltLocked(why string, by ...string) {
	r := e.rollout
	r.Halted, r.HaltedSince, r.HaltedBy, r.CanaryFailed = why, time.Now(), map[string]string{}, false
	for _, name := range by {
		r.HaltedBy[name] = wanted(e.design, e.workers[name].node)
	}
	e.warn(site.Event{Kind: site.EventRollout, Revision: r.Revision.ID, Text: "rollout halted: " + why})
	e.touch()
}

// canariesLocked chooses who goes first: machines that are out of service
// already, which lose nothing and may be waited for otherwise, then by name; whom
// a person has paused only where there is nobody else.
func (e *Engine) canariesLocked(r *rollout) []string {
	c := e.design.Rollout.Canaries
	if c == nil {
		return nil
	}
	var first, then, last []string
	for _, name := range r.Nodes {
		switch w := e.workers[name]; {
		case !c.Nodes.Selects(w.node) || w.standing == failed:
		case w.memory.Recorded.Paused.Holds(time.Now()) || w.node.Paused.Holds(time.Now()):
			last = append(last, name)
		case w.outLocked():
			first = append(first, name)
		default:
			then = append(then, name)
		}
	}
	chosen := slices.Concat(first, then, last)
	chosen = chosen[:min(len(chosen), c.Count)]
	if len(chosen) == len(r.Nodes) {
		return nil // nobody would wait for them
	}
	slices.Sort(chosen)
	return chosen
}

func tooMany(r *rollout, allowed int) string {
	return fmt.Sprintf("%d of %d nodes have failed and maxFailures allows %d", len(r.Failed), len(r.Nodes), allowed)
}

// enter makes a node a part of the rollout.
func (r *rollout) enter(w *worker, as standing) {
	w.standing = as
	r.count[as]++
	r.Nodes = append(r.Nodes, w.name)
}

// fail counts a node of the rollout as failed.
func (r *rollout) fail(w *worker, why string) {
	r.count[w.standing]--
	r.count[failed]++
	w.standing = failed
	r.failed(w.name, why)
}

// failed notes that a node has failed.
func (r *rollout) failed(name, why string) {
	r.Failed = without(r.Failed, name)
	r.Failed[name] = why
	r.Failures++
}

// keepRolloutLocked takes a revision that changes no node for the same rollout
// as the one before: it neither begins one nor lifts a halt.
func (e *Engine) keepRolloutLocked() {
	if r := e.rollout; r.running() {
		r.Revision, r.Queued, r.saved = e.applied, nil, false
	}
}

// joinLocked makes a node a part of the rollout under way that was none when it
// began: it could not be planned then, or was as designed. When none is under way
// what the revision changes on it begins another, so that the same bounds hold;
// what has failed begins none by itself. What has drifted is no part of it.
func (e *Engine) joinLocked(w *worker, t try) {
	r := e.rollout
	switch {
	case t.step.Drift || t.step.Force || t.step.Impact == site.ImpactNone || e.design.Unused(w.node) != "":
	case !r.running() && w.standing != failed:
		e.rollOutLocked()
	case !r.running() || w.standing != aside:
	case slices.Contains(r.Nodes, w.name):
		r.saved = false
		w.standing = pending
		r.count[pending]++
	default:
		r.saved = false
		r.Nodes = slices.Clip(r.Nodes) // what was shown of them stays as it is
		e.followCanariesLocked(w)
		r.enter(w, pending)
	}
}

// followCanariesLocked has a node that joins wait for those before it, when these
// were so few that all were canaries and nobody waited.
func (e *Engine) followCanariesLocked(w *worker) {
	r, c := e.rollout, e.design.Rollout.Canaries
	if c == nil || len(r.Canaries) > 0 || len(r.Nodes) < c.Count && c.Nodes.Selects(w.node) {
		return
	}
	isCanary := func(name string) bool {
		x := e.workers[name]
		return x != nil && c.Nodes.Selects(x.node) && x.standing != failed
	}
	if len(r.Nodes) <= c.Count && !slices.ContainsFunc(r.Nodes, func(name string) bool { return !isCanary(name) }) {
		r.Canaries = r.Nodes
	}
}

// inHandLocked says whether the node was begun in the rollout under way.
func (e *Engine) inHandLocked(w *worker) bool {
	b := w.memory.Recorded.Begun
	return e.rollout.running() && w.standing != aside && b != nil && b.Rollout.Equal(e.rollout.Since)
}

// begun is what is to be recorded of the node's part in the rollout when a
// step of it is taken; nil when it is recorded, or when the step goes past the
// order of the rollout, as the repair of drift does.
func (w *worker) begun(s site.Step) *site.Begun {
	e := w.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.rollout.running() || w.standing == aside || e.inHandLocked(w) || s.Drift || s.Impact == site.ImpactNone {
		return nil
	}
	now := time.Now()
	w.spent, w.counted = 0, now
	patience := max(site.Duration(longestTry), 3*w.plan.Expect)
	if h := w.node.Health(); h != nil {
		patience += site.Duration(h.Wait()) // which has an end of its own, see awaitHealth
	}
	return &site.Begun{Rollout: e.rollout.Since, Since: now, Patience: patience}
}

// restoreRolloutLocked goes on with the rollout that was recorded. When it is
// of another revision than the one in force, or there is none, the daemon was
// ended in between, and it begins now.
func (e *Engine) restoreRolloutLocked(s *site.RolloutStatus) {
	if s != nil {
		e.rollout = &rollout{RolloutStatus: *s, count: map[standing]int{}, saved: true}
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

// running says whether a rollout is under way, halted or not.
func (r *rollout) running() bool { return r != nil && r.Ended.IsZero() }

// standLocked takes note of how a turn has left a node, and of what follows for
// the rollout.
func (e *Engine) standLocked(w *worker) {
	r := e.rollout
	if !r.running() || w.standing == aside {
		return
	}
	if s := w.status.State; !w.counted.IsZero() && (s == site.Progressing || s == site.Retrying) {
		w.spent += time.Since(w.counted)
	}
	w.counted = time.Now()
	now := e.standingLocked(w)
	if w.status.Since.After(r.moved) {
		r.moved = w.status.Since
	}
	if now != w.standing {
		r.count[w.standing]--
		r.count[now]++
		e.fellOrRoseLocked(w, now)
		w.standing = now
	}
	e.proveLocked()
	if r.count[pending] == 0 && r.count[resting] == 0 {
		e.endRolloutLocked()
	}
}

func (e *Engine) standingLocked(w *worker) standing {
	s := w.status
	begun := e.inHandLocked(w)
	switch {
	case w.leaving || e.design.Unused(w.node) != "" || w.node.Decommission:
		return aside
	case w.memory.Recorded.Quarantined != nil:
		return resting
	case s.State == site.Paused && w.standing == done:
		return done // a hand kept off changes nothing of it
	case s.State == site.InSync && !w.outdated:
		return done
	case (begun || w.standing == failed) && (s.State == site.Stalled || s.State == site.Foreign) && !w.fresh: // else it is about to be tried afresh
		return failed
	case begun && s.State != site.Paused && w.spent > time.Duration(w.memory.Recorded.Begun.Patience):
		return failed
	case s.State == site.Stalled || s.State == site.Foreign || s.State == site.Paused || s.State == site.Blocked && s.Person && e.rollout.Halted == "":
		return resting
	}
	return pending
}

// fellOrRoseLocked counts a failure, and halts the rollout when there are too
// many or a canary is among them; it takes one back when the node recovers.
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
	allowed := maxFailures(e.design, len(r.Nodes))
	switch {
	case r.Halted != "":
	case slices.Contains(r.Canaries, w.name):
		e.haltLocked(fmt.Sprintf("canary %s has failed", w.name), w.name)
		r.CanaryFailed = true
	case len(r.Failed) > allowed:
		e.haltLocked(tooMany(r, allowed), slices.Collect(maps.Keys(r.Failed))...)
	}
}

// without is a copy of a map that lacks a key, so that what is shown of it does
// not change.
func without(m map[string]string, key string) map[string]string {
	c := make(map[string]string, len(m)+1)
	for k, v := range m {
		if k != key {
			c[k] = v
		}
	}
	return c
}

// maxFailures is how many nodes of a rollout may fail.
func maxFailures(s *site.Site, nodes int) int {
	if text := s.Rollout.MaxFailures; text != "" {
		return site.Bound(text, nodes)
	}
	return max(1, site.Bound("10%", nodes))
}

// haltedGate holds nodes that a halted rollout has not begun. What has drifted
// is repaired all the same.
func (e *Engine) haltedGate(w *worker, t try) *held {
	r := e.rollout
	if !r.running() || r.Halted == "" || w.standing == aside || t.begun || t.inHand || t.step.Drift || t.step.Impact == site.ImpactNone {
		return nil
	}
	return &held{state: site.Blocked, person: true, release: "a commit that changes what is designed for the failed nodes, or `slipway retry`",
		sentence: "the rollout of " + r.Revision.Short() + " is halted: " + r.Halted}
}

// canaryGate holds the other nodes of a rollout until its canaries have been
// in-sync for long enough.
func (e *Engine) canaryGate(w *worker, t try) *held {
	r, c := e.rollout, t.site.Rollout.Canaries
	if !r.running() || c == nil || len(r.Canaries) == 0 || w.standing == aside || t.begun || t.inHand || t.step.Drift ||
		t.step.Impact == site.ImpactNone || slices.Contains(r.Canaries, w.name) {
		return nil
	}
	e.waitLocked(w, canaries)
	for _, name := range r.Canaries {
		e.waitLocked(w, placeTopic(name))
	}
	soak := plan.Brief(c.Soak)
	if r.Proven.IsZero() {
		return e.inTheWayLocked(w, &held{state: site.Blocked, detail: e.notInSyncLocked(r.Canaries), release: some(r.Canaries) + " coming in-sync, for " + soak,
			sentence: fmt.Sprintf("it waits for the canaries (%s) to be in-sync for %s", some(r.Canaries), soak)}, r.Canaries...)
	}
	until := r.Proven.Add(time.Duration(c.Soak))
	if !time.Now().Before(until) {
		return nil
	}
	at := clock(until.UTC())
	if time.Duration(c.Soak) < time.Hour {
		at = until.UTC().Format("15:04:05 MST")
	}
	return &held{state: site.Blocked, until: until, release: "the canaries staying in-sync until " + at,
		sentence: fmt.Sprintf("the canaries (%s) are in-sync and have to stay so until %s", some(r.Canaries), at)}
}

// notInSyncLocked says how those of some nodes are that are not in-sync.
func (e *Engine) notInSyncLocked(names []string) string {
	var those []string
	for _, name := range names {
		if x := e.workers[name]; x != nil && x.status.State != site.InSync {
			those = append(those, fmt.Sprintf("%s is %s", x.withHealthLocked(), x.status.State))
		}
	}
	return some(those)
}

// inTheWayLocked says that neither of two can go on: a machine that is out of
// service waits for nodes to go first, and one of them waits for its place.
// Only a person can tell which is worth more.
func (e *Engine) inTheWayLocked(w *worker, h *held, first ...string) *held {
	i := slices.IndexFunc(first, func(name string) bool { return e.waiting[places][e.workers[name]] })
	if i < 0 || !w.outLocked() {
		return h
	}
	h.person = true
	h.detail = fmt.Sprintf("%s waits for the place of this machine, which is out of service", first[i])
	h.release = "a larger maxUnavailable, or `away` on this node"
	return h
}

// proveLocked notes since when all canaries are in-sync. One that falls out
// before they have soaked begins it anew.
func (e *Engine) proveLocked() {
	r, c := e.rollout, e.design.Rollout.Canaries
	if len(r.Canaries) == 0 || c == nil || !r.Proven.IsZero() && time.Since(r.Proven) >= time.Duration(c.Soak) {
		return
	}
	proven := true
	for _, name := range r.Canaries {
		w := e.workers[name]
		proven = proven && (w == nil || w.leaving || e.design.Unused(w.node) != "" || w.status.State == site.InSync && w.turned && !w.outdated)
	}
	switch {
	case proven == !r.Proven.IsZero():
		return
	case proven:
		r.Proven = time.Now()
	default:
		r.Proven = time.Time{}
	}
	r.saved = false
	e.wakeLocked(canaries)
}

// maxEnded is of how many rollouts that have ended it is known how: more than can
// begin and end between two looks at what was merged.
const maxEnded = 16

// endRolloutLocked ends the rollout under way, if there is one.
func (e *Engine) endRolloutLocked() {
	r := e.rollout
	if !r.running() {
		return
	}
	r.Done, r.Ended, r.saved = r.count[done], time.Now(), false
	e.ended = append(e.ended[max(0, len(e.ended)-maxEnded+1):], r.RolloutStatus)
	e.Meter.Ended(r.RolloutStatus)
	e.note(site.Event{Kind: site.EventRollout, Revision: r.Revision.ID, Took: site.Duration(r.Ended.Sub(r.Since)),
		Text: fmt.Sprintf("rollout of %s ended: %s", r.Revision.Short(), r.Outcome())})
	signal(e.poke)
	e.touch()
}

// goOn lets a halted rollout go on, by a person's order.
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
	e.mu.Lock()
	r := e.rollout
	if r == nil || r.saved {
		e.mu.Unlock()
		return nil
	}
	s := r.RolloutStatus
	r.saved = true
	e.mu.Unlock()
	if err := e.Records.PutRollout(ctx, &s); err != nil {
		e.mu.Lock()
		r.saved = false
		e.mu.Unlock()
		return fmt.Errorf("record rollout: %w", err)
	}
	return nil
}

// rolloutLocked is what people are shown of the rollout.
func (e *Engine) rolloutLocked() *site.RolloutStatus {
	if e.rollout == nil {
		return nil
	}
	s := e.rollout.RolloutStatus
	if e.rollout.running() {
		s.Done = e.rollout.count[done]
		return &s
	}
	for name := range s.Failed { // mended since the end
		if w := e.workers[name]; w != nil && w.status.State == site.InSync {
			s.Failed = without(s.Failed, name)
			s.Done++
		}
	}
	return &s
}

// queues says whether a new revision has to wait for the rollout under way, as
// the design in force says. One that is halted or at rest lets it in: it may be
// the remedy.
func (e *Engine) queues(rev site.Revision) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.rollout
	if e.design == nil || e.design.Rollout.OnChange != "queue" || !r.running() || r.Halted != "" || e.atRestLocked() || e.readOnly != "" {
		return false
	}
	if r.Queued == nil || r.Queued.ID != rev.ID {
		e.note(site.Event{Kind: site.EventDesign, Revision: rev.ID, Text: fmt.Sprintf("revision %s waits for the rollout of %s to end", rev.Short(), r.Revision.Short())})
		r.Queued = &rev
		e.touch()
	}
	return true
}

// atRestLocked says whether nothing will happen in the rollout by itself: what
// is left of it waits for nodes that do not get on, or for a person.
func (e *Engine) atRestLocked() bool {
	r := e.rollout
	if r.count[pending] == 0 {
		return true
	}
	if lately(r.moved, atRestAfter) || lately(r.Since, atRestAfter) {
		return false
	}
	for _, w := range e.workers {
		if w.standing == pending && e.getsOnLocked(w) {
			return false
		}
	}
	return true
}

// lately says whether less time than that has passed since. A recorded time that is
// still to come was long ago: the clock was set back since.
func lately(at time.Time, than time.Duration) bool {
	ago := time.Since(at)
	return ago >= 0 && ago < than
}

// getsOnLocked says whether something may still happen to a node by itself. A
// machine that was not begun and cannot be reached may never come.
func (e *Engine) getsOnLocked(w *worker) bool {
	switch w.status.State {
	case site.Blocked:
		return w.waitsForTime
	case site.Retrying, site.Unknown:
		return e.inHandLocked(w) || time.Since(w.status.Since) < atRestAfter
	}
	return true
}
