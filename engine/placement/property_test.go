package placement_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/placement"
	"github.com/slipway-gitops/slipway/engine/site"
)

// violations are what no placement may break.
func violations(s *site.Site) []string {
	var all []string
	memory, cpus, pool := map[string]site.Size{}, map[string]int{}, map[string]site.Size{}
	on := map[string]map[string]int{}
	for _, name := range s.NodeNames() {
		n := s.Nodes[name]
		h := n.Virtual.Host.Hypervisor
		if h == "" {
			continue
		}
		memory[h] += n.Virtual.Memory
		cpus[h] += n.Virtual.CPUs
		for _, d := range n.Virtual.Disks {
			pool[h] += d.Size
		}
		if on[h] == nil {
			on[h] = map[string]int{}
		}
		on[h][n.Role]++
		if p := n.Virtual.Hypervisor; p != "" && p != h {
			all = append(all, fmt.Sprintf("%s is on %s and not on %s", name, h, p))
		}
	}
	for name, h := range s.Hypervisors {
		if h.Memory > 0 && memory[name] > h.Memory || h.CPUs > 0 && cpus[name] > h.CPUs || h.Pools["default"] > 0 && pool[name] > h.Pools["default"] {
			all = append(all, name+" is overfull")
		}
	}
	for _, n := range s.Nodes {
		r := s.Roles[n.Role]
		here := on[n.Virtual.Host.Hypervisor]
		if r == nil || here == nil {
			continue
		}
		for _, other := range r.Placement.Apart {
			if other == n.Role && here[other] > 1 || other != n.Role && here[other] > 0 {
				all = append(all, n.Name+" is not apart from "+other)
			}
		}
		for _, other := range r.Placement.Near {
			if here[other] == 0 {
				all = append(all, n.Name+" is not near "+other)
			}
		}
	}
	return all
}

// draw makes a site of a few hypervisors and machines.
func draw(dice *rand.Rand, hypervisors, machines int) lab {
	l := newLab()
	for i := range hypervisors {
		h := l.hypervisor(fmt.Sprintf("hv-%d", i+1), site.Size(dice.IntN(12))*gib)
		h.Rack = fmt.Sprintf("r%d", dice.IntN(3))
		h.CPUs = dice.IntN(12)
		h.Drained = dice.IntN(8) == 0
		if dice.IntN(2) == 0 {
			h.Pools = map[string]site.Size{"default": site.Size(1+dice.IntN(20)) * gib}
		}
	}
	for i := range 3 {
		p := site.Placement{Spread: []string{"", "rack", "domain", "none"}[dice.IntN(4)]}
		if dice.IntN(3) == 0 {
			p.Apart = append(p.Apart, fmt.Sprintf("role-%d", dice.IntN(3)))
		}
		if near := dice.IntN(3); dice.IntN(4) == 0 && near != i && !slices.Contains(p.Apart, fmt.Sprintf("role-%d", near)) {
			p.Near = append(p.Near, fmt.Sprintf("role-%d", near))
		}
		l.role(fmt.Sprintf("role-%d", i), p)
	}
	for i := range machines {
		l.drawn(dice, fmt.Sprintf("vm-%d", i+1), hypervisors)
	}
	return l
}

// drawn adds a machine.
func (l lab) drawn(dice *rand.Rand, name string, hypervisors int) {
	n := l.machine(name, fmt.Sprintf("role-%d", dice.IntN(3)), site.Size(1+dice.IntN(4))*gib)
	n.Virtual.CPUs = 1 + dice.IntN(3)
	n.Virtual.Disks = map[string]site.VirtualDisk{"root": {Size: site.Size(1+dice.IntN(5)) * gib}}
	if dice.IntN(6) == 0 {
		n.Virtual.Hypervisor = fmt.Sprintf("hv-%d", 1+dice.IntN(hypervisors))
	}
}

// Whatever can be placed is, for a few machines: held against trying every way.
func TestFewMachinesArePlacedIfTheyCanBe(t *testing.T) {
	can, cannot := 0, 0
	for seed := range uint64(1200) {
		dice := rand.New(rand.NewPCG(seed, 1))
		l := draw(dice, 1+dice.IntN(4), 1+dice.IntN(6))
		s, findings := placement.Place(l.Site, nil)
		if len(findings) == 0 {
			can++
			if broken := violations(s); len(broken) > 0 {
				t.Fatalf("seed %d: %v", seed, broken)
			}
			continue
		}
		cannot++
		if !site.HasErrors(findings) {
			t.Fatalf("seed %d: it is refused without an error", seed)
		}
		if where := anyWay(l, l.NodeNames(), map[string]string{}); where != nil {
			t.Fatalf("seed %d: it can be placed, as %v, and is refused:\n%s", seed, where, text(findings))
		}
	}
	if can < 200 || cannot < 200 {
		t.Errorf("%d can be placed and %d cannot: the draw says little", can, cannot)
	}
}

// anyWay tries every way to place machines, and gives one that breaks nothing.
func anyWay(l lab, names []string, where map[string]string) map[string]string {
	if len(names) == 0 {
		if len(violations(with(l, where))) == 0 {
			return maps.Clone(where)
		}
		return nil
	}
	for name, h := range l.Hypervisors {
		if h.Drained {
			continue
		}
		where[names[0]] = name
		if found := anyWay(l, names[1:], where); found != nil {
			return found
		}
	}
	delete(where, names[0])
	return nil
}

// with is a site with its machines at places.
func with(l lab, where map[string]string) *site.Site {
	is := *l.Site
	is.Nodes = map[string]*site.Node{}
	for name, n := range l.Nodes {
		node := *n
		node.Virtual.Host.Hypervisor = where[name]
		is.Nodes[name] = &node
	}
	return &is
}

// Over many small edits no machine ever moves, no hypervisor is overfull, and
// what is to be apart is. An edit that cannot be is not made.
func TestSmallEditsMoveNothing(t *testing.T) {
	made := 0
	for seed := range uint64(60) {
		dice := rand.New(rand.NewPCG(seed, 2))
		l := draw(dice, 6, 6)
		for name := range l.Hypervisors {
			l.Hypervisors[name].Memory *= 4
			l.Hypervisors[name].CPUs *= 4
		}
		there := map[string]site.Placed{}
		for step := range 40 {
			next := lab{with(l, nil)}
			edit(dice, next, step)
			s, findings := placement.Place(next.Site, there)
			for name, p := range there {
				n := s.Nodes[name]
				if n != nil && n.Virtual.Host.Hypervisor != p.Virtual.Host.Hypervisor && !site.HasErrors(findings) {
					t.Fatalf("seed %d, edit %d: %s is moved from %s to %s", seed, step, name, p.Virtual.Host.Hypervisor, n.Virtual.Host.Hypervisor)
				}
			}
			if len(findings) > 0 {
				continue
			}
			made++
			if broken := violations(s); len(broken) > 0 {
				t.Fatalf("seed %d, edit %d: %v", seed, step, broken)
			}
			l, there = next, placement.Of(s)
		}
	}
	if made < 200 {
		t.Errorf("%d edits were made: the draw says little", made)
	}
}

// edit makes one change as people do.
func edit(dice *rand.Rand, l lab, step int) {
	names := l.NodeNames()
	switch what := dice.IntN(5); {
	case what < 3 || len(names) == 0:
		l.drawn(dice, fmt.Sprintf("new-%d", step), 6)
	case what == 3:
		delete(l.Nodes, names[dice.IntN(len(names))])
	default:
		l.Nodes[names[dice.IntN(len(names))]].Virtual.Memory += gib
	}
}

// One more machine changes where no other one is, also when it is the first by
// name and the largest.
func TestOneMoreMovesNoOther(t *testing.T) {
	l := fleet(200, 12)
	before := placed(t, l, nil)
	l.machine("a-first", "role-1", 16*gib)
	after := places(placed(t, l, placement.Of(before)))
	delete(after, "a-first")
	if diff := cmp.Diff(places(before), after); diff != "" {
		t.Error(diff)
	}
}

// The same design and the same places give the same.
func TestPlacementIsTheSameEachTime(t *testing.T) {
	first := places(placed(t, fleet(300, 20), nil))
	for range 5 {
		if diff := cmp.Diff(first, places(placed(t, fleet(300, 20), nil))); diff != "" {
			t.Fatal(diff)
		}
	}
}

// fleet is a site of many machines, three quarters full.
func fleet(machines, hypervisors int) lab {
	l := newLab()
	each := (machines + hypervisors - 1) / hypervisors
	for i := range hypervisors {
		h := l.hypervisor(fmt.Sprintf("hv-%03d", i+1), site.Size(each)*3*gib)
		h.CPUs, h.Rack = each*3, fmt.Sprintf("r%d", i/10)
		h.Pools = map[string]site.Size{"default": site.Size(each) * 30 * gib}
	}
	l.role("role-0", site.Placement{})
	l.role("role-1", site.Placement{Spread: "rack"})
	l.role("role-2", site.Placement{Spread: "none", Near: []string{"role-3"}})
	l.role("role-3", site.Placement{Spread: "hypervisor"})
	for i := range machines {
		n := l.machine(fmt.Sprintf("vm-%04d", i+1), fmt.Sprintf("role-%d", i%4), site.Size(1+i%3)*gib)
		n.Virtual.CPUs = 1 + i%3
		n.Virtual.Disks = map[string]site.VirtualDisk{"root": {Size: 20 * gib}}
	}
	return l
}

func BenchmarkPlace(b *testing.B) {
	for _, c := range []struct{ machines, hypervisors int }{{200, 10}, {2000, 100}} {
		l := fleet(c.machines, c.hypervisors)
		s, findings := placement.Place(l.Site, nil)
		if len(findings) > 0 {
			b.Fatal(text(findings))
		}
		there := placement.Of(s)
		b.Run(fmt.Sprintf("%d new on %d", c.machines, c.hypervisors), func(b *testing.B) {
			for b.Loop() {
				placement.Place(l.Site, nil)
			}
		})
		b.Run(fmt.Sprintf("%d there on %d", c.machines, c.hypervisors), func(b *testing.B) {
			for b.Loop() {
				placement.Place(l.Site, there)
			}
		})
		l = fleet(c.machines, c.hypervisors)
		for _, h := range l.Hypervisors {
			h.Memory /= 3
		}
		b.Run(fmt.Sprintf("%d too many on %d", c.machines, c.hypervisors), func(b *testing.B) {
			for b.Loop() {
				placement.Place(l.Site, nil)
			}
		})
		l = fleet(c.machines, c.hypervisors)
		l.role("role-0", site.Placement{Apart: []string{"role-1"}})
		b.Run(fmt.Sprintf("%d in each other's way on %d", c.machines, c.hypervisors), func(b *testing.B) {
			for b.Loop() {
				placement.Place(l.Site, nil)
			}
		})
	}
}
