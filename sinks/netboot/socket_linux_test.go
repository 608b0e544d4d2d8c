package netboot

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// What is on a VLAN of the interface is not of the network without a tag: a server there does not stop this one.
func TestFramesOfVLANsAreNotHeard(t *testing.T) {
	needs(t, "ip")
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"link", "add", "own", "type", "veth", "peer", "name", "far"}, {"link", "set", "own", "up"}, {"link", "set", "far", "up"}} {
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
		defer f.Close()
		ends = append(ends, f)
	}
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
