package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Config is what an engine works with. Everything about machines comes from
// the design; this only says where things are.
type Config struct {
	// Site is the name that records and reports go by.
	Site   string
	Source Source
	// Evaluate turns a revision into the site's effective design. Findings
	// are the design's mistakes; an error is ours and tried again.
	Evaluate func(context.Context, site.Revision) (*site.Site, []site.Finding, error)
	// Drivers are the drivers by the scheme of endpoints up to "+".
	Drivers map[string]driver.Driver
	Secrets Secrets
	Records *record.Site
	// Reporters are told of every change of status.
	Reporters []Reporter
	// Meter is told how well the engine keeps up; nil for nobody.
	Meter Meter
	// ObserveOnly runs the whole loop without a write to any machine.
	ObserveOnly bool
	// Seed is what all jitter is drawn from; 0 for another one each time.
	Seed uint64
	Log  *slog.Logger
}

// Secrets gives the value of a credential for use on one host.
type Secrets interface {
	// Get refuses a host that the credential may not be sent to.
	Get(name, host string) (secret.Value, error)
}

// Bounds on what goes on at once in a site. Each machine has one worker and
// so at most one request at a time.
const (
	maxLooks = 1024 // observations
	maxSteps = 2048 // steps being applied
)

// Times that the design does not set.
const (
	firstPoll    = 30 * time.Second // until a design says how often to poll
	soonest      = 2 * time.Second  // looks at a machine that something is under way on, at first
	waitEvery    = 5 * time.Second  // and later
	systemEvery  = 5 * time.Minute  // looks inside an in-sync machine
	flushEvery   = 3 * time.Minute  // writes of observations to the records
	fetchTimeout = 5 * time.Minute
	closeTimeout = 20 * time.Second
)

// Engine keeps one site as its design says.
type Engine struct {
	Config
	looks, steps *semaphore.Weighted
	inspections  *semaphore.Weighted
	pace         pace          // of inspections
	changed      chan struct{} // wakes the reporting loop
	poke         chan struct{} // wakes the following loop
	running      sync.WaitGroup
	ready        chan struct{} // closed once the records are loaded
	holding      sync.Mutex    // one pause or resume at a time
	serves       map[site.Facet]bool
	journal      journal
	writing      sync.Mutex // one write of the history at a time
	rolling      sync.Mutex // one write of the rollout at a time
	proposing    sync.Mutex // one change of what is recorded of proposals at a time

	mu        sync.Mutex
	ctx       context.Context // of Run; workers live in it
	design    *site.Site
	applied   site.Revision
	attempted site.Revision
	findings  []site.Finding
	problems  map[string]site.Problem
	rounds    map[string]time.Time // when each loop last began one
	readOnly  string               // why nothing is written, beside ObserveOnly
	// beganEmpty is set for a daemon that had no records; not written to after
	// the start.
	beganEmpty bool
	paused     *site.Hold
	approved   []approval
	proposals  map[int]record.Proposed // by number
	shown      map[string]site.Losses  // sets of destruction, by digest
	// shownOrder are their digests, oldest first.
	shownOrder []string
	undecided  undecided
	rollout    *rollout // nil before the first
	removals   []record.Removal
	history    site.History    // replaced, never written to
	learnt     map[string]bool // keys of history that are still to be recorded
	workers    map[string]*worker
	nextStart  time.Time                     // no worker begins before
	roles      map[string]map[string]*worker // the same by role
	waiting    waiting
	term       tenure
	swept      *site.Swept // of the last sweep; replaced, never written to
}

// New makes an engine; Run starts it.
func New(c Config) *Engine {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Meter == nil {
		c.Meter = unmetered{}
	}
	c.Log = c.Log.With("site", c.Site)
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	return &Engine{
		Config: c,
		looks:  semaphore.NewWeighted(maxLooks),
		steps:  semaphore.NewWeighted(maxSteps),

		inspections: semaphore.NewWeighted(maxInspections),
		changed:     make(chan struct{}, 1),
		poke:        make(chan struct{}, 1),
		ready:       make(chan struct{}),
		problems:    map[string]site.Problem{},
		rounds:      map[string]time.Time{},
		workers:     map[string]*worker{},
		roles:       map[string]map[string]*worker{},
		proposals:   map[int]record.Proposed{},
		shown:       map[string]site.Losses{},
		learnt:      map[string]bool{},
		waiting:     waiting{},
		serves:      driver.Serves(c.Drivers),
	}
}

// Run keeps the site until the context ends. What was in force before a
// restart is in force again at once, also when the repository is away.
func (e *Engine) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := e.restore(ctx); err != nil {
		return fmt.Errorf("restore site %s: %w", e.Site, err)
	}
	close(e.ready)
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context){e.follow, e.report, e.flush, e.keepHistory, e.keepTerm, e.discover} {
		loops.Go(func() { loop(ctx) })
	}
	<-ctx.Done()
	loops.Wait()
	e.running.Wait()
	return e.saveLast(ctx)
}

// restore loads the records and puts the last good design in force.
func (e *Engine) restore(ctx context.Context) error {
	snap, err := e.Records.Load(ctx)
	if err != nil {
		return err
	}
	e.setProblem("term", e.beginTerm(ctx, snap.Sessions))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ctx = ctx
	e.rounds[LoopPoll], e.rounds[LoopTurn] = time.Now(), time.Now()
	e.paused = snap.Paused
	e.removals = snap.Removals
	for _, a := range snap.Approved {
		e.approved = append(e.approved, newApproval(a))
	}
	for _, p := range snap.Proposed {
		e.proposals[p.Number] = p
	}
	e.history = snap.History
	if snap.Accepted == nil {
		e.beganEmpty = true
		return nil
	}
	if v := snap.Accepted.SchemaVersion; v != site.SchemaVersion {
		e.readOnly = fmt.Sprintf("the design in force (%s) was evaluated with schema %s and this program reads %s; observing only until a revision passes",
			snap.Accepted.Revision.Short(), v, site.SchemaVersion)
	}
	e.applied = snap.Accepted.Revision
	e.design = snap.Accepted.Design
	for _, name := range startOrder(e.design) {
		e.startLocked(e.design.Nodes[name], snap.Nodes[name], false)
	}
	for name, m := range snap.Nodes {
		if e.workers[name] == nil && m.Recorded.Departed != nil {
			e.startLocked(m.Recorded.Departed.Node, m, true)
		}
	}
	e.planLocked()
	e.restoreRolloutLocked(snap.Rollout)
	return nil
}

// flush writes observations to the records now and then.
func (e *Engine) flush(ctx context.Context) {
	dice := e.dice("flush")
	for sleep(ctx, jitter(dice, flushEvery)) {
		e.setProblem("records", e.Records.Flush(ctx))
	}
}

// saveLast writes the last observations when the engine stops, and ends its
// term.
func (e *Engine) saveLast(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := errors.Join(e.Records.Flush(ctx), e.releaseTerm(ctx)); err != nil {
		return fmt.Errorf("save the last of site %s: %w", e.Site, err)
	}
	return nil
}

// setProblem notes or clears what is wrong with the site as a whole.
func (e *Engine) setProblem(key string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	old, had := e.problems[key]
	switch {
	case err == nil && !had, err != nil && had && old.What == steady(err):
		return
	case err == nil:
		delete(e.problems, key)
	case had:
		e.problems[key] = site.Problem{About: key, What: steady(err), Since: old.Since}
	default:
		e.problems[key] = site.Problem{About: key, What: steady(err), Since: time.Now()}
		e.Log.Warn("site has a problem", "problem", key, "err", err)
	}
	e.touch()
}

// Problem notes, among the site's own, what is wrong with a part of the daemon
// that the engine does not see; nil when that is over.
func (e *Engine) Problem(about string, err error) { e.setProblem(about, err) }

// touch asks the reporting loop to look at the status again.
func (e *Engine) touch() { signal(e.changed) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sleep waits, and says false when the context ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// jitter spreads a period by a tenth to either side, so that many machines,
// or many sites, do not fall into step.
func jitter(dice *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*dice.Float64()))
}

// dice are for one goroutine, so that what each draws does not depend on how
// they take turns.
func (e *Engine) dice(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(e.Seed, h.Sum64()))
}
