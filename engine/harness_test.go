package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
	"github.com/slipway-gitops/slipway/tests/switches"
)

// world is a site in virtual time: machines in memory, designs as values, and
// a daemon that can be stopped and started again on the same records.
type world struct {
	t       *testing.T
	fleet   *drivertest.Fleet
	source  *commits
	dir     string
	observe bool // start the engine with ObserveOnly
	met     bool // first contact with a service's systems has not ended
	fails   bool // the engine is expected to end with an error
	meter   engine.Meter
	tracer  engine.Tracer
	bmcs    driver.Driver // instead of the fleet's own
	systems driver.Driver // instead of the fleet's own
	log     *slog.Logger
	// proposer takes drift that is to be proposed; nil for nobody.
	proposer engine.Proposer
	early    bool // ask the engine for its status before it runs
	anchor   engine.Anchor
	// aliveEvery is how often a sign of life is left, where the anchor takes them.
	aliveEvery time.Duration

	// listens has the daemon listen to agents, of which each daemon has its own.
	listens bool
	agents  *drivertest.Agents
	// segment is where machines start over the network; nil in a daemon that serves none.
	segment *segment
	// leaf is the switch that machines are plugged into; nil where nobody sets one up.
	leaf *switches.Switch

	secrets countedSecrets
	files   *shelf

	engine *engine.Engine
	store  *record.Store
	stop   func()
	told   *teller
}

// inBubble runs a test on a world with the named machines, in virtual time.
func inBubble(t *testing.T, c drivertest.Config, f func(*world), names ...string) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, fleet: drivertest.NewFleet(c, names...), source: &commits{}, dir: dir, told: &teller{}, files: newShelf()}
		defer func() {
			if w.engine != nil {
				w.down()
			}
		}()
		f(w)
	})
}

// usual is a fleet whose requests and powers take real machines' time.
var usual = drivertest.Config{Latency: 200 * time.Millisecond, PowerTime: 30 * time.Second, InstallTime: 5 * time.Minute, OSTime: 40 * time.Second}

// design is a site in which every machine is wanted on.
func (w *world) design(names ...string) *site.Site {
	s := &site.Site{
		Name: "test", SchemaVersion: site.SchemaVersion,
		Rollout: site.Rollout{MaxUnavailable: "1", FirstContact: "hold", ObserveEvery: site.Duration(time.Minute),
			PollEvery: site.Duration(10 * time.Second), ReportEvery: site.Duration(10 * time.Second)},
		Images: map[string]*site.Image{"debian": {URL: "http://images.example/debian.iso", SHA256: "d1", InstallTimeout: site.Duration(30 * time.Minute)}},
		Nodes:  map[string]*site.Node{},
	}
	for _, name := range names {
		n := w.fleet.Machine(name).Node()
		n.Power = "on"
		s.Nodes[name] = n
	}
	return s
}

// waitsForApproval brings the daemon to where the first installation of a node
// waits to be approved.
func (w *world) waitsForApproval(name string) {
	w.t.Helper()
	d := w.design(name)
	d.Nodes[name].Image, d.Nodes[name].Generation = "debian", 1
	w.commit(d)
	w.up()
	w.after(time.Minute)
	w.want(name, site.Blocked)
}

// commit makes a design the newest revision.
func (w *world) commit(s *site.Site) { w.source.add(s, nil) }

// up starts the daemon.
func (w *world) up() {
	w.t.Helper()
	store, err := record.Open(w.t.Context(), w.dir, record.Options{NoSync: true, Tick: time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.files == nil {
		w.files = newShelf()
	}
	var agents engine.Agents
	var netboots engine.NetBoots
	if w.listens {
		w.agents = drivertest.NewAgents(w.fleet, 40*time.Second, 6*time.Minute)
		agents = w.agents
		w.fleet.Serve(w.files.words)
	}
	if w.segment != nil {
		w.segment.disarmAll() // another process
		netboots = w.segment
		w.fleet.Serve(w.boots)
	}
	var ports driver.Switches
	if w.leaf != nil {
		ports = w.leaf
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	reporters := []engine.Reporter{w.told}
	branch, _ := w.anchor.(engine.Reporter)
	alive, _ := w.anchor.(engine.Alive)
	w.store, w.engine = store, engine.New(engine.Config{
		Site: "test", Source: w.source, Evaluate: w.source.evaluate, Records: store.Site("test"),
		Drivers: map[string]driver.Driver{"redfish": cmp.Or(w.bmcs, w.fleet.Driver()), "ssh": cmp.Or(w.systems, w.fleet.OSDriver()), "libvirt": w.fleet.HypervisorDriver()},
		Secrets: &w.secrets, Reporters: reporters, Anchor: w.anchor, Branch: branch, Alive: alive, AliveEvery: w.aliveEvery, ObserveOnly: w.observe, Key: w.key(), Meter: w.meter, Tracer: w.tracer, Log: w.log, Proposer: w.proposer,
		Artifacts: w.files, Agents: agents, NetBoots: netboots, Switches: ports,
	})
	if w.early {
		w.engine.Report()
	}
	done := make(chan error, 1)
	go func() { done <- w.engine.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; (err != nil) != w.fails {
			w.t.Error("run:", err)
		}
	}
}

// down stops the daemon as a signal would.
func (w *world) down() {
	w.t.Helper()
	w.stop()
	if err := w.store.Close(); err != nil {
		w.t.Error("close records:", err)
	}
	w.engine = nil
}

// after lets virtual time pass.
func (w *world) after(d time.Duration) {
	t := time.NewTimer(d)
	<-t.C
	synctest.Wait()
}

// until lets time pass, a second at a time, until something is so, and says
// how long that took. It fails the test when it takes longer than it may.
func (w *world) until(what string, most time.Duration, so func() bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	for !so() {
		if time.Since(began) >= most {
			w.t.Fatalf("not within %s: %s", most, what)
		}
		w.after(time.Second)
	}
	return time.Since(began)
}

// is says whether all of the nodes are in the state.
func (w *world) is(state site.State, names ...string) func() bool {
	return func() bool {
		return !slices.ContainsFunc(names, func(name string) bool { return w.node(name).State != state })
	}
}

// begun is when a machine accepted the first request of a step of the kind; the
// zero time if none did since the time given.
func (w *world) begun(name string, a site.Action, since time.Time) time.Time {
	for _, c := range w.fleet.Calls() {
		if c.Machine == name && c.First && c.Step.Action == a && !c.When.Before(since) {
			return c.When
		}
	}
	return time.Time{}
}

// hasTold says whether the latest events have one of the kind with the text.
func (w *world) hasTold(kind site.EventKind, text string) bool {
	return slices.ContainsFunc(w.engine.Events(0), func(e site.Event) bool {
		return e.Kind == kind && strings.Contains(e.Text, text)
	})
}

// node is the status of a node; it fails the test when there is none.
func (w *world) node(name string) site.NodeStatus {
	w.t.Helper()
	for _, n := range w.engine.Report().Status.Nodes {
		if n.Name == name {
			return n
		}
	}
	w.t.Fatalf("no status of node %s", name)
	return site.NodeStatus{}
}

// want fails the test unless the node is in the state.
func (w *world) want(name string, state site.State) {
	w.t.Helper()
	if n := w.node(name); n.State != state {
		w.t.Errorf("%s is %s (%s), want %s", name, n.State, n.Reason, state)
	}
}

// do gives an order that must succeed.
func (w *world) do(o site.Order) {
	w.t.Helper()
	o.By = "tester"
	if o.Verb == site.VerbApprove && o.Node != "" && o.Shown == "" {
		o.Shown = w.node(o.Node).Approval
	}
	if _, err := w.engine.Do(w.t.Context(), o); err != nil {
		w.t.Errorf("%s %s%s: %v", o.Verb, o.Node, o.Digest, err)
	}
}

// used says whether the step in flight on a machine has used its approval.
func (w *world) used(name string) bool {
	f := w.engine.Known().Nodes[name].Recorded.InFlight
	return f != nil && f.Consumed
}

// signed is a marker that the site's daemon has made for a machine.
func (w *world) signed(m site.Marker) *site.Marker {
	w.t.Helper()
	m.Site, m.Machine = "test", w.fleet.Machine(m.Node).Identity()
	token, err := w.key().Token(m)
	if err != nil {
		w.t.Fatal(err)
	}
	m.Token = token
	return &m
}

// key is the site's, which outlives the records.
func (w *world) key() *sitekey.Key {
	w.t.Helper()
	k, _, err := sitekey.LoadOrCreate(w.dir + ".key")
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

// removeKey takes the site key away.
func (w *world) removeKey() {
	w.t.Helper()
	if err := os.Remove(w.dir + ".key"); err != nil {
		w.t.Fatal(err)
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// approve approves what waits.
func (w *world) approve() {
	w.t.Helper()
	w.do(site.Order{Verb: site.VerbApprove, Digest: w.engine.Report().Status.Approve})
}

// commits is a source of designs, and their evaluation.
type commits struct {
	mu      sync.Mutex
	n       int
	current site.Revision
	designs map[string]*site.Site
	broken  map[string][]site.Finding
	away    error
	asked   int // evaluations
	hangs   bool
	fails   error // evaluations
}

func (c *commits) add(s *site.Site, findings []site.Finding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	id := fmt.Sprintf("commit-%d", c.n)
	if c.designs == nil {
		c.designs, c.broken = map[string]*site.Site{}, map[string][]site.Finding{}
	}
	c.designs[id], c.broken[id] = apart(s), findings
	c.current = site.Revision{ID: id, Subject: "change " + id}
}

// apart copies a design with all that it points to: a test changes its own for the next
// commit while the daemon reads the one that was committed.
func apart(s *site.Site) *site.Site {
	if s == nil {
		return nil
	}
	return deep(reflect.ValueOf(s)).Interface().(*site.Site)
}

// deep copies a value with all that it points to. Unexported fields, which values such
// as addresses have, are copied as they are.
func deep(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.Set(reflect.New(v.Type().Elem()))
			c.Elem().Set(deep(v.Elem()))
		}
	case reflect.Map:
		if !v.IsNil() {
			c.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for key, of := range v.Seq2() {
				c.SetMapIndex(key, deep(of))
			}
		}
	case reflect.Slice:
		if !v.IsNil() {
			c.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				c.Index(i).Set(deep(v.Index(i)))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				c.Field(i).Set(deep(v.Field(i)))
			}
		}
	}
	return c
}

// newest is the ID of the newest revision.
func (c *commits) newest() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current.ID
}

// vanish makes the repository unreachable; nil brings it back.
func (c *commits) vanish(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = err
}

func (c *commits) Fetch(context.Context) (site.Revision, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away == nil && c.current.ID == "" {
		return site.Revision{}, errors.New("the repository is empty")
	}
	return c.current, c.away
}

// fail has evaluations fail; nil ends that.
func (c *commits) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails = err
}

// hang has evaluations never end.
func (c *commits) hang() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hangs = true
}

func (c *commits) evaluate(ctx context.Context, r site.Revision) (*site.Site, []site.Finding, error) {
	c.mu.Lock()
	hangs := c.hangs
	c.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.fails != nil {
		return nil, nil, c.fails
	}
	return c.designs[r.ID], c.broken[r.ID], nil
}

func (c *commits) evaluations() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// anySecret gives the same credential to any host.
type anySecret struct{}

func (anySecret) Get(secret.Request) (secret.Value, error) { return secret.New("admin", "pw"), nil }

// countedSecrets counts how often a secret is read.
type countedSecrets struct {
	anySecret
	read atomic.Int64
	// change gives the value of a credential for BMCs; nil leaves it as it is.
	change atomic.Pointer[func(secret.Value) secret.Value]
	// missing is the use for which there is no credential.
	missing secret.Use
}

func (c *countedSecrets) Get(r secret.Request) (secret.Value, error) {
	c.read.Add(1)
	if r.Use == c.missing {
		return secret.Value{}, secret.ErrMissing
	}
	v, err := c.anySecret.Get(r)
	if change := c.change.Load(); change != nil && r.Name == "bmc" {
		v = (*change)(v)
	}
	return v, err
}

// teller is a reporter that keeps the last report.
type teller struct {
	mu   sync.Mutex
	last site.Report
	n    int
}

func (r *teller) Report(_ context.Context, rep site.Report) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.n = rep, r.n+1
	return nil
}

func (r *teller) reports() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// lastsLong leaves a test of a day of virtual time, or of many machines for some
// hours, out where the race detector makes it slow; it runs without.
func lastsLong(t *testing.T) {
	t.Helper()
	if racing {
		t.Skip("runs without the race detector")
	}
}
