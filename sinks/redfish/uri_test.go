package redfish

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A URL to boot from is taken away as the BMC wants it: by null, or by an empty
// one; with the override, where that is wanted each time.
func TestQuirkNoURI(t *testing.T) {
	for name, refuses := range map[string]func(boot map[string]any) bool{
		"null":        func(map[string]any) bool { return false },
		"empty":       func(boot map[string]any) bool { uri, given := boot["HttpBootUri"]; return given && uri == nil },
		"all or none": func(boot map[string]any) bool { return len(boot) < 3 },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBay("/vm/1")
			r := newRig(t, "Acme", b)
			settings := r.system["Boot"].(map[string]any)
			settings["HttpBootUri"], settings["BootSourceOverrideMode"] = nil, "UEFI"
			r.boots = func(boot map[string]any) (int, string) {
				if refuses(boot) {
					return http.StatusBadRequest, "Base.1.8.PropertyValueTypeError"
				}
				return 0, ""
			}
			m := open(t, r.endpoint())
			n := &site.Node{Boot: site.Boot{InstallBy: installByHTTP}}
			step := site.Step{Machine: site.Identity{UUID: uuid}, Action: site.ActionInstall, Image: &site.Image{URL: "https://images/a.iso"}}
			if err := m.Apply(t.Context(), step, n, drivertest.Permitted); err != nil {
				t.Fatal(err)
			}
			if got := settings["HttpBootUri"]; got != "https://images/a.iso" {
				t.Errorf("boots from %v", got)
			}
			r.power, settings["BootSourceOverrideEnabled"] = "Off", "Disabled" // the installer has come and gone
			step.Action = site.ActionFinishInstall
			if err := m.Apply(t.Context(), step, n, drivertest.Permitted); err != nil {
				t.Fatal(err)
			}
			if got := settings["HttpBootUri"]; got != nil && got != "" {
				t.Errorf("the URL is left: %v", got)
			}
		})
	}
}

// A BMC that has nothing where it says that its drives are has none.
func TestQuirkNoSlotsWhereTheyAreSaidToBe(t *testing.T) {
	r := newRig(t, "Acme")
	r.answer("GET /vm", status(http.StatusNotFound, ""))
	if err := r.install(t); err == nil || !strings.Contains(err.Error(), "no virtual media slot") {
		t.Errorf("got %v", err)
	}
}

// An absolute URI is a path where it names the BMC's own host, and nothing but links
// are touched.
func TestAbsoluteURIs(t *testing.T) {
	for uri, want := range map[string]string{
		"https://bmc.lan/redfish/v1/Systems/1":         "/redfish/v1/Systems/1",
		"https://BMC.lan:443/redfish/v1/Systems/1":     "/redfish/v1/Systems/1",
		"https://bmc.lan/a%2Fb?$skip=2":                "/a%2Fb?$skip=2",
		"https://bmc.lan/redfish/v1/Chassis/1#/Fans/0": "/redfish/v1/Chassis/1#/Fans/0",
		"https://bmc.lan:8443/redfish/v1":              "",
		"http://bmc.lan/redfish/v1":                    "",
		"https://bmc.lan.example.net/redfish/v1":       "",
		"https://admin@bmc.lan/redfish/v1":             "",
		"https://bmc.lan":                              "",
		"https://bmc.lan//example.net/redfish/v1":      "",
		"https://bmc.lan@example.net/redfish/v1":       "",
		"/redfish/v1":                                  "",
	} {
		if got, ok := pathOn("bmc.lan", uri); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, want %q", uri, got, want)
		}
	}
	if got, ok := pathOn("[fd00::1]:8443", "https://[FD00::1]:8443/x"); !ok || got != "/x" {
		t.Errorf("got %q", got)
	}
	const answer = `{"@odata.id":"https://bmc.lan/1","Members":[{"@odata.id":"https://bmc.lan/2"},{"@odata.id":"/3"},17,{"@odata.id":"https://other/4"}],
		"Members@odata.nextLink":"https://bmc.lan/5","Actions":{"#A.B":{"target":"https://bmc.lan/6","n":12345678901234567890}},
		"Image":"https://bmc.lan/image.iso","Description":"https://bmc.lan/7"}`
	const want = `{"@odata.id":"/1","Actions":{"#A.B":{"n":12345678901234567890,"target":"/6"}},"Description":"https://bmc.lan/7","Image":"https://bmc.lan/image.iso",` +
		`"Members":[{"@odata.id":"/2"},{"@odata.id":"/3"},17,{"@odata.id":"https://other/4"}],"Members@odata.nextLink":"/5"}`
	var o object
	if err := json.Unmarshal([]byte(answer), &o); err != nil {
		t.Fatal(err)
	}
	makeRelative(o, "bmc.lan")
	if got, _ := json.Marshal(o); string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A session is where its Location says, on this BMC alone.
func TestWhereASessionIs(t *testing.T) {
	for at, want := range map[string]string{
		"/redfish/v1/SessionService/Sessions/7":                     "/redfish/v1/SessionService/Sessions/7",
		"https://HOST/redfish/v1/SessionService/Sessions/7":         "/redfish/v1/SessionService/Sessions/7",
		"https://ilo.example/redfish/v1/SessionService/Sessions/7/": "/redfish/v1/SessionService/Sessions/7/", // as it calls itself
		"https://ilo.example/redfish/v1/Systems/1":                  "/redfish/v1/SessionService/Sessions/9",  // as the answer has it
	} {
		b := newBMC(t)
		b.answer("POST /redfish/v1/SessionService/Sessions", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Auth-Token", "token")
			w.Header().Set("Location", strings.Replace(at, "HOST", r.Host, 1))
			w.WriteHeader(http.StatusCreated)
			w.Write([]byte(`{"@odata.id":"/redfish/v1/SessionService/Sessions/9"}`))
		})
		m := open(t, b.endpoint())
		if _, err := look(m, nil); err != nil {
			t.Fatal(err)
		}
		if got := m.Session(); got != want {
			t.Errorf("%s: got %q, want %q", at, got, want)
		}
	}
}
