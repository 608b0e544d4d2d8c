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
	at   *served
	n    *network
	mac  string
	host host
	// designed says that the design has the client in this network.
	designed bool
	client   firmware
	now      time.Time
}

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
	q := &inquiry{DHCPv4: req, at: at, n: n, mac: req.ClientHWAddr.String(), now: now, client: firmwareOf(req)}
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
		if n == nil {
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

// knows reports whether the server serves a client. A network without a dynamic range only serves designed nodes.
func (q *inquiry) knows() bool { return q.designed || len(q.n.pool) > 0 }

// discover offers an address.
func (r *responder) discover(ctx context.Context, q *inquiry) *dhcpv4.DHCPv4 {
	if !q.knows() {
		return nil
	}
	b := q.at.book
	if q.host.addr.IsValid() {
		if !b.hold(q.host.addr, entry{mac: q.mac, node: q.host.node, until: q.now.Add(offerFor)}, q.now) {
			q.at.trouble("conflict", fmt.Sprintf("%s is not given its address %s: another client has it until its lease ends", q.host.node, q.host.addr), q.now)
			return nil
		}
		return q.reply(dhcpv4.MessageTypeOffer, q.host.addr, r.arms)
	}
	if len(q.n.pool) == 0 {
		q.at.trouble("no range", fmt.Sprintf(`%s is designed with "dhcp" and gets no address: the network has no range with use: "dhcp"`, q.host.node), q.now)
		return nil
	}
	for range 4 {
		a, known, err := b.choose(q.n, q.mac, ip4(q.RequestedIPAddress()), q.now)
		if err != nil {
			q.at.trouble("exhausted", fmt.Sprintf("all %d dynamic addresses are in use: widen the range, or wait for leases of %s to end", q.n.pool.size(), leaseFor), q.now)
			return nil
		}
		if !b.hold(a, entry{mac: q.mac, node: q.host.node, until: q.now.Add(offerFor)}, q.now) {
			continue // another client was faster
		}
		if !known && !q.designed && !q.at.newcomers.AllowN(q.now, 1) {
			q.at.book.release(a, q.now)
			return nil // somebody is inventing clients
		}
		if !known && r.inUse(ctx, q.n, a) {
			r.setAside(ctx, q, a, "somebody answers there who did not get it here")
			continue
		}
		q.at.over("exhausted")
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
		if a, ok := q.at.book.last(q.mac); ok {
			if e := q.at.book.holder(a, q.now); e != nil && !e.leased {
				q.at.book.release(a, q.now)
			}
		}
		return nil
	}
	want := asked
	if !want.IsValid() {
		want = has
	}
	if !want.IsValid() || !q.knows() {
		return nil
	}
	switch right, certain := q.right(want); {
	case right:
		return r.lease(ctx, q, want)
	case certain:
		return q.refuse()
	}
	return nil // possibly another server's client
}

// right reports whether a client may have an address. If the server does not know the client and is not certain, it
// stays silent (RFC 2131, section 4.3.2).
func (q *inquiry) right(want netip.Addr) (right, certain bool) {
	b := q.at.book
	if q.host.addr.IsValid() {
		e := b.holder(want, q.now)
		return want == q.host.addr && (e == nil || e.is(q.mac, q.host.node)), true
	}
	if !q.n.prefix.Contains(want) || q.n.closed[want] || q.n.owner[want] != "" {
		return false, true
	}
	if e := b.holder(want, q.now); e != nil {
		return e.is(q.mac, q.host.node), true
	}
	if last, ok := b.last(q.mac); ok {
		return last == want && q.n.pool.has(want), true
	}
	// Nobody has the address here: the records were lost, or another server assigned it.
	return q.n.pool.has(want) && ip4(q.ServerIdentifier()) == netip.Addr{}, false
}

// lease records an address as the client's before confirming it.
func (r *responder) lease(ctx context.Context, q *inquiry, a netip.Addr) *dhcpv4.DHCPv4 {
	e := entry{mac: q.mac, node: q.host.node, until: q.now.Add(leaseFor), leased: true}
	if !q.at.book.hold(a, e, q.now) {
		return q.refuse()
	}
	err := r.records.PutLease(ctx, site.Lease{Network: q.n.name, Address: a.String(), MAC: q.mac, Node: q.host.node, Expires: e.until.UTC().Truncate(time.Second)})
	if err != nil {
		q.at.trouble("records", fmt.Sprintf("leases cannot be recorded, so none are given: %v", err), q.now)
		return nil
	}
	q.at.over("records")
	r.log.Debug("dhcp lease", "network", q.n.name, "address", a.String(), "mac", q.mac, "node", q.host.node)
	return q.reply(dhcpv4.MessageTypeAck, a, r.arms)
}

// decline handles a client's report that somebody else uses its address (RFC 2131, section 4.3.3).
func (r *responder) decline(ctx context.Context, q *inquiry) {
	a := ip4(q.RequestedIPAddress())
	e := q.at.book.holder(a, q.now)
	if ip4(q.ServerIdentifier()) != q.n.server || e == nil || !e.is(q.mac, q.host.node) {
		return
	}
	if q.host.addr == a {
		q.at.trouble("declined", fmt.Sprintf("%s declined its designed address %s: another machine answers there; find it, and give it another address", q.host.node, a), q.now)
		q.at.book.release(a, q.now)
		return
	}
	if !q.at.declines.AllowN(q.now, 1) {
		return // so that a client cannot empty the range this way
	}
	r.setAside(ctx, q, a, "a client found it in use")
}

// setAside stops assigning an address for a while.
func (r *responder) setAside(ctx context.Context, q *inquiry, a netip.Addr, why string) {
	q.at.book.taken(a, q.now)
	r.log.Warn("dhcp address is in use by a host that did not get it here", "network", q.n.name, "address", a.String(), "why", why)
	err := r.records.PutLease(ctx, site.Lease{Network: q.n.name, Address: a.String(), Expires: q.now.Add(declinedFor).UTC().Truncate(time.Second)})
	if err != nil {
		r.log.Warn("dhcp address set aside is not recorded", "network", q.n.name, "address", a.String(), "err", err)
	}
}

// release ends the lease of a client (RFC 2131, section 4.3.4).
func (r *responder) release(ctx context.Context, q *inquiry) {
	a := ip4(q.ClientIPAddr)
	e := q.at.book.holder(a, q.now)
	if ip4(q.ServerIdentifier()) != q.n.server || e == nil || !e.leased || !e.is(q.mac, q.host.node) {
		return
	}
	q.at.book.release(a, q.now)
	err := r.records.PutLease(ctx, site.Lease{Network: q.n.name, Address: a.String(), MAC: q.mac, Node: q.host.node, Expires: q.now.UTC().Truncate(time.Second)})
	if err != nil {
		r.log.Warn("dhcp release is not recorded", "network", q.n.name, "address", a.String(), "err", err)
	}
}
