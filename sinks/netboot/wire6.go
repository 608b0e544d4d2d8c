package netboot

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/mdlayher/ndp"
)

// These are multicast addresses of IPv6 (RFC 8415, section 7.1; RFC 4291, section 2.7.1).
var (
	allServersOnLink = netip.MustParseAddr("ff02::1:2")
	allServers       = netip.MustParseAddr("ff05::1:3") // of the site; relays send there
	allNodes         = netip.MustParseAddr("ff02::1")
	allRouters       = netip.MustParseAddr("ff02::2")
)

// These are the protocols after the header of IPv6.
const (
	protocolUDP    = 17
	protocolICMPv6 = 58

	routerSolicitation     = 133 // types of ICMPv6 (RFC 4861, section 4)
	neighbourAdvertisement = 136
)

// groupMAC is where frames to a multicast address go (RFC 2464, section 7).
func groupMAC(a netip.Addr) net.HardwareAddr {
	b := a.As16()
	return net.HardwareAddr{0x33, 0x33, b[12], b[13], b[14], b[15]}
}

// frame6 makes an Ethernet frame with a packet of IPv6.
func frame6(to, from net.HardwareAddr, src, dst netip.Addr, protocol, hops byte, payload []byte) []byte {
	b := make([]byte, 14+40, 14+40+len(payload))
	s, d := src.As16(), dst.As16()
	copy(b, to)
	copy(b[6:], from)
	binary.BigEndian.PutUint16(b[12:], 0x86dd)
	ip := b[14:]
	ip[0], ip[6], ip[7] = 0x60, protocol, hops
	binary.BigEndian.PutUint16(ip[4:], uint16(len(payload)))
	copy(ip[8:], s[:])
	copy(ip[24:], d[:])
	return append(b, payload...)
}

// udp6 makes a UDP packet for IPv6.
func udp6(src, dst netip.AddrPort, payload []byte) []byte {
	b := make([]byte, 8, 8+len(payload))
	binary.BigEndian.PutUint16(b, src.Port())
	binary.BigEndian.PutUint16(b[2:], dst.Port())
	binary.BigEndian.PutUint16(b[4:], uint16(8+len(payload)))
	s, d := src.Addr().As16(), dst.Addr().As16()
	check := ^fold(sum(sum(sum(sum(protocolUDP+uint32(8+len(payload)), s[:]), d[:]), b), payload))
	if check == 0 {
		check = 0xffff // RFC 8200, section 8.1
	}
	binary.BigEndian.PutUint16(b[6:], check)
	return append(b, payload...)
}

// solicitation asks for DHCPv6 servers that give an address, from a link-local address of this host.
func solicitation(mac net.HardwareAddr, from netip.Addr) ([]byte, error) {
	msg, err := dhcpv6.NewSolicit(mac, dhcpv6.WithClientID(duidOf(mac)))
	if err != nil {
		return nil, err
	}
	src, dst := netip.AddrPortFrom(from, clientPort6), netip.AddrPortFrom(allServersOnLink, serverPort6)
	return frame6(groupMAC(dst.Addr()), mac, src.Addr(), dst.Addr(), protocolUDP, 1, udp6(src, dst, msg.ToBytes())), nil
}

// duidOf is the DUID of this host's server on an interface (RFC 8415, section 11.4).
func duidOf(mac net.HardwareAddr) dhcpv6.DUID {
	return &dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: mac}
}

// server6Of is the sender of an answer of DHCPv6 that gives an address; invalid for anything else. Other answers are
// of servers that give settings alone.
func server6Of(b []byte) netip.Addr {
	ip := packet6(b, protocolUDP)
	if len(ip) < 48 || len(ip) > maxPacket || binary.BigEndian.Uint16(ip[42:]) != clientPort6 {
		return netip.Addr{}
	}
	msg, err := dhcpv6.MessageFromBytes(ip[48:])
	if err != nil || msg.MessageType != dhcpv6.MessageTypeAdvertise && msg.MessageType != dhcpv6.MessageTypeReply {
		return netip.Addr{}
	}
	if ia := msg.Options.OneIANA(); ia == nil || ia.Options.OneAddress() == nil {
		return netip.Addr{}
	}
	return netip.AddrFrom16([16]byte(ip[8:24]))
}

// packet6 is a frame's packet of IPv6 with a protocol; nil for others.
func packet6(b []byte, protocol byte) []byte {
	if len(b) < 14+40 || binary.BigEndian.Uint16(b[12:]) != 0x86dd {
		return nil
	}
	ip := b[14:]
	whole := 40 + int(binary.BigEndian.Uint16(ip[4:]))
	if ip[0]>>4 != 6 || ip[6] != protocol || whole > len(ip) {
		return nil
	}
	return ip[:whole]
}

// neighbourQuestion asks who has an address, as a host does that has it already (RFC 4861, section 4.3).
func neighbourQuestion(mac net.HardwareAddr, from, target netip.Addr) ([]byte, error) {
	dst, err := ndp.SolicitedNodeMulticast(target)
	if err != nil {
		return nil, err
	}
	question := &ndp.NeighborSolicitation{TargetAddress: target, Options: []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: mac}}}
	b, err := ndp.MarshalMessageChecksum(question, from, dst)
	if err != nil {
		return nil, err
	}
	return frame6(groupMAC(dst), mac, from, dst, protocolICMPv6, 255, b), nil
}

// neighbourOf is the address that a neighbour advertisement is about; invalid for other frames.
func neighbourOf(b []byte) netip.Addr {
	ip := packet6(b, protocolICMPv6)
	if len(ip) < 64 || ip[40] != neighbourAdvertisement || ip[7] != 255 {
		return netip.Addr{}
	}
	return netip.AddrFrom16([16]byte(ip[48:64]))
}

// asksOf is who asks for routers in a frame (RFC 4861, section 6.1.1), and false for other frames. A host without an
// address is answered by an announcement to everybody.
func asksOf(b []byte) (asks, bool) {
	ip := packet6(b, protocolICMPv6)
	if len(ip) < 48 || ip[40] != routerSolicitation || ip[41] != 0 || ip[7] != 255 {
		return asks{}, false
	}
	at := netip.AddrFrom16([16]byte(ip[8:24]))
	switch {
	case at.IsUnspecified():
		return everybody, true
	case !at.IsLinkLocalUnicast() || b[6]&1 != 0:
		return asks{}, false
	}
	return asks{net.HardwareAddr(slices.Clone(b[6:12])), at}, true
}
