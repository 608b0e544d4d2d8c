package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// What continues is what was begun itself, and what finishes an installation: anything else waits for
// its turn.
func TestWhatContinues(t *testing.T) {
	reboot := site.Step{Node: "n1", Action: site.ActionRestart, Impact: site.ImpactReboot}
	other := site.Step{Node: "n1", Action: site.ActionPowerOff, Impact: site.ImpactReboot}
	install, finish := site.Step{Node: "n1", Action: site.ActionInstall}, site.Step{Node: "n1", Action: site.ActionFinishInstall}
	inFlight := site.Recorded{InFlight: &site.InFlight{Step: reboot}}
	installing := site.Recorded{Installing: &site.Installation{Generation: 1}}
	for name, c := range map[string]struct {
		recorded site.Recorded
		step     site.Step
		want     bool
	}{
		"begun":                            {inFlight, reboot, true},
		"another one was begun":            {inFlight, other, false},
		"nothing was begun":                {site.Recorded{}, reboot, false},
		"it finishes an installation":      {installing, finish, true},
		"it installs anew":                 {installing, install, false},
		"an agent that nobody has started": {site.Recorded{}, site.Step{Node: "n1", Action: site.ActionStartAgent}, false},
	} {
		if got := rollout.Continues(c.recorded, c.step); got != c.want {
			t.Errorf("%s: continues %t", name, got)
		}
	}
}

// A pause, a wait and a success count for what they are, whatever else holds of the node.
func TestPartOfANodeThatIsHeld(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rollout.Node)
		want   rollout.Part
	}{
		"done, and progressing again": {func(n *rollout.Node) { n.Part, n.State = rollout.Done, site.Progressing }, rollout.Pending},
		"too slow, but not in hand":   {func(n *rollout.Node) { n.Spent, n.Patience = time.Hour, time.Minute }, rollout.Pending},
		"too slow":                    {func(n *rollout.Node) { n.InHand, n.Spent, n.Patience = true, time.Hour, time.Minute }, rollout.Failed},
		"paused while it was too slow": {func(n *rollout.Node) {
			n.InHand, n.Spent, n.Patience, n.State = true, time.Hour, time.Minute, site.Paused
		}, rollout.Resting},
		"a person, and progressing": {func(n *rollout.Node) { n.Person = true }, rollout.Pending},
	} {
		f, all := rolling()
		c.change(all["a1"])
		if got := f.PartOf(all["a1"]); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Of the nodes that halted a rollout those that came in-sync since its end count no more; any other
// does.
func TestNodesThatKeepARolloutHalted(t *testing.T) {
	f, all := rolling()
	f.Site.Rollout.MaxFailures = "0"
	was := &site.RolloutStatus{Halted: "2 nodes have failed", Nodes: f.Rollout.Nodes, HaltedBy: map[string]string{"a1": "d", "a2": "d", "gone": "d"}, Ended: now}
	all["a1"].State, all["a2"].State = site.InSync, site.Stalled
	wants := func(*rollout.Node) string { return "d" }
	for range 8 { // in whatever order they are known
		if got := fmt.Sprint(f.StaysHalted(was, wants)); got != "map[a2:d]" {
			t.Fatalf("got %s", got)
		}
	}
	if got := f.StaysHalted(nil, wants); got != nil {
		t.Errorf("before the first: %v", got)
	}
}

// Who waits for the leader is asked again when it makes progress; nobody waits for one that is not
// used, and the first of the others leads.
func TestWhoLeads(t *testing.T) {
	f, all := world()
	f.Site.Roles["a"].LeaderFirst = true
	all["a1"].Phase = "base"
	v := f.Order(try(all["a2"], reboots)).Verdict(f)
	want := fmt.Sprint([]string{"a1"}, []rollout.Topic{rollout.RoleTopic("a"), rollout.PlaceTopic("a1")}, []string{"a1"})
	if got := fmt.Sprint(v.For, v.Waits, v.Watched); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	f, all = world()
	f.Site.Roles["a"].LeaderFirst, f.Site.Roles["a"].Leader = true, "a3"
	all["a3"].Design.Away, all["a3"].Phase, all["a1"].Phase = "at the vendor's", "base", "base"
	if l, waits := f.Order(try(all["a2"], reboots)).(*rollout.Leader); !waits || l.Name != "a1" {
		t.Errorf("the named one is away: %+v", l)
	}
	if r := f.Order(try(all["a1"], reboots)); r != nil {
		t.Errorf("the first of the others waits: %s", said(f, r))
	}
}
