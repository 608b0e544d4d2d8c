package network

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

var wanted = links{
	"eth0": {Kind: "ethernet", MAC: "52:54:00:aa:00:01", MTU: 9000, Addresses: []string{"10.1.0.11/24"}, Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1"}}},
	"eth1": {Kind: "ethernet", Addresses: []string{"10.2.0.11/24"}},
}

// A change waits for its confirmation, and another pass then writes nothing.
func TestConfirmedChange(t *testing.T) {
	s := newSystem(t)
	f := s.facet()
	ctx := t.Context()
	if err := f.Apply(ctx, s.host(), items(wanted), nil); err != nil {
		t.Fatal(err)
	}
	name, seconds := f.Unconfirmed(s.host())
	if name == "" || seconds > 2 || !s.armed() {
		t.Fatalf("unconfirmed %q for %d s, armed %v", name, seconds, s.armed())
	}
	if err := f.Apply(ctx, s.host(), items(wanted), nil); err != nil {
		t.Fatalf("the same again while it waits: %v", err)
	}
	other := maps.Clone(wanted)
	other["eth1"] = item.Link{Kind: "ethernet"}
	if err := f.Apply(ctx, s.host(), items(other), nil); class(err) != wire.Busy {
		t.Fatalf("another change while one waits: %v, want busy", err)
	}
	if err := f.Confirm(ctx, s.host(), "other"); class(err) != wire.Refused {
		t.Fatalf("confirmed by another name: %v", err)
	}
	if err := f.Confirm(ctx, s.host(), name); err != nil {
		t.Fatal(err)
	}
	if name, _ := f.Unconfirmed(s.host()); name != "" || s.timer != "" || s.has(markerFile) || s.has(bootUnit) || s.has(bootLink) || s.has(folder(name)) {
		t.Errorf("after its confirmation: %q, timer %q", name, s.timer)
	}
	s.same(f, wanted)
	if !s.has(asideFolder+"/etc/systemd/network/10-eth0.network") || s.has("/etc/systemd/network/10-eth0.network") {
		t.Error("the file of others is not aside")
	}
	before, steps := s.configuration(), s.steps
	if err := f.Apply(ctx, s.host(), items(wanted), nil); err != nil || s.steps != steps || s.configuration() != before {
		t.Errorf("a second pass: %v, %d steps", err, s.steps-steps)
	}
	if err := f.revert(ctx, s.host(), name); err != nil || s.configuration() != before {
		t.Errorf("a revert after the confirmation: %v", err)
	}

	// It leaves the design: what was there before is back.
	if err := f.Apply(ctx, s.host(), nil, keysOf(wanted)); err != nil {
		t.Fatal(err)
	}
	name, _ = f.Unconfirmed(s.host())
	if err := f.Confirm(ctx, s.host(), name); err != nil {
		t.Fatal(err)
	}
	if got, want := s.configuration(), newSystem(t).configuration(); got != want {
		t.Errorf("after its removal\n%s\nwant\n%s", got, want)
	}
}

// same holds that what is seen is what is wanted.
func (s *system) same(f *Facet, all links) {
	s.t.Helper()
	seen, err := f.Observe(s.t.Context(), s.host(), keysOf(all))
	if err != nil {
		s.t.Fatal(err)
	}
	for key, want := range item.Values(items(all)) {
		if seen.Have[key] != want {
			s.t.Errorf("%s is %q, want %q", key, seen.Have[key], want)
		}
	}
}

func class(err error) string {
	var e *wire.Error
	if errors.As(err, &e) {
		return e.Class
	}
	return ""
}

// Without a confirmation the timer sets everything back, the same change is
// refused from then on, and another one is not.
func TestUnconfirmedChange(t *testing.T) {
	s := newSystem(t)
	f := s.facet()
	before := s.configuration()
	if err := f.Apply(t.Context(), s.host(), items(wanted), nil); err != nil {
		t.Fatal(err)
	}
	name, _ := f.Unconfirmed(s.host())
	if err := f.revert(t.Context(), s.host(), name); err != nil {
		t.Fatal(err)
	}
	s.isBack(before)
	err := f.Apply(t.Context(), s.host(), items(wanted), nil)
	if class(err) != wire.Refused || !strings.Contains(err.Error(), "nobody confirmed") || !strings.Contains(err.Error(), "10.1.0.11/24") {
		t.Errorf("the same again: %v, want refused", err)
	}
	if err := f.Confirm(t.Context(), s.host(), name); class(err) != wire.Reverted {
		t.Errorf("confirmed too late: %v, want reverted", err)
	}
	if seen, err := f.Observe(t.Context(), s.host(), nil); err != nil || !strings.Contains(seen.Have["facts.reverted"], "nobody confirmed") {
		t.Errorf("seen %q, %v", seen.Have["facts.reverted"], err)
	}
	asked := s.host()
	asked.Again = true // a person wants it once more
	if err := f.Apply(t.Context(), asked, items(wanted), nil); err != nil {
		t.Errorf("the same again, as a person wants it: %v", err)
	}
	name, _ = f.Unconfirmed(s.host())
	if err := f.revert(t.Context(), s.host(), name); err != nil {
		t.Fatal(err)
	}
	s.isBack(before)
	other := maps.Clone(wanted)
	delete(other, "eth1")
	if err := f.Apply(t.Context(), s.host(), items(other), nil); err != nil {
		t.Fatal(err)
	}
	if name, _ = f.Unconfirmed(s.host()); f.Confirm(t.Context(), s.host(), name) != nil || s.has(revertedFile) {
		t.Error("another change is not confirmed")
	}
	s.same(f, other)
}

// A revert that fails is not taken for done: nobody can confirm the change any more,
// and it is tried again until interfaces are as they were.
func TestRevertThatFailsIsTriedAgain(t *testing.T) {
	for name, boots := range map[string]bool{"by the timer": false, "at boot": true} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			f := s.facet()
			before := s.configuration()
			if err := f.Apply(t.Context(), s.host(), items(wanted), nil); err != nil {
				t.Fatal(err)
			}
			change, _ := f.Unconfirmed(s.host())
			s.stuck = true
			if boots {
				s.timer = ""
			}
			for range 2 {
				err := f.revert(t.Context(), s.host(), change)
				if class(err) != wire.Failed || !strings.Contains(err.Error(), "trying again every 30s and when the machine starts") || !strings.Contains(err.Error(), "timed out") {
					t.Fatalf("got %v", err)
				}
				if !s.armed() || s.has(revertedFile) {
					t.Fatal("it is taken for done")
				}
			}
			if other, _ := f.Unconfirmed(s.host()); other != "" {
				t.Errorf("%s waits to be confirmed", other)
			}
			if err := f.Confirm(t.Context(), s.host(), change); class(err) != wire.Reverted {
				t.Errorf("confirmed: %v", err)
			}
			s.stuck = false
			if err := f.revert(t.Context(), s.host(), change); err != nil {
				t.Fatal(err)
			}
			s.isBack(before)
			if s.timer != "" {
				t.Error("its timer goes on")
			}
		})
	}
}

// A change that failed by its own fault stays refused, also where setting it back
// took more than one try.
func TestFaultOfAChangeIsKept(t *testing.T) {
	s := newSystem(t)
	f := s.facet()
	before := s.configuration()
	s.deaf = true
	s.onStep = func(what string) { s.stuck = s.stuck || what == "the marker says undone" }
	if err := f.Apply(t.Context(), s.host(), items(wanted), nil); class(err) != wire.Failed || !strings.Contains(err.Error(), "could not be set back") {
		t.Fatalf("got %v", err)
	}
	c, err := readMarker(s.host())
	if err != nil || c == nil || !c.Undone || c.Again {
		t.Fatalf("got %+v, %v", c, err)
	}
	s.onStep, s.stuck = nil, false
	if err := f.revert(t.Context(), s.host(), c.Name); err != nil {
		t.Fatal(err)
	}
	s.isBack(before)
	if err := f.Apply(t.Context(), s.host(), items(wanted), nil); class(err) != wire.Refused || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("the same again: %v, want refused", err)
	}
}

// A saved file that is gone stops the undoing: nobody knows what was there.
func TestLostCopyDeletesNothing(t *testing.T) {
	s := newSystem(t)
	f := s.facet()
	if err := f.Apply(t.Context(), s.host(), items(wanted), nil); err != nil {
		t.Fatal(err)
	}
	name, _ := f.Unconfirmed(s.host())
	c, err := readMarker(s.host())
	if err != nil || c == nil || len(c.Absent) == len(c.Paths) {
		t.Fatalf("got %+v, %v", c, err)
	}
	if err := removeSaved(s.host()); err != nil {
		t.Fatal(err)
	}
	after := s.configuration()
	if err := f.revert(t.Context(), s.host(), name); err == nil {
		t.Error("it is taken for done")
	}
	for _, path := range c.Paths {
		if !slices.Contains(c.Absent, path) && strings.Contains(after, path) && !strings.Contains(s.configuration(), path) {
			t.Errorf("%s was removed", path)
		}
	}
}

// isBack holds that everything is as it was, and nothing is left of a change.
func (s *system) isBack(before string) {
	s.t.Helper()
	if got := s.configuration(); got != before {
		s.t.Errorf("not back:\n%s\nwant\n%s", got, before)
	}
	if s.has(markerFile) || s.has(bootUnit) || s.has(bootLink) {
		s.t.Error("something is left of the change")
	}
}

// An interface that gets another name is taken down by ifupdown under the one that it has:
// else it would keep its addresses, and coming up with them would fail.
func TestTakesDownUnderTheOldName(t *testing.T) {
	var ran []string
	h := inside.Real(t.TempDir(), true)
	h.Exec = func(_ context.Context, c inside.Command) (inside.Output, error) {
		ran = append(ran, c.Path+" "+strings.Join(c.Args, " "))
		return inside.Output{}, nil
	}
	m := &machine{links: map[string]*real{"eth0": {Link: item.Link{Kind: "ethernet", MAC: "52:54:00:aa:00:01"}}}}
	p := &plan{after: links{"lan0": {Kind: "ethernet", MAC: "52:54:00:aa:00:01"}}}
	for manager, want := range map[string]string{Ifupdown: "ifdown --force eth0", Networkd: ""} {
		ran = nil
		if err := (activation{f: standard(), h: h, manager: manager, changed: []string{"lan0"}}).takeDown(t.Context(), p, m); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(ran, "\n"); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s ran %q, want %q", manager, got, want)
		}
	}
}

// A bond that a change made anew in another mode is made anew on the way back too: its mode
// cannot be changed.
func TestWhatIsMadeAnewIsMadeAnewOnTheWayBack(t *testing.T) {
	var ran []string
	h := inside.Real(t.TempDir(), true)
	h.Exec = func(_ context.Context, c inside.Command) (inside.Output, error) {
		ran = append(ran, c.Path+" "+strings.Join(c.Args, " "))
		return inside.Output{}, nil
	}
	owned, err := inside.LoadOwned(h.Root)
	if err != nil {
		t.Fatal(err)
	}
	h.Owned = owned
	f := standard()
	bond := func(mode string) item.Link {
		return item.Link{Kind: "bond", Members: []string{"eth0"}, Bond: &item.Bond{Mode: mode, Monitor: 100}}
	}
	for mode, want := range map[string]string{"active-backup": "", "802.3ad": "ip link delete dev bond0"} {
		ran = nil
		before := bond("active-backup")
		m := &machine{links: map[string]*real{"bond0": {Link: before}}}
		c := f.newChange(h, &plan{before: links{"bond0": before}, after: links{"bond0": bond(mode)}, all: links{"bond0": bond(mode)}, manager: Networkd}, m)
		put(t, h.Root, "/sys/class/net/bond0/ifindex", "7\n", 0o644)
		_ = (activation{f: f, h: h, manager: Networkd}).backTo(t.Context(), c, true) // of a machine without tables
		if got := strings.Join(ran, "\n"); !strings.Contains(got, want) || want == "" && strings.Contains(got, "delete") {
			t.Errorf("to %s and back ran %q, want %q", mode, got, want)
		}
		if i, j := slices.Index(ran, "ip link delete dev bond0"), slices.Index(ran, "systemctl restart systemd-networkd.service"); want != "" && j < i {
			t.Errorf("networkd is not started anew behind it: %q", ran)
		}
	}
}

// The spanning tree protocol of a bridge is set on the bridge that is there, which keeps its
// ports, and set back on it.
func TestTheSpanningTreeOfABridgeThatIsThere(t *testing.T) {
	s := newSystem(t)
	put(t, s.root, "/sys/class/net/br0/ifindex", "7\n", 0o644)
	put(t, s.root, "/sys/class/net/br0/bridge/stp_state", "0\n", 0o644)
	f, ctx := s.facet(), t.Context()
	bridge := func(on bool) links { return links{"br0": {Kind: "bridge", STP: on}} }
	is := func(on bool) *machine {
		return &machine{links: map[string]*real{"br0": {Link: bridge(on)["br0"]}}}
	}
	a := activation{f: f, h: s.host(), manager: Networkd}
	p := &plan{before: bridge(false), after: bridge(true), all: bridge(true), manager: Networkd}
	c := f.newChange(s.host(), p, is(false))
	if was := c.Kernel["br0"].STP; was == nil || *was {
		t.Errorf("what is kept of the bridge is %v", was)
	}
	for _, set := range []struct {
		from, to bool
		ran      string
	}{{false, true, "ip link set dev br0 type bridge stp_state 1"}, {true, false, "ip link set dev br0 type bridge stp_state 0"}, {true, true, ""}} {
		s.ran = nil
		if err := a.prepare(ctx, &plan{before: bridge(set.from), after: bridge(set.to), manager: Networkd}, is(set.from)); err != nil {
			t.Error(err)
		}
		if got := strings.Join(s.ran, "\n"); got != set.ran {
			t.Errorf("from %v to %v it ran %q, want %q", set.from, set.to, got, set.ran)
		}
	}
}

// What ifupdown deletes takes its ports and its VLANs with it, which are set up again too.
func TestWhatGoesWithABond(t *testing.T) {
	all := links{
		"bond0": {Kind: "bond", Members: []string{"lan0", "lan1"}, Bond: &item.Bond{Mode: "active-backup"}}, "lan0": {Kind: "ethernet"}, "lan1": {Kind: "ethernet"}, "lan2": {Kind: "ethernet"},
		"vlan5": {Kind: "vlan", Parent: "bond0", VLAN: 5}, "br5": {Kind: "bridge", Members: []string{"vlan5"}}, "vlan6": {Kind: "vlan", Parent: "lan2", VLAN: 6},
	}
	addressed := all.complete()
	bond := addressed["bond0"]
	bond.Addresses = []string{"10.1.0.11/24"}
	addressed["bond0"] = bond
	m := &machine{links: map[string]*real{}}
	for id, l := range addressed {
		m.links[id] = &real{Link: l, up: true}
	}
	for manager, want := range map[string][]string{Ifupdown: {"bond0", "lan0", "lan1", "vlan5"}, Networkd: {"bond0"}} {
		p := &plan{manager: manager, before: all, after: addressed, all: addressed}
		if got := m.changed(p); !slices.Equal(got, want) {
			t.Errorf("%s sets up %q, want %q", manager, got, want)
		}
	}
}

// A port that a change put into a bond is taken out of it on the way back, and the others
// stay in it.
func TestANewMemberLeavesOnTheWayBack(t *testing.T) {
	var ran []string
	h := inside.Real(t.TempDir(), true)
	h.Exec = func(_ context.Context, c inside.Command) (inside.Output, error) {
		ran = append(ran, c.Path+" "+strings.Join(c.Args, " "))
		return inside.Output{}, nil
	}
	put(t, h.Root, "/sys/class/net/bond0/bonding/slaves", "eth0 eth2\n", 0o644)
	for _, id := range []string{"eth0", "eth2"} {
		put(t, h.Root, "/sys/class/net/"+id+"/ifindex", "7\n", 0o644)
	}
	c := &change{Names: []string{"bond0"}, Kernel: map[string]kept{"bond0": {}, "eth0": {Master: "bond0"}, "eth2": {}}}
	_ = (activation{f: standard(), h: h, manager: Networkd}).backTo(t.Context(), c, true) // the programs do nothing
	if i, j := slices.Index(ran, "ip link set dev eth2 nomaster"), slices.Index(ran, "networkctl reload"); i < 0 || j < i || slices.Contains(ran, "ip link set dev eth0 nomaster") {
		t.Errorf("it ran %q", ran)
	}
}

// TestAPortThatLeavesTheDesignLeavesItsBridge: no manager takes a port out of a bridge that stays
// when the port has no file any more.
func TestAPortThatLeavesTheDesignLeavesItsBridge(t *testing.T) {
	before := links{
		"br0": {Kind: "bridge", Members: []string{"eth1", "eth2", "eth3"}}, "eth1": {Kind: "ethernet"}, "eth2": {Kind: "ethernet"}, "eth3": {Kind: "ethernet"},
		"br1": {Kind: "bridge", Members: []string{"eth4"}}, "eth4": {Kind: "ethernet"}, "eth5": {Kind: "ethernet"},
		"bond0": {Kind: "bond", Members: []string{"eth5"}, Bond: &item.Bond{Mode: "active-backup"}},
	}
	after := links{
		"br0": {Kind: "bridge", Members: []string{"eth1"}}, "eth1": {Kind: "ethernet"},
		"bond0": before["bond0"], // lists eth5, which has no settings of its own any more
	}
	for _, there := range []bool{true, false} {
		var ran []string
		h := inside.Real(t.TempDir(), true)
		h.Exec = func(_ context.Context, c inside.Command) (inside.Output, error) {
			ran = append(ran, c.Path+" "+strings.Join(c.Args, " "))
			return inside.Output{}, nil
		}
		for id := range before {
			put(t, h.Root, "/sys/class/net/"+id+"/ifindex", "7\n", 0o644)
			if there && id != "eth3" { // somebody has taken eth3 out
				if err := os.Symlink("../"+before.master(id), filepath.Join(h.Root, "sys/class/net", id, "master")); err != nil && before.master(id) != "" {
					t.Fatal(err)
				}
			}
		}
		var err error
		if h.Owned, err = inside.LoadOwned(h.Root); err != nil {
			t.Fatal(err)
		}
		a := activation{f: standard(), h: h, manager: Networkd}
		if err := a.release(t.Context(), &plan{before: before, after: after, all: after.complete(), manager: Networkd}); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]bool{"eth1": false, "eth2": there, "eth3": false, "eth4": false, "eth5": false} {
			if got := slices.Contains(ran, "ip link set dev "+id+" nomaster"); got != want {
				t.Errorf("there: %t, %s: got %t, want %t (%q)", there, id, got, want, ran)
			}
		}
	}
}

// ifupdown brings up each interface behind what it is made of, and takes it down before that:
// else a bridge comes up without the VLAN that is its port.
func TestOrderOfIfupdown(t *testing.T) {
	var ran []string
	h := inside.Real(t.TempDir(), true)
	h.Exec = func(_ context.Context, c inside.Command) (inside.Output, error) {
		ran = append(ran, c.Path+" "+strings.Join(c.Args, " "))
		return inside.Output{}, nil
	}
	owned, err := inside.LoadOwned(h.Root)
	if err != nil {
		t.Fatal(err)
	}
	h.Owned = owned
	only := func(program string) (all []string) {
		for _, line := range ran {
			if rest, is := strings.CutPrefix(line, program+" --force "); is {
				all = append(all, rest)
			}
		}
		return all
	}
	up := []string{"lan0", "lan1", "bond0", "vlan5", "br5"}
	down := slices.Clone(up)
	slices.Reverse(down)
	all := links{
		"bond0": {Kind: "bond", Members: []string{"lan0", "lan1"}, Bond: &item.Bond{Mode: "active-backup"}}, "lan0": {Kind: "ethernet"}, "lan1": {Kind: "ethernet"},
		"vlan5": {Kind: "vlan", Parent: "bond0", VLAN: 5}, "br5": {Kind: "bridge", Members: []string{"vlan5"}},
	}
	m := &machine{links: map[string]*real{}}
	for id, l := range all {
		m.links[id] = &real{Link: l, up: true}
	}
	p := &plan{before: all, after: all, all: all, manager: Ifupdown}
	a := activation{f: standard(), h: h, manager: Ifupdown, changed: all.names()}
	if err := a.takeDown(t.Context(), p, m); err != nil || !slices.Equal(only("ifdown"), down) {
		t.Errorf("takes down %q, want %q (%v)", only("ifdown"), down, err)
	}
	c := standard().newChange(h, p, m)
	ran = nil
	_ = a.backTo(t.Context(), c, true) // of a machine without tables
	if !slices.Equal(only("ifup"), up) {
		t.Errorf("on the way back brings up %q, want %q", only("ifup"), up)
	}
}

// What ifdown has deleted is not deleted once more: a bond could not get another mode.
func TestWhatIfdownDeletesIsGone(t *testing.T) {
	var ran []string
	h := inside.Real(t.TempDir(), true)
	h.Exec = func(_ context.Context, c inside.Command) (inside.Output, error) {
		ran = append(ran, c.Path+" "+strings.Join(c.Args, " "))
		return inside.Output{}, nil
	}
	var err error
	if h.Owned, err = inside.LoadOwned(h.Root); err != nil {
		t.Fatal(err)
	}
	bond := func(mode string) links {
		return links{"bond0": {Kind: "bond", Bond: &item.Bond{Mode: mode}}, "br0": {Kind: "bridge"}}
	}
	before, after := bond("active-backup"), bond("802.3ad")
	delete(after, "br0")
	m := &machine{links: map[string]*real{"bond0": {Link: before["bond0"]}, "br0": {Link: before["br0"]}}}
	a := activation{f: standard(), h: h, manager: Ifupdown, changed: []string{"bond0", "br0"}}
	for _, there := range []bool{true, false} {
		ran = nil
		if there {
			put(t, h.Root, "/sys/class/net/bond0/ifindex", "7\n", 0o644)
			put(t, h.Root, "/sys/class/net/br0/ifindex", "8\n", 0o644)
		} else if err := os.RemoveAll(filepath.Join(h.Root, "sys")); err != nil {
			t.Fatal(err)
		}
		if err := a.prepare(t.Context(), &plan{before: before, after: after, all: before, manager: Ifupdown}, m); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"bond0", "br0"} {
			if got := slices.Contains(ran, "ip link delete dev "+id); got != there {
				t.Errorf("%s there: %t, deleted: %t", id, there, got)
			}
		}
	}
}

// A port that no program puts back into its bridge is put there by hand.
func TestAPortComesBack(t *testing.T) {
	before := map[string]kept{"vlan5": {Master: "br5", Up: true}, "lan0": {Master: "bond0"}, "lan1": {}, "lan2": {Master: "gone"}}
	m := &machine{links: map[string]*real{
		"br5": {Link: item.Link{Kind: "bridge"}}, "bond0": {Link: item.Link{Kind: "bond", Members: []string{"lan0"}}},
		"vlan5": {Link: item.Link{Kind: "vlan"}, up: true}, "lan0": {}, "lan1": {}, "lan2": {},
	}}
	lost := m.lost(before)
	if len(lost) != 1 || lost["vlan5"].Master != "br5" {
		t.Fatalf("lost is %+v, want vlan5 of br5", lost)
	}
	var ran []string
	for _, args := range membership("vlan5", lost["vlan5"], before["vlan5"].Up) {
		ran = append(ran, strings.Join(args, " "))
	}
	if want := []string{"link set dev vlan5 down", "link set dev vlan5 master br5", "link set dev vlan5 up"}; !slices.Equal(ran, want) {
		t.Errorf("it runs %q, want %q", ran, want)
	}
}

// What the machine sees for itself sets the network back at once.
func TestFailuresSetBack(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(s *system)
		want  string
	}{
		"the gateway is silent": {func(s *system) { s.deaf = true }, "the default gateway 10.1.0.1 does not answer"},
		"the manager fails":     {func(s *system) { s.broken = "reconfigure" }, "reconfigure is broken[2J"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			before := s.configuration()
			c.spoil(s)
			err := s.facet().Apply(t.Context(), s.host(), items(wanted), nil)
			if class(err) != wire.Reverted || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want reverted and %q", err, c.want)
			}
			s.isBack(before)
			if s.timer != "" {
				t.Error("the timer still runs")
			}
		})
	}
}

// Without both ways back nothing is touched.
func TestWithoutAWayBack(t *testing.T) {
	s := newSystem(t)
	before := s.configuration()
	s.broken = "systemd-run"
	if err := s.facet().Apply(t.Context(), s.host(), items(wanted), nil); class(err) != wire.Failed || !strings.Contains(err.Error(), "the network was not changed") {
		t.Errorf("%v, want failed", err)
	}
	s.isBack(before)
}

// What cannot be is refused before anything is touched.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		all  links
		want string
	}{
		"an interface that is not there": {links{"eth7": {Kind: "ethernet"}}, "no interface eth7; it has eth0, eth1"},
		"a member that is not there":     {links{"br0": {Kind: "bridge", Members: []string{"eth7"}}}, "needs the interface eth7"},
		"a parent that nobody designed":  {links{"v": {Kind: "vlan", VLAN: 5, Parent: "eth0"}}, "must be in the design too"},
		"a name":                         {links{"../x": {Kind: "ethernet"}}, "not a name for an interface"},
	} {
		s := newSystem(t)
		before := s.configuration()
		if err := s.facet().Apply(t.Context(), s.host(), items(c.all), nil); class(err) != wire.Refused || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if s.steps > 0 {
			t.Errorf("%s: %v", name, s.ran)
		}
		s.isBack(before)
	}
}

// A program that is killed at any step leaves a machine that comes back: by the
// timer, by the next boot, or by being asked again. Nothing of the configuration
// is touched before both ways back are armed.
func TestKilledAnywhere(t *testing.T) {
	for way, recover := range map[string]func(t *testing.T, s *system, before string){
		"the timer":     byTimer,
		"the next boot": byBoot,
		"asked again":   byAsking,
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			for cut := 0; ; cut++ {
				s := newSystem(t)
				s.cut = cut
				f := s.facet()
				before := s.configuration()
				s.onStep = func(what string) {
					if s.configuration() != before && !s.armed() {
						t.Errorf("before %q the configuration is changed and not armed", what)
					}
				}
				err, cutShort := orKilled(func() error { return f.Apply(t.Context(), s.host(), items(wanted), nil) })
				s.onStep, s.cut = nil, -1
				if !cutShort {
					if err != nil || cut < 15 {
						t.Fatalf("%d steps: %v", cut, err)
					}
					return
				}
				c, _ := readMarker(s.host())
				if c != nil {
					f.now = func() time.Time { return c.Until.Add(-time.Second) }
				}
				if seconds, is := f.CutShort(s.host()); is != (c != nil && c.Armed) || is && seconds != 1 {
					t.Errorf("it tells that it was cut short: %v, in %d s; the marker is %+v", is, seconds, c)
				}
				recover(t, s, before)
				if _, is := s.facet().CutShort(s.host()); is {
					t.Error("it still tells that it was cut short")
				}
				if t.Failed() {
					t.Fatalf("killed at step %d", cut)
				}
			}
		})
	}
}

// A field that leaves the design of an interface leaves the machine. Where the change is set back,
// the list says again that it was asked for, so that it leaves with the next change.
func TestAFieldThatLeavesAnInterface(t *testing.T) {
	s := newSystem(t)
	f := s.facet()
	apply := func(all links) {
		t.Helper()
		h := s.host()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(h.Owned.Ask("network", items(all))) // as each run does
		must(f.Apply(t.Context(), h, items(all), nil))
		must(h.Owned.NoteAsked("network", items(all)))
	}
	left := func() []string {
		return items(links{"eth0": {Kind: "ethernet", MAC: wanted["eth0"].MAC, Addresses: wanted["eth0"].Addresses}})[0].Returning(s.host().Owned.Asked("network")["links.eth0"])
	}
	apply(wanted)
	name, _ := f.Unconfirmed(s.host())
	if err := f.Confirm(t.Context(), s.host(), name); err != nil {
		t.Fatal(err)
	}
	if got := left(); !slices.Equal(got, []string{"mtu", "routes"}) {
		t.Fatalf("the fields that left are %q", got)
	}
	fewer := maps.Clone(wanted)
	fewer["eth0"] = item.Link{Kind: "ethernet", MAC: wanted["eth0"].MAC, Addresses: wanted["eth0"].Addresses}
	apply(fewer)
	if len(s.routes["eth0"]) > 0 || len(left()) > 0 {
		t.Errorf("routes %v, still to leave %q", s.routes["eth0"], left())
	}
	name, _ = f.Unconfirmed(s.host())
	if err := f.revert(t.Context(), s.host(), name); err != nil { // nobody confirmed it
		t.Fatal(err)
	}
	if got := left(); !slices.Equal(got, []string{"mtu", "routes"}) || len(s.routes["eth0"]) == 0 {
		t.Errorf("set back, the fields that left are %q, and the routes %v", got, s.routes["eth0"])
	}
}

// Why a change is set back is known wherever setting it back is killed: one that was cut short is
// made again, and none is taken for one whose reason could not be written.
func TestSettingBackThatIsKilledKeepsItsReason(t *testing.T) {
	for cut := 0; ; cut++ {
		s := newSystem(t)
		s.onStep = func(string) {
			if s.armed() && s.cut < 0 {
				s.cut = s.steps + 3
			}
		}
		s.cut = -1
		if _, cutShort := orKilled(func() error { return s.facet().Apply(t.Context(), s.host(), items(wanted), nil) }); !cutShort {
			t.Fatal("the change was not cut")
		}
		s.onStep, s.cut = nil, s.steps+cut
		name := strings.TrimPrefix(s.timer, "slipway-revert-")
		_, killed := orKilled(func() error { return s.facet().revert(t.Context(), s.host(), name) })
		s.cut = -1
		if !killed {
			if cut < 5 {
				t.Errorf("setting back has only %d steps", cut)
			}
			return
		}
		if c, err := readMarker(s.host()); err != nil || c != nil && c.Undone && (c.Why != cutShort || !c.Again) {
			t.Errorf("killed at step %d of setting it back: %+v, %v", cut, c, err)
		}
		if r, ok := readReverted(s.host()); ok && !r.Again {
			t.Errorf("killed at step %d of setting it back: it is recorded as %+v", cut, r)
		}
	}
}

func byTimer(t *testing.T, s *system, before string) {
	if s.timer == "" {
		s.untouched(before)
		return
	}
	if err := s.facet().revert(t.Context(), s.host(), strings.TrimPrefix(s.timer, "slipway-revert-")); err != nil {
		t.Error(err)
	}
	s.isBack(before)
}

// untouched holds that the configuration is that of before.
func (s *system) untouched(before string) {
	s.t.Helper()
	if got := s.configuration(); got != before {
		s.t.Errorf("touched and not armed:\n%s", got)
	}
}

func byBoot(t *testing.T, s *system, before string) {
	s.timer, s.running, s.ran = "", false, nil
	if !s.has(markerFile) || !s.has(bootLink) {
		s.untouched(before)
		return
	}
	c, err := readMarker(s.host())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.facet().revert(t.Context(), s.host(), c.Name); err != nil {
		t.Error(err)
	}
	s.reload() // the manager starts
	s.isBack(before)
	if slices.ContainsFunc(s.ran, func(r string) bool { return strings.HasPrefix(r, "networkctl") }) {
		t.Errorf("a manager that does not run yet was spoken to: %q", s.ran)
	}
}

func byAsking(t *testing.T, s *system, _ string) {
	f := s.facet()
	if err := f.Apply(t.Context(), s.host(), items(wanted), nil); err != nil {
		t.Error(err)
		return
	}
	name, _ := f.Unconfirmed(s.host())
	if err := f.Confirm(t.Context(), s.host(), name); err != nil {
		t.Error(err)
	}
	s.same(f, wanted)
	if s.has(markerFile) || s.has(bootUnit) || s.has(bootLink) || s.timer != "" {
		t.Error("something is left of the change")
	}
}

// A revert that is cut is done again; a confirmation that is cut holds from its
// first step on.
func TestRevertAndConfirmKilledAnywhere(t *testing.T) {
	for cut := 0; ; cut++ {
		s := newSystem(t)
		f := s.facet()
		before := s.configuration()
		if err := f.Apply(t.Context(), s.host(), items(wanted), nil); err != nil {
			t.Fatal(err)
		}
		name, _ := f.Unconfirmed(s.host())
		s.cut = s.steps + cut
		_, cutShort := orKilled(func() error { return f.revert(t.Context(), s.host(), name) })
		s.cut = -1
		if err := f.revert(context.Background(), s.host(), name); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if s.isBack(before); t.Failed() {
			t.Fatalf("cut at %d", cut)
		}
		if !cutShort {
			if cut < 10 {
				t.Errorf("only %d steps", cut)
			}
			break
		}
	}
	for cut := 0; ; cut++ {
		s := newSystem(t)
		f := s.facet()
		before := s.configuration()
		if err := f.Apply(t.Context(), s.host(), items(wanted), nil); err != nil {
			t.Fatal(err)
		}
		name, _ := f.Unconfirmed(s.host())
		after := s.configuration()
		s.cut = s.steps + cut
		_, cutShort := orKilled(func() error { return f.Confirm(t.Context(), s.host(), name) })
		s.cut = -1
		if err := f.revert(t.Context(), s.host(), name); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		want := after
		if cut == 0 {
			want = before
		}
		if s.isBack(want); t.Failed() {
			t.Fatalf("confirmation cut at %d", cut)
		}
		if !cutShort {
			return
		}
	}
}

// A change that was set back once, and is confirmed when it is made again, is confirmed wherever
// that was cut: the record of before is not taken for one of this time.
func TestConfirmationIsNotTakenForTheRevertBefore(t *testing.T) {
	for cut := 0; ; cut++ {
		s := newSystem(t)
		f := s.facet()
		if err := f.Apply(t.Context(), s.host(), items(wanted), nil); err != nil {
			t.Fatal(err)
		}
		name, _ := f.Unconfirmed(s.host())
		if err := f.revert(t.Context(), s.host(), name); err != nil {
			t.Fatal(err)
		}
		again := s.host()
		again.Again = true
		if err := f.Apply(t.Context(), again, items(wanted), nil); err != nil {
			t.Fatal(err)
		}
		s.cut = s.steps + cut
		_, cutShort := orKilled(func() error { return f.Confirm(t.Context(), s.host(), name) })
		s.cut = -1
		if err := f.Confirm(t.Context(), s.host(), name); err != nil || s.has(revertedFile) || s.has(markerFile) {
			t.Fatalf("cut at %d, and confirmed again: %v, the record is there: %v", cut, err, s.has(revertedFile))
		}
		if !cutShort {
			if cut < 5 {
				t.Errorf("only %d steps", cut)
			}
			return
		}
	}
}
