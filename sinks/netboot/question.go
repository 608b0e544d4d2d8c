package netboot

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// question is a packet that may be answered.
type question struct {
	client string // who asks
	// answer decides, and returns what sends the answer; nil for none.
	answer func(context.Context) func() error
}

// receiver receives a packet: its size, its sender, and the address that it was sent to, invalid if that is unknown.
type receiver func([]byte) (n int, from netip.AddrPort, to netip.Addr, err error)

// receive receives packets, wherever they were sent to.
func receive(conn *net.UDPConn) receiver {
	return func(b []byte) (int, netip.AddrPort, netip.Addr, error) {
		n, from, err := conn.ReadFromUDPAddrPort(b)
		return n, from, netip.Addr{}, err
	}
}

// parser reads a received packet. The error says why it is ignored.
type parser func(packet []byte, from netip.AddrPort, to netip.Addr) (question, error)

// parse reads requests of DHCPv4 to a port.
func (r *responder) parse(send func(*answer) error, number int) parser {
	return func(packet []byte, from netip.AddrPort, _ netip.Addr) (question, error) {
		req, err := requestOf(packet)
		if err != nil {
			return question{}, err
		}
		return question{req.ClientHWAddr.String(), func(ctx context.Context) func() error {
			a := r.answer(ctx, req, from, number, time.Now())
			if a == nil {
				return nil
			}
			return func() error { return send(a) }
		}}, nil
	}
}

// parse6 reads messages of DHCPv6. Those of clients come to the servers of the link, and no router forwards them (RFC
// 8415, sections 16 and 18.4).
func (r *responder) parse6(send func(*answer6) error) parser {
	return func(packet []byte, from netip.AddrPort, to netip.Addr) (question, error) {
		req, err := request6Of(packet)
		if err != nil {
			return question{}, err
		}
		if len(req.relays) == 0 && to != allServersOnLink {
			return question{}, fmt.Errorf("a client has sent it to %s, not to %s", to, allServersOnLink)
		}
		return question{req.from(from.Addr()).String(), func(ctx context.Context) func() error {
			a := r.answer6(ctx, req, from, time.Now())
			if a == nil {
				return nil
			}
			return func() error { return send(a) }
		}}, nil
	}
}
