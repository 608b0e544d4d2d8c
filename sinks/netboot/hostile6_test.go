package netboot

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv6"

	"github.com/slipway-gitops/slipway/engine/site"
)

// An address that nobody got here is looked at before it is given, however a client asks for it the first time.
func TestWhatSomebodyHasIsNotGiven6(t *testing.T) {
	for name, ask := range map[string]func(d *desk) string{
		"rapid commit": func(d *desk) string {
			return d.ask6(macA, dhcpv6.MessageTypeSolicit, ia("fd00:71::100"), dhcpv6.WithRapidCommit)
		},
		"request without an offer": func(d *desk) string {
			return d.ask6(macA, dhcpv6.MessageTypeRequest, ia("fd00:71::100"), fromServer(ours))
		},
	} {
		d := newDesk6(t, mgmt6(leases("fd00:71::100", "fd00:71::101")))
		d.used["fd00:71::100"] = true
		if got, want := ask(d), "REPLY fd00:71::101/60 fd00:71::100/0"; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// Invented clients cannot fill the range and the records faster than newcomers may come, whatever they send.
func TestInventedClients(t *testing.T) {
	for name, ask := range map[string]func(d *desk, mac string, i int){
		"solicit": func(d *desk, mac string, i int) {
			d.ask6(mac, dhcpv6.MessageTypeSolicit, ia(fmt.Sprintf("fd00:71::1:%x", i)), dhcpv6.WithRapidCommit)
		},
		"request": func(d *desk, mac string, i int) {
			d.ask6(mac, dhcpv6.MessageTypeRequest, ia(fmt.Sprintf("fd00:71::1:%x", i)), fromServer(ours))
		},
		"renew": func(d *desk, mac string, i int) {
			d.ask6(mac, dhcpv6.MessageTypeRenew, ia(fmt.Sprintf("fd00:71::1:%x", i)), fromServer(ours))
		},
		"rebind": func(d *desk, mac string, i int) {
			d.ask6(mac, dhcpv6.MessageTypeRebind, ia(fmt.Sprintf("fd00:71::1:%x", i)))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk6(t, mgmt6(leases("fd00:71::1:0", "fd00:71::1:ffff")))
			for i := range 1000 {
				ask(d, net.HardwareAddr{2, 0, 0, 0, byte(i >> 8), byte(i)}.String(), i)
			}
			if n := len(d.records.all); n == 0 || n > 200 {
				t.Errorf("%s: %d leases of 1000 invented clients at once are recorded", name, n)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, mgmt(func(n *site.Network) {
			leases("10.71.64.0", "10.71.127.255")(n)
			n.CIDR = "10.71.0.0/16"
		}), "10.71.0.2/16")
		for i := range 1000 {
			d.ask(net.HardwareAddr{2, 0, 0, 0, byte(i >> 8), byte(i)}.String(), dhcpv4.MessageTypeRequest, ipOption(50, fmt.Sprintf("10.71.%d.%d", 64+i>>8, i&0xff)))
		}
		if n := len(d.records.all); n == 0 || n > 200 {
			t.Errorf("after a restart by DHCPv4: %d leases of 1000 invented clients at once are recorded", n)
		}
	})
}

// Two ports of a machine have one DUID, and with link-local addresses that say nothing of their MAC addresses they
// differ by their IAID alone.
func TestTwoPortsOfOneDUID(t *testing.T) {
	d := newDesk6(t, mgmt6(leases("fd00:71::100", "fd00:71::101")))
	port := func(from string, id byte) string {
		a := d.answer6(from, message(t, llOf(macA), dhcpv6.MessageTypeSolicit, dhcpv6.WithRapidCommit, func(m dhcpv6.DHCPv6) { m.AddOption(&dhcpv6.OptIANA{IaId: [4]byte{id}}) }))
		if a == nil {
			t.Fatal("no answer")
		}
		return a.message().Options.OneIANA().Options.OneAddress().IPv6Addr.String()
	}
	first, second := port("fe80::1234", 1), port("fe80::5678", 2)
	if first == second {
		t.Errorf("both got %s", first)
	}
	if again := port("fe80::1234", 1); again != first {
		t.Errorf("the first got %s again, not %s", again, first)
	}
	for _, l := range d.records.all {
		if l.MAC != "" || l.Client == "" {
			t.Errorf("recorded is %+v", l)
		}
	}
}

// Clients send to the servers of their link. A message to this host's own address may come from anywhere, with any
// sender, and only relays send one.
func TestClientsAreOfTheLink(t *testing.T) {
	d := newDesk6(t, mgmt6(nil))
	parse := d.r.parse6(func(*answer6) error { return nil })
	release := message(t, llOf(macN1), dhcpv6.MessageTypeRelease, ia("fd00:71::11"), fromServer(ours))
	for name, c := range map[string]struct {
		packet dhcpv6.DHCPv6
		to     netip.Addr
		isRead bool
	}{
		"to the link":          {release, allServersOnLink, true},
		"to this host":         {release, netip.MustParseAddr("fd00:71::2"), false},
		"to the site":          {release, allServers, false},
		"to nobody knows whom": {release, netip.Addr{}, false},
		"a relay to this host": {relayed(t, release, "fd00:71::fe", "fe80::1"), netip.MustParseAddr("fd00:71::2"), true},
		"a relay to the site":  {relayed(t, release, "fd00:71::fe", "fe80::1"), allServers, true},
	} {
		if _, err := parse(c.packet.ToBytes(), netip.MustParseAddrPort("[fd00:71::11]:546"), c.to); (err == nil) != c.isRead {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A client that has an address which another one has now hears that, even if there is no other address for it.
func TestNobodyKeepsWhatAnotherHas6(t *testing.T) {
	for name, kind := range map[string]dhcpv6.MessageType{"renew": dhcpv6.MessageTypeRenew, "rebind": dhcpv6.MessageTypeRebind} {
		d := newDesk6(t, mgmt6(leases("fd00:71::100", "fd00:71::100")))
		if got := d.get6(macA); got != "fd00:71::100" {
			t.Fatalf("%s: the first client got %q", name, got)
		}
		var names []dhcpv6.Modifier
		if kind == dhcpv6.MessageTypeRenew {
			names = append(names, fromServer(ours))
		}
		if got := d.ask6(macB, kind, append(names, ia("fd00:71::100"))...); got != "REPLY fd00:71::100/0" {
			t.Errorf("%s: the second client hears %q", name, got)
		}
		if got := d.ask6(macA, kind, append(names, ia("fd00:71::100"))...); got != "REPLY fd00:71::100/60" {
			t.Errorf("%s: the first client hears %q", name, got)
		}
	}
}

// Clients repeat messages whose answers they have lost, repeat addresses, and change their link-local address. That
// gives them no second address, and takes none from another client.
func TestBadClients6(t *testing.T) {
	d := newDesk6(t, mgmt6(leases("fd00:71::100", "fd00:71::101")))
	twice := func(what, from, want, second string, m *dhcpv6.Message) {
		t.Helper()
		for _, want := range []string{want, second} {
			if got := said(d.answer6(from, m)); got != want {
				t.Errorf("%s: %q, not %q", what, got, want)
			}
		}
	}
	us, a := fromServer(ours), "fd00:71::100"
	solicit := message(t, llOf(macA), dhcpv6.MessageTypeSolicit, ia(a))
	twice("solicit", private, "ADVERTISE "+a+"/60", "ADVERTISE "+a+"/60", solicit)
	twice("rapid commit", private, "REPLY "+a+"/60", "REPLY "+a+"/60", message(t, llOf(macA), dhcpv6.MessageTypeSolicit, ia(), dhcpv6.WithRapidCommit))
	twice("solicit late", "fe80::99", "ADVERTISE "+a+"/60", "ADVERTISE "+a+"/60", solicit)
	twice("request", "fe80::98", "REPLY "+a+"/60", "REPLY "+a+"/60", message(t, llOf(macA), dhcpv6.MessageTypeRequest, ia(a, a), us))
	twice("renew with what it never had", private, "REPLY "+a+"/60 fd00:71::77/0", "REPLY "+a+"/60 fd00:71::77/0",
		message(t, llOf(macA), dhcpv6.MessageTypeRenew, ia("fd00:71::77", "fd00:71::77", a), us))
	if n := len(d.records.all); n != 1 {
		t.Errorf("%d leases of one client are recorded", n)
	}
	twice("release", private, "REPLY: Success", "REPLY NoBinding: Success", message(t, llOf(macA), dhcpv6.MessageTypeRelease, ia(a, a), us))
	if got := d.get6(macB); got == "" {
		t.Error("nothing is left for another client")
	}
	twice("decline", private, "REPLY NoBinding: Success", "REPLY NoBinding: Success", message(t, llOf(macA), dhcpv6.MessageTypeDecline, ia(d.get6(macB)), us))
}
