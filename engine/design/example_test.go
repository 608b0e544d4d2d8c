package design

import (
	"os"
	"testing"
)

// TestSiteExample holds the examples to designs without a single finding.
func TestSiteExample(t *testing.T) {
	for folder, nodes := range map[string]int{".": 12, "virtual": 3, "blank": 2} {
		r := EvaluateHere(os.DirFS("../../site-example/"+folder), "")
		for _, f := range r.Findings {
			t.Errorf("%s: %s [%s] %s %s", folder, f, f.Code, f.Why, f.Fix)
		}
		if r.Site == nil {
			t.Fatalf("got no site of %s", folder)
		}
		if got := len(r.Site.Nodes); got != nodes {
			t.Errorf("%s: got %d nodes, want %d", folder, got, nodes)
		}
	}
}
