package engine

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

// The ledger goes on as it was recorded. Records without one begin theirs, and may
// lack what others had where they have no design either.
func TestLedgerIsOpened(t *testing.T) {
	had := record.Book{Records: "r7", Began: time.Unix(1, 0), Claims: []string{"x"}}
	for name, c := range map[string]struct {
		change   func(*Engine, *record.Snapshot)
		begun    bool // with a name of its own
		blank    bool
		key      bool
		recorded bool
	}{
		"no records":               {func(*Engine, *record.Snapshot) {}, true, true, true, true},
		"a design, and no ledger":  {func(_ *Engine, s *record.Snapshot) { s.Accepted = &record.Accepted{} }, true, false, true, true},
		"it is there":              {func(e *Engine, s *record.Snapshot) { s.Book = had; s.Book.Key = e.Key.Public() }, false, false, true, false},
		"it is there, another key": {func(_ *Engine, s *record.Snapshot) { s.Book = had; s.Book.Key = "ed25519:x" }, false, false, true, true},
		"it is there, no key":      {func(e *Engine, s *record.Snapshot) { s.Book = had; e.Key = nil }, false, false, false, false},
		"it is there, observing":   {func(e *Engine, s *record.Snapshot) { s.Book = had; e.ObserveOnly = true }, false, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			e, _, _ := ashore(t)
			e.book = record.Book{}
			snap := record.Snapshot{Accounts: map[string]site.Account{"n1": {Records: "r7", Closed: 3}}}
			c.change(e, &snap)
			key := ""
			if c.key {
				key = e.Key.Public()
			}
			if err := e.openBook(t.Context(), snap); err != nil {
				t.Fatal(err)
			}
			b := e.book
			if (b.Records != had.Records) != c.begun || b.Records == "" || b.Blank != c.blank || b.Key != key || c.begun != b.Began.After(had.Began) || !reflect.DeepEqual(e.accounts, snap.Accounts) {
				t.Errorf("got %+v, accounts %+v", b, e.accounts)
			}
			on, err := e.Records.Book(t.Context())
			if err != nil || (on.Records != "") != c.recorded || c.recorded && (on.Records != b.Records || on.Key != b.Key) {
				t.Errorf("on record: %+v (%v)", on, err)
			}
			e.book, e.Records = record.Book{}, closed(t)
			if err := e.openBook(t.Context(), snap); c.recorded && (err == nil || !strings.HasPrefix(err.Error(), "begin the ledger: ") || e.book.Records != "") {
				t.Errorf("records that cannot be written: %v", err)
			}
		})
	}
}

// A ledger that begins anew has another name, ends what was approved, and numbers
// anew what is planned.
func TestLedgerBeginsAnew(t *testing.T) {
	for _, claim := range []string{"", "another"} {
		e, w, _ := ashore(t)
		e.book.Key, e.book.Claims = "k", []string{"own"}
		w.plan = site.NodePlan{Node: "n1", Steps: []site.Step{installOne}}
		if err := e.beginAnew(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		var claims []string
		if claim != "" {
			claims = []string{claim}
		}
		if b := e.book; b.Records == "r1" || !b.Blank || b.Key != "k" || !reflect.DeepEqual(b.Claims, claims) {
			t.Errorf("book %+v", b)
		}
		if on, err := e.Records.Book(t.Context()); err != nil || on.Records != e.book.Records {
			t.Errorf("on record: %+v (%v)", on, err)
		}
		a := e.accounts["n1"]
		if a.HasOpen() || a.Records != e.book.Records || w.memory.Account.Records != e.book.Records || w.plan.Steps[0].Records != e.book.Records ||
			a.Entries[0].Why != "another daemon acted for the site, and may have used it" || !woken(w) {
			t.Errorf("account %+v, the plan has %q", a, w.plan.Steps[0].Records)
		}
	}
}

// Records that cannot be written leave the ledger as it was.
func TestLedgerThatCannotBeginAnew(t *testing.T) {
	e, _, _ := ashore(t)
	e.Records = closed(t)
	if err := e.beginAnew(t.Context(), ""); err == nil || !strings.HasPrefix(err.Error(), "record the end of approvals: ") || e.book.Records != "r1" || !e.accounts["n1"].HasOpen() {
		t.Errorf("got %v, book %+v", err, e.book)
	}
	e.accounts = map[string]site.Account{}
	if err := e.beginAnew(t.Context(), ""); err == nil || !strings.HasPrefix(err.Error(), "start the ledger again: ") || e.book.Records != "r1" {
		t.Errorf("nothing was approved: %v, book %+v", err, e.book)
	}
}

// Records that began without others lack nothing any more once every machine of
// a design was seen.
func TestLedgerIsFilled(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Engine, *worker)
		blank  bool
		wrote  bool
	}{
		"every machine was seen":    {func(*Engine, *worker) {}, false, true},
		"it lacked nothing":         {func(e *Engine, _ *worker) { e.book.Blank = false }, false, false},
		"no design":                 {func(e *Engine, _ *worker) { e.design = nil }, true, false},
		"one was not looked at yet": {func(_ *Engine, w *worker) { w.turned = false }, true, false},
		"one does not answer":       {func(_ *Engine, w *worker) { w.blind = true }, true, false},
		"one of two does not": {func(e *Engine, w *worker) {
			e.workers["n0"] = newWorker(e, w.node, w.memory, false, func() {})
		}, true, false},
	} {
		e, w, _ := ashore(t)
		e.book.Blank, w.turned = true, true
		c.change(e, w)
		if err := e.fillBook(t.Context()); err != nil || e.isBlank() != c.blank {
			t.Errorf("%s: %v, blank %t", name, err, e.isBlank())
		}
		if on, err := e.Records.Book(t.Context()); err != nil || (on.Records != "") != c.wrote || on.Blank {
			t.Errorf("%s: on record %+v (%v)", name, on, err)
		}
	}
	e, w, _ := ashore(t)
	e.book.Blank, w.turned, e.Records = true, true, closed(t)
	if err := e.fillBook(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "record that all machines were seen: ") || !e.isBlank() {
		t.Errorf("records that cannot be written: %v", err)
	}
}

// Keys that count are those of the design, or the daemon's own where it names none.
func TestKeysThatCount(t *testing.T) {
	e, _, _ := ashore(t)
	own := e.Key
	other, err := sitekey.Create(t.TempDir() + "/other")
	if err != nil {
		t.Fatal(err)
	}
	seen := site.Identity{UUID: "u1"}
	marker := func(k *sitekey.Key) *site.Marker {
		m := site.Marker{Site: "lab", Node: "n1", Machine: seen, Generation: 1, Image: "d1", Attempt: 2}
		token, err := k.Token(m)
		if err != nil {
			t.Fatal(err)
		}
		m.Token = token
		return &m
	}
	design := e.design
	for name, c := range map[string]struct {
		change     func()
		own, other bool   // whose markers prove
		trouble    string // why what this daemon signs would not count
	}{
		"the design names none":    {func() {}, true, false, ""},
		"no design":                {func() { e.design = nil }, true, false, ""},
		"no key at all":            {func() { e.Key = nil }, false, false, ""},
		"it names this one":        {func() { e.design.Keys = []string{own.Public()} }, true, false, ""},
		"it names both":            {func() { e.design.Keys = []string{other.Public(), own.Public()} }, true, true, ""},
		"it names another":         {func() { e.design.Keys = []string{other.Public()} }, false, true, "than this daemon's, " + own.Public()},
		"it names one, and no key": {func() { e.design.Keys, e.Key = []string{own.Public()}, nil }, true, false, "slipway site import-key"},
	} {
		e.Key, e.design = own, design
		e.design.Keys = nil
		c.change()
		if e.proves(seen, marker(own)) != c.own || e.proves(seen, marker(other)) != c.other {
			t.Errorf("%s: its own proves %t, the other %t", name, e.proves(seen, marker(own)), e.proves(seen, marker(other)))
		}
		if got := e.keyTroubleLocked(); c.trouble == "" && got != "" || !strings.Contains(got, c.trouble) {
			t.Errorf("%s: trouble %q", name, got)
		}
	}
	e.Key, e.design = own, design
	e.design.Keys = nil
	unsigned := marker(own)
	unsigned.Token = ""
	if e.proves(seen, nil) || e.proves(seen, unsigned) || e.proves(site.Identity{UUID: "u2"}, marker(own)) {
		t.Error("what is not signed, or of another machine, proves an installation")
	}
}

// What a signed marker says of a node's own machine is an installation, with all
// that it tells.
func TestSignedMarkerIsAnInstallation(t *testing.T) {
	e, w, _ := ashore(t)
	seen := site.Identity{UUID: "u1"}
	keys := []string{e.Key.Public()}
	for name, c := range map[string]struct {
		change func(*site.Marker)
		proves bool
	}{
		"as it was written":  {func(*site.Marker) {}, true},
		"the highest":        {func(m *site.Marker) { m.Generation = site.MaxGeneration }, true},
		"of another node":    {func(m *site.Marker) { m.Node = "n2" }, false},
		"of no generation":   {func(m *site.Marker) { m.Generation = 0 }, false},
		"of an absurd one":   {func(m *site.Marker) { m.Generation = site.MaxGeneration + 1 }, false},
		"of another machine": {func(m *site.Marker) { m.Machine.UUID = "u2" }, false},
		"of another site":    {func(m *site.Marker) { m.Site = "elsewhere" }, false},
	} {
		m := site.Marker{Site: "lab", Node: "n1", Machine: seen, Generation: 1, Image: "d1", Attempt: 2}
		c.change(&m)
		token, err := e.Key.Token(m)
		if err != nil {
			t.Fatal(err)
		}
		m.Token = token
		i := ProvenInstallation(keys, "lab", w.node, site.Observed{Identity: seen, Marker: &m})
		if (i != nil) != c.proves {
			t.Errorf("%s: got %+v", name, i)
		}
		if i == nil {
			continue
		}
		if time.Since(i.Since) > time.Minute {
			t.Errorf("%s: since %s", name, i.Since)
		}
		i.Since = time.Time{}
		if !reflect.DeepEqual(*i, site.Installation{Generation: m.Generation, Image: "d1", Attempt: 2, Proven: true, Reported: true, Signed: true}) {
			t.Errorf("%s: got %+v", name, i)
		}
	}
	if ProvenInstallation(keys, "lab", w.node, site.Observed{Identity: seen}) != nil {
		t.Error("no marker proves an installation")
	}
}
