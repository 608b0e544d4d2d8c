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

// withIce is a site whose node may have an adapter that a driver is for, and the node.
func withIce() (*site.Site, *site.Node) {
	n := &site.Node{
		Name: "n1", Identity: site.Identity{UUID: "5e1d0000-0000-0000-0000-000000000001"},
		Endpoints:  map[site.EndpointKind]site.Endpoint{site.OS: {URL: "ssh://root@10.0.0.1"}},
		References: site.References{Family: "debian"},
	}
	s := &site.Site{
		Nodes: map[string]*site.Node{"n1": n},
		Drivers: map[string]*site.Driver{"ice": {
			Match:    site.DriverMatch{PCI: []string{"8086:1592"}},
			Modules:  map[string]site.KernelModule{"ice": {Parameters: site.Scalars{"debug": int64(1)}}},
			Packages: map[string][]string{"debian": {"firmware-misc-nonfree"}},
		}},
		Origins: site.OriginsByPath(map[string]site.Origin{
			"drivers.ice.modules.ice.parameters.debug": site.At("drivers.cue", 4, 9, "site"),
			"drivers.ice.packages.debian":              site.At("drivers.cue", 5, 9, "site"),
		}),
	}
	n.References.Drivers = map[string]*site.Driver{"ice": s.Drivers["ice"]}
	return s, n
}

var seesInside = map[site.Facet]bool{site.FacetConfig: true, site.FacetPackages: true}

// seenWith is a node whose system was seen with some devices; what is told of its items.
func seenWith(n *site.Node, pci *item.PCI, have site.Values, owned ...string) site.Known {
	state := site.FacetState{Have: have, Owned: owned, Seen: time.Now(), System: &site.Platform{Family: "debian", PCI: pci}}
	packages := state
	packages.Owned, packages.Have, packages.Absent = nil, nil, []string{"packages.firmware-misc-nonfree"}
	state.Absent = item.Missing([]string{"modules.ice"}, have)
	return site.Known{Serves: seesInside, Nodes: map[string]site.Memory{"n1": {
		Observed: site.Observed{Identity: n.Identity, Facets: map[site.Facet]site.FacetState{site.FacetConfig: state, site.FacetPackages: packages}},
		Recorded: site.Recorded{Adopted: &site.Adoption{Machine: n.Identity}},
	}}}
}

// What a driver brings is planned where its device was seen, names the driver, and has the
// place of the driver's line.
func TestPlanOfDriver(t *testing.T) {
	s, n := withIce()
	p := plan.Node(s, n, seenWith(n, &item.PCI{IDs: []string{"8086:1592"}}, nil))
	var got []string
	for _, step := range p.Steps {
		for _, c := range step.Changes {
			got = append(got, c.Name()+": "+c.Have+" → "+c.Want+" at "+c.Origin.String())
		}
	}
	want := []string{
		"packages.firmware-misc-nonfree.state (drivers.ice): absent → present at drivers.cue:5:9",
		"config.modules.ice.parameters (drivers.ice):  → debug=1 at drivers.cue:4:9",
	}
	if !slices.Equal(got, want) || len(p.Notes)+len(p.Blocked) > 0 {
		t.Errorf("got %q, want %q; notes %q, blocked %q", got, want, p.Notes, p.Blocked)
	}
}

// Without the device nothing is planned; as long as nobody has looked that is said, and
// where nobody can look the node is blocked.
func TestPlanOfDriverWithoutItsDevice(t *testing.T) {
	s, n := withIce()
	isAsDesigned := func(k site.Known) bool {
		return plan.AsDesigned(n, site.FacetConfig, k.Nodes["n1"].Observed.Facets[site.FacetConfig])
	}
	for name, c := range map[string]struct {
		pci         *item.PCI
		owned       []string
		note, block string
		asDesigned  bool
	}{
		"not there":    {pci: &item.PCI{IDs: []string{"1af4:1000"}}, asDesigned: true},
		"not seen yet": {note: "Slipway does not know yet whether the driver ice is for this machine: its PCI devices were not seen yet"},
		"unreadable":   {pci: &item.PCI{Unread: "no /sys"}, block: "Slipway does not know whether the driver is for this machine: its PCI devices cannot be read: no /sys"},
		"gone": {pci: &item.PCI{}, owned: []string{"modules.ice"}, asDesigned: true,
			note: "Slipway made modules.ice for a driver whose hardware Slipway no longer sees in this machine; it stays until the driver leaves the design"},
	} {
		k := seenWith(n, c.pci, nil, c.owned...)
		p := plan.Node(s, n, k)
		if len(p.Steps) > 0 || isAsDesigned(k) != c.asDesigned {
			t.Errorf("%s: as designed %t, planned %v", name, isAsDesigned(k), p.Steps)
		}
		if !slices.ContainsFunc(append(p.Notes, ""), func(note string) bool { return note == c.note }) || c.note == "" && len(p.Notes) > 0 {
			t.Errorf("%s: got the notes %q, want %q", name, p.Notes, c.note)
		}
		if blocked := strings.Join(p.Blocked, "\n"); !strings.Contains(blocked, c.block) || (c.block == "") != (blocked == "") {
			t.Errorf("%s: blocked by %q, want %q", name, blocked, c.block)
		}
	}
}

// A parameter of a module that is loaded is told to need a boot. Slipway does not boot the
// machine for it.
func TestParameterOfLoadedModule(t *testing.T) {
	s, n := withIce()
	s.Drivers["ice"].Packages = nil
	k := seenWith(n, &item.PCI{IDs: []string{"8086:1592"}}, site.Values{"modules.ice.parameters": "debug=0"}, "modules.ice")
	state := k.Nodes["n1"].Observed.Facets[site.FacetConfig]
	state.Pending, state.Waits = site.Values{"modules.ice.parameters": "debug=1"}, site.WaitsReboot
	k.Nodes["n1"].Observed.Facets[site.FacetConfig] = state
	p := plan.Node(s, n, k)
	want := "config.modules.ice.parameters is debug=0 and is designed as debug=1; that takes effect at the next boot. Slipway does not boot the machine for this: boot it yourself"
	if p.Waiting != want || len(p.Steps) > 0 {
		t.Errorf("waits for %q, want %q; planned %v", p.Waiting, want, p.Steps)
	}
}

// A driver that leaves the design takes what it brought along.
func TestPlanOfDriverThatLeaves(t *testing.T) {
	s, n := withIce()
	s.Drivers, n.References.Drivers = nil, nil
	p := plan.Node(s, n, seenWith(n, nil, site.Values{"modules.ice.parameters": "debug=1"}, "modules.ice"))
	if len(p.Steps) == 0 || !slices.Equal(p.Steps[0].Remove, []string{"modules.ice"}) && !slices.Equal(p.Steps[len(p.Steps)-1].Remove, []string{"modules.ice"}) {
		t.Errorf("got %+v, reported %q", p.Steps, p.Reported)
	}
}

// What drives a device, and the firmware that the kernel did not find, is told of those
// devices alone that a driver of the machine is for.
func TestDriverFindings(t *testing.T) {
	loaded := site.Values{"modules.ice.parameters": "debug=1"}
	device := func(driver string, modules ...string) item.PCIDevice {
		return item.PCIDevice{Address: "0000:18:00.0", ID: "8086:1592", Driver: driver, Modules: modules}
	}
	lacks := device("ice", "ice")
	lacks.Lacked = []item.LackedFirmware{{File: "ice.pkg"}, {File: "old.pkg", There: true}}
	for name, c := range map[string]struct {
		device item.PCIDevice
		have   site.Values
		want   []string
	}{
		"bound":                      {device("ice", "ice"), loaded, nil},
		"bound by another name":      {device("ICE driver", "ice"), loaded, nil},
		"what is below it is driven": {device("virtio-pci", "ice", "virtio_pci"), loaded, nil},
		"of no interest":             {item.PCIDevice{Address: "0000:19:00.0", ID: "8086:9999"}, loaded, nil},
		"not loaded yet":             {device(""), site.Values{"modules.ice.parameters": item.ModuleNotLoaded}, nil},
		"nothing is known of it":     {device(""), nil, nil},
		"no driver":                  {device(""), loaded, []string{"driver-unbound: the device 0000:18:00.0 (8086:1592) has no driver in the system: the kernel's log there says why"}},
		"another driver":             {device("vfio-pci", "vfio_pci"), loaded, []string{"driver-other: the device 0000:18:00.0 (8086:1592) is driven by vfio-pci, and not by ice. Slipway does not take a device away from a driver"}},
		"lacks firmware": {lacks, loaded, []string{
			"driver-firmware: the device 0000:18:00.0 (8086:1592) asked for the firmware ice.pkg, and the system does not have it. Add the package that brings it, or an artifact under `firmware`",
			"driver-firmware: the device 0000:18:00.0 (8086:1592) asked for the firmware old.pkg before it was there. Unless its driver was loaded again since, the firmware takes effect at the next boot",
		}},
	} {
		s, n := withIce()
		k := seenWith(n, &item.PCI{IDs: []string{"8086:1592"}, Devices: []item.PCIDevice{c.device}}, c.have)
		var got []string
		for _, f := range plan.Drivers(s, n, k.Nodes["n1"].Observed, seesInside) {
			got = append(got, f.Code+": "+f.Message)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
