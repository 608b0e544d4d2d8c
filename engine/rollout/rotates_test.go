package rollout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// rotates is a step that replaces a derived password.
var rotates = site.Step{Facet: site.FacetAccounts, Action: site.ActionAccounts, Impact: site.ImpactOnline, Rotates: []string{"slipway"}}

func rotate(n *rollout.Node) {
	n.Design.BMC.Accounts = map[string]site.BMCAccount{"slipway": {Credential: "bmc-own"}}
	n.Design.References.Derived = map[string]site.Derived{"bmc-own": {Account: "slipway", Epoch: 2}}
	n.Accounts = map[string]site.AccountUse{"slipway": {ProvenAs: site.Derived{Account: "slipway", Epoch: 1}}}
	n.Rotates, n.Seen = true, true
}

// accepts has a node accept the password that its design has.
func accepts(n *rollout.Node) {
	n.State = site.InSync
	n.Accounts = map[string]site.AccountUse{"slipway": {ProvenAs: n.Design.References.Derived["bmc-own"]}}
}

// rotating has the nodes of a rollout replace the derived password of slipway.
func rotating() (*rollout.Facts, rollout.ByName) {
	f, all := rolling()
	for _, name := range f.Rollout.Nodes {
		rotate(all[name])
	}
	return f, all
}

// Where derived passwords are replaced, one machine goes first, also where the design has no canaries; then the other
// canaries, then the rest, each within the bounds.
func TestOneMachineGetsItsPasswordFirst(t *testing.T) {
	online := site.Step{Facet: site.FacetAccounts, Action: site.ActionAccounts, Impact: site.ImpactOnline}
	f, all := rotating()
	all["a1"].Blind = true // it does not answer, and must not keep the others waiting
	f.Site.Rollout.Canaries = nil
	f.Rollout.Canaries = f.ChooseCanaries(f.Rollout.Nodes)
	if got := strings.Join(f.Rollout.Canaries, " "); got != "a2" {
		t.Fatalf("%q goes first", got)
	}
	if r := f.Order(try(all["a2"], rotates)); r != nil {
		t.Errorf("the first waits: %+v", r)
	}
	r, waits := f.Order(try(all["b1"], rotates)).(*rollout.Canaries)
	if !waits || r.Verdict(f).Sentence != "it waits for a2, which goes first, to be in-sync" {
		t.Fatalf("the others: %+v", r)
	}
	if r := f.Order(try(all["b1"], online)); r != nil {
		t.Errorf("another change waits: %+v", r)
	}
	accepts(all["a2"])
	f.Rollout.Proven = f.Now
	if r := f.Order(try(all["b1"], rotates)); r != nil {
		t.Errorf("once the first has it: %+v", r)
	}

	// Of designed canaries the first goes first.
	f, all = rotating()
	f.Site.Rollout.Canaries.Count = 2
	f.Rollout.Canaries = f.ChooseCanaries(f.Rollout.Nodes)
	first, second := f.Rollout.Canaries[0], f.Rollout.Canaries[1]
	if r := f.Order(try(all[first], rotates)); r != nil {
		t.Errorf("the first canary waits: %+v", r)
	}
	if r, waits := f.Order(try(all[second], rotates)).(*rollout.Password); !waits || r.Verdict(f).Sentence != "it waits for "+first+", which goes first, to accept the new password of slipway" {
		t.Errorf("the second canary: %+v", r)
	}
	if r := f.Order(try(all[second], online)); r != nil {
		t.Errorf("another change of the second canary waits: %+v", r)
	}
	accepts(all[first])
	if r := f.Order(try(all[second], rotates)); r != nil {
		t.Errorf("the second canary, once the first has it: %+v", r)
	}

	// It takes a place like a disruption does.
	f, all = world()
	all["b1"].Disrupts, all["b2"].Disrupts = true, true
	if f.Room(try(all["a1"], rotates)) == nil || f.Room(try(all["a1"], online)) != nil {
		t.Error("a password is replaced without a place, or another change of accounts takes one")
	}
}

// One machine goes first however the canaries are: as many as there are nodes, some that have no derived password, none that a
// selector matches, and none as all but one node joined since.
func TestOneMachineGetsItsPasswordFirstWhateverTheCanaries(t *testing.T) {
	free := func(f *rollout.Facts, all rollout.ByName) (names []string) {
		for _, name := range f.Rollout.Nodes {
			if n := all[name]; n.Rotates && f.Order(try(n, rotates)) == nil {
				names = append(names, name)
			}
		}
		return names
	}
	t.Run("as many as nodes", func(t *testing.T) {
		f, all := rotating()
		f.Site.Rollout.Canaries.Count = len(f.Rollout.Nodes)
		f.Rollout.Canaries = f.ChooseCanaries(f.Rollout.Nodes)
		if got := free(f, all); len(got) != 1 {
			t.Fatalf("%v go at once", got)
		}
		accepts(all[free(f, all)[0]])
		if got := free(f, all); len(got) != len(f.Rollout.Nodes) {
			t.Errorf("once one has accepted it: %v", got)
		}
	})
	t.Run("without a derived password", func(t *testing.T) {
		f, all := rotating()
		all["a1"].Rotates = false
		f.Rollout.Canaries = f.ChooseCanaries(f.Rollout.Nodes)
		if got := f.Rollout.Canaries; len(got) != 1 || !all[got[0]].Rotates {
			t.Errorf("%v goes first", got)
		}
	})
	t.Run("none is matched", func(t *testing.T) {
		f, all := rotating()
		f.Rollout.Canaries = nil
		if got := free(f, all); len(got) != 1 {
			t.Errorf("%v go at once", got)
		}
	})
	t.Run("others join", func(t *testing.T) {
		f, all := rolling()
		f.Site.Rollout.Canaries = nil
		f.Rollout.Nodes = f.Rollout.Nodes[:1]
		first := f.Rollout.Nodes[0]
		rotate(all[first])
		f.Rollout.Canaries = f.ChooseCanaries(f.Rollout.Nodes)
		all[first].InHand = true
		for name, n := range all {
			if name == first {
				continue
			}
			rotate(n)
			if f.AllBecomeCanaries(n) {
				f.Rollout.Canaries = f.Rollout.Nodes
			}
			f.Rollout.Nodes = append(f.Rollout.Nodes[:len(f.Rollout.Nodes):len(f.Rollout.Nodes)], name)
			n.Part = rollout.Pending
			if f.Order(try(n, rotates)) == nil {
				t.Errorf("%s joined, and rotates while %s is not proven", name, first)
			}
		}
		accepts(all[first])
		if got := free(f, all); len(got) != len(f.Rollout.Nodes) {
			t.Errorf("once %s has accepted it: %v", first, got)
		}
	})
	t.Run("the first has failed, or waits for a person", func(t *testing.T) {
		for _, part := range []rollout.Part{rollout.Failed, rollout.Resting} {
			f, all := rotating()
			f.Rollout.Canaries = nil
			all["a1"].Part = part
			if got := free(f, all); len(got) == 0 || got[len(got)-1] != "a2" {
				t.Errorf("part %v: %v", part, got)
			}
		}
	})
	t.Run("another epoch or form was accepted", func(t *testing.T) {
		for _, as := range []site.Derived{{Account: "slipway", Epoch: 3}, {Account: "slipway", Epoch: 2, Form: "ipmi-1.5"}} {
			f, all := rotating()
			f.Rollout.Canaries = nil
			all["b2"].Accounts = map[string]site.AccountUse{"slipway": {ProvenAs: as}}
			if got := free(f, all); len(got) != 1 {
				t.Errorf("%+v: %v go at once", as, got)
			}
		}
	})
}

// One commit changes the firmware settings and raises the epoch: the nodes whose settings are being changed do not replace their
// passwords all at once, before one has accepted its own.
func TestNodesInHandDoNotRotateAtOnce(t *testing.T) {
	f, all := rotating()
	f.Site.Rollout.Canaries = nil
	f.Rollout.Canaries = f.ChooseCanaries(f.Rollout.Nodes)
	bios := site.Step{Facet: site.FacetBIOS, Action: site.ActionBIOS, Impact: site.ImpactReboot}
	var free []string
	for _, name := range f.Rollout.Nodes {
		if r := f.Order(try(all[name], bios)); r != nil {
			t.Fatalf("%s waits with its settings: %+v", name, r)
		}
		all[name].InHand = true // the settings were begun
	}
	for _, name := range f.Rollout.Nodes {
		if f.Order(try(all[name], rotates)) == nil {
			free = append(free, name)
		}
	}
	if len(free) != 1 {
		t.Errorf("%v go at once", free)
	}
}

// Of the nodes that replace their passwords one is chosen that can show whether the new one is right: none that has failed, and
// one that does not answer, or is in quarantine, only after the others.
func TestWhoShowsWhetherThePasswordIsRight(t *testing.T) {
	for name, c := range map[string]struct {
		change func(rollout.ByName)
		want   string
	}{
		"by name":                 {func(rollout.ByName) {}, "a1"},
		"in quarantine":           {func(all rollout.ByName) { all["a1"].Quarantined = true }, "a2"},
		"it does not answer":      {func(all rollout.ByName) { all["a1"].Blind = true }, "a2"},
		"nobody has looked at it": {func(all rollout.ByName) { all["a1"].Blind, all["a1"].Seen = true, false }, "a1"},
		"the others replace none": {func(all rollout.ByName) { all["a1"].Rotates, all["a2"].Rotates = false, false }, "a3"},
		"the only ones have failed": {func(all rollout.ByName) {
			for name, n := range all {
				n.Rotates = name == "a1"
			}
			all["a1"].Part = rollout.Failed
		}, ""},
	} {
		f, all := rotating()
		f.Site.Rollout.Canaries = nil
		c.change(all)
		if got := strings.Join(f.ChooseCanaries(f.Rollout.Nodes), " "); got != c.want {
			t.Errorf("%s: %q goes first, want %q", name, got, c.want)
		}
	}
}

// A node in hand, too, waits for the one that goes first, and is woken by it.
func TestNodeInHandWaitsForTheFirst(t *testing.T) {
	f, all := rotating()
	f.Site.Rollout.Canaries, f.Rollout.Canaries = nil, []string{"a1"}
	all["b1"].InHand = true
	r, waits := f.Order(try(all["b1"], rotates)).(*rollout.Canaries)
	if !waits {
		t.Fatalf("it waits for %+v", r)
	}
	want := "it waits for a1, which goes first, to be in-sync; a1 is progressing; a1 coming in-sync"
	if got := said(f, r); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if v := r.Verdict(f); !slices.Equal(v.For, []string{"a1"}) {
		t.Errorf("it waits for %v", v.For)
	}
}

// Where nobody goes first nobody has to soak.
func TestWithoutCanariesAllHaveSoaked(t *testing.T) {
	f, _ := rolling()
	f.Site.Rollout.Canaries, f.Rollout.Canaries = nil, nil
	if !f.HaveSoaked() {
		t.Error("the others wait for canaries that there are not")
	}
}

// Epoch 2 was offered on some nodes and is not proven; the design has epoch 3 now.
func TestOldOffersDoNotPassTheOrder(t *testing.T) {
	f, all := rotating()
	f.Site.Rollout.Canaries, f.Rollout.Canaries = nil, nil
	hangs := site.AccountUse{Proven: "a", ProvenAs: site.Derived{Account: "slipway", Epoch: 1}, Offered: "b", OfferedAs: site.Derived{Account: "slipway", Epoch: 2}, OfferedDenied: true, ProvenDenied: true}
	for _, name := range f.Rollout.Nodes {
		all[name].Design.References.Derived = map[string]site.Derived{"bmc-own": {Account: "slipway", Epoch: 3}}
	}
	all["a1"].Accounts, all["a2"].Accounts = map[string]site.AccountUse{"slipway": hangs}, map[string]site.AccountUse{"slipway": hangs}
	var free []string
	for _, name := range f.Rollout.Nodes {
		if f.Order(try(all[name], rotates)) == nil {
			free = append(free, name)
		}
	}
	if len(free) != 1 {
		t.Errorf("%v go at once", free)
	}
	all["a1"].Part, all["a2"].Part = rollout.Resting, rollout.Resting
	all["a1"].State, all["a2"].State = site.Stalled, site.Stalled
	if r := f.Order(try(all["a3"], rotates)); r != nil {
		t.Errorf("a3 waits for who waits for a person: %s", r.Verdict(f).Sentence)
	}
}

// Where no password is replaced, a machine that does not answer goes first, as it is out of service already, and nothing
// else changes who goes first.
func TestWithoutPasswordsTheLostGoFirst(t *testing.T) {
	f, all := rolling()
	f.Site.Rollout.Canaries = &site.Canaries{Count: 1}
	nodes := f.Rollout.Nodes
	last := nodes[len(nodes)-1]
	all[last].Seen, all[last].Blind = true, true
	if got := strings.Join(f.ChooseCanaries(nodes), " "); got != last {
		t.Errorf("%q goes first, and %s is out of service", got, last)
	}
}
