package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A rollout that was halted before the endpoint bmc was called manager stays halted: the new
// name is no change of a node.
func TestWantedByTheNameOfBefore(t *testing.T) {
	n := &site.Node{Name: "n1", Endpoints: map[site.EndpointKind]site.Endpoint{site.Manager: {URL: "redfish+https://a"}, site.OS: {URL: "ssh://a"}}}
	text, err := json.Marshal(struct {
		Node  *site.Node
		Image *site.Image
	}{Node: n})
	before := bytes.Replace(text, []byte(`"manager":`), []byte(`"bmc":`), 1)
	if err != nil || bytes.Equal(before, text) {
		t.Fatalf("got %s, %v", text, err)
	}
	if got, want := wanted(&site.Site{}, n), fmt.Sprintf("%x", sha256.Sum256(before)); got != want {
		t.Errorf("got %s, want %s as of %s", got, want, before)
	}
	if n.Endpoints[site.Manager].URL == "" || len(n.Endpoints) != 2 {
		t.Errorf("the node has the endpoints %v now", n.Endpoints)
	}
}

// Where a machine stands in its rack is no change of what is designed for it.
func TestWantedWithoutThePosition(t *testing.T) {
	n := &site.Node{Name: "n1", Rack: "r1", Power: "on"}
	moved := &site.Node{Name: "n1", Rack: "r2", Position: site.Position{Unit: 7, Height: 2, Enclosure: "c1"}, Power: "on"}
	if wanted(&site.Site{}, n) != wanted(&site.Site{}, moved) {
		t.Error("a position counts as a change of the node")
	}
}
