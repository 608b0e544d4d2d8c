package redfish

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// nonsense answers every read with one of its bodies, by the path, and every
// write with its status.
type nonsense struct {
	bodies [][]byte
	status int
	asked  int
}

func (n *nonsense) RoundTrip(r *http.Request) (*http.Response, error) {
	n.asked++
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r}
	body := n.bodies[len(r.URL.Path)%len(n.bodies)]
	if r.Method != http.MethodGet {
		resp.StatusCode = n.status
	}
	if err := check(resp, body); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// FuzzAnswers holds that whatever a BMC answers, a look and every step end, soon
// and after few requests, and that what is seen is fit to be shown.
func FuzzAnswers(f *testing.F) {
	const slots = `{"Members":[{"@odata.id":"/a"},{"@odata.id":"/bb"}],"MediaTypes":null,"Inserted":true,"Image":"x","Actions":{"#VirtualMedia.InsertMedia":{"target":"/i"}}}`
	const linked = `{"UUID":"4c4c4544-0042-4b10-8051-c4c04f565831","PowerState":"Off","VirtualMedia":{"@odata.id":"/v"},"@Redfish.Settings":{"SettingsObject":{"@odata.id":"/s"}},
		"Links":{"ManagedBy":[{"@odata.id":"/m"}]},"Boot":{"BootOrder":["Boot0001"],"BootOptions":{"@odata.id":"/o"},"BootSourceOverrideTarget":"Cd","BootSourceOverrideEnabled":"Once"},
		"Actions":{"#ComputerSystem.Reset":{"target":"/r","@Redfish.ActionInfo":"/info"}}}`
	f.Add([]byte(healthySystem), []byte(slots), []byte(`{}`), 204)
	f.Add([]byte(linked), []byte(slots), []byte(linked), 400)
	f.Add([]byte(linked), []byte(`{"Members":{"@odata.id":7},"Parameters":[{"Name":"ResetType","AllowableValues":"On"}]}`), []byte(`{"error":{"@Message.ExtendedInfo":{"MessageId":"ActionParameterMissing"}}}`), 400)
	f.Add([]byte(linked), []byte(linked), []byte(`{"error":{"@Message.ExtendedInfo":[{"MessageId":"X.1.0.SYS518"}]}}`), 409)
	f.Add([]byte(linked), []byte(linked), []byte(linked), 412)
	const queued = `{"UUID":"4c4c4544-0042-4b10-8051-c4c04f565831","PowerState":"On","Manufacturer":"Dell Inc.","Bios":{"@odata.id":"/b"},"Links":{"ManagedBy":[{"@odata.id":"/m"}],"Chassis":[{"@odata.id":"/c"}]},
		"LogServices":{"@odata.id":"/logs"},"Attributes":{"LogicalProc":"Enabled"},"@Redfish.Settings":{"SettingsObject":{"@odata.id":"/bs"}},"Thermal":{"@odata.id":"/t"},"Temperatures":[{"Name":7}],"Entries":{"@odata.id":"/e"}}`
	const jobs = `{"Members":[{"@odata.id":"/j/1","Id":"1","JobType":"BIOSConfiguration","JobState":"Scheduled"},{"@odata.id":"/j/2","JobState":17},{}],"Members@odata.nextLink":"/jj","JobState":"Running","Created":"x"}`
	f.Add([]byte(queued), []byte(jobs), []byte(jobs), 202)
	f.Add([]byte(queued), []byte(queued), []byte(jobs), 400)
	f.Fuzz(func(t *testing.T, a, b, c []byte, status int) {
		if status < 200 || status > 599 {
			return
		}
		impatient := Options{Grace: time.Microsecond, Settle: time.Microsecond, Poll: time.Microsecond}
		for _, action := range []site.Action{"", site.ActionPowerOn, site.ActionPowerOff, site.ActionRestart, site.ActionBootOrder, site.ActionInstall, site.ActionFinishInstall, site.ActionBIOS} {
			h, err := New(impatient).Open(t.Context(), site.Endpoint{URL: "redfish+https://bmc"}, secret.Value{})
			if err != nil {
				t.Fatal(err)
			}
			n := &nonsense{bodies: [][]byte{a, b, c}, status: status}
			m := h.(*machine)
			m.client.http = &http.Client{Transport: n}
			node := &site.Node{Identity: site.Identity{UUID: uuid}, Boot: site.Boot{Order: []string{"Hdd"}}, BIOS: site.BIOS{SMT: &no}}
			if action == "" {
				seen, err := m.Observe(t.Context(), node, []site.Facet{site.FacetPower, site.FacetBoot, site.FacetHealth, site.FacetInventory, site.FacetImage, site.FacetBIOS, site.FacetSensors, site.FacetLog})
				for f, state := range seen.Facets {
					for field, v := range state.Have {
						if err == nil && field != "media" && v != printable(v) {
							t.Errorf("%s: %q is not fit to be shown", f, v)
						}
					}
				}
			} else {
				m.Apply(t.Context(), site.Step{Machine: node.Identity, Action: action, Image: &site.Image{URL: image}}, node, drivertest.Permitted)
			}
			if n.asked > 1000 {
				t.Errorf("%q took %d requests", action, n.asked)
			}
		}
	})
}
