package start

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ownNetwork gives the test a network namespace of its own with the two ends of a cable, "own"
// and "far". What the test starts is in it too.
func ownNetwork(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("only root has network namespaces")
		}
		t.Skip("only root has network namespaces")
	}
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	ip(t, "link", "add", "own", "type", "veth", "peer", "name", "far")
	ip(t, "link", "set", "far", "up")
	ip(t, "addr", "add", "198.51.100.1/24", "dev", "far")
}

func ip(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func link(t *testing.T, name string) net.Interface {
	t.Helper()
	l, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return *l
}

// A port has the address and the gateway of the command line, as ip(8) shows them; given twice
// they are the same.
func TestFixedAddress(t *testing.T) {
	ownNetwork(t)
	l := link(t, "own")
	if err := up(l.Index); err != nil {
		t.Fatal(err)
	}
	n := &network{console: &console{}, resolv: filepath.Join(t.TempDir(), "resolv.conf")}
	for range 2 {
		if err := n.set(l, netip.MustParsePrefix("198.51.100.7/24"), netip.MustParseAddr("198.51.100.1"), []netip.Addr{netip.MustParseAddr("198.51.100.53")}); err != nil {
			t.Fatal(err)
		}
	}
	if is := ip(t, "-o", "addr", "show", "own"); !strings.Contains(is, "inet 198.51.100.7/24 ") {
		t.Errorf("the port has %s", is)
	}
	if is := ip(t, "route", "show", "default"); strings.Count(is, "default via 198.51.100.1 dev own") != 1 || strings.Count(is, "\n") != 1 {
		t.Errorf("the routes are %s", is)
	}
	if text, err := os.ReadFile(n.resolv); string(text) != "nameserver 198.51.100.53\n" {
		t.Errorf("resolv.conf has %q, %v", text, err)
	}
	if links := n.links(); len(links) != 1 || links[0] != "own" {
		t.Errorf("ready are %v", links)
	}
	if err := n.set(l, netip.MustParsePrefix("198.51.100.7/24"), netip.MustParseAddr("203.0.113.1"), nil); err == nil || !strings.Contains(err.Error(), "the gateway 203.0.113.1: ") {
		t.Errorf("a gateway in another network: %v", err)
	}
	if err := up(99); err != syscall.ENODEV {
		t.Errorf("a port that is not there: %v", err)
	}
}

// A real server of DHCP gives an address, which is kept by asking again.
func TestAddressByDHCP(t *testing.T) {
	const dnsmasq = "/usr/sbin/dnsmasq"
	if _, err := os.Stat(dnsmasq); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("%v: setup.sh installs it", err)
	}
	ownNetwork(t)
	l := link(t, "own")
	if err := up(l.Index); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	server := exec.Command(dnsmasq, "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=root", "--interface=far", "--bind-interfaces", "--no-ping",
		"--dhcp-range=198.51.100.50,198.51.100.60,255.255.255.0,2m", "--dhcp-option=3,198.51.100.1", "--dhcp-option=6,198.51.100.53", "--dhcp-leasefile="+filepath.Join(dir, "leases"), "--pid-file="+filepath.Join(dir, "pid"))
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n := &network{console: &console{}, resolv: filepath.Join(dir, "resolv.conf")}
	first, err := n.lease(ctx, l, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := n.lease(ctx, l, first)
	if err != nil || !again.ACK.YourIPAddr.Equal(first.ACK.YourIPAddr) || first.ACK.IPAddressLeaseTime(0) != 2*time.Minute {
		t.Errorf("%v after %v, %v", again, first, err)
	}
	if is := ip(t, "-o", "addr", "show", "own"); !strings.Contains(is, "inet "+first.ACK.YourIPAddr.String()+"/24 ") {
		t.Errorf("the port has %s", is)
	}
	if is := ip(t, "route", "show", "default"); !strings.Contains(is, "default via 198.51.100.1 dev own") {
		t.Errorf("the routes are %s", is)
	}
	if text, err := os.ReadFile(n.resolv); string(text) != "nameserver 198.51.100.53\n" {
		t.Errorf("resolv.conf has %q, %v", text, err)
	}
}
