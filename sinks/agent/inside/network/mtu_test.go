package network

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// An MTU that leaves the design becomes that of a new interface.
func TestAnMTULeavesTheDesign(t *testing.T) {
	ethernet := func(mtu int) item.Link { return item.Link{Kind: "ethernet", MTU: mtu} }
	bridge := func(mtu int, ports ...string) item.Link {
		return item.Link{Kind: "bridge", MTU: mtu, Members: ports}
	}
	bond := func(mtu int) item.Link {
		return item.Link{Kind: "bond", MTU: mtu, Members: []string{"eth1", "eth2"}, Bond: &item.Bond{Mode: "active-backup"}}
	}
	vlan := func(mtu int) item.Link { return item.Link{Kind: "vlan", MTU: mtu, VLAN: 5, Parent: "eth1"} }
	for _, c := range []struct {
		name          string
		before, after links
		now           map[string]int // MTUs that are not the design's
		want          string
	}{
		{"a bridge", links{"br0": bridge(1450, "eth1", "eth2"), "eth1": ethernet(0), "eth2": ethernet(0)}, links{"br0": bridge(0, "eth1"), "eth1": ethernet(0)}, nil, "br0 1500"},
		{"a bridge with ports of people", links{"br0": bridge(1450, "eth1", "eth2")}, links{"br0": bridge(0, "eth1", "eth2")}, map[string]int{"eth2": 1400}, "br0 1400"},
		{"a bridge without ports", links{"br0": bridge(1450)}, links{"br0": bridge(0)}, nil, "br0 1500"},
		{"a bridge with its port", links{"br0": bridge(9000, "eth1"), "eth1": ethernet(9000)}, links{"br0": bridge(0, "eth1"), "eth1": ethernet(0)}, nil, "eth1 1500, br0 1500"},
		{"a bridge whose port has one", links{"br0": bridge(1450, "eth1"), "eth1": ethernet(0)}, links{"br0": bridge(0, "eth1"), "eth1": ethernet(1400)}, nil, "br0 1400"},
		{"a bridge that stays as it is", links{"br0": bridge(1450, "eth1"), "eth1": ethernet(0)}, links{"br0": bridge(1450, "eth1"), "eth1": ethernet(0)}, nil, ""},
		{"a bridge that is as a new one", links{"br0": bridge(1500, "eth1"), "eth1": ethernet(0)}, links{"br0": bridge(0, "eth1"), "eth1": ethernet(0)}, nil, ""},
		{"a bond and the ports that follow it", links{"bond0": bond(9000)}, links{"bond0": bond(0)}, map[string]int{"eth1": 9000, "eth2": 9000}, "bond0 1500"},
		{"a port of a bond that keeps its own", links{"bond0": bond(9000), "eth1": ethernet(9000)}, links{"bond0": bond(9000), "eth1": ethernet(0)}, map[string]int{"eth2": 9000}, ""},
		{"a VLAN", links{"eth1": ethernet(9000), "eth1.5": vlan(1400)}, links{"eth1": ethernet(9000), "eth1.5": vlan(0)}, nil, "eth1.5 9000"},
		{"a VLAN whose parent grows", links{"eth1": ethernet(1400), "eth1.5": vlan(1400)}, links{"eth1": ethernet(9000), "eth1.5": vlan(0)}, nil, "eth1 9000, eth1.5 9000"},
		{"an interface that leaves", links{"eth1": ethernet(1400), "eth2": ethernet(0)}, links{"eth2": ethernet(0)}, nil, "eth1 1500"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var set []string
			h := inside.Real(t.TempDir(), true)
			h.Exec = func(_ context.Context, c inside.Command) (inside.Output, error) {
				if slices.Contains(c.Args, "mtu") {
					set = append(set, c.Args[3]+" "+c.Args[5])
				}
				return inside.Output{}, nil
			}
			m := &machine{links: map[string]*real{}}
			for id, l := range c.before.complete() {
				put(t, h.Root, "/sys/class/net/"+id+"/ifindex", "7\n", 0o644)
				if l.MTU == 0 {
					l.MTU = 1500
				}
				if mtu := c.now[id]; mtu != 0 {
					l.MTU = mtu
				}
				m.links[id] = &real{Link: l}
			}
			p := &plan{before: c.before, after: c.after, all: c.after.complete(), manager: Networkd}
			a := activation{f: standard(), h: h, manager: Networkd}
			if err := a.resetMTUs(t.Context(), p, m); err != nil || strings.Join(set, ", ") != c.want {
				t.Errorf("%v, set %q, want %q", err, set, c.want)
			}
		})
	}
}
