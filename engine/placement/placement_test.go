package placement_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/placement"
	"github.com/slipway-gitops/slipway/engine/site"
)

const gib = site.Size(1 << 30)

// lab is a site that tests put together.
type lab struct{ *site.Site }

func newLab() lab {
	return lab{&site.Site{Name: "lab", Nodes: map[string]*site.Node{}, Roles: map[string]*site.Role{}, Racks: map[string]*site.Rack{},
		Hypervisors: map[string]*site.Hypervisor{}}}
}

// hypervisor adds one with so much memory, 0 for no bound.
func (l lab) hypervisor(name string, memory site.Size) *site.Hypervisor {
	h := &site.Hypervisor{URL: "libvirt+ssh://root@" + name + ".example/system", Memory: memory}
	l.Hypervisors[name] = h
	return h
}

// machine adds a virtual node of a role, declared on the line of its number.
func (l lab) machine(name, role string, memory site.Size) *site.Node {
	n := &site.Node{Name: name, Style: site.StyleVirtual, Role: role, Virtual: site.Virtual{CPUs: 1, Memory: memory},
		Place: site.At("site.cue", 100+len(l.Nodes), 2, "node/"+name)}
	l.Nodes[name] = n
	return n
}

func (l lab) role(name string, p site.Placement) {
	l.Roles[name] = &site.Role{Enabled: true, Placement: p}
}

// machines adds a number of them, each with a name of the role's.
func (l lab) machines(role string, count int, memory site.Size) {
	for i := range count {
		l.machine(fmt.Sprintf("%s-%d", role, i+1), role, memory)
	}
}

// without is the site but for some nodes.
func (l lab) without(nodes ...string) lab {
	is := *l.Site
	is.Nodes = maps.Clone(l.Nodes)
	for _, name := range nodes {
		delete(is.Nodes, name)
	}
	return lab{&is}
}

// places are where the virtual nodes of a site are.
func places(s *site.Site) map[string]string {
	where := map[string]string{}
	for name, n := range s.Nodes {
		if n.IsVirtual() {
			where[name] = n.Virtual.Host.Hypervisor
		}
	}
	return where
}

// placed places a site, and fails when that cannot be.
func placed(t *testing.T, l lab, there map[string]site.Placed) *site.Site {
	t.Helper()
	s, findings := placement.Place(l.Site, there)
	if len(findings) > 0 {
		t.Fatalf("the site cannot be placed:\n%s", text(findings))
	}
	return s
}

func text(findings []site.Finding) string {
	var all strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&all, "%s %s %s", f.Code, f.Severity, f)
		if f.More > 0 {
			fmt.Fprintf(&all, " (+%d)", f.More)
		}
		all.WriteString("\n")
	}
	return all.String()
}

// counts are how many machines of a role are on each hypervisor.
func counts(s *site.Site, role string) map[string]int {
	on := map[string]int{}
	for name := range s.Hypervisors {
		on[name] = 0
	}
	for _, n := range s.Nodes {
		if n.IsVirtual() && n.Role == role {
			on[n.Virtual.Host.Hypervisor]++
		}
	}
	return on
}

func evenly(on map[string]int) bool {
	all := slices.Sorted(maps.Values(on))
	return all[len(all)-1]-all[0] <= 1
}

func TestPlacedNode(t *testing.T) {
	l := newLab()
	h := l.hypervisor("hv-1", 0)
	h.Node, h.Credential, h.Accelerator = "metal-1", "libvirt", "emulation"
	h.Trust.HostKeys = []string{"ssh-ed25519 AAAA"}
	l.Nodes["metal-1"] = &site.Node{Name: "metal-1", Rack: "r1"}
	n := l.machine("vm-1", "web", gib)
	n.Endpoints = map[site.EndpointKind]site.Endpoint{site.OS: {URL: "ssh://192.0.2.7"}}
	before := *n

	s := placed(t, l, nil)
	is := s.Nodes["vm-1"]
	if want := (site.Host{Hypervisor: "hv-1", Accelerator: "emulation"}); is.Virtual.Host != want || is.Rack != "r1" {
		t.Errorf("it is on %+v in rack %q", is.Virtual.Host, is.Rack)
	}
	want := map[site.EndpointKind]site.Endpoint{
		site.OS:      {URL: "ssh://192.0.2.7"},
		site.Manager: {URL: "libvirt+ssh://root@hv-1.example/system?domain=vm-1&site=lab", Credential: "libvirt", Trust: h.Trust},
	}
	if diff := cmp.Diff(want, is.Endpoints); diff != "" {
		t.Error("its endpoints:", diff)
	}
	if diff := cmp.Diff(before, *n, cmp.Comparer(func(a, b site.Origin) bool { return a == b })); diff != "" || len(n.Endpoints) != 1 {
		t.Error("the design was written to:", diff)
	}
	if s.Nodes["metal-1"] != l.Nodes["metal-1"] {
		t.Error("a physical node was copied")
	}
}

func TestSiteWithoutVirtualNodesIsReturnedAsItIs(t *testing.T) {
	l := newLab()
	l.hypervisor("hv-1", 0)
	l.Nodes["metal-1"] = &site.Node{Name: "metal-1"}
	there := map[string]site.Placed{"gone": {Virtual: site.Virtual{Host: site.Host{Hypervisor: "hv-1"}}}}
	if s, findings := placement.Place(l.Site, there); s != l.Site || findings != nil {
		t.Errorf("got another site, or findings: %v", findings)
	}
	if n := testing.AllocsPerRun(10, func() { placement.Place(l.Site, there) }); n > 0 {
		t.Errorf("it costs %v allocations", n)
	}
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		spread string
		units  func(l lab, s *site.Site) map[string]int
	}{
		{"", func(_ lab, s *site.Site) map[string]int { return counts(s, "web") }},
		{"hypervisor", func(_ lab, s *site.Site) map[string]int { return counts(s, "web") }},
		{"rack", func(l lab, s *site.Site) map[string]int {
			racks := map[string]int{}
			for h, n := range counts(s, "web") {
				racks[l.Hypervisors[h].Rack] += n
			}
			return racks
		}},
		{"domain", func(l lab, s *site.Site) map[string]int {
			domains := map[string]int{}
			for h, n := range counts(s, "web") {
				domains[l.Racks[l.Hypervisors[h].Rack].Domain] += n
			}
			return domains
		}},
	} {
		t.Run("over each "+c.spread, func(t *testing.T) {
			l := newLab()
			// Four in the first rack, two in the second, one in the third.
			for i, rack := range []string{"r1", "r1", "r1", "r1", "r2", "r2", "r3"} {
				l.hypervisor(fmt.Sprintf("hv-%d", i+1), 64*gib).Rack = rack
			}
			l.Racks["r1"], l.Racks["r2"], l.Racks["r3"] = &site.Rack{Domain: "a"}, &site.Rack{Domain: "b"}, &site.Rack{Domain: "b"}
			l.role("web", site.Placement{Spread: c.spread})
			l.machines("web", 14, gib)
			s := placed(t, l, nil)
			if units := c.units(l, s); !evenly(units) {
				t.Errorf("they are spread so: %v", units)
			}
		})
	}
}

// Where some have little room the others take more, and nothing is refused.
func TestSpreadIsAWish(t *testing.T) {
	l := newLab()
	l.hypervisor("small", 2*gib)
	l.hypervisor("large", 64*gib)
	l.role("web", site.Placement{Spread: "hypervisor"})
	l.machines("web", 10, gib)
	s := placed(t, l, nil)
	if diff := cmp.Diff(map[string]int{"small": 2, "large": 8}, counts(s, "web")); diff != "" {
		t.Error("not as evenly as can be:", diff)
	}
}

// Without a wish the least loaded is taken, by its share.
func TestLeastLoaded(t *testing.T) {
	l := newLab()
	l.hypervisor("small", 16*gib)
	l.hypervisor("large", 48*gib)
	l.role("web", site.Placement{Spread: "none"})
	l.machines("web", 16, 2*gib)
	s := placed(t, l, nil)
	if diff := cmp.Diff(map[string]int{"small": 4, "large": 12}, counts(s, "web")); diff != "" {
		t.Error("not loaded alike:", diff)
	}
}

func TestApart(t *testing.T) {
	l := newLab()
	for _, name := range []string{"hv-1", "hv-2", "hv-3"} {
		l.hypervisor(name, 0)
	}
	l.role("db", site.Placement{Apart: []string{"db"}})
	l.role("web", site.Placement{Apart: []string{"db"}})
	l.machines("db", 2, gib)
	l.machines("web", 4, gib)
	s := placed(t, l, nil)
	for h, n := range counts(s, "db") {
		if n > 1 || n > 0 && counts(s, "web")[h] > 0 {
			t.Errorf("%s has %d of db and %d of web", h, n, counts(s, "web")[h])
		}
	}

	l.machine("db-3", "db", gib)
	s = placed(t, l.without("web-1", "web-2", "web-3", "web-4"), nil)
	if diff := cmp.Diff(map[string]int{"hv-1": 1, "hv-2": 1, "hv-3": 1}, counts(s, "db")); diff != "" {
		t.Error("three on three:", diff)
	}
}

func TestNear(t *testing.T) {
	l := newLab()
	for _, name := range []string{"hv-1", "hv-2", "hv-3", "hv-4"} {
		l.hypervisor(name, 0)
	}
	l.role("web", site.Placement{Near: []string{"cache"}})
	l.role("cache", site.Placement{Near: []string{"store"}})
	l.role("store", site.Placement{Apart: []string{"store"}})
	l.machines("web", 6, gib)
	l.machine("web-1", "web", gib).Virtual.Hypervisor = "hv-3"
	l.machines("cache", 2, gib)
	l.machines("store", 2, gib)
	s := placed(t, l, nil)
	for h, n := range counts(s, "web") {
		if n > 0 && counts(s, "cache")[h] == 0 {
			t.Errorf("%s has web and no cache", h)
		}
		if counts(s, "cache")[h] > 0 && counts(s, "store")[h] == 0 {
			t.Errorf("%s has cache and no store", h)
		}
	}
	if got := s.Nodes["web-1"].Virtual.Host.Hypervisor; got != "hv-3" {
		t.Errorf("the one that is asked for on hv-3 is on %s", got)
	}
}

// One that is there has to get the other that it is to be near.
func TestNearOneThatIsThere(t *testing.T) {
	l := newLab()
	l.hypervisor("hv-1", 0)
	l.hypervisor("hv-2", 0)
	l.hypervisor("hv-3", 0)
	l.machine("web-1", "web", gib).Virtual.Hypervisor = "hv-2"
	first := placed(t, l, nil)
	l.role("web", site.Placement{Near: []string{"db"}})
	l.machine("db-1", "db", gib)
	if got := placed(t, l, placement.Of(first)).Nodes["db-1"].Virtual.Host.Hypervisor; got != "hv-2" {
		t.Errorf("db-1 is on %s, and web-1 needs it on hv-2", got)
	}
}

func TestDrainedTakesNoNewMachines(t *testing.T) {
	l := newLab()
	l.hypervisor("hv-1", 0)
	l.machines("web", 2, gib)
	first := placed(t, l, nil)
	l.Hypervisors["hv-1"].Drained = true
	l.hypervisor("hv-2", 0)
	l.machines("app", 5, gib)
	s := placed(t, l, placement.Of(first))
	if diff := cmp.Diff(map[string]int{"hv-1": 0, "hv-2": 5}, counts(s, "app")); diff != "" {
		t.Error("new ones:", diff)
	}
	if diff := cmp.Diff(map[string]int{"hv-1": 2, "hv-2": 0}, counts(s, "web")); diff != "" {
		t.Error("those that are there:", diff)
	}
}

// So does one whose own machine leaves.
func TestHypervisorOfADecommissionedNodeTakesNoNewMachines(t *testing.T) {
	l := newLab()
	l.hypervisor("hv-1", 0).Node = "metal-1"
	l.hypervisor("hv-2", 0)
	l.Nodes["metal-1"] = &site.Node{Name: "metal-1", Decommission: true}
	l.machines("web", 3, gib)
	if diff := cmp.Diff(map[string]int{"hv-1": 0, "hv-2": 3}, counts(placed(t, l, nil), "web")); diff != "" {
		t.Error(diff)
	}
}

// What was dropped from the design takes its room until it is gone, and so does
// what is disabled or decommissioned.
func TestRoomIsTakenUntilAMachineIsGone(t *testing.T) {
	l := newLab()
	l.hypervisor("hv-1", 8*gib)
	l.machines("old", 3, 2*gib)
	there := placement.Of(placed(t, l, nil))
	disabled := false
	l.Nodes["old-2"].Enabled = &disabled
	l.Nodes["old-3"].Decommission = true
	next := l.without("old-1")
	next.machine("new-1", "new", 4*gib)
	_, findings := placement.Place(next.Site, there)
	want := "unplaced error site.cue:102:2: no hypervisor takes it: it needs 4GiB of memory, and the most that is free is 2GiB, on hv-1\n"
	if diff := cmp.Diff(want, text(findings)); diff != "" {
		t.Error(diff)
	}
	delete(there, "old-1")
	if _, findings := placement.Place(next.Site, there); len(findings) > 0 {
		t.Errorf("once it is gone there is room, and yet:\n%s", text(findings))
	}
}

// A simple case that can be is not refused because those that came first took
// the wrong places.
func TestOrderRefusesNothingThatCanBe(t *testing.T) {
	for name, put := range map[string]func(l lab){
		"a big one after small ones": func(l lab) {
			l.hypervisor("hv-1", 8*gib)
			l.hypervisor("hv-2", 8*gib)
			l.machines("a", 8, gib)
			l.machine("z-1", "z", 8*gib)
		},
		"sizes that go together in one way": func(l lab) {
			for _, h := range []string{"hv-1", "hv-2", "hv-3"} {
				l.hypervisor(h, 12*gib)
			}
			for i, size := range []site.Size{6, 6, 5, 4, 4, 4, 3, 2, 2} {
				l.machine(fmt.Sprintf("m-%d", i), "m", size*gib)
			}
		},
		"one that may only be where others would like to be": func(l lab) {
			l.hypervisor("hv-1", 4*gib)
			l.hypervisor("hv-2", 64*gib)
			l.hypervisor("hv-3", 4*gib)
			l.role("db", site.Placement{Apart: []string{"db"}})
			l.machines("a", 20, gib)
			l.machines("db", 3, 3*gib)
			l.machine("z", "a", 4*gib).Virtual.Hypervisor = "hv-1"
			l.Hypervisors["hv-1"].Memory = 7 * gib
		},
		"a pair that fits on one of them only": func(l lab) {
			l.hypervisor("hv-1", 4*gib)
			l.hypervisor("hv-2", 6*gib)
			l.hypervisor("hv-3", 4*gib)
			l.role("web", site.Placement{Near: []string{"db"}})
			l.machine("web-1", "web", 4*gib)
			l.machine("db-1", "db", 2*gib)
			l.machines("other", 4, 2*gib)
		},
		"two that are near each other": func(l lab) {
			l.hypervisor("hv-1", 4*gib)
			l.hypervisor("hv-2", 4*gib)
			l.role("a", site.Placement{Near: []string{"b"}, Apart: []string{"a"}})
			l.role("b", site.Placement{Near: []string{"a"}, Apart: []string{"b"}})
			l.machines("a", 2, 2*gib)
			l.machines("b", 2, 2*gib)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			put(l)
			s := placed(t, l, nil)
			if broken := violations(s); len(broken) > 0 {
				t.Errorf("it breaks %v", broken)
			}
		})
	}
}

func TestFindings(t *testing.T) {
	// there has web-1 on hv-1 and web-2 on hv-2, each of 4GiB.
	there := func(l lab) map[string]site.Placed {
		l.hypervisor("hv-1", 8*gib)
		l.hypervisor("hv-2", 8*gib)
		l.machine("web-1", "web", 4*gib)
		l.machine("web-2", "web", 4*gib)
		return map[string]site.Placed{
			"web-1": {Role: "web", Virtual: site.Virtual{Host: site.Host{Hypervisor: "hv-1"}}},
			"web-2": {Role: "web", Virtual: site.Virtual{Host: site.Host{Hypervisor: "hv-2"}}},
		}
	}
	for name, c := range map[string]struct {
		put  func(l lab, there map[string]site.Placed)
		want string
	}{
		"no hypervisor": {func(l lab, there map[string]site.Placed) {
			clear(l.Hypervisors)
			clear(there)
		}, "unplaced error site.cue:100:2: the design has no hypervisor to place it on (+1)\n"},
		"too little memory": {func(l lab, _ map[string]site.Placed) {
			l.machine("big-1", "big", 8*gib)
			l.Hypervisors["hv-2"].Memory = 10 * gib
		}, "unplaced error site.cue:102:2: no hypervisor takes it: it needs 8GiB of memory, and the most that is free is 6GiB, on hv-2\n"},
		"too few CPUs": {func(l lab, _ map[string]site.Placed) {
			l.machine("big-1", "big", gib).Virtual.CPUs = 16
			l.Hypervisors["hv-1"].CPUs, l.Hypervisors["hv-2"].CPUs = 8, 4
		}, "unplaced error site.cue:102:2: no hypervisor takes it: it needs 16 of the CPUs, and the most that is free is 7, on hv-1\n"},
		"too small a pool": {func(l lab, _ map[string]site.Placed) {
			l.machine("big-1", "big", gib).Virtual.Disks = map[string]site.VirtualDisk{"root": {Size: 20 * gib}, "data": {Size: 20 * gib}}
			l.Hypervisors["hv-1"].Pools = map[string]site.Size{"default": 30 * gib}
			l.Hypervisors["hv-2"].Pools = map[string]site.Size{"default": 35 * gib}
		}, "unplaced error site.cue:102:2: no hypervisor takes it: it needs 40GiB of pool default, and the most that is free is 35GiB, on hv-2\n"},
		"one drained, one apart": {func(l lab, _ map[string]site.Placed) {
			l.role("db", site.Placement{Apart: []string{"web"}})
			l.machine("db-1", "db", gib)
			l.Hypervisors["hv-2"].Drained = true
		}, "unplaced error site.cue:102:2: no hypervisor takes it: role db is to be apart from role web, which is on hv-1; hv-2 takes no new machines: its field drained is true\n"},
		"none to be near": {func(l lab, _ map[string]site.Placed) {
			l.role("db", site.Placement{Near: []string{"cache"}})
			l.machine("db-1", "db", gib)
		}, "unplaced error site.cue:102:2: no hypervisor takes it: role db has to be near role cache, of which no node is on hv-1; role db has to be near role cache, of which no node is on hv-2\n"},
		"asked for where there is no room": {func(l lab, _ map[string]site.Placed) {
			l.machine("db-1", "db", 5*gib).Virtual.Hypervisor = "hv-1"
			l.Hypervisors["hv-2"].Memory = 64 * gib
		}, "unplaced error site.cue:102:2: hypervisor hv-1, which virtual.hypervisor asks for, does not take it: it needs 5GiB of memory, and the most that is free is 4GiB, on hv-1\n"},
		"asked for where there is none": {func(l lab, _ map[string]site.Placed) {
			l.machine("db-1", "db", gib).Virtual.Hypervisor = "hv-9"
		}, "unplaced error site.cue:102:2: virtual.hypervisor is \"hv-9\", and there is no such hypervisor\n"},
		"asked for elsewhere than it is": {func(l lab, _ map[string]site.Placed) {
			l.Nodes["web-1"].Virtual.Hypervisor = "hv-2"
			l.Nodes["web-1"].Origins = site.OriginsByPath(map[string]site.Origin{"virtual.hypervisor": site.At("web.cue", 7, 3, "node/web-1")})
		}, "machine-moves error web.cue:7:3: virtual.hypervisor asks for hv-2, and the machine was placed on hv-1\n"},
		"its hypervisor left the design": {func(l lab, _ map[string]site.Placed) {
			delete(l.Hypervisors, "hv-1")
		}, "machine-moves error site.cue:100:2: it was placed on hypervisor hv-1, which is no longer in the design\n"},
		"grown over what there is": {func(l lab, _ map[string]site.Placed) {
			l.Nodes["web-1"].Virtual.Memory = 9 * gib
			l.Origins = site.OriginsByPath(map[string]site.Origin{"hypervisors.hv-1.memory": site.At("hv.cue", 3, 4, "site")})
		}, "hypervisor-full error hv.cue:3:4: the machines on hypervisor hv-1 take 9GiB of memory, and they may have 8GiB: web-1 9GiB\n"},
		"apart too late": {func(l lab, there map[string]site.Placed) {
			there["web-2"] = there["web-1"]
			l.role("web", site.Placement{Apart: []string{"web"}})
		}, "placed-otherwise error site.cue:101:2: its role web is to be apart from role web, and it is placed on hv-1 together with web-1\n"},
		"near too late": {func(l lab, there map[string]site.Placed) {
			l.role("web", site.Placement{Near: []string{"db"}})
			l.machine("db-1", "db", gib).Virtual.Hypervisor = "hv-2"
		}, "placed-otherwise error site.cue:100:2: its role web has to be near role db, and there is no node of that on hv-1, where it is placed\n"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			where := there(l)
			c.put(l, where)
			s, findings := placement.Place(l.Site, where)
			if diff := cmp.Diff(c.want, text(findings)); diff != "" {
				t.Error(diff)
			}
			for _, f := range findings {
				if f.Why == "" || f.Fix == "" || f.Node == "" && f.Path == "" {
					t.Errorf("it does not say why, what to do, or about what: %+v", f)
				}
			}
			for name, p := range where {
				if n := s.Nodes[name]; n != nil && n.Virtual.Host.Hypervisor != p.Virtual.Host.Hypervisor && n.Virtual.Host.Hypervisor != "" {
					t.Errorf("%s was moved to %s", name, n.Virtual.Host.Hypervisor)
				}
			}
		})
	}
}

// One that leaves is bound by no rule.
func TestDecommissionedMachineIsLeftAlone(t *testing.T) {
	l := newLab()
	l.hypervisor("hv-1", 0)
	l.hypervisor("hv-2", 0)
	l.role("web", site.Placement{Apart: []string{"web"}})
	for _, name := range []string{"web-1", "web-2"} {
		l.machine(name, "web", gib)
	}
	there := map[string]site.Placed{}
	for name := range l.Nodes {
		there[name] = site.Placed{Role: "web", Virtual: site.Virtual{Host: site.Host{Hypervisor: "hv-1"}}}
	}
	l.Nodes["web-2"].Decommission = true
	l.machine("web-3", "web", gib)
	if got := placed(t, l, there).Nodes["web-3"].Virtual.Host.Hypervisor; got != "hv-2" {
		t.Errorf("the new one is on %s, where others are still", got)
	}
}

// What was never made is nowhere yet, and goes where the design wants it; what
// was made is not moved.
func TestUnmadeMachinesMayGoElsewhere(t *testing.T) {
	for _, unmade := range []bool{true, false} {
		s := &site.Site{
			Name: "lab", Roles: map[string]*site.Role{"web": {}},
			Hypervisors: map[string]*site.Hypervisor{"hv-1": {}, "hv-2": {}},
			Nodes:       map[string]*site.Node{"web-1": {Name: "web-1", Style: site.StyleVirtual, Role: "web", Virtual: site.Virtual{Hypervisor: "hv-2"}}},
		}
		there := map[string]site.Placed{"web-1": {Role: "web", Virtual: site.Virtual{Host: site.Host{Hypervisor: "hv-1"}}, Unmade: unmade}}
		placed, found := placement.Place(s, there)
		if unmade && (len(found) > 0 || placed.Nodes["web-1"].Virtual.Host.Hypervisor != "hv-2") {
			t.Errorf("never made: on %s, found %v", placed.Nodes["web-1"].Virtual.Host.Hypervisor, found)
		}
		if !unmade && len(found) != 1 {
			t.Errorf("made: found %v, want that it does not move", found)
		}
	}
}
