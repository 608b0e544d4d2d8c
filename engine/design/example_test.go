package design

import (
	"os"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// TestSiteExample holds the example to a design without a single finding.
func TestSiteExample(t *testing.T) {
	r := EvaluateHere(os.DirFS("../../site-example"), "")
	for _, f := range r.Findings {
		t.Errorf("%s [%s] %s %s", f, f.Code, f.Why, f.Fix)
	}
	if r.Site == nil {
		t.Fatal("got no site")
	}
	if got := len(r.Site.Nodes); got != 12 {
		t.Errorf("got %d nodes, want 12", got)
	}
	_ = site.Site{}
}
