package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A quarantine that comes while a removal is decided holds it.
func TestRemovalWaitsForAQuarantine(t *testing.T) {
	e := New(Config{Site: "test"})
	w := &worker{e: e, name: "n1", node: &site.Node{Name: "n1"}, leaving: true}
	w.memory.Recorded = site.Recorded{Departed: &site.Departure{Revision: "r2"}, Decommissioned: time.Now(), Quarantined: &site.Hold{By: "ann"}}
	e.workers["n1"] = w
	if why := e.mayLeave(w); !strings.Contains(why, "quarantined by ann") {
		t.Errorf("its removal is held by %q", why)
	}
	w.memory.Recorded.Quarantined = nil
	if why := e.mayLeave(w); why != "" {
		t.Errorf("after the release its removal is held by %q", why)
	}
}
