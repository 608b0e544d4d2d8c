package engine

import (
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// What the list on a machine has after a run is ours as far as it was there before that run, is
// designed, or was asked for by it.
func TestWhichListIsBelieved(t *testing.T) {
	designs := func(names ...string) *site.Node {
		n := &site.Node{Name: "n1"}
		n.System.Sysctl = site.Scalars{}
		for _, name := range names {
			n.System.Sysctl[name] = int64(1)
		}
		return n
	}
	shows := func(digest string, names ...string) site.Observed {
		s := site.FacetState{OwnedDigest: digest, Seen: time.Unix(1, 0), Asked: map[string][]string{}}
		for _, name := range names {
			s.Owned = append(s.Owned, "sysctl."+name)
			s.Asked["sysctl."+name] = []string{""}
		}
		return site.Observed{Facets: map[site.Facet]site.FacetState{site.FacetConfig: s}}
	}
	extra := shows("2", "a")
	extra.Facets[site.FacetConfig].Asked["sysctl.a"] = []string{"", "more"}
	step := site.Step{Facet: site.FacetConfig, Action: site.ActionConfig}
	for name, c := range map[string]struct {
		recorded string
		before   site.Observed // when the step began
		node     *site.Node    // then
		after    site.Observed
		now      *site.Node
		want     string
	}{
		"what was asked for":             {"1", shows("1", "a"), designs("a", "b"), shows("2", "a", "b"), designs("a", "b"), "2"},
		"what was there before":          {"1", shows("1", "left"), designs("a"), shows("2", "a", "left"), designs("a"), "2"},
		"what left the design meanwhile": {"1", shows("1", "a"), designs("a", "b"), shows("2", "a", "b"), designs("a"), "2"},
		"what comes back":                {"1", shows("1", "a", "left"), designs("a"), shows("2", "a", "left"), designs("a"), "2"},
		"what somebody added":            {"1", shows("1", "a"), designs("a", "b"), shows("2", "a", "b", "others"), designs("a", "b"), "1"},
		"a field that somebody added":    {"1", shows("1", "a"), designs("a"), extra, designs("a"), "1"},
		"after all has left the design":  {"1", shows("1", "a"), designs(), shows("2", "others"), designs(), "1"},
		"another list before":            {"0", shows("1", "a"), designs("a"), shows("2", "a"), designs("a"), "0"},
	} {
		r := site.Recorded{Owned: site.Owned{Digest: c.recorded}}
		changesOwned(&r, c.node, step, c.before)
		noteOwned(&r, c.now, c.after)
		if r.Owned.Digest != c.want || r.Owned.Changing || len(r.Owned.Asked) > 0 {
			t.Errorf("%s: %+v, want the list %s", name, r.Owned, c.want)
		}
	}

	// The list of a system that was just installed is new: a commit since its beginning does not
	// make it another one. So is one of records of before, which do not say what was asked for.
	r := site.Recorded{Owned: ownedBy(site.Installation{ByAgent: true})}
	noteOwned(&r, designs("a"), shows("2", "a", "b"))
	if r.Owned.Digest != "2" {
		t.Errorf("after an installation: %+v", r.Owned)
	}

	// A unit that no design names is asked for by the step that disables it.
	disables := step
	disables.Changes = []site.Change{{Field: "config.unlisted.a.service", Want: "disabled"}}
	unlisted := func(name string) site.Observed {
		return site.Observed{Facets: map[site.Facet]site.FacetState{site.FacetConfig: {OwnedDigest: "2", Seen: time.Unix(1, 0),
			Owned: []string{"unlisted." + name}, Asked: map[string][]string{"unlisted." + name: {""}}}}}
	}
	for name, want := range map[string]string{"a.service": "2", "b.service": "1"} {
		r = site.Recorded{Owned: site.Owned{Digest: "1"}}
		changesOwned(&r, designs(), disables, shows("1"))
		noteOwned(&r, designs(), unlisted(name))
		if r.Owned.Digest != want {
			t.Errorf("after %s was disabled: %+v", name, r.Owned)
		}
	}

	// While a step is in flight what is asked for stays known, also of a step that went before it.
	r = site.Recorded{Owned: site.Owned{Digest: "1"}, InFlight: &site.InFlight{Step: step}}
	changesOwned(&r, designs("a", "b"), step, shows("1"))
	noteOwned(&r, designs("a"), shows("2", "a"))
	if r.Owned.Digest != "2" || !r.Owned.Changing {
		t.Errorf("in flight: %+v", r.Owned)
	}
	r.InFlight = nil
	noteOwned(&r, designs("a"), shows("3", "a", "b"))
	if r.Owned.Digest != "3" {
		t.Errorf("at its end: %+v", r.Owned)
	}
}
