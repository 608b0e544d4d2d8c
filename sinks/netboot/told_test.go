package netboot

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/slipway-gitops/slipway/engine/site"
)

// armedBoot is a boot of n1 with words for its agent.
func armedBoot(t *testing.T) Boot {
	t.Helper()
	file := filepath.Join(t.TempDir(), "boot")
	if err := os.WriteFile(file, []byte("MZ"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Boot{Node: "n1", ID: "first", MACs: []string{macN1}, UUID: "00112233-4455-6677-8899-aabbccddeeff", Files: map[Firmware]string{UEFIAMD64: file},
		Words: "slipway.daemon=10.71.0.2:9481 slipway.ca=sha256:" + strings.Repeat("0a", 32)}
}

// smbios is a UUID as option 97 has it.
var smbios = []byte{0, 0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}

// The agent of a boot is told where its daemon is, also after the boot file was read and beside
// another DHCP server. Nobody else is told, and nothing is once the boot is over.
func TestAgentIsTold(t *testing.T) {
	for _, mode := range []site.DHCPMode{site.DHCPServe, site.DHCPProxy} {
		t.Run(string(mode), func(t *testing.T) {
			d := newDesk(t, mgmt(func(n *site.Network) { n.Boot.DHCP = mode }))
			asks := func(mac, class string, id []byte, has string) string {
				t.Helper()
				a := d.answer(serverPort, has+":68", mac, dhcpv4.MessageTypeInform, option(60, []byte(class)...), option(97, id...), dhcpv4.WithClientIP(net.ParseIP(has)))
				if a == nil {
					return ""
				}
				if a.to.addr != netip.MustParseAddrPort(has+":68") || a.msg.MessageType() != dhcpv4.MessageTypeAck || !a.msg.YourIPAddr.Equal(net.IPv4zero) {
					t.Errorf("the answer goes to %+v: %s", a.to, a.msg.Summary())
				}
				if words := string(a.msg.Options[43]); words != "" && string(a.msg.Options[60]) != class {
					t.Errorf("the words are for the class %q", a.msg.Options[60])
				}
				return string(a.msg.Options[43])
			}
			boot := armedBoot(t)
			if words := asks(macN1, agentClass, smbios, "10.71.0.11"); words != "" {
				t.Errorf("told before it is armed: %q", words)
			}
			if err := d.r.arms.arm(boot); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if words := asks(macN1, agentClass, smbios, "10.71.0.11"); words != boot.Words {
					t.Errorf("told was %q", words)
				}
				d.r.arms.of(identity{mac: macN1}, time.Now()).done(netip.MustParseAddr("10.71.0.11"), time.Now())
				if words := asks(macN1, agentClass, smbios, "10.71.0.11"); words != boot.Words {
					t.Errorf("after its file was read told was %q", words)
				}
				if err := d.r.arms.arm(Boot{Node: "n1", MACs: boot.MACs, UUID: boot.UUID, Files: boot.Files, Words: boot.Words}); err != nil {
					t.Fatal(err)
				}
			}
			other := append([]byte{0}, smbios[2:]...)
			other = append(other, 1)
			for what, words := range map[string]string{
				"another machine's MAC address": asks(macN2, agentClass, smbios, "10.71.0.12"),
				"another UUID":                  asks(macN1, agentClass, other, "10.71.0.11"),
				"an operating system":           asks(macN1, "MSFT 5.0", smbios, "10.71.0.11"),
			} {
				if words != "" {
					t.Errorf("%s is told %q", what, words)
				}
			}
			if odd := d.r.arms.odd("n1"); !strings.Contains(odd, "another UUID") {
				t.Errorf("people are told %q", odd)
			}
			if d.answer(serverPort, "192.168.7.9:68", macN1, dhcpv4.MessageTypeInform, option(60, []byte(agentClass)...), dhcpv4.WithClientIP(net.ParseIP("192.168.7.9"))) != nil {
				t.Error("an agent in another network is answered")
			}
			if lease := d.answer(serverPort, "0.0.0.0:68", macN1, dhcpv4.MessageTypeDiscover, option(60, []byte(agentClass)...)); lease != nil && lease.msg.Options.Has(dhcpv4.OptionVendorSpecificInformation) {
				t.Errorf("an offer has %s", lease.msg.Summary())
			}
			d.r.arms.disarm("n1")
			if words := asks(macN1, agentClass, smbios, "10.71.0.11"); words != "" {
				t.Errorf("told after the boot is over: %q", words)
			}
		})
	}
}

// One boot is armed once: a machine that has read its file does not get it again because somebody
// repeats what is recorded. Whoever else reads it gets nothing, and people are told.
func TestABootIsArmedOnce(t *testing.T) {
	s := New(Config{Listen: []Listen{{"eth0", "mgmt"}}})
	boot, now := armedBoot(t), time.Now()
	arm := func() {
		t.Helper()
		if err := s.Arm(boot); err != nil {
			t.Fatal(err)
		}
	}
	own, other := netip.MustParseAddr("10.71.0.11"), netip.MustParseAddr("10.71.0.66")
	arm()
	it := s.arms.of(identity{mac: macN1, uuid: boot.UUID}, now)
	if it == nil || s.arms.of(identity{mac: macN1, uuid: "33221100-5544-7766-8899-aabbccddeeff"}, now) != it {
		t.Fatal("it is not armed, whichever order of bytes the firmware has its UUID in")
	}
	path := it.path(UEFIAMD64)
	it.done(own, now)
	arm()
	if s.arms.of(identity{mac: macN1, uuid: boot.UUID}, now) != nil {
		t.Error("the same boot is armed twice")
	}
	if _, f, err := s.arms.open(path, own, now); err != nil {
		t.Errorf("the machine itself: %v", err)
	} else {
		f.Close()
	}
	if s.Odd("n1") != "" {
		t.Errorf("told is %q", s.Odd("n1"))
	}
	if _, _, err := s.arms.open(path, other, now); err == nil || !strings.Contains(s.Odd("n1"), "10.71.0.66 asked for its boot file after 10.71.0.11 had read it") {
		t.Errorf("another one: %v, told is %q", err, s.Odd("n1"))
	}
	boot.ID = "second"
	arm()
	if s.arms.of(identity{mac: macN1, uuid: boot.UUID}, now) == nil || s.Odd("n1") != "" {
		t.Errorf("the next boot is not armed, or told is %q", s.Odd("n1"))
	}
	boot.ID, boot.Words = "third", strings.Repeat("x", maxWords+1)
	if err := s.Arm(boot); err == nil || !strings.Contains(err.Error(), "fit into an answer") {
		t.Errorf("words without an end: %v", err)
	}
	if s.Odd("n9") != "" {
		t.Error("something is told of a node that is not armed")
	}
}

// Serving says in a sentence why machines are not told what to boot.
func TestServing(t *testing.T) {
	s := New(Config{Listen: []Listen{{"eth0", "mgmt"}}})
	one := s.faces[0].served[0]
	says := func(want string, networks ...string) {
		t.Helper()
		if a, err := s.Serving(networks); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, %v", networks, a, err)
		}
	}
	says("no port of the machine boots from a network with boot.dhcp")
	says("--netboot does not name the network lab: start the daemon with --netboot INTERFACE=lab", "lab")
	says("the network mgmt on eth0 is not served: starting", "mgmt")
	n, err := networkOf(mgmt(nil), "mgmt", []netip.Prefix{netip.MustParsePrefix("10.71.0.2/24")})
	if err != nil {
		t.Fatal(err)
	}
	one.set(n, nil)
	says("looking for another DHCP server first", "mgmt")
	one.probed([]*network{n})
	if a, err := s.Serving([]string{"lab", "mgmt"}); err != nil || a != netip.MustParseAddr("10.71.0.2") {
		t.Errorf("%v, %v", a, err)
	}
	one.foreign(netip.MustParseAddr("10.71.0.3"), time.Now())
	says("another DHCP server answers in the network: 10.71.0.3", "mgmt")
}
