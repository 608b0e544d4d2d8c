package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// What is planned for a machine that leaves the design with its disks erased, by what is known of it.
func TestRetire(t *testing.T) {
	disks := []item.Disk{{Name: "sda", Serial: "S1", Kind: "ssd", Bytes: 480e9 / 512 * 512, Sector: 512}, {Name: "sdb", Serial: "S2", Kind: "hdd", Bytes: 8e12 / 512 * 512, Sector: 512}}
	agent := func(generation int, connected bool, disks ...item.Disk) *site.AgentSeen {
		return &site.AgentSeen{Generation: generation, Connected: connected, Disks: disks, Seen: now}
	}
	erase := []site.Action{site.ActionStartAgent, site.ActionZeroize, site.ActionFinishErase}
	for name, c := range map[string]struct {
		change func(s *site.Site, n *site.Node, m *site.Memory)
		steps  []site.Action
		says   string // in what blocks, or in the notes
	}{
		"nothing was done": {nil, erase, "Slipway erases the disks that its design names"},
		"the agent is there": {func(_ *site.Site, _ *site.Node, m *site.Memory) {
			m.Recorded.Agent, m.Observed.Agent = &site.AgentBoot{Started: now}, agent(0, true, disks...)
		}, erase[1:], ""},
		"other disks are there": {func(_ *site.Site, _ *site.Node, m *site.Memory) {
			m.Recorded.Agent, m.Observed.Agent = &site.AgentBoot{Started: now}, agent(0, true, disks[1])
		}, nil, "no disk fits"},
		"the disks are erased": {func(_ *site.Site, _ *site.Node, m *site.Memory) {
			m.Recorded.Retired, m.Recorded.Agent = now, &site.AgentBoot{Started: now}
		}, erase[2:], "its disks were erased at"},
		"it is off": {func(_ *site.Site, _ *site.Node, m *site.Memory) { m.Recorded.Retired = now }, nil, "its disks were erased at"},
		"the disks of another design were erased": {func(_ *site.Site, _ *site.Node, m *site.Memory) {
			m.Recorded.Retired, m.Recorded.RetiredLayout = now, "f00d"
		}, erase, "Slipway erases the disks that its design names"},
		"the disks of this design were": {func(_ *site.Site, n *site.Node, m *site.Memory) {
			m.Recorded.Retired, m.Recorded.RetiredLayout = now, plan.LayoutDigest(n.Retiring())
		}, nil, "its disks were erased at"},
		"the system of another node answers": {func(_ *site.Site, n *site.Node, m *site.Memory) {
			n.Endpoints[site.OS] = site.Endpoint{URL: "ssh://10.1.0.11"}
			m.Observed.Facets[site.FacetOS] = site.FacetState{Have: site.Values{"state": "running"}, Seen: now}
			m.Observed.Marker = &site.Marker{Site: "elsewhere", Node: "theirs", Generation: 3}
		}, erase, ""},
		"a disk has gone since the erase began": {func(_ *site.Site, n *site.Node, m *site.Memory) {
			m.Recorded.Agent, m.Observed.Agent = &site.AgentBoot{Started: now}, agent(0, true, disks[1])
			step := site.Step{Node: "n1", Facet: site.FacetStorage, Action: site.ActionZeroize, Impact: site.ImpactDestructive, Changes: []site.Change{{Field: "storage.erase"}}}
			m.Recorded.InFlight = &site.InFlight{Step: step, Sent: true}
		}, erase[1:], ""},
		"an installation is under way": {func(_ *site.Site, n *site.Node, m *site.Memory) {
			n.References.ByAgent, n.Image, n.Generation = true, "debian", 1
			m.Recorded.Installing = &site.Installation{Generation: 1, ByAgent: true, Ended: now, Since: now}
		}, []site.Action{site.ActionFinishInstall}, ""},
		"it is away":        {func(_ *site.Site, n *site.Node, _ *site.Memory) { n.Away = "in repair" }, nil, ""},
		"it is not enabled": {func(_ *site.Site, n *site.Node, _ *site.Memory) { no := false; n.Enabled = &no }, nil, "only observes"},
		"without erase":     {func(_ *site.Site, n *site.Node, _ *site.Memory) { n.DecommissionErase = "" }, nil, "Slipway only observes it"},
		"another machine answers": {func(_ *site.Site, _ *site.Node, m *site.Memory) {
			m.Observed.Identity = site.Identity{UUID: "ffffffff-1111-4000-8000-000000000000"}
		}, nil, "another machine answers"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &site.Node{Name: "n1", Power: "on", Identity: site.Identity{UUID: "4c4c4544-0000-4000-8000-000000000001"},
				Endpoints: map[site.EndpointKind]site.Endpoint{site.Manager: {URL: "redfish+https://10.9.0.11/redfish/v1/Systems/1"}}, Decommission: true, DecommissionErase: item.EraseSecure,
				Storage: site.Storage{BootDisk: "os", Disks: map[string]site.Disk{
					"os":   {Match: &site.DiskMatch{Kind: "ssd"}, Partitions: map[string]site.Partition{"root": {Use: site.Use{Filesystem: &site.Filesystem{Mount: "/"}}}}},
					"data": {Match: &site.DiskMatch{Kind: "hdd"}, Keep: true},
				}}}
			s := &site.Site{Name: "test", Nodes: map[string]*site.Node{"n1": n}}
			m := site.Memory{Observed: site.Observed{Identity: n.Identity, Disks: &site.Disks{Serials: []string{"S1", "S2"}}, Facets: map[site.Facet]site.FacetState{site.FacetPower: {Have: site.Values{"state": "on"}, Seen: now}}},
				Recorded: site.Recorded{Decommissioned: now, Retires: true}}
			if c.change != nil {
				c.change(s, n, &m)
			}
			p := plan.Node(s, n, knownOf(n, m))
			var steps []site.Action
			for _, s := range p.Steps {
				steps = append(steps, s.Action)
				if s.Action == site.ActionZeroize && (s.Endpoint() != site.Agent || s.Impact != site.ImpactDestructive || !strings.Contains(s.Loses, "the design's disk os") || !strings.Contains(s.Loses, "kept: data")) {
					t.Errorf("it loses %q", s.Loses)
				}
			}
			if !slices.Equal(steps, c.steps) || !strings.Contains(strings.Join(append(p.Notes, p.Blocked...), "\n"), c.says) {
				t.Errorf("the steps are %v, blocked by %q, with the notes %q", steps, p.Blocked, p.Notes)
			}
		})
	}
}

// The digest of what is erased follows from the disks that the design names, and not from what the
// system had on them: it is approved once.
func TestRetiringIsApprovedByItsDisks(t *testing.T) {
	n := &site.Node{Name: "n1", Decommission: true, DecommissionErase: item.EraseSecure, Storage: site.Storage{Disks: map[string]site.Disk{"os": {Match: &site.DiskMatch{Kind: "ssd"}}}}}
	before := plan.LayoutDigest(n.Retiring())
	n.Storage.Disks["os"] = site.Disk{Match: &site.DiskMatch{Kind: "ssd"}, Use: site.Use{Filesystem: &site.Filesystem{Mount: "/"}}}
	if plan.LayoutDigest(n.Retiring()) != before {
		t.Error("what is on a disk changes what is approved")
	}
	n.Storage.Disks["data"] = site.Disk{Match: &site.DiskMatch{Kind: "hdd"}}
	if plan.LayoutDigest(n.Retiring()) == before {
		t.Error("another disk does not change what is approved")
	}
}

// A node that leaves the design before its disks were erased is held.
func TestARemovalWaitsForTheErase(t *testing.T) {
	for retired, held := range map[time.Time]bool{{}: true, now: false} {
		p := plan.Site(&site.Site{Name: "test"}, "r", site.Known{Nodes: map[string]site.Memory{"n1": {Recorded: site.Recorded{Decommissioned: now, Retires: true, Retired: retired}}}})
		if len(p.Removes) != 1 || (p.Removes[0].Held != "") != held {
			t.Errorf("retired at %s: %+v", retired, p.Removes)
		}
	}
}
