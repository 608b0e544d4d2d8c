package site_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// What a design asks and no driver acts on is named by its path, until one does.
// The first boot of a virtual machine brings about a part of it.
func TestWhatIsNotActedOn(t *testing.T) {
	content := "hello"
	node := site.Node{
		Name:       "n1",
		Power:      "on",
		BIOS:       site.BIOS{},
		Firmware:   map[string]site.Firmware{"BMC": {Version: "1"}},
		Interfaces: map[string]site.Interface{"eth0": {}},
		Bonds:      map[string]site.Bond{},
		Storage:    site.Storage{Disks: map[string]site.Disk{"root": {Match: &site.DiskMatch{Kind: "nvme"}}}},
		Kernel:     site.Kernel{Package: "linux-image-rt", Parameters: map[string]any{"quiet": true}},
		System: site.System{
			Users:    map[string]site.User{"ops": {}},
			Files:    map[string]site.File{"/etc/motd": {Content: &content}},
			Packages: map[string]site.Package{"nginx": {}},
			Time:     site.Time{Zone: "UTC"},
			Logs:     site.Logs{Forward: []string{"tls://logs.example.org:6514"}},
		},
		Families: map[string]site.System{"debian": {Packages: map[string]site.Package{"chrony": {}}}},
	}
	virtual := node
	virtual.Style, virtual.Firmware = site.StyleVirtual, nil
	partitioned := site.Node{Storage: site.Storage{Disks: map[string]site.Disk{"root": {Table: "gpt"}}, BootDisk: "root", Erase: "secure"}}
	byAgent := partitioned
	byAgent.References.ByAgent, byAgent.Generation = true, 1
	byAgent.Storage.Controllers = map[string]site.RAIDController{"raid": {}}
	notInstalled := byAgent
	notInstalled.Generation = 0
	overSSH := map[site.EndpointKind]site.Endpoint{site.OS: {URL: "ssh://192.0.2.1"}}
	node.Endpoints, virtual.Endpoints = overSSH, overSSH
	unreached := site.Node{Drift: map[site.Facet]string{site.FacetConfig: "report"}, System: node.System, Families: node.Families, Firmware: node.Firmware}
	delivered := site.Node{Endpoints: overSSH, System: site.System{
		Files: map[string]site.File{"/opt/tool": {Artifact: "tool"}}, Users: map[string]site.User{"ops": {Password: "ops"}},
	}}
	for name, c := range map[string]struct {
		n    site.Node
		acts []site.Facet
		want []string
	}{
		"no driver": {node, nil, []string{"families.debian.packages", "firmware", "interfaces", "kernel.package", "kernel.parameters",
			"system.files", "system.logs", "system.packages", "system.time.zone", "system.users"}},
		"one for packages and configuration": {node, []site.Facet{site.FacetPackages, site.FacetConfig}, []string{"firmware", "interfaces",
			"kernel.package", "kernel.parameters", "system.logs", "system.time.zone", "system.users"}},
		"a virtual machine": {virtual, nil, []string{"families.debian.packages", "kernel.package", "kernel.parameters",
			"system.files", "system.logs", "system.packages"}},
		"how disks are to be parted":           {partitioned, nil, []string{"storage.bootDisk", "storage.disks", "storage.erase"}},
		"disks that no installation lays out":  {partitioned, []site.Facet{site.FacetStorage}, []string{"storage.bootDisk", "storage.disks", "storage.erase"}},
		"disks that the agent lays out":        {byAgent, []site.Facet{site.FacetStorage}, []string{"storage.controllers"}},
		"an agent that nobody listens to":      {byAgent, nil, []string{"storage.bootDisk", "storage.controllers", "storage.disks", "storage.erase"}},
		"an image that is not to be installed": {notInstalled, []site.Facet{site.FacetStorage}, []string{"storage.bootDisk", "storage.controllers", "storage.disks", "storage.erase"}},
		"drift that nobody looks for": {site.Node{Drift: map[site.Facet]string{site.FacetBIOS: "repair", site.FacetPower: "propose", site.FacetNetwork: "propose", site.FacetConfig: "report"}, Endpoints: overSSH},
			[]site.Facet{site.FacetBIOS, site.FacetPower, site.FacetNetwork}, []string{"drift.config", "drift.network"}},
		"what takes more than the design": {delivered, site.InsideFacets, nil},
		"a system that no endpoint leads to": {unreached, append([]site.Facet{site.FacetFirmware}, site.InsideFacets...), []string{"drift.config", "families.debian.packages",
			"system.files", "system.logs", "system.packages", "system.time.zone", "system.users"}},
		"nothing asked": {site.Node{Name: "n1", Power: "on"}, nil, nil},
	} {
		acts := map[site.Facet]bool{}
		for _, f := range c.acts {
			acts[f] = true
		}
		if got := c.n.NotActedOn(acts); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// So is what it asks outside its nodes, until one of the drivers that could acts on
// it.
func TestWhatOfTheSiteIsNotActedOn(t *testing.T) {
	s := &site.Site{
		Artifacts:   map[string]*site.Artifact{"fw": {}},
		BootActions: map[string]*site.BootAction{"tune": {}},
		Drivers:     map[string]*site.Driver{"ice": {}},
		Racks:       map[string]*site.Rack{"r1": {Switches: map[string]site.Switch{"tor": {}}}, "r2": {}},
	}
	for _, c := range []struct {
		s    *site.Site
		acts []site.Facet
		want []string
	}{
		{s, nil, []string{"artifacts", "bootActions", "drivers", "racks.switches"}},
		{s, []site.Facet{site.FacetConfig, site.FacetPackages}, []string{"artifacts", "bootActions", "racks.switches"}},
		{s, []site.Facet{site.FacetFirmware}, []string{"bootActions", "drivers", "racks.switches"}},
		{&site.Site{Racks: map[string]*site.Rack{"r2": {}}}, nil, nil},
		{&site.Site{Artifacts: map[string]*site.Artifact{"tool": {}}, Nodes: map[string]*site.Node{
			"n1": {References: site.References{Artifacts: map[string]site.Artifact{"tool": {}}}}}}, nil, nil},
	} {
		acts := map[site.Facet]bool{}
		for _, f := range c.acts {
			acts[f] = true
		}
		if got := c.s.NotActedOn(acts); !slices.Equal(got, c.want) {
			t.Errorf("with %v: got %q, want %q", c.acts, got, c.want)
		}
	}
}

// A design asks for a facet of many parts when it asks for one of them.
func TestFacetIsAskedForByItsParts(t *testing.T) {
	for f, kind := range site.Facets {
		if n := (&site.Node{}); n.Asks(f) {
			t.Errorf("%s: an empty design asks for it", f)
		}
		if kind.Endpoint == "" {
			t.Errorf("%s: no endpoint serves it", f)
		}
	}
	n := &site.Node{Kernel: site.Kernel{Package: "linux-image-rt"}}
	if !n.Asks(site.FacetKernel) || n.Asks(site.FacetConfig) || n.Want(site.FacetKernel) == nil {
		t.Errorf("a kernel's package: kernel %t, config %t", n.Asks(site.FacetKernel), n.Asks(site.FacetConfig))
	}
}

// What most nodes have is said once, and not once for each kind of node.
func TestPartsOfTheSameNodesAreSaidTogether(t *testing.T) {
	var got []string
	for _, u := range site.GroupUnacted([]site.Unacted{
		{Paths: []string{"bootActions"}},
		{Paths: []string{"bonds", "kernel.parameters", "vlans"}, Nodes: []string{"c1"}},
		{Nodes: []string{"c2"}},
		{Paths: []string{"bonds", "vlans"}, Nodes: []string{"m1"}},
		{Paths: []string{"bonds", "storage.arrays", "vlans"}, Nodes: []string{"s1"}},
	}) {
		got = append(got, u.String())
	}
	if want := []string{"bootActions (the site)", "bonds, vlans (c1, m1, s1)", "kernel.parameters (c1)", "storage.arrays (s1)"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// docs/systems.md has a column for each facet of an installed system, and says of each
// system how it was tried.
func TestTheTableOfSystemsHasAllFacets(t *testing.T) {
	text, err := os.ReadFile("../../docs/systems.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n| system |")
	table, _, _ = strings.Cut(table, "\n\n")
	header, rows, _ := strings.Cut(table, "\n")
	cells := func(row string) (all []string) {
		for cell := range strings.SplitSeq(strings.Trim(row, "| "), "|") {
			all = append(all, strings.Trim(cell, " `"))
		}
		return all
	}
	var want []string
	for f, kind := range site.Facets {
		if kind.Endpoint == site.OS {
			want = append(want, string(f))
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(slices.Values(cells(header))); !found || !slices.Equal(got, want) {
		t.Errorf("the table has the facets %v, and a system has %v", got, want)
	}
	_, rows, _ = strings.Cut(rows, "\n") // the line below the header
	systems := 0
	for row := range strings.Lines(rows) {
		all := cells(strings.TrimSpace(row))
		if systems++; len(all) != len(want)+1 {
			t.Errorf("%s: %d facets of %d", all[0], len(all)-1, len(want))
		}
		for _, how := range all[1:] {
			if !slices.Contains([]string{"real", "parts", "files", "-"}, how) {
				t.Errorf("%s: %q is none of the words that the page explains", all[0], how)
			}
		}
	}
	if systems < 2 {
		t.Errorf("%d systems", systems)
	}
}

// What a design has for a family of systems alone is asked of the nodes whose image is of that
// family, as long as no system was seen.
func TestFamilyOfTheImage(t *testing.T) {
	n := &site.Node{Image: "os", Families: map[string]site.System{
		"debian": {Packages: map[string]site.Package{"chrony": {}}}, "rhel": {Packages: map[string]site.Package{"ntp": {}}},
	}}
	for family, want := range map[string]string{"debian": "packages.chrony", "rhel": "packages.ntp"} {
		s := &site.Site{Images: map[string]*site.Image{"os": {Family: family}}}
		n.References = s.ReferencesOf(n)
		if got := n.Items(site.FacetPackages); len(got) != 1 || got[0].Key != want {
			t.Errorf("%s: got %v, want %s", family, got, want)
		}
	}
}
