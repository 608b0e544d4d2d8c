package watch

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/slipway-gitops/slipway/engine/site"
)

// compromised is a site with an incident that waits, one that Slipway acts on and one that is over.
func compromised() site.Report {
	r := berlin()
	since := noon.Add(-2 * time.Hour)
	old := site.Identity{UUID: "5e1d1c5a-0000-4000-8000-000000000001"}
	r.Status.Nodes[0].Machine = old
	r.Status.Nodes[0].Quarantined = &site.Hold{By: "ana", Reason: "incident shell: root shell seen", Since: since}
	r.Status.Nodes[3].Quarantined = &site.Hold{By: "ana", Reason: "incident shell: root shell seen", Since: since}
	r.Status.Incidents = []site.IncidentState{
		{
			Name: "shell", ID: "shell-1f0a", Incident: site.Incident{Nodes: []string{"compute-4", "was-1", "storage-1"}, Since: since, Reason: "root shell seen"}, Found: since, Acted: since,
			Nodes: map[string]site.IncidentNode{
				"compute-4": {Power: "not proven off: the BMC does not answer"},
				"was-1":     {Machine: old, Off: since, Power: "power seen off at 2026-03-09T10:00:00Z"},
				"storage-1": {Off: since, Released: noon, ReleasedBy: "bob", Power: "power seen off at 2026-03-09T10:00:00Z; released at 2026-03-09T12:00:00Z by bob"},
			},
			Exposed: []site.Exposed{{Secret: "credential bmc"}, {Secret: "credential root"}},
		},
		{Name: "many", ID: "many-77c2", Incident: site.Incident{Nodes: []string{"compute-1", "compute-2"}, Reason: "keys on a paste site"}, Found: since, Waits: []string{"it names 2 nodes, more than 1", "it came by a commit"}},
		{Name: "over-now", ID: "over-now-9d3b", Incident: site.Incident{Nodes: []string{"storage-2"}}, Found: since, Acted: since, Nodes: map[string]site.IncidentNode{"storage-2": {Released: noon}}},
	}
	return r
}

// Every page says at its head which incidents are not over, those that wait for a person first.
func TestIncidentsAreOnEveryPage(t *testing.T) {
	for _, keys := range [][]string{nil, {"2"}, {"2", "enter"}, {"3"}, {"4"}, {"5"}, {"6"}, {"?"}, {"P"}} {
		text := opened(t, compromised()).keys(keys...).text()
		waits, acts := strings.Index(text, "INCIDENT many: waits for a person: slipway compromise --confirm many-77c2"), strings.Index(text, "INCIDENT shell: 2 of 3 seen off")
		if waits < 0 || acts < waits {
			t.Errorf("%v:\n%s", keys, text)
		}
		if strings.Contains(text, "over-now") {
			t.Errorf("%v: shows an incident that is over:\n%s", keys, text)
		}
	}
	v := opened(t, compromised())
	v.tell(tea.WindowSizeMsg{Width: 50, Height: 9})
	if text := v.text(); !strings.Contains(text, "INCIDENT many") {
		t.Errorf("a small terminal:\n%s", text)
	}
	r := compromised()
	for _, name := range []string{"a", "b", "c", "d"} {
		r.Status.Incidents = append(r.Status.Incidents, site.IncidentState{Name: name})
	}
	if text := opened(t, r).text(); !strings.Contains(text, "4 more incidents: press 1") {
		t.Errorf("those that are not shown are not counted:\n%s", text)
	}
}

// The overview says what waits and why, what is proven, and the commands.
func TestOverviewOfIncidents(t *testing.T) {
	v := opened(t, compromised())
	v.tell(tea.WindowSizeMsg{Width: 100, Height: 40})
	v.golden("incidents")
	if long := strings.Repeat("0123456789 ", 15) + "end"; !strings.Contains(opened(t, reasoned(long)).oneLine(), long) {
		t.Error("a long reason is not shown whole")
	}
	v.keys("2", "j", "j", "j", "enter")
	v.golden("incident-node")
}

// The daemon refuses a release that does not name the incident, so the view asks no question that it cannot keep.
func TestReleaseUnderAnIncident(t *testing.T) {
	for _, c := range []struct{ keys, says []string }{
		{[]string{"/", "'compute-4", "enter", "l"}, []string{"`slipway release compute-4 --incident shell`", "`slipway incident shell`"}},
		{[]string{"/", "'compute-1", "enter", "l"}, []string{"`slipway release compute-1 --incident shell`"}}, // its machine had another name
		{[]string{"L"}, []string{"`slipway release NODE --incident shell`"}},
	} {
		v := opened(t, compromised())
		v.tell(tea.WindowSizeMsg{Width: 300, Height: 40})
		v.keys(c.keys...)
		if v.ask != nil {
			t.Errorf("%v: asks:\n%s", c.keys, v.text())
		}
		for _, says := range append(c.says, "othing was sent") {
			if !strings.Contains(v.said, says) {
				t.Errorf("%v: %q has no %q", c.keys, v.said, says)
			}
		}
	}
	for _, keys := range [][]string{{"/", "'storage-1", "enter", "l"}, {"/", "'compute-2", "enter", "l"}} { // released, and still waiting
		if v := opened(t, compromised()).keys(keys...); v.ask == nil {
			t.Errorf("%v: refused: %s", keys, v.said)
		}
	}
	v := opened(t, berlin()).keys("L")
	v.tell(reported{compromised()})
	v.keys("enter")
	if len(v.daemon.orders) != 0 || !strings.Contains(v.said, "--incident shell") {
		t.Errorf("sent %v: %s", v.daemon.orders, v.said)
	}
}

// reasoned is a site with an incident of a reason.
func reasoned(reason string) site.Report {
	r := compromised()
	r.Status.Incidents = r.Status.Incidents[1:2]
	r.Status.Incidents[0].Incident.Reason = reason
	return r
}
