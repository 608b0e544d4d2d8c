package site_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// What was written when the endpoint of a manager was called bmc is read, and
// written with its present name.
func TestManagerOfBefore(t *testing.T) {
	const node = `{"name": "n1", "addresses": {"bmc": "10.9.0.1"}, "endpoints": {"bmc": {"url": "redfish+https://a", "credential": "bmc"}, "os": {"url": "ssh://a"}},
		"origins": {"addresses.bmc": "site.cue:1:1 node/n1", "endpoints.bmc": "site.cue:2:1 node/n1", "endpoints.bmc.url": "site.cue:2:2 node/n1", "endpoints.os.url": "site.cue:3:1 node/n1"}}`
	reach := `{"bmc": {"url": "redfish+https://a"}, "hypervisor": "hv-1"}`
	for name, c := range map[string]struct {
		before string
		now    any
	}{
		"a design":           {node, &site.Node{}},
		"an account":         {`{"credentials": {"bmc": {"url": "redfish+https://a", "credential": "bmc"}}}`, &site.Recorded{}},
		"an adopted machine": {`{"adopted": {"machine": {"uuid": "u1"}, "when": "2026-01-01T00:00:00Z", "bmc": "redfish+https://a"}}`, &site.Recorded{}},
		"a departed node":    {`{"departed": {"revision": "r", "when": "2026-01-01T00:00:00Z", "node": ` + node + `}, "had": ` + reach + `}`, &site.Recorded{}},
		"a way":              {reach, &site.Reach{}},
		"a daemon's answer":  {`{"nodes": {}, "reach": {"n1": ` + reach + `}}`, &site.Known{}},
	} {
		t.Run(name, func(t *testing.T) {
			present := strings.NewReplacer(`"bmc": {"url"`, `"manager": {"url"`, `"bmc": "redfish`, `"manager": "redfish`, `endpoints.bmc`, `endpoints.manager`).Replace(c.before)
			want := reflect.New(reflect.TypeOf(c.now).Elem()).Interface()
			if err := json.Unmarshal([]byte(present), want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(c.before), c.now); err != nil || !reflect.DeepEqual(c.now, want) {
				t.Errorf("got %+v, %v, want %+v", c.now, err, want)
			}
			wrote, err := json.Marshal(c.now)
			if err != nil || !strings.Contains(string(wrote), `"manager":`) || strings.Contains(string(wrote), `"bmc":{`) || strings.Contains(string(wrote), `"bmc":"redfish`) {
				t.Errorf("wrote %s, %v", wrote, err)
			}
		})
	}
	var n site.Node
	if err := json.Unmarshal([]byte(node), &n); err != nil || n.Endpoints[site.Manager].URL != "redfish+https://a" || n.Addresses["bmc"] == "" ||
		n.Origins.Of("endpoints.manager.url").Col != 2 || n.Origins.Of("endpoints.manager").Col != 1 || !n.Origins.Has("addresses.bmc") {
		t.Errorf("got %+v with %v, %v", n, n.Origins, err)
	}
}
