package main

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// An incident of the same name can come by a commit after a person read of the other.
func TestConfirmationOfOneOfTwoIncidentsOfAName(t *testing.T) {
	a := site.IncidentState{Name: "shell", ID: strings.Repeat("a", 32), Incident: site.Incident{Nodes: []string{"n1"}}}
	b := site.IncidentState{Name: "shell", ID: strings.Repeat("b", 32), Incident: site.Incident{Nodes: []string{"n2", "n3"}}}
	_, err := awaited([]site.IncidentState{a, b}, "shell")
	for _, part := range []string{"slipway compromise --confirm " + a.ID + "` for n1", "slipway compromise --confirm " + b.ID + "` for n2, n3"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("two wait: %v; want %q", err, part)
		}
	}
	b.Acted = time.Now()
	if i, err := awaited([]site.IncidentState{b, a}, "shell"); err != nil || i.ID != a.ID {
		t.Errorf("one waits: %+v, %v", i, err)
	}
	if _, err := awaited([]site.IncidentState{b}, "shell"); err == nil || !strings.Contains(err.Error(), "waits for nothing") {
		t.Errorf("none waits: %v", err)
	}
}
