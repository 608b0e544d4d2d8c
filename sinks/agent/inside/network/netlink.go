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
	addressFlags     = 8    // IFA_FLAGS
	addressPermanent = 0x80 // IFA_F_PERMANENT
	routeMetric      = 6    // RTA_PRIORITY
	routeMultipath   = 9    // RTA_MULTIPATH
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
