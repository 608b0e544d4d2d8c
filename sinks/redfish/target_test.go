package redfish

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// Neighbours are the members of the collection that the own system is in, and those
// of the standard one.
func TestWhoseATargetIs(t *testing.T) {
	for _, c := range []struct{ own, target, other string }{
		{"/redfish/v1/Systems/A", "/redfish/v1/Systems/A/Bios/Settings", ""},
		{"/redfish/v1/Systems/A", "/redfish/v1/Systems/B/Bios/Settings", "/redfish/v1/Systems/B"},
		{"/redfish/v1/Systems/A", "/redfish/v1/Systems", ""},
		{"/redfish/v1/Systems/A", "/redfish/v1/Managers/1/VirtualMedia/1", ""},
		{"/redfish/v1/Nodes/A", "/redfish/v1/Nodes/B/Reset", "/redfish/v1/Nodes/B"},
		{"/redfish/v1/Nodes/A", "/redfish/v1/Systems/B/Reset", "/redfish/v1/Systems/B"},
		{"/redfish/v1/Systems/A?expand=.", "/redfish/v1/Systems/A/Reset", ""},
		{"/redfish/v1/Systems/A%20B", "/redfish/v1/Systems/A B/Reset", ""},
		{"/redfish/v1/Systems/A%zz", "/redfish/v1/Systems/A%zz/Reset", ""},
		{"/redfish/v1/A", "/redfish/v1/B/Reset", ""},
		{"/A", "/B/Reset", ""},
	} {
		if got := otherSystem(c.own, c.target); got != c.other {
			t.Errorf("%s writes to %s: it belongs to %q, want %q", c.own, c.target, got, c.other)
		}
	}
	w := &wire{host: "bmc.example.org"}
	for method, refuses := range map[string]bool{http.MethodGet: false, http.MethodHead: false, http.MethodPost: true, http.MethodPatch: true} {
		r, err := http.NewRequest(method, "https://bmc.example.org/redfish/v1/Systems/B%20C/Reset", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.ownOnly(r); refuses != errors.Is(err, driver.ErrRefused) || err != nil && !strings.Contains(err.Error(), "only a step writes to a system") {
			t.Errorf("%s that is for no system: %v", method, err)
		}
		err = w.ownOnly(r.WithContext(writesFor(t.Context(), "/redfish/v1/Systems/A")))
		if refuses != errors.Is(err, driver.ErrRefused) || err != nil && !strings.Contains(err.Error(), "the BMC at bmc.example.org") ||
			err != nil && !strings.Contains(err.Error(), "end the endpoint's URL with /redfish/v1/Systems/B%20C") {
			t.Errorf("%s for another system: %v", method, err)
		}
	}
}
