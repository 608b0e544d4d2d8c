package netboot

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// refuse tells a client that it may not have an address.
func (q *inquiry) refuse() *dhcpv4.DHCPv4 {
	msg, err := dhcpv4.NewReplyFromRequest(q.DHCPv4, dhcpv4.WithMessageType(dhcpv4.MessageTypeNak),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(q.n.server.AsSlice())))
	if err != nil {
		return nil
	}
	return msg
}

// reply is an offer or a confirmation, with the network's settings from the design. With an invalid address, it
// contains no address.
func (q *inquiry) reply(kind dhcpv4.MessageType, a netip.Addr, all *arms) *dhcpv4.DHCPv4 {
	msg, err := dhcpv4.NewReplyFromRequest(q.DHCPv4, dhcpv4.WithMessageType(kind))
	if err != nil {
		return nil
	}
	n := q.n
	put := func(o dhcpv4.Option) { msg.UpdateOption(o) }
	if a.IsValid() {
		msg.YourIPAddr = a.AsSlice()
		put(dhcpv4.OptIPAddressLeaseTime(leaseFor))
		put(dhcpv4.OptRenewTimeValue(leaseFor / 2))
		put(dhcpv4.OptRebindingTimeValue(leaseFor * 7 / 8))
	} else {
		msg.ClientIPAddr = q.ClientIPAddr
	}
	put(dhcpv4.OptServerIdentifier(n.server.AsSlice()))
	put(dhcpv4.OptSubnetMask(net.CIDRMask(n.prefix.Bits(), 32)))
	// Firmware needs the gateway, whatever network its system uses.
	router := n.gateway.IsValid() && (!q.designed || q.host.routed || q.client.boots())
	if router {
		put(dhcpv4.OptRouter(n.gateway.AsSlice()))
	}
	if len(n.dns) > 0 {
		var servers []net.IP
		for _, a := range n.dns {
			servers = append(servers, a.AsSlice())
		}
		put(dhcpv4.OptDNS(servers...))
	}
	if n.domain != "" {
		put(dhcpv4.OptDomainName(n.domain))
	}
	if q.designed {
		put(dhcpv4.OptHostName(q.host.node))
	}
	if n.mtu >= 68 && q.IsOptionRequested(dhcpv4.OptionInterfaceMTU) {
		put(dhcpv4.OptGeneric(dhcpv4.OptionInterfaceMTU, []byte{byte(n.mtu >> 8), byte(n.mtu)}))
	}
	q.putRoutes(msg, router)
	if it := all.of(q.identity(), q.now); it != nil {
		q.putBoot(msg, it)
	}
	return msg
}

// putRoutes adds the designed routes for clients that ask for them. Such a client ignores the router option (RFC
// 3442), so the routes include the router.
func (q *inquiry) putRoutes(msg *dhcpv4.DHCPv4, router bool) {
	if len(q.n.routes) == 0 || !q.IsOptionRequested(dhcpv4.OptionClasslessStaticRoute) {
		return
	}
	var all []*dhcpv4.Route
	add := func(to netip.Prefix, via netip.Addr) {
		all = append(all, &dhcpv4.Route{Dest: &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), 32)}, Router: via.AsSlice()})
	}
	for _, r := range q.n.routes {
		add(r.to, r.via)
	}
	if router {
		add(netip.PrefixFrom(netip.IPv4Unspecified(), 0), q.n.gateway)
	}
	if len(all) <= maxRoutes {
		msg.UpdateOption(dhcpv4.OptClasslessStaticRoute(all...))
	}
}

// maxRoutes bounds the routes of an answer, which must fit into one packet.
const maxRoutes = 28

// putBoot adds an armed machine's boot, in the form that its firmware expects. It adds nothing for firmware without
// a file.
func (q *inquiry) putBoot(msg *dhcpv4.DHCPv4, it *armed) bool {
	f, put := q.client, func(o dhcpv4.Option) { msg.UpdateOption(o) }
	kind := f.kind
	if kind == IPXE && it.Files[IPXE] == "" {
		return false // it would load itself endlessly
	}
	path := it.path(kind)
	switch {
	case f.http && (it.URL != "" || path != ""):
		// Without the class in the answer, the offer is not one of HTTP boot (UEFI 2.10, section 24.7.3.3).
		put(dhcpv4.OptClassIdentifier("HTTPClient"))
		put(dhcpv4.OptBootFileName(it.url(q.n.server, path)))
	case f.pxe && path != "":
		// With the class alone, UEFI looks for a boot server and never requests the file. Option 43 says that the
		// file is here: PXE_DISCOVERY_CONTROL, bit 3.
		put(dhcpv4.OptClassIdentifier("PXEClient"))
		put(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, []byte{6, 1, 8, 255}))
		msg.ServerIPAddr = q.n.server.AsSlice()
		msg.ServerHostName = q.n.server.String()
		msg.BootFileName = path
		put(dhcpv4.OptTFTPServerName(q.n.server.String()))
		put(dhcpv4.OptBootFileName(path))
	default:
		return false
	}
	if id := q.Options[uint8(dhcpv4.OptionClientMachineIdentifier)]; len(id) == 17 {
		put(dhcpv4.OptGeneric(dhcpv4.OptionClientMachineIdentifier, id))
	}
	return true
}

// url is the URL for HTTP boot.
func (b *armed) url(server netip.Addr, path string) string {
	if b.URL != "" {
		return b.URL
	}
	return fmt.Sprintf("http://%s/%s", netip.AddrPortFrom(server, httpPort), path)
}

// proxy adds the boot to another server's offers (PXE 2.1, section 2.2.3). It never offers an address, and ignores
// a machine that is not armed. The other server's answer then has no boot file, and the machine boots from its
// disk.
func (r *responder) proxy(q *inquiry, port int) *dhcpv4.DHCPv4 {
	if q.MessageType() == dhcpv4.MessageTypeInform && port == serverPort {
		return r.direct(q)
	}
	kind := dhcpv4.MessageTypeOffer
	switch t := q.MessageType(); {
	case t == dhcpv4.MessageTypeDiscover && port == serverPort:
	case t == dhcpv4.MessageTypeRequest && port == pxePort:
		kind = dhcpv4.MessageTypeAck
	case t == dhcpv4.MessageTypeInform && port == pxePort:
		kind = dhcpv4.MessageTypeAck
	default:
		return nil
	}
	it := r.arms.of(q.identity(), q.now)
	if it == nil {
		return nil
	}
	msg, err := dhcpv4.NewReplyFromRequest(q.DHCPv4, dhcpv4.WithMessageType(kind), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(q.n.server.AsSlice())))
	if err != nil || !q.putBoot(msg, it) {
		return nil
	}
	if port == pxePort {
		msg.ClientIPAddr = q.ClientIPAddr
	}
	return msg
}

// direct answers an agent that has its address from another server and asks where its daemon is.
func (r *responder) direct(q *inquiry) *dhcpv4.DHCPv4 {
	if !q.n.prefix.Contains(ip4(q.ClientIPAddr)) {
		return nil
	}
	msg, err := dhcpv4.NewReplyFromRequest(q.DHCPv4, dhcpv4.WithMessageType(dhcpv4.MessageTypeAck), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(q.n.server.AsSlice())))
	if err != nil || !q.putWords(msg, r.arms) {
		return nil
	}
	msg.ClientIPAddr = q.ClientIPAddr
	return msg
}

// agentClass is option 60 of Slipway's agent in the ramdisk.
const agentClass = "slipway-agent"

// putWords tells an agent that was booted over the network where its daemon is, in the vendor-specific option of
// its class (RFC 2132, section 8.4). It adds nothing for others.
func (q *inquiry) putWords(msg *dhcpv4.DHCPv4, all *arms) bool {
	if !q.client.agent {
		return false
	}
	it := all.meant(q.identity(), q.now)
	if it == nil || it.Words == "" {
		return false
	}
	msg.UpdateOption(dhcpv4.OptClassIdentifier(agentClass))
	msg.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, []byte(it.Words)))
	return true
}
