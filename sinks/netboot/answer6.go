package netboot

import (
	"bytes"
	"context"
	"encoding/hex"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
)

// answer6 is the answer to a message of DHCPv6.
type answer6 struct {
	// packet is a message, wrapped for the relays on the way.
	packet dhcpv6.DHCPv6
	to     netip.AddrPort
	// from is this host's source address of the answer; invalid for the one on the link.
	from netip.Addr
}

// inquiry6 is a message with everything known about it.
type inquiry6 struct {
	*request6
	asker
	id     identity
	client firmware
	server dhcpv6.DUID // this one's
}

// answer6 is the answer to a message of DHCPv6; nil for none. It returns after what it promises has been recorded.
func (r *responder) answer6(ctx context.Context, req *request6, from netip.AddrPort, now time.Time) *answer6 {
	at := r.pick6(req, from.Addr())
	if at == nil {
		return nil
	}
	n := at.network()
	if n == nil || at.whyNot(now) != "" {
		return nil
	}
	q := &inquiry6{request6: req, asker: asker{at: at, n: n, now: now}, id: identityOf(req, from.Addr()), client: firmware6Of(req), server: r.duid}
	q.mac, q.host, q.designed = q.id.in(n, req)
	if !q.knows() {
		return nil
	}
	msg := r.serve6(ctx, q)
	if msg == nil {
		return nil
	}
	a := &answer6{packet: msg, to: netip.AddrPortFrom(from.Addr(), clientPort6)}
	for i := len(req.relays) - 1; i >= 0; i-- {
		relay := req.relays[i]
		back := &dhcpv6.RelayMessage{MessageType: dhcpv6.MessageTypeRelayReply, HopCount: relay.HopCount, LinkAddr: relay.LinkAddr, PeerAddr: relay.PeerAddr}
		for _, code := range []dhcpv6.OptionCode{dhcpv6.OptionInterfaceID, dhcpv6.OptionRelayPort} {
			if o := relay.GetOneOption(code); o != nil {
				back.AddOption(o)
			}
		}
		back.AddOption(dhcpv6.OptRelayMessage(a.packet))
		a.packet = back
	}
	if len(req.relays) > 0 {
		// To the relay of the design, whoever sent the message: anyone anywhere could.
		a.from, a.to = n.server, netip.AddrPortFrom(n.relay, serverPort6)
		if req.relays[0].Options.RelayPort() != nil {
			a.to = netip.AddrPortFrom(n.relay, from.Port()) // RFC 8357, section 5.2
		}
	}
	return a
}

// pick6 finds the network of a message: that of the designed relay which sends it (RFC 8415, section 13.1), or the
// interface's own.
func (r *responder) pick6(req *request6, from netip.Addr) *served {
	link, one := req.link()
	if !one {
		return nil
	}
	for _, s := range r.networks {
		n := s.network()
		switch {
		case n == nil || !n.is6() || n.relay != link:
		case len(req.relays) > 0 || from.IsLinkLocalUnicast() || n.prefix.Contains(from):
			return s
		}
	}
	return nil
}

// serve6 answers as the DHCPv6 server of a network (RFC 8415, section 18.3).
func (r *responder) serve6(ctx context.Context, q *inquiry6) *dhcpv6.Message {
	named := q.Options.ServerID()
	isOurs := named != nil && bytes.Equal(named.ToBytes(), q.server.ToBytes())
	switch q.MessageType {
	case dhcpv6.MessageTypeSolicit, dhcpv6.MessageTypeConfirm, dhcpv6.MessageTypeRebind:
		if named != nil {
			return nil // section 16
		}
	case dhcpv6.MessageTypeInformationRequest:
		if named != nil && !isOurs || q.ia() != nil {
			return nil
		}
	default:
		if named == nil {
			return nil
		}
		if !isOurs {
			r.chosen6(q, named)
			return nil
		}
	}
	switch q.MessageType {
	case dhcpv6.MessageTypeSolicit:
		return r.solicit(ctx, q)
	case dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRebind:
		return r.assign(ctx, q)
	case dhcpv6.MessageTypeConfirm:
		return q.confirm()
	case dhcpv6.MessageTypeRelease:
		return r.giveBack(ctx, q, r.released)
	case dhcpv6.MessageTypeDecline:
		return r.giveBack(ctx, q, r.declined)
	}
	return r.putWords6(q, r.putBoot6(q, q.reply6(dhcpv6.MessageTypeReply)))
}

// chosen6 notes that a client has chosen another server.
func (r *responder) chosen6(q *inquiry6, server dhcpv6.DUID) {
	if q.MessageType != dhcpv6.MessageTypeRequest {
		return // the client may have had its address long before
	}
	name := hex.EncodeToString(server.ToBytes())
	name = "the one with the DUID " + name[:min(len(name), 2*32)]
	if q.at.foreignNamed(name, q.now) {
		r.log.Warn("a dhcp client has taken another server's offer", "network", q.n.name, "server", name, "mac", q.mac)
	}
	q.takeBack()
}

// solicit offers an address, or assigns one at once to a client that asks for that (section 18.3.1).
func (r *responder) solicit(ctx context.Context, q *inquiry6) *dhcpv6.Message {
	if q.GetOneOption(dhcpv6.OptionRapidCommit) != nil {
		msg := r.assign(ctx, q)
		if msg != nil {
			msg.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit})
		}
		return msg
	}
	msg := q.reply6(dhcpv6.MessageTypeAdvertise)
	// There is no other server whose offer the client should wait for (section 21.8).
	msg.AddOption(dhcpv6.OptPreference(255))
	if q.ia() != nil {
		q.put6(msg, r.offer(ctx, &q.asker, first(q.asked())), nil)
	}
	return r.putBoot6(q, msg)
}

// assign assigns an address, or extends its lease (sections 18.3.2, 18.3.4 and 18.3.5). It is nil if nothing may be
// confirmed, or if another server may have assigned the address.
func (r *responder) assign(ctx context.Context, q *inquiry6) *dhcpv6.Message {
	msg := q.reply6(dhcpv6.MessageTypeReply)
	if q.ia() == nil {
		q.put6(msg, netip.Addr{}, nil)
		return msg
	}
	asked := q.asked()
	if q.MessageType == dhcpv6.MessageTypeRequest && slices.ContainsFunc(asked, func(a netip.Addr) bool { return !q.n.prefix.Contains(a) }) {
		q.putStatus(msg, q.ia(), iana.StatusNotOnLink)
		return msg
	}
	var a netip.Addr
	begins := q.MessageType == dhcpv6.MessageTypeSolicit || q.MessageType == dhcpv6.MessageTypeRequest
	isCertain := len(asked) == 0 || q.MessageType != dhcpv6.MessageTypeRebind
	for _, one := range asked {
		right, certain := q.right(one, begins)
		if right {
			a = one
			break
		}
		isCertain = isCertain || certain
	}
	if !a.IsValid() {
		if !isCertain {
			return nil
		}
		a = r.offer(ctx, &q.asker, first(asked))
	}
	if a.IsValid() {
		held, err := r.record(ctx, &q.asker, a)
		if err != nil {
			return nil
		}
		if !held {
			a = netip.Addr{}
		}
	}
	q.put6(msg, a, asked)
	return r.putBoot6(q, msg)
}

// confirm says whether a client's addresses are of its link (section 18.3.3). Of one that it may not have any more it
// says that they are not, so that the client asks for another one.
func (q *inquiry6) confirm() *dhcpv6.Message {
	asked := q.asked()
	if len(asked) == 0 {
		return nil
	}
	status := iana.StatusSuccess
	for _, a := range asked {
		if right, certain := q.right(a, false); !right && certain {
			status = iana.StatusNotOnLink
		}
	}
	msg := q.reply6(dhcpv6.MessageTypeReply)
	msg.AddOption(&dhcpv6.OptStatusCode{StatusCode: status})
	return msg
}

// giveBack handles addresses that a client releases or declines (sections 18.3.7 and 18.3.8).
func (r *responder) giveBack(ctx context.Context, q *inquiry6, one func(context.Context, *asker, netip.Addr) bool) *dhcpv6.Message {
	msg := q.reply6(dhcpv6.MessageTypeReply)
	msg.AddOption(&dhcpv6.OptStatusCode{StatusCode: iana.StatusSuccess})
	had := false
	for _, a := range q.asked() {
		had = one(ctx, &q.asker, a) || had
	}
	if ia := q.ia(); ia != nil && !had {
		q.putStatus(msg, ia, iana.StatusNoBinding)
	}
	return msg
}

func first(all []netip.Addr) netip.Addr {
	if len(all) == 0 {
		return netip.Addr{}
	}
	return all[0]
}
