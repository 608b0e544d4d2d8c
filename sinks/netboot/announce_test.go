package netboot

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/mdlayher/ndp"

	"github.com/slipway-gitops/slipway/engine/site"
)

var srvMAC = net.HardwareAddr{0x52, 0x54, 0, 0x71, 0, 0xf0}

// announcedAs is an advertisement in short, as a host reads it.
func announcedAs(t *testing.T, ra *ndp.RouterAdvertisement) string {
	t.Helper()
	b, err := ndp.MarshalMessage(ra)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ndp.ParseMessage(b)
	if err != nil {
		t.Fatal(err)
	}
	ra = m.(*ndp.RouterAdvertisement)
	all := []string{fmt.Sprintf("M=%t O=%t router %s", ra.ManagedConfiguration, ra.OtherConfiguration, ra.RouterLifetime)}
	for _, o := range ra.Options {
		switch o := o.(type) {
		case *ndp.LinkLayerAddress:
			all = append(all, "from "+o.Addr.String())
		case *ndp.PrefixInformation:
			all = append(all, fmt.Sprintf("%s/%d L=%t A=%t %s", o.Prefix, o.PrefixLength, o.OnLink, o.AutonomousAddressConfiguration, o.ValidLifetime))
		case *ndp.MTU:
			all = append(all, fmt.Sprint("mtu ", o.MTU))
		case *ndp.RecursiveDNSServer:
			all = append(all, fmt.Sprint("dns ", o.Servers))
		case *ndp.DNSSearchList:
			all = append(all, fmt.Sprint("search ", o.DomainNames))
		}
	}
	return strings.Join(all, ", ")
}

// What is announced is what the design says: no default router but where the gateway is this host, and no addresses of
// hosts' own making but where the network has autoconfigure.
func TestAdvertisement(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*site.Network)
		want   string
	}{
		"a gateway that forwards nothing": {func(n *site.Network) { n.Boot.Announce, n.Gateway, n.DNS = true, "fd00:71::2", site.DNS{} },
			"M=true O=true router 0s, from 52:54:00:71:00:f0, fd00:71::/64 L=true A=false 24h0m0s"},
		"as designed": {func(n *site.Network) { n.Boot.Announce = true },
			"M=true O=true router 0s, from 52:54:00:71:00:f0, fd00:71::/64 L=true A=false 24h0m0s, dns [fd00:71::53], search [lab.example.org]"},
		"autoconfigure and this host's gateway": {func(n *site.Network) {
			n.Boot.Announce, n.Autoconfigure, n.Gateway, n.MTU, n.DNS = true, true, "fd00:71::2", 9000, site.DNS{}
		}, "M=true O=true router 30m0s, from 52:54:00:71:00:f0, fd00:71::/64 L=true A=true 24h0m0s, mtu 9000"},
		"no gateway, a small MTU": {func(n *site.Network) { n.Boot.Announce, n.Gateway, n.MTU, n.DNS = true, "", 576, site.DNS{} },
			"M=true O=true router 0s, from 52:54:00:71:00:f0, fd00:71::/64 L=true A=false 24h0m0s"},
	} {
		n, err := networkOf(mgmt6(c.change), "mgmt", []netip.Prefix{netip.MustParsePrefix("fd00:71::2/64")})
		if err != nil {
			t.Fatal(err)
		}
		if got := announcedAs(t, advertisement(n, srvMAC, name != "a gateway that forwards nothing")); !n.isAnnounced() || got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := announcedAs(t, farewell(srvMAC)); got != "M=true O=true router 0s, from 52:54:00:71:00:f0" {
		t.Errorf("the last one: %s", got)
	}
	silent, err := networkOf(mgmt6(nil), "mgmt", []netip.Prefix{netip.MustParsePrefix("fd00:71::2/64")})
	if err != nil || silent.isAnnounced() {
		t.Errorf("announced without announce, %v", err)
	}
	four, err := networkOf(mgmt(func(n *site.Network) { n.Boot.Announce = true }), "mgmt", []netip.Prefix{netip.MustParsePrefix("10.71.0.2/24")})
	if err != nil || four.isAnnounced() {
		t.Errorf("announced in IPv4, %v", err)
	}
}

// Nothing is announced before other servers were looked for, beside one, and behind a relay.
func TestAnnouncedWhileServed(t *testing.T) {
	f := New(Config{Listen: []Listen{{"eth0", "mgmt"}}}).faces[0]
	one, now := f.served[0], time.Now()
	s := mgmt6(func(n *site.Network) { n.Boot.Announce = true })
	n, err := networkOf(s, "mgmt", []netip.Prefix{netip.MustParsePrefix("fd00:71::2/64")})
	if err != nil {
		t.Fatal(err)
	}
	one.set(n, nil)
	if f.announced(now, true) != nil {
		t.Error("announced before other servers were looked for")
	}
	one.probed([]*network{n})
	if f.announced(now, true) != n {
		t.Error("not announced")
	}
	if line := one.status(newArms(), now).Line(); line != "mgmt on eth0, with router advertisements: addresses for designed nodes" {
		t.Errorf("people read %q", line)
	}
	s.Networks["mgmt"].Gateway = "fd00:71::2"
	gateway, err := networkOf(s, "mgmt", []netip.Prefix{netip.MustParsePrefix("fd00:71::2/64")})
	if err != nil {
		t.Fatal(err)
	}
	one.set(gateway, nil)
	if f.announced(now, false) != gateway || !strings.Contains(fmt.Sprint(one.problem(now)), "not announced as default router") {
		t.Errorf("of a gateway that forwards nothing people read %v", one.problem(now))
	}
	if f.announced(now, true) != gateway || one.problem(now) != nil {
		t.Errorf("of a gateway that forwards people read %v", one.problem(now))
	}
	one.set(n, nil)
	one.foreign(netip.MustParseAddr("fe80::3"), now)
	if f.announced(now, true) != nil || f.announced(now.Add(foreignFor), true) != n {
		t.Error("announced beside another server, or not after it")
	}
	if beside, after := one.status(newArms(), now), one.status(newArms(), now.Add(foreignFor)); beside.Announces || !after.Announces {
		t.Errorf("people read %+v beside another server, and %+v after it", beside, after)
	}
	s.Networks["mgmt"].DHCPRelay = &site.DHCPRelay{Address: "fd00:71::fe", Servers: []string{"fd00:72::2"}}
	far, err := networkOf(s, "mgmt", []netip.Prefix{netip.MustParsePrefix("fd00:72::2/64")})
	if err != nil {
		t.Fatal(err)
	}
	one.set(far, nil)
	if f.announced(now, true) != nil {
		t.Error("announced behind a relay")
	}
}

// Who asks for routers is answered at its link-local address, and forged questions are not.
func TestAsksForRouters(t *testing.T) {
	host := net.HardwareAddr{0x52, 0x54, 0, 0x71, 0, 1}
	b, err := ndp.MarshalMessageChecksum(&ndp.RouterSolicitation{}, netip.MustParseAddr("fe80::1"), allRouters)
	if err != nil {
		t.Fatal(err)
	}
	question := func(from string, hops byte) []byte {
		return frame6(groupMAC(allRouters), host, netip.MustParseAddr(from), allRouters, protocolICMPv6, hops, b)
	}
	if who, ok := asksOf(question("fe80::1", 255)); !ok || who.at != netip.MustParseAddr("fe80::1") || who.mac.String() != host.String() {
		t.Errorf("%+v, %t", who, ok)
	}
	if who, ok := asksOf(question("::", 255)); !ok || who.at != allNodes || who.mac.String() != "33:33:00:00:00:01" {
		t.Errorf("%+v, %t", who, ok)
	}
	group := question("fe80::1", 255)
	group[6] |= 1
	for name, b := range map[string][]byte{"from another link": question("fe80::1", 64), "from a global address": question("fd00:71::9", 255), "from a group": group, "cut": question("fe80::1", 255)[:58]} {
		if _, ok := asksOf(b); ok {
			t.Errorf("one %s is answered", name)
		}
	}
}

// The exchange of firmware that boots by HTTP, as it is on the wire.
func TestExchange6(t *testing.T) {
	d := newDesk6(t, mgmt6(nil))
	if err := d.r.arms.arm(armedBoot(t)); err != nil {
		t.Fatal(err)
	}
	d.r.arms.byNode["n1"].token = "token"
	d.r.arms.byToken["token"] = d.r.arms.byNode["n1"]
	hex := func(kind dhcpv6.MessageType, change ...dhcpv6.Modifier) string {
		t.Helper()
		m := message(t, uuidDUID(), kind, append(change, dhcpv6.WithArchType(iana.EFI_X86_64_HTTP),
			dhcpv6.WithOption(&dhcpv6.OptVendorClass{EnterpriseNumber: intel, Data: [][]byte{[]byte("HTTPClient:Arch:00016:UNDI:003001")}}))...)
		m.TransactionID = dhcpv6.TransactionID{1, 2, 3}
		a := d.answer6("fe80::5054:ff:fe71:1", m)
		if a == nil {
			t.Fatal("no answer")
		}
		if a.to != netip.MustParseAddrPort("[fe80::5054:ff:fe71:1]:546") || a.from.IsValid() {
			t.Errorf("it goes to %s from %s", a.to, a.from)
		}
		return fmt.Sprintf("%x", a.packet.ToBytes())
	}
	server, client := "0002000a0003000152540071"+"00f0", "0001"+"0012"+"0004"+fmt.Sprintf("%x", smbios[1:])
	settings := "00170010fd000071000000000000000000000053" + "0018" + "0011" + fmt.Sprintf("%x", "\x03lab\x07example\x03org\x00")
	address := "0003002801020304" + "00000708" + "00000c4e" + "00050018fd000071000000000000000000000011" + "00000e10" + "00000e10"
	url := "http://[fd00:71::2]:9482/token/bootx64.efi"
	boot := "00100010" + "00000157" + "000a" + fmt.Sprintf("%x", "HTTPClient") + fmt.Sprintf("003b%04x%x", len(url), url)
	if got, want := hex(dhcpv6.MessageTypeSolicit, ia()), "02010203"+server+client+settings+"000700"+"01ff"+address+boot; got != want {
		t.Errorf("offered is\n%s, not\n%s", got, want)
	}
	if got, want := hex(dhcpv6.MessageTypeRequest, ia("fd00:71::11"), fromServer(ours)), "07010203"+server+client+settings+address+boot; got != want {
		t.Errorf("assigned is\n%s, not\n%s", got, want)
	}
}
