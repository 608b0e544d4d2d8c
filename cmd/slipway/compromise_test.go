package main

import (
	"os"
	"path/filepath"
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

// The file of an incident is of the package of the files beside it, however they begin and end.
func TestIncidentFileIsOfThePackage(t *testing.T) {
	for _, text := range []string{"package fra\n", "// a site\n\npackage fra // Frankfurt\n", "\ufeffpackage fra\n", "package fra\r\n\r\nsite: {}\r\n"} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "site.cue"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		path, got, err := incidentFile(folder, "x", "incidents: x: {}\n")
		if want := "package fra\n\nincidents: x: {}\n"; err != nil || string(got) != want || filepath.Base(path) != "incident-x.cue" {
			t.Errorf("beside %q: %q, %q, %v, want %q", text, path, got, err, want)
		}
	}
}
