package discovery_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/discovery"
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
			"addresses.bmc": site.At("rack-1.cue", 12, 7, "node/n1"), "endpoints.manager.url": site.At("profiles.cue", 3, 1, "profile/base"),
		})},
		"n2": {Identity: site.Identity{Serial: "SN2"}, Interfaces: map[string]site.Interface{"eno1": {MAC: "52:54:00:00:00:02"}}, Addresses: map[string]string{"bmc": "10.9.0.2"},
			Origins: site.OriginsByPath(map[string]site.Origin{"endpoints.manager.url": site.At("rack-1.cue", 20, 3, "node/n2")})},
		"n3": {Addresses: map[string]string{"bmc": "10.9.0.3"}, Place: site.At("rack-1.cue", 30, 1, "node/n3")},
	} {
		n.Name = name
		n.Endpoints = map[site.EndpointKind]site.Endpoint{site.Manager: {URL: "redfish+https://" + n.Addresses["bmc"] + "/redfish/v1/Systems/1"}}
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
			say: "in the opposite order"},
		"by MAC":         {met: met("10.9.0.77", site.Identity{}, "52:54:00:00:00:02"), kind: site.StandingMoved, node: "n2", by: "MAC address", place: "rack-1.cue:20:3", want: `"redfish+https://10.9.0.77/redfish/v1/Systems/1"`, have: `"redfish+https://10.9.0.2/redfish/v1/Systems/1"`},
		"unknown":        {met: met("10.9.0.77", id(uuid2, "SN9")), kind: site.StandingUnknown, say: "this machine is not a node of the design"},
		"placeholder":    {met: met("10.9.0.77", id("00000000-0000-0000-0000-000000000000", "To be filled by O.E.M.")), kind: site.StandingUnknown},
		"another one":    {met: met("10.9.0.2", id(uuid2, "SN9")), kind: site.StandingOther, node: "n2", by: "address", say: "the design has n2 here, which is serial SN2; this is UUID " + uuid2},
		"a new board":    {met: met("10.9.0.1", id(uuid2, "SN1")), kind: site.StandingDoubt, node: "n1", by: "serial number", say: `write moved: {uuid: "` + uuid2 + `", serial: "SN1"}`},
		"two at once":    {met: met("10.9.0.1", id(uuid1, "SN2")), kind: site.StandingDoubt, say: "its UUID belongs to n1, its serial number belongs to n2"},
		"without a name": {met: met("10.9.0.3", id(uuid2, "SN9")), kind: site.StandingKnown, node: "n3", by: "address", place: "rack-1.cue:30:1", want: `identity: {uuid: "` + uuid2 + `", serial: "SN9"}`, say: "names no machine for n3"},
		"not read": {met: site.Met{Address: "10.9.0.3", Endpoint: site.Endpoint{URL: "redfish+https://10.9.0.3"}, Why: "denied"}, kind: site.StandingUnread,
			node: "n3", by: "address"},
	} {
		t.Run(name, func(t *testing.T) {
			all := []site.Met{c.met}
			discovery.Recognize(registered(), nil, all)
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
	discovery.Recognize(registered(), nil, all)
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
	discovery.Recognize(registered(), map[string]site.Memory{"n3": {Recorded: site.Recorded{Adopted: &site.Adoption{Machine: site.Identity{UUID: uuid2}}}}}, all)
	if s := all[0].Standing; s.Kind != site.StandingMoved || s.Node != "n3" {
		t.Errorf("%+v", s)
	}
}

// enclosed is a machine behind a controller that others are behind too.
func enclosed(slot, mac string) site.Met {
	m := met("10.9.0.50", site.Identity{Serial: "ENC1", Slot: slot, MAC: mac}, mac)
	m.Endpoint.URL = "redfish+https://10.9.0.50/redfish/v1/Systems/" + slot
	return m
}

// Nodes of an enclosure that share a serial number are known by what stands
// beside it, and by none of another's.
func TestRecognizeInAnEnclosure(t *testing.T) {
	const mac1, mac2, mac3 = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03"
	s := registered()
	for name, id := range map[string]site.Identity{"e1": {Serial: "ENC1", Slot: "Node1"}, "e2": {Serial: "ENC1", MAC: mac2}} {
		s.Nodes[name] = &site.Node{Name: name, Identity: id, Endpoints: map[site.EndpointKind]site.Endpoint{
			site.Manager: {URL: "redfish+https://10.9.0.50/redfish/v1/Systems/Node" + name[1:]},
		}}
	}
	all := []site.Met{enclosed("Node1", mac1), enclosed("Node2", mac2), enclosed("Node3", mac3), enclosed("Node4", mac1)}
	discovery.Recognize(s, nil, all)
	for i, want := range []struct {
		kind site.StandingKind
		node string
	}{{site.StandingKnown, "e1"}, {site.StandingKnown, "e2"}, {site.StandingUnknown, ""}, {site.StandingUnknown, ""}} {
		if got := all[i].Standing; got.Kind != want.kind || got.Node != want.node {
			t.Errorf("%s is %+v, want %s %s", all[i].Observed.Identity.Full(), got, want.kind, want.node)
		}
	}
	// Whoever adds the third is given what tells it from the others; the fourth
	// lists a port of the first, so its slot has to do.
	for i, says := range map[int]string{2: "mac:    \"" + mac3 + `"`, 3: `slot:   "Node4"`} {
		if cue := all[i].Standing.CUE; !strings.Contains(cue, says) || !strings.Contains(cue, `serial: "ENC1"`) {
			t.Errorf("the lines are\n%s\nwant %s among them", cue, says)
		}
	}
	moved := []site.Met{enclosed("Node1", mac2)}
	discovery.Recognize(s, nil, moved)
	if got := moved[0].Standing; got.Kind != site.StandingDoubt || !strings.Contains(got.Text, "its serial number belongs to e1") || !strings.Contains(got.Text, "e2") {
		t.Errorf("a machine in the slot of another is %+v", got)
	}
}

// The least identity tells each machine from every other.
func TestDistinct(t *testing.T) {
	at := func(ids ...site.Identity) (all []site.Met) {
		for i, id := range ids {
			all = append(all, met("10.9.0."+string(rune('1'+i)), id))
		}
		return all
	}
	for name, c := range map[string]struct{ met, want []site.Identity }{
		"own numbers": {[]site.Identity{{UUID: uuid1, Serial: "A", Slot: "1", MAC: "m1"}, {UUID: uuid2, Serial: "B", Slot: "1", MAC: "m2"}},
			[]site.Identity{{UUID: uuid1, Serial: "A"}, {UUID: uuid2, Serial: "B"}}},
		"one serial, own UUIDs": {[]site.Identity{{UUID: uuid1, Serial: "A", Slot: "1"}, {UUID: uuid2, Serial: "A", Slot: "2"}},
			[]site.Identity{{UUID: uuid1}, {UUID: uuid2}}},
		"one serial, ports": {[]site.Identity{{Serial: "A", Slot: "1", MAC: "m1"}, {Serial: "A", Slot: "2", MAC: "m2"}},
			[]site.Identity{{Serial: "A", MAC: "m1"}, {Serial: "A", MAC: "m2"}}},
		"one serial, slots": {[]site.Identity{{Serial: "A", Slot: "1"}, {Serial: "A", Slot: "2"}},
			[]site.Identity{{Serial: "A", Slot: "1"}, {Serial: "A", Slot: "2"}}},
		"one serial, one slot": {[]site.Identity{{Serial: "A", Slot: "1"}, {Serial: "A", Slot: "1"}}, []site.Identity{{}, {}}},
		"one serial, one port": {[]site.Identity{{Serial: "A", Slot: "1", MAC: "m"}, {Serial: "A", Slot: "2", MAC: "m"}},
			[]site.Identity{{Serial: "A", Slot: "1"}, {Serial: "A", Slot: "2"}}},
		"one UUID, own serials": {[]site.Identity{{UUID: uuid1, Serial: "A"}, {UUID: turned1, Serial: "B"}}, []site.Identity{{Serial: "A"}, {Serial: "B"}}},
		"one UUID, ports":       {[]site.Identity{{UUID: uuid1, MAC: "m1"}, {UUID: uuid1, MAC: "m2"}}, []site.Identity{{MAC: "m1"}, {MAC: "m2"}}},
		"nothing but slots":     {[]site.Identity{{Slot: "1"}, {Slot: "2"}}, []site.Identity{{}, {}}},
		"placeholders":          {[]site.Identity{{Serial: "0123456789", Slot: "1"}, {Serial: "0123456789", Slot: "2"}}, []site.Identity{{}, {}}},
	} {
		t.Run(name, func(t *testing.T) {
			met := at(c.met...)
			got, notes := discovery.Distinct(met)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			for i, id := range got {
				for k, other := range met {
					if i != k && id.Known() && id.Matches(other.Observed.Identity) {
						t.Errorf("%s is the identity of another, too", id.Full())
					}
				}
			}
			if shared := strings.Contains(name, "one "); shared != (len(notes) > 0) {
				t.Errorf("the notes are %q", notes)
			}
		})
	}
}
