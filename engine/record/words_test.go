package record

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/bios"
	"github.com/slipway-gitops/slipway/engine/site"
)

// termsOf are those of a machine of some model: their registry is too large for a
// record.
func termsOf(model int, shown ...string) *bios.Terms {
	t := &bios.Terms{Makers: []string{"Contoso"}, Shown: shown, Registry: bios.Registry{Sum: fmt.Sprint("r", model), Attributes: map[string]bios.Attribute{}}}
	for i := range 2000 {
		t.Registry.Attributes[fmt.Sprint("Attribute", i)] = bios.Attribute{Type: "Enumeration", Choices: []bios.Choice{{Name: fmt.Sprint("Model", model)}}}
	}
	return t
}

func named(t *bios.Terms) site.Observed {
	return site.Observed{Facets: map[site.Facet]site.FacetState{
		site.FacetBIOS: {Have: site.Values{"Attribute1": "x"}, Terms: t.Digest(), Words: t, Seen: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)},
	}}
}

// TestWordsAreKeptOnce holds that what machines call their settings is there again
// after a restart, shared, and goes when no machine has it any more.
func TestWordsAreKeptOnce(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	count := func(terms, registries, files int) {
		t.Helper()
		if n, m := s.count(t, "/slipway/v1/berlin/terms/"), s.count(t, "/slipway/v1/berlin/registries/"); n != terms || m != registries {
			t.Errorf("%d terms and %d registries, want %d and %d", n, m, terms, registries)
		}
		all, err := os.ReadDir(s.files())
		must(t, err)
		if len(all) != files {
			t.Errorf("%d files, want %d", len(all), files)
		}
	}
	for i := range 10 {
		must(t, b.PutNode(ctx, fmt.Sprint("n", i), recorded(i)))
		b.Observe(fmt.Sprint("n", i), named(termsOf(i%2, "Attribute1", fmt.Sprint("Attribute", i%2+2))))
	}
	b.Observe("n9", named(termsOf(1, "Attribute1"))) // one of a kind
	must(t, b.Flush(ctx))
	count(3, 2, 2)
	for range 2 {
		var snap Snapshot
		s, b, snap = reopen(t, s, "berlin")
		one, same2 := snap.Nodes["n0"].Observed.Facets[site.FacetBIOS], snap.Nodes["n2"].Observed.Facets[site.FacetBIOS]
		if one.Words == nil || one.Words != same2.Words || one.Words.Digest() != one.Terms {
			t.Errorf("n0 has %p, n2 %p", one.Words, same2.Words)
		}
		same(t, "registry", one.Words.Registry, termsOf(0).Registry)
		must(t, b.Flush(ctx))
		count(3, 2, 2)
	}
	for i := range 10 {
		b.Observe(fmt.Sprint("n", i), named(termsOf(0, "Attribute1")))
	}
	must(t, b.Flush(ctx))
	count(1, 1, 1)
	for i := range 10 {
		must(t, b.DeleteNode(ctx, fmt.Sprint("n", i)))
	}
	s, _, _ = reopen(t, s, "berlin") // before a flush
	defer func() { must(t, s.Close()) }()
	count(0, 0, 0)
}

// TestSettingsOfBefore holds that settings that were recorded with what a design
// asked for are as if never seen, and the rest is not.
func TestSettingsOfBefore(t *testing.T) {
	s := open(t, t.TempDir())
	b, ctx := s.Site("berlin"), t.Context()
	fill(t, b, 1)
	for i, much := range []string{"x", strings.Repeat("x", maxValue)} {
		name := fmt.Sprint("old", i)
		must(t, b.PutNode(ctx, name, recorded(i)))
		must(t, b.putBytes(ctx, observedKey(name), fmt.Appendf(nil, `{"identity": {"serial": "S1"}, "facets": {"power": {"have": {"state": "on"}, "want": {"state": "on"}},
			"bios": {"have": {"LogicalProc": %q}, "want": {"LogicalProc": "Disabled"}, "asked": {"smt": "false"}, "offers": {"smt=true": {}}}}}`, much)))
	}
	_, err := s.kv.Put(ctx, versionKey, "3")
	must(t, err)
	for range 2 {
		var snap Snapshot
		s, _, snap = reopen(t, s, "berlin")
		for i := range 2 {
			got := snap.Nodes[fmt.Sprint("old", i)].Observed
			if _, seen := got.Facets[site.FacetBIOS]; seen || got.Facets[site.FacetPower].Have["state"] != "on" || got.Identity.Serial != "S1" {
				t.Errorf("old%d: got %+v", i, got)
			}
		}
		if len(snap.Nodes["n00000"].Observed.Facets) == 0 {
			t.Error("another observation is lost")
		}
	}
	must(t, s.Close())
}
