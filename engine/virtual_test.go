package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// span is a range of seconds.
type span struct{ from, to float64 }

func (s span) draw(dice *rand.Rand) time.Duration {
	return time.Duration((s.from + dice.Float64()*(s.to-s.from)) * float64(time.Second))
}

func (s span) each() drivertest.Range {
	return drivertest.Range{From: time.Duration(s.from * float64(time.Second)), To: time.Duration(s.to * float64(time.Second))}
}

// profile is how long things take with real machines, in seconds, and how
// often they fail. What is fast differs from request to request, what is slow
// from machine to machine.
var profile = struct {
	read, write, inside, power, post, agent, disk, contact, patch span
	image                                                         float64 // megabytes, over one shared Gb/s
	flaky                                                         float64 // share of requests that are refused or not answered
}{
	read: span{0.1, 2}, write: span{0.3, 5}, inside: span{0.1, 0.8}, power: span{1, 5}, post: span{60, 180}, agent: span{15, 40},
	disk: span{20, 60}, contact: span{20, 60}, patch: span{60, 150}, image: 600, flaky: 0.02,
}

// drawn is a machine of the profile, in a site where so many are installed at
// once.
func drawn(seed uint64, name string, together int) drivertest.Config {
	dice := rand.New(rand.NewPCG(seed, uint64(len(name))<<32|uint64(name[len(name)-1])))
	transfer := time.Duration(profile.image * 8 / 1000 * float64(together) * float64(time.Second))
	return drivertest.Config{
		Seed: seed, Reads: profile.read.each(), Writes: profile.write.each(), Inside: profile.inside.each(), Flaky: profile.flaky,
		PowerTime: profile.power.draw(dice), PostTime: profile.post.draw(dice),
		InstallTime: transfer + profile.disk.draw(dice), OSTime: profile.contact.draw(dice),
		StepTime: map[site.Action]time.Duration{site.ActionPackages: profile.patch.draw(dice)},
	}
}

// plant is one site in virtual time that shares its records with others.
type plant struct {
	name   string
	fleet  *drivertest.Fleet
	source *commits
	design *site.Site
	engine *engine.Engine
	files  *shelf
	agents *drivertest.Agents // nil for a daemon that listens to none
	began  time.Time
	done   map[string]time.Time // when each node was first seen in-sync with the last design
}

// newPlant makes a site without nodes.
func newPlant(name string) *plant {
	return &plant{
		name: name, fleet: drivertest.NewFleet(drivertest.Config{}), source: &commits{}, files: newShelf(), done: map[string]time.Time{},
		design: &site.Site{
			Name: name, SchemaVersion: site.SchemaVersion, Nodes: map[string]*site.Node{}, Roles: map[string]*site.Role{},
			Rollout: site.Rollout{MaxUnavailable: "100%", FirstContact: "repair", ObserveEvery: site.Duration(time.Minute),
				PollEvery: site.Duration(10 * time.Second), ReportEvery: site.Duration(10 * time.Second)},
			Images: map[string]*site.Image{"debian": {URL: "http://images.example/debian.iso", SHA256: "d1", InstallTimeout: site.Duration(time.Hour)}},
		},
	}
}

// clone is a deep copy.
func clone(s *site.Site) *site.Site {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	c := &site.Site{}
	if err := json.Unmarshal(text, c); err != nil {
		panic(err)
	}
	return c
}

// add puts a new machine into the design.
func (p *plant) add(name string, c drivertest.Config) *site.Node {
	n := p.fleet.AddAs(name, c).Node()
	n.Power = "on"
	p.design.Nodes[name] = n
	return n
}

// commit makes the design the newest revision.
func (p *plant) commit() {
	p.source.add(clone(p.design), nil)
	p.began, p.done = time.Now(), map[string]time.Time{}
}

// daemon makes the engine of the site.
func (p *plant) daemon(store *record.Store, seed uint64) {
	var agents engine.Agents
	if p.agents != nil {
		agents = p.agents
	}
	p.engine = engine.New(engine.Config{
		Site: p.name, Source: p.source, Evaluate: p.source.evaluate, Records: store.Site(p.name), Seed: seed,
		Drivers: map[string]driver.Driver{"redfish": p.fleet.Driver(), "ssh": p.fleet.OSDriver()}, Secrets: anySecret{}, Artifacts: p.files, Agents: agents,
	})
}

// approve approves a set at once.
func (p *plant) approve(digest string) {
	if _, err := p.engine.Do(context.Background(), site.Order{Verb: site.VerbApprove, Digest: digest, By: "test"}); err != nil && !errors.Is(err, site.ErrRefused) {
		panic(err)
	}
}

// await lets time pass until enough nodes are in-sync with the newest design,
// or too much time has passed. It returns when the last of them came to be.
func (p *plant) await(enough int, limit time.Duration) time.Duration {
	last := time.Duration(0)
	for time.Since(p.began) < limit && len(p.done) < enough {
		<-time.After(5 * time.Second)
		if p.agents != nil {
			p.agents.Announce()
		}
		st := p.engine.Report().Status
		if st.Approve != "" {
			p.approve(st.Approve)
		}
		if st.Applied.ID != fmt.Sprintf("commit-%d", p.source.n) {
			continue
		}
		for _, n := range st.Nodes {
			if _, was := p.done[n.Name]; n.State == site.InSync && !was {
				p.done[n.Name] = n.Since
				last = max(last, n.Since.Sub(p.began))
			}
		}
	}
	return last
}

// together runs something on records that many sites share, in virtual time.
func together(t *testing.T, f func(ctx context.Context, store *record.Store)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store, err := record.Open(t.Context(), dir, record.Options{NoSync: true, Tick: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f(ctx, store)
	})
}

// start runs plants until what it returns is called.
func start(t *testing.T, ctx context.Context, store *record.Store, seed uint64, plants ...*plant) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for _, p := range plants {
		p.daemon(store, seed)
		all.Go(func() {
			if err := p.engine.Run(ctx); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// seeds are all that a proof takes, or a sample of them: a small one where the
// race detector makes everything slow.
func seeds(sample, all int) int {
	switch {
	case os.Getenv("SLIPWAY_PROVE") != "":
		return all
	case racing:
		return max(1, sample/5)
	}
	return sample
}

// Ten blank servers are installed in ten minutes, and in hardly more time than
// the slowest of them takes alone: by an installer on a medium of its own, and by
// Slipway's agent.
func TestProveTenServersInTenMinutes(t *testing.T) {
	for _, way := range []string{"installer", "agent"} {
		t.Run(way, func(t *testing.T) {
			together(t, func(ctx context.Context, store *record.Store) {
				var all sync.WaitGroup
				for seed := range seeds(4, 50) {
					all.Go(func() { tenServers(t, ctx, store, uint64(seed)+1, way == "agent") })
				}
				all.Wait()
			})
		})
	}
}

// byAgent has Slipway's agent install a machine: it is started from a medium, which takes a
// while to be read over the BMC, writes the image, and the machine starts from its disk.
func (p *plant) byAgent(n *site.Node, seed uint64) {
	if p.agents == nil {
		p.agents = drivertest.NewAgents(p.fleet, 0, 0)
		p.fleet.Serve(p.files.words)
		p.design.Images["debian"].Kind = site.KindRoot
	}
	m := p.fleet.Machine(n.Name)
	installedByAgent(n, m)
	m.Misbehave(drivertest.Unkind{Late: profile.agent.draw(rand.New(rand.NewPCG(seed, uint64(n.Name[len(n.Name)-1]))))})
}

// steps are the actions that a machine has accepted requests of, each once.
func (p *plant) steps(name string) (all []site.Action) {
	for _, c := range p.fleet.Calls() {
		if c.Machine == name && c.First && !slices.Contains(all, c.Step.Action) {
			all = append(all, c.Step.Action)
		}
	}
	return all
}

func tenServers(t *testing.T, ctx context.Context, store *record.Store, seed uint64, byAgent bool) {
	want := []site.Action{site.ActionInstall, site.ActionFinishInstall}
	if byAgent {
		want = append([]site.Action{site.ActionStartAgent}, want...)
	}
	install := func(name string, nodes ...string) time.Duration {
		p := newPlant(name)
		for _, node := range nodes {
			n := p.add(node, drawn(seed, node, 10))
			n.Image, n.Generation = "debian", 1
			if byAgent {
				p.byAgent(n, seed)
			}
		}
		p.commit()
		defer start(t, ctx, store, seed, p)()
		took := p.await(len(nodes), 20*time.Minute)
		if len(p.done) < len(nodes) {
			t.Errorf("seed %d: %d of %d are in-sync after %s: %+v", seed, len(p.done), len(nodes), time.Since(p.began), p.engine.Report().Status.Nodes)
		}
		for _, node := range nodes {
			if got := p.steps(node); !slices.Equal(got, want) {
				t.Errorf("seed %d: the steps of %s were %v, want %v", seed, node, got, want)
			}
		}
		return took
	}
	var mu sync.Mutex
	var slowest time.Duration
	var nodes []string
	var alone sync.WaitGroup
	for i := range 10 {
		node := fmt.Sprintf("server-%d", i)
		nodes = append(nodes, node)
		alone.Go(func() {
			took := install(fmt.Sprintf("p1-%d-%d", seed, i), node)
			mu.Lock()
			defer mu.Unlock()
			slowest = max(slowest, took)
		})
	}
	took := install(fmt.Sprintf("p1-%d", seed), nodes...)
	alone.Wait()
	if took > 10*time.Minute || float64(took) > 1.10*float64(slowest) {
		t.Errorf("seed %d: ten servers took %s, the slowest alone %s", seed, took, slowest)
	}
	t.Logf("seed %d: %s, the slowest alone %s", seed, took, slowest)
}

// A hundred sites of ten servers are patched in ten minutes, three of a site
// at once. What fails stays alone, and a dead site is told of.
func TestProveHundredSitesInTenMinutes(t *testing.T) {
	for seed := range seeds(1, 5) {
		together(t, func(ctx context.Context, store *record.Store) { hundredSites(t, ctx, store, uint64(seed)+1) })
	}
}

const perSite, deadSites = 10, 2

func hundredSites(t *testing.T, ctx context.Context, store *record.Store, seed uint64) {
	sites := seeds(25, 100)
	failing := sites * perSite * 3 / 100
	dice := rand.New(rand.NewPCG(seed, 2))
	plants := make([]*plant, sites)
	for i := range plants {
		plants[i] = patchable(fmt.Sprintf("p2-%d-%d", seed, i), seed*1000+uint64(i), dice)
	}
	defer start(t, ctx, store, seed, plants...)()
	each(plants, func(p *plant) {
		p.patch("1.0")
		if p.await(perSite, time.Hour); len(p.done) < perSite {
			t.Errorf("%s does not come up: %+v", p.name, p.engine.Report().Status.Nodes)
		}
	})
	ill := map[*plant]map[string]bool{}
	fail := func(p *plant, node string, f drivertest.Fault) {
		if ill[p] == nil {
			ill[p] = map[string]bool{}
		}
		ill[p][node] = true
		p.fleet.Machine(node).SetFault(f)
	}
	for _, p := range plants[:deadSites] {
		for _, node := range p.design.NodeNames() {
			fail(p, node, drivertest.Unreachable)
		}
	}
	for range failing {
		p := plants[deadSites+dice.IntN(sites-deadSites)]
		fail(p, fmt.Sprintf("server-%d", dice.IntN(perSite)), pickOne(dice, drivertest.Unreachable, drivertest.Lies, drivertest.Hangs))
	}
	var mu sync.Mutex
	var slowest time.Duration
	each(plants, func(p *plant) {
		p.patch("2.0")
		took := p.await(perSite-len(ill[p]), time.Hour)
		<-time.After(5 * time.Minute) // for those of whom nothing more comes
		mu.Lock()
		defer mu.Unlock()
		p.judge(t, ill[p], took)
		if len(ill[p]) == 0 {
			slowest = max(slowest, took)
		}
	})
	if slowest > 10*time.Minute {
		t.Errorf("seed %d: the slowest healthy site took %s", seed, slowest)
	}
	t.Logf("seed %d: the slowest healthy site took %s", seed, slowest)
}

func pickOne[T any](dice *rand.Rand, from ...T) T { return from[dice.IntN(len(from))] }

func each(plants []*plant, f func(*plant)) {
	var all sync.WaitGroup
	for _, p := range plants {
		all.Go(func() { f(p) })
	}
	all.Wait()
}

// patchable is a site of running servers, some way away.
func patchable(name string, seed uint64, dice *rand.Rand) *plant {
	p := newPlant(name)
	p.design.Rollout.MaxUnavailable, p.design.Rollout.MaxFailures = "3", "100%"
	away := span{0.02, 0.25}.draw(dice)
	for i := range perSite {
		node := fmt.Sprintf("server-%d", i)
		c := drawn(seed, node, perSite)
		for _, r := range []*drivertest.Range{&c.Reads, &c.Writes, &c.Inside} {
			r.From, r.To = r.From+away, r.To+away
		}
		p.add(node, c)
		p.fleet.Machine(node).SetDisk(&site.Marker{})
		p.fleet.Machine(node).SetPower("on")
	}
	return p
}

// patch commits another version of a package for all nodes.
func (p *plant) patch(version string) {
	for _, n := range p.design.Nodes {
		n.System.Packages = map[string]site.Package{"openssl": {Version: version}}
	}
	p.commit()
}

// judge complains unless the well nodes are patched and the ill ones told of.
// With three of them unreachable no further node may be taken out.
func (p *plant) judge(t *testing.T, ill map[string]bool, took time.Duration) {
	for _, n := range p.engine.Report().Status.Nodes {
		_, done := p.done[n.Name]
		switch {
		case ill[n.Name] && (n.State == site.InSync || n.Reason == ""):
			t.Errorf("%s: %s failed and is %s: %s", p.name, n.Name, n.State, n.Reason)
		case !ill[n.Name] && !done && len(ill) < 3:
			t.Errorf("%s: %s is %s after %s: %s", p.name, n.Name, n.State, took, n.Reason)
		}
	}
}
