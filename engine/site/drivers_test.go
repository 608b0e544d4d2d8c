package site_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// hardware is a system that was seen with some PCI devices.
func hardware(model string, ids ...string) *site.Platform {
	slices.Sort(ids)
	return &site.Platform{Family: "debian", Model: model, PCI: &item.PCI{IDs: ids}}
}

// A driver is for a machine by what was designed or seen of it. What nobody saw is
// neither yes nor no.
func TestWhichMachineADriverIsFor(t *testing.T) {
	unread := &site.Platform{Family: "debian", PCI: &item.PCI{Unread: "permission denied"}}
	for name, c := range map[string]struct {
		match    site.DriverMatch
		designed string
		seen     *site.Platform
		want     site.Fit
		by       string
	}{
		"designed model":             {site.DriverMatch{Model: "PowerEdge R750"}, "PowerEdge R750", nil, site.FitSure, "the model PowerEdge R750"},
		"any letters":                {site.DriverMatch{Model: "PowerEdge R7*"}, "PowerEdge R750", nil, site.FitSure, "the model PowerEdge R750"},
		"none in the place of any":   {site.DriverMatch{Model: "*PowerEdge*R750*"}, "PowerEdge R750", nil, site.FitSure, "the model PowerEdge R750"},
		"a letter for two stars":     {site.DriverMatch{Model: "aa*aa"}, "aaa", nil, site.FitNone, ""},
		"letters in another order":   {site.DriverMatch{Model: "*b*a*"}, "ab", nil, site.FitNone, ""},
		"letters in the right order": {site.DriverMatch{Model: "*a*b*"}, "xaybz", nil, site.FitSure, "the model xaybz"},
		"no letter is special":       {site.DriverMatch{Model: "R.50"}, "R750", nil, site.FitNone, ""},
		"case counts":                {site.DriverMatch{Model: "poweredge*"}, "PowerEdge R750", nil, site.FitNone, ""},
		"another designed model":     {site.DriverMatch{Model: "X"}, "Y", hardware("X"), site.FitNone, ""},
		"seen model":                 {site.DriverMatch{Model: "X"}, "", hardware("X"), site.FitSure, "the model X"},
		"another seen model":         {site.DriverMatch{Model: "X"}, "", hardware("Y"), site.FitNone, ""},
		"no model was seen yet":      {site.DriverMatch{Model: "X"}, "", nil, site.FitUnknown, "its model was not seen yet"},
		"a system without a model":   {site.DriverMatch{Model: "X"}, "", hardware(""), site.FitUnknown, "its system does not report its model, and the design states no hardware.model"},
		"seen before drivers":        {site.DriverMatch{Model: "X"}, "", &site.Platform{}, site.FitUnknown, "its model was not seen yet"},
		"a device":                   {site.DriverMatch{PCI: []string{"8086:1592", "8086:1593"}}, "", hardware("", "1af4:1000", "8086:1593"), site.FitSure, "8086:1593"},
		"no such device":             {site.DriverMatch{PCI: []string{"8086:1592"}}, "", hardware("", "1af4:1000"), site.FitNone, ""},
		"no PCI bus":                 {site.DriverMatch{PCI: []string{"8086:1592"}}, "", hardware(""), site.FitNone, ""},
		"devices not seen yet":       {site.DriverMatch{PCI: []string{"8086:1592"}}, "X", nil, site.FitUnknown, "its PCI devices were not seen yet"},
		"devices that are not read":  {site.DriverMatch{PCI: []string{"8086:1592"}}, "X", unread, site.FitUnknown, "its PCI devices cannot be read: permission denied"},
		"one of both is enough":      {site.DriverMatch{Model: "X", PCI: []string{"8086:1592"}}, "X", nil, site.FitSure, "the model X"},
		"another model, a device":    {site.DriverMatch{Model: "X", PCI: []string{"8086:1592"}}, "Y", hardware("", "8086:1592"), site.FitSure, "8086:1592"},
		"another model, unseen":      {site.DriverMatch{Model: "X", PCI: []string{"8086:1592"}}, "Y", nil, site.FitUnknown, "its PCI devices were not seen yet"},
	} {
		n := &site.Node{Name: "n1", Hardware: site.Hardware{Model: c.designed}}
		if got := (&site.Driver{Match: c.match}).For(n, c.seen); got.Fit != c.want || got.By != c.by {
			t.Errorf("%s: got %v, want %d by %q", name, got, c.want, c.by)
		}
	}
}

// drivenNode has drivers for two network adapters and one for its model.
func drivenNode() *site.Node {
	const sum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	return &site.Node{
		Name: "n1", Hardware: site.Hardware{Model: "R750"},
		References: site.References{
			Family: "debian",
			Artifacts: map[string]site.Artifact{
				"ddp": {SHA256: sum}, "same": {SHA256: sum}, "newer": {SHA256: strings.Repeat("f", 64)},
			},
			Drivers: map[string]*site.Driver{
				"ice": {
					Match:    site.DriverMatch{PCI: []string{"8086:1592"}},
					Modules:  map[string]site.KernelModule{"ice": {Parameters: site.Scalars{"debug": int64(1), "wait": true}}},
					Packages: map[string][]string{"debian": {"firmware-misc-nonfree", "ethtool"}, "rhel": {"linux-firmware"}},
					Firmware: map[string]string{"intel/ice/ddp/ice.pkg": "ddp"},
				},
				"mlx": {Match: site.DriverMatch{PCI: []string{"15b3:101d"}}, Modules: map[string]site.KernelModule{"mlx5_core": {}}},
				"r7":  {Match: site.DriverMatch{Model: "R7*"}, Modules: map[string]site.KernelModule{"ipmi-si": {}}},
			},
		},
	}
}

// What the drivers of a machine bring are items like those that the design asks for
// itself; nothing is asked for a device that was not seen.
func TestWhatDriversBring(t *testing.T) {
	n := drivenNode()
	for name, c := range map[string]struct {
		seen *site.Platform
		want []string
	}{
		"never seen":     {nil, []string{"modules.ipmi-si"}},
		"without it":     {hardware("R750", "1af4:1000"), []string{"modules.ipmi-si"}},
		"with it":        {hardware("R750", "8086:1592"), []string{"files./lib/firmware/intel/ice/ddp/ice.pkg", "modules.ice", "modules.ipmi-si", "packages.ethtool", "packages.firmware-misc-nonfree"}},
		"another family": {&site.Platform{Family: "rhel", PCI: &item.PCI{IDs: []string{"8086:1592"}}}, []string{"files./lib/firmware/intel/ice/ddp/ice.pkg", "modules.ice", "modules.ipmi-si", "packages.linux-firmware"}},
	} {
		got := slices.Sorted(slices.Values(slices.Concat(item.Keys(n.ItemsOn(site.FacetConfig, c.seen)), item.Keys(n.ItemsOn(site.FacetPackages, c.seen)))))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	seen := site.FacetState{System: hardware("R750", "8086:1592")}
	r := seen.Resolve(n, site.FacetConfig)
	if got := r.Want["modules.ice.parameters"]; got != "debug=1, wait=true" {
		t.Errorf("the module has the parameters %q", got)
	}
	if got := r.Drivers["modules.ice"]; got != "ice" {
		t.Errorf("the module comes from %q", got)
	}
	for field, want := range map[string]string{
		"modules.ice.parameters":                            "drivers.ice.modules.ice.parameters",
		"files./lib/firmware/intel/ice/ddp/ice.pkg.content": "drivers.ice.firmware.intel/ice/ddp/ice.pkg",
	} {
		if got := r.PathsOf(site.FacetConfig, field); got[0] != want {
			t.Errorf("%s is at %q, want %s", field, got, want)
		}
	}
	for _, f := range []site.Facet{site.FacetConfig, site.FacetPackages} {
		if !(&site.Node{References: site.References{Drivers: n.References.Drivers}}).Asks(f) {
			t.Errorf("a node with drivers asks for nothing of %s", f)
		}
	}
	if (&site.Node{References: site.References{Drivers: n.References.Drivers}}).Asks(site.FacetBase) {
		t.Error("a driver asks for accounts")
	}
}

// The design of the node itself counts over drivers, however it spells the same thing.
func TestTheNodeCountsOverDrivers(t *testing.T) {
	n := drivenNode()
	content := "mine"
	n.System = site.System{
		Packages: map[string]site.Package{"ethtool": {Version: "6.1"}, "firmware-misc-nonfree": {State: item.Absent}},
		Modules:  map[string]site.Module{"ice": {Parameters: site.Scalars{"debug": int64(0)}}},
		Files:    map[string]site.File{"/usr/lib/firmware/intel/ice/ddp/ice.pkg": {Content: &content}},
	}
	n.Families = map[string]site.System{"debian": {Modules: map[string]site.Module{"ipmi_si": {}}}}
	seen := site.FacetState{System: hardware("R750", "8086:1592")}
	config, packages := seen.Resolve(n, site.FacetConfig), seen.Resolve(n, site.FacetPackages)
	if got, want := item.Keys(config.Items), []string{"files./usr/lib/firmware/intel/ice/ddp/ice.pkg", "modules.ice", "modules.ipmi_si"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := config.Want["modules.ice.parameters"]; got != "debug=0" {
		t.Errorf("the module has the parameters %q", got)
	}
	if len(config.Drivers)+len(packages.Drivers) > 0 {
		t.Errorf("%v and %v come from drivers", config.Drivers, packages.Drivers)
	}
	if packages.Want["packages.ethtool.version"] != "6.1" || packages.Want["packages.firmware-misc-nonfree.state"] != item.Absent {
		t.Errorf("got the packages %v", packages.Want)
	}
}

// Two drivers of one machine that want different things of it have nothing written; the
// same thing twice is no contradiction.
func TestDriversThatContradict(t *testing.T) {
	n := drivenNode()
	n.References.Drivers["ice2"] = &site.Driver{
		Match:    site.DriverMatch{PCI: []string{"8086:1593"}},
		Modules:  map[string]site.KernelModule{"ice": {Parameters: site.Scalars{"debug": "1", "more": "x"}}},
		Firmware: map[string]string{"intel/ice/ddp/ice.pkg": "same"},
	}
	seen := site.FacetState{System: hardware("R750", "8086:1592", "8086:1593")}
	if r := seen.Resolve(n, site.FacetConfig); len(r.Unresolved) > 0 || r.Want["modules.ice.parameters"] != "debug=1, more=x, wait=true" {
		t.Errorf("got %v, unresolved %v", r.Want, r.Unresolved)
	}
	d := n.References.Drivers["ice2"]
	d.Firmware["intel/ice/ddp/ice.pkg"], d.Modules["ice"].Parameters["debug"] = "newer", int64(2)
	r := seen.Resolve(n, site.FacetConfig)
	for key, part := range map[string]string{
		"modules.ice": "the drivers ice and ice2 are both for this machine, and give its parameter debug the values 1 and 2",
		"files./lib/firmware/intel/ice/ddp/ice.pkg": "the drivers ice and ice2 are both for this machine, and name two artifacts",
	} {
		if !strings.Contains(r.Unresolved[key], part) {
			t.Errorf("%s: got %q, want %q", key, r.Unresolved[key], part)
		}
	}
	if one := (site.FacetState{System: hardware("R750", "8086:1592")}).Resolve(n, site.FacetConfig); len(one.Unresolved) > 0 {
		t.Errorf("with one of them: %v", one.Unresolved)
	}
}

// As long as nobody knows whether a driver is for the machine nothing is claimed, and
// nothing that a driver may have brought is removed.
func TestUnknownHardware(t *testing.T) {
	n := drivenNode()
	owned := []string{"files./etc/old", "modules.ice", "modules.mlx5_core"}
	for name, c := range map[string]struct {
		system *site.Platform
		unsure []string
		left   []string
		says   string
	}{
		"seen":         {hardware("", "8086:1592"), nil, []string{"files./etc/old"}, ""},
		"gone":         {hardware(""), nil, []string{"files./etc/old"}, ""},
		"not seen yet": {&site.Platform{Family: "debian"}, []string{"ice", "mlx"}, []string{"files./etc/old"}, ""},
		"not readable": {&site.Platform{Family: "debian", PCI: &item.PCI{Unread: "no /sys"}}, []string{"ice", "mlx"}, []string{"files./etc/old"},
			"Slipway does not know whether the driver is for this machine: its PCI devices cannot be read: no /sys"},
	} {
		state := site.FacetState{System: c.system, Owned: owned}
		r := state.Resolve(n, site.FacetConfig)
		if !slices.Equal(r.Unsure, c.unsure) || r.Unresolved["drivers.ice"] != c.says {
			t.Errorf("%s: unsure of %q, says %q", name, r.Unsure, r.Unresolved["drivers.ice"])
		}
		if got := state.Left(n, site.FacetConfig); !slices.Equal(got, c.left) {
			t.Errorf("%s: %q have left the design, want %q", name, got, c.left)
		}
	}
	delete(n.References.Drivers, "ice")
	if got := (site.FacetState{System: hardware("", "8086:1592"), Owned: owned}).Left(n, site.FacetConfig); !slices.Equal(got, []string{"files./etc/old", "modules.ice"}) {
		t.Errorf("without the driver %q have left the design", got)
	}
	unseen := site.FacetState{Cannot: site.Values{"modules.ice": "no helper", "modules.ipmi-si": "no helper"}}
	if r := unseen.Resolve(n, site.FacetConfig); r.Unresolved["modules.ipmi-si"] != "no helper" {
		t.Errorf("nothing could be seen: %v", r.Unresolved)
	}
}

// A path that leads out of the folder with firmware is no file, should it ever get here.
func TestFirmwareStaysInItsFolder(t *testing.T) {
	for _, file := range []string{"../../etc/passwd", "..", "/../../etc/passwd", "a/../../../etc/passwd", ""} {
		n := &site.Node{Hardware: site.Hardware{Model: "X"}, References: site.References{
			Artifacts: map[string]site.Artifact{"a": {SHA256: strings.Repeat("a", 64)}},
			Drivers:   map[string]*site.Driver{"d": {Match: site.DriverMatch{Model: "X"}, Firmware: map[string]string{file: "a"}}},
		}}
		for _, i := range n.Items(site.FacetConfig) {
			if !strings.HasPrefix(path.Clean(item.ID(i.Key)), "/lib/firmware/") {
				t.Errorf("%q gives %s", file, i.Key)
			}
		}
	}
}

// Which nodes a driver concerns is told as far as the design knows it.
func TestNodesOfDrivers(t *testing.T) {
	away := false
	reachable := map[site.EndpointKind]site.Endpoint{site.OS: {URL: "ssh://root@10.0.0.1"}}
	s := &site.Site{
		Drivers: map[string]*site.Driver{
			"gpu":  {Match: site.DriverMatch{Model: "R7*"}, Packages: map[string][]string{"debian": {"nvidia-driver"}}},
			"ice":  {Match: site.DriverMatch{PCI: []string{"8086:1592"}}, Modules: map[string]site.KernelModule{"ice": {}}},
			"none": {Match: site.DriverMatch{Model: "Z"}, Modules: map[string]site.KernelModule{"z": {}}},
		},
		Nodes: map[string]*site.Node{
			"n1": {Name: "n1", Hardware: site.Hardware{Model: "R750"}, Endpoints: reachable},
			"n2": {Name: "n2", Hardware: site.Hardware{Model: "R640"}, Endpoints: reachable},
			"n3": {Name: "n3", Hardware: site.Hardware{Model: "R750"}},
			"n4": {Name: "n4", Hardware: site.Hardware{Model: "R750"}, Endpoints: reachable, Enabled: &away},
		},
	}
	for _, n := range s.Nodes {
		n.References = s.ReferencesOf(n)
	}
	var got []string
	for _, d := range s.DriversOfNodes() {
		got = append(got, d.String())
	}
	want := []string{
		"driver gpu: for n1 by the model",
		"driver ice: unknown for n1, n2 until their systems report their hardware",
		"driver none: for no node",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
