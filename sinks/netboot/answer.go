package netboot

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv6"

	"github.com/slipway-gitops/slipway/engine/site"
)

// These are the ports of DHCP (RFC 2131, section 4.1) and of the PXE boot server (PXE 2.1, section 2.2.3).
const (
	serverPort = 67
	clientPort = 68
	pxePort    = 4011
)

// to is the destination of an answer.
type to struct {
	// addr is a relay, or a client with an address. It is invalid for a client without one, which is reached by mac
	// and given, or by broadcast.
	addr      netip.AddrPort
	mac       net.HardwareAddr
	given     netip.Addr
	broadcast bool
}

// answer is the answer to a request.
type answer struct {
	msg *dhcpv4.DHCPv4
	to  to
	// from is this host's source address of the answer.
	from netip.Addr
}

// responder answers requests from one interface. It has no sockets.
type responder struct {
	networks []*served
	duid     dhcpv6.DUID // of this server
	arms     *arms
	records  Leases
	// inUse reports whether a host already uses an address of a network.
	inUse func(ctx context.Context, n *network, a netip.Addr) bool
	log   *slog.Logger
}

// requestOf parses a request. The error says what is wrong with a packet. Nothing of an invalid packet is kept.
func requestOf(packet []byte) (*dhcpv4.DHCPv4, error) {
	if len(packet) > maxPacket {
		return nil, fmt.Errorf("%d bytes are too many", len(packet))
	}
	req, err := dhcpv4.FromBytes(packet)
	switch {
	case err != nil:
		return nil, err
	case req.OpCode != dhcpv4.OpcodeBootRequest:
		return nil, fmt.Errorf("it is not a request")
	case len(req.Options[uint8(dhcpv4.OptionDHCPMessageType)]) != 1:
		return nil, fmt.Errorf("it is BOOTP, without a DHCP message type")
	case len(req.ClientHWAddr) != 6 || req.ClientHWAddr[0]&1 != 0 || string(req.ClientHWAddr) == "\x00\x00\x00\x00\x00\x00":
		return nil, fmt.Errorf("it has no MAC address of a host")
	}
	return req, nil
}

// maxPacket is the largest request, in bytes: the payload of an Ethernet frame.
const maxPacket = 1500

// inquiry is a request with everything known about it.
type inquiry struct {
	*dhcpv4.DHCPv4
	asker
	client firmware
}

// identity is what the client is known by.
func (q *inquiry) identity() identity { return identity{mac: q.mac, uuid: q.client.uuid} }

// answer is the answer to a request; nil for none. It returns after what it promises has been recorded.
func (r *responder) answer(ctx context.Context, req *dhcpv4.DHCPv4, from netip.AddrPort, port int, now time.Time) *answer {
	source := from.Addr().Unmap()
	if source.IsUnspecified() {
		source = netip.Addr{}
	}
	at := r.pick(req, source)
	if at == nil {
		return nil
	}
	n := at.network()
	if n == nil || at.whyNot(now) != "" {
		return nil
	}
	q := &inquiry{DHCPv4: req, asker: asker{at: at, n: n, mac: req.ClientHWAddr.String(), now: now}, client: firmwareOf(req)}
	q.host, q.designed = n.hosts[q.mac]
	var msg *dhcpv4.DHCPv4
	switch {
	case n.mode == site.DHCPProxy:
		msg = r.proxy(q, port)
	case port != serverPort:
		return nil
	default:
		msg = r.serve(ctx, q)
	}
	if msg == nil {
		return nil
	}
	return &answer{msg, destination(q, msg, from, port), n.server}
}

// pick finds the network of a request: the relay's (RFC 2131, section 4.3.1), that of the client's current address,
// or the interface's own.
func (r *responder) pick(req *dhcpv4.DHCPv4, from netip.Addr) *served {
	relay, has := ip4(req.GatewayIPAddr), ip4(req.ClientIPAddr)
	var local *served
	for _, s := range r.networks {
		n := s.network()
		if n == nil || n.is6() {
			continue
		}
		if relay.IsValid() {
			if n.relay == relay && inLink(req, n) {
				return s
			}
			continue
		}
		if has.IsValid() && n.prefix.Contains(has) && (!from.IsValid() || n.prefix.Contains(from)) {
			return s
		}
		if !n.relay.IsValid() {
			local = s
		}
	}
	if relay.IsValid() || local == nil {
		return nil
	}
	// Ignore a request that was not relayed and comes from outside the network.
	if n := local.network(); n == nil || from.IsValid() && !n.prefix.Contains(from) {
		return nil
	}
	return local
}

// inLink reports whether a relayed request is for a network. A relay may name a network other than its own (RFC
// 3527).
func inLink(req *dhcpv4.DHCPv4, n *network) bool {
	info := req.RelayAgentInfo()
	if info == nil {
		return true
	}
	link := info.Get(dhcpv4.LinkSelectionSubOption)
	if link == nil {
		return true
	}
	a, ok := netip.AddrFromSlice(link)
	return ok && n.prefix.Contains(a)
}

// ip4 is an address of a packet; invalid for 0.0.0.0.
func ip4(ip net.IP) netip.Addr {
	a, ok := netip.AddrFromSlice(ip.To4())
	if !ok || a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

// destination is the destination of an answer (RFC 2131, section 4.1).
func destination(q *inquiry, msg *dhcpv4.DHCPv4, from netip.AddrPort, port int) to {
	relay, has := ip4(q.GatewayIPAddr), ip4(q.ClientIPAddr)
	nak := msg.MessageType() == dhcpv4.MessageTypeNak
	switch {
	case port == pxePort:
		return to{addr: netip.AddrPortFrom(from.Addr().Unmap(), from.Port())}
	case relay.IsValid():
		if nak {
			msg.SetBroadcast() // section 4.3.2
		}
		return to{addr: netip.AddrPortFrom(relay, serverPort)}
	case nak:
		return to{broadcast: true}
	case has.IsValid() && q.n.prefix.Contains(has):
		return to{addr: netip.AddrPortFrom(has, clientPort)}
	case q.IsBroadcast() || !ip4(msg.YourIPAddr).IsValid():
		return to{broadcast: true}
	}
	return to{mac: q.ClientHWAddr, given: ip4(msg.YourIPAddr)}
}

// serve answers as the DHCP server of a network.
func (r *responder) serve(ctx context.Context, q *inquiry) *dhcpv4.DHCPv4 {
	switch q.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		return r.discover(ctx, q)
	case dhcpv4.MessageTypeRequest:
		return r.request(ctx, q)
	case dhcpv4.MessageTypeDecline:
		r.decline(ctx, q)
	case dhcpv4.MessageTypeRelease:
		r.release(ctx, q)
	case dhcpv4.MessageTypeInform:
		if has := ip4(q.ClientIPAddr); q.knows() && q.n.prefix.Contains(has) {
			msg := q.reply(dhcpv4.MessageTypeAck, netip.Addr{}, r.arms)
			if msg != nil {
				q.putWords(msg, r.arms)
			}
			return msg
		}
	}
	return nil
}

// discover offers an address.
func (r *responder) discover(ctx context.Context, q *inquiry) *dhcpv4.DHCPv4 {
	if a := r.offer(ctx, &q.asker, ip4(q.RequestedIPAddress())); a.IsValid() {
		return q.reply(dhcpv4.MessageTypeOffer, a, r.arms)
	}
	return nil
}

// request confirms or refuses an address (RFC 2131, section 4.3.2).
func (r *responder) request(ctx context.Context, q *inquiry) *dhcpv4.DHCPv4 {
	server, asked, has := ip4(q.ServerIdentifier()), ip4(q.RequestedIPAddress()), ip4(q.ClientIPAddr)
	if server.IsValid() && !slices.Contains(q.n.own, server) {
		if q.at.foreign(server, q.now) {
			r.log.Warn("a dhcp client has taken another server's offer", "network", q.n.name, "server", server.String(), "mac", q.mac)
		}
		q.takeBack()
		return nil
	}
	want := asked
	if !want.IsValid() {
		want = has
	}
	if !want.IsValid() || !q.knows() {
		return nil
	}
	switch right, certain := q.right(want, server.IsValid()); {
	case right:
		return r.lease(ctx, q, want)
	case certain:
		return q.refuse()
	}
	return nil // possibly another server's client
}

// lease records an address as the client's before confirming it.
func (r *responder) lease(ctx context.Context, q *inquiry, a netip.Addr) *dhcpv4.DHCPv4 {
	switch held, err := r.record(ctx, &q.asker, a); {
	case err != nil:
		return nil
	case !held:
		return q.refuse()
	}
	return q.reply(dhcpv4.MessageTypeAck, a, r.arms)
}

// decline handles a client's report that somebody else uses its address (RFC 2131, section 4.3.3).
func (r *responder) decline(ctx context.Context, q *inquiry) {
	if ip4(q.ServerIdentifier()) == q.n.server {
		r.declined(ctx, &q.asker, ip4(q.RequestedIPAddress()))
	}
}

// release ends the lease of a client (RFC 2131, section 4.3.4).
func (r *responder) release(ctx context.Context, q *inquiry) {
	if ip4(q.ServerIdentifier()) == q.n.server {
		r.released(ctx, &q.asker, ip4(q.ClientIPAddr))
	}
}
