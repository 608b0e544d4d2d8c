package network

import (
	"encoding/binary"
	"net/netip"
	"syscall"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/netlink"
)

// These are constants of rtnetlink(7) that package syscall lacks.
const (
	linkLargestMTU   = 51   // IFLA_MAX_MTU
	addressFlags     = 8    // IFA_FLAGS
	addressPermanent = 0x80 // IFA_F_PERMANENT
	routeMetric      = 6    // RTA_PRIORITY
	routeMultipath   = 9    // RTA_MULTIPATH
	routeNexthop     = 30   // RTA_NH_ID
	nexthopSize      = 8    // struct rtnexthop
	protocolKernel   = 2
	protocolBoot     = 3
	protocolStatic   = 4
)

// kernelAddress is an address of an interface.
type kernelAddress struct {
	index     int
	prefix    netip.Prefix
	permanent bool // not from a lease or an advertisement
}

// kernelRoute is a route of the main table that a person or program set.
type kernelRoute struct {
	index int
	item.Route
	// byHand says that the route was set without a protocol: by a person, or by ifupdown's DHCP client. Routes from
	// managers' settings are static.
	byHand bool
}

// kernelUse is an address of an interface, or a route by it: of any table, protocol and kind.
type kernelUse struct {
	index  int          // 0 if the kernel does not say which interface
	prefix netip.Prefix // invalid if it is of another family
	route  bool
	kernel bool // a route that the kernel set by itself
}

// readAddresses reads all addresses from the kernel.
func readAddresses() ([]kernelAddress, error) {
	table, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	return parseAddresses(table), nil
}

// readRoutes reads all routes from the kernel.
func readRoutes() ([]kernelRoute, error) {
	table, err := syscall.NetlinkRIB(syscall.RTM_GETROUTE, syscall.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	return parseRoutes(table), nil
}

// readUses reads all addresses and routes from the kernel, with nothing left out.
func readUses() ([]kernelUse, error) {
	addresses, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	routes, err := syscall.NetlinkRIB(syscall.RTM_GETROUTE, syscall.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	return append(parseAddressUses(addresses), parseRouteUses(routes)...), nil
}

// readLargest reads the largest MTU of each interface by its index from the kernel. An interface without a limit has
// none, or 0.
func readLargest() (map[int]int, error) {
	table, err := syscall.NetlinkRIB(syscall.RTM_GETLINK, syscall.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	return parseLargest(table), nil
}

func parseLargest(table []byte) map[int]int {
	all := map[int]int{}
	netlink.Messages(table, syscall.RTM_NEWLINK, func(body []byte) {
		if len(body) < syscall.SizeofIfInfomsg {
			return
		}
		a := netlink.Attributes(body, syscall.SizeofIfInfomsg)
		all[int(binary.NativeEndian.Uint32(body[4:]))] = int(number32(a[linkLargestMTU], 0))
	})
	return all
}

func parseAddressUses(table []byte) (all []kernelUse) {
	netlink.Messages(table, syscall.RTM_NEWADDR, func(body []byte) {
		if len(body) < syscall.SizeofIfAddrmsg {
			all = append(all, kernelUse{})
			return
		}
		a := netlink.Attributes(body, syscall.SizeofIfAddrmsg)
		raw, ok := a[syscall.IFA_LOCAL]
		if !ok {
			raw = a[syscall.IFA_ADDRESS]
		}
		address, _ := netip.AddrFromSlice(raw)
		all = append(all, kernelUse{index: int(binary.NativeEndian.Uint32(body[4:])), prefix: netip.PrefixFrom(address, int(body[1]))})
	})
	return all
}

func parseRouteUses(table []byte) (all []kernelUse) {
	netlink.Messages(table, syscall.RTM_NEWROUTE, func(body []byte) {
		if len(body) < syscall.SizeofRtMsg {
			all = append(all, kernelUse{})
			return
		}
		a := netlink.Attributes(body, syscall.SizeofRtMsg)
		to, _ := netip.AddrFromSlice(a[syscall.RTA_DST])
		u := kernelUse{prefix: netip.PrefixFrom(to, int(body[1])), route: true, kernel: body[5] == protocolKernel}
		var by []int
		for _, interfaces := range []uint16{syscall.RTA_OIF, syscall.RTA_IIF} {
			if raw := a[interfaces]; len(raw) >= 4 {
				by = append(by, int(binary.NativeEndian.Uint32(raw)))
			}
		}
		for hops := a[routeMultipath]; len(hops) >= nexthopSize; {
			by = append(by, int(binary.NativeEndian.Uint32(hops[4:])))
			size := max(int(binary.NativeEndian.Uint16(hops)), nexthopSize)
			hops = hops[min((size+3)&^3, len(hops)):]
		}
		if len(by) == 0 && a[routeNexthop] != nil { // by an object that says which interface
			by = []int{0}
		}
		for _, u.index = range by {
			all = append(all, u)
		}
	})
	return all
}

func parseAddresses(table []byte) []kernelAddress {
	var all []kernelAddress
	netlink.Messages(table, syscall.RTM_NEWADDR, func(body []byte) {
		if len(body) < syscall.SizeofIfAddrmsg {
			return
		}
		a := netlink.Attributes(body, syscall.SizeofIfAddrmsg)
		raw, ok := a[syscall.IFA_LOCAL]
		if !ok {
			raw = a[syscall.IFA_ADDRESS]
		}
		address, ok := netip.AddrFromSlice(raw)
		prefix := netip.PrefixFrom(address, int(body[1]))
		if !ok || !prefix.IsValid() {
			return
		}
		flags := uint32(body[2])
		if wide := a[addressFlags]; len(wide) >= 4 {
			flags = binary.NativeEndian.Uint32(wide)
		}
		all = append(all, kernelAddress{int(binary.NativeEndian.Uint32(body[4:])), prefix, flags&addressPermanent != 0})
	})
	return all
}

// parseRoutes keeps the routes that a person or the network manager set. It skips those of leases, advertisements
// and routing daemons.
func parseRoutes(table []byte) []kernelRoute {
	var all []kernelRoute
	netlink.Messages(table, syscall.RTM_NEWROUTE, func(body []byte) {
		if len(body) < syscall.SizeofRtMsg {
			return
		}
		bits, protocol, kind := int(body[1]), body[5], body[7]
		if protocol != protocolBoot && protocol != protocolStatic || kind != syscall.RTN_UNICAST {
			return
		}
		a := netlink.Attributes(body, syscall.SizeofRtMsg)
		if number32(a[syscall.RTA_TABLE], uint32(body[4])) != syscall.RT_TABLE_MAIN || a[routeMultipath] != nil {
			return
		}
		to := netip.IPv4Unspecified()
		if body[0] == syscall.AF_INET6 {
			to = netip.IPv6Unspecified()
		} else if body[0] != syscall.AF_INET {
			return
		}
		if raw, ok := a[syscall.RTA_DST]; ok {
			if to, ok = netip.AddrFromSlice(raw); !ok {
				return
			}
		}
		prefix := netip.PrefixFrom(to, bits)
		if !prefix.IsValid() {
			return
		}
		r := kernelRoute{int(number32(a[syscall.RTA_OIF], 0)), item.Route{To: prefix.String(), Metric: int64(number32(a[routeMetric], 0))}, protocol == protocolBoot}
		if via, ok := netip.AddrFromSlice(a[syscall.RTA_GATEWAY]); ok {
			r.Via = via.String()
		}
		all = append(all, r)
	})
	return all
}

func number32(raw []byte, otherwise uint32) uint32 {
	if len(raw) < 4 {
		return otherwise
	}
	return binary.NativeEndian.Uint32(raw)
}
