package netboot

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/slipway-gitops/slipway/engine/site"
)

// cable makes a network namespace with a cable between the interfaces own and far, and opens both ends.
func cable(t *testing.T) []*os.File {
	t.Helper()
	needs(t, "ip")
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"link", "add", "own", "address", srvMAC.String(), "type", "veth", "peer", "name", "far"}, {"link", "set", "own", "up"}, {"link", "set", "far", "up"}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v\n%s", args, err, out)
		}
	}
	var ends []*os.File
	for _, name := range []string{"own", "far"} {
		iface, err := net.InterfaceByName(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := openRaw(iface.Index)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		ends = append(ends, f)
	}
	return ends
}

// What is on a VLAN of the interface is not of the network without a tag: a server there does not stop this one.
func TestFramesOfVLANsAreNotHeard(t *testing.T) {
	ends := cable(t)
	server, client := netip.MustParseAddrPort("10.71.0.9:67"), netip.MustParseAddrPort("10.71.0.2:68")
	offer, err := dhcpv4.New(dhcpv4.WithMessageType(dhcpv4.MessageTypeOffer), dhcpv4.WithServerIP(net.IP{10, 71, 0, 9}))
	if err != nil {
		t.Fatal(err)
	}
	four := frame(broadcast, srvMAC, server, client, offer.ToBytes())
	six := frame6(groupMAC(allNodes), srvMAC, netip.MustParseAddr("fe80::9"), allNodes, protocolUDP, 1,
		udp6(netip.MustParseAddrPort("[fe80::9]:547"), netip.AddrPortFrom(allNodes, clientPort6), []byte{2, 0, 0, 0}))
	tagged := func(b []byte, vlan byte) []byte { return slices.Concat(b[:12], []byte{0x81, 0, 0x20, vlan}, b[12:]) }
	for _, b := range [][]byte{four, six} {
		for _, sent := range [][]byte{tagged(b, 7), tagged(b, 0), b} {
			if _, err := ends[1].Write(sent); err != nil {
				t.Fatal(err)
			}
		}
		// The kernel removes the tag of the second, which has a priority and no VLAN.
		for range 2 {
			got := make([]byte, 2000)
			ends[0].SetReadDeadline(time.Now().Add(10 * time.Second))
			n, err := ends[0].Read(got)
			if err != nil || !bytes.Equal(got[:n], b) {
				t.Fatalf("heard is %x, %v, not %x", got[:n], err, b)
			}
		}
	}
	ends[0].SetReadDeadline(time.Now())
	if n, err := ends[0].Read(make([]byte, 2000)); err == nil {
		t.Errorf("%d more bytes are heard", n)
	}
}

// Hosts that ask for routers as fast as they can are answered at a bounded rate. All hosts of the network hear an
// announcement at most every 3 seconds, even if the ones that ask have no address yet (RFC 4861, section 6.2.6).
func TestAskingForRoutersIsBounded(t *testing.T) {
	ends := cable(t)
	everything, err := ends[1].SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	if err := everything.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	f := New(Config{Listen: []Listen{{"own", "mgmt"}}, Log: slog.New(slog.DiscardHandler)}).faces[0]
	n, err := networkOf(mgmt6(func(n *site.Network) { n.Boot.Announce = true }), "mgmt", []netip.Prefix{netip.MustParsePrefix("fd00:71::2/64")})
	if err != nil {
		t.Fatal(err)
	}
	f.served[0].set(n, nil)
	f.served[0].probed([]*network{n})
	p := &port{iface: &net.Interface{Name: "own", HardwareAddr: srvMAC}, raw: ends[0], local: netip.MustParseAddr("fe80::5054:ff:fe71:f0")}
	host := asks{net.HardwareAddr{0x52, 0x54, 0, 0x71, 0, 1}, netip.MustParseAddr("fe80::1")}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	asked := make(chan asks)
	began := time.Now()
	running.Go(func() { f.announce(ctx, p, asked) })
	running.Go(func() {
		for {
			for _, who := range []asks{host, everybody} {
				select {
				case asked <- who:
				case <-ctx.Done():
					return
				}
			}
		}
	})
	toHost, toAll, got := 0, 0, make([]byte, 2000)
	ends[1].SetReadDeadline(began.Add(time.Minute))
	for toAll < 2 {
		size, err := ends[1].Read(got)
		if err != nil {
			t.Fatalf("%d announcements were heard by all, %d by the host that asks: %v", toAll, toHost, err)
		}
		ip := packet6(got[:size], protocolICMPv6)
		switch {
		case len(ip) < 48 || ip[40] != 134: // the kernel's own
		case bytes.Equal(got[:6], everybody.mac):
			toAll++
		case bytes.Equal(got[:6], host.mac):
			toHost++
		}
	}
	took := time.Since(began)
	if took < 3*time.Second {
		t.Errorf("all hosts heard 2 announcements in %s", took)
	}
	if most := 20 + int(10*took.Seconds()) + 1; toHost < 20 || toHost > most {
		t.Errorf("a host that asks all the time got %d answers in %s, not 20 to %d", toHost, took, most)
	}
}

// An address that the kernel still checks, or that another host has too, serves nobody, and people are told which it is.
func TestAddressesThatAreNotReady(t *testing.T) {
	cable(t)
	for _, command := range []string{"echo 600000 > /proc/sys/net/ipv6/neigh/own/retrans_time_ms", "ip address add fd00:71::2/64 dev own"} {
		if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	conn, err := openUDP("own", netip.MustParseAddr("fd00:71::2"), tftpPort)
	if err == nil {
		conn.Close()
		t.Fatal("it is open while its address is checked")
	}
	if says := missing("UDP port 69 (TFTP) on own", err).Error(); !strings.Contains(says, "is still being checked, or another host uses it too") {
		t.Errorf("people read %q", says)
	}
}
