package site_test

import (
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestEndpointsAreComparedInOneSpelling(t *testing.T) {
	for _, same := range [][]string{
		{"redfish+https://bmc.example/redfish/v1/Systems/1", "redfish+https://BMC.example.:443/redfish/v1/Systems/1/", "redfish+https://root@bmc.example/redfish/v1/Systems/1"},
		{"redfish+https://[2001:db8::1]", "redfish+https://[2001:DB8:0:0::1]:443/"},
		{"redfish+https://192.0.2.1", "redfish+https://[::ffff:192.0.2.1]"},
		{"ssh://n1", "ssh://N1:22"},
		{"ssh://n1:2222"},
		{"libvirt+tls://hv-1/system?domain=a&site=s", "libvirt+tls://hv-1:16514/system?domain=a&site=s"},
		{"what+is://this"},
	} {
		for _, url := range same {
			if got := (site.Endpoint{URL: url}).Plain(); got != same[0] {
				t.Errorf("%s: got %s, want %s", url, got, same[0])
			}
		}
	}
	for _, url := range []string{"", "%", "no host"} {
		if got := (site.Endpoint{URL: url}).Plain(); got != url {
			t.Errorf("%q: got %q", url, got)
		}
	}
}
