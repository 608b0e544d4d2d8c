package rule

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

var ranges = []Rule{
	{
		Code: "range-outside-network", Severity: site.SeverityError,
		What:  "A range of a network is inside the network.",
		Why:   "A node with an address of it could not be reached in the network.",
		Wrong: `networks: mgmt: ranges: nodes: {from: "10.1.0.10", to: "10.1.1.99", use: "static"}`,
		Right: `networks: mgmt: ranges: nodes: {from: "10.1.0.10", to: "10.1.0.99", use: "static"}`,
		Site: eachRange(func(_ string, in netip.Prefix, r span) (string, string) {
			if !in.IsValid() || in.Contains(r.from) && in.Contains(r.to) {
				return "", ""
			}
			return fmt.Sprintf("the range from %s to %s is not inside of %s", r.from, r.to, in), "Correct the range, or the network's cidr."
		}),
	},
	{
		Code: "range-reversed", Severity: site.SeverityError,
		What:  "A range goes from a lower address to a higher one of the same family.",
		Why:   "The range contains no address.",
		Wrong: `networks: mgmt: ranges: nodes: {from: "10.1.0.199", to: "10.1.0.100", use: "reserved"}`,
		Right: `networks: mgmt: ranges: nodes: {from: "10.1.0.100", to: "10.1.0.199", use: "reserved"}`,
		Site: eachRange(func(_ string, in netip.Prefix, r span) (string, string) {
			if r.from.Compare(r.to) <= 0 || !in.Contains(r.from) || !in.Contains(r.to) {
				return "", ""
			}
			return fmt.Sprintf("the range goes down, from %s to %s", r.from, r.to), fmt.Sprintf("Write from: %q, to: %q.", r.to, r.from)
		}),
	},
	{
		Code: "range-overlap", Severity: site.SeverityError,
		What: "Two ranges of a network have no address in common.",
		Why:  "One address would be given twice: by the design and by a DHCP server.",
		Wrong: `networks: mgmt: ranges: {
	nodes: {from: "10.1.0.10", to: "10.1.0.99", use: "static"}
	leases: {from: "10.1.0.90", to: "10.1.0.199", use: "dhcp"}
}`,
		Right: `networks: mgmt: ranges: {
	nodes: {from: "10.1.0.10", to: "10.1.0.99", use: "static"}
	leases: {from: "10.1.0.100", to: "10.1.0.199", use: "dhcp"}
}`,
		Site: rangeOverlap,
	},
	{
		Code: "gateway-in-range", Severity: site.SeverityError,
		What:  "The routers of a network have addresses outside of its static and DHCP ranges.",
		Why:   "Whoever is given a router's address takes all traffic of the network to itself.",
		Wrong: `networks: mgmt: {gateway: "10.1.0.200", ranges: leases: {from: "10.1.0.200", to: "10.1.0.250", use: "dhcp"}}`,
		Right: `networks: mgmt: {gateway: "10.1.0.1", ranges: leases: {from: "10.1.0.200", to: "10.1.0.250", use: "dhcp"}}`,
		Site:  gatewayInRange,
	},
	{
		Code: "pool-too-small", Severity: site.SeverityError,
		What: "The static ranges of a network have an address for every node that takes one of them.",
		Why:  "`slipway allocate` has nothing to give to the last of them.",
		Wrong: `networks: data: ranges: nodes: {from: "10.20.0.14", to: "10.20.0.14", use: "static"}
nodes: "n1": addresses: data: "allocate"`,
		Right: `networks: data: ranges: nodes: {from: "10.20.0.13", to: "10.20.0.14", use: "static"}
nodes: "n1": addresses: data: "10.20.0.13"`,
		Facts: poolFacts, Fleet: poolTooSmall,
	},
}

// span is a range of addresses, both ends included.
type span struct {
	name     string
	from, to netip.Addr
	use      site.RangeUse
}

func (r span) holds(a netip.Addr) bool {
	return a.IsValid() && r.from.Compare(a) <= 0 && a.Compare(r.to) <= 0
}

// count returns how many addresses the span has, capped at math.MaxInt32.
func (r span) count() int {
	if r.from.Compare(r.to) > 0 || r.from.BitLen() != r.to.BitLen() {
		return 0
	}
	a, b := r.from.As16(), r.to.As16()
	if [8]byte(a[:8]) != [8]byte(b[:8]) {
		return math.MaxInt32
	}
	more := binary.BigEndian.Uint64(b[8:]) - binary.BigEndian.Uint64(a[8:])
	return int(min(more, math.MaxInt32-1)) + 1
}

// spans returns the ranges of a network that have both ends, in order of name.
func spans(n *site.Network) []span {
	if n == nil {
		return nil
	}
	all := make([]span, 0, len(n.Ranges))
	for _, name := range keys(n.Ranges) {
		r := n.Ranges[name]
		if s := (span{name, addrOf(r.From), addrOf(r.To), r.Use}); s.from.IsValid() && s.to.IsValid() {
			all = append(all, s)
		}
	}
	return all
}

func hasRange(n *site.Network, use site.RangeUse) bool {
	return slices.ContainsFunc(spans(n), func(r span) bool { return r.use == use })
}

// rangeWith returns the range of a network that contains an address.
func rangeWith(n *site.Network, a netip.Addr) (span, bool) {
	all := spans(n)
	i := slices.IndexFunc(all, func(r span) bool { return r.holds(a) })
	if i < 0 {
		return span{}, false
	}
	return all[i], true
}

// eachRange checks every range by itself. An objection is a message and what to
// do.
func eachRange(object func(network string, in netip.Prefix, r span) (message, fix string)) func(*site.Site) []site.Finding {
	return func(s *site.Site) []site.Finding {
		var found []site.Finding
		for _, network := range keys(s.Networks) {
			for _, r := range spans(s.Networks[network]) {
				if message, fix := object(network, prefixOf(s, network), r); message != "" {
					found = append(found, wrong("networks."+network+".ranges."+r.name+".from", message, fix))
				}
			}
		}
		return found
	}
}

// rangeOverlap compares each range with the earlier one that reaches furthest.
func rangeOverlap(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, network := range keys(s.Networks) {
		all := spans(s.Networks[network])
		slices.SortStableFunc(all, func(a, b span) int { return a.from.Compare(b.from) })
		for i := 1; i < len(all); i++ {
			before, r, path := all[i-1], all[i], "networks."+network+".ranges."
			if before.holds(r.from) {
				found = append(found, also(s, path+before.name+".from", wrong(path+r.name+".from",
					fmt.Sprintf("the range %s begins at %s, inside of the range %s, which ends at %s", r.name, r.from, before.name, before.to),
					fmt.Sprintf("Let it begin at %s or later.", before.to.Next()))))
			}
			if before.to.Compare(r.to) > 0 {
				all[i] = before
			}
		}
	}
	return found
}

// router is a router's address in a network.
type router struct {
	what, path string
	addr       netip.Addr
}

// routers returns the addresses of routers in a network, without duplicates.
func routers(s *site.Site, network string) []router {
	n := s.Networks[network]
	if n == nil || n.Gateway == "" && n.DHCPRelay == nil && len(n.Routes) == 0 {
		return nil
	}
	path := "networks." + network
	all := []router{{"the gateway", path + ".gateway", addrOf(n.Gateway)}}
	if n.DHCPRelay != nil {
		all = append(all, router{"the DHCP relay", path + ".dhcpRelay.address", addrOf(n.DHCPRelay.Address)})
	}
	for _, name := range keys(n.Routes) {
		all = append(all, router{"the gateway of the route " + name, path + ".routes." + name + ".gateway", addrOf(n.Routes[name].Gateway)})
	}
	var once []router
	for _, r := range all {
		same := func(o router) bool { return o.addr == r.addr }
		if r.addr.IsValid() && !slices.ContainsFunc(once, same) {
			once = append(once, r)
		}
	}
	return once
}

func gatewayInRange(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, network := range keys(s.Networks) {
		for _, gw := range routers(s, network) {
			r, ok := rangeWith(s.Networks[network], gw.addr)
			if ok && r.use != site.RangeReserved {
				found = append(found, also(s, "networks."+network+".ranges."+r.name, wrong(gw.path,
					fmt.Sprintf("%s, %s, is in the %s range %s, from %s to %s", gw.what, gw.addr, r.use, r.name, r.from, r.to),
					"Leave it out of the range.")))
			}
		}
	}
	return found
}

// poolFacts returns the networks from whose static ranges a node takes an
// address.
func poolFacts(s *site.Site, n *site.Node) []Fact {
	var facts []Fact
	for _, network := range keys(n.Addresses) {
		address := n.Addresses[network]
		r, in := rangeWith(s.Networks[network], addrOf(address))
		if s.Networks[network] != nil && (address == site.AddressAllocate || in && r.use == site.RangeStatic) {
			facts = append(facts, Fact{Key: network})
		}
	}
	return facts
}

func poolTooSmall(s *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	for _, network := range keys(s.Networks) {
		want, have := x.Count(network), poolSize(s, network)
		if want <= have {
			continue
		}
		path := "networks." + network
		if hasRange(s.Networks[network], site.RangeStatic) {
			path += ".ranges"
		}
		found = append(found, wrong(path,
			fmt.Sprintf("the static ranges of the network %s have %d addresses for nodes, and %d are wanted", network, have, want),
			`Widen a range, or add one with use: "static".`))
	}
	return found
}

// poolSize returns how many addresses of a network's static ranges nodes can
// get.
func poolSize(s *site.Site, network string) int {
	p, size := prefixOf(s, network), 0
	taken := routers(s, network)
	if p.IsValid() && unusable(p, p.Addr()) != "" {
		taken = append(taken, router{addr: p.Addr()})
	}
	if p.IsValid() && unusable(p, lastIn(p)) != "" {
		taken = append(taken, router{addr: lastIn(p)})
	}
	for _, r := range spans(s.Networks[network]) {
		if r.use != site.RangeStatic {
			continue
		}
		size += r.count()
		for _, t := range taken {
			if r.holds(t.addr) {
				size--
			}
		}
	}
	return size
}
