package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// The next page of the plan is there also when its last node has nothing more, and an empty page does not
// say that nothing is pending.
func TestPlanGoesOn(t *testing.T) {
	f := &fleet{said: "there"}
	for i := range 120 {
		f.plans = append(f.plans, site.NodePlan{Node: fmt.Sprintf("x-%05d", i), Waiting: "the installer runs"})
	}
	h := opened(t, f)
	_, text := asked(h, "GET", "/sites/berlin/plan?after=x-00005a", "") // which is there no more
	if !strings.Contains(text, ">x-00006<") || strings.Contains(text, ">x-00005<") || strings.Contains(text, "Nothing is pending") {
		t.Error("the page does not go on after a node that has left the plan")
	}
	if _, text := asked(h, "GET", "/sites/berlin/plan?after=zz", ""); strings.Contains(text, "Nothing is pending") || !strings.Contains(text, "121 nodes") {
		t.Error("says that nothing is pending after the last node")
	}
}
