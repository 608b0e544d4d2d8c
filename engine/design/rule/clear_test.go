package rule

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// What looks like a secret and is none, in the fields of a node.
func TestNoSecrets(t *testing.T) {
	n := &site.Node{
		Name: "n1", Identity: site.Identity{UUID: "4c4c4544-0000-4000-8000-0000000000aa", Serial: "TOKEN12345678"},
		Labels:     map[string]string{"tokens": "12345678", "sha256": "9100babb16941ce0792fe9ad000c14ee47ad36f06ec656db97ef861af1c7f2e8", "password": "none"},
		Interfaces: map[string]site.Interface{"eno1": {MAC: "aa:bb:cc:00:11:22"}},
		System:     site.System{Users: map[string]site.User{"ops": {Password: "console-1", Keys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f token"}}}},
		Endpoints:  map[site.EndpointKind]site.Endpoint{site.Manager: {Trust: site.Trust{CA: "-----BEGIN CERTIFICATE-----\nMIIBtoken=\n-----END CERTIFICATE-----"}}},
		Paused:     &site.Hold{Reason: "lost the password: waiting", Until: time.Unix(1, 0)},
	}
	if found := secrets[0].Node(&site.Site{}, n); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}
