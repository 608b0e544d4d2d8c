package netboot

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Whatever comes in, an answer is for the client that asked, gives nothing that the
// design does not, and goes nowhere but to the network or its relay.
func FuzzDHCP(f *testing.F) {
	s := mgmt(leases("10.71.0.100", "10.71.0.103"))
	pool := netip.MustParsePrefix("10.71.0.0/24")
	f.Add([]byte{})
	f.Add(make([]byte, 240))
	for _, m := range []*dhcpv4.DHCPv4{
		seed(dhcpv4.MessageTypeDiscover), seed(dhcpv4.MessageTypeRequest, ipOption(50, "10.71.0.11"), ipOption(54, "10.71.0.2")), seed(dhcpv4.MessageTypeInform),
		seed(dhcpv4.MessageTypeDiscover, option(60, []byte("PXEClient:Arch:00007")...), option(93, 0, 7), option(97, make([]byte, 17)...), option(82, 1, 2, 'x', 'y', 5, 4, 10, 71, 0, 0)),
		seed(dhcpv4.MessageTypeDecline, ipOption(50, "10.71.0.11"), ipOption(54, "10.71.0.2")), seed(dhcpv4.MessageTypeRelease, ipOption(54, "10.71.0.2")),
	} {
		f.Add(m.ToBytes())
	}
	file := filepath.Join(f.TempDir(), "boot")
	if err := os.WriteFile(file, []byte("MZ"), 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		serverOf(frame(broadcast, broadcast, netip.MustParseAddrPort("10.71.0.9:67"), netip.MustParseAddrPort("255.255.255.255:68"), packet))
		serverOf(packet)
		arpSender(packet)
		req, err := requestOf(packet)
		if err != nil {
			return
		}
		for _, mode := range []site.DHCPMode{site.DHCPServe, site.DHCPProxy} {
			for _, port := range []int{serverPort, pxePort} {
				s.Networks["mgmt"].Boot.DHCP = mode
				d := newDesk(t, s)
				if err := d.r.arms.arm(Boot{Node: "n1", MACs: []string{macN1}, Files: map[Firmware]string{UEFIAMD64: file}}); err != nil {
					t.Fatal(err)
				}
				a := d.r.answer(context.Background(), req, netip.MustParseAddrPort("0.0.0.0:68"), port, time.Now())
				if a == nil {
					continue
				}
				out := a.msg.ToBytes()
				if _, err := dhcpv4.FromBytes(out); err != nil || len(out) > 2*maxPacket {
					t.Errorf("the answer has %d bytes, %v", len(out), err)
				}
				mac, given := req.ClientHWAddr.String(), ip4(a.msg.YourIPAddr)
				if a.msg.ClientHWAddr.String() != mac || a.msg.TransactionID != req.TransactionID {
					t.Error("the answer is for another client")
				}
				owner := map[string]string{macN1: "10.71.0.11", macN2: "10.71.0.12"}[mac]
				if given.IsValid() && (mode == site.DHCPProxy || owner != "" && owner != given.String() || owner == "" && !d.s.network().pool.has(given)) {
					t.Errorf("%s is given %s", mac, given)
				}
				if a.to.addr.IsValid() && port == serverPort && !pool.Contains(a.to.addr.Addr()) {
					t.Errorf("the answer goes to %s", a.to.addr)
				}
				if mac != macN1 && a.msg.BootFileName != "" {
					t.Errorf("%s is told to boot %q", mac, a.msg.BootFileName)
				}
			}
		}
	})
}

// Whatever comes in by DHCPv6, nested in relays or not, an answer is for the client that asked, gives nothing that the
// design does not, and goes back the way that the question came.
func FuzzDHCP6(f *testing.F) {
	s := mgmt6(leases("fd00:71::100", "fd00:71::103"))
	far := mgmt6(func(n *site.Network) {
		leases("fd00:71::100", "fd00:71::103")(n)
		n.DHCPRelay = &site.DHCPRelay{Address: "fd00:71::fe", Servers: []string{"fd00:72::2"}}
	})
	f.Add([]byte{})
	f.Add([]byte{1, 0, 0, 0})
	f.Add([]byte{12, 0})
	solicit := message(f, llOf(macN1), dhcpv6.MessageTypeSolicit, ia("fd00:71::11"), ia(), dhcpv6.WithRapidCommit, dhcpv6.WithIAPD([4]byte{1}),
		dhcpv6.WithOption(&dhcpv6.OptVendorClass{EnterpriseNumber: intel, Data: [][]byte{[]byte("HTTPClient:Arch:00016")}}), dhcpv6.WithArchType(iana.EFI_X86_64_HTTP))
	for _, m := range []dhcpv6.DHCPv6{
		solicit, message(f, uuidDUID(), dhcpv6.MessageTypeRequest, ia("fd00:71::11"), fromServer(ours)), message(f, llOf(macA), dhcpv6.MessageTypeRenew, ia("fd00:71::101"), fromServer(ours)),
		message(f, llOf(macA), dhcpv6.MessageTypeRebind, ia("fd00:71::11", "fd00:99::1")), message(f, llOf(macN1), dhcpv6.MessageTypeConfirm, ia("fd00:71::11")),
		message(f, llOf(macN1), dhcpv6.MessageTypeRelease, ia("fd00:71::11"), fromServer(ours)), message(f, llOf(macN1), dhcpv6.MessageTypeDecline, ia("fd00:71::11"), fromServer(ours)),
		message(f, llOf(macN1), dhcpv6.MessageTypeInformationRequest, dhcpv6.WithUserClass([]byte(agentClass))),
		relayed(f, relayed(f, solicit, "::", "fe80::1"), "fd00:71::fe", "fe80::2", dhcpv6.WithOption(dhcpv6.OptRelayPort(0))),
	} {
		f.Add(m.ToBytes())
	}
	file := filepath.Join(f.TempDir(), "boot")
	if err := os.WriteFile(file, []byte("MZ"), 0o600); err != nil {
		f.Fatal(err)
	}
	from := netip.MustParseAddrPort("[fe80::5054:ff:fe71:99%eth0]:546")
	f.Fuzz(func(t *testing.T, packet []byte) {
		server6Of(packet)
		server6Of(frame6(everybody.mac, make([]byte, 6), netip.MustParseAddr("fe80::1"), allNodes, protocolUDP, 1, udp6(netip.MustParseAddrPort("[fe80::1]:547"), netip.MustParseAddrPort("[ff02::1]:546"), packet)))
		neighbourOf(packet)
		asksOf(packet)
		req, err := request6Of(packet)
		if err != nil {
			return
		}
		if len(req.relays) > maxHops {
			t.Fatalf("%d relays", len(req.relays))
		}
		for _, design := range []*site.Site{s, far} {
			d := newDesk(t, design, "fd00:71::2/64", "fd00:72::2/64")
			if design == far {
				d = newDesk(t, design, "fd00:72::2/64")
			}
			d.r.duid = ours
			if err := d.r.arms.arm(Boot{Node: "n1", MACs: []string{macN1}, UUID: uuidN1, Words: "words", Files: map[Firmware]string{UEFIAMD64: file}}); err != nil {
				t.Fatal(err)
			}
			a := d.r.answer6(context.Background(), req, from, time.Now())
			if a == nil {
				continue
			}
			out := a.packet.ToBytes()
			if _, err := dhcpv6.FromBytes(out); err != nil || len(out) > 3*maxPacket {
				t.Errorf("the answer has %d bytes, %v", len(out), err)
			}
			if !a.packet.IsRelay() && a.to.Addr() != from.Addr() || a.packet.IsRelay() && a.to.Addr() != netip.MustParseAddr("fd00:71::fe") || a.message().TransactionID != req.TransactionID || len(req.relays) > 0 != a.packet.IsRelay() || (design == far) != a.packet.IsRelay() {
				t.Errorf("the answer goes to %s: %s", a.to, a.packet.Summary())
			}
			if !bytes.Equal(a.message().Options.ServerID().ToBytes(), ours.ToBytes()) {
				t.Error("the answer is another server's")
			}
			key, h, designed := identityOf(req, from.Addr()).in(d.s.network(), req)
			for _, one := range a.message().Options.IANA() {
				for _, is := range one.Options.Addresses() {
					given, _ := netip.AddrFromSlice(is.IPv6Addr)
					if is.ValidLifetime > 0 && (designed && h.addr != given || !designed && !d.s.network().pool.has(given)) {
						t.Errorf("%s is given %s", key, given)
					}
				}
			}
			if told := a.message().Options.BootFileURL() + strings.Join(a.message().Options.BootFileParam(), ""); told != "" && h.node != "n1" {
				t.Errorf("%s is told %q", key, told)
			}
		}
	})
}

func seed(kind dhcpv4.MessageType, change ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	m, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr([]byte{0x52, 0x54, 0, 0x71, 0, 1}), dhcpv4.WithMessageType(kind)}, change...)...)
	if err != nil {
		panic(err)
	}
	m.OpCode = dhcpv4.OpcodeBootRequest
	return m
}

// A request of TFTP is read within its bounds, and no path leads to a file but those
// that are armed.
func FuzzTFTP(f *testing.F) {
	for _, words := range []string{"x\x00octet", "../../etc/passwd\x00octet\x00blksize\x001428\x00tsize\x000", "/a\x00OCTET\x00windowsize\x0065535\x00timeout\x00255\x00blksize\x007",
		"a\x00netascii", "a\x00octet\x00blksize", "\x00\x00", "a\x00octet\x00tsize\x00-1\x00tsize\x0099999999999999999999"} {
		f.Add([]byte("\x00\x01" + words + "\x00"))
	}
	f.Add([]byte{0, 2, 'a', 0})
	file := filepath.Join(f.TempDir(), "boot")
	if err := os.WriteFile(file, []byte("MZ"), 0o600); err != nil {
		f.Fatal(err)
	}
	all := newArms()
	if err := all.arm(Boot{Node: "n1", MACs: []string{macN1}, Files: map[Firmware]string{UEFIAMD64: file}}); err != nil {
		f.Fatal(err)
	}
	right := all.byNode["n1"].path(UEFIAMD64)
	f.Fuzz(func(t *testing.T, packet []byte) {
		a, err := askOf(packet, maxBlock)
		if err != nil {
			return
		}
		if a.block < leastBlock || a.block > maxBlock || a.window < 1 || a.window > maxWindow || a.timeout < time.Second || a.timeout > longestTimeout*time.Second || a.file == "" {
			t.Errorf("%+v of %q", a, packet)
		}
		if n := len(a.acceptance(1 << 40)); n > 2*maxAsk {
			t.Errorf("the answer to %q has %d bytes", packet, n)
		}
		_, opened, err := all.open(a.file, netip.MustParseAddr("10.71.0.11"), time.Now())
		if err == nil {
			opened.Close()
			if !strings.Contains(a.file, strings.Split(right, "/")[0]) {
				t.Errorf("%q leads to a file", a.file)
			}
		}
	})
}
