package network

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// hypervisor is a design with a bridge for guests.
func hypervisor(address string) links {
	return links{
		"eth0": {Kind: "ethernet", MAC: "52:54:00:aa:00:01", Addresses: []string{"10.1.0.11/24"}, Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1"}}},
		"br0":  {Kind: "bridge", Members: []string{"eth1"}, Addresses: []string{address}},
	}
}

// confirmed applies a design and confirms it.
func (s *system) confirmed(f *Facet, all links, remove ...string) {
	s.t.Helper()
	if err := f.Apply(s.t.Context(), s.host(), items(all), remove); err != nil {
		s.t.Fatal(err)
	}
	name, _ := f.Unconfirmed(s.host())
	if err := f.Confirm(s.t.Context(), s.host(), name); err != nil {
		s.t.Fatal(err)
	}
}

// newHypervisor has the bridge as designed, made by Slipway, or before by others.
func newHypervisor(t *testing.T, byOthers bool) (*system, *Facet) {
	s := newSystem(t)
	s.link("eth2", "52:54:00:aa:00:03", 4)
	f := s.facet()
	makes := func() { s.bridge("br0", 9, "eth1") }
	if byOthers {
		makes()
	}
	s.onStep = func(what string) {
		if strings.HasPrefix(what, "networkctl reload") && !s.has("/sys/class/net/br0") {
			makes()
		}
	}
	s.confirmed(f, hypervisor("10.3.0.11/24"))
	s.onStep, s.ran = nil, nil
	return s, f
}

// A guest that starts has its port on a designed bridge, and ends again. Neither is a difference, nor in the way of a
// change. People are told of a port that is hardware.
func TestPortsOfGuestsAreNoDifference(t *testing.T) {
	s, f := newHypervisor(t, false)
	see := func(members, others, told string) {
		t.Helper()
		seen, err := f.Observe(t.Context(), s.host(), keysOf(hypervisor("")))
		if err != nil {
			t.Fatal(err)
		}
		if got := seen.Have["links.br0.members"]; got != members {
			t.Errorf("its ports are %q, want %q", got, members)
		}
		if got := seen.Have["facts.br0.others"]; got != others {
			t.Errorf("ports of others are %q, want %q", got, others)
		}
		if got := seen.Have[item.Asked("br0")]; !strings.Contains(got, told) || told == "" && got != "" {
			t.Errorf("people are told %q, want %q", got, told)
		}
	}
	see("eth1", "", "")
	s.guest("vnet0", 20, "br0")
	s.guest("vnet1", 21, "br0")
	see("eth1", "vnet0, vnet1", "")
	if err := f.Apply(t.Context(), s.host(), items(hypervisor("10.3.0.11/24")), nil); err != nil || len(s.ran) > 0 {
		t.Errorf("nothing is to be done: %v, %q", err, s.ran)
	}
	s.confirmed(f, hypervisor("10.3.0.12/24"))
	if got := s.ports("br0"); got != "eth1 vnet0 vnet1" {
		t.Errorf("after a change the bridge has the ports %q", got)
	}

	put(t, s.root, "/sys/class/net/eth2/device/vendor", "0x8086\n", 0o644)
	s.plug("br0", "eth2")
	see("eth1", "eth2, vnet0, vnet1", "it also has the port eth2, which the design does not put there")
	s.unplug("eth2")

	s.plug("br0", "eth0") // which the design has elsewhere
	see("eth0, eth1", "vnet0, vnet1", "")
	s.unplug("eth0")
	s.unplug("eth1") // which the design has there
	see("", "vnet0, vnet1", "")
	if err := f.Apply(t.Context(), s.host(), items(hypervisor("10.3.0.12/24")), nil); class(err) != wire.Reverted || !strings.Contains(err.Error(), `members: "" instead of "eth1"`) {
		t.Errorf("the port is lost: %v", err)
	}
}

// A port that the design had on a bridge, and has no longer, is a difference while it is there.
func TestAPortThatLeftIsADifference(t *testing.T) {
	two, one := links{"br0": {Kind: "bridge", Members: []string{"eth1", "eth2"}}}, links{"br0": {Kind: "bridge", Members: []string{"eth1"}}}
	m := &machine{links: map[string]*real{"br0": {Link: item.Link{Kind: "bridge", Members: []string{"eth1", "eth2", "vnet0"}}}}}
	p := &plan{before: two, after: one, all: one.complete()}
	if got := m.differs(p.after, p.both()); got["br0"] != `members: "eth1, eth2" instead of "eth1"` {
		t.Errorf("differs is %q", got)
	}
	p.before = one
	if got := m.differs(p.after, p.both()); len(got) > 0 {
		t.Errorf("differs is %q, of ports of others", got)
	}
}

// Before a bridge is in Slipway's list, what something else than settings plugs into it is not shown as its port
// either: a design written from that would name taps.
func TestPortsOfGuestsAreNotAdopted(t *testing.T) {
	s := newSystem(t)
	s.bridge("br0", 9, "eth1")
	put(t, s.root, "/sys/class/net/eth1/device/vendor", "0x8086\n", 0o644)
	put(t, s.root, "/etc/systemd/network/05-br0.netdev", "[NetDev]\nName=br0\nKind=bridge\n", 0o644)
	s.guest("vnet0", 20, "br0")
	seen, err := s.facet().Observe(t.Context(), s.host(), []string{"links.br0"})
	if err != nil || seen.Have["links.br0.members"] != "eth1" || seen.Have["facts.br0.others"] != "" {
		t.Errorf("have %q, %v", seen.Have, err)
	}
	found, err := s.facet().Survey(t.Context(), s.host())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(found.Items, func(i item.Item) bool { return i.Key == "links.br0" })
	if at < 0 || found.Items[at].Fields["members"] != "eth1" {
		t.Errorf("found %+v", found.Items)
	}
}

// A bond has the ports of the design alone: each one carries its traffic. What people added is a difference, and is taken out.
func TestAPortOfOthersLeavesABond(t *testing.T) {
	bond := links{"bond0": {Kind: "bond", Members: []string{"eth1"}, Bond: &item.Bond{Mode: "active-backup"}}, "eth1": {Kind: "ethernet"}}
	s := newSystem(t)
	s.link("bond0", "52:54:00:aa:00:09", 9)
	put(t, s.root, "/sys/class/net/bond0/bonding/mode", "active-backup 1\n", 0o644)
	put(t, s.root, "/sys/class/net/bond0/bonding/slaves", "eth1\n", 0o644)
	f := s.facet()
	s.confirmed(f, bond)
	s.link("eth2", "52:54:00:aa:00:03", 4)
	s.plug("bond0", "eth2")
	seen, err := f.Observe(t.Context(), s.host(), keysOf(bond))
	if err != nil || seen.Have["links.bond0.members"] != "eth1, eth2" {
		t.Errorf("have %q, %v", seen.Have, err)
	}
	s.confirmed(f, bond)
	if got := strings.TrimSpace(s.read("/sys/class/net/bond0/bonding/slaves")); got != "eth1" {
		t.Errorf("the bond has the ports %q", got)
	}
}

// What would delete an interface to which others are attached is refused before anything is touched.
func TestNothingOfOthersIsDeleted(t *testing.T) {
	eth0 := links{"eth0": hypervisor("")["eth0"]}
	with := func(id string, l item.Link) links {
		return links{"eth0": eth0["eth0"], "eth1": {Kind: "ethernet"}, id: l}
	}
	bond := func(mode string) item.Link {
		return item.Link{Kind: "bond", Members: []string{"eth1"}, Bond: &item.Bond{Mode: mode}}
	}
	vlan := func(id int) item.Link { return item.Link{Kind: "vlan", VLAN: id, Parent: "eth1"} }
	bonded := func(s *system) {
		s.link("bond0", "52:54:00:aa:00:09", 9)
		put(t, s.root, "/sys/class/net/bond0/bonding/mode", "active-backup 1\n", 0o644)
		put(t, s.root, "/sys/class/net/bond0/bonding/slaves", "eth1\n", 0o644)
	}
	tagged := func(s *system) {
		s.link("v5", "52:54:00:aa:00:02", 9)
		put(t, s.root, "/proc/net/vlan/config", "VLAN Dev name | VLAN ID\nName-Type: x\nv5 | 5 | eth1\n", 0o644)
	}
	upper := func(on, name string) func(*system) {
		return func(s *system) { put(t, s.root, "/sys/class/net/"+on+"/upper_"+name, "", 0o644) }
	}
	for _, c := range []struct {
		name   string
		makes  func(*system) // the interface, as networkd does
		before links
		then   func(*system) // others come
		after  links
		remove []string
		says   string // of a refusal; empty: it is deleted
	}{
		{"a bridge leaves, with a guest", func(s *system) { s.bridge("br0", 9, "eth1") }, hypervisor("10.3.0.11/24"), func(s *system) { s.guest("vnet0", 20, "br0") }, eth0, []string{"links.br0"}, "attached to it that nobody designed: vnet0"},
		{"a bridge leaves, with a VLAN of others", func(s *system) { s.bridge("br0", 9, "eth1") }, hypervisor("10.3.0.11/24"), upper("br0", "br0.7"), eth0, []string{"links.br0"}, "br0.7"},
		{"a bridge leaves", func(s *system) { s.bridge("br0", 9, "eth1") }, hypervisor("10.3.0.11/24"), func(*system) {}, eth0, []string{"links.br0"}, ""},
		{"a bond leaves, with a port of others", bonded, with("bond0", bond("active-backup")), func(s *system) { s.guest("dummy0", 20, "bond0") }, eth0, []string{"links.bond0", "links.eth1"}, "dummy0"},
		{"a bond gets another mode, with a guest on it", bonded, with("bond0", bond("active-backup")), upper("bond0", "macvtap0"), with("bond0", bond("802.3ad")), nil, "macvtap0"},
		{"a VLAN leaves that is a port of others", tagged, with("v5", vlan(5)), upper("v5", "vmbr5"), eth0, []string{"links.v5", "links.eth1"}, "vmbr5"},
		{"a VLAN gets another number, with a bridge of others on it", tagged, with("v5", vlan(5)), upper("v5", "vmbr5"), with("v5", vlan(6)), nil, "vmbr5"},
		{"a bond of the name of a bridge of others", func(*system) {}, eth0, func(s *system) { s.bridge("bond0", 9) }, with("bond0", bond("active-backup")), nil, "has a bridge bond0 that Slipway did not make"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSystem(t)
			f := s.facet()
			s.onStep = func(what string) {
				if strings.HasPrefix(what, "networkctl reload") {
					c.makes(s)
				}
			}
			s.confirmed(f, c.before)
			s.onStep, s.ran, s.steps = nil, nil, 0
			c.then(s)
			before := s.configuration()
			err := f.Apply(t.Context(), s.host(), items(c.after), c.remove)
			if c.says == "" {
				if err != nil || !slices.Contains(s.ran, "ip link delete dev br0") {
					t.Errorf("%v, it ran %q", err, s.ran)
				}
				return
			}
			if class(err) != wire.Refused || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if s.steps > 0 || s.configuration() != before {
				t.Errorf("it ran %q", s.ran)
			}
		})
	}
}

// A guest that was started after the refusals were decided is seen before its bridge is deleted, too.
func TestAGuestThatStartsJustBeforeItsBridgeIsDeleted(t *testing.T) {
	s, f := newHypervisor(t, false)
	s.onStep = func(what string) {
		if what == "own eth0" {
			s.guest("vnet0", 20, "br0")
		}
	}
	err := f.Apply(t.Context(), s.host(), items(links{"eth0": hypervisor("")["eth0"]}), []string{"links.br0"})
	if err == nil || !strings.Contains(err.Error(), "vnet0") || slices.Contains(s.ran, "ip link delete dev br0") || s.ports("br0") != "eth1 vnet0" {
		t.Errorf("%v: ran %q, ports %q", err, s.ran, s.ports("br0"))
	}
}

// ifupdown deletes a bridge and creates it again at any change of it, so a change waits for its guests.
func TestIfupdownDeletesNoGuestsBridge(t *testing.T) {
	for _, guest := range []string{"", "vnet0"} {
		s := newSystem(t)
		for _, path := range []string{"etc/systemd", "etc/netplan"} {
			if err := os.RemoveAll(filepath.Join(s.root, path)); err != nil {
				t.Fatal(err)
			}
		}
		put(t, s.root, "/etc/systemd/system/multi-user.target.wants/networking.service", "", 0o644)
		put(t, s.root, interfacesFile, "auto lo\niface lo inet loopback\n\nauto br0\niface br0 inet static\n\taddress 10.3.0.10/24\n\tbridge_ports eth1\n", 0o644)
		s.bridge("br0", 9, "eth1")
		if guest != "" {
			s.guest(guest, 20, "br0")
		}
		err := s.facet().Apply(t.Context(), s.host(), items(links{"br0": {Kind: "bridge", Members: []string{"eth1"}, Addresses: []string{"10.3.0.11/24"}}}), nil)
		if refused := class(err) == wire.Refused && strings.Contains(err.Error(), becauseIfupdown) && strings.Contains(err.Error(), "vnet0"); refused != (guest != "") {
			t.Errorf("with the guest %q: %v", guest, err)
		}
		if took := slices.Contains(s.ran, "ifdown --force br0"); took != (guest == "") {
			t.Errorf("with the guest %q it ran %q", guest, s.ran)
		}
	}
}

// A bridge that others made stays when it leaves the design, with its guests. What the design put into it leaves it.
func TestABridgeOfOthersIsNotDeleted(t *testing.T) {
	s, f := newHypervisor(t, true)
	more := hypervisor("10.3.0.11/24")
	more["br0"] = item.Link{Kind: "bridge", STP: true, Members: []string{"eth1", "eth2"}, Addresses: []string{"10.3.0.11/24"}}
	more["eth1"], more["eth2"] = item.Link{Kind: "ethernet"}, item.Link{Kind: "ethernet"}
	s.onStep = func(what string) {
		if strings.HasPrefix(what, "networkctl") {
			s.plug("br0", "eth2")
		}
		if on, is := strings.CutPrefix(what, "ip link set dev br0 type bridge stp_state "); is {
			put(t, s.root, "/sys/class/net/br0/bridge/stp_state", on, 0o644)
		}
	}
	s.confirmed(f, more)
	s.guest("vnet0", 20, "br0")
	s.onStep = func(what string) {
		if on, is := strings.CutPrefix(what, "ip link set dev br0 type bridge stp_state "); is {
			put(t, s.root, "/sys/class/net/br0/bridge/stp_state", on, 0o644)
		}
	}
	s.confirmed(f, links{"eth0": more["eth0"]}, "links.br0", "links.eth1", "links.eth2")
	if got := s.ports("br0"); got != "eth1 vnet0" {
		t.Errorf("its ports are %q", got)
	}
	if got := s.read("/sys/class/net/br0/bridge/stp_state"); got != "0" {
		t.Errorf("its spanning tree setting is %q", got)
	}
}

// Ports of guests that a manager drops while it sets up their bridge again are put back, and so they are when a change
// is set back: also those of guests that were started meanwhile. A guest that has ended is not missed.
func TestGuestsKeepTheirBridge(t *testing.T) {
	s, f := newHypervisor(t, false)
	s.guest("vnet0", 20, "br0")
	s.guest("vnet1", 21, "br0")
	drops := func(what string) {
		if strings.HasPrefix(what, "networkctl reconfigure") {
			for _, port := range strings.Fields(s.ports("br0")) {
				if strings.HasPrefix(port, "vnet") {
					s.unplug(port)
				}
			}
		}
	}
	s.onStep = drops
	if err := f.Apply(t.Context(), s.host(), items(hypervisor("10.3.0.12/24")), nil); err != nil {
		t.Fatal(err)
	}
	if got := s.ports("br0"); got != "eth1 vnet0 vnet1" {
		t.Errorf("after the change its ports are %q", got)
	}
	s.guest("vnet2", 22, "br0")
	s.unplug("vnet1")
	if err := os.RemoveAll(filepath.Join(s.root, "/sys/class/net/vnet1")); err != nil {
		t.Fatal(err)
	}
	name, _ := f.Unconfirmed(s.host())
	if err := f.revert(t.Context(), s.host(), name); err != nil {
		t.Fatal(err)
	}
	if got := s.ports("br0"); got != "eth1 vnet0 vnet2" {
		t.Errorf("after it was set back its ports are %q", got)
	}

	// A port that does not come back has the change set back, and setting back tried again.
	s.onStep = func(what string) {
		drops(what)
		if s.broken = ""; strings.HasPrefix(what, "ip link set dev vnet") {
			s.broken = "vnet"
		}
	}
	if err := f.Apply(t.Context(), s.host(), items(hypervisor("10.3.0.13/24")), nil); class(err) != wire.Failed || !s.has(markerFile) {
		t.Errorf("a guest is off its bridge: %v", err)
	}
	s.onStep, s.broken = nil, ""
	if c, err := readMarker(s.host()); err != nil || c == nil {
		t.Fatalf("%v, %v", c, err)
	} else if err := f.revert(t.Context(), s.host(), c.Name); err != nil || s.ports("br0") != "eth1 vnet0 vnet2" {
		t.Errorf("%v: its ports are %q", err, s.ports("br0"))
	}
}

// What is on an interface is named with a bound.
func TestOthersAreNamedWithABound(t *testing.T) {
	h := inside.Real(t.TempDir(), true)
	for _, port := range strings.Fields("a b c d e f g h i j k l") {
		put(t, h.Root, "/sys/class/net/br0/brif/"+port, "", 0o644)
	}
	put(t, h.Root, "/sys/class/net/br0/bridge/stp_state", "0", 0o644)
	err := sparesOn(h, deletion{"br0", becauseLeaves}, nil)
	if err == nil || !strings.Contains(err.Error(), "a, b, c, d, e, f, g, h, i, j and 2 more") {
		t.Error(err)
	}
}
