package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// worker keeps one node. Its turn is: look, plan, pass the gates, run the
// first step, and look again. Nothing depends on having seen an event.
type worker struct {
	e    *Engine
	name string
	wake chan struct{}
	stop context.CancelFunc

	saving sync.Mutex // one change of the node's record at a time
	gone   bool       // guarded by saving: the node is out of the records for good

	// Only the worker's own goroutine uses these.
	doors     map[site.EndpointKind]*door
	silent    map[site.EndpointKind]silence // endpoints that do not answer
	failures  int                           // in a row
	last      string                        // digest of the step that just succeeded
	lastDone  time.Time                     // when it did
	inside    time.Time                     // when the installed system was last asked
	tried     tried                         // of the step that is tried again
	disobeyed bool                          // was switched off by force and was on again
	spread    bool                          // has taken its own place in the period of looks
	dice      *rand.Rand
	due       time.Time // when the turn should have begun
	timing    *timing   // of the step under way
	awaited   awaited
	calendar  calendar
	oneTry    bool // a password may be sent once more although it was denied
	again     bool // a change of the network may be made once more although it was set back
	anew      bool // every facet is read in the next look
	// reinspect has the machine inspected when it next may be, which is not
	// before uninspected.
	reinspect   bool
	uninspected time.Time
	// found is what differs from the design of the node that it was compared
	// with.
	found    []site.Finding
	compared *site.Node
	// unlistened is when the ports of the system may be listened to again.
	unlistened time.Time
	logins     record.Sessions // that are recorded of the machine
	fenced     bool            // no session of an earlier term is left on its BMC

	// Guarded by the engine's mu.
	disksRead time.Time // when this daemon has read the machine's disks; zero before
	// disksUntold counts the inspections since then that did not tell of them all.
	disksUntold int
	node        *site.Node
	memory      site.Memory
	plan        site.NodePlan
	status      site.NodeStatus
	binding     site.Binding // of writes to its BMC
	expected    bool         // the next turn is due at its time
	fresh       bool         // start over: forget backoff and complaints
	retried     bool         // a person wants everything tried again
	singled     bool         // and on this node in particular
	thorough    bool         // inspect it too, because a person asked for it
	recheck     bool         // look inside too: something that it needs was disrupted
	leaving     bool         // the design in force does not have the node
	disrupts    bool         // a step of ours may have the machine out of service
	turned      bool         // has looked at least once
	blind       bool         // the last look failed
	outdated    bool         // the plan is not from a look since the design changed
	// waits is what the worker is to be woken by; waitsForTime is set when it
	// waits for a time too, and waitsForDisks when the disks are to be read.
	waits                       []topic
	waitsForTime, waitsForDisks bool
	// unarmed is why the machine is not armed for network boot, although it is to be; nil
	// where it is, or is not to be.
	unarmed error
	// awaits is the digest of the file that it waits for, and wants the files
	// that its plan needs.
	awaits string
	wait   *driver.Wait // of the step under way; nil for none
	wants  []artifact.File
	sealed *site.Sealed            // as it was signed last
	cut    context.CancelCauseFunc // ends the turn under way
	// looked and lookedInside are when the machine and its system were last
	// seen; blindInside is set when the last look inside failed.
	looked, lookedInside time.Time
	blindInside          bool
	stranger             string // see view
	probed               probed
	facts                rollout.Node // see factsLocked
	// What the last turn left, for those who wait for this node.
	wasOut    bool
	wasBefore string // as those who wait for its role last saw it, see rollout.Facts.Before
	// Its part in the rollout: how it stands, for how long it was worked on,
	// and until when that is counted.
	standing standing
	spent    time.Duration
	counted  time.Time
}

func newWorker(e *Engine, n *site.Node, m site.Memory, leaving bool, stop context.CancelFunc) *worker {
	w := &worker{
		e: e, name: n.Name, wake: make(chan struct{}, 1), stop: stop,
		doors: map[site.EndpointKind]*door{}, silent: map[site.EndpointKind]silence{},
		node: n, memory: m, leaving: leaving, due: time.Now(),
		dice: e.dice("node " + n.Name), wasOut: true, wasBefore: rollout.Uncertain,
		calendar: newCalendar(n.Name, m.Observed, time.Now()),
	}
	w.disrupts = !m.Recorded.Disrupted.IsZero()
	w.status = site.NodeStatus{Name: n.Name, Role: n.Role, Rack: n.Rack, State: site.Unknown,
		Reason: "not looked at since the daemon started", Since: time.Now()}
	return w
}

func (w *worker) wakeUp() { signal(w.wake) }

// run takes turns until the context ends.
func (w *worker) run(ctx context.Context) {
	defer w.closeDoors()
	for w.untilDue(ctx) {
		wait := w.interruptibleTurn(ctx)
		w.due = time.Now().Add(wait)
		if w.inspectMeanwhile(ctx) || w.listenMeanwhile(ctx) {
			w.due = time.Now()
		}
	}
}

// untilDue waits until a turn is due or something wakes the worker, and says
// whether the turn is to be taken.
func (w *worker) untilDue(ctx context.Context) bool {
	t := time.NewTimer(time.Until(w.due))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-w.wake:
		w.due = time.Now()
	case <-t.C:
	}
	return ctx.Err() == nil
}

// interruptibleTurn is a turn that a person's hold ends before its next
// request; the next turn then follows at once.
func (w *worker) interruptibleTurn(ctx context.Context) time.Duration {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	w.setCut(cut)
	defer w.setCut(nil)
	return w.turn(ctx)
}

func (w *worker) setCut(cut context.CancelCauseFunc) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	w.cut = cut
}

// job is what one turn works on.
type job struct {
	site     *site.Site
	node     *site.Node
	revision site.Revision
	leaving  bool
	memory   site.Memory
}

// outcome is how a turn ended.
type outcome struct {
	state  site.State
	reason string
	cause  string // the error behind the reason, as it came
	next   string // the planned step in one line
	// detail, release and person are those of a gate, see held.
	detail  string
	release string
	person  bool
	approve string
	wait    time.Duration
	until   time.Time // ends the wait at a known time; zero for none
	retry   bool      // wait is a backoff, shown as such
}

// turn is one look at the machine and at most one step. It returns how long
// to wait before the next.
func (w *worker) turn(ctx context.Context) time.Duration {
	j, err := w.begin(ctx)
	if err != nil {
		return w.finish(ctx, w.fail(j, err))
	}
	view, err := w.look(ctx, j)
	if ctx.Err() != nil {
		return 0
	}
	w.saw(view, err)
	if err == nil {
		err = w.learn(ctx, &j, view)
	}
	if err == nil {
		err = w.letGo(ctx, j)
		j.memory = w.job().memory
	}
	if err == nil {
		err = w.tendPorts(ctx, j)
		j.memory = w.job().memory
	}
	p := plan.Node(j.site, j.node, w.e.knownOf(w.name, j.memory))
	if lerr := w.letGoOfUnplanned(ctx, j, p); lerr != nil && err == nil {
		err = lerr
	}
	p.Findings = w.findings(ctx, j)
	w.keep(j, &p, view)
	if terr := w.e.tend(ctx, w.name); terr != nil && err == nil {
		err = terr
	}
	o := w.decide(ctx, j, p, view, err)
	if ctx.Err() != nil {
		return 0
	}
	return w.finish(ctx, o)
}

// saw notes how far the look saw.
func (w *worker) saw(v view, err error) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	w.blind = err != nil
	if err != nil {
		return
	}
	w.looked = time.Now()
	switch _, seen := v.seen.Facets[site.FacetOS]; {
	case seen:
		w.blindInside, w.lookedInside, w.stranger = false, w.looked, ""
	case v.inside != nil || v.dark:
		w.blindInside, w.stranger = true, v.stranger
	}
}

// begin takes a consistent picture of what the turn is about.
func (w *worker) begin(ctx context.Context) (job, error) {
	w.e.mu.Lock()
	fresh := w.fresh
	if w.recheck {
		w.inside = time.Time{}
	}
	if w.thorough {
		w.reinspect, w.uninspected = true, time.Time{}
	}
	retried, singled := w.retried, w.singled
	w.oneTry, w.again = w.singled, w.again || w.singled
	w.fresh, w.retried, w.singled, w.recheck, w.thorough, w.awaits = false, false, false, false, false, ""
	w.e.mu.Unlock()
	var err error
	if fresh {
		w.failures, w.last, w.inside = 0, "", time.Time{}
		w.anew = true
		for _, d := range w.doors {
			d.denied = nil
		}
		j := w.job()
		err = w.save(ctx, func(r *site.Recorded) {
			r.NoEffect, r.Unhealthy = nil, time.Time{}
			if retried {
				r.Attempts = nil
				retryLogins(r)
				if r.Ports != nil && !r.Ports.Back.IsZero() {
					r.Ports = &site.PreparedPorts{Ports: r.Ports.Ports, Since: r.Ports.Since}
				}
				if b := r.Agent; b != nil {
					again := *b
					again.Failed, again.Why = 0, ""
					if !b.IsOn() {
						again.Tries = 0
					}
					r.Agent = &again
				}
			}
			if singled {
				plan.AgainOnce(j.node, r, j.memory.Observed)
			}
		})
	}
	return w.job(), err
}

func (w *worker) job() job {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	return job{site: w.e.design, node: w.node, revision: w.e.applied, leaving: w.leaving, memory: w.memory}
}

// learn takes in what was seen: it adopts the machine at first contact and
// believes a marker over a lost record.
func (w *worker) learn(ctx context.Context, j *job, v view) error {
	w.e.mu.Lock()
	switch was, is := w.memory.Observed.Identity, v.seen.Identity; {
	case is.Known() && j.node.Machine().Known() && !j.node.Machine().Matches(is):
		// Another machine says nothing of the node's own, and what was seen
		// of that one nothing of the other, which may be the node's next.
		w.blind = true
		if is != was {
			w.memory.Observed = site.Observed{Identity: is}
			w.noteOther(is, j.node.Machine())
		}
	case is.Known() && was.Known() && is != was:
		// What was seen of the machine before says nothing of this one.
		w.noteOther(is, was)
		w.memory.Observed, w.inside, w.anew = v.seen, time.Time{}, true
	case v.seen.Facets[site.FacetDefinition].Have[site.FieldState] == site.StateAbsent:
		// What was inside a virtual machine is gone with it.
		w.memory.Observed, w.inside = v.seen, time.Time{}
	default:
		w.reinspect = w.reinspect || !alike(w.memory.Observed.Inventory, v.seen.Inventory)
		w.memory.Observed = w.memory.Observed.Merge(v.seen)
	}
	w.turned = true
	observed, health := w.memory.Observed, w.healthLocked()
	w.e.mu.Unlock()
	w.e.Records.Observe(w.name, observed)
	published := w.e.publishedKeys(w.name)
	signed, blank := w.e.proves(observed.Identity, v.seen.Marker), w.e.isBlank()
	err := w.save(ctx, func(r *site.Recorded) {
		adopt(r, j.node, observed)
		w.e.noteAgent(r, j.node, observed, j.node.Away != "" || j.node.Decommission || j.site.Unused(j.node) != "", j.site.Install.Allows(site.TrustNetwork), installTimeout(*j), time.Now())
		noteReached(r, j.node, observed, w.e.serves)
		noteOwned(r, j.node, v.seen)
		plan.NoteOnce(r, v.seen, time.Now())
		noteHealth(r, health)
		plan.EndAttempts(j.node, r, observed, time.Now())
		believeMarker(r, j.node, v.seen.Marker, signed, blank, published)
		noteDecommission(r, j.node)
	})
	if err == nil {
		err = w.forgetMachine(ctx, *j, v.seen)
	}
	j.memory = w.job().memory
	if signed {
		w.e.compareWithMarker(j.memory.Recorded, *v.seen.Marker)
	}
	return err
}

// adopt binds the node to the designed machine when it is first met, or when the
// design moves the name to it, and follows it to a new endpoint.
func adopt(r *site.Recorded, n *site.Node, o site.Observed) {
	designed := n.Machine()
	if !designed.Known() || !o.Identity.Known() || !designed.Matches(o.Identity) {
		return
	}
	if plan.Moves(n, *r) {
		move(r)
	}
	if r.Adopted == nil {
		r.Adopted = &site.Adoption{Machine: o.Identity, When: time.Now()}
	}
	url := n.Endpoints[site.BMC].URL
	if a := *r.Adopted; a.BMC == url && a.Machine != o.Identity && a.Machine.Known() && a.Machine.Matches(o.Identity) {
		a.Machine = o.Identity // the design names more of it by now
		r.Adopted = &a
	}
	if designed.Matches(r.Adopted.Machine) && r.Adopted.BMC != url {
		a := *r.Adopted
		a.BMC = url
		r.Adopted = &a
	}
}

// move forgets what was true of the machine before. What was installed is
// expected on the disks, and has to be proven from inside.
func move(r *site.Recorded) {
	r.Adopted, r.InFlight, r.Installing, r.Agent, r.NoEffect, r.Reached, r.Attempts, r.Credentials = nil, nil, nil, nil, nil, nil, nil, nil
	r.Healthy, r.Unhealthy, r.EverHealthy, r.Owned = time.Time{}, time.Time{}, time.Time{}, site.Owned{}
	if i := r.Installed; i != nil {
		r.Installed = &site.Installation{Generation: i.Generation, Image: i.Image, Since: time.Now(), Attempt: i.Attempt}
	}
}

// noteReached records which facets were seen to be as designed, so that a later
// difference is known for drift.
func noteReached(r *site.Recorded, n *site.Node, o site.Observed, serves map[site.Facet]bool) {
	for f := range serves {
		is := n.Asked(f)
		if is == "" || r.Reached[f] == is || !plan.AsDesigned(n, f, o.Facets[f]) {
			continue
		}
		r.Reached = maps.Clone(r.Reached)
		if r.Reached == nil {
			r.Reached = map[site.Facet]string{}
		}
		r.Reached[f] = is
	}
}

// believeMarker takes over what the installed system says of its own
// installation: that the one under way has come to its end, that the last one is
// there, or, where nothing or something older is recorded in records that may
// lack something, what it proves by the site's signature; it has the host keys
// that were published of it then. Anything else it says is for a person.
func believeMarker(r *site.Recorded, n *site.Node, m *site.Marker, signed, blank bool, hostKeys []string) {
	if m == nil || !speaksOf(n, m) {
		return
	}
	switch i := r.Installed; {
	case r.UnderWay() > 0:
		if is := underWay(*r); m.Generation == is.Generation && m.Image == is.Image && is.FirstBoot.Gave(m.Token) {
			r.Installed = &site.Installation{Generation: is.Generation, Image: is.Image, Since: time.Now(), Attempt: is.Attempt,
				Proven: true, Reported: true, Signed: signed, FirstBoot: site.FirstBoot{HostKeys: is.FirstBoot.HostKeys, Design: is.FirstBoot.Design}}
			r.Installed.ByAgent, r.Installed.BootUnknown = is.ByAgent, is.BootUnknown
			r.Installing, r.InFlight, r.Agent, r.Owned = nil, nil, nil, ownedBy(is)
		}
	case signed && (i == nil || blank && m.Generation > i.Generation):
		r.Installed, r.Owned = installedBy(m), site.Owned{}
		r.Installed.FirstBoot.HostKeys = hostKeys
	case i != nil && m.Generation == i.Generation && m.Image == i.Image && !(i.Proven && i.Reported && i.Signed == signed):
		reported := *i
		reported.Proven, reported.Reported, reported.Signed = true, true, signed
		r.Installed = &reported
	}
}

// underWay is the installation that was begun and is not known to have ended.
func underWay(r site.Recorded) site.Installation {
	if r.Installing != nil && !r.InstallBegun() {
		return *r.Installing
	}
	f := r.InFlight
	return site.Installation{Generation: f.Step.Generation, Image: f.Step.Image.SHA256, Since: f.Since, Attempt: f.Step.Attempt,
		FirstBoot: f.FirstBoot, Served: f.Served, ByAgent: f.Step.ByAgent()}
}

func noteDecommission(r *site.Recorded, n *site.Node) {
	switch {
	case !n.Decommission:
		r.Decommissioned = time.Time{}
	case r.Decommissioned.IsZero():
		r.Decommissioned = time.Now()
	}
}

// save changes what is recorded of the node, durably before it returns. The
// change must replace what pointers point to, never write through them.
func (w *worker) save(ctx context.Context, change func(*site.Recorded)) error {
	w.saving.Lock()
	defer w.saving.Unlock()
	before := w.job().memory.Recorded
	r := before
	change(&r)
	if w.gone || reflect.DeepEqual(before, r) {
		return nil
	}
	if err := w.e.Records.PutNode(ctx, w.name, r); err != nil {
		return fmt.Errorf("record %s: %w", w.name, err)
	}
	w.e.mu.Lock()
	w.memory.Recorded = r
	w.grantLocked()
	w.e.mu.Unlock()
	return nil
}

// keep shows the plan that the turn goes by.
func (w *worker) keep(j job, p *site.NodePlan, v view) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	if v.inside != nil {
		p.Notes = append(p.Notes, verdict(v.inside))
	}
	if note := w.weaker(); note != "" {
		p.Notes = append(p.Notes, note)
	}
	w.binding = w.doors[site.BMC].binding()
	was := w.destroysLocked()
	w.plan = *p
	w.noteWantLocked()
	if note := w.startNoteLocked(); note != "" {
		w.plan.Notes = append(w.plan.Notes, note)
	}
	if note := w.artifactNoteLocked(); note != "" {
		w.plan.Notes = append(w.plan.Notes, note)
	}
	if !slices.Equal(was, w.destroysLocked()) {
		w.e.undecided.known = false
	}
	w.outdated = w.outdated && w.node != j.node
	if !w.disrupts {
		w.disrupts = j.memory.Recorded.InstallBegun() || j.memory.Recorded.Installing != nil
	}
}

// finish shows how the turn ended and says when the next is due.
func (w *worker) finish(ctx context.Context, o outcome) time.Duration {
	if o.state == site.InSync {
		w.failures = 0
	}
	w.show(ctx, o)
	w.settle(ctx)
	w.expected = o.retry || o.state == site.Progressing || !o.until.IsZero() && time.Until(o.until) < 2*longestInspection
	if o.wait == 0 {
		return 0
	}
	if o.state == site.InSync && !w.spread {
		// All machines are first looked at together; from then on their looks
		// are spread over the period.
		w.spread = true
		return time.Duration(w.dice.Float64() * float64(o.wait))
	}
	wait := jitter(w.dice, o.wait)
	if o.until.IsZero() {
		return wait
	}
	return max(time.Millisecond, min(wait, time.Until(o.until))) // what begins at a time is not late for it
}

// settle tells those who wait for this node how the turn has left it.
func (w *worker) settle(ctx context.Context) {
	e := w.e
	e.mu.Lock()
	f := e.factsLocked()
	if out := f.IsLacking(w.factsLocked(f.Now)); out != w.wasOut {
		w.wasOut = out
		if !out {
			e.freePlacesLocked()
		}
	}
	if before := f.Before(w.factsLocked(f.Now)); before != w.wasBefore {
		w.wasBefore = before
		e.wakeLocked(rollout.RoleTopic(w.node.Role))
	}
	e.standLocked(w)
	e.mu.Unlock()
	if err := e.saveRollout(ctx); err != nil && ctx.Err() == nil {
		e.setProblem("records", err)
	}
}

// fail classifies an error into an outcome. Retries wait longer each time.
func (w *worker) fail(j job, err error) outcome {
	if errors.Is(err, driver.ErrNotPermitted) {
		return outcome{state: site.Progressing, reason: steady(err)} // the gates say at once what it waits for
	}
	if errors.Is(err, driver.ErrDenied) || errors.Is(err, driver.ErrRefused) || errors.Is(err, errors.ErrUnsupported) {
		return outcome{state: site.Stalled, reason: verdict(err), cause: cause(err), wait: observeEvery(j.site)}
	}
	w.failures++
	wait := backoff(w.failures)
	var after driver.RetryAfter
	if errors.As(err, &after) {
		wait = max(wait, min(time.Duration(after.RetryAfterSeconds())*time.Second, maxRetryAfter))
	}
	return outcome{state: site.Retrying, reason: verdict(err), cause: cause(err), wait: wait, retry: true}
}

func observeEvery(s *site.Site) time.Duration {
	if s == nil || s.Rollout.ObserveEvery <= 0 {
		return time.Minute
	}
	return time.Duration(s.Rollout.ObserveEvery)
}
