package rollout_test

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Whoever joins becomes one of the canaries by what the design selects, of itself and of those before it.
func TestWhoJoinsTheCanaries(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rollout.Facts, rollout.ByName)
		want   bool
	}{
		"room for another canary, which it is not": {func(f *rollout.Facts, _ rollout.ByName) { f.Site.Rollout.Canaries.Count = 3 }, true},
		"one of those before it is none":           {func(f *rollout.Facts, _ rollout.ByName) { f.Rollout.Nodes = []string{"a1", "b1"} }, false},
		"one of those before it is gone":           {func(_ *rollout.Facts, all rollout.ByName) { delete(all, "a2") }, false},
	} {
		f, all := rolling()
		f.Rollout.Nodes, f.Rollout.Canaries, f.Site.Rollout.Canaries.Count = []string{"a1", "a2"}, nil, 2
		f.Site.Rollout.Canaries.Nodes = &site.Selector{Match: site.Match{Roles: []string{"a"}}}
		c.change(f, all)
		if got := f.AllBecomeCanaries(all["b2"]); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// Where all nodes of a role leave, nobody leads, and nobody waits.
func TestNobodyLeads(t *testing.T) {
	f, all := world()
	f.Site.Roles["a"].LeaderFirst = true
	for _, name := range []string{"a1", "a2", "a3"} {
		all[name].Leaving, all[name].Phase = true, "base"
	}
	if r := f.Order(try(all["a2"], reboots)); r != nil {
		t.Error(said(f, r))
	}
}

// Before a design is in force nothing queues; what was 5 minutes ago is not lately.
func TestNothingQueues(t *testing.T) {
	if (&rollout.Facts{Now: now, Rollout: &site.RolloutStatus{}, Nodes: rollout.ByName{}}).Queues(now) {
		t.Error("a revision waits before there is a design")
	}
	long := now.Add(-time.Hour)
	for name, c := range map[string]struct{ moved, since time.Time }{
		"moved":   {now.Add(-5 * time.Minute), long},
		"retried": {long, now.Add(-5 * time.Minute)},
	} {
		f, all := rolling()
		f.Site.Rollout.OnChange = "queue"
		for _, n := range all {
			n.State, n.Since = site.Retrying, c.since
		}
		if f.Queues(c.moved) {
			t.Errorf("%s 5 minutes ago: it queues", name)
		}
	}
}

// While the agent runs on a machine only its start continues.
func TestOtherStepsWhileTheAgentRuns(t *testing.T) {
	on := &site.AgentBoot{Generation: 2, Tries: 1, Since: now, Started: now}
	if rollout.Continues(site.Recorded{Agent: on}, site.Step{Node: "n1", Action: site.ActionPowerOff, Impact: site.ImpactReboot}) {
		t.Error("any step continues")
	}
}

// A person is needed only where a machine that is out of service waits for one that waits for its place.
func TestWhoIsInTheWay(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rollout.Facts, rollout.ByName)
		person bool
	}{
		"both":                       {func(*rollout.Facts, rollout.ByName) {}, true},
		"it is in service":           {func(_ *rollout.Facts, all rollout.ByName) { all["a2"].Power, all["a2"].Busy = "on", true }, false},
		"the first waits for others": {func(_ *rollout.Facts, all rollout.ByName) { all["a1"].WaitsForPlace = false }, false},
		"the first is gone": {func(f *rollout.Facts, all rollout.ByName) {
			all["a1"].WaitsForPlace = false
			delete(all, "a1")
		}, false},
	} {
		f, all := rolling()
		all["a1"].WaitsForPlace, all["a2"].Power = true, "off"
		c.change(f, all)
		if r := f.Order(try(all["a2"], reboots)); r == nil || r.Verdict(f).Person != c.person {
			t.Errorf("%s: %s", name, said(f, r))
		}
	}
}

// Of a health that has no reason the state is told.
func TestHealthWithoutAReason(t *testing.T) {
	f, all := world()
	all["b1"].Disrupts, all["b2"].Disrupts = true, true
	all["b1"].WasHealthy, all["b1"].Probes.State = true, site.Unhealthy
	want := "the site allows 2 of 5 nodes out of service (maxUnavailable 2); 2 are: b1 (unhealthy), b2; one of b1, b2 coming back into service"
	if got := said(f, f.Room(try(all["a1"], reboots))); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// The only hypervisor takes its virtual machines down like any other.
func TestOnlyHypervisor(t *testing.T) {
	f, all := hosting()
	for _, i := range []string{"2", "3"} {
		delete(f.Site.Hypervisors, "hv-"+i)
	}
	all["etcd2"].Disrupts = true
	if f.Room(try(all["hv1"], reboots)) == nil {
		t.Error("it restarts while another member of etcd is down")
	}
}

// Who is out of service is named in order, in whatever order the nodes are known.
func TestNodesOutOfServiceAreInOrder(t *testing.T) {
	for range 24 {
		f, all := world()
		f.Site.Rollout.MaxUnavailable = "4"
		for _, name := range []string{"a2", "a3", "b1", "b2"} {
			all[name].Disrupts = true
		}
		want := "the site allows 4 of 5 nodes out of service (maxUnavailable 4); 4 are: a2, a3, b1, b2; one of a2, a3, b1, b2 coming back into service"
		if got := said(f, f.Room(try(all["a1"], reboots))); got != want {
			t.Fatalf("\n got %s\nwant %s", got, want)
		}
	}
}

// Who looks for one node of a role does not go through all of them.
func TestNodesOfARoleAsFarAsAsked(t *testing.T) {
	_, all := world()
	n := 0
	for range all.InRole("a") {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d nodes were given", n)
	}
}
