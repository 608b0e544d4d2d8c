package engine_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// expected is what the default table says of each thing that the machines of
// this test take their own time for, in seconds.
var expected = map[site.Action]float64{
	site.ActionInstall: 900, site.ActionPackages: 120, site.ActionConfig: 90, site.ActionBase: 60, site.ActionNetwork: 30,
}

// Machines of several models that take half to twice what the table says are
// predicted well once five of a model are done.
func TestProvePredictionsLearn(t *testing.T) {
	lastsLong(t)
	together(t, func(ctx context.Context, store *record.Store) {
		var all sync.WaitGroup
		for seed := range seeds(1, 20) {
			all.Go(func() { predict(t, ctx, store, uint64(seed)+1) })
		}
		all.Wait()
	})
}

const learnt, perModel = 5, 20

func predict(t *testing.T, ctx context.Context, store *record.Store, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 8))
	p := newPlant(fmt.Sprintf("predict-%d", seed))
	later := map[string][]string{} // nodes that are predicted, by model
	for m := range 4 {
		model := fmt.Sprintf("Model %d", m)
		factor := math.Pow(2, 2*dice.Float64()-1)
		for i := range perModel {
			name := fmt.Sprintf("m%d-%02d", m, i)
			p.addOf(name, model, factor, dice)
			if i >= learnt {
				p.design.Nodes[name].Paused = &site.Hold{By: "test", Reason: "the first ones teach"}
				later[model] = append(later[model], name)
			}
		}
	}
	p.commit()
	defer start(t, ctx, store, seed, p)()
	p.await(4*learnt, 3*time.Hour)
	if len(p.done) < 4*learnt {
		t.Fatalf("seed %d: only %v are done", seed, sortedKeys(p.done))
	}
	said := map[string]time.Duration{}
	known := p.engine.Known()
	for _, names := range later {
		for _, name := range names {
			p.design.Nodes[name].Paused = nil
			said[name] = time.Duration(plan.Node(p.design, p.design.Nodes[name], known).Expect)
		}
	}
	p.commit()
	p.await(4*perModel, 3*time.Hour)
	var off []float64
	for _, name := range sortedKeys(said) {
		if _, done := p.done[name]; !done {
			t.Errorf("seed %d: %s is not done: %+v", seed, name, status(p, name))
			continue
		}
		took := p.done[name].Sub(p.began)
		off = append(off, math.Abs(float64(said[name])/float64(took)-1))
	}
	slices.Sort(off)
	median, p90 := off[len(off)/2], off[len(off)*9/10]
	t.Logf("seed %d: predictions of %d machines are off by %.1f%% at the median, %.1f%% at the 90th percentile", seed, len(off), 100*median, 100*p90)
	if median > 0.15 || p90 > 0.30 {
		t.Errorf("seed %d: predictions are off by %.1f%% at the median, %.1f%% at the 90th percentile", seed, 100*median, 100*p90)
	}
}

// addOf adds a blank machine of a model; a machine differs from its model by up
// to a tenth.
func (p *plant) addOf(name, model string, factor float64, dice *rand.Rand) {
	about := func(seconds float64) time.Duration {
		return time.Duration(seconds * factor * (0.9 + 0.2*dice.Float64()) * float64(time.Second))
	}
	c := drawn(dice.Uint64(), name, 1)
	c.Manufacturer, c.Model = "Fake", model
	c.PostTime, c.InstallTime, c.OSTime = about(120), about(expected[site.ActionInstall]-120), about(120)
	c.StepTime = map[site.Action]time.Duration{}
	for _, a := range []site.Action{site.ActionPackages, site.ActionConfig, site.ActionBase, site.ActionNetwork} {
		c.StepTime[a] = about(expected[a])
	}
	n := p.add(name, c)
	text := name
	n.Image, n.Generation = "debian", 1
	n.System.Users = map[string]site.User{"ops": {}}
	n.Interfaces = map[string]site.Interface{"eth0": {MTU: 1500}}
	n.System.Packages = map[string]site.Package{"nginx": {}}
	n.System.Files = map[string]site.File{"/etc/motd": {Content: &text}}
}
