package start

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
)

// A real server of DHCPv6, on another host, gives an address, renews it, and tells where the daemon is.
func TestAsksByIPv6(t *testing.T) {
	const dnsmasq = "/usr/sbin/dnsmasq"
	if _, err := os.Stat(dnsmasq); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("%v: setup.sh installs it", err)
	}
	ownNetwork(t)
	l, dir := link(t, "own"), t.TempDir()
	if err := up(l.Index); err != nil {
		t.Fatal(err)
	}
	server := exec.Command("sh", "-ec", `read go; echo 0 > /proc/sys/net/ipv6/conf/far/accept_dad; ip addr add fd00:9::1/64 dev far nodad; ip link set far up; exec "$0" "$@"`, dnsmasq,
		"--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=root", "--interface=far", "--bind-interfaces", "--enable-ra", "--dhcp-range=fd00:9::50,fd00:9::60,64,2m",
		"--dhcp-userclass=set:agent,slipway-agent", "--dhcp-option=tag:agent,option6:bootfile-param,slipway.daemon=[fd00:9::1]:9481 slipway.ca=sha256:"+strings.Repeat("0a", 32),
		"--log-facility="+filepath.Join(dir, "log"), "--dhcp-leasefile="+filepath.Join(dir, "leases"), "--pid-file="+filepath.Join(dir, "pid"))
	server.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET}
	server.Stderr = os.Stderr
	begin, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	ip(t, "link", "set", "far", "netns", strconv.Itoa(server.Process.Pid))
	if _, err := io.WriteString(begin, "go\n"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	n := &network{console: &console{}, resolv: filepath.Join(dir, "resolv.conf"), uuid: "00112233-4455-6677-8899-aabbccddeeff"}
	d := &dhcp6{network: n, link: l}
	lasts, err := d.lease(ctx)
	for err != nil && ctx.Err() == nil { // the addresses of the link are checked first, and the other end is not up yet
		lasts, err = d.lease(ctx)
	}
	if err != nil || lasts != 2*time.Minute {
		t.Fatal(lasts, err)
	}
	first := d.had.address
	if shown := ip(t, "-6", "address", "show", "dev", "own"); !netip.MustParsePrefix("fd00:9::/64").Contains(first) || !strings.Contains(shown, first.String()+"/128") {
		t.Errorf("the port has %s: %s", first, shown)
	}
	if _, err := d.lease(ctx); err != nil || d.had.address != first {
		t.Errorf("renewed %s: %+v, %v", first, d.had, err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if _, after, renewed := strings.Cut(string(log), "DHCPRENEW(far) "); err != nil || !renewed || strings.Contains(after, "DHCPSOLICIT") {
		t.Errorf("the lease was not renewed, %v: %s", err, log)
	}
	if links := n.links(); len(links) != 1 || links[0] != "own" {
		t.Errorf("ready are %v", links)
	}
	if err := d.ask(ctx); err != nil {
		t.Fatal(err)
	}
	if is, known := n.daemon("own"); !known || is.Daemon != "[fd00:9::1]:9481" || len(is.CA) != 32 {
		t.Fatalf("known %t: %+v", known, is)
	}
}

// An answer without a usable address gives none, and its reason is said.
func TestOffered6(t *testing.T) {
	given := func(a string, lasts time.Duration) *dhcpv6.Message {
		m := &dhcpv6.Message{MessageType: dhcpv6.MessageTypeReply}
		m.AddOption(dhcpv6.OptServerID(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}))
		association := &dhcpv6.OptIANA{}
		if a != "" {
			association.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP(a), ValidLifetime: lasts})
		} else {
			association.Options.Add(&dhcpv6.OptStatusCode{StatusCode: iana.StatusNoAddrsAvail})
		}
		m.AddOption(association)
		return m
	}
	if is, err := offered6(given("fd00:9::7", time.Hour)); err != nil || is.address != netip.MustParseAddr("fd00:9::7") || is.lasts != time.Hour {
		t.Errorf("%+v, %v", is, err)
	}
	for says, m := range map[string]*dhcpv6.Message{
		"NoAddrsAvail":     given("", 0),
		"gives no address": given("fd00:9::7", 0),
		"answer gives no":  given("ff02::1", time.Hour),
		"the server's ans": {MessageType: dhcpv6.MessageTypeReply},
	} {
		if is, err := offered6(m); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %+v, %v", says, is, err)
		}
	}
}
