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
	all, err := b.Audit(ctx, 0, 10000)
	if err != nil || len(all) != 2 || all[0] != ended || all[1].Times != 3 || all[1].By != "ci" {
		t.Errorf("got %+v, %v", all, err)
	}
	if some, err := b.Audit(ctx, all[0].Seq, 10000); err != nil || len(some) != 1 {
		t.Errorf("after the first: %+v, %v", some, err)
	}
	before, err := b.AddAudit(ctx, site.AuditEntry{When: at.Add(-time.Hour), Verb: "retry", Outcome: site.AuditBegun}) // the clock was set back
	if err != nil || before.Seq <= all[1].Seq {
		t.Errorf("seq %d after %d, %v", before.Seq, all[1].Seq, err)
	}
}

// Nobody makes be forgotten what others did, nor with what is denied or done often what persons decided, and
// all has bounds.
func TestAuditIsBounded(t *testing.T) {
	b := open(t, t.TempDir()).Site("berlin")
	load(t, b)
	ctx := t.Context()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	add := func(e site.AuditEntry) site.AuditEntry {
		t.Helper()
		e.When = at
		e, err := b.AddAudit(ctx, e)
		must(t, err)
		return e
	}
	first := add(site.AuditEntry{By: "ana", Kind: "person", Verb: "approve", Outcome: site.AuditBegun})
	other := add(site.AuditEntry{By: "other", Kind: "token", Verb: "retry", Outcome: site.AuditBegun})
	denied := add(site.AuditEntry{By: "eve", Kind: "person", Verb: "export", Outcome: site.AuditDenied})
	early := add(site.AuditEntry{By: "ci", Kind: "token", Verb: "retry", Outcome: site.AuditBegun})
	for n := range 300 {
		add(site.AuditEntry{By: "ci", Kind: "token", Verb: "retry", Node: fmt.Sprint(n), Outcome: site.AuditBegun})
		add(site.AuditEntry{By: "ci", Kind: "token", Verb: "approve", Node: fmt.Sprint(n), Outcome: site.AuditDenied})
		add(site.AuditEntry{Kind: "nobody", From: fmt.Sprint(n), Verb: "approve", Outcome: site.AuditDenied})
	}
	early.Outcome = site.AuditDone
	must(t, b.EndAudit(ctx, early)) // it is not kept any more
	all, err := b.Audit(ctx, 0, 10000)
	if err != nil || len(all) != 3+256+256+256 || all[0] != first || all[1] != other || all[2] != denied {
		t.Errorf("%d entries, the first %+v, %v", len(all), all[:3], err)
	}
	// Two attempts in turns are counted as well.
	for range 3 {
		for _, node := range []string{"x", "y"} {
			add(site.AuditEntry{By: "eve", Kind: "person", Verb: "pause", Node: node, Outcome: site.AuditDenied})
		}
	}
	if more, err := b.Audit(ctx, all[len(all)-1].Seq, 10000); err != nil || len(more) != 2 || more[0].Times != 3 || more[1].Times != 3 {
		t.Errorf("%+v, %v", more, err)
	}
}

// A page has the entries of all rings in their order, and those before it are not read: a damaged one of
// them does no harm.
func TestAuditPages(t *testing.T) {
	s := open(t, t.TempDir())
	b := s.Site("berlin")
	load(t, b)
	ctx := t.Context()
	var seqs []uint64
	for n := range 300 {
		e, err := b.AddAudit(ctx, site.AuditEntry{When: time.Unix(1e9, 0), By: fmt.Sprint(n), Kind: []string{"person", "token", "nobody"}[n%3], From: fmt.Sprint(n), Verb: "pause", Outcome: site.AuditBegun})
		must(t, err)
		seqs = append(seqs, e.Seq)
	}
	if _, err := s.kv.Put(ctx, b.prefix+auditKey(auditRings[1].below, seqs[0]), "damaged"); err != nil {
		t.Fatal(err)
	}
	for after := 1; after < 300; after += 130 {
		page, err := b.Audit(ctx, seqs[after-1], 130)
		must(t, err)
		for i, e := range page {
			if e.Seq != seqs[after+i] {
				t.Fatalf("after %d: entry %d has the seq %d", after, i, e.Seq)
			}
		}
		if len(page) != min(130, 300-after) {
			t.Errorf("after %d: %d entries", after, len(page))
		}
	}
	if all, err := b.Audit(ctx, 0, 1); err == nil {
		t.Errorf("the damaged entry was read as %+v", all)
	}
}

// When a ring is full the oldest goes, whose ever it is.
func TestFullAuditRing(t *testing.T) {
	r := auditRing{"x/", 4, 2}
	var ring []kept
	var gone []uint64
	for n, who := range []string{"a", "a", "b", "a", "b", "c", "d"} {
		var out []uint64
		ring, out = r.with(ring, kept{uint64(n), who})
		gone = append(gone, out...)
	}
	if fmt.Sprint(ring) != "[{3 a} {4 b} {5 c} {6 d}]" || fmt.Sprint(gone) != "[0 1 2]" {
		t.Errorf("left %v, gone %v", ring, gone)
	}
}
