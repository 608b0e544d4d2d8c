package commit

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

func TestIncidentPage(t *testing.T) {
	at := time.Date(2026, 3, 1, 18, 0, 0, 0, time.UTC)
	i := site.IncidentState{
		Name: "shell", ID: "0123456789abcdef0123456789abcdef", By: "ann", Found: at, Acted: at, Held: at.Add(time.Second),
		Incident: site.Incident{Nodes: []string{"n1"}, Since: at.Add(-time.Hour), Reason: "</td><script>x</script>\n# all clear | [a](b)"},
		Nodes:    map[string]site.IncidentNode{"n1": {Power: "not proven off: the BMC does not answer since 2026-03-01T18:00:00Z"}},
		Exposed: []site.Exposed{{Secret: "credential bmc", Nodes: []string{"n1"}, Holders: []string{"n2"}, Known: []string{"n1"}, Do: "run `slipway secret set bmc`", State: site.ReplacedNot, Why: "its source | <script>"},
			{Secret: "credential os", Nodes: []string{"n1"}, Do: "nothing of this is shown", State: site.ReplacedAll, Why: "its source has another value"}},
		Ended: at, EndedBy: "ann", EndedBecause: "<script>|",
		Removed: true,
	}
	if got := incidentFile(&i); got != "incidents/shell-01234567.md" {
		t.Errorf("file %s", got)
	}
	page := string(incidentPage(&site.Status{Site: "berlin"}, &i))
	for _, part := range []string{"# Incident shell: ended by ann, secrets known to be replaced: 1 of 2", "not proven off: the BMC does not answer since", "credential bmc | n1 (recorded) | n2 | OLD VALUE: its source", "credential os | n1 (assumed: no record says so) |  | replaced: its source has another value |  |", "ended by ann", "That releases nothing", "ordered by ann"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page has no %q:\n%s", part, page)
		}
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "\n# all clear") || strings.Contains(page, "[a](b)") {
		t.Errorf("the reason is markup:\n%s", page)
	}
	revoked := site.TLSState{Name: "web", Serial: "4f3a", Names: []string{"n1.example.org"}, Until: at.Add(time.Hour), State: site.TLSRevoked}
	status := &site.Status{Site: "berlin", Nodes: []site.NodeStatus{{Name: "n1", Certificates: []site.TLSState{revoked}}, {Name: "n2", Certificates: []site.TLSState{revoked}}}}
	if page := string(incidentPage(status, &i)); !strings.Contains(page, "| n1 | web | 4f3a | n1.example.org | 2026-03-01") || strings.Contains(page, "| n2 | web") {
		t.Errorf("the certificates of its nodes alone are to be listed:\n%s", page)
	}
	i.Acted, i.Waits = time.Time{}, []string{"it came by a commit"}
	if page := string(incidentPage(&site.Status{Site: "berlin"}, &i)); !strings.Contains(page, "**Nothing was switched off.** A person has to run `slipway compromise --confirm 0123456789abcdef0123456789abcdef`") {
		t.Errorf("page of an incident that waits:\n%s", page)
	}
}
