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
	if h := e.mayLeave(w); h == nil || !strings.Contains(h.sentence, "quarantined by ann") || h.asks.text != "" {
		t.Errorf("its removal is held by %+v", h)
	}
	w.memory.Recorded.Quarantined = nil
	if h := e.mayLeave(w); h != nil {
		t.Errorf("after the release its removal is held by %+v", h)
	}
}
