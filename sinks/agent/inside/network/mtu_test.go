package network

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// An MTU that leaves the design becomes that from before, or of a new interface.
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
		now           map[string]int // MTUs that are not the design's; of eth… and vnet…, ports of br0 that nobody designed
		prior         int            // the MTU of eth1 from before
		largest       int            // of eth1
		unread        error          // of that
		upper         string         // an interface on eth1
		broken        bool           // no MTU can be set
		list          string         // what the list has of eth1 instead of prior
		want          string
	}{
		{name: "a bridge", before: links{"br0": bridge(1450, "eth1", "eth2"), "eth1": ethernet(0), "eth2": ethernet(0)}, after: links{"br0": bridge(0, "eth1"), "eth1": ethernet(0)}, want: "br0 1500"},
		{name: "a bridge with ports of people", before: links{"br0": bridge(1450, "eth1", "eth2")}, after: links{"br0": bridge(0, "eth1", "eth2")}, now: map[string]int{"eth2": 1400}, want: "br0 1400"},
		{name: "a bridge with a port of a guest", before: links{"br0": bridge(1450, "eth1")}, after: links{"br0": bridge(0, "eth1")}, now: map[string]int{"vnet0": 1300}, want: "br0 1300"},
		{name: "a bridge with ports of guests alone", before: links{"br0": bridge(1450)}, after: links{"br0": bridge(0)}, now: map[string]int{"vnet0": 1300, "vnet1": 1400}, want: "br0 1300"},
		{name: "a bridge whose port leaves it", before: links{"br0": bridge(1450, "eth1", "eth2"), "eth1": ethernet(0), "eth2": ethernet(0)}, after: links{"br0": bridge(0, "eth1"), "eth1": ethernet(0)}, now: map[string]int{"eth2": 1400}, want: "br0 1500"},
		{name: "a bridge whose port nobody takes out", before: links{"br0": bridge(1450, "eth1", "eth2"), "eth1": ethernet(0)}, after: links{"br0": bridge(0, "eth1"), "eth1": ethernet(0)}, now: map[string]int{"eth2": 1400}, want: "br0 1400"},
		{name: "a bridge into which people put a port that leaves", before: links{"br0": bridge(1450, "eth1"), "eth1": ethernet(0), "eth3": ethernet(0)}, after: links{"br0": bridge(0, "eth1"), "eth1": ethernet(0)}, now: map[string]int{"eth3": 1400}, want: "br0 1400"},
		{name: "a bridge whose port moves to another", before: links{"br0": bridge(1450, "eth1", "eth2")}, after: links{"br0": bridge(0, "eth1"), "br1": bridge(0, "eth2")}, now: map[string]int{"eth2": 1400}, want: "br0 1500"},
		{name: "a bridge whose VLAN is deleted", before: links{"br0": bridge(1450, "eth1.5", "eth2"), "eth1": ethernet(0), "eth1.5": vlan(0)}, after: links{"br0": bridge(0, "eth2"), "eth1": ethernet(0)}, now: map[string]int{"eth1.5": 1400}, want: "br0 1500"},
		{name: "a bridge with a VLAN", before: links{"br0": bridge(1450, "eth1.5"), "eth1": ethernet(0), "eth1.5": vlan(0)}, after: links{"br0": bridge(0, "eth1.5"), "eth1": ethernet(9000), "eth1.5": vlan(0)}, now: map[string]int{"eth1.5": 1400}, want: "br0 1400"},
		{name: "a bridge with a bond", before: links{"br0": bridge(1450, "bond0"), "bond0": bond(0)}, after: links{"br0": bridge(0, "bond0"), "bond0": bond(0)}, now: map[string]int{"bond0": 9000}, want: "br0 9000"},
		{name: "a bridge into which people put a VLAN that is deleted", before: links{"br0": bridge(1450, "eth2"), "eth1": ethernet(0), "eth1.5": vlan(0)}, after: links{"br0": bridge(0, "eth2"), "eth1": ethernet(0)}, now: map[string]int{"eth1.5": 1400}, want: "br0 1500"},
		{name: "a bridge that gets a port", before: links{"br0": bridge(1450, "eth2"), "eth1": ethernet(0)}, after: links{"br0": bridge(0, "eth1", "eth2"), "eth1": ethernet(0)}, now: map[string]int{"eth1": 1400}, want: "br0 1400"},
		{name: "a bridge whose guest has just ended", before: links{"br0": bridge(1450, "eth1")}, after: links{"br0": bridge(0, "eth1")}, now: map[string]int{"vnet0": 0}, want: "br0 1500"},
		{name: "a bridge on a port of people that was in a bond", before: links{"br0": bridge(1450), "bond0": bond(0)}, after: links{"br0": bridge(0, "eth1")}, now: map[string]int{"eth1": 9000}, want: "br0 9000"},
		{name: "a bridge without ports", before: links{"br0": bridge(1450)}, after: links{"br0": bridge(0)}, want: "br0 1500"},
		{name: "a bridge with its port", before: links{"br0": bridge(9000, "eth1"), "eth1": ethernet(9000)}, after: links{"br0": bridge(0, "eth1"), "eth1": ethernet(0)}, want: "eth1 1500, br0 1500"},
		{name: "a bridge whose port has one", before: links{"br0": bridge(1450, "eth1"), "eth1": ethernet(0)}, after: links{"br0": bridge(0, "eth1"), "eth1": ethernet(1400)}, want: "br0 1400"},
		{name: "a bridge that stays as it is", before: links{"br0": bridge(1450, "eth1"), "eth1": ethernet(0)}, after: links{"br0": bridge(1450, "eth1"), "eth1": ethernet(0)}, want: ""},
		{name: "a bridge that is as a new one", before: links{"br0": bridge(1500, "eth1"), "eth1": ethernet(0)}, after: links{"br0": bridge(0, "eth1"), "eth1": ethernet(0)}, want: ""},
		{name: "a bond and the ports that follow it", before: links{"bond0": bond(9000)}, after: links{"bond0": bond(0)}, now: map[string]int{"eth1": 9000, "eth2": 9000}, want: "bond0 1500"},
		{name: "a bond whose port has another", before: links{"bond0": bond(9000)}, after: links{"bond0": bond(0)}, now: map[string]int{"eth1": 1400, "eth2": 9000}, want: "bond0 1500"},
		{name: "a port of a bond that keeps its own", before: links{"bond0": bond(9000), "eth1": ethernet(9000)}, after: links{"bond0": bond(9000), "eth1": ethernet(0)}, now: map[string]int{"eth2": 9000}, want: ""},
		{name: "a bridge on a port that was in a bond", before: links{"br0": bridge(1450), "bond0": bond(9000), "eth1": ethernet(0)}, after: links{"br0": bridge(0, "eth1"), "bond0": {Kind: "bond", MTU: 9000, Members: []string{"eth2"}}, "eth1": ethernet(0)}, now: map[string]int{"eth1": 9000}, want: "br0 1500"},
		{name: "a VLAN", before: links{"eth1": ethernet(9000), "eth1.5": vlan(1400)}, after: links{"eth1": ethernet(9000), "eth1.5": vlan(0)}, want: "eth1.5 9000"},
		{name: "a VLAN whose parent grows", before: links{"eth1": ethernet(1400), "eth1.5": vlan(1400)}, after: links{"eth1": ethernet(9000), "eth1.5": vlan(0)}, want: "eth1 9000, eth1.5 9000"},
		{name: "an interface that leaves", before: links{"eth1": ethernet(1400), "eth2": ethernet(0)}, after: links{"eth2": ethernet(0)}, want: "eth1 1500"},
		{name: "an interface that leaves, of which one knows", before: links{"eth1": ethernet(1400)}, after: links{}, prior: 9000, want: "eth1 9000"},
		{name: "an interface that stays, of which one knows", before: links{"eth1": ethernet(1400)}, after: links{"eth1": ethernet(0)}, prior: 9000, want: "eth1 9000"},
		{name: "another adapter than before", before: links{"eth1": ethernet(1400)}, after: links{}, prior: 9000, largest: 4000, want: "eth1 4000"},
		{name: "an adapter with little", before: links{"eth1": ethernet(900)}, after: links{"eth1": ethernet(0)}, largest: 1000, want: "eth1 1000"},
		{name: "an adapter with much", before: links{"eth1": ethernet(900)}, after: links{"eth1": ethernet(0)}, largest: 9000, want: "eth1 1500"},
		{name: "an adapter of which the kernel tells nothing", before: links{"eth1": ethernet(900)}, after: links{}, unread: errors.New("no"), want: ""},
		{name: "an interface that leaves and carries that of others", before: links{"eth1": ethernet(9000)}, after: links{}, upper: "theirs", want: ""},
		{name: "an interface that leaves its bridge", before: links{"eth1": ethernet(9000), "br0": bridge(0, "eth1")}, after: links{"br0": bridge(0)}, upper: "br0", want: "eth1 1500"},
		{name: "an interface that stays and carries that of others", before: links{"eth1": ethernet(9000)}, after: links{"eth1": ethernet(0)}, upper: "theirs", want: "eth1 1500"},
		{name: "an interface that leaves and refuses", before: links{"eth1": ethernet(1400)}, after: links{}, broken: true, want: "eth1 1500"},
		{name: "the list is of another version, and an MTU leaves", before: links{"eth1": ethernet(1400)}, after: links{"eth1": ethernet(0)}, list: `[]`, want: "refused"},
		{name: "the list is of another version, and no MTU leaves", before: links{"eth1": ethernet(1400)}, after: links{"eth1": ethernet(1300)}, list: `[]`, want: ""},
		{name: "an interface that stays and refuses", before: links{"eth1": ethernet(1400)}, after: links{"eth1": ethernet(0)}, broken: true, want: "eth1 1500, refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var set []string
			h := inside.Real(t.TempDir(), true)
			h.Exec = func(_ context.Context, command inside.Command) (inside.Output, error) {
				if slices.Contains(command.Args, "mtu") {
					set = append(set, command.Args[3]+" "+command.Args[5])
				}
				return inside.Output{Code: map[bool]int{true: 2}[c.broken]}, nil
			}
			var err error
			if h.Owned, err = inside.LoadOwned(h.Root); err != nil {
				t.Fatal(err)
			}
			text, _ := json.Marshal(prior{MTU: c.prior})
			if c.list != "" {
				text = []byte(c.list)
			}
			if err := h.Owned.Take(name, "links.eth1", text); err != nil {
				t.Fatal(err)
			}
			if c.upper != "" {
				put(t, h.Root, "/sys/class/net/eth1/upper_"+c.upper, "", 0o644)
			}
			m := &machine{links: map[string]*real{}}
			for id, l := range c.before.complete() {
				put(t, h.Root, "/sys/class/net/"+id+"/ifindex", "7\n", 0o644)
				if l.MTU == 0 {
					l.MTU = 1500
				}
				m.links[id] = &real{Link: l, index: map[bool]int{true: 7}[id == "eth1"]}
			}
			for id, mtu := range c.now {
				if m.links[id] == nil || m.master(id) == "" && m.links["br0"] != nil && id != "eth1" {
					m.links["br0"].Members = append(slices.Clone(m.links["br0"].Members), id)
				}
				if m.links[id] == nil {
					m.links[id] = &real{Link: ethernet(0)}
				}
				if m.links[id].MTU = mtu; mtu == 0 { // it has just gone
					delete(m.links, id)
				}
			}
			p := &plan{before: c.before, after: c.after, all: c.after.complete(), manager: Networkd}
			a := activation{f: standard(), h: h, manager: Networkd}
			a.f.tables.largest = func() (map[int]int, error) { return map[int]int{7: c.largest}, c.unread }
			if err := a.resetMTUs(t.Context(), p, m); err != nil {
				set = append(set, "refused")
			}
			if got := strings.Join(set, ", "); got != c.want {
				t.Errorf("set %q, want %q", got, c.want)
			}
		})
	}
}

// The MTU of a port is remembered when it comes into the design, unless it has its bond's.
func TestTheMTUFromBeforeIsRemembered(t *testing.T) {
	for _, c := range []struct {
		name, folder string
		want         int
	}{
		{"alone", "", 9000},
		{"in a bond", "bonding/slaves", 0},
		{"in a bridge", "brif/eth1", 9000},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSystem(t)
			put(t, s.root, "/sys/class/net/eth1/mtu", "9000\n", 0o644)
			if c.folder != "" {
				put(t, s.root, "/sys/class/net/x/"+c.folder, "eth1\n", 0o644)
				put(t, s.root, "/sys/class/net/x/bridge/stp_state", "0\n", 0o644)
			}
			f, h := s.facet(), s.host()
			m, err := f.tables.look(h)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.own(h, &plan{after: ports([]string{"eth1"})}, m); err != nil {
				t.Fatal(err)
			}
			if was, err := (activation{f: f, h: h}).wasBefore("eth1"); err != nil || was.MTU != c.want {
				t.Errorf("it remembers %+v, %v, want %d", was, err, c.want)
			}
		})
	}
}
