package network

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
)

// A bond, a bridge and a VLAN as the kernel shows them are seen as the design
// would have them.
func TestObserveWhatTheKernelShows(t *testing.T) {
	s := newSystem(t)
	for path, text := range map[string]string{
		"eth1/bonding_slave/perm_hwaddr": "52:54:00:aa:00:02", "eth1/address": "52:54:00:aa:00:01",
		"bond0/ifindex": "7", "bond0/mtu": "9000", "bond0/bonding/slaves": "eth1 eth0", "bond0/bonding/mode": "802.3ad 4", "bond0/bonding/lacp_rate": "fast 1",
		"bond0/bonding/xmit_hash_policy": "layer3+4 1", "bond0/bonding/miimon": "100", "bond0/bonding/min_links": "1", "bond0/flags": "0x1403", "bond0/carrier": "1",
		"bond0.5/ifindex": "8", "bond0.5/mtu": "1500",
		"br5/ifindex": "9", "br5/mtu": "1500", "br5/bridge/stp_state": "1", "br5/brif/bond0.5": "", "eth0/device/sriov_numvfs": "4",
	} {
		put(t, s.root, "/sys/class/net/"+path, text+"\n", 0o644)
	}
	put(t, s.root, "/sys/class/net/bonding_masters", "bond0\n", 0o644)
	put(t, s.root, "/proc/net/vlan/config", "VLAN Dev name    | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\nbond0.5        | 5  | bond0\n", 0o644)
	s.addresses["bond0"] = []string{"10.9.0.1/24", "192.0.2.7/32", "fe80::1/64"}
	seen, err := s.facet().Observe(t.Context(), s.host(), []string{"links.eth0", "links.eth1", "links.bond0", "links.bond0.5", "links.br5", "links.gone"})
	if err != nil || len(seen.Unread)+len(seen.Cannot) > 0 {
		t.Fatal(err, seen.Unread, seen.Cannot)
	}
	for key, want := range map[string]string{
		"links.eth0.addresses": "10.1.0.10/24", "links.eth0.routes": "0.0.0.0/0 via 10.1.0.1", "links.eth0.functions": "4", "links.eth0.mtu": "",
		"links.eth1.mac": "52:54:00:aa:00:02", "links.bond0.kind": "bond", "links.bond0.mtu": "9000", "links.bond0.members": "eth0, eth1",
		"links.bond0.bond": "802.3ad, lacp fast, layer3+4, miimon 100ms, min 1", "links.bond0.addresses": "10.9.0.1/24",
		"links.bond0.5.kind": "vlan", "links.bond0.5.vlan": "5 on bond0", "links.br5.members": "bond0.5", "links.br5.stp": "on", "links.gone.kind": "",
	} {
		if seen.Have[key] != want {
			t.Errorf("%s is %q, want %q", key, seen.Have[key], want)
		}
	}
}

// What was left to the kernel says nothing of an interface that is ours, and an
// address that something shares is not ours.
func TestAsItWasMade(t *testing.T) {
	r := real{Link: item.Link{Kind: "bond", MTU: 1450, MAC: "x", Bond: &item.Bond{Mode: "802.3ad", LACPRate: "slow", HashPolicy: "layer2", Monitor: 100},
		Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1", Metric: 100}, {To: "::/0", Via: "fd00::1", Metric: 1024}, {To: "10.9.0.0/16", Via: "10.1.0.2", Metric: 50}}},
		hosts: []string{"10.1.0.5/32", "10.1.0.6/32"}}
	made := item.Link{Kind: "bond", Bond: &item.Bond{Mode: "802.3ad", Monitor: 100}, Addresses: []string{"10.1.0.5/32"},
		Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1"}, {To: "::/0", Via: "fd00::1"}, {To: "10.9.0.0/16", Via: "10.1.0.2", Metric: 50}}}
	got, want := r.as(made).Fields(), made.Fields()
	for field, text := range want {
		if got[field] != text {
			t.Errorf("%s is %q, want %q", field, got[field], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// What cannot be read is unread, never absent; what was changed by hand shows.
func TestObserveUnreadAndChanged(t *testing.T) {
	s := newSystem(t)
	f := s.facet()
	f.tables.routes = func() ([]kernelRoute, error) { return nil, errors.New("no") }
	seen, err := f.Observe(t.Context(), s.host(), []string{"links.eth0"})
	if err != nil || !strings.Contains(seen.Unread["links.eth0.routes"], "no") || seen.Have["links.eth0.routes"] != "" {
		t.Errorf("%v, %v, %v", err, seen.Unread, seen.Have)
	}
	f = s.facet()
	if err := f.Apply(t.Context(), s.host(), items(wanted), nil); err != nil {
		t.Fatal(err)
	}
	name, _ := f.Unconfirmed(s.host())
	if err := f.Confirm(t.Context(), s.host(), name); err != nil {
		t.Fatal(err)
	}
	put(t, s.root, "/etc/systemd/network/10-slipway-eth1.network", "[Match]\nName=eth1\n", 0o644)
	seen, err = f.Observe(t.Context(), s.host(), keysOf(wanted))
	if err != nil || !strings.Contains(seen.Have["links.eth1.kind"], "somebody changed /etc/systemd/network/10-slipway-eth1.network") {
		t.Errorf("%v, %q", err, seen.Have["links.eth1.kind"])
	}
	if err := f.Apply(t.Context(), s.host(), items(wanted), nil); err != nil {
		t.Fatal(err)
	}
	s.same(f, wanted)
}

// A system that does not run gets its files, and no guard.
func TestInstalledSystem(t *testing.T) {
	s := newSystem(t)
	f := s.facet()
	h := s.host()
	h.Live = false
	for range 2 {
		if err := f.Apply(t.Context(), h, items(wanted), nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.ran) > 0 || s.has(markerFile) || !s.has("/etc/systemd/network/10-slipway-eth0.network") {
		t.Errorf("ran %q", s.ran)
	}
	seen, err := f.Observe(t.Context(), h, keysOf(wanted))
	if err != nil || seen.Have["links.eth0.addresses"] != "10.1.0.11/24" {
		t.Errorf("%v, %v", err, seen.Have)
	}
}

// The kernel that runs this test answers, and the loopback has its address.
func TestRealTables(t *testing.T) {
	all, err := readAddresses()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(all, kernelAddress{1, netip.MustParsePrefix("127.0.0.1/8"), true}) {
		t.Errorf("no loopback among %v", all)
	}
	if _, err := readRoutes(); err != nil {
		t.Error(err)
	}
}

// The first route of a table made by hand is read, and those of daemons are not.
func TestParseRoutes(t *testing.T) {
	route := func(protocol, table byte, attributes ...[]byte) []byte {
		body := append([]byte{2, 16, 0, 0, table, protocol, 0, 1, 0, 0, 0, 0}, slices.Concat(attributes...)...)
		head := binary.NativeEndian.AppendUint32(nil, uint32(16+len(body)))
		head = binary.NativeEndian.AppendUint16(head, 24)
		return slices.Concat(head, make([]byte, 10), body)
	}
	to, via, out := attribute(1, 10, 9, 0, 0), attribute(5, 10, 1, 0, 2), attribute(4, four(3)...)
	got := parseRoutes(slices.Concat(
		route(4, 254, to, via, out, attribute(6, four(50)...)), route(186, 254, to, via, out), route(16, 254, to, via, out), route(4, 255, to, via, out)))
	if want := []kernelRoute{{index: 3, Route: item.Route{To: "10.9.0.0/16", Via: "10.1.0.2", Metric: 50}}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Whatever a kernel says, nothing falls over, and what is told of an
// address makes sense.
func FuzzTables(f *testing.F) {
	f.Add([]byte{20, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 8, 128, 254})
	f.Fuzz(func(t *testing.T, table []byte) {
		for _, a := range parseAddresses(table) {
			if !a.prefix.IsValid() {
				t.Errorf("%v", a)
			}
		}
		parseAddressUses(table)
		parseRouteUses(table)
		for _, r := range parseRoutes(table) {
			if _, err := netip.ParsePrefix(r.To); err != nil {
				t.Error(err)
			}
		}
	})
}
