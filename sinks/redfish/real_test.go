package redfish

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/captures"
)

// real is a captured machine whose power, boot and media can be changed.
type real struct {
	*plug
	system string
}

func newReal(t *testing.T, file, path string) *real {
	all := captures.Read(t, file)
	r := &real{plug: newPlug(t, "On"), system: path}
	for p, body := range all {
		r.answer("GET "+p, text(string(body)))
	}
	if err := json.Unmarshal(all[path], &r.plug.system); err != nil {
		t.Fatal(err)
	}
	for request := range r.answers {
		if p, ok := strings.CutPrefix(request, "GET "); ok { // with the slash, too
			r.answer(request+"/", r.answers["GET "+p])
		}
	}
	r.answer("GET "+path, func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.plug.system["PowerState"] = r.power
		body, _ := json.Marshal(r.plug.system)
		text(string(body))(w, req)
	})
	r.answer("POST "+path+"/Actions/ComputerSystem.Reset", r.answers[resetRequest])
	return r
}

func (r *real) endpoint() site.Endpoint {
	e := r.bmc.endpoint()
	e.URL = strings.Replace(e.URL, "/redfish/v1/Systems/1", r.system, 1)
	return e
}

// boots has boot settings taken at a path, into what is there.
func (r *real) boots(path string, into map[string]any) {
	r.answer("PATCH "+path, func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		var body struct{ Boot map[string]any }
		json.NewDecoder(req.Body).Decode(&body)
		maps.Copy(into, body.Boot)
		w.WriteHeader(http.StatusNoContent)
	})
}

// holds has a slot of the capture take images.
func (r *real) holds(t *testing.T, path string) *bay {
	t.Helper()
	b := newBay(path)
	b.shows = map[string]any{}
	recorder := r.answers["GET "+path]
	if recorder == nil {
		t.Fatalf("there is no slot %s", path)
	}
	rig := &rig{plug: r.plug}
	was := httptest.NewRecorder()
	recorder(was, nil)
	if err := json.Unmarshal(was.Body.Bytes(), &b.shows); err != nil {
		t.Fatal(err)
	}
	rig.serveBay(b)
	r.answer("POST "+path+"/Actions/VirtualMedia.InsertMedia", r.answers["POST "+path+"/insert"])
	r.answer("POST "+path+"/Actions/VirtualMedia.EjectMedia", r.answers["POST "+path+"/eject"])
	return b
}

func TestRealMachines(t *testing.T) {
	for file, c := range map[string]struct {
		system       string
		uuid, serial string
		others       []string // further serial numbers that mean it
		order        string
		slot         string
		target       string
		known        []quirk
	}{
		"dell-r750-idrac9": {
			system: "/redfish/v1/Systems/System.Embedded.1", uuid: "06562265-4254-2311-7935-52950d600555", serial: "G33G4P1", others: []string{"EHGGH2451C2402"},
			order: "UefiHttp,Hdd", slot: "/redfish/v1/Systems/System.Embedded.1/VirtualMedia/1", target: "Cd", known: []quirk{serviceTag, staleInserted},
		},
		"hpe-dl385g10plus-ilo5": {
			system: "/redfish/v1/Systems/1", uuid: "75363019-8092-0781-4515-577444130245", serial: "FFJ233275H",
			order: "UefiHttp,Pxe,UefiHttp,Pxe,UefiHttp,Pxe,UefiHttp,Pxe,Hdd,Pxe,UefiHttp,Pxe,UefiHttp,Hdd", slot: "/redfish/v1/Managers/1/VirtualMedia/2", target: "Cd",
		},
		"lenovo-sr670v2-xcc": {
			system: "/redfish/v1/Systems/1", uuid: "1624859d-72b1-002f-7134-444e62d91102", serial: "F904273P",
			order: "Pxe,Hdd", slot: "/redfish/v1/Systems/1/VirtualMedia/EXT1", target: "Cd", known: []quirk{noContinuous, patchMedia},
		},
	} {
		t.Run(file, func(t *testing.T) {
			r := newReal(t, file, c.system)
			m := open(t, r.endpoint())
			n := &site.Node{Identity: site.Identity{UUID: c.uuid}}
			seen, err := m.Observe(t.Context(), n, []site.Facet{site.FacetPower, site.FacetBoot, site.FacetHealth, site.FacetInventory, site.FacetImage})
			if err != nil {
				t.Fatal(err)
			}
			if want := (site.Identity{UUID: c.uuid, Serial: c.serial}); seen.Identity != want {
				t.Errorf("got %+v, want %+v", seen.Identity, want)
			}
			for _, other := range c.others {
				want := site.Identity{UUID: site.TurnedRound(c.uuid), Serial: other}
				if seen, err := m.Observe(t.Context(), &site.Node{Identity: want}, nil); err != nil || !want.Matches(seen.Identity) {
					t.Errorf("got %+v, want %+v (%v)", seen.Identity, want, err)
				}
			}
			if got := seen.Facets[site.FacetPower].Have["state"]; got != "on" {
				t.Errorf("the power is %q", got)
			}
			if got := seen.Facets[site.FacetBoot].Have["order"]; got != c.order {
				t.Errorf("the boot order is %q, want %q", got, c.order)
			}
			if got, ok := seen.Facets[site.FacetImage]; !ok || got.Have["media"] != "" || m.slot != c.slot {
				t.Errorf("images go into %q, want %q, which has %v", m.slot, c.slot, got.Have)
			}
			uefi := &site.Node{Identity: n.Identity, Boot: site.Boot{Mode: "uefi"}}
			if seen, err := m.Observe(t.Context(), uefi, []site.Facet{site.FacetBoot}); err != nil || seen.Facets[site.FacetBoot].Have["mode"] != "uefi" {
				t.Errorf("it boots by %v, %v", seen.Facets[site.FacetBoot].Have, err)
			}
			for _, q := range c.known {
				if !slices.Contains(m.Habits().Known, string(q)) {
					t.Errorf("it is not known for %s, but for %v", q, m.Habits())
				}
			}
			r.installs(t, c.uuid, c.slot, c.target)
			if asked := r.steady(t, m, n); len(asked) != 1 {
				t.Errorf("a look takes %v", asked)
			}
		})
	}
}

// installs takes the machine through an installation.
func (r *real) installs(t *testing.T, uuid, slot, target string) {
	t.Helper()
	r.boots(r.system, r.plug.system["Boot"].(map[string]any))
	b := r.holds(t, slot)
	m := open(t, r.endpoint())
	step := site.Step{Machine: site.Identity{UUID: uuid}, Action: site.ActionInstall, Image: &site.Image{URL: image}}
	if err := m.Apply(t.Context(), step, &site.Node{}, drivertest.Permitted); err != nil {
		t.Fatal(err)
	}
	boot := r.plug.system["Boot"].(map[string]any)
	if b.shows["Image"] != image || r.power != "On" || boot["BootSourceOverrideTarget"] != target || boot["BootSourceOverrideEnabled"] != "Once" {
		t.Errorf("the machine is %s and boots %v with %v", r.power, boot, b.shows)
	}
	r.power = "Off" // the installer is done
	boot["BootSourceOverrideEnabled"] = "Disabled"
	step.Action = site.ActionFinishInstall
	if err := m.Apply(t.Context(), step, &site.Node{}, drivertest.Permitted); err != nil || b.shows["Inserted"] != false || r.power != "On" {
		t.Errorf("got %v; the machine is %s with %v", err, r.power, b.shows)
	}
}

// steady is what a look takes once everything is known.
func (r *real) steady(t *testing.T, m *machine, n *site.Node) []string {
	t.Helper()
	r.took()
	if _, err := look(m, n); err != nil {
		t.Fatal(err)
	}
	return r.took()
}

func TestRealForbidden(t *testing.T) {
	b := newBMC(t)
	b.answer("GET /redfish/v1/", text(string(captures.Read(t, "forbidden")["/redfish/v1"])))
	b.answer("POST /redfish/v1/SessionService/Sessions", status(403, ""))
	for range 2 {
		if _, err := look(open(t, b.endpoint()), nil); !errors.Is(err, driver.ErrDenied) {
			t.Errorf("got %v", err)
		}
	}
}
