package netboot

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/insomniacslk/dhcp/rfc1035label"
)

// reply6 is an answer with the network's settings from the design, without an address. The prefix and the routers
// are not in DHCPv6: routers announce them.
func (q *inquiry6) reply6(kind dhcpv6.MessageType) *dhcpv6.Message {
	msg := &dhcpv6.Message{MessageType: kind, TransactionID: q.TransactionID}
	msg.AddOption(dhcpv6.OptServerID(q.server))
	if id := q.GetOneOption(dhcpv6.OptionClientID); id != nil {
		msg.AddOption(id)
	}
	if len(q.n.dns) > 0 {
		var servers []net.IP
		for _, a := range q.n.dns {
			servers = append(servers, a.AsSlice())
		}
		msg.AddOption(dhcpv6.OptDNS(servers...))
	}
	if q.n.domain != "" {
		msg.AddOption(dhcpv6.OptDomainSearchList(&rfc1035label.Labels{Labels: []string{q.n.domain}}))
	}
	return msg
}

// put6 adds an address to an answer, and says of the client's other addresses that they have ended, even if there is
// none to renew them with (RFC 8415, sections 18.3.4 and 18.3.5). What the client asks for beside that it does not get.
func (q *inquiry6) put6(msg *dhcpv6.Message, a netip.Addr, had []netip.Addr) {
	ends := len(had) > 0 && (q.MessageType == dhcpv6.MessageTypeRenew || q.MessageType == dhcpv6.MessageTypeRebind)
	for i, ia := range q.Options.IANA() {
		if i > 0 || !a.IsValid() && !ends {
			q.putStatus(msg, ia, iana.StatusNoAddrsAvail)
			continue
		}
		back := &dhcpv6.OptIANA{IaId: ia.IaId}
		put := func(a netip.Addr, lasts time.Duration) {
			back.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: a.AsSlice(), PreferredLifetime: lasts, ValidLifetime: lasts})
		}
		if a.IsValid() {
			back.T1, back.T2 = leaseFor/2, leaseFor*7/8
			put(a, leaseFor)
		}
		for _, old := range had {
			if old != a {
				put(old, 0)
			}
		}
		msg.AddOption(back)
	}
	for _, ia := range q.Options.IATA() {
		back := &dhcpv6.OptIATA{IaId: ia.IaId}
		back.Options.Add(&dhcpv6.OptStatusCode{StatusCode: iana.StatusNoAddrsAvail})
		msg.AddOption(back)
	}
	for _, ia := range q.Options.IAPD() {
		back := &dhcpv6.OptIAPD{IaId: ia.IaId}
		back.Options.Add(&dhcpv6.OptStatusCode{StatusCode: iana.StatusNoPrefixAvail})
		msg.AddOption(back)
	}
}

// putStatus says of an identity association why it has no address.
func (q *inquiry6) putStatus(msg *dhcpv6.Message, ia *dhcpv6.OptIANA, status iana.StatusCode) {
	back := &dhcpv6.OptIANA{IaId: ia.IaId}
	back.Options.Add(&dhcpv6.OptStatusCode{StatusCode: status})
	msg.AddOption(back)
}

// intel is the enterprise number with which firmware sends its vendor class (UEFI 2.10, section 24.7.2).
const intel = 343

// putBoot6 adds an armed machine's boot, in the form that its firmware expects (RFC 5970). It adds nothing for
// others, and firmware then goes on to the next entry of its boot order.
func (r *responder) putBoot6(q *inquiry6, msg *dhcpv6.Message) *dhcpv6.Message {
	if !q.client.boots() {
		return msg
	}
	it := r.arms.of(q.id, q.now)
	if it == nil || q.client.kind == IPXE && it.Files[IPXE] == "" {
		return msg
	}
	path := it.path(q.client.kind)
	switch {
	case q.client.http && (it.URL != "" || path != ""):
		// Without the class in the answer, the offer is not one of HTTP boot (UEFI 2.10, section 24.7.3.3).
		msg.AddOption(&dhcpv6.OptVendorClass{EnterpriseNumber: intel, Data: [][]byte{[]byte("HTTPClient")}})
		msg.AddOption(dhcpv6.OptBootFileURL(it.url(q.n.server, path)))
	case q.client.pxe && path != "":
		msg.AddOption(dhcpv6.OptBootFileURL(fmt.Sprintf("tftp://[%s]/%s", q.n.server, path)))
	}
	return msg
}

// putWords6 tells an agent that was booted over the network where its daemon is, as parameters of the file that it
// was started from (RFC 5970, section 3.2). It adds nothing for others.
func (r *responder) putWords6(q *inquiry6, msg *dhcpv6.Message) *dhcpv6.Message {
	if !q.client.agent {
		return msg
	}
	if it := r.arms.meant(q.id, q.now); it != nil && it.Words != "" {
		msg.AddOption(dhcpv6.OptBootFileParam(it.Words))
	}
	return msg
}
