package engine_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Records from a backup leave the site paused: they switch no machine off whose quarantine a person has ended since.
func TestImportSwitchesOffNoReleasedMachine(t *testing.T) {
	for _, kind := range []string{"a quarantine", "an incident"} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, usual, func(w *world) {
				w.commit(w.design("a", "b"))
				w.up()
				w.after(5 * time.Minute)
				release := site.Order{Verb: site.VerbRelease, Node: "a"}
				if kind == "a quarantine" {
					w.do(site.Order{Verb: site.VerbQuarantine, Node: "a", Reason: "suspicious"})
				} else {
					w.do(site.Order{Verb: site.VerbIncident, Incident: "theft", Nodes: []string{"a"}, CompromisedSince: time.Now().Add(-time.Hour), Reason: "suspicious"})
					release.Incident = "theft"
				}
				w.after(5 * time.Minute)
				var backup bytes.Buffer
				if _, err := w.store.Export(w.t.Context(), &backup); err != nil {
					t.Fatal(err)
				}
				w.do(release)
				w.after(10 * time.Minute)
				if p := w.fleet.Machine("a").Power(); p != "on" {
					t.Fatalf("a is %s after its release", p)
				}
				w.down()
				if _, err := record.Import(w.t.Context(), w.dir, &backup, true, record.Options{NoSync: true, Tick: time.Second}); err != nil {
					t.Fatal(err)
				}
				w.up()
				w.after(10 * time.Minute)
				if n := w.node("a"); !strings.Contains(n.Reason, "imported records") {
					t.Errorf("a says %q", n.Reason)
				}
				if p := w.fleet.Machine("a").Power(); p != "on" {
					t.Errorf("a is %s after the import, which leaves the site paused until a person has read its plan: %s", p, w.node("a").Reason)
				}
				w.do(site.Order{Verb: site.VerbQuarantine, Node: "a", Reason: "still suspicious"})
				w.after(5 * time.Minute)
				if p := w.fleet.Machine("a").Power(); p != "off" {
					t.Errorf("a is %s after a quarantine that a person has ordered again", p)
				}
			}, "a", "b")
		})
	}
}
