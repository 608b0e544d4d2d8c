package netboot

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// frame makes an Ethernet frame with a UDP packet over IPv4.
func frame(to, from net.HardwareAddr, src, dst netip.AddrPort, payload []byte) []byte {
	b := make([]byte, 14+20+8, 14+20+8+len(payload))
	copy(b, to)
	copy(b[6:], from)
	binary.BigEndian.PutUint16(b[12:], 0x0800)
	ip, udp := b[14:34], b[34:42]
	ip[0], ip[8], ip[9] = 0x45, 64, 17 // version and header, hops, UDP
	binary.BigEndian.PutUint16(ip[2:], uint16(20+8+len(payload)))
	s, d := src.Addr().As4(), dst.Addr().As4()
	copy(ip[12:], s[:])
	copy(ip[16:], d[:])
	binary.BigEndian.PutUint16(ip[10:], ^fold(sum(0, ip)))
	binary.BigEndian.PutUint16(udp, src.Port())
	binary.BigEndian.PutUint16(udp[2:], dst.Port())
	binary.BigEndian.PutUint16(udp[4:], uint16(8+len(payload)))
	pseudo := sum(sum(sum(17+uint32(8+len(payload)), ip[12:20]), udp), payload)
	check := ^fold(pseudo)
	if check == 0 {
		check = 0xffff // RFC 768
	}
	binary.BigEndian.PutUint16(udp[6:], check)
	return append(b, payload...)
}

func sum(of uint32, b []byte) uint32 {
	for i := 0; i+1 < len(b); i += 2 {
		of += uint32(b[i])<<8 | uint32(b[i+1])
	}
	if len(b)%2 == 1 {
		of += uint32(b[len(b)-1]) << 8
	}
	return of
}

func fold(s uint32) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// payloadOf is the payload of a frame's UDP packet to the port of DHCP clients; nil for other frames.
func payloadOf(b []byte) []byte {
	if len(b) < 14+20+8 || binary.BigEndian.Uint16(b[12:]) != 0x0800 {
		return nil
	}
	ip := b[14:]
	header, whole := int(ip[0]&15)*4, int(binary.BigEndian.Uint16(ip[2:]))
	if ip[0]>>4 != 4 || header < 20 || whole < header+8 || whole > len(ip) || ip[9] != 17 {
		return nil
	}
	udp := ip[header:whole]
	if binary.BigEndian.Uint16(udp[2:]) != clientPort {
		return nil
	}
	return udp[8:]
}

// serverOf is the sender of a DHCP answer; invalid for anything else.
func serverOf(b []byte) netip.Addr {
	payload := payloadOf(b)
	if payload == nil || len(payload) > maxPacket {
		return netip.Addr{}
	}
	msg, err := dhcpv4.FromBytes(payload)
	if err != nil || msg.OpCode != dhcpv4.OpcodeBootReply {
		return netip.Addr{}
	}
	// An offer without an address comes from a proxy, not from a second server.
	if t := msg.MessageType(); t != dhcpv4.MessageTypeNak && !ip4(msg.YourIPAddr).IsValid() || t == dhcpv4.MessageTypeNone {
		return netip.Addr{}
	}
	if server := ip4(msg.ServerIdentifier()); server.IsValid() {
		return server
	}
	return ip4(msg.ServerIPAddr)
}

// arpQuestion asks who has an address (RFC 5227, section 2.1.1: a probe has no sender address).
func arpQuestion(from net.HardwareAddr, target netip.Addr) []byte {
	b := make([]byte, 14+28)
	copy(b, broadcast)
	copy(b[6:], from)
	binary.BigEndian.PutUint16(b[12:], 0x0806)
	copy(b[14:], []byte{0, 1, 8, 0, 6, 4, 0, 1})
	copy(b[22:], from)
	a := target.As4()
	copy(b[38:], a[:])
	return b
}

// arpSender is the sender's address in an ARP packet; invalid for other frames.
func arpSender(b []byte) netip.Addr {
	if len(b) < 14+28 || binary.BigEndian.Uint16(b[12:]) != 0x0806 {
		return netip.Addr{}
	}
	return netip.AddrFrom4([4]byte(b[28:32]))
}

var broadcast = net.HardwareAddr{255, 255, 255, 255, 255, 255}

// discovery asks for DHCP servers.
func discovery(mac net.HardwareAddr) ([]byte, error) {
	var xid dhcpv4.TransactionID
	if _, err := rand.Read(xid[:]); err != nil {
		return nil, err
	}
	msg, err := dhcpv4.New(dhcpv4.WithTransactionID(xid), dhcpv4.WithHwAddr(mac), dhcpv4.WithBroadcast(true), dhcpv4.WithMessageType(dhcpv4.MessageTypeDiscover),
		dhcpv4.WithRequestedOptions(dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter))
	if err != nil {
		return nil, err
	}
	msg.OpCode = dhcpv4.OpcodeBootRequest
	return frame(broadcast, mac, netip.AddrPortFrom(netip.IPv4Unspecified(), clientPort), netip.AddrPortFrom(broadcastAddr, serverPort), msg.ToBytes()), nil
}

var broadcastAddr = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// neighbours are the addresses that are being probed, and who waits for each.
type neighbours struct {
	mu    sync.Mutex
	asked map[netip.Addr][]chan struct{}
}

// heard tells those who wait for an address that somebody has it.
func (n *neighbours) heard(a netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.asked[a] {
		close(c)
	}
	delete(n.asked, a)
}

// wait probes an address and waits a while for an answer.
func (n *neighbours) wait(ctx context.Context, a netip.Addr, within time.Duration, ask func() error) bool {
	c := n.await(a)
	if ask() != nil {
		within = 0
	}
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	n.giveUp(a, c)
	return false
}

// await returns a channel that is closed when somebody has an address.
func (n *neighbours) await(a netip.Addr) chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.asked == nil {
		n.asked = map[netip.Addr][]chan struct{}{}
	}
	c := make(chan struct{})
	n.asked[a] = append(n.asked[a], c)
	return c
}

// giveUp stops waiting for an address.
func (n *neighbours) giveUp(a netip.Addr, c chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	left := n.asked[a][:0]
	for _, other := range n.asked[a] {
		if other != c {
			left = append(left, other)
		}
	}
	if n.asked[a] = left; len(left) == 0 {
		delete(n.asked, a)
	}
}
