package site

import (
	"testing"
	"time"
)

// A plan with anything to do, to wait for or to decide pends; one with anything to read is not empty.
func TestPlanIsEmpty(t *testing.T) {
	for name, x := range map[string]struct {
		plan          NodePlan
		pends, noText bool
	}{
		"nothing":   {NodePlan{Node: "n1", Seen: time.Now(), Phase: "base"}, false, true},
		"steps":     {NodePlan{Steps: []Step{{}}}, true, false},
		"blocked":   {NodePlan{Blocked: []string{"x"}}, true, false},
		"waiting":   {NodePlan{Waiting: "x"}, true, false},
		"foreign":   {NodePlan{Foreign: "x"}, true, false},
		"unproven":  {NodePlan{Unproven: "x"}, true, false},
		"reported":  {NodePlan{Reported: []string{"x"}}, true, false},
		"not acted": {NodePlan{NotActedOn: []string{"x"}}, false, false},
		"notes":     {NodePlan{Notes: []string{"x"}}, false, false},
		"findings":  {NodePlan{Findings: []Finding{{}}}, false, false},
	} {
		if x.plan.Pends() != x.pends || x.plan.IsEmpty() != x.noText {
			t.Errorf("%s: pends %t, empty %t", name, x.plan.Pends(), x.plan.IsEmpty())
		}
	}
}
