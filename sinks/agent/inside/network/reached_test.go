package network

import (
	"maps"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// A network without the default gateway is proven by others that are in it. It is set back where
// all fall silent with the change, and not where one of them is down, nor where none answered
// before or the machine leaves that network.
func TestNetworksWithoutTheDefaultGateway(t *testing.T) {
	const kept = ""
	gateway, n2, n3 := item.Target{Network: "storage", Address: "10.2.0.1"}, item.Target{Network: "storage", Node: "n2", Address: "10.2.0.12"}, item.Target{Network: "storage", Node: "n3", Address: "10.2.0.13"}
	elsewhere := item.Target{Network: "other", Node: "n4", Address: "10.9.0.14"}
	for name, c := range map[string]struct {
		targets       []item.Target
		before, after []string
		leaves        bool
		want          string
	}{
		"all are there":             {[]item.Target{gateway, n2, n3}, []string{"10.2.0.1", "10.2.0.12", "10.2.0.13"}, []string{"10.2.0.1", "10.2.0.12", "10.2.0.13"}, false, kept},
		"one is down meanwhile":     {[]item.Target{gateway, n2, n3}, []string{"10.2.0.1", "10.2.0.12"}, []string{"10.2.0.12"}, false, kept},
		"nobody was there":          {[]item.Target{gateway, n2, elsewhere}, nil, nil, false, kept},
		"nobody is designed":        {nil, []string{"10.2.0.1"}, nil, false, kept},
		"another one comes":         {[]item.Target{n2, n3}, []string{"10.2.0.12"}, []string{"10.2.0.13"}, false, kept},
		"the others are gone":       {[]item.Target{gateway, n2, n3}, []string{"10.2.0.1", "10.2.0.13"}, nil, false, "the gateway 10.2.0.1, n3 (10.2.0.13) answered before the change, and no machine does now: the interface may be on another VLAN"},
		"the machine leaves it":     {[]item.Target{gateway, n2}, []string{"10.2.0.1", "10.2.0.12"}, nil, true, kept},
		"an address that is no one": {[]item.Target{{Network: "storage", Address: "x\x1b"}}, nil, nil, false, kept},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			f := s.facet()
			if err := f.Apply(t.Context(), s.host(), items(wanted), nil); err != nil {
				t.Fatal(err)
			}
			change, _ := f.Unconfirmed(s.host())
			if err := f.Confirm(t.Context(), s.host(), change); err != nil {
				t.Fatal(err)
			}
			before := s.configuration()
			other := maps.Clone(wanted)
			other["eth1"] = item.Link{Kind: "ethernet", MTU: 1400, Addresses: []string{"10.2.0.11/24"}}
			if c.leaves {
				other["eth1"] = item.Link{Kind: "ethernet", Addresses: []string{"10.3.0.11/24"}}
			}
			s.storage = c.before
			s.onStep = func(what string) {
				if strings.HasPrefix(what, "networkctl") {
					s.storage = c.after
				}
			}
			h := s.host()
			h.Targets = c.targets
			err := f.Apply(t.Context(), h, items(other), nil)
			if c.want == kept && err != nil || c.want != kept && (class(err) != wire.Reverted || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if c.want != kept {
				s.isBack(before)
			}
		})
	}
}
