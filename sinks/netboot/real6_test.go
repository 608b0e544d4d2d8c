package netboot

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// host6 makes a namespace as host does, whose addresses of IPv6 are there at once.
func (g *segment) host6(name, mac, lan string, addresses ...string) {
	g.t.Helper()
	g.namespace(name)
	g.in(name, "sh", "-c", "echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad")
	g.plug(name, "eth0", mac, lan, addresses...)
}

var leased = regexp.MustCompile(`iaaddr (\S+) \{|option dhcp6\.(\S+) ([^;]+);`)

// dhclient6 asks by ISC's client, and returns what it got; nothing for no answer. A system that asks for its address
// keeps the state.
func (g *segment) dhclient6(name, state string, args ...string) map[string]string {
	g.t.Helper()
	file := filepath.Join(g.dir, state)
	all := g.inside(name, append([]string{"timeout", "8", "dhclient", "-6", "-1", "-sf", "/bin/true", "-lf", file + ".leases", "-pf", file + ".pid", "-D", "LL"}, append(args, "eth0")...)...)
	out, err := exec.Command(all[0], all[1:]...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { // it stays in the background with its lease
		text, _ := os.ReadFile(file + ".pid")
		exec.Command("kill", strings.TrimSpace(string(text))).Run()
	})
	text, err := os.ReadFile(file + ".leases")
	if err != nil {
		g.t.Fatalf("%v: %s", err, out)
	}
	got := map[string]string{}
	for _, m := range leased.FindAllStringSubmatch(string(text), -1) {
		if m[1] != "" {
			got["address"] = m[1]
		} else {
			got[m[2]] = m[3]
		}
	}
	return got
}

// Designed nodes get their addresses by DHCPv6 from a client of Debian, and others nothing, where there is no
// dynamic range. The system that is told of the prefix makes its routes.
func TestRealClients6(t *testing.T) {
	t.Parallel()
	needs(t, "ip", "dhclient", "timeout")
	g := newSegment(t)
	g.host6("srv", "52:54:00:71:00:f0", "lan", "fd00:71::2/64")
	g.host6("n1", "52:54:00:71:00:01", "lan")
	g.host6("stranger", "52:54:00:71:00:99", "lan")
	s := mgmt6(nil)
	d := g.serve("srv", "eth0=mgmt", s)
	d.serving()
	got := g.dhclient6("n1", "n1")
	for key, want := range map[string]string{"address": "fd00:71::11", "name-servers": "fd00:71::53", "domain-search": `"lab.example.org."`, "server-id": "0:3:0:1:52:54:0:71:0:f0"} {
		if got[key] != want {
			t.Errorf("dhclient got %s %q, not %q", key, got[key], want)
		}
	}
	if got := g.dhclient6("stranger", "stranger"); got["address"] != "" {
		t.Errorf("a client that the design does not know got %v", got)
	}
	d.until("the lease is counted", func(s []site.Served) bool { return s[0].Leases == 1 })
	g.in("n1", "ip", "address", "add", "fd00:71::11/128", "dev", "eth0") // what its script would have done
	g.in("n1", "dhclient", "-6", "-r", "-sf", "/bin/true", "-lf", filepath.Join(g.dir, "n1.leases"), "-pf", filepath.Join(g.dir, "n1.pid"), "-D", "LL", "eth0")
	d.until("the lease is released", func(s []site.Served) bool { return s[0].Leases == 0 })
	if routes := g.in("n1", "ip", "-6", "route"); strings.Contains(routes, "fd00:71::/64") {
		t.Errorf("without boot.announce the prefix is announced: %s", routes)
	}
	s.Networks["mgmt"].Boot.DHCP = ""
	g.design(s)
	d.order(map[string]any{"Reload": true})
	d.until("nothing is served", func(s []site.Served) bool { return strings.Contains(s[0].Why, "the design does not ask for it") })
}

// Both families of one segment are served on one interface, each by a network of its own.
func TestRealBothFamilies(t *testing.T) {
	t.Parallel()
	needs(t, "ip", "udhcpc", "dhclient", "timeout")
	g := newSegment(t)
	g.host6("srv", "52:54:00:71:00:f0", "lan", "fd00:71::2/64", "10.71.0.2/24")
	g.host6("n1", "52:54:00:71:00:01", "lan")
	s, four := mgmt6(nil), mgmt(nil)
	s.Networks["four"] = four.Networks["mgmt"]
	s.Nodes["n1"].Addresses["four"] = "10.71.0.11"
	eno1 := s.Nodes["n1"].Interfaces["eno1"]
	eno1.Networks = append(eno1.Networks, "four")
	s.Nodes["n1"].Interfaces["eno1"] = eno1
	d := g.serve("srv", "eth0=mgmt,eth0=four", s)
	d.serving()
	if got := g.dhclient6("n1", "n1")["address"]; got != "fd00:71::11" {
		t.Errorf("by DHCPv6 %q", got)
	}
	if got := g.udhcpc("n1")["ip"]; got != "10.71.0.11" {
		t.Errorf("by DHCPv4 %q", got)
	}
}

// What prevents DHCPv6 on an interface, and what changes there later, is no matter of DHCPv4.
func TestRealFamiliesAreApart(t *testing.T) {
	t.Parallel()
	needs(t, "ip", "udhcpc", "dhclient", "timeout")
	g := newSegment(t)
	g.host6("srv", "52:54:00:71:00:f0", "lan", "fd00:71::2/64", "10.71.0.2/24")
	g.in("srv", "ip", "address", "del", "fe80::5054:ff:fe71:f0/64", "dev", "eth0")
	g.host6("n1", "52:54:00:71:00:01", "lan")
	s, four := mgmt6(nil), mgmt(nil)
	s.Networks["four"] = four.Networks["mgmt"]
	s.Nodes["n1"].Addresses["four"] = "10.71.0.11"
	eno1 := s.Nodes["n1"].Interfaces["eno1"]
	eno1.Networks = append(eno1.Networks, "four")
	s.Nodes["n1"].Interfaces["eno1"] = eno1
	d := g.serve("srv", "eth0=mgmt,eth0=four", s)
	d.until("IPv4 is served without a link-local address of IPv6", func(all []site.Served) bool {
		return strings.Contains(all[0].Why, "no link-local address") && all[1].Why == ""
	})
	if got := g.udhcpc("n1")["ip"]; got != "10.71.0.11" {
		t.Errorf("by DHCPv4 %q", got)
	}
	g.in("srv", "ip", "address", "add", "fe80::5054:ff:fe71:f0/64", "dev", "eth0")
	d.serving()
	if got := g.dhclient6("n1", "n1")["address"]; got != "fd00:71::11" {
		t.Errorf("by DHCPv6 %q", got)
	}
	g.in("srv", "ip", "address", "add", "fd00:71::1/64", "dev", "eth0") // the lowest one serves
	d.until("the other address serves", func(all []site.Served) bool {
		return all[0].Why == "" && strings.Count(d.log.String(), "dhcp listens") == 3
	})
	if log := d.log.String(); strings.Count(log, "version=4") != 1 || strings.Count(log, "version=6") != 2 {
		t.Errorf("a change of IPv6 interrupts IPv4: %s", log)
	}
}

// The kernel of a host makes an address of an announced prefix, and no default route, and forgets the router when
// the design says so. A host that the design does not know hears the same, as of any router.
func TestRealAnnouncements(t *testing.T) {
	t.Parallel()
	needs(t, "ip", "curl")
	g := newSegment(t)
	g.host6("srv", "52:54:00:71:00:f0", "lan", "fd00:71::2/64")
	g.host6("n1", "52:54:00:71:00:01", "lan")
	s := mgmt6(func(n *site.Network) { n.Boot.Announce, n.Autoconfigure = true, true })
	d := g.serve("srv", "eth0=mgmt", s)
	until := func(what, wants string, is bool, show ...string) {
		t.Helper()
		last := ""
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			if last = g.in("n1", show...); strings.Contains(last, wants) == is {
				return
			}
			<-time.After(100 * time.Millisecond)
		}
		t.Fatalf("%s: %s\n%s", what, last, d.log.String())
	}
	until("no address is made of the prefix", "fd00:71::5054:ff:fe71:1/64", true, "ip", "-6", "address", "show", "dev", "eth0")
	until("no route leads to the prefix", "fd00:71::/64", true, "ip", "-6", "route", "show", "dev", "eth0")
	until("a default route", "default", false, "ip", "-6", "route", "show", "dev", "eth0")
	if code := g.in("n1", "curl", "-s", "-g", "-o", "/dev/null", "-w", "%{http_code}", "http://[fd00:71::2]:9482/"); code != "404" {
		t.Errorf("over the announced prefix the daemon answers %s", code)
	}
	if own := g.in("srv", "ip", "-6", "address", "show", "dev", "eth0"); strings.Contains(own, "fd00:71::5054") {
		t.Errorf("the daemon's own host hears its announcements: %s", own)
	}
	// The gateway of the design is this host now. The kernel forwards nothing while only the interface says so.
	g.in("srv", "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/eth0/forwarding")
	s.Networks["mgmt"].Gateway, s.Networks["mgmt"].MTU = "fd00:71::2", 1400
	g.design(s)
	d.order(map[string]any{"Reload": true})
	d.until("a gateway that forwards nothing is reported", func([]site.Served) bool { return strings.Contains(d.log.String(), "not announced as default router") })
	until("the announcement of the gateway does not come", "1400", true, "cat", "/proc/sys/net/ipv6/conf/eth0/mtu")
	until("a default route through a host that forwards nothing", "default", false, "ip", "-6", "route", "show", "dev", "eth0")
	g.in("srv", "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")
	until("no default route", "default via fe80::5054:ff:fe71:f0", true, "ip", "-6", "route", "show", "dev", "eth0")
	// A host that comes later asks, and does not wait for the next announcement.
	g.host6("late", "52:54:00:71:00:02", "lan")
	came := time.Now()
	for !strings.Contains(g.in("late", "ip", "-6", "route", "show", "dev", "eth0"), "default via fe80::5054:ff:fe71:f0") {
		if time.Since(came) > 12*time.Second {
			t.Fatal("a host that asks is not answered")
		}
		<-time.After(100 * time.Millisecond)
	}
	s.Networks["mgmt"].Boot.Announce = false
	g.design(s)
	d.order(map[string]any{"Reload": true})
	until("the default route stays", "default", false, "ip", "-6", "route", "show", "dev", "eth0")
	until("the address goes", "fd00:71::5054:ff:fe71:1/64", true, "ip", "-6", "address", "show", "dev", "eth0")
	s.Networks["mgmt"].Boot.Announce = true
	g.design(s)
	d.order(map[string]any{"Reload": true})
	until("no default route again", "default", true, "ip", "-6", "route", "show", "dev", "eth0")
	d.in.Close() // it ends
	until("the default route stays after its end", "default", false, "ip", "-6", "route", "show", "dev", "eth0")
}

// Beside another DHCPv6 server nothing is served: before it, and when it comes later.
func TestRealForeignServer6(t *testing.T) {
	t.Parallel()
	needs(t, "ip", "dhclient", "dnsmasq", "timeout")
	g := newSegment(t)
	g.host6("srv", "52:54:00:71:00:f0", "lan", "fd00:71::2/64")
	g.host6("other", "52:54:00:71:00:e1", "lan", "fd00:71::3/64")
	d := g.serve("srv", "eth0=mgmt", mgmt6(func(n *site.Network) { n.Boot.Announce = true }))
	d.serving()
	g.begin("other", "dnsmasq", "--keep-in-foreground", "--port=0", "--bind-interfaces", "--interface=eth0", "--conf-file=/dev/null", "--pid-file=",
		"--dhcp-range=fd00:71::200,fd00:71::210,64,1h", "--dhcp-leasefile="+filepath.Join(g.dir, "dnsmasq.leases"), "--user=root", "--dhcp-authoritative")
	stops := func(s []site.Served) bool {
		return strings.Contains(s[0].Why, "another DHCP server answers in the network: fe80::5054:ff:fe71:e1")
	}
	d.until("the other server is noticed", stops)
	g.host6("n1", "52:54:00:71:00:01", "lan")
	if got := g.dhclient6("n1", "n1"); !strings.HasPrefix(got["address"], "fd00:71::2") {
		t.Errorf("n1 got %v", got)
	}
	d.until("the announcements end beside another server", func([]site.Served) bool { return strings.Contains(d.log.String(), "router advertisements end") })
	d.kill()
	d = g.serve("srv", "eth0=mgmt", mgmt6(func(n *site.Network) { n.Boot.Announce = true }))
	d.until("the other server is noticed before anything is served", stops)
	if log := d.log.String(); strings.Contains(log, "dhcp lease") || strings.Contains(log, "router advertisements begin") {
		t.Errorf("something was sent beside another server: %s", log)
	}
}

// A relay passes messages on from another network.
func TestRealRelay6(t *testing.T) {
	t.Parallel()
	needs(t, "ip", "dhclient", "dhcrelay", "timeout")
	g := newSegment(t)
	g.host6("srv", "52:54:00:71:00:f0", "lan", "fd00:72::2/64")
	g.namespace("far")
	g.in("far", "ip", "link", "add", "br0", "type", "bridge")
	g.in("far", "ip", "link", "set", "br0", "up")
	g.host6("relay", "52:54:00:71:00:fe", "lan", "fd00:72::1/64")
	g.plug("relay", "eth1", "52:54:00:71:00:fd", "far", "fd00:71::fe/64")
	g.host6("n1", "52:54:00:71:00:01", "far")
	g.host6("stranger", "52:54:00:71:00:77", "far")
	g.in("srv", "ip", "route", "add", "fd00:71::/64", "via", "fd00:72::1")
	s := mgmt6(func(n *site.Network) {
		n.DHCPRelay = &site.DHCPRelay{Address: "fd00:71::fe", Servers: []string{"fd00:72::2"}}
	})
	d := g.serve("srv", "eth0=mgmt", s)
	d.serving()
	g.begin("relay", "dhcrelay", "-6", "-d", "-l", "eth1", "-u", "fd00:72::2%eth0")
	var got map[string]string
	for range 3 { // the relay begins meanwhile
		if got = g.dhclient6("n1", "n1"); got["address"] != "" {
			break
		}
	}
	if got["address"] != "fd00:71::11" {
		t.Errorf("n1 got %v by the relay", got)
	}
	if got := g.dhclient6("stranger", "stranger"); got["address"] != "" {
		t.Errorf("by the relay a client that the design does not know got %v", got)
	}
}

// A dynamic address of IPv6 is not one that a host has which asked nobody, and boot files are read by TFTP and HTTP
// at an address of IPv6.
func TestRealBootFiles6(t *testing.T) {
	t.Parallel()
	needs(t, "ip", "dhclient", "tftp", "curl", "timeout")
	g := newSegment(t)
	g.host6("srv", "52:54:00:71:00:f0", "lan", "fd00:71::2/64")
	g.host6("n1", "52:54:00:71:00:01", "lan", "fd00:71::11/64")
	g.host6("n2", "52:54:00:71:00:02", "lan", "fd00:71::12/64")
	g.host6("squatter", "52:54:00:71:00:d1", "lan", "fd00:71::100/64")
	g.host6("a", "52:54:00:71:00:a1", "lan")
	content := bytes.Repeat([]byte("slipway "), 40000)
	file := filepath.Join(g.dir, "uki.efi")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	d := g.serve("srv", "eth0=mgmt", mgmt6(leases("fd00:71::100", "fd00:71::101")))
	d.serving()
	if got := g.dhclient6("a", "a")["address"]; got != "fd00:71::101" {
		t.Errorf("a client got %q", got)
	}
	conf := func(class, arch string) string {
		path := filepath.Join(g.dir, class+".conf")
		text := fmt.Sprintf("option dhcp6.bootfile-url code 59 = string;\noption dhcp6.client-arch code 61 = unsigned integer 16;\noption dhcp6.firmware code 16 = string;\n"+
			"interface \"eth0\" {\n\tsend dhcp6.client-arch %s;\n\tsend dhcp6.firmware 00:00:01:57:00:%02x:%s;\n\talso request dhcp6.bootfile-url;\n}\n", arch, len(class), hexOf(class))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pxe, web := conf("PXEClient:Arch:00007:UNDI:003001", "7"), conf("HTTPClient:Arch:00016:UNDI:003001", "16")
	asks := 0
	boots := func(name, conf string) string {
		t.Helper()
		asks++
		got := g.dhclient6(name, fmt.Sprint("ask", asks), "-cf", conf)
		if got["address"] == "" {
			t.Errorf("%s got no address: %v", name, got)
		}
		return strings.Trim(got["bootfile-url"], `"`)
	}
	if got := boots("n1", pxe); got != "" {
		t.Errorf("a machine that is not armed got %q", got)
	}
	d.order(map[string]any{"Arm": Boot{Node: "n1", MACs: []string{"52:54:00:71:00:01"}, Files: map[Firmware]string{UEFIAMD64: file}}})
	if got := boots("n2", pxe); got != "" {
		t.Errorf("another machine got %q", got)
	}
	read := filepath.Join(g.dir, "read")
	path, ok := strings.CutPrefix(boots("n1", pxe), "tftp://[fd00:71::2]/")
	if !ok {
		t.Fatalf("the armed machine got %q", path)
	}
	g.in("n1", "tftp", "-6", "-m", "binary", "fd00:71::2", "-c", "get", path, read)
	if text, err := os.ReadFile(read); err != nil || !bytes.Equal(text, content) {
		t.Errorf("by TFTP %d bytes of %d were read, %v", len(text), len(content), err)
	}
	if got := boots("n1", pxe); got != "" {
		t.Errorf("the machine that has read its file got %q", got)
	}
	d.order(map[string]any{"Arm": Boot{Node: "n1", MACs: []string{"52:54:00:71:00:01"}, Files: map[Firmware]string{UEFIAMD64: file}}})
	url := boots("n1", web)
	if !strings.HasPrefix(url, "http://[fd00:71::2]:9482/") {
		t.Fatalf("HTTP boot got %q", url)
	}
	if code := g.in("n1", "curl", "-s", "-g", "-o", read, "-w", "%{http_code}", url); code != "200" {
		t.Errorf("GET gives %s", code)
	}
	if text, err := os.ReadFile(read); err != nil || !bytes.Equal(text, content) {
		t.Errorf("by HTTP %d bytes of %d were read, %v", len(text), len(content), err)
	}
	if code := g.in("n2", "curl", "-s", "-g", "-o", read, "-w", "%{http_code}", url); code != "404" {
		t.Errorf("another machine reads a file that was read: %s", code)
	}
}

// hexOf is a text as dhclient's configuration has bytes.
func hexOf(text string) string {
	var all []string
	for _, b := range []byte(text) {
		all = append(all, fmt.Sprintf("%02x", b))
	}
	return strings.Join(all, ":")
}
