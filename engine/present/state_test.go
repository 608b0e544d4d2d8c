package present_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

func TestPowerIsOfThePastWhereItWasNotSeen(t *testing.T) {
	now := time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	of := func(power string, minutes ...time.Duration) site.NodeStatus {
		n := site.NodeStatus{Power: power, Health: "OK"}
		for _, m := range minutes {
			n.AsOf = now.Add(-m * time.Minute)
		}
		return n
	}
	for name, c := range map[string]struct {
		nodes []site.NodeStatus
		want  string
	}{
		"now":                     {[]site.NodeStatus{of("on")}, "on"},
		"never":                   {[]site.NodeStatus{of("")}, ""},
		"in the past":             {[]site.NodeStatus{of("on", 6)}, "was on 6m ago"},
		"some are on":             {[]site.NodeStatus{of("on"), of("on")}, "on"},
		"some were on":            {[]site.NodeStatus{of("on", 6), of("on", 6)}, "was on 6m ago"},
		"were at different times": {[]site.NodeStatus{of("on", 6), of("on", 2), of("on", 4)}, "was on 2m to 6m ago"},
		"differ":                  {[]site.NodeStatus{of("on"), of("off")}, "differs"},
		"is and was":              {[]site.NodeStatus{of("on"), of("on", 2)}, "differs"},
	} {
		if got := present.PowersOf(c.nodes, now); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if got := present.PowerOf(&c.nodes[0], now); len(c.nodes) == 1 && got != c.want {
			t.Errorf("%s: alone %q, want %q", name, got, c.want)
		}
	}
	past := of("off", 6)
	if got := present.HealthOf(&past, now); got != "was OK 6m ago" {
		t.Errorf("the health %q", got)
	}
	past.Seen = past.AsOf
	if got := present.Mark(&past); !strings.HasSuffix(got, "was off") {
		t.Errorf("the mark %q", got)
	}
}

// What else is known of a node does not part it from those that wait for the same reason.
func TestSameCauseIsOneGroup(t *testing.T) {
	now := time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	silent := func(name string, minutes time.Duration) site.NodeStatus {
		return site.NodeStatus{Name: name, State: site.Retrying, Reason: "the BMC does not answer; see `slipway why " + name + "`", Since: now.Add(-minutes * time.Minute), Power: "on"}
	}
	a, b, c := silent("a", 1), silent("b", 3), silent("c", 2)
	b.Findings, c.Power = []site.Finding{{Message: "4 of 8 modules"}}, "off"
	other := site.NodeStatus{Name: "d", State: site.Stalled, Reason: a.Reason}
	groups := present.Grouped([]site.NodeStatus{a, b, c, other}, false)
	if len(groups) != 2 || len(groups[0]) != 3 || groups[0][0].Name != "b" {
		t.Errorf("got %v", groups)
	}
}

// Nodes that are shown as one lose nothing that each alone would say.
func TestGroupHidesNothing(t *testing.T) {
	now := time.Date(2026, 3, 9, 12, 0, 0, 0, time.Local)
	node := func(change func(*site.NodeStatus)) site.NodeStatus {
		n := site.NodeStatus{Name: "n", State: site.Retrying, Reason: "no answer"}
		change(&n)
		return n
	}
	again := func(minutes time.Duration) site.NodeStatus {
		return node(func(n *site.NodeStatus) { n.Retry = now.Add(minutes * time.Minute) })
	}
	detail := func(text string) site.NodeStatus { return node(func(n *site.NodeStatus) { n.Detail = text }) }
	stale := node(func(n *site.NodeStatus) {
		n.Stale = map[site.Facet]time.Time{site.FacetPower: now.Add(-time.Hour)}
	})
	for want, group := range map[string][]site.NodeStatus{
		"no answer":                                                 {detail(""), detail("")},
		"no answer (again at 12:01:00)":                             {again(1), again(1)},
		"no answer (again from 12:01:00 to 12:05:00)":               {again(5), again(1)},
		"no answer (1 again at 12:05:00)":                           {again(5), again(-1)},
		"no answer (40 % done)":                                     {detail("40 % done"), detail("40 % done")},
		"no answer (details differ: `slipway why NODE`)":            {detail("40 % done"), detail("")},
		"no answer (1 not looked at in time)":                       {stale, detail("")},
		"no answer (2 again at 12:01:00) (1 not looked at in time)": {again(1), stale, again(1)},
	} {
		if got := present.GroupReason(group, now); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
