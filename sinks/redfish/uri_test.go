package redfish

import (
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
