package engine_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

// trial is one random site with a random story, and what was seen to be wrong
// in it.
type trial struct {
	seed    uint64
	name    string
	dice    *rand.Rand // of what happens next
	chaos   *rand.Rand // of what nobody decides
	dir     string     // of the state directories
	fleet   *drivertest.Fleet
	key     *sitekey.Key
	board   *board // the status branch, nil for none
	desk    *desk  // the forge, nil for none
	*daemon        // that people speak to
	other   *daemon
	source  *commits
	people  *people
	names   []string    // of all machines
	states  int         // directories so far
	lives   int         // of daemons so far
	left    int         // events to come
	soon    chan func() // what is to happen between two looks; nil for nothing
	clock   time.Time   // when the chapter ended, because the clock is set
	copies  []*state    // of the records
	anew    time.Time   // since when a daemon knows less than there was

	living  sync.Mutex
	engines []*engine.Engine // of the daemons that run

	swaps   sync.Mutex
	swapped [][2]string // machines that have exchanged their addresses

	tracing sync.Mutex // guards trace and wrong
	trace   []string
	wrong   []string

	mu      sync.Mutex
	began   time.Time
	quiet   bool // leave orders out of the trace
	perhaps bool // a pause was asked for, and nobody knows whether it was heard
	reigns  []reign
	ills    map[string][]ill
	holds   map[string][]spell // pauses by node, "" for the site
	kept    map[string][]spell // quarantines, likewise
	// keptPerhaps are quarantines that were asked for, and nobody knows whether
	// they were heard.
	keptPerhaps map[string]bool
	// accepted are nodes with a system that a person may have said is the right
	// one, whatever it is.
	accepted map[string]bool
	stepped  bool                 // the clock was set, once or more
	halfway  map[string]time.Time // machines that a step of ours took out of service
	// installing are machines with an installation that was not finished yet.
	installing map[string]bool
	begunAt    map[string]time.Time     // the last request for a node
	shown      map[string]string        // the last state of a node in the trace
	settled    map[string]site.Identity // the machine with which a node was last in-sync
	replaced   map[string]time.Time     // when another machine was put in the place of one
	tried      map[string]time.Time     // since when a node has been worked on
	begunOn    map[string]time.Time     // since when a node has a disrupting step begun, whatever came of it
	heard      uint64                   // the last event

	// As the daemon says.
	leaving     int // nodes that the design has no more
	rollout     *site.RolloutStatus
	haltedSince time.Time
}

// reign is a design that was in force from a time on.
type reign struct {
	from time.Time
	id   string
	site *site.Site
}

// ill is what was wrong with a machine from a time on.
type ill struct {
	from  time.Time
	fault drivertest.Fault
}

// spell is a stretch of time; a zero end is still to come.
type spell struct{ from, to time.Time }

// Delays of the engine that are no mistakes.
const (
	// slack is the time from the gate that lets a step pass to its first
	// request on the machine.
	slack = 5 * time.Second
	// known is the age that an observation may have on which a gate rests, and
	// knownInside that of one of an installed system.
	known, knownInside = 5 * time.Minute, 12 * time.Minute
)

func (t *trial) note(format string, args ...any) {
	t.tracing.Lock()
	defer t.tracing.Unlock()
	t.trace = append(t.trace, fmt.Sprintf("%9s ", time.Since(t.began).Round(100*time.Millisecond))+fmt.Sprintf(format, args...))
}

// complain notes a property that does not hold.
func (t *trial) complain(format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	t.note("WRONG: %s", what)
	t.tracing.Lock()
	defer t.tracing.Unlock()
	t.wrong = append(t.wrong, what)
}

// see notes which design is in force.
func (t *trial) see() *site.Report {
	if t.engine == nil {
		return nil
	}
	r := t.engine.Report()
	t.people.readUses(&r)
	id := r.Status.Applied.ID
	if len(t.reigns) == 0 || t.reigns[len(t.reigns)-1].id != id {
		d := t.source.design(id)
		t.reigns = append(t.reigns, reign{time.Now(), id, d})
		t.note("in force: %s", id)
		t.inForce(id)
		for name, was := range t.settled { // of another machine nothing is known any more
			if d != nil && d.Nodes[name] != nil && !d.Nodes[name].Machine().Matches(was) {
				delete(t.settled, name)
			}
		}
	}
	t.people.read(&r)
	if was := t.rollout; r.Status.Rollout != nil && r.Status.Rollout.Halted != "" && (was == nil || was.Halted == "") {
		t.haltedSince = time.Now()
		t.note("halted: %s", r.Status.Rollout.Halted)
	}
	t.hear()
	t.rollout, t.leaving = r.Status.Rollout, 0
	for _, n := range r.Status.Nodes {
		if d := t.reigns[len(t.reigns)-1].site; n.State == site.InSync {
			if d != nil && d.Nodes[n.Name] != nil && !d.Nodes[n.Name].Decommission {
				t.settled[n.Name] = n.Machine
			}
		}
		if was := t.shown[n.Name]; was != string(n.State)+n.Reason {
			t.shown[n.Name] = string(n.State) + n.Reason
			t.note("%s is %s: %s", n.Name, n.State, n.Reason)
		}
		if d := t.reigns[len(t.reigns)-1].site; d == nil || d.Nodes[n.Name] == nil {
			t.leaving++
		}
	}
	return &r
}

// disrupting are the actions that take a machine out of service.
var disrupting = []site.Action{site.ActionPackages, site.ActionRestart, site.ActionInstall}

// hear notes since when nodes have steps begun that have not ended in-sync.
func (t *trial) hear() {
	for _, ev := range t.engine.Events(t.heard) {
		t.heard = ev.Seq
		if _, begun := t.tried[ev.Node]; ev.Kind == site.EventBegun && !begun {
			t.tried[ev.Node] = ev.When
		}
		if _, begun := t.begunOn[ev.Node]; ev.Kind == site.EventBegun && !begun && slices.ContainsFunc(disrupting, func(a site.Action) bool { return strings.HasPrefix(ev.Text, string(a)+":") }) {
			t.begunOn[ev.Node] = ev.When
		}
		if ev.Kind == site.EventState && ev.Text == string(site.InSync) {
			delete(t.tried, ev.Node)
			delete(t.begunOn, ev.Node)
		}
	}
}

func (c *commits) design(id string) *site.Site {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.designs[id]
}

// recent are the designs that a gate may have gone by for a request now.
func (t *trial) recent() (designs []*site.Site) {
	for i, r := range t.reigns {
		last := i == len(t.reigns)-1
		if r.site != nil && (last || time.Since(t.reigns[i+1].from) < slack) {
			designs = append(designs, r.site)
		}
	}
	if life := t.daemon.life; life == nil || life.isOver() { // it may have gone on to the newest, and nobody was told
		if d := t.source.design(t.source.head()); d != nil {
			designs = append(designs, d)
		}
	}
	return designs
}

// do gives an order to the daemon that people speak to.
func (t *trial) do(ctx context.Context, o site.Order) error {
	_, err := t.orders(ctx, t.daemon, o)
	return err
}

// orders gives an order to a daemon, and gives what that says.
func (t *trial) orders(ctx context.Context, d *daemon, o site.Order) (said string, err error) {
	t.mu.Lock()
	e, life := d.engine, d.life
	t.mu.Unlock()
	if e == nil {
		return "", errNoDaemon
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(life.ctx, cancel)()
	o.By, o.Reason = "tester", "story"
	said, err = e.Do(ctx, o)
	if !t.quiet {
		t.note("order to %s: %s %s%s: %s %v", d.label, o.Verb, o.Node, o.Digest, said, err)
	}
	if err == nil && strings.HasPrefix(said, "removed "+o.Node+" from the records") {
		t.mu.Lock()
		end(t.holds, o.Node) // what was said of it is forgotten
		end(t.kept, o.Node)
		t.mu.Unlock()
	}
	return said, err
}

// fault makes a machine ill, or well again.
func (t *trial) fault(name string, f drivertest.Fault) {
	t.mu.Lock()
	t.ills[name] = append(t.ills[name], ill{time.Now(), f})
	t.note("%s becomes %q", name, f)
	t.mu.Unlock()
	t.fleet.Machine(name).SetFault(f)
}

// blinding are the faults that keep a machine from being seen.
var blinding = []drivertest.Fault{drivertest.Unreachable, drivertest.Busy, drivertest.Denied, drivertest.WrongMachine, drivertest.Hangs, drivertest.Garbled}

// machine is what a machine truly was at a time.
type machine struct {
	have     map[site.Facet]site.Values
	fault    drivertest.Fault
	accepted bool // what is installed is right, because a person said so
}

func (t *trial) machineAt(name string, at time.Time) machine {
	m := machine{have: map[site.Facet]site.Values{site.FacetPower: {"state": "off"}, site.FacetBoot: {"order": "Hdd,Pxe"}}}
	for _, f := range t.fleet.Machine(name).Facts() {
		if !f.When.After(at) {
			m.have[f.Facet] = f.Have
		}
	}
	for _, i := range t.ills[name] {
		if !i.from.After(at) {
			m.fault = i.fault
		}
	}
	m.accepted = t.accepted[name]
	return m
}

func (m machine) seen() bool { return !slices.Contains(blinding, m.fault) }

// sometime says whether something held of a machine at some time from one to
// another.
func (t *trial) sometime(name string, from, to time.Time, holds func(machine) bool) bool {
	moments := []time.Time{from, to}
	for _, f := range t.fleet.Machine(name).Facts() {
		moments = append(moments, f.When)
	}
	for _, i := range t.ills[name] {
		moments = append(moments, i.from)
	}
	return slices.ContainsFunc(moments, func(at time.Time) bool {
		return !at.Before(from) && !at.After(to) && holds(t.machineAt(name, at))
	})
}

// facets are those that a design can ask for, and a machine can have.
var facets = []site.Facet{site.FacetPower, site.FacetBoot, site.FacetFirmware, site.FacetBIOS,
	site.FacetBase, site.FacetNetwork, site.FacetPackages, site.FacetConfig}

// differs names a facet in which a machine is not as designed, of those that
// count; empty when it is as designed.
func (m machine) differs(n *site.Node, counts func(site.Facet) bool) site.Facet {
	for _, f := range facets {
		if !counts(f) || n.Drift[f] == "report" {
			continue
		}
		for field, want := range n.Want(f) {
			if m.have[f][field] != want {
				return f
			}
		}
	}
	if n.Image != "" && n.Generation > 0 && !m.accepted && counts(site.FacetImage) && m.have[site.FacetImage]["generation"] != fmt.Sprint(n.Generation) {
		return site.FacetImage
	}
	return ""
}

func everyFacet(site.Facet) bool { return true }

// phasesOf are those of a role.
func phasesOf(r *site.Role) []string {
	if r == nil || len(r.Phases) == 0 {
		return phases
	}
	return r.Phases
}

// phaseOf is the phase of a facet in a role.
func phaseOf(r *site.Role, f site.Facet) string {
	if p := site.Facets[f].Phase; slices.Contains(phasesOf(r), p) {
		return p
	}
	return phasesOf(r)[0]
}

// through says whether a machine has gone through a phase of its node's role.
func (m machine) through(d *site.Site, n *site.Node, phase string) bool {
	r := d.Roles[n.Role]
	upTo := slices.Index(phasesOf(r), phase)
	return m.seen() && m.differs(n, func(f site.Facet) bool { return slices.Index(phasesOf(r), phaseOf(r, f)) <= upTo }) == ""
}

// host is the machine behind a node's endpoints.
func host(n *site.Node) string {
	_, rest, _ := strings.Cut(n.Endpoints[site.Manager].URL, "://")
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// members are the nodes of a role that are in use.
func members(d *site.Site, role string) (nodes []*site.Node) {
	for _, name := range d.NodeNames() {
		if n := d.Nodes[name]; n.Role == role && d.Unused(n) == "" && !n.Decommission {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// during says whether now is within a spell that has lasted for a while.
func during(spells []spell, least time.Duration) bool {
	return slices.ContainsFunc(spells, func(s spell) bool { return s.to.IsZero() && time.Since(s.from) > least })
}

func within(spells []spell, at time.Time) bool {
	return slices.ContainsFunc(spells, func(s spell) bool { return !at.Before(s.from) && (s.to.IsZero() || at.Before(s.to)) })
}

func begin(m map[string][]spell, key string) { m[key] = append(m[key], spell{from: time.Now()}) }

func end(m map[string][]spell, key string) {
	for i := range m[key] {
		if m[key][i].to.IsZero() {
			m[key][i].to = time.Now()
		}
	}
}

// ending is how a trial went, for people.
func (t *trial) ending(lines int) string {
	first := slices.IndexFunc(t.trace, func(line string) bool { return strings.Contains(line, "WRONG") }) + 1
	return fmt.Sprintf("seed %d: %s\n%s", t.seed, strings.Join(t.wrong, "; "), strings.Join(t.trace[max(0, first-lines):first], "\n"))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
