package redfish

import (
	"errors"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
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
		if err := sameMachine(want, open(t, b.endpoint()).identity(system{object{"UUID": []byte(`"` + uuid + `"`)}}, want)); err != nil {
			t.Error(err)
		}
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
	b.answer("GET /s/2", text(`{"UUID":"`+other.UUID+`","PowerState":"Off"}`))
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
