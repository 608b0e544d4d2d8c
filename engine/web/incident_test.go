package web

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A page says of an incident that machines were seen off only where they were, and has a ✓ only for those
// that are off now.
func TestIncidentVerdict(t *testing.T) {
	at := time.Now()
	off, unseen, released := site.IncidentNode{Off: at, StaysOff: true}, site.IncidentNode{}, site.IncidentNode{Released: at, ReleasedBy: "ana"}
	for name, x := range map[string]struct {
		acted time.Time
		nodes map[string]site.IncidentNode
		says  string
	}{
		"waits":                   {says: "Waits for confirmation. Nothing was switched off."},
		"off":                     {at, map[string]site.IncidentNode{"a": off, "b": off}, "2 of 2 seen off"},
		"one is not":              {at, map[string]site.IncidentNode{"a": off, "b": unseen}, "1 of 2 seen off; not proven off now: b"},
		"one is on again":         {at, map[string]site.IncidentNode{"a": off, "b": {Off: at}}, "2 of 2 seen off; not proven off now: b"},
		"one was released unseen": {at, map[string]site.IncidentNode{"a": off, "b": released}, "1 of 2 seen off"},
		"all were released":       {at, map[string]site.IncidentNode{"b": released}, "All nodes released by people"},
	} {
		if says := incidentVerdict(site.IncidentState{Acted: x.acted, Nodes: x.nodes}); says != x.says {
			t.Errorf("%s: %q, want %q", name, says, x.says)
		}
	}
}

// A machine that was seen off and is on again has no ✓.
func TestOnlyWhatIsOffIsProven(t *testing.T) {
	h := opened(t, &fleet{said: "there"})
	_, text := asked(h, "GET", "/sites/berlin/incidents?name=shell-in-rack-2", "")
	for _, part := range []string{`<td>db-2</td><td class="match good">✓ power seen off`, `<td>db-3</td><td class="match bad">? power seen off, and on again`, `<td>web-4</td><td class="match bad">? not proven off`} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q", part)
		}
	}
}
