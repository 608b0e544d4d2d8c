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

// All approvals that wait are listed, also those of the nodes that the overview has no room for.
func TestAllApprovalsAreListed(t *testing.T) {
	f := &fleet{said: "there", size: 100, waiting: true}
	address, as := onNetwork(t, f)
	for _, who := range []string{"ana@example.org", "carol@example.org"} {
		if _, text, _ := sends(t, as(who), "GET", address+"/sites/berlin/approvals", ""); strings.Count(text, "<b>Approval causes:</b>") != 101 {
			t.Errorf("%s: %d of 101 are listed", who, strings.Count(text, "<b>Approval causes:</b>"))
		}
		if _, text, _ := sends(t, as(who), "GET", address+"/sites/berlin", ""); !strings.Contains(text, "52 more nodes wait for a person") {
			t.Errorf("%s: the overview does not say how many more wait", who)
		}
	}
	_, text, _ := sends(t, as("carol@example.org"), "GET", address+"/sites/berlin/approvals", "")
	if strings.Contains(text, "No approved loss") || strings.Contains(text, "<p>Nothing.</p>") || !strings.Contains(text, "You may not read which losses of the whole site wait or were approved.") {
		t.Error("somebody who may see some nodes is told about the site")
	}
}
