package drivertest

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// foreseeable holds that what a design asks of a machine follows from the node and from what was seen alone: a look for
// another design sees the same, and what was recorded of it means the same without the machine. So a proposal is planned
// as it will run.
func foreseeable(t *testing.T, s Suite, sub Subject) {
	m := s.open(t, sub)
	asks := asking(sub.Node)
	facets := slices.DeleteFunc(slices.Clone(s.Driver.Facets()), func(f site.Facet) bool {
		return site.IsInside(f) || slices.Contains(rarelyTold, f) // what is inside a system is looked for by name
	})
	plain, err := m.Observe(t.Context(), sub.Node, facets)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := m.Observe(t.Context(), asks, facets)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	before := sub.Counts()
	recorded := stored(t, plain)
	for _, f := range facets {
		was, is := plain.Facets[f], asked.Facets[f]
		was.Seen = is.Seen
		if !reflect.DeepEqual(was, is) {
			t.Errorf("%s: for a node that asks nothing the look saw\n%+v\nand for one that asks\n%+v", f, was, is)
		}
		want := is.Resolve(asks, f)
		if again := is.Resolve(asks, f); !reflect.DeepEqual(want, again) {
			t.Errorf("%s: the design asks for %+v, and asked again for %+v", f, want, again)
		}
		if later := recorded.Facets[f].Resolve(asks, f); !reflect.DeepEqual(want, later) {
			t.Errorf("%s: the design asks for %+v, and by the records for %+v", f, want, later)
		}
		if state := recorded.Facets[f]; state.Terms != "" {
			state.Words = nil
			if lost := state.Resolve(asks, f); !lost.Unread || lost.Want == nil {
				t.Errorf("%s: without the machine's names the design asks for %+v, want what it names, unknown until they are read", f, lost)
			}
		}
	}
	if after := sub.Counts(); after != before {
		t.Errorf("the machine was asked meanwhile: %+v, before %+v", after, before)
	}
}

// asking is the node of a design that asks something of each facet outside the system.
func asking(n *site.Node) *site.Node {
	asks, off := *n, false
	asks.Power, asks.Boot.Order = "off", []string{"Cd", "Pxe"}
	asks.BIOS = site.BIOS{SMT: &off, Virtualization: &off}
	asks.Firmware = maps.Clone(n.Firmware)
	if asks.Firmware == nil {
		asks.Firmware = map[string]site.Firmware{}
	}
	asks.Firmware["bmc"] = site.Firmware{Version: "9.9.9"}
	return &asks
}

// stored is an observation as those who plan elsewhere read it: the machine's names for its settings stand apart, by
// digest.
func stored(t *testing.T, o site.Observed) site.Observed {
	t.Helper()
	text, err := json.Marshal(site.Known{Nodes: map[string]site.Memory{"n": {Observed: o}}})
	if err != nil {
		t.Fatal(err)
	}
	var k site.Known
	if err := json.Unmarshal(text, &k); err != nil {
		t.Fatal(err)
	}
	return k.Nodes["n"].Observed
}
