package engine

import (
	"context"
	crand "crypto/rand"
	"errors"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/review"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
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
	Secrets secret.Source
	Records *record.Site
	// Artifacts are the files that machines are installed from. Without them no
	// physical machine is installed.
	Artifacts Artifacts
	// Agents listen to Slipway's agents. Without them no root file system is installed.
	Agents Agents
	// NetBoots start agents over the network. Without them they start from media alone.
	NetBoots NetBoots
	// Switches sets up the ports of switches by which machines start over the network; nil for
	// nobody, and then Slipway checks by LLDP that these are plugged in as designed.
	Switches driver.Switches
	// Reporters are told of every change of status.
	Reporters []Reporter
	// Proposer proposes drift of facets with that policy; nil for nobody.
	Proposer Proposer
	// Meter is told how well the engine keeps up; nil for nobody.
	Meter Meter
	// Anchor is where the term is published; nil for nowhere.
	Anchor Anchor
	// Branch writes the status to where the anchor reads; nil for nobody. It is told
	// nothing before what is there was compared with the records.
	Branch Reporter
	// Key is the site's root key; without one nothing is signed.
	Key *sitekey.Key
	// Notes are what else people are told with the status; nil for nothing.
	Notes func() []string
	// Served says where the daemon serves DHCP; nil for nowhere. It must not call the
	// engine.
	Served func() []site.Served
	// ObserveOnly runs the whole loop without a write to any machine.
	ObserveOnly bool
	// Seed is what all jitter is drawn from; 0 for another one each time.
	Seed uint64
	Log  *slog.Logger
}

// Agents are those of driver.Agents.
type Agents = driver.Agents

// Sealing is what Secrets may have too: it opens what the design in force has
// encrypted in the repository.
type Sealing interface {
	// InForce is told of each design when it comes in force.
	InForce(*site.Site)
}

func (e *Engine) tellSecrets(design *site.Site) {
	if s, ok := e.Secrets.(Sealing); ok {
		s.InForce(design)
	}
}

// Bounds on what goes on at once in a site. Each machine has one worker and
// so at most one request at a time.
const (
	maxLooks = 1024 // observations
	maxSteps = 2048 // steps being applied
)

// Times that the design does not set.
const (
	firstPoll    = 5 * time.Second // until a design says how often to poll
	soonest      = 2 * time.Second // looks at a machine that something is under way on, at first
	waitEvery    = 5 * time.Second // and later
	systemEvery  = 5 * time.Minute // looks inside an in-sync machine
	flushEvery   = 3 * time.Minute // writes of observations to the records
	fetchTimeout = 5 * time.Minute
	closeTimeout = 20 * time.Second
)

// Engine keeps one site as its design says.
type Engine struct {
	Config
	looks, steps *semaphore.Weighted
	inspections  *semaphore.Weighted
	awaited      *semaphore.Weighted // inspections that an approval waits for
	pace         pace                // of inspections
	changed      chan struct{}       // wakes the reporting loop
	poke         chan struct{}       // wakes the following loop
	wants        chan struct{}       // wakes the loop of artifacts
	running      sync.WaitGroup
	ready        chan struct{} // closed once the records are loaded
	inForce      chan struct{} // wakes the reviews when a design comes in force
	holding      sync.Mutex    // one pause or resume at a time
	serves       map[site.Facet]bool
	journal      journal
	proposals    *review.Recorded
	said         sayings
	writing      sync.Mutex // one write of the history at a time
	rolling      sync.Mutex // one write of the rollout at a time
	booking      sync.Mutex // one change of the ledger at a time

	mu        sync.Mutex
	ctx       context.Context // of Run; workers live in it
	design    *site.Site
	mates     mates
	applied   site.Revision
	attempted site.Revision
	findings  []site.Finding
	problems  map[string]site.Problem
	// underway counts the logins without an answer yet, by the digest of the
	// password; loginDone is closed when one of them ends. met is what became of
	// passwords at machines of sweeps, by address.
	underway  map[string]int
	loginDone chan struct{}
	met       map[string]site.CredentialUse
	rounds    map[string]time.Time // when each loop last began one
	readOnly  string               // why nothing is written, beside ObserveOnly
	paused    *site.Hold
	// book and accounts are the ledger; changed with booking held.
	book     record.Book
	accounts map[string]site.Account
	latest   time.Time              // by which approvals end, see ledgerNow
	reckoned time.Time              // when latest was reckoned last
	shown    map[string]site.Losses // sets of destruction, by digest
	// shownOrder are their digests, oldest first.
	shownOrder []string
	undecided  undecided
	rollout    *rolling             // nil before the first
	ended      []site.RolloutStatus // the last rollouts of this process that have ended
	removals   []record.Removal
	history    site.History    // replaced, never written to
	learnt     map[string]bool // keys of history that are still to be recorded
	workers    map[string]*worker
	nextStart  time.Time                     // no worker begins before
	roles      map[string]map[string]*worker // the same by role
	others     map[string]site.Reach         // what nodes have that the design no longer says; replaced, never written to
	waiting    waiting
	drafted    map[string]site.Drafted // what became of drift that is to be proposed, by digest; replaced, never written to
	term       tenure
	anchor     anchorage
	instance   string // of this run, see site.TermClaim
	// published are the sealed parts of nodes as they were when they were compared
	// with the records. Their signatures are verified where they are used.
	published map[string]site.Sealed
	swept     *site.Swept // of the last sweep; replaced, never written to
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
	serves := driver.Serves(c.Drivers)
	if c.Agents != nil {
		serves[site.FacetStorage] = true
	}
	return &Engine{
		Config: c,
		looks:  semaphore.NewWeighted(maxLooks),
		steps:  semaphore.NewWeighted(maxSteps),

		inspections: semaphore.NewWeighted(maxInspections),
		awaited:     semaphore.NewWeighted(maxAwaited),
		changed:     make(chan struct{}, 1),
		poke:        make(chan struct{}, 1),
		wants:       make(chan struct{}, 1),
		ready:       make(chan struct{}),
		inForce:     make(chan struct{}, 1),
		problems:    map[string]site.Problem{},
		underway:    map[string]int{}, loginDone: make(chan struct{}), met: map[string]site.CredentialUse{},
		rounds:    map[string]time.Time{},
		workers:   map[string]*worker{},
		roles:     map[string]map[string]*worker{},
		proposals: review.NewRecorded(c.Records),
		shown:     map[string]site.Losses{},
		accounts:  map[string]site.Account{},
		published: map[string]site.Sealed{},
		instance:  crand.Text()[:12],
		learnt:    map[string]bool{},
		waiting:   waiting{},
		serves:    serves,
	}
}

// Serves are the facets that are acted on or observed.
func (e *Engine) Serves() map[site.Facet]bool { return e.serves }

// Ready is closed once the records are loaded. From then on the artifacts that
// installations under way need are granted to their machines.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// setProblem notes or clears what is wrong with the site as a whole.
func (e *Engine) setProblem(key string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	old, had := e.problems[key]
	switch {
	case err == nil && !had, err != nil && had && old.What == retry.Steady(err):
		return
	case err == nil:
		delete(e.problems, key)
		e.Log.Info("problem solved", "about", key, "after", time.Since(old.Since).Round(time.Second).String())
	default:
		now := site.Problem{About: key, What: retry.Steady(err), Since: time.Now()}
		if had {
			now.Since = old.Since
		}
		e.problems[key] = now
		e.Log.Warn("site has a problem", "about", key, "what", now.What)
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

// dice are for one goroutine, so that what each draws does not depend on how
// they take turns.
func (e *Engine) dice(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(e.Seed, h.Sum64()))
}
