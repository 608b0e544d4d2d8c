package design

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/site"
)

// differing is a line for each difference.
func differing(t *testing.T, have, want *site.Site) string {
	t.Helper()
	d, err := Compare(have, want)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, g := range d.Groups {
		fmt.Fprintf(&b, "%s %v\n", g.Layer, g.Nodes)
		for _, x := range g.Differences {
			fmt.Fprintf(&b, "  %s %s -> %s %v %v\n", x.Path, x.Have, x.Want, x.Nodes, x.Origins)
		}
	}
	for _, n := range d.Added {
		b.WriteString("added " + n + "\n")
	}
	for _, n := range d.Removed {
		b.WriteString("removed " + n + "\n")
	}
	if d.Empty() != (b.Len() == 0) {
		t.Errorf("empty is %v of: %s", d.Empty(), &b)
	}
	return b.String()
}

func TestCompare(t *testing.T) {
	const extra = "nodes: %s: {profiles: [\"fast\"], endpoints: manager: url: \"redfish+https://10.0.0.7/redfish/v1/Systems/1\", endpoints: os: _ @unset()}\n"
	for _, c := range []struct{ name, old, new, want string }{
		{"a profile, for all that do not override it", `tier: "fast"`, `tier: "quick"`,
			"profile/fast [n3]\n  labels.tier \"fast\" -> \"quick\" [n3] [site.cue:18:17]\n"},
		{"a value that goes is placed where it was", `labels: {tier: "slow", site: "s"}`, `labels: tier: "slow"`,
			"profile/base [n1 n3]\n  labels.site \"s\" ->  [n1 n3] [site.cue:13:32]\n"},
		{"a default", `endpoints: manager: credential: "lab"`, ``,
			"schema [n3]\n  endpoints.manager.credential \"lab\" -> \"bmc\" [n3] [PLACE]\n"},
		{"a node's own line", `order: ["Cd"]`, `order: ["Usb"]`,
			"node [n3]\n  boot.order [\"Cd\"] -> [\"Usb\"] [n3] [site.cue:34:16]\n"},
		{"what is no node's", `roles: compute: {}`, `roles: compute: description: "c"`,
			"site []\n  roles.compute.description  -> \"c\" [] [site.cue:3:30]\n"},
		{"an entry without content", `racks: r1: {}`, `racks: {r1: {}, r2: {}}`,
			"site []\n  racks.r2  -> {} [] [site.cue:4:17]\n"},
		{"the place alone", "racks: r1: {}", "\nracks: r1: {}", ""},
	} {
		if !strings.Contains(layered, c.old) {
			t.Fatalf("the design has no %s", c.old)
		}
		have := designOf(t, layered)
		want := designOf(t, strings.Replace(layered, c.old, c.new, 1))
		got := differing(t, have, want)
		if o := want.Nodes["n3"].Origins.Of("endpoints.manager.credential"); !o.IsZero() {
			c.want = strings.Replace(c.want, "PLACE", o.String(), 1)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: want (-), got (+):\n%s", c.name, diff)
		}
	}
	have := designOf(t, layered+fmt.Sprintf(extra, "n7"))
	want := designOf(t, layered+fmt.Sprintf(extra, "n8"))
	if got := differing(t, have, want); got != "added n8\nremoved n7\n" {
		t.Errorf("a node renamed: %s", got)
	}
}

// A line that sets a value for several nodes is one place.
func TestComparePatterns(t *testing.T) {
	want := designOf(t, layered+"nodes: [string]: labels: new: \"yes\"\n")
	got := differing(t, designOf(t, layered), want)
	if got != "node [n1 n3]\n  labels.new  -> \"yes\" [n1 n3] [site.cue:39:31]\n" {
		t.Error(got)
	}
}

// No design differs from itself, and any two designs differ both ways in the
// same values.
func TestCompareAllDesigns(t *testing.T) {
	hasOneGoroutine(t)
	var sites []*site.Site
	all := goodDesigns(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		sites = append(sites, evaluateHere(all[name], "").Site)
	}
	for _, a := range sites {
		for _, b := range sites {
			there, err := Compare(a, b)
			if err != nil {
				t.Fatal(err)
			}
			back, err := Compare(b, a)
			if err != nil {
				t.Fatal(err)
			}
			if !cmp.Equal(valuesOf(there), valuesOf(back)) || (a == b) != there.Empty() {
				t.Errorf("%s to %s: %v, back: %v", a.Name, b.Name, there, back)
			}
		}
	}
}

// valuesOf counts the differences by node and path.
func valuesOf(d Diff) map[string]int {
	all := map[string]int{}
	for _, g := range d.Groups {
		for _, x := range g.Differences {
			for _, n := range append([]string{""}, x.Nodes...) {
				if n != "" || len(x.Nodes) == 0 {
					all[n+" "+x.Path]++
				}
			}
		}
	}
	all["other nodes"] = len(d.Added) + len(d.Removed)
	return all
}

func designOf(t *testing.T, text string) *site.Site {
	t.Helper()
	r := EvaluateHere(repository(map[string]string{"site.cue": text}), "")
	if r.Site == nil {
		t.Fatal(describe(r.Findings))
	}
	return r.Site
}
