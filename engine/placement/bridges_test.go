package placement_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/placement"
	"github.com/slipway-gitops/slipway/engine/site"
)

// bridged is a site with a hypervisor in each of two racks, whose nodes have a bridge
// br0 that carries the rack's own network.
func bridged() lab {
	l := newLab()
	l.Networks = map[string]*site.Network{"rack-1": {CIDR: "10.1.0.0/24"}, "rack-2": {CIDR: "10.2.0.0/24"}, "data": {CIDR: "10.20.0.0/24", VLAN: 20},
		"self": {CIDR: "10.9.9.9/32"}}
	l.Links = map[string]*site.Link{"uplink": {Networks: []string{"rack-1", "data"}, Trunk: true, Native: "rack-1"}}
	for i, rack := range []string{"1", "2"} {
		l.hypervisor("hv-"+rack, 0).Node = "metal-" + rack
		n := &site.Node{Name: "metal-" + rack, Rack: "r" + rack, Bridges: map[string]site.Bridge{"br0": {Networks: []string{"rack-" + rack}}}}
		if i == 0 {
			n.Interfaces = map[string]site.Interface{"eno1": {Link: "uplink"}}
			n.Bridges["br0"] = site.Bridge{Members: []string{"eno1"}}
		}
		n.Hardware.Memory = 64 * gib
		l.Nodes[n.Name] = n
	}
	return l
}

// guest adds a machine with one interface, in a network.
func (l lab) guest(name, bridge, network string) *site.Node {
	n := l.machine(name, "web", gib)
	n.Virtual.Interfaces = map[string]site.VirtualInterface{"eth0": {Bridge: bridge}}
	n.Interfaces = map[string]site.Interface{"eth0": {Networks: []string{network}}}
	return n
}

// A machine is placed where the bridge that it names carries its networks.
func TestAMachineIsPlacedWhereItsNetworkIs(t *testing.T) {
	l := bridged()
	l.guest("vm-1", "br0", "rack-2")
	l.guest("vm-2", "br0", "rack-1")
	l.guest("vm-3", "br0", "self")
	tagged := l.guest("vm-4", "br0", "rack-1")
	tagged.VLANs = map[string]site.VLAN{"eth0.20": {Parent: "eth0", Network: "data"}}
	plain := l.machine("vm-5", "web", gib) // its one interface has its addresses
	plain.Virtual.Interfaces = map[string]site.VirtualInterface{"eth0": {Bridge: "br0"}}
	plain.Addresses = map[string]string{"rack-2": "10.2.0.15"}
	on := places(placed(t, l, nil))
	for name, want := range map[string]string{"vm-1": "hv-2", "vm-2": "hv-1", "vm-4": "hv-1", "vm-5": "hv-2"} {
		if on[name] != want {
			t.Errorf("%s is on %s; its network is on %s", name, on[name], want)
		}
	}
}

// What a hypervisor's node is known not to have is told with the names of both.
func TestWhatAHypervisorsNodeLacksIsTold(t *testing.T) {
	tests := map[string]struct {
		change func(lab)
		want   string
	}{
		"no such bridge": {func(l lab) { l.guest("vm-1", "br9", "rack-1").Virtual.Hypervisor = "hv-1" },
			"hypervisor hv-1, which virtual.hypervisor asks for, does not take it: eth0 is plugged into the bridge br9, and the node metal-1 of hv-1 has only br0"},
		"another network": {func(l lab) { l.guest("vm-1", "br0", "data").Virtual.Hypervisor = "hv-1" },
			"eth0 is in the network data, and the bridge br0 of the node metal-1 of hv-1 carries only rack-1, data with a tag"},
		"the network of another rack": {func(l lab) { l.guest("vm-1", "br0", "rack-1").Virtual.Hypervisor = "hv-2" },
			"eth0 is in the network rack-1, and the bridge br0 of the node metal-2 of hv-2 carries only rack-2"},
		"nowhere": {func(l lab) { l.guest("vm-1", "br0", "data") },
			"no hypervisor takes it: eth0 is in the network data"},
		"more memory than the machine has": {func(l lab) { l.machine("vm-1", "web", 900*gib) },
			"it needs 900GiB of memory, and the most that is free is 64GiB, on hv-1 (its node metal-1 has 64GiB)"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := bridged()
			test.change(l)
			_, found := placement.Place(l.Site, nil)
			if len(found) != 1 || !strings.Contains(text(found), test.want) {
				t.Errorf("found\n%s\nwant one with\n%s", text(found), test.want)
			}
		})
	}
}

// A machine that is placed already stays, and what does not suit it is told.
func TestAPlacedMachinesBridgeIsTold(t *testing.T) {
	l := bridged()
	n := l.guest("vm-1", "br0", "rack-1")
	there := map[string]site.Placed{"vm-1": {Role: "web", Virtual: n.Virtual}}
	x := there["vm-1"]
	x.Virtual.Host.Hypervisor = "hv-2"
	there["vm-1"] = x
	s, found := placement.Place(l.Site, there)
	if places(s)["vm-1"] != "hv-2" || len(found) != 1 || found[0].Code != "bridge-unfit" {
		t.Errorf("vm-1 is on %s; found\n%s", places(s)["vm-1"], text(found))
	}
}

// A bridge of which the design says too little takes machines, and is told with what is missing.
func TestUnknownBridgesTakeMachines(t *testing.T) {
	const says = "the design does not say which networks the bridge br0 carries, because "
	for name, c := range map[string]struct {
		change func(l lab)
		want   string // of the note; empty for none
	}{
		"no node":          {func(l lab) { l.Hypervisors["hv-1"].Node = "" }, ""},
		"no bridges":       {func(l lab) { l.Nodes["metal-1"].Bridges = nil }, ""},
		"an internal one":  {func(l lab) { l.Nodes["metal-1"].Bridges["br0"] = site.Bridge{} }, says + "it has neither members nor networks; these machines are plugged into it: vm-1 (eth0 in rack-2)"},
		"a member unknown": {func(l lab) { l.Nodes["metal-1"].Bridges["br0"] = site.Bridge{Members: []string{"veth9"}} }, says + "its member veth9 is not in the design; "},
		"no link": {func(l lab) {
			l.Nodes["metal-1"].Interfaces["eno1"] = site.Interface{}
			for i := range 4 {
				l.guest(fmt.Sprintf("vm-%d", i+2), "br0", "data")
			}
		}, says + "its member eno1 has no link; these machines are plugged into it: vm-1 (eth0 in rack-2), vm-2 (eth0 in data), vm-3 (eth0 in data) and 2 more"},
		"a bond without a link": {func(l lab) {
			n := l.Nodes["metal-1"]
			n.Bonds, n.Bridges["br0"] = map[string]site.Bond{"bond0": {Members: []string{"eno1"}}}, site.Bridge{Members: []string{"bond0"}}
		}, says + "its member bond0 has no link; "},
		"no link, and it has the network": {func(l lab) {
			l.Nodes["metal-1"].Interfaces["eno1"] = site.Interface{Networks: []string{"rack-2"}}
		}, ""},
		"another of a site": {func(l lab) {
			n := l.Nodes["metal-1"]
			n.Bridges["br1"], n.Bridges["br0"] = site.Bridge{Networks: []string{"rack-1"}}, site.Bridge{Networks: []string{"rack-2"}}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := bridged()
			delete(l.Hypervisors, "hv-2")
			l.guest("vm-1", "br0", "rack-2")
			c.change(l)
			s, found := placement.Place(l.Site, nil)
			if places(s)["vm-1"] != "hv-1" {
				t.Errorf("vm-1 is on %q", places(s)["vm-1"])
			}
			switch {
			case c.want == "" && len(found) == 0:
			case c.want == "" || len(found) != 1 || found[0].Severity != site.SeverityNote || found[0].Node != "metal-1" || found[0].Path != "bridges.br0" || !strings.HasPrefix(found[0].Message, c.want):
				t.Errorf("found\n%s\nwant one with %q", text(found), c.want)
			}
		})
	}
}
