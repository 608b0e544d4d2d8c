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
	"github.com/slipway-gitops/slipway/engine/incident"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/review"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

// Config is what an engine works with. Everything about machines comes from the design; Config
// only says where things are.
type Config struct {
	// Site is the name in records and reports.
	Site   string
	Source Source
	// Evaluate turns a revision into the site's effective design. Findings are mistakes in the
	// design; an error is Slipway's own, and Evaluate is tried again.
	Evaluate func(context.Context, site.Revision) (*site.Site, []site.Finding, error)
	// Drivers holds the drivers, by an endpoint's scheme up to "+".
	Drivers map[string]driver.Driver
	Secrets secret.Source
	Records *record.Site
	// Artifacts serves the files that machines are installed from. Without it no physical
	// machine is installed.
	Artifacts Artifacts
	// Agents listens to Slipway's agents. Without it no root file system is installed.
	Agents Agents
	// NetBoots starts agents over the network. Without it they start only from media.
	NetBoots NetBoots
	// Switches sets up the switch ports that machines start from over the network. If it is
	// nil, Slipway only checks by LLDP that these ports are plugged in as designed.
	Switches driver.Switches
	// Reporters receive every change of status.
	Reporters []Reporter
	// Proposer proposes drift for facets with that policy; may be nil.
	Proposer Proposer
	// Meter measures how well the engine keeps up; may be nil.
	Meter Meter
	// Tracer follows the work on revisions; may be nil.
	Tracer Tracer
	// Anchor is where the term is published; nil for nowhere.
	Anchor Anchor
	// Branch writes the status to where the anchor reads; may be nil. It gets nothing before
	// the published state there was compared with the records.
	Branch Reporter
	// Alive leaves a sign of life beside the branch every AliveEvery, for people elsewhere; nil for none.
	Alive      Alive
	AliveEvery time.Duration
	// Key is the site's root key; without it nothing is signed.
	Key *sitekey.Key
	// TLSIntermediate is the file of an authority for TLS whose root is elsewhere, as
	// tlsca.Intermediate reads it; without it the authority follows from Key.
	TLSIntermediate []byte
	// Cluster is the ID of the cluster of members that has the records; empty for none.
	Cluster string
	// Notes returns more notes to report with the status; may be nil.
	Notes func() []string
	// Files returns the URL below which a forge shows the files of a revision; nil without a forge.
	Files func(revision string) string
	// Served returns where the daemon serves DHCP; nil for nowhere. It must not call the
	// engine.
	Served func() []site.Served
	// Surroundings returns checks of what the engine does not see, for a verification; nil for
	// none. It must not call the engine.
	Surroundings func(now time.Time) []site.Check
	// Host has the addresses and names of the host that the daemon runs on, to recognize its
	// node: an incident that would switch it off is confirmed by a person.
	Host []string
	// ObserveOnly runs the whole loop without a write to any machine.
	ObserveOnly bool
	// Seed seeds all jitter; 0 picks a new seed each time.
	Seed uint64
	Log  *slog.Logger
}

// Agents is driver.Agents.
type Agents = driver.Agents

// Sealing is an optional interface of Secrets: it opens the secrets that the design in force
// keeps encrypted in the repository.
type Sealing interface {
	// InForce is called with each design that comes into force.
	InForce(*site.Site)
}

func (e *Engine) tellSecrets(design *site.Site) {
	if s, ok := e.Secrets.(Sealing); ok {
		s.InForce(design)
	}
}

// Limits on concurrent work in a site. Each machine has one worker, so at most one request at
// a time.
const (
	maxLooks = 1024 // observations
	maxSteps = 2048 // steps being applied
)

// Times that the design does not set.
const (
	firstPoll    = 5 * time.Second // until a design says how often to poll
	soonest      = 2 * time.Second // first interval between looks while something is under way
	waitEvery    = 5 * time.Second // the interval later
	systemEvery  = 5 * time.Minute // between looks inside an in-sync machine
	flushEvery   = 3 * time.Minute // between writes of observations to the records
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
	current      chan time.Time      // when the status branch was up to date, for the loop that leaves signs of life
	poke         chan struct{}       // wakes the following loop
	wants        chan struct{}       // wakes the loop of artifacts
	joined       chan struct{}       // wakes the loop of forecasts
	running      sync.WaitGroup
	ready        chan struct{} // closed once the records are loaded
	inForce      chan struct{} // wakes the reviews when a design comes in force
	acted        chan struct{} // wakes the loop of incidents
	exposed      chan struct{} // wakes the loop of their secrets
	revoked      chan struct{} // wakes the loop of lists of revoked certificates
	unevaluated  string        // the revision whose evaluation has failed last; of the following loop
	holding      sync.Mutex    // one pause or resume at a time
	serves       map[site.Facet]bool
	journal      journal
	watch        watch
	proposals    *review.Recorded
	reviewed     *review.Listing
	said         sayings
	machineLogs  machineLogs
	writing      sync.Mutex // one write of the history at a time
	rolling      sync.Mutex // one write of the rollout at a time
	booking      sync.Mutex // one change of the ledger at a time
	branching    sync.Mutex // one write of the status branch at a time
	handling     sync.Mutex // one change of the incidents at a time
	granting     sync.Mutex // one change of what was approved of access at a time
	listing      sync.Mutex // one change of the lists of revoked certificates at a time

	mu        sync.Mutex
	ctx       context.Context // of Run; workers live in it
	reviews   bool            // whether proposals are reviewed
	commits   *review.Commits // nil where no commits are planned
	design    *site.Site
	mates     mates
	applied   site.Revision
	attempted site.Revision
	findings  []site.Finding
	problems  map[string]site.Problem
	// underway counts logins that are not answered yet, by the digest of the password;
	// loginDone is closed when one of them ends. met holds how passwords fared at machines
	// found by sweeps, by address.
	underway  map[string]int
	loginDone chan struct{}
	met       map[string]site.CredentialUse
	answered  map[loginAt]loginEnd // how the last login with each password ended
	rounds    map[string]time.Time // when each loop last began a round
	readOnly  string               // why nothing is written, besides ObserveOnly
	paused    *site.Hold
	// book and accounts are the ledger; they change only with booking held.
	book     record.Book
	accounts map[string]site.Account
	latest   time.Time              // time at which approvals are judged, see ledgerNow
	reckoned time.Time              // when latest was last computed
	shown    map[string]site.Losses // sets of losses, by digest
	// shownOrder holds their digests, oldest first.
	shownOrder []string
	undecided  undecided
	rollout    *rolling             // nil before the first
	atStart    site.ForecastAtStart // of the rollout; replaced, never written to
	ended      []site.RolloutStatus // the last rollouts of this process that have ended
	removals   []record.Removal
	history    site.History    // replaced, never written to
	learnt     map[string]bool // keys of history still to be recorded
	workers    map[string]*worker
	nextStart  time.Time                     // no worker begins before this
	roles      map[string]map[string]*worker // workers by role
	others     map[string]site.Reach         // what nodes have although the design no longer says so; replaced, never written to
	waiting    waiting
	drafted    map[string]site.Drafted // results of proposing drift, by digest; replaced, never written to
	term       tenure
	anchor     anchorage
	instance   string // identifies this run, see site.TermClaim
	// published holds the nodes' sealed parts as they were when compared with the records.
	// Their signatures are verified on use.
	published map[string]site.Sealed
	// onBranch are the passwords that the status branch names, by node and account, as they were read or written last. A
	// node is missing while it is not known: a write has failed or is under way.
	onBranch map[string]map[string]site.SealedPassword
	// proofs are the BMCs to which derived passwords go, by the UUID that these are derived from, also of nodes that
	// are gone.
	proofs map[string]site.MachineProof
	// proving is held while one of them is changed and recorded.
	proving   sync.Mutex
	swept     *site.Swept // result of the last sweep; replaced, never written to
	verifying verifying
	fetched   time.Time // when the repository was last read; zero if this process never did
	written   time.Time // when the status branch was last written; likewise
	// incidents are by ID; they change only with handling held, and what is in them never does.
	incidents map[string]site.IncidentState
	// delivered is which secrets were given to whom, by holder. Nothing leaves it.
	delivered map[string]*delivered
	// present is what the sources of secrets had when they were read last for an incident.
	present map[presentKey]incident.Present
	// judged is what was known last of the secrets of incidents that are not over, by ID.
	judged map[string][]site.Exposed
	// versions tells the values of secrets apart; set once.
	versions secret.Versions
	// lists are what the authorities for TLS revoked, by their fingerprints; they change only with listing held.
	// publishedLists are the lists as the status branch had them, in PEM, and listTrouble says why one could not be
	// signed. joinedLists names the records whose lists have the entries of the published ones.
	lists          map[string]site.RevocationList
	publishedLists []string
	joinedLists    string
	listTrouble    error
	// granted is what people have approved of the access of the design; it changes only with granting held.
	// wouldGrant is what the design in force grants. accessReport and accessNote say what of it was not approved; see
	// noteAccess.
	granted      site.GrantedState
	wouldGrant   site.Granted
	accessReport site.AccessReport
	accessNote   string
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
	var versions secret.Versions
	if c.Key != nil {
		var err error
		if versions, err = secret.VersionsOf(c.Key, c.Site); err != nil {
			c.Log.Error("no key for versions of secrets could be derived from the site key, so incidents cannot show whether secrets were replaced", "err", err)
		}
	}
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
		current:     make(chan time.Time, 1),
		poke:        make(chan struct{}, 1),
		wants:       make(chan struct{}, 1),
		joined:      make(chan struct{}, 1),
		ready:       make(chan struct{}),
		inForce:     make(chan struct{}, 1),
		acted:       make(chan struct{}, 1),
		exposed:     make(chan struct{}, 1),
		revoked:     make(chan struct{}, 1),
		problems:    map[string]site.Problem{},
		underway:    map[string]int{}, loginDone: make(chan struct{}), met: map[string]site.CredentialUse{}, answered: map[loginAt]loginEnd{},
		rounds:    map[string]time.Time{},
		workers:   map[string]*worker{},
		roles:     map[string]map[string]*worker{},
		proposals: review.NewRecorded(c.Records),
		reviewed:  review.NewListing(),
		shown:     map[string]site.Losses{},
		accounts:  map[string]site.Account{},
		published: map[string]site.Sealed{}, onBranch: map[string]map[string]site.SealedPassword{},
		instance:  crand.Text()[:12],
		learnt:    map[string]bool{},
		waiting:   waiting{},
		incidents: map[string]site.IncidentState{},
		delivered: map[string]*delivered{},
		lists:     map[string]site.RevocationList{},
		present:   map[presentKey]incident.Present{},
		judged:    map[string][]site.Exposed{},
		versions:  versions,
		serves:    serves,
	}
}

// Serves returns the facets that are acted on or observed.
func (e *Engine) Serves() map[site.Facet]bool { return e.serves }

// Ready returns a channel that is closed once the records are loaded. From then on machines
// being installed are granted the artifacts they need.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// setProblem records or clears a problem of the site as a whole.
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

// Problem records a problem in a part of the daemon that the engine does not see; nil clears
// it.
func (e *Engine) Problem(about string, err error) { e.setProblem(about, err) }

// touch asks the reporting loop to look at the status again.
func (e *Engine) touch() { signal(e.changed) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// dice returns a random source for one goroutine, so that its draws do not depend on how
// goroutines are scheduled.
func (e *Engine) dice(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(e.Seed, h.Sum64()))
}
