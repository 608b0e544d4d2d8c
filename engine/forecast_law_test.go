package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// What a forecast says of a random rollout is what the engine does, when machines
// take as long as expected: each node is done as early, and that some never get on is
// told before. Of several nodes that may go on, the forecast takes the first by name and
// the engine whoever asks first; so nodes are named in the order in which they went.
func TestProveForecastIsWhatRuns(t *testing.T) {
	lastsLong(t)
	for seed := range seeds(2, 60) {
		together(t, func(ctx context.Context, store *record.Store) { forecastAndRun(t, ctx, store, uint64(seed)+1) })
	}
}

// lag is how late a node may be for each step or wait before it: requests and looks
// take some seconds, of which a forecast knows nothing.
const lag = 12 * time.Second

func forecastAndRun(t *testing.T, ctx context.Context, store *record.Store, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 12))
	p := newPlant(fmt.Sprintf("forecast-%d", seed))
	for i := range 3 + dice.IntN(4) {
		p.addPatchable(fmt.Sprintf("n%d", i), []string{"store", "web"}[dice.IntN(2)], fmt.Sprintf("rack%d", dice.IntN(2)))
	}
	p.design.Roles = map[string]*site.Role{"store": {Enabled: true, Phases: phases}, "web": {Enabled: true, Phases: phases}}
	p.commit()
	defer start(t, ctx, store, seed, p)()
	p.await(len(p.design.Nodes), time.Hour)
	if len(p.done) < len(p.design.Nodes) {
		t.Fatalf("seed %d: only %v are done", seed, sortedKeys(p.done))
	}
	for i, n := range p.design.Nodes {
		text := "2"
		n.System.Packages = map[string]site.Package{"openssl": {Version: "2"}}
		n.System.Files = map[string]site.File{"/etc/motd": {Content: &text}}
		p.design.Nodes[i] = n
	}
	told := drawRollout(p.design, dice)
	if dice.IntN(4) == 0 { // one that cannot be seen has a place
		sick := pickOne(dice, p.design.NodeNames()...)
		p.fleet.Machine(sick).SetFault(drivertest.Unreachable)
		<-time.After(2 * time.Minute)
		delete(p.design.Nodes[sick].System.Packages, "openssl")
		p.design.Nodes[sick].System.Packages, p.design.Nodes[sick].System.Files = map[string]site.Package{"openssl": {Version: "1"}}, nil
		told += ", unseen " + sick
	}
	known, at := p.engine.Known(), time.Now()
	all := plan.Site(p.design, "next", known)
	p.commit()
	p.await(len(p.design.Nodes), 2*time.Hour)

	f := rollout.Forecast(inOrder(p.design, &all, &known, p.engine.Known(), at))
	var want, got []time.Duration
	for _, o := range f.Order {
		if o.To-o.From > site.Duration(150*time.Second) { // else its packages alone were brought
			want = append(want, time.Duration(o.To))
		}
	}
	stuck := 0
	for i, n := range p.engine.Report().Status.Nodes {
		when, done := p.done[n.Name]
		switch changes := len(all.Nodes[i].Steps) > 0; {
		case changes && done:
			got = append(got, when.Sub(p.began))
		case changes:
			stuck++
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	waits := slices.ContainsFunc(f.Warnings, func(w string) bool { return strings.Contains(w, "would wait forever") })
	if len(want) != len(got) || (stuck > 0) != waits {
		t.Errorf("seed %d, %s: %d nodes are done, forecast %d; %d are stuck, forecast %q\n%+v", seed, told, len(got), len(want), stuck, f.Warnings, p.engine.Report().Status.Nodes)
		return
	}
	for i := range want {
		if late := got[i] - want[i]; late < -lag || late > lag*time.Duration(2+2*i)+want[i]/20 {
			t.Errorf("seed %d, %s: node %d is done after %s, forecast %s", seed, told, i+1, got, want)
			return
		}
	}
	t.Logf("seed %d, %s: %s, forecast %s", seed, told, got, want)
}

// inOrder is what a forecast goes by, with the nodes named in the order in which they
// were begun since.
func inOrder(d *site.Site, p *site.Plan, known *site.Known, since site.Known, at time.Time) (*site.Site, *site.Plan, site.Known, time.Time) {
	names := d.NodeNames()
	begun := func(name string) time.Time {
		if b := since.Nodes[name].Recorded.Begun; b != nil && !b.Since.Before(at) {
			return b.Since
		}
		return at.Add(24 * time.Hour)
	}
	slices.SortStableFunc(names, func(a, b string) int { return begun(a).Compare(begun(b)) })
	s, k, as := clone(d), *known, map[string]string{}
	s.Nodes, k.Nodes, k.Unseen = map[string]*site.Node{}, map[string]site.Memory{}, map[string]bool{}
	for i, name := range names {
		as[name] = fmt.Sprintf("node-%d", i)
		n := *d.Nodes[name]
		n.Name = as[name]
		s.Nodes[n.Name], k.Nodes[n.Name], k.Unseen[n.Name] = &n, known.Nodes[name], known.Unseen[name]
	}
	for _, name := range d.NodeNames() { // the first by name leads
		if r := s.Roles[d.Nodes[name].Role]; r.Leader == "" {
			r.Leader = as[name]
		}
	}
	own := *p
	own.Nodes = nil
	for _, np := range p.Nodes {
		np.Node = as[np.Node]
		own.Nodes = append(own.Nodes, np)
	}
	return s, &own, k, at
}

// addPatchable adds a machine with a system that takes for each change what the
// default table says.
func (p *plant) addPatchable(name, role, rack string) {
	n := p.add(name, drivertest.Config{Latency: pace, PowerTime: pace, StepTime: map[site.Action]time.Duration{
		site.ActionPackages: 2 * time.Minute, site.ActionConfig: 90 * time.Second}})
	p.fleet.Machine(name).SetDisk(&site.Marker{})
	p.fleet.Machine(name).SetPower("on")
	n.Role, n.Rack = role, rack
	n.System.Packages = map[string]site.Package{"openssl": {Version: "1"}}
}

// drawRollout draws the rules of a rollout, and says which.
func drawRollout(d *site.Site, dice *rand.Rand) string {
	r := &d.Rollout
	r.MaxUnavailable = pickOne(dice, "1", "2", "50%", "100%")
	if dice.IntN(3) == 0 {
		r.Canaries = &site.Canaries{Count: 1 + dice.IntN(2), Soak: site.Duration(10 * time.Minute)}
	}
	d.Racks = map[string]*site.Rack{"rack0": {MaxUnavailable: pickOne(dice, "", "1", "2")}, "rack1": {}}
	d.Roles = map[string]*site.Role{
		"store": {Enabled: true, Phases: phases, LeaderFirst: dice.IntN(3) == 0, Majority: dice.IntN(3) == 0, MaxUnavailable: pickOne(dice, "", "1")},
		"web":   {Enabled: true, Phases: phases, LeaderFirst: dice.IntN(4) == 0},
	}
	if phase := pickOne(dice, "", "install", "configure"); phase != "" && slices.ContainsFunc(d.NodeNames(), func(n string) bool { return d.Nodes[n].Role == "store" }) {
		d.Roles["web"].Needs = map[string]map[string]site.Need{phase: {"store": {Phase: "configure", Quorum: site.Quorum(pickOne(dice, "all", "1", "50%"))}}}
	}
	return fmt.Sprintf("%d nodes, maxUnavailable %s, canaries %v, rack0 %s, store %+v, web %+v", len(d.Nodes), r.MaxUnavailable, r.Canaries != nil, d.Racks["rack0"].MaxUnavailable, *d.Roles["store"], *d.Roles["web"])
}
