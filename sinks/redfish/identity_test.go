package redfish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

const turned = "44454c4c-4200-104b-8051-c4c04f565831" // uuid, its first three groups the other way round

func TestQuirkUUIDByteOrder(t *testing.T) {
	b := newBMC(t)
	for _, designed := range []string{uuid, turned, strings.ToUpper(turned)} {
		want := site.Identity{UUID: designed}
		seen, err := look(open(t, b.endpoint()), &site.Node{Identity: want})
		if err != nil || !want.Matches(seen.Identity) {
			t.Errorf("%s: got %v, %v", designed, seen.Identity, err)
		}
		if got := open(t, b.endpoint()).identity(system{object{"UUID": []byte(`"` + uuid + `"`)}}, want); !want.Matches(got) {
			t.Errorf("%v does not match %v", got, want)
		}
	}
	upper := site.Identity{UUID: strings.ToUpper(uuid)}
	if got := open(t, b.endpoint()).identity(system{object{"UUID": []byte(`"` + uuid + `"`)}}, upper); got != upper {
		t.Errorf("got %v, want it as it is designed: %v", got, upper)
	}
	placeholder := site.Identity{UUID: "00000000-0000-0000-0000-000000000000"}
	if got := open(t, b.endpoint()).identity(system{object{}}, placeholder); got.UUID != "" {
		t.Errorf("a machine without a UUID has %v", got)
	}
	seen, _ := look(open(t, b.endpoint()), &site.Node{Identity: site.Identity{UUID: "3d1c0000-0000-4000-8000-000000000001"}})
	if seen.Identity.UUID != uuid {
		t.Errorf("another machine's UUID was given: %v", seen.Identity)
	}
}

func TestQuirkServiceTagIsSKU(t *testing.T) {
	const dell = `{"Manufacturer":"Dell Inc.","SerialNumber":"CNBOARD1","SKU":"TAG1234","PowerState":"On"}`
	const hpe = `{"Manufacturer":"HPE","SerialNumber":"CNBOARD1","SKU":"P408-B21","PowerState":"On"}`
	for _, c := range []struct{ body, designed, want string }{
		{strings.Replace(dell, "TAG1234", "", 1), "", "CNBOARD1"},
		{dell, "", "TAG1234"}, {dell, "TAG1234", "TAG1234"}, {dell, "CNBOARD1", "CNBOARD1"}, {dell, "other", "TAG1234"},
		{hpe, "", "CNBOARD1"}, {hpe, "P408-B21", "CNBOARD1"}, // which all machines of the model have
	} {
		b := newBMC(t)
		b.answer("GET /redfish/v1/Systems/1", text(c.body))
		seen, err := look(open(t, b.endpoint()), &site.Node{Identity: site.Identity{Serial: c.designed}})
		if err != nil || seen.Identity.Serial != c.want {
			t.Errorf("designed %q: got %q, want %q (%v)", c.designed, seen.Identity.Serial, c.want, err)
		}
	}
}

// What many machines have in common tells none of them.
func TestQuirkIdentityThatWasNeverSet(t *testing.T) {
	for _, body := range []string{
		`{"UUID":"00000000-0000-0000-0000-000000000000","SerialNumber":"To Be Filled By O.E.M."}`,
		`{"UUID":"FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF","SerialNumber":"0123456789"}`,
		`{"UUID":"N/A","SerialNumber":"0000000"}`, `{"UUID":17,"SerialNumber":" "}`,
	} {
		b := newBMC(t)
		b.answer("GET /redfish/v1/Systems/1", text(body))
		if seen, err := look(open(t, b.endpoint()), nil); err != nil || seen.Identity.Known() {
			t.Errorf("%s: got %v, %v", body, seen.Identity, err)
		}
	}
}

func TestQuirkSeveralSystems(t *testing.T) {
	b := newBMC(t)
	e := b.endpoint()
	e.URL = strings.TrimSuffix(e.URL, "/Systems/1")
	b.answer("GET /redfish/v1/Systems", text(`{"Members":[{"@odata.id":"/s/HGX_Baseboard_0"},{"@odata.id":"/s/off"},{"@odata.id":"/redfish/v1/Systems/1"}]}`))
	b.answer("GET /s/HGX_Baseboard_0", text(`{"UUID":"3d1c0000-0000-4000-8000-000000000001","SerialNumber":"S2"}`))
	b.answer("GET /s/off", status(500, ""))
	for name, c := range map[string]struct {
		want site.Identity
		is   error
	}{
		"by UUID":            {site.Identity{UUID: uuid}, nil},
		"by swapped UUID":    {site.Identity{UUID: turned}, nil},
		"by serial":          {site.Identity{Serial: "S1"}, nil},
		"none with both":     {site.Identity{UUID: uuid, Serial: "S2"}, driver.ErrBusy}, // the one that cannot be read may be it
		"nothing to tell by": {site.Identity{}, driver.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			seen, err := look(open(t, e), &site.Node{Identity: c.want})
			if !errors.Is(err, c.is) || c.is == nil && (err != nil || seen.Facets[site.FacetPower].Have["state"] != "on") {
				t.Errorf("got %v, %v", seen, err)
			}
		})
	}
	b.answer("GET /s/off", text(healthySystem))
	if _, err := look(open(t, e), &site.Node{Identity: site.Identity{UUID: uuid}}); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "several are meant") {
		t.Errorf("two systems of one identity: got %v", err)
	}
}

// A handle whose node's name moves to another machine of the same BMC follows.
func TestSystemIsLookedUpAgainForAnotherMachine(t *testing.T) {
	b := newBMC(t)
	e := b.endpoint()
	e.URL = strings.TrimSuffix(e.URL, "/Systems/1")
	other := site.Identity{UUID: "3d1c0000-0000-4000-8000-000000000001"}
	b.answer("GET /redfish/v1/Systems", text(`{"Members":[{"@odata.id":"/s/2"},{"@odata.id":"/redfish/v1/Systems/1"}]}`))
	b.answer("GET /s/2", text(`{"UUID":"`+other.UUID+`","PowerState":"Off","Actions":{"#ComputerSystem.Reset":{"target":"/s/2/Reset"}}}`))
	m := open(t, e)
	for _, want := range []site.Identity{{UUID: uuid}, other, {UUID: uuid}} {
		// What the one before has been sent, and where it has what, is not this one's.
		m.slot, m.memory.sent = "/vm/1", site.Values{"LogicalProc": "Disabled"}
		if seen, err := look(m, &site.Node{Identity: want}); err != nil || seen.Identity.UUID != want.UUID {
			t.Errorf("got %v, want %v (%v)", seen.Identity, want, err)
		}
		if m.slot != "" || m.memory.sent != nil {
			t.Errorf("of the machine before there are %q and %v", m.slot, m.memory.sent)
		}
	}
}

// sled is a node of an enclosure as its BMC shows it.
func sled(id, serial, uuid string) string {
	return fmt.Sprintf(`{"Id":%q,"SerialNumber":%q,"UUID":%q,"PowerState":"On","EthernetInterfaces":{"@odata.id":"/nics/%[1]s"},`+
		`"Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/%[1]s/Reset"}}}`, id, serial, uuid)
}

// sledsOf is a BMC with several nodes of one serial number. What each answers is
// given by its name; one without an answer is not there.
func sledsOf(t *testing.T, nodes map[string]string) *bmc {
	t.Helper()
	b := newBMC(t)
	var members []string
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		path := "/redfish/v1/Systems/" + id
		members = append(members, fmt.Sprintf(`{"@odata.id":%q}`, path))
		if nodes[id] == "" {
			b.answer("GET "+path, status(http.StatusNotFound, ""))
		} else if nodes[id] == "unreadable" {
			b.answer("GET "+path, status(http.StatusInternalServerError, ""))
		} else {
			b.answer("GET "+path, text(nodes[id]))
		}
		b.answer("GET /nics/"+id, text(fmt.Sprintf(`{"Members":[{"@odata.id":"/nics/%[1]s/b"},{"@odata.id":"/nics/%[1]s/a"},{"@odata.id":"/nics/%[1]s/host"},{"@odata.id":"/nics/%[1]s/none"}]}`, id)))
		digit := id[len(id)-1:]
		b.answer("GET /nics/"+id+"/b", text(`{"MACAddress":"00-16-3E-00-00-`+digit+`B"}`))
		b.answer("GET /nics/"+id+"/a", text(`{"PermanentMACAddress":"00:16:3e:00:00:`+digit+`a","MACAddress":"02:00:00:00:00:01"}`))
		b.answer("GET /nics/"+id+"/host", text(`{"MACAddress":"00:16:3e:ff:00:01","Links":{"HostInterface":{"@odata.id":"/x"}}}`))
		b.answer("GET /nics/"+id+"/none", text(`{"MACAddress":"00:00:00:00:00:00"}`))
	}
	b.answer("GET /redfish/v1/Systems", text(`{"Members":[`+strings.Join(members, ",")+`]}`))
	return b
}

// nodeAt is a handle on one node of an enclosure, by its path.
func nodeAt(t *testing.T, b *bmc, id string) *machine {
	t.Helper()
	e := b.endpoint()
	e.URL = strings.TrimSuffix(e.URL, "/Systems/1") + "/Systems/" + id
	return open(t, e)
}

const (
	uuidOne = "3d1c0000-0000-4000-8000-000000000001"
	uuidTwo = "3d1c0000-0000-4000-8000-000000000002"
)

// An identity that fits a sibling too is none: the person is told by what the
// machine can be told apart.
func TestIdentityTellsSiblingsApart(t *testing.T) {
	for name, c := range map[string]struct {
		nodes map[string]string
		want  site.Identity
		err   string // empty where it tells
	}{
		"one machine":                {map[string]string{"N1": sled("N1", "ENC", "")}, site.Identity{Serial: "ENC"}, ""},
		"the serial of both":         {map[string]string{"N1": sled("N1", "ENC", ""), "N2": sled("N2", "ENC", "")}, site.Identity{Serial: "ENC"}, `does not distinguish this machine from /redfish/v1/Systems/N2 behind the same BMC; add to its identity in the design the slot that the BMC has for it, "N1"`},
		"with its slot":              {map[string]string{"N1": sled("N1", "ENC", ""), "N2": sled("N2", "ENC", "")}, site.Identity{Serial: "ENC", Slot: "N1"}, ""},
		"with a port of its own":     {map[string]string{"N1": sled("N1", "ENC", ""), "N2": sled("N2", "ENC", "")}, site.Identity{Serial: "ENC", MAC: "00:16:3e:00:00:1a"}, ""},
		"with a port of the other":   {map[string]string{"N1": sled("N1", "ENC", ""), "N2": sled("N2", "ENC", "")}, site.Identity{Serial: "ENC", MAC: "00:16:3e:00:00:2b"}, "does not distinguish"},
		"serials of their own":       {map[string]string{"N1": sled("N1", "S1", ""), "N2": sled("N2", "S2", "")}, site.Identity{Serial: "S1"}, ""},
		"a UUID of its own":          {map[string]string{"N1": sled("N1", "ENC", uuidOne), "N2": sled("N2", "ENC", uuidTwo)}, site.Identity{UUID: uuidOne}, ""},
		"a UUID, the other has none": {map[string]string{"N1": sled("N1", "ENC", uuidOne), "N2": sled("N2", "ENC", "")}, site.Identity{UUID: uuidOne, Serial: "ENC"}, ""},
		"one UUID for both":          {map[string]string{"N1": sled("N1", "ENC", uuidOne), "N2": sled("N2", "ENC", uuidOne)}, site.Identity{UUID: uuidOne}, "does not distinguish"},
		"an empty slot beside it":    {map[string]string{"N1": sled("N1", "ENC", ""), "N2": ""}, site.Identity{Serial: "ENC"}, ""},
		"a baseboard beside it":      {map[string]string{"N1": sled("N1", "ENC", ""), "N2": `{"Id":"N2","SerialNumber":"ENC"}`}, site.Identity{Serial: "ENC"}, ""},
		"one that cannot be read":    {map[string]string{"N1": sled("N1", "ENC", ""), "N2": "unreadable"}, site.Identity{Serial: "ENC"}, `/redfish/v1/Systems/N2 behind the same BMC cannot be read, and may have the same serial number; with slot: "N1"`},
		"unreadable, and a slot":     {map[string]string{"N1": sled("N1", "ENC", ""), "N2": "unreadable"}, site.Identity{Serial: "ENC", Slot: "N1"}, ""},
		"the port to its BMC":        {map[string]string{"N1": sled("N1", "ENC", ""), "N2": sled("N2", "ENC", "")}, site.Identity{Serial: "ENC", MAC: "00:16:3e:ff:00:01"}, ""},
		"one that lists no ports":    {map[string]string{"N1": sled("N1", "ENC", ""), "N2": `{"Id":"N2","SerialNumber":"ENC","Boot":{"BootOrder":["a"]}}`}, site.Identity{Serial: "ENC", MAC: "00:16:3e:00:00:1a"}, ""},
		"unreadable, and a UUID":     {map[string]string{"N1": sled("N1", "ENC", uuidOne), "N2": "unreadable"}, site.Identity{UUID: uuidOne}, ""},
		"unreadable, and a port":     {map[string]string{"N1": sled("N1", "ENC", ""), "N2": "unreadable"}, site.Identity{Serial: "ENC", MAC: "00:16:3e:00:00:1a"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := nodeAt(t, sledsOf(t, c.nodes), "N1")
			if _, err := look(m, &site.Node{Identity: c.want}); err != nil {
				t.Fatal(err)
			}
			err := m.toldApart(t.Context(), c.want)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
			if refused := errors.Is(err, driver.ErrRefused); refused != strings.Contains(c.err, "does not distinguish") {
				t.Errorf("refused: %t (%v)", refused, err)
			}
		})
	}
}

// What cannot be read of a sibling tells nothing; what cannot be read of the machine
// itself is no sibling.
func TestSiblingThatIsReadInPart(t *testing.T) {
	want := site.Identity{Serial: "ENC", MAC: "00:16:3e:00:00:1a"}
	b := sledsOf(t, map[string]string{"N1": sled("N1", "ENC", ""), "N2": sled("N2", "ENC", "")})
	b.answer("GET /nics/N2", status(http.StatusInternalServerError, ""))
	m := nodeAt(t, b, "N1")
	if _, err := look(m, &site.Node{Identity: want}); err != nil {
		t.Fatal(err)
	}
	if err := m.toldApart(t.Context(), want); err == nil || errors.Is(err, driver.ErrRefused) {
		t.Errorf("the ports of the other cannot be read now: %v", err)
	}
	e := b.endpoint()
	e.URL = strings.TrimSuffix(e.URL, "/Systems/1")
	if path, err := open(t, e).findSystem(t.Context(), want); err == nil || errors.Is(err, driver.ErrRefused) {
		t.Errorf("found %q, though the ports of one cannot be read now: %v", path, err)
	}

	b = sledsOf(t, map[string]string{"N1": sled("N1", "S1", ""), "N2": sled("N2", "S2", "")})
	m = nodeAt(t, b, "N1")
	if _, err := look(m, &site.Node{Identity: site.Identity{Serial: "S1"}}); err != nil {
		t.Fatal(err)
	}
	b.answer("GET /redfish/v1/Systems/N1", status(http.StatusInternalServerError, ""))
	if err := m.toldApart(t.Context(), site.Identity{Serial: "S1"}); err != nil {
		t.Errorf("the machine itself cannot be read now: %v", err)
	}
	if n := b.count("GET /nics/N2"); n > 0 {
		t.Errorf("ports that nobody wants to know were asked for %d times", n)
	}
}

// A system that can be switched, or told what to boot from, is a machine.
func TestWhatIsAMachine(t *testing.T) {
	for text, want := range map[string]bool{
		`{"Id":"1"}`: false, `{"Boot":{}}`: false, `{"Boot":{"BootOrder":[]}}`: false,
		`{"Boot":{"BootOrder":["a"]}}`:                                  true,
		`{"Boot":{"BootSourceOverrideTarget":"None"}}`:                  true,
		`{"Actions":{"#ComputerSystem.Reset":{"target":"/s/1/Reset"}}}`: true,
	} {
		if got := (system{decoded(t, text)}).isMachine(); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

// That a machine is alone behind its BMC is asked once for each login; a BMC that
// lists no systems has no other, and one that does not answer is no proof.
func TestWhoIsAloneIsAskedOnce(t *testing.T) {
	b := sledsOf(t, map[string]string{"N1": sled("N1", "ENC", "")})
	m := nodeAt(t, b, "N1")
	want := site.Identity{Serial: "ENC"}
	if _, err := look(m, &site.Node{Identity: want}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.toldApart(t.Context(), want); err != nil {
			t.Fatal(err)
		}
	}
	asked := 0
	for _, a := range b.asked {
		if a == "GET /redfish/v1/Systems" {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	for name, c := range map[string]struct {
		code int
		ok   bool
	}{"not found": {404, true}, "forbidden": {403, true}, "broken": {500, false}} {
		b := sledsOf(t, map[string]string{"N1": sled("N1", "ENC", "")})
		m := nodeAt(t, b, "N1")
		if _, err := look(m, &site.Node{Identity: want}); err != nil {
			t.Fatal(err)
		}
		b.answer("GET /redfish/v1/Systems", status(c.code, ""))
		if err := m.toldApart(t.Context(), want); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := m.Identify(t.Context(), want); (err == nil) != c.ok {
			t.Errorf("%s: identified: %v", name, err)
		}
	}
}

// What tells a machine is given for the design: of one among several its slot and
// a port too.
func TestIdentify(t *testing.T) {
	two := map[string]string{"N1": sled("N1", "ENC", ""), "N2": sled("N2", "ENC", "")}
	for name, c := range map[string]struct {
		nodes map[string]string
		want  site.Identity
		got   site.Identity
	}{
		"alone":                 {map[string]string{"N1": sled("N1", "S1", uuidOne)}, site.Identity{}, site.Identity{UUID: uuidOne, Serial: "S1"}},
		"alone, one is empty":   {map[string]string{"N1": sled("N1", "S1", ""), "N2": ""}, site.Identity{}, site.Identity{Serial: "S1"}},
		"one of two":            {two, site.Identity{}, site.Identity{Serial: "ENC", Slot: "N1", MAC: "00:16:3e:00:00:1a"}},
		"by its second port":    {two, site.Identity{MAC: "00:16:3e:00:00:1b"}, site.Identity{Serial: "ENC", Slot: "N1", MAC: "00:16:3e:00:00:1b"}},
		"by a port of another":  {two, site.Identity{MAC: "00:16:3e:00:00:2b"}, site.Identity{Serial: "ENC", Slot: "N1"}},
		"beside one unreadable": {map[string]string{"N1": sled("N1", "ENC", ""), "N2": "unreadable"}, site.Identity{}, site.Identity{Serial: "ENC", Slot: "N1", MAC: "00:16:3e:00:00:1a"}},
	} {
		got, err := nodeAt(t, sledsOf(t, c.nodes), "N1").Identify(t.Context(), c.want)
		if err != nil || got != c.got {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	b := sledsOf(t, two)
	b.answer("GET /nics/N1", status(http.StatusInternalServerError, ""))
	if _, err := nodeAt(t, b, "N1").Identify(t.Context(), site.Identity{}); err == nil {
		t.Error("ports that cannot be read now are none")
	}
	b.answer("GET /nics/N1", status(http.StatusForbidden, ""))
	if got, err := nodeAt(t, b, "N1").Identify(t.Context(), site.Identity{}); err != nil || got.MAC != "" || got.Slot != "N1" {
		t.Errorf("ports that may not be read: %+v, %v", got, err)
	}
	if _, err := nodeAt(t, b, "N9").Identify(t.Context(), site.Identity{}); err == nil {
		t.Error("a machine that is not there is identified")
	}
}

// Without a path the system is found by the identity of the design.
func TestSystemIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		nodes map[string]string
		want  site.Identity
		path  string
		err   string
	}{
		"the only one":          {map[string]string{"N1": `{"Id":"N1"}`}, site.Identity{}, "N1", ""},
		"the only machine":      {map[string]string{"B0": `{"Id":"B0"}`, "N1": sled("N1", "S1", "")}, site.Identity{}, "N1", ""},
		"by serial":             {map[string]string{"N1": sled("N1", "S1", ""), "N2": sled("N2", "S2", "")}, site.Identity{Serial: "S2"}, "N2", ""},
		"by slot":               {map[string]string{"N1": sled("N1", "S", ""), "N2": sled("N2", "S", "")}, site.Identity{Serial: "S", Slot: "N2"}, "N2", ""},
		"by port":               {map[string]string{"N1": sled("N1", "S", ""), "N2": sled("N2", "S", "")}, site.Identity{Serial: "S", MAC: "00:16:3e:00:00:2b"}, "N2", ""},
		"beside one unreadable": {map[string]string{"N1": sled("N1", "S1", ""), "N2": "unreadable"}, site.Identity{Serial: "S1"}, "N1", ""},
		"it is unreadable":      {map[string]string{"N1": sled("N1", "S1", ""), "N2": "unreadable"}, site.Identity{Serial: "S2"}, "", "500"},
		"unreadable, unnamed":   {map[string]string{"N1": sled("N1", "S1", ""), "N2": "unreadable"}, site.Identity{}, "", "2 systems and none is meant"},
		"several":               {map[string]string{"N1": sled("N1", "S", ""), "N2": sled("N2", "S", "")}, site.Identity{Serial: "S"}, "", "several are meant"},
		"behind an empty slot":  {map[string]string{"N1": "", "N2": sled("N2", "S2", ""), "N3": sled("N3", "S3", "")}, site.Identity{Serial: "S3"}, "N3", ""},
		"several, one unknown":  {map[string]string{"N1": sled("N1", "S", ""), "N2": sled("N2", "S", ""), "N3": "unreadable"}, site.Identity{Serial: "S"}, "", "several are meant"},
		"none":                  {map[string]string{"N1": sled("N1", "S1", ""), "N2": sled("N2", "S2", "")}, site.Identity{Serial: "S3"}, "", "none is meant by the design's identity; end the endpoint's URL with the path of the one that is meant: /redfish/v1/Systems/N1, /redfish/v1/Systems/N2"},
	} {
		b := sledsOf(t, c.nodes)
		e := b.endpoint()
		e.URL = strings.TrimSuffix(e.URL, "/Systems/1")
		path, err := open(t, e).findSystem(t.Context(), c.want)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || c.path != "" && path != "/redfish/v1/Systems/"+c.path {
			t.Errorf("%s: got %q, %v", name, path, err)
		}
	}
	b := newBMC(t)
	e := b.endpoint()
	e.URL = strings.TrimSuffix(e.URL, "/Systems/1")
	b.answer("GET /redfish/v1/Systems", status(http.StatusInternalServerError, ""))
	if _, err := open(t, e).findSystem(t.Context(), site.Identity{}); err == nil {
		t.Error("found in a list that cannot be read")
	}
}

// More systems than any enclosure has are not all read, and count as unread.
func TestManySystems(t *testing.T) {
	nodes := map[string]string{}
	for i := range maxSystems + 2 {
		nodes[fmt.Sprintf("N%03d", i)] = sled("N1", "ENC", "")
	}
	m := nodeAt(t, sledsOf(t, nodes), "N000")
	all, err := m.systems(t.Context())
	if err != nil || len(all.machines) != maxSystems || len(all.unread) != 2 || !errors.Is(all.unread["/redfish/v1/Systems/N064"], errEnough) {
		t.Errorf("%v: %d machines, unread %v", err, len(all.machines), all.unread)
	}
	over, cancel := context.WithCancel(t.Context())
	b := sledsOf(t, map[string]string{"N1": sled("N1", "S1", ""), "N2": sled("N2", "S2", "")})
	b.answer("GET /redfish/v1/Systems/N1", func(w http.ResponseWriter, r *http.Request) {
		cancel()
		text(sled("N1", "S1", ""))(w, r)
	})
	if all, err := nodeAt(t, b, "N2").systems(over); err == nil {
		t.Errorf("what was cut short is told as whole: %+v", all)
	}
}

// A step whose session ends while the machines behind the BMC are read has ended. It is not told that one of them cannot be
// read, as if a person had to do something about it.
func TestSessionThatEndsWhileSiblingsAreRead(t *testing.T) {
	b := sledsOf(t, map[string]string{"N1": sled("N1", "ENC", ""), "N2": sled("N2", "ENC", "")})
	m := nodeAt(t, b, "N1")
	want := site.Identity{Serial: "ENC"}
	if _, err := look(m, &site.Node{Identity: want}); err != nil {
		t.Fatal(err)
	}
	b.answer("GET /redfish/v1/Systems/N2", status(http.StatusUnauthorized, ""))
	step := powerOff
	step.Machine = want
	err := m.Apply(t.Context(), step, &site.Node{Identity: want}, drivertest.Permitted)
	if !errors.Is(err, driver.ErrInterrupted) || strings.Contains(err.Error(), "may have the same") {
		t.Errorf("got %v, want driver.ErrInterrupted", err)
	}
	if m.alone != nil {
		t.Error("it counts as the only machine behind the BMC")
	}
	if n := b.count("POST /redfish/v1/Systems/N1/Reset"); n > 0 {
		t.Errorf("the machine was switched off, which could not be told from another (%d requests)", n)
	}
}

func TestSpellingsOfAnIdentity(t *testing.T) {
	for in, want := range map[string]string{
		"{3D1C0000-0000-4000-8000-000000000001}": uuidOne, "3d1c0000000040008000000000000001": uuidOne, "": "",
		"00000000-0000-0000-0000-000000000000": "", "N/A": "", "short": "short",
	} {
		if got := canonicalUUID(in); got != want {
			t.Errorf("%q: got %q", in, got)
		}
	}
	for _, c := range []struct {
		want, other site.Identity
		tells       bool
	}{
		{site.Identity{Serial: "S"}, site.Identity{Serial: "S"}, false},
		{site.Identity{Serial: "S"}, site.Identity{Serial: "T"}, true},
		{site.Identity{UUID: "u"}, site.Identity{}, true},
		{site.Identity{MAC: "m"}, site.Identity{}, true},
		{site.Identity{MAC: "m"}, site.Identity{MAC: "m"}, false},
		{site.Identity{UUID: "u"}, site.Identity{UUID: "u"}, false},
	} {
		if got := tells(c.want, c.other); got != c.tells {
			t.Errorf("%v from %v: %t", c.want, c.other, got)
		}
	}
}
