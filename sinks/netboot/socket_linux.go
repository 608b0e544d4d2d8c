package netboot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
)

// port sends and receives on an interface.
type port struct {
	iface *net.Interface
	// raw sends to clients that have no address yet. It receives the answers of other servers, and of hosts whose
	// address is being probed.
	raw  *os.File
	dhcp *net.UDPConn
	pxe  *net.UDPConn
	out  *ipv4.PacketConn // of dhcp
	// dhcp6 is open on a port of IPv6; dhcp and pxe are on one of IPv4.
	dhcp6 *net.UDPConn
	out6  *ipv6.PacketConn
	// local is this host's link-local address on the interface; invalid without dhcp6.
	local netip.Addr
	// announces says that it is opened for router advertisements.
	announces bool

	neighbours neighbours
}

// openPort opens the sockets for DHCP of a version of IP on an interface.
func openPort(name string, is6, announces bool) (_ *port, err error) {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("there is no interface %s on this host: correct --netboot, or bring it up", name)
	}
	if len(iface.HardwareAddr) != 6 {
		return nil, fmt.Errorf("%s is not an Ethernet interface", name)
	}
	p := &port{iface: iface}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if p.raw, err = openRaw(iface.Index); err != nil {
		return nil, missing("a raw socket on "+name, err)
	}
	if is6 {
		if err = p.openDHCP6(announces); err != nil {
			return nil, err
		}
		return p, nil
	}
	if p.dhcp, err = openUDP(name, netip.IPv4Unspecified(), serverPort); err != nil {
		return nil, missing(fmt.Sprintf("UDP port %d on %s", serverPort, name), err)
	}
	p.out = ipv4.NewPacketConn(p.dhcp)
	if p.pxe, err = openUDP(name, netip.IPv4Unspecified(), pxePort); err != nil {
		return nil, missing(fmt.Sprintf("UDP port %d on %s", pxePort, name), err)
	}
	return p, nil
}

// is6 reports whether a port is of IPv6.
func (p *port) is6() bool { return p.dhcp6 != nil }

// openDHCP6 opens the sockets for IPv6.
func (p *port) openDHCP6(announces bool) (err error) {
	all, err := p.iface.Addrs()
	if err != nil {
		return err
	}
	for _, a := range all {
		if is, err := netip.ParsePrefix(a.String()); err == nil && is.Addr().Is6() && is.Addr().IsLinkLocalUnicast() && !p.local.IsValid() {
			p.local = is.Addr()
		}
	}
	if !p.local.IsValid() {
		return fmt.Errorf("%s has no link-local address, and DHCPv6 needs one: connect the interface, and see that IPv6 is on for it (sysctl net/ipv6/conf/%s/disable_ipv6 shows 0)", p.iface.Name, p.iface.Name)
	}
	if p.dhcp6, err = openUDP(p.iface.Name, netip.IPv6Unspecified(), serverPort6); err != nil {
		return missing(fmt.Sprintf("UDP port %d on %s", serverPort6, p.iface.Name), err)
	}
	p.out6 = ipv6.NewPacketConn(p.dhcp6)
	if err := p.out6.SetControlMessage(ipv6.FlagDst, true); err != nil {
		return fmt.Errorf("hear DHCPv6 on %s: %w", p.iface.Name, err)
	}
	groups := []netip.Addr{allServersOnLink, allServers}
	if p.announces = announces; announces {
		groups = append(groups, allRouters)
	}
	for _, group := range groups {
		if err := p.out6.JoinGroup(p.iface, &net.UDPAddr{IP: group.AsSlice()}); err != nil {
			return fmt.Errorf("hear DHCPv6 on %s: %w", p.iface.Name, err)
		}
	}
	return nil
}

// forwards reports whether this host is a router of IPv6 on the interface. The kernel forwards packets if "all" says
// so, whatever the interface says, and tells its neighbours that it is a router if the interface says so.
func (p *port) forwards() bool {
	for _, where := range []string{"all", p.iface.Name} {
		is, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + where + "/forwarding")
		if err != nil || strings.TrimSpace(string(is)) == "0" {
			return false
		}
	}
	return true
}

// write sends a frame.
func (p *port) write(b []byte) error {
	_, err := p.raw.Write(b)
	return err
}

// missing says what to do about a socket that cannot be opened.
func missing(what string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("slipway may not open %s: give the daemon CAP_NET_BIND_SERVICE and CAP_NET_RAW, as the systemd unit of the packages does", what)
	case errors.Is(err, unix.EAFNOSUPPORT):
		return fmt.Errorf("slipway may not open %s: allow AF_PACKET in RestrictAddressFamilies of the systemd unit", what)
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("%s is in use by another program on this host, such as dnsmasq or dhcpd: stop it (`ss -lunp` shows which one it is)", what)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("slipway cannot open %s yet: this host's address there is still being checked, or another host uses it too (`ip address` shows it as tentative or dadfailed)", what)
	}
	return fmt.Errorf("open %s: %w", what, err)
}

func (p *port) Close() {
	for _, c := range []*net.UDPConn{p.dhcp, p.pxe, p.dhcp6} {
		if c != nil {
			c.Close()
		}
	}
	if p.raw != nil {
		p.raw.Close()
	}
}

// openUDP opens a UDP socket that is bound to an interface.
func openUDP(iface string, at netip.Addr, number int) (*net.UDPConn, error) {
	l := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			if failed = unix.SetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE, iface); failed == nil && !at.Is6() {
				failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
			}
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<20) // as much as the system allows
		})
		return errors.Join(err, failed)
	}}
	c, err := l.ListenPacket(context.Background(), "udp"+version(at), netip.AddrPortFrom(at, uint16(number)).String())
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// openRaw opens a socket for an interface's frames. It receives answers to DHCP clients and ARP replies, and
// nothing that this host sends.
func openRaw(index int) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "packets")
	program, err := bpf.Assemble(interesting)
	if err != nil {
		f.Close()
		return nil, err
	}
	filters := make([]unix.SockFilter, len(program))
	for i, in := range program {
		filters[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}); err != nil {
		f.Close()
		return nil, fmt.Errorf("filter frames: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8, Ifindex: index}); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// interesting filters the frames of a raw socket: ARP replies, neighbour advertisements, router solicitations, and
// unfragmented UDP packets to the ports of clients of DHCP, except those from this host and those of VLANs. The kernel
// removes the tag of a VLAN before the socket sees the frame.
var interesting = []bpf.Instruction{
	bpf.LoadExtension{Num: bpf.ExtType},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 24},
	bpf.LoadExtension{Num: bpf.ExtVLANTag},
	bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x0fff, SkipTrue: 22}, // a tag with the VLAN 0 has a priority alone
	bpf.LoadAbsolute{Off: 12, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0x0806, SkipFalse: 2},
	bpf.LoadAbsolute{Off: 20, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: 2, SkipTrue: 17, SkipFalse: 18},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0x0800, SkipFalse: 7},
	bpf.LoadAbsolute{Off: 23, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: protocolUDP, SkipFalse: 15},
	bpf.LoadAbsolute{Off: 20, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x1fff, SkipTrue: 13},
	bpf.LoadMemShift{Off: 14},
	bpf.LoadIndirect{Off: 16, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: clientPort, SkipTrue: 9, SkipFalse: 10},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0x86dd, SkipFalse: 9},
	bpf.LoadAbsolute{Off: 20, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: protocolUDP, SkipFalse: 2},
	bpf.LoadAbsolute{Off: 56, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: clientPort6, SkipTrue: 4, SkipFalse: 5},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: protocolICMPv6, SkipFalse: 4},
	bpf.LoadAbsolute{Off: 54, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: routerSolicitation, SkipTrue: 1},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: neighbourAdvertisement, SkipFalse: 1},
	bpf.RetConstant{Val: 1 << 16},
	bpf.RetConstant{Val: 0},
}

// listen reports other servers, and who asks for routers, until the port is closed.
func (p *port) listen(foreign func(netip.Addr), asked chan<- asks) {
	buf := make([]byte, 1<<16)
	for {
		n, err := p.raw.Read(buf)
		if err != nil {
			if errors.Is(err, unix.ENETDOWN) {
				continue // the interface is down for a while
			}
			return
		}
		if who, ok := asksOf(buf[:n]); ok {
			select {
			case asked <- who:
			default: // nothing is announced, or too many ask
			}
		}
		neighbour, server := arpSender(buf[:n]), serverOf(buf[:n])
		if p.is6() {
			neighbour, server = neighbourOf(buf[:n]), server6Of(buf[:n])
		}
		if neighbour.IsValid() {
			p.neighbours.heard(neighbour)
		}
		if server.IsValid() {
			foreign(server)
		}
	}
}

// discover probes the interface's own network for other DHCP servers.
func (p *port) discover() error {
	question := func() ([]byte, error) { return discovery(p.iface.HardwareAddr) }
	if p.is6() {
		question = func() ([]byte, error) { return solicitation(p.iface.HardwareAddr, p.local) }
	}
	b, err := question()
	if err != nil {
		return err
	}
	return p.write(b)
}

// receive6 is the receiver of DHCPv6.
func (p *port) receive6(b []byte) (n int, from netip.AddrPort, to netip.Addr, err error) {
	n, cm, sender, err := p.out6.ReadFrom(b)
	if err != nil {
		return 0, from, to, err
	}
	if udp, ok := sender.(*net.UDPAddr); ok {
		from = udp.AddrPort()
	}
	if cm != nil {
		to, _ = netip.AddrFromSlice(cm.Dst)
	}
	return n, from, to, nil
}

// send6 sends an answer of DHCPv6.
func (p *port) send6(a *answer6) error {
	cm := &ipv6.ControlMessage{IfIndex: p.iface.Index}
	if a.from.IsValid() {
		cm.Src = a.from.AsSlice()
	}
	_, err := p.out6.WriteTo(a.packet.ToBytes(), cm, net.UDPAddrFromAddrPort(a.to))
	return err
}

// send sends an answer.
func (p *port) send(a *answer) error {
	payload := a.msg.ToBytes()
	if a.to.addr.IsValid() {
		if a.to.addr.Port() != serverPort && a.to.addr.Port() != clientPort {
			_, err := p.pxe.WriteToUDPAddrPort(payload, a.to.addr)
			return err
		}
		_, err := p.out.WriteTo(payload, &ipv4.ControlMessage{Src: a.from.AsSlice(), IfIndex: p.iface.Index}, net.UDPAddrFromAddrPort(a.to.addr))
		return err
	}
	mac, dst := a.to.mac, a.to.given
	if a.to.broadcast {
		mac, dst = broadcast, broadcastAddr
	}
	_, err := p.raw.Write(frame(mac, p.iface.HardwareAddr, netip.AddrPortFrom(a.from, serverPort), netip.AddrPortFrom(dst, clientPort), payload))
	return err
}

// inUse reports whether a host uses an address: by ARP or neighbour discovery in the interface's own network, by an
// echo request behind a relay.
func (p *port) inUse(ctx context.Context, n *network, a netip.Addr, within time.Duration) bool {
	if n.relay.IsValid() {
		return echoes(a, within)
	}
	return p.neighbours.wait(ctx, a, within, func() error {
		if a.Is4() {
			return p.write(arpQuestion(p.iface.HardwareAddr, a))
		}
		question, err := neighbourQuestion(p.iface.HardwareAddr, p.local, a)
		if err != nil {
			return err
		}
		return p.write(question)
	})
}

// echoes reports whether a host answers an echo request.
func echoes(a netip.Addr, within time.Duration) bool {
	network, any, protocol := "ip4:icmp", "0.0.0.0", 1
	var question, answer icmp.Type = ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply
	if a.Is6() {
		network, any, protocol = "ip6:ipv6-icmp", "::", protocolICMPv6
		question, answer = ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
	}
	c, err := icmp.ListenPacket(network, any)
	if err != nil {
		return false
	}
	defer c.Close()
	last := a.As16()
	b, err := (&icmp.Message{Type: question, Body: &icmp.Echo{ID: os.Getpid() & 0xffff, Seq: int(last[14])<<8 | int(last[15])}}).Marshal(nil)
	if err != nil {
		return false
	}
	if _, err := c.WriteTo(b, &net.IPAddr{IP: a.AsSlice()}); err != nil {
		return false
	}
	c.SetReadDeadline(time.Now().Add(within))
	buf := make([]byte, 1500)
	for {
		size, from, err := c.ReadFrom(buf)
		if err != nil {
			return false
		}
		m, err := icmp.ParseMessage(protocol, buf[:size])
		ip, ok := from.(*net.IPAddr)
		if err == nil && ok && m.Type == answer && ip.IP.Equal(net.IP(a.AsSlice())) {
			return true
		}
	}
}
