package plan_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// machine is a virtual machine that does as it is told, with what is recorded
// of it.
type machine struct {
	live, written, disks, writtenDisks site.Values // running, and at its next start
	power, seed                        string
	recorded                           site.Recorded
	// lost are the disks that something on them was lost of.
	lost []string
}

func newMachine() *machine { return &machine{power: "off", seed: site.SeedNone} }

func (vm *machine) memory() site.Memory {
	m := site.Memory{Recorded: vm.recorded, Observed: site.Observed{Facets: map[site.Facet]site.FacetState{
		site.FacetPower:      {Have: site.Values{"state": vm.power}, Seen: now},
		site.FacetDefinition: {Have: site.Values{"state": "absent"}, Seen: now},
		site.FacetDisks:      {Seen: now},
		site.FacetSeed:       {Have: site.Values{"state": vm.seed}, Seen: now},
	}}}
	if vm.live != nil {
		m.Observed.Facets[site.FacetDefinition] = site.FacetState{Have: vm.live, Pending: differing(vm.written, vm.live), Seen: now}
		m.Observed.Facets[site.FacetDisks] = site.FacetState{Have: vm.disks, Pending: differing(vm.writtenDisks, vm.disks), Seen: now}
	}
	return m
}

func differing(next, is site.Values) site.Values {
	pending := maps.Clone(next)
	maps.DeleteFunc(pending, func(field, value string) bool { return is[field] == value })
	return pending
}

// take does a step; what runs takes over what it can.
func (vm *machine) take(n *site.Node, s site.Step) {
	switch s.Action {
	case site.ActionDefine:
		if vm.live == nil {
			vm.live, vm.written, vm.disks, vm.writtenDisks = site.Values{}, site.Values{}, site.Values{}, site.Values{}
		}
		vm.write(n, site.FacetDefinition, vm.live, vm.written, n.Want(site.FacetDefinition))
	case site.ActionDisks:
		want := n.Want(site.FacetDisks)
		maps.DeleteFunc(want, func(field, _ string) bool { return strings.HasPrefix(field, "root.") && vm.disks["root.size"] == "" })
		vm.write(n, site.FacetDisks, vm.disks, vm.writtenDisks, want)
	case site.ActionRestart, site.ActionPowerOn:
		vm.start()
	case site.ActionPowerOff:
		vm.start()
		vm.power = "off"
	case site.ActionInstall:
		if vm.disks["root.size"] != "" {
			vm.lost = append(vm.lost, "root")
		}
		for field, value := range n.Want(site.FacetDisks) {
			if strings.HasPrefix(field, "root.") {
				vm.disks[field], vm.writtenDisks[field] = value, value
			}
		}
		vm.start()
		vm.seed = site.SeedAttached
		vm.recorded.Installing = &site.Installation{Generation: s.Generation, Image: s.Image.SHA256}
	case site.ActionRemoveSeed:
		vm.seed = site.SeedNone
	case site.ActionZeroize:
		vm.lost = append(vm.lost, "machine")
		*vm = machine{power: "off", seed: site.SeedNone, lost: vm.lost}
	}
}

func (vm *machine) start() {
	vm.power, vm.live, vm.disks = "on", maps.Clone(vm.written), maps.Clone(vm.writtenDisks)
}

func (vm *machine) write(n *site.Node, f site.Facet, live, written, want site.Values) {
	for field, value := range want {
		e, _ := n.Virtual.EffectOf(f, field, live[field], value)
		switch {
		case live[field] == value:
		case f == site.FacetDisks && e.Effect == site.EffectReplace:
			continue // an installation does
		case e.Effect == site.EffectNever:
			vm.lost = append(vm.lost, field)
		case e.Effect == site.EffectLive || vm.power == "off":
			live[field] = value
		}
		written[field] = value
	}
}

// settle runs plans until nothing is to be done, as the engine does.
func (vm *machine) settle(t *testing.T, s *site.Site, n *site.Node) (p site.NodePlan, took []site.Step) {
	t.Helper()
	for range 20 {
		p = plan.Node(s, n, site.Known{Nodes: map[string]site.Memory{n.Name: vm.memory()}})
		switch {
		case len(p.Steps) > 0:
			vm.take(n, p.Steps[0])
			took = append(took, p.Steps[0])
		case p.Waiting != "" && vm.recorded.Installing != nil:
			done := *vm.recorded.Installing
			done.Proven = true
			vm.recorded = site.Recorded{Installed: &done}
		default:
			return p, took
		}
	}
	t.Fatalf("no end of steps: %v, then %s, for %+v", actions(took), p.Steps[0].Summary(), n.Virtual)
	return
}

func actions(steps []site.Step) []string {
	var all []string
	for _, s := range steps {
		all = append(all, string(s.Action))
	}
	return all
}

func lab(n *site.Node) *site.Site {
	return &site.Site{Name: "lab", Images: map[string]*site.Image{"debian": {SHA256: "aa"}}, Nodes: map[string]*site.Node{n.Name: n}}
}

func webNode() *site.Node {
	n := &site.Node{Name: "web-1", Style: site.StyleVirtual, Power: "on", Image: "debian", Generation: 1, Virtual: site.Virtual{
		CPUs: 2, Memory: 4 << 30, Host: site.Host{Hypervisor: "hv-1", Accelerator: "kvm"},
		Disks:      map[string]site.VirtualDisk{"root": {Size: 20 << 30, Image: "overlay"}, "data": {Size: 4 << 30}},
		Interfaces: map[string]site.VirtualInterface{"eth0": {Bridge: "br-os"}},
	}}
	n.Derive("lab")
	return n
}

// The life of a virtual machine, step by step.
func TestVirtualLife(t *testing.T) {
	n, vm := webNode(), newMachine()
	s := lab(n)
	for _, c := range []struct {
		what   string
		change func()
		want   string
	}{
		{"new", func() {}, "define set-disks install remove-seed"},
		{"nothing", func() {}, ""},
		{"memory", func() { n.Virtual.Memory = 8 << 30 }, "define restart"},
		{"somebody takes memory away", func() { vm.written["memory"] = "2GiB" }, "define"},
		{"memory and disk", func() {
			n.Virtual.Memory = 4 << 30
			n.Virtual.Disks["data"] = site.VirtualDisk{Size: 8 << 30, Bus: "scsi"}
		}, "define set-disks restart"},
		{"firmware", func() { n.Virtual.Firmware = "uefi" }, ""},
		{"and a generation", func() { n.Generation = 2 }, "define install remove-seed"},
		{"off", func() { n.Power = "off"; n.Virtual.CPUs = 4 }, "define power-off"},
		{"changed while off", func() { n.Virtual.CPUs = 8 }, "define"},
		{"on again", func() { n.Power = "on" }, "power-on"},
		{"decommissioned", func() { n.Decommission = true }, "zeroize"},
		{"anew", func() { n.Decommission = false }, "define set-disks install remove-seed"},
	} {
		c.change()
		if _, took := vm.settle(t, s, n); strings.Join(actions(took), " ") != c.want {
			t.Errorf("%s: %v, want %s", c.what, actions(took), c.want)
		}
	}
	if want := []string{"root", "machine"}; !slices.Equal(vm.lost, want) {
		t.Errorf("lost %q, want %q", vm.lost, want)
	}
}

// Whatever a design becomes, the steps come to an end; the machine is then as
// designed, or a sentence says why not. Nothing is lost but by a step that says
// so.
func TestVirtualConverges(t *testing.T) {
	for seed := range uint64(300) {
		dice := rand.New(rand.NewPCG(7, seed))
		n, vm := webNode(), newMachine()
		s := lab(n)
		vm.settle(t, s, n)
		for range 6 {
			edit(n, dice)
			p, took := vm.settle(t, s, n)
			approved := slices.ContainsFunc(took, func(x site.Step) bool { return x.Impact == site.ImpactDestructive })
			if len(vm.lost) > 0 && !approved || slices.ContainsFunc(vm.lost, func(l string) bool { return l != "root" }) {
				t.Fatalf("seed %d: %v lost %q", seed, actions(took), vm.lost)
			}
			vm.lost = nil
			for _, f := range []site.Facet{site.FacetDefinition, site.FacetDisks} {
				if !plan.AsDesigned(n, f, vm.memory().Observed.Facets[f]) && len(p.Blocked) == 0 {
					t.Fatalf("seed %d: %s is not as designed after %v, and nothing is blocked", seed, f, actions(took))
				}
			}
		}
	}
}

// edit changes something of a design.
func edit(n *site.Node, dice *rand.Rand) {
	v := &n.Virtual
	size := site.Size(1+dice.IntN(8)) << 30
	switch dice.IntN(9) {
	case 0:
		v.Memory = size
	case 1:
		v.CPUs = 1 + dice.IntN(4)
	case 2:
		v.Firmware = []string{"", "uefi"}[dice.IntN(2)]
	case 3:
		v.Disks["data"] = site.VirtualDisk{Size: size, Pool: []string{"", "fast"}[dice.IntN(2)]}
	case 4:
		v.Disks["root"] = site.VirtualDisk{Size: 2 * size, Bus: []string{"", "sata"}[dice.IntN(2)], Image: "copy"}
	case 5:
		v.Disks[fmt.Sprintf("more%d", dice.IntN(2))] = site.VirtualDisk{Size: size}
	case 6:
		v.Interfaces[fmt.Sprintf("eth%d", dice.IntN(3))] = site.VirtualInterface{Bridge: "br-data", MAC: "52:54:00:00:00:01"}
	case 7:
		n.Power = []string{"on", "off"}[dice.IntN(2)]
	case 8:
		n.Generation++
	}
}

// An approval of what a virtual machine loses is about its disks as they were
// seen; how else the machine looks by then does not matter.
func TestApprovalOfVirtualMachines(t *testing.T) {
	n := webNode()
	s := lab(n)
	digest := func(change func(*machine)) string {
		vm := newMachine()
		n.Generation, n.Virtual.Firmware = 1, ""
		vm.settle(t, s, n)
		n.Generation, n.Virtual.Firmware = 2, "uefi"
		change(vm)
		p := plan.Site(s, "r", site.Known{Nodes: map[string]site.Memory{n.Name: vm.memory()}})
		if got := len(p.Destroys()); got != 2 {
			t.Fatalf("%d losses, want those of the definition and of the installation", got)
		}
		return p.Destroys().Digest()
	}
	was := digest(func(*machine) {})
	if got := digest(func(vm *machine) {
		vm.power, vm.live["memory"], vm.disks["old.size"] = "off", "1GiB", "1GiB"
	}); got != was {
		t.Errorf("the set is %s, and was %s before the machine changed", got, was)
	}
	if got := digest(func(vm *machine) { vm.disks["root.size"] = "10GiB" }); got == was {
		t.Error("another disk has the same digest")
	}
}

// What a step deletes is named also where it is not attached to the machine: by
// the end of the machine all, by an installation the disk that it replaces.
func TestLossNamesVolumesThatAreNotAttached(t *testing.T) {
	const unattached = "old 1GiB in the pool default (not attached), root 10GiB in the pool fast (not attached)"
	for _, c := range []struct {
		what string
		with func(*site.Node, *machine)
		want string
	}{
		{"zeroize", func(n *site.Node, _ *machine) { n.Decommission = true }, "data 4GiB in the pool default, root 20GiB in the pool default, " + unattached},
		{"install", func(n *site.Node, _ *machine) { n.Generation = 2 }, "root 20GiB in the pool default, root 10GiB in the pool fast (not attached)"},
		{"install without its disk", func(n *site.Node, vm *machine) {
			n.Generation = 2
			delete(vm.disks, "root.size")
		}, "root 10GiB in the pool fast (not attached)"},
	} {
		n, vm := webNode(), newMachine()
		s := lab(n)
		vm.settle(t, s, n)
		vm.disks[site.FieldUnattached] = unattached
		c.with(n, vm)
		known := site.Known{Nodes: map[string]site.Memory{n.Name: vm.memory()}}
		p := plan.Node(s, n, known)
		set := (&site.Plan{Nodes: []site.NodePlan{p}}).Destroys()
		if len(set) != 1 || set[0].Disks != c.want {
			t.Errorf("%s: the losses are %+v, want the disks %q", c.what, set, c.want)
		}
		if note := fmt.Sprint(p.Notes); !strings.Contains(note, `its disk "old" of 1GiB is not in the design; it is not attached to the machine, and `) {
			t.Errorf("%s: the notes are %s", c.what, note)
		}
		if seen, want := present.DisksOf(set[0]), "disks: "+c.want; seen != want {
			t.Errorf("%s: people read %q, want %q", c.what, seen, want)
		}
	}
}

// A node is forgotten when its machine is known to be gone.
func TestStillThere(t *testing.T) {
	virtual, physical := webNode(), &site.Node{Name: "n1"}
	state := func(s string) site.Observed {
		return site.Observed{Facets: map[site.Facet]site.FacetState{site.FacetDefinition: {Have: site.Values{"state": s}, Seen: now}}}
	}
	for _, c := range []struct {
		node  *site.Node
		seen  site.Observed
		there bool
	}{
		{virtual, state("defined"), true}, {nil, state("defined"), true}, {virtual, site.Observed{}, true},
		{virtual, state("absent"), false}, {virtual, state("foreign"), false}, {nil, site.Observed{}, false}, {physical, site.Observed{}, false},
	} {
		if why := plan.StillThere(c.node, site.Memory{Observed: c.seen}); (why != "") != c.there {
			t.Errorf("%v, %v: %q", c.node, c.seen, why)
		}
	}
}

// A daemon without its records does not install over what a hypervisor has noted
// as installed.
func TestNotedGenerationIsNotInstalledOver(t *testing.T) {
	n := &site.Node{Name: "vm", Style: site.StyleVirtual, Image: "debian", Generation: 2, Power: "on"}
	m := site.Memory{Observed: site.Observed{Facets: map[site.Facet]site.FacetState{
		site.FacetDefinition: {Have: site.Values{site.FieldState: site.StateDefined, "generation": "2"}},
	}}}
	if got := plan.Generation(n, m); got != 2 {
		t.Errorf("got generation %d, want 2", got)
	}
}

// A decommissioned virtual machine whose metadata was lost is not called gone: in the plan something is left to decide.
func TestDecommissionedForeignMachineIsNotGone(t *testing.T) {
	n := webNode()
	n.Decommission = true
	m := site.Memory{
		Observed: site.Observed{Identity: n.Identity, Facets: map[site.Facet]site.FacetState{
			site.FacetDefinition: {Have: site.Values{site.FieldState: site.StateForeign}, Unresolved: site.Values{site.FieldState: "on hv-1 there is a machine named vm-1 with the UUID of vm-1 that Slipway did not make"}},
		}},
		Recorded: site.Recorded{Adopted: &site.Adoption{Machine: n.Identity, Manager: n.Endpoints[site.Manager].URL}},
	}
	if p := plan.Node(&site.Site{Name: "s"}, n, site.Known{Nodes: map[string]site.Memory{n.Name: m}}); !p.Pends() {
		t.Errorf("nothing is left to do or to decide, so status says that the virtual machine is gone and that the node may be removed: %+v", p)
	}
}
