package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// worker keeps one node. A reconcile looks, plans, passes the gates, runs the first step,
// and looks again. Nothing depends on having seen an event.
type worker struct {
	e    *Engine
	name string
	wake chan struct{}
	// ask wakes it for a look that must not shorten the wait after a failure.
	ask  chan struct{}
	stop context.CancelFunc

	saving sync.Mutex // one change of the node's record at a time
	gone   bool       // guarded by saving: the node is deleted from the records for good

	// Only the worker's own goroutine uses these.
	connections map[site.EndpointKind]*connection
	silent      map[site.EndpointKind]silence // endpoints that do not answer
	failures    int                           // failed reconciles in a row
	last        string                        // digest of the step that just succeeded
	lastDone    time.Time                     // when that step succeeded
	inside      time.Time                     // when the installed system was last asked
	tried       tried                         // the step being retried
	disobeyed   bool                          // was forced off and turned itself on again
	spread      bool                          // has its own place in the period of looks
	dice        *rand.Rand
	due         time.Time // when the reconcile should have begun
	notBefore   time.Time // until when the machine asked not to be asked
	timing      *timing   // of the step under way
	awaited     awaited
	calendar    calendar
	oneTry      bool // a denied password may be sent once more
	again       bool // a network change that was rolled back may be made once more
	tries       tries
	anew        bool // the next look reads every facet
	// reinspect requests an inspection as soon as one is allowed, which is not before
	// uninspected.
	reinspect   bool
	uninspected time.Time
	// found is what differs from the node design in compared.
	found    []site.Finding
	compared *site.Node
	// unlistened is when the system's ports may be listened to again.
	unlistened time.Time
	logins     record.Sessions // sessions recorded for the machine
	lending    lending
	fenced     bool // no session of an earlier term is left on its BMC

	answers  time.Time // the asked that the look under way answers
	revision string    // that the turn under way is about
	// Guarded by the engine's mu.
	inherited bool      // its quarantine follows from an incident and is not recorded yet
	disksRead time.Time // when this daemon last read the machine's disks; zero if never
	// disksUntold counts the inspections since then that did not report all disks.
	disksUntold int
	node        *site.Node
	memory      site.Memory
	plan        site.NodePlan
	status      site.NodeStatus
	asks        question     // what the status asks a person, see approvalLocked
	binding     site.Binding // of writes to its BMC
	expected    bool         // the next reconcile is due at its time
	fresh       bool         // start over: forget backoff and complaints
	retried     bool         // a person asked to retry everything
	singled     bool         // and asked it for this node in particular
	thorough    bool         // also inspect, because a person asked
	recheck     bool         // also look inside: something it needs was disrupted
	leaving     bool         // the design in force does not have the node
	disrupts    bool         // a step may have taken the machine out of service
	turned      bool         // has looked at least once
	blind       bool         // the last look failed
	outdated    bool         // no reconcile has used the present design yet
	// waits holds the topics that wake the worker. waitsForTime is set if it also waits
	// for a time, and waitsForDisks if the disks must be read.
	waits                       []topic
	waitsFor                    []string // the first nodes that it waits for; replaced, never written to
	waitsForTime, waitsForDisks bool
	// unarmed is why the machine is not armed for network boot although it should be; nil
	// otherwise.
	unarmed error
	// awaits is the digest of the file that it waits for. wants holds the files that its
	// plan needs.
	awaits string
	wait   *driver.Wait // of the step under way; nil for none
	wants  []artifact.File
	sealed *site.Sealed // as last signed
	// recalled names the records that have what was published of its BMC's passwords.
	recalled string
	cut      context.CancelCauseFunc // ends the reconcile under way
	// looked and lookedInside are when the machine and its system were last seen.
	// blindInside is set if the last look inside failed.
	looked, lookedInside time.Time
	blindInside          bool
	unplanned            bool   // see rollout.Node.Unplanned
	stranger             string // see view
	probed               probed
	facts                rollout.Node // see factsLocked
	// lastLooks is how the last look through each endpoint ended. asked is when somebody asked
	// for a look that did not end yet; zero for nobody.
	lastLooks map[site.EndpointKind]site.Look
	asked     time.Time
	// What the last reconcile left, for nodes that wait for this one.
	wasOut    bool
	wasBefore string // last shown to nodes that wait for its role, see rollout.Facts.Before
	// Its part in the rollout: its standing, how long it was worked on, and until when
	// that is counted.
	standing standing
	spent    time.Duration
	counted  time.Time
	traced   traced
}

func newWorker(e *Engine, n *site.Node, m site.Memory, leaving bool, stop context.CancelFunc) *worker {
	w := &worker{
		e: e, name: n.Name, wake: make(chan struct{}, 1), ask: make(chan struct{}, 1), stop: stop,
		connections: map[site.EndpointKind]*connection{}, silent: map[site.EndpointKind]silence{}, lastLooks: map[site.EndpointKind]site.Look{},
		node: n, memory: m, leaving: leaving, due: time.Now(),
		dice: e.dice("node " + n.Name), wasOut: true, wasBefore: rollout.Uncertain,
		calendar: newCalendar(n.Name, m.Observed, time.Now()),
	}
	w.disrupts = !m.Recorded.Disrupted.IsZero() || m.Recorded.SentPassword()
	w.status = site.NodeStatus{Name: n.Name, Role: n.Role, Rack: n.Rack, State: site.Unknown,
		Reason: "not looked at since the daemon started", Since: time.Now()}
	return w
}

func (w *worker) wakeUp() { signal(w.wake) }

func (w *worker) setCut(cut context.CancelCauseFunc) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	w.cut = cut
}

// job is what one reconcile works on.
type job struct {
	site     *site.Site
	node     *site.Node
	revision site.Revision
	leaving  bool
	memory   site.Memory
}

// outcome is how a reconcile ended.
type outcome struct {
	state  site.State
	reason string
	cause  string // the raw error behind the reason
	next   string // the planned step in one line
	// See held for detail, release and person.
	detail  string
	release string
	person  bool
	asks    question
	wait    time.Duration
	until   time.Time // ends the wait at a known time; zero for none
	retry   bool      // wait is a backoff, shown as such
	drafted []site.Drafted
}

func (w *worker) job() job {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	return job{site: w.e.design, node: w.node, revision: w.e.applied, leaving: w.leaving, memory: w.memory}
}

// save changes the node's record, durably before it returns. The change function must
// replace what pointers point to, never write through them.
func (w *worker) save(ctx context.Context, change func(*site.Recorded)) error {
	w.saving.Lock()
	defer w.saving.Unlock()
	before := w.job().memory.Recorded
	r := before
	change(&r)
	r = r.WithIdentity(before)
	if w.gone || reflect.DeepEqual(before, r) {
		return nil
	}
	if err := w.e.Records.PutNode(ctx, w.name, r); err != nil {
		return fmt.Errorf("record %s: %w", w.name, err)
	}
	w.setRecorded(r)
	if site.RevokedIn(r.TLS) != site.RevokedIn(before.TLS) {
		signal(w.e.revoked)
	}
	return nil
}

// setRecorded takes over what was recorded.
func (w *worker) setRecorded(r site.Recorded) {
	w.e.mu.Lock()
	defer w.e.mu.Unlock()
	w.memory.Recorded = r
	w.grantLocked()
}
