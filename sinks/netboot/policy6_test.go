package netboot

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/slipway-gitops/slipway/engine/site"
)

// mgmt6 is mgmt in IPv6.
func mgmt6(change func(*site.Network)) *site.Site {
	s := mgmt(func(n *site.Network) {
		*n = site.Network{CIDR: "fd00:71::/64", Gateway: "fd00:71::fe", DNS: site.DNS{Domain: "lab.example.org", Servers: []string{"fd00:71::53"}}, Boot: site.NetworkBoot{DHCP: site.DHCPServe}}
		if change != nil {
			change(n)
		}
	})
	s.Nodes["n1"].Addresses["mgmt"], s.Nodes["n2"].Addresses["mgmt"] = "fd00:71::11", "fd00:71::12"
	s.Nodes["n1"].Identity = site.Identity{UUID: uuidN1}
	return s
}

const uuidN1 = "00112233-4455-6677-8899-aabbccddeeff"

// ours is the DUID of the server in tests.
var ours = duidOf(net.HardwareAddr{0x52, 0x54, 0, 0x71, 0, 0xf0})

func newDesk6(t *testing.T, s *site.Site) *desk {
	d := newDesk(t, s, "fd00:71::2/64", "fe80::5054:ff:fe71:f0/64")
	d.r.duid = ours
	return d
}

// private is a link-local address that says nothing of a MAC address.
const private = "fe80::1234"

// message is a client's message, with one identity association unless it is a question for settings.
func message(t testing.TB, duid dhcpv6.DUID, kind dhcpv6.MessageType, change ...dhcpv6.Modifier) *dhcpv6.Message {
	t.Helper()
	m, err := dhcpv6.NewMessage()
	if err != nil {
		t.Fatal(err)
	}
	m.MessageType = kind
	if duid != nil {
		m.AddOption(dhcpv6.OptClientID(duid))
	}
	for _, c := range change {
		c(m)
	}
	return m
}

func ia(addresses ...string) dhcpv6.Modifier {
	return func(d dhcpv6.DHCPv6) {
		one := &dhcpv6.OptIANA{IaId: [4]byte{1, 2, 3, 4}}
		for _, a := range addresses {
			one.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP(a)})
		}
		d.AddOption(one)
	}
}

func llOf(mac string) dhcpv6.DUID {
	hw, err := net.ParseMAC(mac)
	if err != nil {
		panic(err)
	}
	return duidOf(hw)
}

func fromServer(d dhcpv6.DUID) dhcpv6.Modifier { return dhcpv6.WithServerID(d) }

func (d *desk) answer6(from string, m dhcpv6.DHCPv6) *answer6 {
	d.t.Helper()
	req, err := request6Of(m.ToBytes())
	if err != nil {
		d.t.Fatal(err)
	}
	return d.r.answer6(d.t.Context(), req, netip.AddrPortFrom(netip.MustParseAddr(from), clientPort6), time.Now())
}

// message is what the client reads of an answer.
func (a *answer6) message() *dhcpv6.Message {
	m, err := a.packet.GetInnerMessage()
	if err != nil {
		panic(err)
	}
	return m
}

// said is an answer in short: its kind, the addresses with their lifetimes in minutes, and what is refused.
func said(a *answer6) string {
	if a == nil {
		return ""
	}
	text := a.message().MessageType.String()
	for _, one := range a.message().Options.IANA() {
		for _, at := range one.Options.Addresses() {
			text += fmt.Sprintf(" %s/%d", at.IPv6Addr, int(at.ValidLifetime.Minutes()))
		}
		if s := one.Options.Status(); s != nil {
			text += " " + s.StatusCode.String()
		}
	}
	for _, one := range a.message().Options.IAPD() {
		text += " " + one.Options.Status().StatusCode.String()
	}
	if s := a.message().Options.Status(); s != nil {
		text += ": " + s.StatusCode.String()
	}
	return text
}

func (d *desk) ask6(mac string, kind dhcpv6.MessageType, change ...dhcpv6.Modifier) string {
	d.t.Helper()
	return said(d.answer6(private, message(d.t, llOf(mac), kind, change...)))
}

// get6 has a client get an address, or "".
func (d *desk) get6(mac string) string {
	d.t.Helper()
	a := d.answer6(private, message(d.t, llOf(mac), dhcpv6.MessageTypeSolicit, ia()))
	if a == nil || a.message().Options.OneIANA().Options.OneAddress() == nil {
		return ""
	}
	offer := a.message().Options.OneIANA().Options.OneAddress().IPv6Addr.String()
	if got := d.ask6(mac, dhcpv6.MessageTypeRequest, ia(offer), fromServer(ours)); got != "REPLY "+offer+"/60" {
		d.t.Errorf("of the offer %s came %q", offer, got)
	}
	return offer
}

// What each kind of message comes to (RFC 8415, section 18.3).
func TestMessages6(t *testing.T) {
	S, R, N, B := dhcpv6.MessageTypeSolicit, dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRebind
	pool := leases("fd00:71::100", "fd00:71::101")
	us, other := fromServer(ours), fromServer(llOf("52:54:00:71:00:e1"))
	rapid := dhcpv6.WithRapidCommit
	for name, c := range map[string]struct {
		change func(*site.Network)
		do     func(d *desk) string
		want   string
	}{
		"a designed node":                 {nil, func(d *desk) string { return d.ask6(macN1, S, ia()) }, "ADVERTISE fd00:71::11/60"},
		"a designed node wants another":   {nil, func(d *desk) string { return d.ask6(macN1, S, ia("fd00:71::77")) }, "ADVERTISE fd00:71::11/60"},
		"rapid commit":                    {nil, func(d *desk) string { return d.ask6(macN1, S, ia(), rapid) }, "REPLY fd00:71::11/60"},
		"a stranger without a range":      {nil, func(d *desk) string { return d.ask6(macA, S, ia()) }, ""},
		"a stranger asks without a range": {nil, func(d *desk) string { return d.ask6(macA, R, ia("fd00:71::11"), us) }, ""},
		"a stranger rebinds without one":  {nil, func(d *desk) string { return d.ask6(macA, B, ia("fd00:71::11")) }, ""},
		"a stranger confirms without one": {nil, func(d *desk) string { return d.ask6(macA, dhcpv6.MessageTypeConfirm, ia("fd00:99::1")) }, ""},
		"a stranger wants settings":       {nil, func(d *desk) string { return d.ask6(macA, dhcpv6.MessageTypeInformationRequest) }, ""},
		"nobody wants settings": {nil, func(d *desk) string {
			return said(d.answer6(private, message(t, nil, dhcpv6.MessageTypeInformationRequest)))
		}, ""},
		"a node wants settings":            {nil, func(d *desk) string { return d.ask6(macN1, dhcpv6.MessageTypeInformationRequest) }, "REPLY"},
		"a node wants them of another":     {nil, func(d *desk) string { return d.ask6(macN1, dhcpv6.MessageTypeInformationRequest, other) }, ""},
		"a stranger asks for one":          {pool, func(d *desk) string { return d.ask6(macA, S, ia("fd00:71::101")) }, "ADVERTISE fd00:71::101/60"},
		"a stranger asks for a node's":     {pool, func(d *desk) string { return d.ask6(macA, R, ia("fd00:71::11"), us)[:17] }, "REPLY fd00:71::10"},
		"a stranger has a node's":          {pool, func(d *desk) string { return d.ask6(macA, N, ia("fd00:71::11"), us)[22:] }, "fd00:71::11/0"},
		"not of this link":                 {nil, func(d *desk) string { return d.ask6(macN1, R, ia("fd00:99::11"), us) }, "REPLY NotOnLink"},
		"request without an offer":         {nil, func(d *desk) string { return d.ask6(macN1, R, ia("fd00:71::11"), us) }, "REPLY fd00:71::11/60"},
		"request without an address":       {nil, func(d *desk) string { return d.ask6(macN1, R, ia(), us) }, "REPLY fd00:71::11/60"},
		"renew":                            {nil, func(d *desk) string { return d.ask6(macN1, N, ia("fd00:71::11"), us) }, "REPLY fd00:71::11/60"},
		"renew what was designed before":   {nil, func(d *desk) string { return d.ask6(macN1, N, ia("fd00:71::77"), us) }, "REPLY fd00:71::11/60 fd00:71::77/0"},
		"rebind":                           {nil, func(d *desk) string { return d.ask6(macN1, B, ia("fd00:71::11")) }, "REPLY fd00:71::11/60"},
		"rebind when the records are lost": {pool, func(d *desk) string { return d.ask6(macA, B, ia("fd00:71::101")) }, "REPLY fd00:71::101/60"},
		"rebind outside of the range":      {pool, func(d *desk) string { return d.ask6(macA, B, ia("fd00:71::55")) }, ""},
		"confirm":                          {nil, func(d *desk) string { return d.ask6(macN1, dhcpv6.MessageTypeConfirm, ia("fd00:71::11")) }, "REPLY: Success"},
		"confirm another link's":           {nil, func(d *desk) string { return d.ask6(macN1, dhcpv6.MessageTypeConfirm, ia("fd00:99::11")) }, "REPLY: NotOnLink"},
		"confirm what it may not have":     {nil, func(d *desk) string { return d.ask6(macN1, dhcpv6.MessageTypeConfirm, ia("fd00:71::12")) }, "REPLY: NotOnLink"},
		"confirm nothing":                  {nil, func(d *desk) string { return d.ask6(macN1, dhcpv6.MessageTypeConfirm, ia()) }, ""},
		"another server was chosen":        {nil, func(d *desk) string { return d.ask6(macN1, R, ia("fd00:71::11"), other) }, ""},
		"solicit names a server":           {nil, func(d *desk) string { return d.ask6(macN1, S, ia(), us) }, ""},
		"request names none":               {nil, func(d *desk) string { return d.ask6(macN1, R, ia("fd00:71::11")) }, ""},
		"two associations":                 {nil, func(d *desk) string { return d.ask6(macN1, S, ia(), ia()) }, "ADVERTISE fd00:71::11/60 NoAddrsAvail"},
		"a prefix is asked for":            {nil, func(d *desk) string { return d.ask6(macN1, S, ia(), dhcpv6.WithIAPD([4]byte{9})) }, "ADVERTISE fd00:71::11/60 NoPrefixAvail"},
		"release": {nil, func(d *desk) string {
			return d.get6(macN1)[:0] + d.ask6(macN1, dhcpv6.MessageTypeRelease, ia("fd00:71::11"), us)
		}, "REPLY: Success"},
		"release what it has not":   {nil, func(d *desk) string { return d.ask6(macN1, dhcpv6.MessageTypeRelease, ia("fd00:71::12"), us) }, "REPLY NoBinding: Success"},
		"from elsewhere, unrelayed": {nil, func(d *desk) string { return said(d.answer6("fd00:99::1", message(t, llOf(macN1), S, ia()))) }, ""},
		"from an address of the network": {nil, func(d *desk) string {
			return said(d.answer6("fd00:71::11", message(t, llOf(macN1), dhcpv6.MessageTypeInformationRequest)))
		}, "REPLY"},
		"by UUID": {nil, func(d *desk) string { return said(d.answer6(private, message(t, uuidDUID(), S, ia()))) }, "ADVERTISE fd00:71::11/60"},
		"by its link-local address": {nil, func(d *desk) string {
			return said(d.answer6("fe80::5054:ff:fe71:1", message(t, &dhcpv6.DUIDEN{EnterpriseNumber: 43793, EnterpriseIdentifier: []byte("x")}, S, ia())))
		}, "ADVERTISE fd00:71::11/60"},
		"a stranger's link, a node's DUID": {nil, func(d *desk) string {
			return said(d.answer6("fe80::5054:ff:fe71:a1", message(t, llOf(macN1), S, ia())))
		}, ""},
		"a stranger's link, a node's UUID": {nil, func(d *desk) string { return said(d.answer6("fe80::5054:ff:fe71:a1", message(t, uuidDUID(), S, ia()))) }, ""},
		"nobody knows its MAC address": {pool, func(d *desk) string {
			return said(d.answer6(private, message(t, &dhcpv6.DUIDEN{EnterpriseNumber: 1, EnterpriseIdentifier: []byte("x")}, S, ia("fd00:71::100"))))
		}, "ADVERTISE fd00:71::100/60"},
		"one that somebody has is not offered": {pool, func(d *desk) string {
			d.used["fd00:71::100"] = true
			return d.ask6(macA, S, ia("fd00:71::100"))
		}, "ADVERTISE fd00:71::101/60"},
		"the records cannot be written": {nil, func(d *desk) string {
			d.records.err = errors.New("no space left")
			return d.ask6(macN1, R, ia("fd00:71::11"), us) + fmt.Sprint(d.s.problem(time.Now()))
		}, "network mgmt on eth0: leases cannot be recorded, so none are given: no space left"},
		"dhcp without a range": {nil, func(d *desk) string {
			return d.ask6("52:54:00:71:00:03", S, ia()) + fmt.Sprint(d.s.problem(time.Now()))
		}, `ADVERTISE NoAddrsAvailnetwork mgmt on eth0: n3 is designed with "dhcp" and gets no address: the network has no range with use: "dhcp"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := mgmt6(c.change)
			s.Nodes["n3"] = &site.Node{Name: "n3", Addresses: map[string]string{"mgmt": "dhcp"}, Identity: site.Identity{MAC: "52:54:00:71:00:03"}}
			if got := c.do(newDesk6(t, s)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// uuidDUID is the DUID of firmware on n1, which sends the bytes of SMBIOS.
func uuidDUID() dhcpv6.DUID { return &dhcpv6.DUIDUUID{UUID: [16]byte(smbios[1:])} }

// Leases of IPv6 end, are recorded, and are given to another client only when they are free. A client
// without a known MAC address keeps its address after a restart.
func TestLeaseLife6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mgmt6(leases("fd00:71::100", "fd00:71::101"))
		d := newDesk6(t, s)
		a, b := d.get6(macA), d.get6(macB)
		if a == b || a == "" || b == "" {
			t.Fatalf("two clients got %q and %q", a, b)
		}
		const macC = "52:54:00:71:00:c1"
		if got := d.ask6(macC, dhcpv6.MessageTypeSolicit, ia()); got != "ADVERTISE NoAddrsAvail" || !strings.Contains(fmt.Sprint(d.s.problem(time.Now())), "all 2 dynamic addresses are in use") {
			t.Errorf("a third client got %q, and the problem is %v", got, d.s.problem(time.Now()))
		}
		d.ask6(macB, dhcpv6.MessageTypeRelease, ia(a), fromServer(ours))
		d.ask6(macB, dhcpv6.MessageTypeDecline, ia(a), fromServer(ours))
		if got := d.get6(macC); got != "" {
			t.Errorf("after another's words a third client got %q", got)
		}
		d.ask6(macA, dhcpv6.MessageTypeDecline, ia(a), fromServer(ours))
		if got := d.get6(macA); got != "" {
			t.Errorf("after it declined %s a client got %q", a, got)
		}
		time.Sleep(declinedFor)
		opaque := &dhcpv6.DUIDEN{EnterpriseNumber: 43793, EnterpriseIdentifier: []byte("system")}
		if got := said(d.answer6(private, message(t, opaque, dhcpv6.MessageTypeSolicit, ia(), dhcpv6.WithRapidCommit))); got != "REPLY "+a+"/60" {
			t.Errorf("a client without a MAC address got %q", got)
		}
		all, err := d.records.Leases(t.Context())
		if err != nil || len(all) != 2 {
			t.Fatalf("%v, %v", all, err)
		}
		next := newDesk6(t, s)
		for _, l := range all {
			if (l.MAC == "") == (l.Client == "") {
				t.Errorf("recorded is %+v", l)
			}
			next.s.book.restore(l)
		}
		if got := next.get6(macC); got != "" {
			t.Errorf("after a restart %q is given twice", got)
		}
		if got := said(next.answer6(private, message(t, opaque, dhcpv6.MessageTypeRenew, ia(a), fromServer(ours)))); got != "REPLY "+a+"/60" {
			t.Errorf("after a restart the client renews: %q", got)
		}
	})
}

// Beside another DHCPv6 server nothing is sent.
func TestAnotherServer6Stops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk6(t, mgmt6(nil))
		if d.s.foreign(netip.MustParseAddr("fe80::5054:ff:fe71:f0"), time.Now()) || d.get6(macN1) == "" {
			t.Error("its own answer stopped it")
		}
		d.ask6(macN1, dhcpv6.MessageTypeRenew, ia("fd00:71::11"), fromServer(llOf(macB)))
		if d.get6(macN1) == "" {
			t.Error("a lease of a server that may be gone stopped it")
		}
		d.ask6(macN1, dhcpv6.MessageTypeRequest, ia("fd00:71::77"), fromServer(llOf(macB)))
		if got := d.ask6(macN1, dhcpv6.MessageTypeSolicit, ia()); got != "" {
			t.Errorf("beside another server it says %q", got)
		}
		if p := fmt.Sprint(d.s.problem(time.Now())); !strings.Contains(p, "another DHCP server answers in the network: the one with the DUID 000300015254007100b1. Two servers give one address to two machines. Stop the other server, or remove boot.dhcp") {
			t.Errorf("problem %s", p)
		}
		time.Sleep(foreignFor)
		if d.get6(macN1) == "" {
			t.Error("it is not served again")
		}
	})
}

// relayed wraps a message as a relay does.
func relayed(t testing.TB, m dhcpv6.DHCPv6, link, peer string, change ...dhcpv6.Modifier) *dhcpv6.RelayMessage {
	t.Helper()
	r := &dhcpv6.RelayMessage{MessageType: dhcpv6.MessageTypeRelayForward, LinkAddr: net.ParseIP(link), PeerAddr: net.ParseIP(peer)}
	r.AddOption(dhcpv6.OptInterfaceID([]byte("port-7")))
	for _, c := range change {
		c(r)
	}
	r.AddOption(dhcpv6.OptRelayMessage(m))
	return r
}

// A relay is answered if the design names it, through all relays on the way, and up to a bound of them.
func TestRelays6(t *testing.T) {
	d := newDesk(t, mgmt6(func(n *site.Network) {
		n.DHCPRelay = &site.DHCPRelay{Address: "fd00:71::fe", Servers: []string{"fd00:72::2"}}
	}), "fd00:72::2/64", "fe80::2/64")
	d.r.duid = ours
	solicit := message(t, &dhcpv6.DUIDEN{EnterpriseNumber: 1, EnterpriseIdentifier: []byte("x")}, dhcpv6.MessageTypeSolicit, ia())
	hw, _ := net.ParseMAC(macN1)
	known := dhcpv6.WithClientLinkLayerAddress(iana.HWTypeEthernet, hw)
	one := relayed(t, solicit, "fd00:71::fe", private, known)
	two := relayed(t, one, "::", "fe80::99")
	for name, c := range map[string]struct {
		m    dhcpv6.DHCPv6
		want string
	}{
		"of the client":           {one, "ADVERTISE fd00:71::11/60"},
		"by another before":       {two, ""},
		"by a relay to a relay":   {relayed(t, one, "fd00:73::1", "fd00:71::fe"), ""},
		"by two of one link":      {relayed(t, one, "fd00:71::fe", "fe80::99"), "ADVERTISE fd00:71::11/60"},
		"a switch without a link": {relayed(t, relayed(t, solicit, "::", private, known), "fd00:71::fe", private), "ADVERTISE fd00:71::11/60"},
		"by its peer address":     {relayed(t, solicit, "fd00:71::fe", "fe80::5054:ff:fe71:1"), "ADVERTISE fd00:71::11/60"},
		"a stranger":              {relayed(t, solicit, "fd00:71::fe", "fe80::5054:ff:fe71:a1"), ""},
		"another relay":           {relayed(t, solicit, "fd00:71::fd", "fe80::5054:ff:fe71:1"), ""},
		"no link at all":          {relayed(t, solicit, "::", "fe80::5054:ff:fe71:1"), ""},
		"no relay":                {message(t, llOf(macN1), dhcpv6.MessageTypeSolicit, ia()), ""},
	} {
		if got := said(d.answer6("fd00:72::fe", c.m)); got != c.want {
			t.Errorf("%s: %q, not %q", name, got, c.want)
		}
	}
	a := d.answer6("fd00:99::66", relayed(t, one, "fd00:71::fe", "fe80::99"))
	if a == nil {
		t.Fatal("no answer")
	}
	outer, ok := a.packet.(*dhcpv6.RelayMessage)
	if !ok || outer.MessageType != dhcpv6.MessageTypeRelayReply || string(outer.Options.InterfaceID()) != "port-7" || !outer.PeerAddr.Equal(net.ParseIP("fe80::99")) {
		t.Fatalf("the answer is %s", a.packet.Summary())
	}
	inner, ok := outer.Options.RelayMessage().(*dhcpv6.RelayMessage)
	if !ok || !inner.LinkAddr.Equal(net.ParseIP("fd00:71::fe")) || inner.Options.RelayMessage().Type() != dhcpv6.MessageTypeAdvertise {
		t.Fatalf("inside the answer is %s", outer.Options.RelayMessage().Summary())
	}
	if a.to != netip.MustParseAddrPort("[fd00:71::fe]:547") || a.from != netip.MustParseAddr("fd00:72::2") {
		t.Errorf("it goes to %s from %s", a.to, a.from)
	}
	var deep dhcpv6.DHCPv6 = one
	for range maxHops - 1 {
		deep = relayed(t, deep, "::", "fe80::99")
	}
	if _, err := request6Of(deep.ToBytes()); err != nil {
		t.Errorf("%d relays: %v", maxHops, err)
	}
	if _, err := request6Of(relayed(t, deep, "::", "fe80::99").ToBytes()); err == nil || !strings.Contains(err.Error(), "more than 8 relays") {
		t.Errorf("one more: %v", err)
	}
}

// What is not a client's message is not read.
func TestNotMessages6(t *testing.T) {
	long := &dhcpv6.DUIDEN{EnterpriseNumber: 1, EnterpriseIdentifier: make([]byte, maxDUID)}
	for want, m := range map[string]dhcpv6.DHCPv6{
		"not a client's message":                    message(t, llOf(macN1), dhcpv6.MessageTypeAdvertise),
		"no client identifier":                      message(t, nil, dhcpv6.MessageTypeSolicit),
		"its client identifier has 136 bytes":       message(t, long, dhcpv6.MessageTypeSolicit),
		"a relay's, and has no client's message":    &dhcpv6.RelayMessage{MessageType: dhcpv6.MessageTypeRelayForward},
		"it is a relay's, and has no client's mess": relayedAs(t, dhcpv6.MessageTypeRelayReply),
	} {
		if _, err := request6Of(m.ToBytes()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", m.Summary(), err)
		}
	}
	if _, err := request6Of(make([]byte, maxPacket+1)); err == nil {
		t.Error("a long packet is read")
	}
}

func relayedAs(t *testing.T, kind dhcpv6.MessageType) dhcpv6.DHCPv6 {
	m := relayed(t, message(t, llOf(macN1), dhcpv6.MessageTypeSolicit), "fd00:71::fe", private)
	m.MessageType = kind
	return m
}

// An armed machine is told what to boot in the terms of its firmware, and nobody else is.
func TestBoot6(t *testing.T) {
	d := newDesk6(t, mgmt6(leases("fd00:71::100", "fd00:71::110")))
	class := func(text string) dhcpv6.Modifier {
		return dhcpv6.WithOption(&dhcpv6.OptVendorClass{EnterpriseNumber: intel, Data: [][]byte{[]byte(text)}})
	}
	pxe, web := class("PXEClient:Arch:00007:UNDI:003001"), class("HTTPClient:Arch:00016:UNDI:003001")
	amd64, httpAMD64, arm := dhcpv6.WithArchType(iana.EFI_X86_64), dhcpv6.WithArchType(iana.EFI_X86_64_HTTP), dhcpv6.WithArchType(iana.EFI_ARM64)
	boots := func(duid dhcpv6.DUID, from string, change ...dhcpv6.Modifier) (url, vendor string) {
		t.Helper()
		a := d.answer6(from, message(t, duid, dhcpv6.MessageTypeSolicit, append(change, ia())...))
		if a == nil {
			t.Fatal("no answer")
		}
		for _, v := range a.message().Options.VendorClasses() {
			vendor += string(v.Data[0])
		}
		return a.message().Options.BootFileURL(), vendor
	}
	if url, _ := boots(llOf(macN1), private, pxe, amd64); url != "" {
		t.Errorf("a machine that is not armed boots %q", url)
	}
	boot := armedBoot(t)
	if err := d.r.arms.arm(boot); err != nil {
		t.Fatal(err)
	}
	it := d.r.arms.byNode["n1"]
	for what, c := range map[string]struct {
		duid   dhcpv6.DUID
		from   string
		change []dhcpv6.Modifier
		want   string
	}{
		"PXE":                  {llOf(macN1), private, []dhcpv6.Modifier{pxe, amd64}, "tftp://[fd00:71::2]/" + it.token + "/bootx64.efi"},
		"HTTP":                 {llOf(macN1), private, []dhcpv6.Modifier{web, httpAMD64}, "http://[fd00:71::2]:9482/" + it.token + "/bootx64.efi"},
		"known by its UUID":    {uuidDUID(), private, []dhcpv6.Modifier{pxe, amd64}, "tftp://[fd00:71::2]/" + it.token + "/bootx64.efi"},
		"known by its link":    {uuidDUID(), "fe80::5054:ff:fe71:1", []dhcpv6.Modifier{pxe, amd64}, "tftp://[fd00:71::2]/" + it.token + "/bootx64.efi"},
		"another architecture": {llOf(macN1), private, []dhcpv6.Modifier{pxe, arm}, ""},
		"no architecture":      {llOf(macN1), private, []dhcpv6.Modifier{pxe}, ""},
		"iPXE without a file":  {llOf(macN1), private, []dhcpv6.Modifier{pxe, amd64, dhcpv6.WithUserClass([]byte("iPXE"))}, ""},
		"an operating system":  {llOf(macN1), private, nil, ""},
		"another machine":      {llOf(macN2), private, []dhcpv6.Modifier{pxe, amd64}, ""},
		"its UUID elsewhere":   {uuidDUID(), "fe80::5054:ff:fe71:a1", []dhcpv6.Modifier{pxe, amd64}, ""},
		"a stranger":           {llOf(macA), private, []dhcpv6.Modifier{web, httpAMD64}, ""},
	} {
		url, vendor := boots(c.duid, c.from, c.change...)
		if url != c.want || (vendor == "HTTPClient") != strings.HasPrefix(c.want, "http:") {
			t.Errorf("%s: told is %q as %q", what, url, vendor)
		}
	}
	other := &dhcpv6.DUIDUUID{UUID: [16]byte{1, 2, 3}}
	if url, _ := boots(other, "fe80::5054:ff:fe71:1", pxe, amd64); url != "" || !strings.Contains(d.r.arms.odd("n1"), "another UUID") {
		t.Errorf("with another UUID %q; people are told %q", url, d.r.arms.odd("n1"))
	}
	// The system that runs meanwhile has a DUID of its own, which says nothing of the machine.
	it.refused("")
	boots(other, "fe80::5054:ff:fe71:1")
	if odd := d.r.arms.odd("n1"); odd != "" {
		t.Errorf("of a system people are told %q", odd)
	}
	it.done(netip.MustParseAddr("fd00:71::11"), time.Now())
	if url, _ := boots(llOf(macN1), private, pxe, amd64); url != "" {
		t.Errorf("a machine that has read its file boots %q", url)
	}
	// Its agent is told where the daemon is, and nobody else.
	words := func(duid dhcpv6.DUID, user string) string {
		t.Helper()
		a := d.answer6("fd00:71::11", message(t, duid, dhcpv6.MessageTypeInformationRequest, dhcpv6.WithUserClass([]byte(user))))
		if a == nil {
			return ""
		}
		return strings.Join(a.message().Options.BootFileParam(), " ")
	}
	if got := words(llOf(macN1), agentClass); got != boot.Words {
		t.Errorf("the agent is told %q", got)
	}
	if got := words(llOf(macN1), "system") + words(llOf(macN2), agentClass) + words(llOf(macA), agentClass); got != "" {
		t.Errorf("others are told %q", got)
	}
	d.r.arms.disarm("n1")
	if got := words(llOf(macN1), agentClass); got != "" {
		t.Errorf("after its boot the agent is told %q", got)
	}
}

// Dynamic addresses of IPv6 are counted and bounded, and begin after the address of all routers.
func TestPool6(t *testing.T) {
	for name, c := range map[string]struct {
		from, to    string
		size        int
		first, last string
	}{
		"some":      {"fd00:71::100", "fd00:71::1ff", 256, "fd00:71::100", "fd00:71::1ff"},
		"all":       {"fd00:71::", "fd00:71::ffff:ffff:ffff:ffff", maxPool, "fd00:71::1", "fd00:71::1:0"},
		"one":       {"fd00:71::ffff:ffff:ffff:ffff", "fd00:71::ffff:ffff:ffff:ffff", 1, "fd00:71:0:0:ffff:ffff:ffff:ffff", "fd00:71:0:0:ffff:ffff:ffff:ffff"},
		"a byte up": {"fd00:71::ff", "fd00:71::101", 3, "fd00:71::ff", "fd00:71::101"},
	} {
		n, err := networkOf(mgmt6(leases(c.from, c.to)), "mgmt", []netip.Prefix{netip.MustParsePrefix("fd00:71::2/64")})
		if err != nil {
			t.Fatal(err)
		}
		p := n.pool
		if p.size() != c.size || p.at(0) != netip.MustParseAddr(c.first) || p.at(p.size()-1) != netip.MustParseAddr(c.last) || p.at(p.size()).IsValid() {
			t.Errorf("%s: %d from %s to %s", name, p.size(), p.at(0), p.at(p.size()-1))
		}
		if last := netip.MustParseAddr(c.last); !p.has(last) || p.has(last.Next()) || p.has(netip.MustParseAddr("10.71.0.11")) {
			t.Errorf("%s: it has not %s, or more", name, last)
		}
	}
}

// With several addresses of this host in the network the lowest serves, whatever the order of the system.
func TestServer6IsStable(t *testing.T) {
	for _, all := range [][]string{{"fd00:71::2/64", "fd00:71::5054:ff:fe71:f0/64"}, {"fd00:71::5054:ff:fe71:f0/64", "fe80::2/64", "fd00:71::2/64", "10.71.0.2/24"}} {
		var addresses []netip.Prefix
		for _, a := range all {
			addresses = append(addresses, netip.MustParsePrefix(a))
		}
		n, err := networkOf(mgmt6(nil), "mgmt", addresses)
		if err != nil || n.server != netip.MustParseAddr("fd00:71::2") {
			t.Errorf("%v: %v, %v", all, n, err)
		}
	}
}
