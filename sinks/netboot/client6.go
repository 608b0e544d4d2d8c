package netboot

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
)

// These are the ports of DHCPv6 (RFC 8415, section 7.2).
const (
	serverPort6 = 547
	clientPort6 = 546
)

// These are the bounds on a message of DHCPv6.
const (
	maxHops = 8 // HOP_COUNT_LIMIT (RFC 8415, section 7.6)
	maxDUID = 130
	minDUID = 3
)

// request6 is a client's message, with the relays that passed it on, the outermost first.
type request6 struct {
	*dhcpv6.Message
	relays []*dhcpv6.RelayMessage
	// duid is the client's identifier; empty if it sends none.
	duid []byte
}

// request6Of parses a message of a client or a relay. The error says what is wrong with a packet.
func request6Of(packet []byte) (*request6, error) {
	if len(packet) > maxPacket {
		return nil, fmt.Errorf("%d bytes are too many", len(packet))
	}
	m, err := dhcpv6.FromBytes(packet)
	if err != nil {
		return nil, err
	}
	req := &request6{}
	for m.IsRelay() {
		relay, ok := m.(*dhcpv6.RelayMessage)
		if !ok || relay.MessageType != dhcpv6.MessageTypeRelayForward || relay.Options.RelayMessage() == nil {
			return nil, fmt.Errorf("it is a relay's, and has no client's message")
		}
		if req.relays = append(req.relays, relay); len(req.relays) > maxHops {
			return nil, fmt.Errorf("more than %d relays have passed it on", maxHops)
		}
		m = relay.Options.RelayMessage()
	}
	msg, ok := m.(*dhcpv6.Message)
	if !ok {
		return nil, fmt.Errorf("it is not a message")
	}
	req.Message = msg
	switch msg.MessageType {
	case dhcpv6.MessageTypeSolicit, dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeConfirm, dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRebind,
		dhcpv6.MessageTypeRelease, dhcpv6.MessageTypeDecline, dhcpv6.MessageTypeInformationRequest:
	default:
		return nil, fmt.Errorf("it is not a client's message")
	}
	if id := msg.Options.ClientID(); id != nil {
		req.duid = id.ToBytes()
	} else if msg.MessageType != dhcpv6.MessageTypeInformationRequest {
		return nil, fmt.Errorf("it has no client identifier")
	}
	if n := len(req.duid); n != 0 && n < minDUID || n > maxDUID {
		return nil, fmt.Errorf("its client identifier has %d bytes", n)
	}
	return req, nil
}

// link is the address of the client's link, which its relays name. It is invalid, and one is true, for a message that
// no relay has passed on. one is false if they do not name one link: the outermost must name it, and switches on the
// way may name none (RFC 6221).
func (r *request6) link() (link netip.Addr, one bool) {
	for i, relay := range r.relays {
		a := ip6(relay.LinkAddr)
		if i == 0 {
			link = a
		}
		if !link.IsValid() || a.IsValid() && a != link {
			return link, false
		}
	}
	return link, true
}

// from is the client's own address on its link.
func (r *request6) from(source netip.Addr) netip.Addr {
	if len(r.relays) > 0 {
		return ip6(r.relays[len(r.relays)-1].PeerAddr)
	}
	return source.WithZone("")
}

// ia is the identity association that gets an address; nil if there is none. The others get none: a machine has one
// address in a network.
func (r *request6) ia() *dhcpv6.OptIANA { return r.Options.OneIANA() }

// asked are the different addresses of a client's identity association, up to a bound.
func (r *request6) asked() []netip.Addr {
	var all []netip.Addr
	if ia := r.ia(); ia != nil {
		for _, one := range ia.Options.Addresses() {
			if a := ip6(one.IPv6Addr); a.IsValid() && len(all) < 8 && !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all
}

// identity is what a client is known by.
type identity struct {
	mac string // empty if unknown
	// byDUID says that the MAC address is the one in the client's DUID, which all ports of a machine have in common.
	byDUID bool
	// uuid is the machine's, from SMBIOS, if the client says it; empty otherwise.
	uuid string
}

// identityOf reads who a client is: by the relay that heard it (RFC 6939), else by its own address on the link (RFC
// 4291, appendix A), else by its DUID (RFC 8415, sections 11.2 and 11.4; RFC 6355). A DUID comes last, because it is the
// same at all ports of a machine.
func identityOf(r *request6, source netip.Addr) identity {
	var id identity
	add := func(mac []byte) {
		if id.mac == "" && len(mac) == 6 && mac[0]&1 == 0 && string(mac) != "\x00\x00\x00\x00\x00\x00" {
			id.mac = net.HardwareAddr(mac).String()
		}
	}
	if len(r.relays) > 0 {
		if kind, mac := r.relays[len(r.relays)-1].Options.ClientLinkLayerAddress(); kind == iana.HWTypeEthernet {
			add(mac)
		}
	}
	add(macOf(r.from(source)))
	id.byDUID = id.mac == ""
	switch d := r.Options.ClientID().(type) {
	case *dhcpv6.DUIDLL:
		if d.HWType == iana.HWTypeEthernet {
			add(d.LinkLayerAddr)
		}
	case *dhcpv6.DUIDLLT:
		if d.HWType == iana.HWTypeEthernet {
			add(d.LinkLayerAddr)
		}
	case *dhcpv6.DUIDUUID:
		id.uuid = uuidOf(d.UUID) // firmware sends the bytes of SMBIOS, and both orders are compared
	}
	return id
}

// macOf is the MAC address that a link-local address was made of; nil if it was made in another way.
func macOf(a netip.Addr) []byte {
	b := a.As16()
	if !a.Is6() || !a.IsLinkLocalUnicast() || b[11] != 0xff || b[12] != 0xfe {
		return nil
	}
	return []byte{b[8] ^ 2, b[9], b[10], b[13], b[14], b[15]}
}

// in finds the client in a network: its key in the book, and its designed node.
func (id identity) in(n *network, r *request6) (key string, h host, designed bool) {
	if h, designed = n.hosts[id.mac]; designed || id.mac != "" && !id.byDUID {
		return id.mac, h, designed
	}
	key = byDUID + hex.EncodeToString(r.duid)
	if ia := r.ia(); ia != nil {
		key += "/" + hex.EncodeToString(ia.IaId[:])
	}
	if id.uuid != "" {
		h, designed = n.byUUID[id.uuid]
	}
	return key, h, designed
}

// firmware6Of reads options 15, 16 and 61 of a message (RFC 5970; UEFI 2.10, section 24.7).
func firmware6Of(r *request6) firmware {
	var f firmware
	for _, class := range r.Options.VendorClasses() {
		for _, text := range class.Data {
			f.pxe = f.pxe || strings.HasPrefix(string(text), "PXEClient")
			f.http = f.http || strings.HasPrefix(string(text), "HTTPClient")
		}
	}
	users := r.Options.UserClasses()
	for _, user := range users {
		f.agent = f.agent || string(user) == agentClass
	}
	if !f.boots() {
		return f
	}
	if archs := r.Options.ArchTypes(); len(archs) > 0 {
		f.kind = kindOf(uint16(archs[0]))
	}
	for _, user := range users {
		if string(user) == "iPXE" {
			f.kind = IPXE
		}
	}
	return f
}

// ip6 is an address of a packet; invalid for :: and for addresses of IPv4.
func ip6(ip []byte) netip.Addr {
	a, ok := netip.AddrFromSlice(ip)
	if !ok || !a.Is6() || a.Is4In6() || a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}
