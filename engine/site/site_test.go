package site_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

func TestIdentityMatches(t *testing.T) {
	seen := site.Identity{UUID: "u1", Serial: "s1"}
	for _, c := range []struct {
		name     string
		designed site.Identity
		want     bool
	}{
		{"both", site.Identity{UUID: "u1", Serial: "s1"}, true},
		{"UUID alone", site.Identity{UUID: "u1"}, true},
		{"serial alone", site.Identity{Serial: "s1"}, true},
		{"another UUID", site.Identity{UUID: "u2", Serial: "s1"}, false},
		{"another serial", site.Identity{UUID: "u1", Serial: "s2"}, false},
	} {
		if got := c.designed.Matches(seen); got != c.want {
			t.Errorf("%s: matches = %t, want %t", c.name, got, c.want)
		}
	}
	if (site.Identity{UUID: "u1"}).Matches(site.Identity{}) {
		t.Error("a designed UUID matches a machine that tells none")
	}
}

func TestDigestOfASetIsFreeOfOrder(t *testing.T) {
	a := site.Loss{Node: "a", Machine: site.Identity{UUID: "u1"}, Action: "install generation 1", Lost: "everything"}
	b := site.Loss{Node: "b", Machine: site.Identity{UUID: "u2"}, Action: "install generation 1", Lost: "everything"}
	if x, y := (site.Losses{a, b}).Digest(), (site.Losses{b, a}).Digest(); x != y {
		t.Errorf("digests differ with the order: %s, %s", x, y)
	}
	other := b
	other.Machine.UUID = "u3"
	if (site.Losses{a, b}).Digest() == (site.Losses{a, other}).Digest() {
		t.Error("another machine has the same digest")
	}
	if (site.Losses{a, b}).Contains(other) {
		t.Error("the set contains a loss on another machine")
	}
}

// A design asks for a facet of many parts as soon as it has one of them; what only
// could hold parts asks for nothing.
func TestWhatADesignAsksFor(t *testing.T) {
	for _, c := range []struct {
		name  string
		node  site.Node
		facet site.Facet
		asks  bool
	}{
		{"nothing", site.Node{}, site.FacetBase, false},
		{"no time servers", site.Node{System: site.System{Time: site.Time{Servers: []string{}}}}, site.FacetBase, false},
		{"a time zone", site.Node{System: site.System{Time: site.Time{Zone: "UTC"}}}, site.FacetBase, true},
		{"logs", site.Node{System: site.System{Logs: site.Logs{Forward: []string{"tls://logs:6514"}}}}, site.FacetBase, true},
		{"a user elsewhere", site.Node{System: site.System{Users: map[string]site.User{"u": {}}}}, site.FacetConfig, false},
		{"no packages", site.Node{System: site.System{Packages: map[string]site.Package{}}}, site.FacetPackages, false},
		{"a VLAN", site.Node{References: site.References{Links: map[string]item.Link{"v": {Kind: "vlan"}}}}, site.FacetNetwork, true},
		{"no kernel parameters", site.Node{Kernel: site.Kernel{Parameters: map[string]any{}}}, site.FacetKernel, false},
		{"a kernel", site.Node{Kernel: site.Kernel{Package: "linux"}}, site.FacetKernel, true},
		{"kernel parameters", site.Node{Kernel: site.Kernel{Parameters: map[string]any{"quiet": true}}}, site.FacetKernel, true},
		{"power", site.Node{Power: "on"}, site.FacetPower, true},
		{"no boot order", site.Node{}, site.FacetBoot, false},
	} {
		if want := c.node.Want(c.facet); c.node.Asks(c.facet) != c.asks || (want != nil) != c.asks {
			t.Errorf("%s: asks for %s is %t, with %v; want %t", c.name, c.facet, c.node.Asks(c.facet), want, c.asks)
		}
	}
}

func TestMergeKeepsWhatWasNotLookedAt(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	old := site.Observed{
		Identity: site.Identity{UUID: "u1"}, Marker: &site.Marker{Generation: 1},
		Facets: map[site.Facet]site.FacetState{site.FacetOS: {Seen: early}, site.FacetPower: {Have: site.Values{"state": "off"}, Seen: early}},
	}
	got := old.Merge(site.Observed{Facets: map[site.Facet]site.FacetState{site.FacetPower: {Have: site.Values{"state": "on"}, Seen: late}}})
	if got.Marker == nil || got.Identity.UUID != "u1" || !got.Facets[site.FacetOS].Seen.Equal(early) {
		t.Errorf("merged = %+v", got)
	}
	if got.Facets[site.FacetPower].Have["state"] != "on" || !got.Seen().Equal(late) {
		t.Errorf("power = %+v, seen %s", got.Facets[site.FacetPower], got.Seen())
	}
	if old.Facets[site.FacetPower].Have["state"] != "off" {
		t.Error("merging changed the older observation")
	}
}

func TestImpactReadsWhatItWrites(t *testing.T) {
	for i := site.ImpactNone; i <= site.ImpactDestructive; i++ {
		text, err := json.Marshal(i)
		if err != nil {
			t.Fatal(err)
		}
		var back site.Impact
		if err := json.Unmarshal(text, &back); err != nil || back != i {
			t.Errorf("%s came back as %s, %v", i, back, err)
		}
	}
	var i site.Impact
	if err := json.Unmarshal([]byte(`"harmless"`), &i); err == nil {
		t.Error("an unknown impact was read")
	}
}

func FuzzOrigin(f *testing.F) {
	f.Add("nodes.cue", 3, 9, "node/n1")
	f.Add("a:b c.cue", 1, 1, "")
	f.Add(" ", 0, -1, "site")
	f.Fuzz(func(t *testing.T, file string, line, col int, layer string) {
		if strings.Contains(layer, " ") {
			return // the names in layers have none
		}
		o := site.At(file, line, col, layer)
		text, err := o.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back site.Origin
		if err := back.UnmarshalText(text); err != nil || back != o {
			t.Errorf("%q came back as %q, %v", text, back, err)
		}
	})
}

func TestImageOfANode(t *testing.T) {
	const own, shared = "own", "shared"
	for _, c := range []struct {
		name            string
		image           site.Image
		wantURL, digest string
	}{
		{"one file for all", site.Image{URL: "http://h/x.iso", SHA256: shared}, "http://h/x.iso", shared},
		{"one file, and another digest for the node", site.Image{URL: "http://h/x.iso", SHA256: shared, Digests: map[string]string{"n1": own}}, "http://h/x.iso", own},
		{"one file, and a digest for another node", site.Image{URL: "http://h/x.iso", SHA256: shared, Digests: map[string]string{"n2": own}}, "http://h/x.iso", shared},
		{"a file for each node", site.Image{URL: "http://h/{node}/{generation}.iso", Digests: map[string]string{"n1": own}}, "http://h/n1/2.iso", own},
		{"a digest that fits no file of a node", site.Image{URL: "http://h/{node}.iso", SHA256: shared}, "http://h/n1.iso", ""},
		{"a digest that fits no file of a generation", site.Image{URL: "http://h/{generation}.iso", SHA256: shared}, "http://h/2.iso", ""},
		{"no digest for this node", site.Image{URL: "http://h/{node}.iso", Digests: map[string]string{"n2": own}}, "http://h/n1.iso", ""},
	} {
		before := c.image.URL
		if its := c.image.For("n1", 2); its.URL != c.wantURL || its.SHA256 != c.digest || its.Digests != nil {
			t.Errorf("%s: got %+v, want %s with digest %q", c.name, its, c.wantURL, c.digest)
		}
		if c.image.URL != before {
			t.Errorf("%s: the image itself has changed", c.name)
		}
	}
}
