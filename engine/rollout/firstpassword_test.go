package rollout_test

import (
	"fmt"
	"testing"

	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// sent is what is recorded of an account once the password of an epoch was sent to it, and no answer is known.
func sent(epoch int) map[string]site.AccountUse {
	return map[string]site.AccountUse{"slipway": {Offered: "b", OfferedAs: site.Derived{Account: "slipway", Epoch: epoch}}}
}

// The first that can goes first, of those that have begun another change the first of them, and before all one that may have the
// new password already. Who cannot, and who needs none, lets others go, unless nobody else is left.
func TestWhoGetsItsPasswordFirst(t *testing.T) {
	each := func(change func(*rollout.Node)) func(*rollout.Facts, rollout.ByName) {
		return func(_ *rollout.Facts, all rollout.ByName) {
			for _, n := range all {
				change(n)
			}
		}
	}
	one := func(name string, change func(*rollout.Node)) func(*rollout.Facts, rollout.ByName) {
		return func(_ *rollout.Facts, all rollout.ByName) { change(all[name]) }
	}
	for name, c := range map[string]struct {
		asks   string
		change func(*rollout.Facts, rollout.ByName)
		want   string
	}{
		"the first": {"a3", func(*rollout.Facts, rollout.ByName) {}, "a1"},
		"canaries before others": {"a1", func(f *rollout.Facts, _ rollout.ByName) {
			f.Rollout.Canaries, f.Rollout.Proven = []string{"b1"}, now
			f.Site.Rollout.Canaries.Soak = 0
		}, "b1"},
		"one is gone": {"a3", func(f *rollout.Facts, _ rollout.ByName) {
			f.Rollout.Nodes = append([]string{"gone"}, f.Rollout.Nodes...)
		}, "a1"},
		"one leaves":                     {"a3", one("a1", func(n *rollout.Node) { n.Leaving = true }), "a2"},
		"one is away":                    {"a3", one("a1", func(n *rollout.Node) { n.Design.Away = "at the vendor's" }), "a2"},
		"one needs none":                 {"a3", one("a1", func(n *rollout.Node) { n.Rotates = false }), "a2"},
		"it is not known to need one":    {"a1", one("a1", func(n *rollout.Node) { n.Rotates = false }), "a1"},
		"one is in-sync":                 {"a3", one("a1", func(n *rollout.Node) { n.State = site.InSync }), "a2"},
		"in-sync with an earlier design": {"a3", one("a1", func(n *rollout.Node) { n.State, n.Outdated = site.InSync, true }), "a1"},
		"it was in-sync until now":       {"a1", one("a1", func(n *rollout.Node) { n.State = site.InSync }), "a1"},
		"one has failed":                 {"a3", one("a1", func(n *rollout.Node) { n.Part = rollout.Failed }), "a2"},
		"one waits for a person":         {"a3", one("a1", func(n *rollout.Node) { n.Part = rollout.Resting }), "a2"},
		"one is paused":                  {"a3", one("a1", func(n *rollout.Node) { n.Paused = true }), "a2"},
		"one is quarantined":             {"a3", one("a1", func(n *rollout.Node) { n.Quarantined = true }), "a2"},
		"one does not answer":            {"a3", one("a1", func(n *rollout.Node) { n.Blind = true }), "a2"},
		"one was not looked at":          {"a3", one("a1", func(n *rollout.Node) { n.Seen, n.Blind = false, true }), "a1"},
		"none answers":                   {"a3", each(func(n *rollout.Node) { n.Blind = true }), "a3"},

		"one is in hand": {"a3", one("b1", func(n *rollout.Node) { n.InHand = true }), "b1"},
		"two are in hand": {"a3", func(_ *rollout.Facts, all rollout.ByName) {
			all["b1"].InHand, all["b2"].InHand = true, true
		}, "b1"},
		"in hand, and waits for a person": {"a3", one("b1", func(n *rollout.Node) { n.InHand, n.Part = true, rollout.Resting }), "a1"},

		"one may have it": {"a3", func(_ *rollout.Facts, all rollout.ByName) {
			all["a2"].InHand, all["b1"].Accounts = true, sent(2)
		}, "b1"},
		"one may have it, and is paused":              {"a3", one("b1", func(n *rollout.Node) { n.Accounts, n.Paused = sent(2), true }), "a1"},
		"one may have it, and is quarantined":         {"a3", one("b1", func(n *rollout.Node) { n.Accounts, n.Quarantined = sent(2), true }), "a1"},
		"one may have it, and waits for a person":     {"a3", one("b1", func(n *rollout.Node) { n.Accounts, n.Part = sent(2), rollout.Resting }), "a1"},
		"one may have it, and has failed":             {"a3", one("b1", func(n *rollout.Node) { n.Accounts, n.Part = sent(2), rollout.Failed }), "a1"},
		"one may have an earlier one":                 {"a3", one("b1", func(n *rollout.Node) { n.Accounts = sent(1) }), "a1"},
		"it may have it itself and waits for someone": {"a3", one("a3", func(n *rollout.Node) { n.Accounts, n.Part = sent(2), rollout.Resting }), "a3"},
		"only the design tells that one may have it": {"a3", one("b1", func(n *rollout.Node) {
			n.Accounts = map[string]site.AccountUse{"slipway": {OfferedAs: site.Derived{Account: "slipway", Epoch: 2}}}
		}), "a1"},
		"one was denied with it": {"a3", one("b1", func(n *rollout.Node) {
			u := sent(2)["slipway"]
			u.OfferedDenied = true
			n.Accounts = map[string]site.AccountUse{"slipway": u}
		}), "a1"},

		"nobody can, nor it itself": {"a3", func(f *rollout.Facts, all rollout.ByName) {
			f.Rollout.Nodes = []string{"a1", "a3"}
			all["a1"].Part, all["a3"].Part = rollout.Failed, rollout.Failed
		}, ""},
	} {
		f, all := rotating()
		f.Rollout.Canaries = nil
		c.change(f, all)
		got := c.asks
		if r := f.Order(try(all[c.asks], rotates)); r != nil {
			p, waits := r.(*rollout.Password)
			if !waits {
				t.Errorf("%s: %s", name, said(f, r))
				continue
			}
			got = p.First
		}
		if got != c.want {
			t.Errorf("%s: %q goes first, want %q", name, got, c.want)
		}
	}
}

// A step waits for who gets its password first if it replaces a password that the rollout has not seen accepted, and if the order
// of nodes applies to it.
func TestWhatWaitsForAPassword(t *testing.T) {
	epoch := site.Derived{Account: "slipway", Epoch: 2}
	for name, c := range map[string]struct {
		change func(*rollout.Facts, rollout.ByName, *rollout.Try)
		waits  bool
	}{
		"a password":             {func(*rollout.Facts, rollout.ByName, *rollout.Try) {}, true},
		"no password":            {func(_ *rollout.Facts, _ rollout.ByName, t *rollout.Try) { t.Step.Rotates = nil }, false},
		"before the first":       {func(f *rollout.Facts, _ rollout.ByName, _ *rollout.Try) { f.Rollout = nil }, false},
		"ended":                  {func(f *rollout.Facts, _ rollout.ByName, _ *rollout.Try) { f.Rollout.Ended = now }, false},
		"no part of the rollout": {func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) { all["a3"].Part = rollout.Aside }, false},
		"drift":                  {func(_ *rollout.Facts, _ rollout.ByName, t *rollout.Try) { t.Step.Drift = true }, false},
		"it was begun":           {func(_ *rollout.Facts, _ rollout.ByName, t *rollout.Try) { t.Begun = true }, false},
		"it changes nothing":     {func(_ *rollout.Facts, _ rollout.ByName, t *rollout.Try) { t.Step.Impact = site.ImpactNone }, false},
		"one that is not derived": {func(_ *rollout.Facts, all rollout.ByName, t *rollout.Try) {
			t.Step.Rotates = []string{"other"}
			for _, n := range all {
				n.Accounts["other"] = site.AccountUse{ProvenAs: site.Derived{Account: "other", Epoch: 1}}
			}
		}, false},
		"one has accepted it": {func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) { accepts(all["b1"]) }, false},
		"who is gone has not": {func(f *rollout.Facts, _ rollout.ByName, _ *rollout.Try) {
			f.Rollout.Nodes = append([]string{"gone"}, f.Rollout.Nodes...)
		}, true},
		"one was denied with it since": {func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) {
			all["b1"].Accounts = map[string]site.AccountUse{"slipway": {ProvenAs: epoch, ProvenDenied: true}}
		}, true},
		"the machine before has accepted its own": {func(_ *rollout.Facts, all rollout.ByName, _ *rollout.Try) {
			all["b1"].Design.Identity.UUID = "8f5e7a7e"
			all["b1"].Accounts = map[string]site.AccountUse{"slipway": {ProvenAs: epoch, From: "77d1f4c2"}}
		}, true},
	} {
		f, all := rotating()
		f.Rollout.Canaries = nil
		a := try(all["a3"], rotates)
		c.change(f, all, &a)
		if r := f.Order(a); (r != nil) != c.waits {
			t.Errorf("%s: %q", name, said(f, r))
		}
	}
}

// Who waits for a password is told for whom, and is asked again once that one has accepted it.
func TestWhatIsSaidOfAPassword(t *testing.T) {
	for name, c := range map[string]struct {
		change func(rollout.ByName)
		want   string
		wakes  string
	}{
		"another goes first": {func(rollout.ByName) {},
			"it waits for a1, which goes first, to accept the new password of slipway; a1 is progressing; a1 accepting the new password of slipway",
			fmt.Sprint([]string{"a1"}, []rollout.Topic{rollout.CanariesProven, rollout.PlaceTopic("a1")})},
		"it waits for our place": {func(all rollout.ByName) { all["a1"].WaitsForPlace, all["a3"].Power = true, "off" },
			"it waits for a1, which goes first, to accept the new password of slipway; a1 waits for the place of this machine, which is out of service; a larger maxUnavailable, or `away` on this node; a person",
			fmt.Sprint([]string{"a1"}, []rollout.Topic{rollout.CanariesProven, rollout.PlaceTopic("a1")})},
		"nobody can": {func(all rollout.ByName) {
			for _, n := range all {
				n.Part = rollout.Failed
			}
		}, "no node can take the new password of slipway first; a node that can",
			fmt.Sprint([]string(nil), []rollout.Topic{rollout.CanariesProven})},
	} {
		f, all := rotating()
		f.Rollout.Canaries = nil
		c.change(all)
		r := f.Order(try(all["a3"], rotates))
		if got := said(f, r); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
			continue
		}
		if v := r.Verdict(f); fmt.Sprint(v.For, v.Waits) != c.wakes {
			t.Errorf("%s: it waits for %v, and is woken by %v; want %s", name, v.For, v.Waits, c.wakes)
		}
	}
}
