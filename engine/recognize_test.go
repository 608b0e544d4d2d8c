package engine_test

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/site"
)

const (
	uuid1   = "4c4c4544-0051-4810-8057-b4c04f4a4e33"
	turned1 = "44454c4c-5100-1048-8057-b4c04f4a4e33"
	uuid2   = "4c4c4544-0051-4810-8057-b4c04f4a4e44"
)

// registered is a site of three nodes: n1 by UUID and serial number, n2 by
// serial number, n3 by nothing.
func registered() *site.Site {
	s := &site.Site{Nodes: map[string]*site.Node{}}
	for name, n := range map[string]*site.Node{
		"n1": {Identity: site.Identity{UUID: uuid1, Serial: "SN1"}, Addresses: map[string]string{"bmc": "10.9.0.1"}, Origins: site.OriginsByPath(map[string]site.Origin{
			"addresses.bmc": site.At("rack-1.cue", 12, 7, "node/n1"), "endpoints.bmc.url": site.At("profiles.cue", 3, 1, "profile/base"),
		})},
		"n2": {Identity: site.Identity{Serial: "SN2"}, Interfaces: map[string]site.Interface{"eno1": {MAC: "52:54:00:00:00:02"}}, Addresses: map[string]string{"bmc": "10.9.0.2"},
			Origins: site.OriginsByPath(map[string]site.Origin{"endpoints.bmc.url": site.At("rack-1.cue", 20, 3, "node/n2")})},
		"n3": {Addresses: map[string]string{"bmc": "10.9.0.3"}, Place: site.At("rack-1.cue", 30, 1, "node/n3")},
	} {
		n.Name = name
		n.Endpoints = map[site.EndpointKind]site.Endpoint{site.BMC: {URL: "redfish+https://" + n.Addresses["bmc"] + "/redfish/v1/Systems/1"}}
		s.Nodes[name] = n
	}
	return s
}

func met(address string, id site.Identity, macs ...string) site.Met {
	return site.Met{Address: address, Endpoint: site.Endpoint{URL: "redfish+https://" + address + "/redfish/v1/Systems/1"},
		Observed: site.Observed{Identity: id, Inventory: &site.Inventory{Manufacturer: "Lab", Model: "L 1", NICs: []site.NIC{{Ports: []site.Port{{MACs: macs}}}}}}}
}

func TestRecognize(t *testing.T) {
	id := func(uuid, serial string) site.Identity { return site.Identity{UUID: uuid, Serial: serial} }
	for name, c := range map[string]struct {
		met        site.Met
		kind       site.StandingKind
		node, by   string
		place, say string
		have, want string
	}{
		"where it is": {met: met("10.9.0.1", id(uuid1, "SN1")), kind: site.StandingKnown, node: "n1", by: "UUID"},
		"moved": {met: met("10.9.0.77", id(uuid1, "SN1")), kind: site.StandingMoved, node: "n1", by: "UUID",
			place: "rack-1.cue:12:7", have: `"10.9.0.1"`, want: `"10.9.0.77"`, say: "the machine of n1 has moved from 10.9.0.1 to 10.9.0.77"},
		"moved, with a URL": {met: met("10.9.0.77", id(uuid2, "SN2")), kind: site.StandingMoved, node: "n2", by: "serial number",
			place: "rack-1.cue:20:3", have: `"redfish+https://10.9.0.2/redfish/v1/Systems/1"`, want: `"redfish+https://10.9.0.77/redfish/v1/Systems/1"`},
		"turned": {met: met("10.9.0.1", id(turned1, "SN1")), kind: site.StandingKnown, node: "n1", by: "UUID", want: `"` + turned1 + `"`, have: `"` + uuid1 + `"`,
			say: "in the other order"},
		"by MAC":         {met: met("10.9.0.77", site.Identity{}, "52:54:00:00:00:02"), kind: site.StandingMoved, node: "n2", by: "MAC address", place: "rack-1.cue:20:3", want: `"redfish+https://10.9.0.77/redfish/v1/Systems/1"`, have: `"redfish+https://10.9.0.2/redfish/v1/Systems/1"`},
		"unknown":        {met: met("10.9.0.77", id(uuid2, "SN9")), kind: site.StandingUnknown, say: "no node of the design is this machine"},
		"placeholder":    {met: met("10.9.0.77", id("00000000-0000-0000-0000-000000000000", "To be filled by O.E.M.")), kind: site.StandingUnknown},
		"another one":    {met: met("10.9.0.2", id(uuid2, "SN9")), kind: site.StandingOther, node: "n2", by: "address", say: "the design has n2 here, which is serial SN2; this is UUID " + uuid2},
		"a new board":    {met: met("10.9.0.1", id(uuid2, "SN1")), kind: site.StandingDoubt, node: "n1", by: "serial number", say: `write moved: {uuid: "` + uuid2 + `", serial: "SN1"}`},
		"two at once":    {met: met("10.9.0.1", id(uuid1, "SN2")), kind: site.StandingDoubt, say: "its UUID is that of n1, its serial number is that of n2"},
		"without a name": {met: met("10.9.0.3", id(uuid2, "SN9")), kind: site.StandingKnown, node: "n3", by: "address", place: "rack-1.cue:30:1", want: `identity: {uuid: "` + uuid2 + `", serial: "SN9"}`, say: "names no machine for n3"},
		"not read": {met: site.Met{Address: "10.9.0.3", Endpoint: site.Endpoint{URL: "redfish+https://10.9.0.3"}, Why: "denied"}, kind: site.StandingUnread,
			node: "n3", by: "address"},
	} {
		t.Run(name, func(t *testing.T) {
			all := []site.Met{c.met}
			engine.Recognize(registered(), nil, all)
			got := all[0].Standing
			if got.Kind != c.kind || got.Node != c.node || got.By != c.by || got.Place.String() != c.place && c.place != "" || !strings.Contains(got.Text, c.say) || got.Have != c.have || got.Want != c.want {
				t.Errorf("%+v, at %s", got, got.Place)
			}
			if (got.CUE != "") != (got.Kind == site.StandingUnknown || got.Kind == site.StandingOther) {
				t.Errorf("CUE %q", got.CUE)
			}
		})
	}
}

// Two machines that say they are the same one are neither: nothing is proposed.
func TestTwoMachinesOfOneIdentity(t *testing.T) {
	all := []site.Met{met("10.9.0.1", site.Identity{UUID: uuid1, Serial: "SN1"}), met("10.9.0.77", site.Identity{UUID: turned1, Serial: "SN1"})}
	engine.Recognize(registered(), nil, all)
	for _, m := range all {
		if s := m.Standing; s.Kind != site.StandingDoubt || s.Node != "n1" || s.Want != "" || !strings.Contains(s.Text, "10.9.0.1 and 10.9.0.77") {
			t.Errorf("%+v", s)
		}
	}
}

// A node that the design names no machine for is known by the one that it was
// bound to.
func TestRecognizeByTheRecord(t *testing.T) {
	all := []site.Met{met("10.9.0.77", site.Identity{UUID: uuid2, Serial: "SN9"})}
	engine.Recognize(registered(), map[string]site.Memory{"n3": {Recorded: site.Recorded{Adopted: &site.Adoption{Machine: site.Identity{UUID: uuid2}}}}}, all)
	if s := all[0].Standing; s.Kind != site.StandingMoved || s.Node != "n3" {
		t.Errorf("%+v", s)
	}
}
