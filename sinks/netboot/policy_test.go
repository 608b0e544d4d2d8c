package netboot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/slipway-gitops/slipway/engine/site"
)

// memory are records in memory.
type memory struct {
	mu  sync.Mutex
	all map[string]site.Lease
	err error
}

func (m *memory) Leases(context.Context) ([]site.Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []site.Lease
	for _, l := range m.all {
		all = append(all, l)
	}
	return all, m.err
}

func (m *memory) PutLease(_ context.Context, l site.Lease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.all[l.Network+"/"+l.Address] = l
	}
	return m.err
}

func (m *memory) DropLease(_ context.Context, l site.Lease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, l.Network+"/"+l.Address)
	return m.err
}

// desk is a responder without sockets.
type desk struct {
	t       *testing.T
	r       *responder
	s       *served
	records *memory
	used    map[string]bool // addresses that somebody answers at
}

// newDesk serves the network mgmt of a site on an interface with addresses.
func newDesk(t *testing.T, s *site.Site, addresses ...string) *desk {
	t.Helper()
	d := &desk{t: t, s: newServed(Listen{"eth0", "mgmt"}), records: &memory{all: map[string]site.Lease{}}, used: map[string]bool{}}
	d.r = &responder{networks: []*served{d.s}, arms: newArms(), records: d.records, log: slog.New(slog.DiscardHandler),
		inUse: func(_ context.Context, _ *network, a netip.Addr) bool { return d.used[a.String()] }}
	d.design(s, addresses...)
	return d
}

func (d *desk) design(s *site.Site, addresses ...string) {
	d.t.Helper()
	if len(addresses) == 0 {
		addresses = []string{"10.71.0.2/24"}
	}
	var all []netip.Prefix
	for _, a := range addresses {
		all = append(all, netip.MustParsePrefix(a))
	}
	n, err := networkOf(s, "mgmt", all)
	if err != nil {
		d.t.Fatal(err)
	}
	d.s.set(n, nil)
	d.s.probed([]*network{n})
}

const (
	macN1, macN2 = "52:54:00:71:00:01", "52:54:00:71:00:02"
	macA, macB   = "52:54:00:71:00:a1", "52:54:00:71:00:b1"
)

// ask is a request of a client.
func request(t *testing.T, mac string, kind dhcpv4.MessageType, change ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	hw, err := net.ParseMAC(mac)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(hw), dhcpv4.WithMessageType(kind)}, change...)...)
	if err != nil {
		t.Fatal(err)
	}
	msg.OpCode = dhcpv4.OpcodeBootRequest
	got, err := requestOf(msg.ToBytes())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func option(code uint8, value ...byte) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(code), value))
}

func ipOption(code uint8, a string) dhcpv4.Modifier {
	return option(code, netip.MustParseAddr(a).AsSlice()...)
}

// ask gives what a client is told in short: "OFFER 10.71.0.11", or "" for nothing.
func (d *desk) ask(mac string, kind dhcpv4.MessageType, change ...dhcpv4.Modifier) string {
	d.t.Helper()
	a := d.answer(serverPort, "0.0.0.0:68", mac, kind, change...)
	if a == nil {
		return ""
	}
	if a.msg.MessageType() == dhcpv4.MessageTypeNak {
		return "NAK"
	}
	return fmt.Sprintf("%s %s", a.msg.MessageType(), a.msg.YourIPAddr)
}

func (d *desk) answer(port int, from, mac string, kind dhcpv4.MessageType, change ...dhcpv4.Modifier) *answer {
	d.t.Helper()
	return d.r.answer(d.t.Context(), request(d.t, mac, kind, change...), netip.MustParseAddrPort(from), port, time.Now())
}

// get has a client get an address, or "".
func (d *desk) get(mac string) string {
	d.t.Helper()
	offer := strings.TrimPrefix(d.ask(mac, dhcpv4.MessageTypeDiscover), "OFFER ")
	if offer == "" {
		return ""
	}
	ack := d.ask(mac, dhcpv4.MessageTypeRequest, ipOption(50, offer), ipOption(54, "10.71.0.2"))
	if ack != "ACK "+offer {
		d.t.Errorf("of the offer %s came %q", offer, ack)
	}
	return offer
}

// What each kind of request comes to (RFC 2131, sections 4.3.1 to 4.3.5).
func TestRequests(t *testing.T) {
	D, R := dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeRequest
	us, ciaddr := ipOption(54, "10.71.0.2"), func(a string) dhcpv4.Modifier { return dhcpv4.WithClientIP(net.ParseIP(a)) }
	pool := leases("10.71.0.100", "10.71.0.101")
	for name, c := range map[string]struct {
		change func(*site.Network)
		do     func(d *desk) string
		want   string
	}{
		"a designed node":                    {nil, func(d *desk) string { return d.ask(macN1, D) }, "OFFER 10.71.0.11"},
		"a designed node wants another":      {nil, func(d *desk) string { return d.ask(macN1, D, ipOption(50, "10.71.0.77")) }, "OFFER 10.71.0.11"},
		"a stranger without a range":         {nil, func(d *desk) string { return d.ask(macA, D) }, ""},
		"a stranger asks without a range":    {nil, func(d *desk) string { return d.ask(macA, R, ipOption(50, "10.71.0.11"), us) }, ""},
		"a stranger informs without a range": {nil, func(d *desk) string { return d.ask(macA, dhcpv4.MessageTypeInform, ciaddr("10.71.0.50")) }, ""},
		"a stranger asks for one":            {pool, func(d *desk) string { return d.ask(macA, D, ipOption(50, "10.71.0.101")) }, "OFFER 10.71.0.101"},
		"a stranger asks for a node's":       {pool, func(d *desk) string { return d.ask(macA, R, ipOption(50, "10.71.0.11"), us) }, "NAK"},
		"a stranger asks for the gateway's":  {pool, func(d *desk) string { return d.ask(macA, R, ipOption(50, "10.71.0.254"), us) }, "NAK"},
		"a stranger asks for ours":           {pool, func(d *desk) string { return d.ask(macA, R, ipOption(50, "10.71.0.2"), us) }, "NAK"},
		"reboot with the right one":          {nil, func(d *desk) string { return d.ask(macN1, R, ipOption(50, "10.71.0.11")) }, "ACK 10.71.0.11"},
		"reboot with another's":              {nil, func(d *desk) string { return d.ask(macN1, R, ipOption(50, "10.71.0.12")) }, "NAK"},
		"reboot from another network":        {pool, func(d *desk) string { return d.ask(macA, R, ipOption(50, "192.168.7.9")) }, "NAK"},
		"renew":                              {nil, func(d *desk) string { return d.ask(macN1, R, ciaddr("10.71.0.11")) }, "ACK 10.71.0.11"},
		"renew what was designed before":     {nil, func(d *desk) string { return d.ask(macN1, R, ciaddr("10.71.0.77")) }, "NAK"},
		"renew when the records are lost":    {pool, func(d *desk) string { return d.ask(macA, R, ciaddr("10.71.0.101")) }, "ACK 10.71.0.101"},
		"renew outside of the range":         {pool, func(d *desk) string { return d.ask(macA, R, ciaddr("10.71.0.55")) }, ""},
		"renew what another has": {pool, func(d *desk) string {
			return d.ask(macB, R, ciaddr(d.get(macA)))
		}, "NAK"},
		"another server was chosen": {pool, func(d *desk) string { return d.ask(macA, R, ipOption(50, "10.71.0.100"), ipOption(54, "10.71.0.3")) }, ""},
		"inform":                    {nil, func(d *desk) string { return d.ask(macN1, dhcpv4.MessageTypeInform, ciaddr("10.71.0.11")) }, "ACK 0.0.0.0"},
		"by an unknown relay":       {nil, func(d *desk) string { return d.ask(macN1, D, dhcpv4.WithGatewayIP(net.ParseIP("10.99.0.1"))) }, ""},
		"from elsewhere, unrelayed": {nil, func(d *desk) string {
			if d.answer(serverPort, "192.168.1.9:68", macN1, D) != nil {
				return "answered"
			}
			return ""
		}, ""},
		"a node that takes a dynamic one": {pool, func(d *desk) string { return d.ask("52:54:00:71:00:03", D, ipOption(50, "10.71.0.100")) }, "OFFER 10.71.0.100"},
		"the records cannot be written": {nil, func(d *desk) string {
			d.records.err = errors.New("no space left")
			return d.ask(macN1, R, ipOption(50, "10.71.0.11"), us) + fmt.Sprint(d.s.problem(time.Now()))
		}, "network mgmt on eth0: leases cannot be recorded, so none are given: no space left"},
		"one that somebody has is not offered": {pool, func(d *desk) string {
			d.used["10.71.0.100"] = true
			return d.ask(macA, D, ipOption(50, "10.71.0.100"))
		}, "OFFER 10.71.0.101"},
		"a node's is not offered from the range": {leases("10.71.0.11", "10.71.0.13"), func(d *desk) string { return d.get(macA) + d.get(macB) }, "10.71.0.13"},
	} {
		t.Run(name, func(t *testing.T) {
			s := mgmt(c.change)
			s.Nodes["n3"] = &site.Node{Name: "n3", Addresses: map[string]string{"mgmt": "dhcp"}, Identity: site.Identity{MAC: "52:54:00:71:00:03"}}
			if got := c.do(newDesk(t, s)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Leases end, are kept by those who had them, released, declined, and given to
// another client only when they are free.
func TestLeaseLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, mgmt(leases("10.71.0.100", "10.71.0.101")))
		a, b := d.get(macA), d.get(macB)
		if a == b || a == "" || b == "" {
			t.Fatalf("two clients got %q and %q", a, b)
		}
		const macC = "52:54:00:71:00:c1"
		exhausted := func() bool {
			return strings.Contains(fmt.Sprint(d.s.problem(time.Now())), "all 2 dynamic addresses are in use")
		}
		if got := d.get(macC); got != "" || !exhausted() {
			t.Errorf("a third client got %q, and the problem is %v", got, d.s.problem(time.Now()))
		}
		time.Sleep(40 * time.Minute)
		if got := d.ask(macA, dhcpv4.MessageTypeRequest, dhcpv4.WithClientIP(net.ParseIP(a))); got != "ACK "+a {
			t.Errorf("the renewal came to %q", got)
		}
		time.Sleep(21 * time.Minute)
		if got := d.get(macC); got != b || exhausted() {
			t.Errorf("after the lease of %s had ended, another got %q; problem %v", b, got, d.s.problem(time.Now()))
		}
		if got := d.get(macB); got != "" {
			t.Errorf("a client whose address another has now got %q", got)
		}
		// Only the holder can release, and only decline what it has.
		d.ask(macB, dhcpv4.MessageTypeRelease, dhcpv4.WithClientIP(net.ParseIP(a)), ipOption(54, "10.71.0.2"))
		d.ask(macB, dhcpv4.MessageTypeDecline, ipOption(50, a), ipOption(54, "10.71.0.2"))
		if got := d.get(macB); got != "" {
			t.Errorf("after others' words it got %q", got)
		}
		d.ask(macA, dhcpv4.MessageTypeRelease, dhcpv4.WithClientIP(net.ParseIP(a)), ipOption(54, "10.71.0.2"))
		if got := d.get(macB); got != a {
			t.Errorf("after the release it got %q", got)
		}
		d.ask(macB, dhcpv4.MessageTypeDecline, ipOption(50, a), ipOption(54, "10.71.0.2"))
		if got := d.get(macB); got != "" {
			t.Errorf("after it declined %s a client got %q", a, got)
		}
		time.Sleep(declinedFor)
		if got := d.get(macB); got != a {
			t.Errorf("%s later it got %q", declinedFor, got)
		}
		// An offer that nobody takes is another's after a minute.
		time.Sleep(2 * time.Hour)
		one, two := d.ask(macA, dhcpv4.MessageTypeDiscover), d.ask(macB, dhcpv4.MessageTypeDiscover)
		if third := d.ask(macC, dhcpv4.MessageTypeDiscover); one == two || third != "" {
			t.Errorf("offers are %q, %q, %q", one, two, third)
		}
		time.Sleep(offerFor)
		if third := d.ask(macC, dhcpv4.MessageTypeDiscover); third == "" {
			t.Error("an offer that nobody took is held on to")
		}
		time.Sleep(keptFor + 3*time.Hour)
		if gone := d.s.book.forget(time.Now()); len(gone) != 2 || len(d.s.book.byAddr) != 0 || len(d.s.book.byMAC) != 0 {
			t.Errorf("%v were forgotten, and %v, %v are left", gone, d.s.book.byAddr, d.s.book.byMAC)
		}
	})
}

// What was recorded holds for the next daemon, and a designed address is not given
// to its node while another client has it.
func TestRecordedLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mgmt(leases("10.71.0.100", "10.71.0.101"))
		d := newDesk(t, s)
		a := d.get(macA)
		n1 := d.get(macN1)
		next := newDesk(t, s)
		all, err := d.records.Leases(t.Context())
		if err != nil || len(all) != 2 {
			t.Fatalf("%v, %v", all, err)
		}
		for _, l := range all {
			next.s.book.restore(l)
		}
		if got := next.get(macB); got == a || got == "" {
			t.Errorf("%s is given twice: %q", a, got)
		}
		if got := next.get(macA); got != a {
			t.Errorf("the client gets %q, and had %s", got, a)
		}
		// The design gives n1's address to n2 now: n2 waits, n1 is told at its renewal.
		s.Nodes["n1"].Addresses["mgmt"], s.Nodes["n2"].Addresses["mgmt"] = "10.71.0.21", n1
		next.design(s)
		if got := next.get(macN2); got != "" || !strings.Contains(fmt.Sprint(next.s.problem(time.Now())), "n2 is not given its address 10.71.0.11") {
			t.Errorf("n2 got %q while n1 has it; problem %v", got, next.s.problem(time.Now()))
		}
		if got := next.ask(macN1, dhcpv4.MessageTypeRequest, dhcpv4.WithClientIP(net.ParseIP(n1))); got != "NAK" {
			t.Errorf("n1 renews what it is not designed with any more: %q", got)
		}
		time.Sleep(leaseFor)
		if got := next.get(macN2); got != n1 {
			t.Errorf("after the lease n2 got %q", got)
		}
		if got := next.get(macN1); got != "10.71.0.21" {
			t.Errorf("n1 got %q", got)
		}
	})
}

// A client that declines one address after the other does not empty the range.
func TestDeclinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, mgmt(leases("10.71.0.100", "10.71.0.199")))
		for range 50 {
			a := d.get(macA)
			d.ask(macA, dhcpv4.MessageTypeDecline, ipOption(50, a), ipOption(54, "10.71.0.2"))
		}
		if _, free := d.s.book.count(d.s.network(), time.Now()); free < 90 {
			t.Errorf("%d addresses are left", free)
		}
		// Nor do clients that are invented.
		for i := range 1000 {
			d.ask(fmt.Sprintf("52:54:00:99:%02x:%02x", i/256, i%256), dhcpv4.MessageTypeDiscover)
		}
		time.Sleep(offerFor)
		if _, free := d.s.book.count(d.s.network(), time.Now()); free < 90 {
			t.Errorf("%d addresses are left", free)
		}
	})
}

// While another server answers nothing is sent, and after it has been silent for a
// while it is.
func TestAnotherServerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, mgmt(nil))
		other := netip.MustParseAddr("10.71.0.3")
		if d.s.foreign(netip.MustParseAddr("10.71.0.2"), time.Now()) || d.get(macN1) == "" {
			t.Error("its own answer stopped it")
		}
		if !d.s.foreign(other, time.Now()) || d.s.foreign(other, time.Now()) {
			t.Error("it is not news once")
		}
		if got := d.ask(macN1, dhcpv4.MessageTypeDiscover); got != "" {
			t.Errorf("beside another server it says %q", got)
		}
		if p := fmt.Sprint(d.s.problem(time.Now())); !strings.Contains(p, "network mgmt on eth0: DHCP is not served: another DHCP server answers in the network: 10.71.0.3") {
			t.Errorf("problem %s", p)
		}
		time.Sleep(foreignFor - time.Second)
		if d.ask(macN1, dhcpv4.MessageTypeDiscover) != "" {
			t.Error("it is served again too soon")
		}
		time.Sleep(time.Second)
		if d.ask(macN1, dhcpv4.MessageTypeDiscover) == "" || d.s.problem(time.Now()) != nil {
			t.Errorf("it is not served again: %v", d.s.problem(time.Now()))
		}
		// A client that takes another's offer tells of a server too.
		d.ask(macN1, dhcpv4.MessageTypeRequest, ipOption(50, "10.71.0.77"), ipOption(54, "10.71.0.4"))
		if d.ask(macN1, dhcpv4.MessageTypeDiscover) != "" {
			t.Error("it is served beside a server that a client has chosen")
		}
		// Before the first probe is over nothing is said.
		fresh := newDesk(t, mgmt(nil))
		fresh.s.checked = false
		if got := fresh.ask(macN1, dhcpv4.MessageTypeDiscover); got != "" || fresh.s.problem(time.Now()) != nil {
			t.Errorf("before a probe it says %q, and has the problem %v", got, fresh.s.problem(time.Now()))
		}
	})
}

// Where answers go (RFC 2131, section 4.1), relays' options come back (RFC 3046), and
// a relay is only answered for its own network.
func TestDestinations(t *testing.T) {
	relayed := mgmt(func(n *site.Network) {
		n.DHCPRelay = &site.DHCPRelay{Address: "10.71.0.254", Servers: []string{"10.72.0.2"}}
	})
	direct, relay := newDesk(t, mgmt(nil)), newDesk(t, relayed, "10.72.0.2/24")
	hw, _ := net.ParseMAC(macN1)
	giaddr := dhcpv4.WithGatewayIP(net.ParseIP("10.71.0.254"))
	info := []byte{1, 4, 'e', 't', 'h', '1'}
	at := func(text string) to { return to{addr: netip.MustParseAddrPort(text)} }
	D, R := dhcpv4.MessageTypeDiscover, dhcpv4.MessageTypeRequest
	for name, c := range map[string]struct {
		a    *answer
		want to
	}{
		"without an address": {direct.answer(67, "0.0.0.0:68", macN1, D), to{mac: hw, given: netip.MustParseAddr("10.71.0.11")}},
		"by broadcast":       {direct.answer(67, "0.0.0.0:68", macN1, D, dhcpv4.WithBroadcast(true)), to{broadcast: true}},
		"a refusal":          {direct.answer(67, "0.0.0.0:68", macN1, R, ipOption(50, "10.71.0.99")), to{broadcast: true}},
		"a renewal":          {direct.answer(67, "10.71.0.11:68", macN1, R, dhcpv4.WithClientIP(net.ParseIP("10.71.0.11"))), at("10.71.0.11:68")},
		"by a relay":         {relay.answer(67, "10.71.0.254:67", macN1, D, giaddr, option(82, info...)), at("10.71.0.254:67")},
		"a relayed refusal":  {relay.answer(67, "10.71.0.254:67", macN1, R, giaddr, ipOption(50, "10.71.0.99")), at("10.71.0.254:67")},
		"a relayed renewal":  {relay.answer(67, "10.71.0.11:68", macN1, R, dhcpv4.WithClientIP(net.ParseIP("10.71.0.11"))), at("10.71.0.11:68")},
	} {
		if c.a == nil {
			t.Errorf("%s: no answer", name)
		} else if d := cmp.Diff(c.want, c.a.to, cmp.AllowUnexported(to{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); d != "" {
			t.Errorf("%s goes elsewhere: %s", name, d)
		}
	}
	a := relay.answer(67, "10.71.0.254:67", macN1, D, giaddr, option(82, info...))
	packet := a.msg.ToBytes()
	if end := append(append([]byte{82, byte(len(info))}, info...), 255); !strings.Contains(string(packet), string(end)) {
		t.Errorf("option 82 is not the last of the answer: %x", packet)
	}
	if nak := relay.answer(67, "10.71.0.254:67", macN1, R, giaddr, ipOption(50, "10.71.0.99")); !nak.msg.IsBroadcast() {
		t.Error("a relay is to broadcast a refusal")
	}
	if relay.answer(67, "0.0.0.0:68", macN1, D) != nil {
		t.Error("a client beside the server is answered for a network that is reached by a relay")
	}
	if relay.answer(67, "10.71.0.254:67", macN1, D, giaddr, option(82, 5, 4, 10, 99, 0, 0)) != nil {
		t.Error("a relay that selects another link is answered")
	}
	if relay.answer(67, "10.71.0.254:67", macN1, D, giaddr, option(82, 5, 4, 10, 71, 0, 0)) == nil {
		t.Error("a relay that selects the link is not answered")
	}
	if direct.answer(67, "10.71.0.254:67", macN1, D, giaddr) != nil {
		t.Error("a relay is answered where the design has none")
	}
}

// What firmware is told, by its class and architecture (RFC 4578).
func TestBootOptions(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "boot")
	if err := os.WriteFile(file, []byte("MZ"), 0o600); err != nil {
		t.Fatal(err)
	}
	const uuid = "00112233-4455-6677-8899-aabbccddeeff"
	wire := []byte{0, 0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
	boot := Boot{Node: "n1", MACs: []string{macN1}, UUID: uuid, Files: map[Firmware]string{UEFIAMD64: file, BIOS: file}}
	class := func(c string, arch byte) []dhcpv4.Modifier {
		return []dhcpv4.Modifier{option(60, []byte(c)...), option(93, 0, arch), option(97, wire...)}
	}
	for name, c := range map[string]struct {
		client []dhcpv4.Modifier
		change func(*Boot)
		file   string // what the file or URL ends in
		class  string
	}{
		"UEFI":                     {class("PXEClient:Arch:00007", 7), nil, "/bootx64.efi", "PXEClient"},
		"UEFI of the other number": {class("PXEClient:Arch:00009", 9), nil, "/bootx64.efi", "PXEClient"},
		"BIOS":                     {class("PXEClient:Arch:00000", 0), nil, "/boot.0", "PXEClient"},
		"UEFI by HTTP":             {class("HTTPClient:Arch:00016", 16), nil, "/bootx64.efi", "HTTPClient"},
		"a URL":                    {class("HTTPClient:Arch:00016", 16), func(b *Boot) { b.URL = "https://boot.example.org/x.efi" }, "https://boot.example.org/x.efi", "HTTPClient"},
		"ARM without a file":       {class("PXEClient:Arch:00011", 11), nil, "", ""},
		"32 bits":                  {class("PXEClient:Arch:00006", 6), nil, "", ""},
		"iPXE would load itself":   {append(class("PXEClient:Arch:00000", 0), option(77, []byte("iPXE")...)), nil, "", ""},
		"iPXE with a file": {append(class("PXEClient:Arch:00000", 0), option(77, []byte("iPXE")...)),
			func(b *Boot) { b.Files = map[Firmware]string{IPXE: file} }, "/boot.ipxe", "PXEClient"},
		"an operating system":  {[]dhcpv4.Modifier{option(60, []byte("MSFT 5.0")...)}, nil, "", ""},
		"nothing of itself":    {nil, nil, "", ""},
		"another machine":      {append(class("PXEClient:Arch:00007", 7), option(97, append([]byte{0}, wire[1], 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)...)), nil, "", ""},
		"a machine of no UUID": {append(class("PXEClient:Arch:00007", 7), option(97, make([]byte, 17)...)), nil, "/bootx64.efi", "PXEClient"},
		"too late":             {class("PXEClient:Arch:00007", 7), func(b *Boot) { b.Until = time.Now().Add(-time.Second) }, "", ""},
		"not armed":            {class("PXEClient:Arch:00007", 7), func(b *Boot) { b.Node, b.MACs = "n2", []string{macN2} }, "", ""},
	} {
		for _, mode := range []site.DHCPMode{site.DHCPServe, site.DHCPProxy} {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				d := newDesk(t, mgmt(func(n *site.Network) { n.Boot.DHCP = mode }))
				b := boot
				if c.change != nil {
					c.change(&b)
				}
				if err := d.r.arms.arm(b); err != nil {
					t.Fatal(err)
				}
				a := d.answer(serverPort, "0.0.0.0:68", macN1, dhcpv4.MessageTypeDiscover, c.client...)
				if a == nil {
					if mode == site.DHCPServe || c.file != "" {
						t.Fatal("there is no answer")
					}
					return
				}
				if got := a.msg.YourIPAddr.String(); got != map[site.DHCPMode]string{site.DHCPServe: "10.71.0.11", site.DHCPProxy: "0.0.0.0"}[mode] {
					t.Errorf("it is offered %s", got)
				}
				if mode == site.DHCPProxy && (c.file == "" || a.msg.Options.Has(dhcpv4.OptionIPAddressLeaseTime) || a.msg.Options.Has(dhcpv4.OptionRouter)) {
					t.Errorf("a proxy says %s", a.msg.Summary())
				}
				if got := string(a.msg.Options[60]); got != c.class {
					t.Errorf("its class is %q, not %q", got, c.class)
				}
				got := string(a.msg.Options[67])
				if !strings.HasSuffix(got, c.file) || (c.file == "") != (got == "") {
					t.Errorf("it is told %q, not …%s", got, c.file)
				}
				pxe := c.class == "PXEClient"
				if a.msg.Options.Has(dhcpv4.OptionVendorSpecificInformation) != pxe {
					t.Error("options 60 and 43 go together for PXE, and for PXE alone")
				}
				if pxe != (a.msg.ServerIPAddr.String() == "10.71.0.2") || pxe && a.msg.BootFileName != got {
					t.Errorf("the next server is %s with %q", a.msg.ServerIPAddr, a.msg.BootFileName)
				}
			})
		}
	}
}

// A proxy answers at the port of PXE too, and there no one else does.
func TestProxyPort(t *testing.T) {
	file := filepath.Join(t.TempDir(), "boot")
	if err := os.WriteFile(file, []byte("MZ"), 0o600); err != nil {
		t.Fatal(err)
	}
	client := []dhcpv4.Modifier{option(60, []byte("PXEClient")...), option(93, 0, 7), dhcpv4.WithClientIP(net.ParseIP("10.71.0.77"))}
	d := newDesk(t, mgmt(func(n *site.Network) { n.Boot.DHCP = site.DHCPProxy }))
	ask := func() *answer {
		return d.answer(pxePort, "10.71.0.77:4011", macN1, dhcpv4.MessageTypeRequest, client...)
	}
	if ask() != nil {
		t.Error("a machine that is not armed is answered")
	}
	if err := d.r.arms.arm(Boot{Node: "n1", MACs: []string{macN1}, Files: map[Firmware]string{UEFIAMD64: file}}); err != nil {
		t.Fatal(err)
	}
	if a := ask(); a == nil || a.msg.MessageType() != dhcpv4.MessageTypeAck || a.to.addr.String() != "10.71.0.77:4011" || !strings.HasSuffix(a.msg.BootFileName, "/bootx64.efi") {
		t.Errorf("got %+v", a)
	}
	for _, kind := range []dhcpv4.MessageType{dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeInform, dhcpv4.MessageTypeDecline, dhcpv4.MessageTypeRelease} {
		if a := d.answer(serverPort, "0.0.0.0:68", macN1, kind, client...); a != nil {
			t.Errorf("a proxy answers %s at the port of servers: %s", kind, a.msg.Summary())
		}
	}
	serving := newDesk(t, mgmt(nil))
	if a := serving.answer(pxePort, "10.71.0.77:4011", macN1, dhcpv4.MessageTypeRequest, client...); a != nil {
		t.Errorf("a server answers at the port of PXE: %s", a.msg.Summary())
	}
}

// What is not served, and why.
func TestWhatIsNotServed(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*site.Network)
		address string
		why     string
	}{
		"not designed":       {func(n *site.Network) { n.Boot.DHCP = "" }, "10.71.0.2/24", "the design does not ask for it"},
		"IPv6":               {func(n *site.Network) { n.CIDR = "fd00::/64" }, "10.71.0.2/24", "the interface has no address in fd00::/64"},
		"IPv6, not designed": {func(n *site.Network) { n.CIDR, n.Boot.DHCP = "fd00::/64", "" }, "fd00::2/64", `write networks: mgmt: boot: dhcp: "serve"`},
		"a proxy of IPv6":    {func(n *site.Network) { n.CIDR, n.Boot.DHCP = "fd00::/64", site.DHCPProxy }, "fd00::2/64", `"proxy" works in IPv4 networks only`},
		"another network":    {nil, "10.72.0.2/24", "the interface has no address in 10.71.0.0/24: give it one"},
		"a relay to another": {func(n *site.Network) {
			n.DHCPRelay = &site.DHCPRelay{Address: "10.71.0.254", Servers: []string{"10.72.0.9"}}
		}, "10.72.0.2/24", "none of those in networks.mgmt.dhcpRelay.servers"},
		"no room for a host": {func(n *site.Network) { n.CIDR = "10.71.0.2/31" }, "10.71.0.2/24", "room for hosts"},
		"served by relay too": {func(n *site.Network) {
			n.DHCPRelay = &site.DHCPRelay{Address: "10.71.0.254", Servers: []string{"10.72.0.2"}}
		}, "10.72.0.2/24", ""},
	} {
		_, err := networkOf(mgmt(c.change), "mgmt", []netip.Prefix{netip.MustParsePrefix(c.address)})
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := networkOf(mgmt(nil), "lab", nil); err == nil || !strings.Contains(err.Error(), "no network lab") {
		t.Errorf("%v", err)
	}
	for text, want := range map[string]string{
		"eth0=mgmt,eth1=lab": "", "eth0.12=mgmt, eth0.12=lab": "", "eth0": "INTERFACE=NETWORK", "=mgmt": "INTERFACE=NETWORK", "eth0=": "INTERFACE=NETWORK", "": "INTERFACE=NETWORK",
		"averylonginterface=mgmt": "INTERFACE=NETWORK", "eth0=mgmt,eth1=mgmt": "the network mgmt is named twice",
	} {
		if _, err := ParseListen(text); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// By which MAC addresses a node is in a network.
func TestMACsOfNodes(t *testing.T) {
	n := &site.Node{
		Identity: site.Identity{MAC: "52:54:00:00:00:aa"},
		Hardware: site.Hardware{Devices: map[string]site.Device{"nic2": {MAC: "52:54:00:00:00:02"}}},
		Interfaces: map[string]site.Interface{
			"eno1": {MAC: "52:54:00:00:00:01", Networks: []string{"mgmt"}}, "eno2": {Device: "nic2", Boot: "install"}, "eno3": {MAC: "52:54:00:00:00:03"}, "eno4": {MAC: "52:54:00:00:00:04", Boot: "install"},
		},
		Bonds:   map[string]site.Bond{"bond0": {Members: []string{"eno2", "eno3"}, Networks: []string{"storage"}}},
		VLANs:   map[string]site.VLAN{"bond0.7": {Parent: "bond0", Network: "tenant"}},
		Bridges: map[string]site.Bridge{"br0": {Members: []string{"bond0.7"}, Networks: []string{"guests"}}},
	}
	both := []string{"52:54:00:00:00:02", "52:54:00:00:00:03"}
	for network, want := range map[string][]string{"mgmt": {"52:54:00:00:00:01"}, "storage": both, "tenant": both, "guests": both,
		"install":   {"52:54:00:00:00:02", "52:54:00:00:00:04"},
		"elsewhere": {"52:54:00:00:00:01", "52:54:00:00:00:02", "52:54:00:00:00:03", "52:54:00:00:00:04", "52:54:00:00:00:aa"}} {
		if got := macsIn(n, network); !slices.Equal(got, want) {
			t.Errorf("in %s by %v, not %v", network, got, want)
		}
	}
}

// A boot that makes no sense is refused, one replaces the other of a node, and two
// nodes do not have one MAC address.
func TestArm(t *testing.T) {
	file := filepath.Join(t.TempDir(), "boot")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	files := map[Firmware]string{UEFIAMD64: file}
	s := New(Config{Listen: []Listen{{"eth0", "mgmt"}}})
	for want, b := range map[string]Boot{
		"needs a name and a MAC address":     {Node: "n1", Files: files},
		"neither a file nor a URL":           {Node: "n1", MACs: []string{macN1}},
		"is not a MAC address in lower case": {Node: "n1", MACs: []string{"52:54:00:71:00:AA"}, Files: files},
		"no such file":                       {Node: "n1", MACs: []string{macN1}, Files: map[Firmware]string{BIOS: file + "x"}},
		"is not a file":                      {Node: "n1", MACs: []string{macN1}, Files: map[Firmware]string{BIOS: filepath.Dir(file)}},
		"is not an http or https URL":        {Node: "n1", MACs: []string{macN1}, URL: "ftp://x/y"},
	} {
		if err := s.Arm(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", b, err)
		}
	}
	arm := func(node string, macs ...string) error { return s.Arm(Boot{Node: node, MACs: macs, Files: files}) }
	if err := errors.Join(arm("n1", macN1, macA), arm("n1", macN1), arm("n2", macN2, macA)); err != nil {
		t.Error(err)
	}
	if err := arm("n3", macN2); err == nil || !strings.Contains(err.Error(), "n2 is armed by the same MAC address") {
		t.Errorf("%v", err)
	}
	s.Disarm("n2")
	s.Disarm("n9")
	if err := arm("n3", macN2); err != nil {
		t.Error(err)
	}
	if it := s.arms.of(identity{mac: macA}, time.Now()); it != nil {
		t.Errorf("%s is armed by what it had before", it.Node)
	}
}

// A client that asks for more as soon as it has its answer is answered: firmware would wait for
// seconds before it asks once more. It has one request at a time.
func TestAClientAsksAgainAtOnce(t *testing.T) {
	d := newDesk(t, mgmt(leases("10.71.0.100", "10.71.0.101")))
	f := New(Config{Listen: []Listen{{"eth0", "mgmt"}}}).faces[0]
	discover, entered := request(t, macA, dhcpv4.MessageTypeDiscover), false
	q, err := d.r.parse(func(a *answer) error {
		entered = f.enter(request(t, macA, dhcpv4.MessageTypeRequest, ipOption(50, a.msg.YourIPAddr.String()), ipOption(54, "10.71.0.2")).ClientHWAddr.String())
		return nil
	}, serverPort)(discover.ToBytes(), netip.MustParseAddrPort("0.0.0.0:68"), netip.Addr{})
	if err != nil || !f.enter(q.client) || f.enter(q.client) {
		t.Fatal("a client has not one request at a time")
	}
	if err := f.answer(t.Context(), q); err != nil || !entered || len(f.pending) != 1 {
		t.Errorf("its next request was taken: %t, of %d; %v", entered, len(f.pending), err)
	}
}
