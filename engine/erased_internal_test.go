package engine

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// What is recorded of a machine whose disks were erased, or may have been, names no system any more;
// another machine in its place was not erased.
func TestWhatAnEraseLeavesOnRecord(t *testing.T) {
	step := site.Step{Node: "a", Facet: site.FacetStorage, Action: site.ActionZeroize, Impact: site.ImpactDestructive, Changes: []site.Change{{Field: "storage.erase"}}}
	recorded := func(sent bool) site.Recorded {
		return site.Recorded{
			Installed: &site.Installation{Generation: 3, Image: "debian"}, Owned: site.Owned{Digest: "d"},
			InFlight: &site.InFlight{Step: step, Since: time.Unix(1, 0), Sent: sent},
		}
	}
	r := recorded(false)
	if leaveOff(&r, step, "a commit takes it back"); r.InFlight != nil || r.Installed == nil || r.Owned.Digest != "d" {
		t.Errorf("before its first write: %+v", r)
	}
	r = recorded(true)
	if leaveOff(&r, step, "the agent is lost"); r.InFlight != nil || r.Installed != nil || r.Installing != nil || r.Owned.Digest != "" {
		t.Errorf("after its first write: %+v", r)
	}
	r = site.Recorded{Retired: time.Unix(3, 0), RetiredLayout: "f00d"}
	if move(&r); !r.Retired.IsZero() || r.RetiredLayout != "" {
		t.Errorf("of another machine: %+v", r)
	}
}

// An agent that is there for an installation is left alone by a node that leaves with its disks
// erased: it has other disks in mind.
func TestWhoWantsTheAgentOfALeavingNode(t *testing.T) {
	n := &site.Node{Name: "a", Decommission: true, DecommissionErase: item.EraseSecure}
	for _, c := range []struct {
		name  string
		r     site.Recorded
		alone bool
	}{
		{"no agent", site.Recorded{}, false},
		{"one for the erase", site.Recorded{Agent: &site.AgentBoot{}}, false},
		{"one for an installation that was not begun", site.Recorded{Agent: &site.AgentBoot{Generation: 2}}, true},
		{"one for an installation under way", site.Recorded{Agent: &site.AgentBoot{Generation: 2}, Installing: &site.Installation{Generation: 2}}, false},
		{"erased already", site.Recorded{Retired: time.Unix(1, 0)}, true},
		{"erased by another design", site.Recorded{Retired: time.Unix(1, 0), RetiredLayout: "f00d"}, false},
	} {
		j := job{node: n, site: &site.Site{Nodes: map[string]*site.Node{"a": n}}, memory: site.Memory{Recorded: c.r}}
		if got := (&worker{}).leavesAgentAlone(j); got != c.alone {
			t.Errorf("%s: left alone %v, want %v", c.name, got, c.alone)
		}
	}
}
