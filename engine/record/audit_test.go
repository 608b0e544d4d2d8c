package record

import (
	"fmt"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Attempts are read again after a restart, in their order, with what came of them.
func TestAudit(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	b := s.Site("berlin")
	load(t, b)
	ctx := t.Context()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	begun, err := b.AddAudit(ctx, site.AuditEntry{When: at, By: "ana", Kind: "person", From: "192.0.2.7", Verb: "pause", Node: "n1", Outcome: site.AuditBegun})
	must(t, err)
	denied := site.AuditEntry{When: at, By: "ci", Kind: "token", Verb: "pause", Outcome: site.AuditDenied}
	for range 3 {
		_, err = b.AddAudit(ctx, denied)
		must(t, err)
	}
	ended := begun
	ended.Outcome, ended.Text = site.AuditDone, "paused n1"
	must(t, b.EndAudit(ctx, ended))
	must(t, s.Close())
	s = open(t, dir)
	b = s.Site("berlin")
	load(t, b)
	all, err := b.Audit(ctx, 0)
	if err != nil || len(all) != 2 || all[0] != ended || all[1].Times != 3 || all[1].By != "ci" {
		t.Errorf("got %+v, %v", all, err)
	}
	if some, err := b.Audit(ctx, all[0].Seq); err != nil || len(some) != 1 {
		t.Errorf("after the first: %+v, %v", some, err)
	}
	before, err := b.AddAudit(ctx, site.AuditEntry{When: at.Add(-time.Hour), Verb: "retry", Outcome: site.AuditBegun}) // the clock was set back
	if err != nil || before.Seq <= all[1].Seq {
		t.Errorf("seq %d after %d, %v", before.Seq, all[1].Seq, err)
	}
}

// What is denied never makes what was done be forgotten, and both have bounds.
func TestAuditIsBounded(t *testing.T) {
	b := open(t, t.TempDir()).Site("berlin")
	load(t, b)
	ctx := t.Context()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	_, err := b.AddAudit(ctx, site.AuditEntry{When: at, By: "ana", Verb: "approve", Outcome: site.AuditBegun})
	must(t, err)
	for n := range deniedEntries + 10 {
		_, err := b.AddAudit(ctx, site.AuditEntry{When: at, By: "ci", From: fmt.Sprint(n), Verb: "approve", Outcome: site.AuditDenied})
		must(t, err)
	}
	all, err := b.Audit(ctx, 0)
	if err != nil || len(all) != deniedEntries+1 || all[0].By != "ana" || all[1].From != "10" {
		t.Errorf("%d entries, the first %+v, %v", len(all), all[:2], err)
	}
}
