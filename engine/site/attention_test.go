package site_test

import (
	"slices"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Whatever shows nodes agrees on which need a look, and how much.
func TestUrgency(t *testing.T) {
	for name, c := range map[string]struct {
		node    site.NodeStatus
		want    site.Urgency
		ailment string
	}{
		"well":                    {site.NodeStatus{State: site.InSync, Health: "OK", SystemHealth: site.SystemHealth{State: site.Healthy}}, site.Calm, ""},
		"links are not known":     {site.NodeStatus{State: site.InSync, Links: site.Links{State: site.LinksUnknown}}, site.Calm, ""},
		"in progress":             {site.NodeStatus{State: site.Progressing}, site.Moving, ""},
		"paused":                  {site.NodeStatus{State: site.Paused}, site.Moving, ""},
		"hardware":                {site.NodeStatus{State: site.InSync, Health: "Critical"}, site.Ailing, "its hardware health is Critical"},
		"hardware in the past":    {site.NodeStatus{State: site.Retrying, Health: "Critical", AsOf: time.Unix(1, 0)}, site.Stuck, "its hardware health was Critical when it was last seen"},
		"its system is not well":  {site.NodeStatus{State: site.InSync, SystemHealth: site.SystemHealth{State: site.Unhealthy, Why: "nginx is failed"}}, site.Ailing, "its system health is unhealthy: nginx is failed"},
		"its system is silent":    {site.NodeStatus{State: site.Progressing, Service: site.ServiceSilent}, site.Ailing, "its system does not answer"},
		"links":                   {site.NodeStatus{State: site.InSync, Links: site.Links{State: site.LinksDiffer, Why: "eno1 is not there"}}, site.Ailing, "its links differ: eno1 is not there"},
		"retries":                 {site.NodeStatus{State: site.Retrying, Health: "Critical"}, site.Stuck, "its hardware health is Critical"},
		"stalled":                 {site.NodeStatus{State: site.Stalled}, site.Broken, ""},
		"a person has to act":     {site.NodeStatus{State: site.InSync, Person: true}, site.NeedsPerson, ""},
		"a person has to approve": {site.NodeStatus{State: site.Stalled, Approve: "it is erased"}, site.NeedsPerson, ""},
	} {
		ailments := c.node.Ailments()
		if got := c.node.Urgency(); got != c.want || c.ailment == "" && len(ailments) > 0 || c.ailment != "" && !slices.Equal(ailments, []string{c.ailment}) {
			t.Errorf("%s: urgency %d, %q", name, got, ailments)
		}
	}
}
