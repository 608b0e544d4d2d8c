package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/record"
)

// model is how one version of Kinetic goes about a cluster: the waits that its
// orchestration has, beside the work itself. Roles run side by side, each as
// one process with a barrier after every phase.
type model struct {
	name          string
	start         time.Duration // before the first role
	stagger       time.Duration // from role to role
	poll          time.Duration // of gates: at each phase, and before the role begins
	releasePoll   time.Duration
	splay         time.Duration // of the gates at each phase
	releaseSplay  time.Duration
	tries         int
	perHost       time.Duration // boot override and reset of one host after the other
	perVM         time.Duration // virtual machines are made one after the other
	settle        time.Duration // before provisioning
	rebootDelay   time.Duration
	existence     bool // a role begins when what it needs exists, not when it is done
	contact       map[bool]time.Duration
	leaderPoll    time.Duration // the others of a role look for its first node's end
	phaseTimeouts time.Duration
}

var kinetics = []model{
	{
		name: "Kinetic 2021", start: 30 * time.Second, stagger: time.Second, poll: 30 * time.Second, releasePoll: 30 * time.Second,
		splay: 10 * time.Second, releaseSplay: 60 * time.Second, tries: 240, perHost: 6 * time.Second,
		contact: map[bool]time.Duration{true: 1200 * time.Second, false: 600 * time.Second}, leaderPoll: 30 * time.Second, phaseTimeouts: 600 * time.Second,
	},
	{
		name: "Kinetic 2024", start: 10 * time.Second, stagger: 2 * time.Second, poll: 30 * time.Second, releasePoll: 60 * time.Second,
		splay: 10 * time.Second, releaseSplay: 60 * time.Second, tries: 240, perHost: 6 * time.Second, perVM: 20 * time.Second,
		settle: time.Minute, rebootDelay: time.Minute, existence: true,
		contact: map[bool]time.Duration{true: 2000 * time.Second, false: 2000 * time.Second}, leaderPoll: 30 * time.Second, phaseTimeouts: 1200 * time.Second,
	},
}

const never = time.Duration(1) << 60

// finish is when each role is done; never, when one of its nodes hangs or what
// it needs is never done.
func (m model) finish(c *cloud, seed uint64, hung []string) map[string]time.Duration {
	dice := rand.New(rand.NewPCG(seed, 5))
	exists, done := map[string]time.Duration{}, map[string]time.Duration{}
	for i, r := range openstack {
		at := m.start + time.Duration(i)*m.stagger
		at = m.gate(dice, at, m.ready(exists, done, r.install, r.needs), m.releasePoll, m.releaseSplay)
		at = m.deploy(c, r.role, r.physical, at, hung)
		exists[r.role] = at
		all := func(of func(took) time.Duration) time.Duration {
			longest := time.Duration(0)
			for _, n := range c.of[r.role] {
				longest = max(longest, of(c.took[n]))
			}
			if longest > m.phaseTimeouts {
				return never
			}
			return longest
		}
		reboot := m.rebootDelay + all(func(t took) time.Duration { return t.boot })
		at = add(at, m.settle, all(func(t took) time.Duration { return t.base }), all(func(t took) time.Duration { return t.network }), reboot)
		at = add(m.gate(dice, at, latest(done, r.install), m.poll, m.splay), all(func(t took) time.Duration { return t.install }))
		at = m.gate(dice, at, latest(done, r.needs), m.poll, m.splay)
		first := c.took[c.of[r.role][0]].settings
		others := all(func(t took) time.Duration { return t.settings })
		if len(c.of[r.role]) > 1 { // the others poll for the end of the first
			others += (first + m.leaderPoll - 1) / m.leaderPoll * m.leaderPoll
		}
		done[r.role] = add(at, others, reboot)
	}
	return done
}

// ready is when a role is let go.
func (m model) ready(exists, done map[string]time.Duration, install, needs []string) time.Duration {
	if m.existence {
		return max(latest(exists, install), latest(exists, needs))
	}
	switch { // the first phase of which all is there
	case len(install) == 0:
		return latest(done, needs)
	case len(needs) == 0:
		return latest(done, install)
	}
	return min(latest(done, install), latest(done, needs))
}

// deploy makes the machines of a role boot, and waits for all of them.
func (m model) deploy(c *cloud, role string, physical bool, at time.Duration, hung []string) time.Duration {
	end := at
	for i, n := range c.of[role] {
		begun := at
		if physical {
			begun += time.Duration(i+1) * m.perHost
		} else {
			begun += time.Duration(i+1) * m.perVM
		}
		first := c.took[n].first
		if slices.Contains(hung, n) || begun+first-at > m.contact[physical] {
			return never
		}
		end = max(end, add(begun, first))
	}
	return end
}

// gate is the first look at or after the time that something is ready.
func (m model) gate(dice *rand.Rand, from, ready, every, splay time.Duration) time.Duration {
	at := from
	for range m.tries {
		at = add(at, time.Duration(dice.Float64()*float64(splay)))
		if at >= ready || at >= never {
			return at
		}
		at = add(at, every)
	}
	return never
}

func latest(of map[string]time.Duration, roles []string) time.Duration {
	at := time.Duration(0)
	for _, r := range roles {
		at = max(at, of[r])
	}
	return at
}

// add adds durations, and never is for ever.
func add(all ...time.Duration) time.Duration {
	sum := time.Duration(0)
	for _, d := range all {
		if sum += d; sum >= never {
			return never
		}
	}
	return sum
}

// The same cluster, with the same durations, is built sooner than Kinetic's
// orchestration would; with hanging nodes it would not be built at all.
func TestProveClusterBeatsKinetic(t *testing.T) {
	lastsLong(t)
	for seed := range seeds(1, 10) {
		for kind := range seeds(1, 2) {
			together(t, func(ctx context.Context, store *record.Store) { race(t, ctx, store, uint64(seed)+1, kind == 1) })
		}
	}
}

func race(t *testing.T, ctx context.Context, store *record.Store, seed uint64, installer bool) {
	c := newCloud("cloud", seed, installer)
	c.plant.commit()
	defer start(t, ctx, store, seed, c.plant)()
	ours := c.plant.await(len(c.took), 5*time.Hour)
	if len(c.plant.done) < len(c.took) {
		t.Fatalf("seed %d: %d of %d nodes are done", seed, len(c.plant.done), len(c.took))
	}
	dice := rand.New(rand.NewPCG(seed, 6))
	for _, m := range kinetics {
		well := time.Duration(0)
		for _, at := range m.finish(c, seed, nil) {
			well = max(well, at)
		}
		finished := 0
		hung := []string{pickOne(dice, c.plant.design.NodeNames()...)}
		for role, at := range m.finish(c, seed, hung) {
			if at < never {
				finished += len(c.of[role])
			}
		}
		if ours >= well {
			t.Errorf("seed %d, installer %t: %s takes %s, we take %s", seed, installer, m.name, well, ours)
		}
		factor := fmt.Sprintf("%s, a factor of %.2f", well.Round(time.Second), float64(well)/float64(ours))
		if well >= never {
			factor = "never, for a machine takes longer than its timeout"
		}
		t.Logf("seed %d, installer %t: ours %s, %s %s; with %v hung it gets %d of %d nodes done, we %d",
			seed, installer, ours.Round(time.Second), m.name, factor, hung, finished, len(c.took), len(c.path(hung)))
	}
}
