package design

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"

	"cuelang.org/go/cue/format"
	cueliteral "cuelang.org/go/cue/literal"

	"github.com/slipway-gitops/slipway/engine/site"
)

// AllocationsFile is the file of a site's package that holds its allocations.
const AllocationsFile = "allocations.cue"

// Allocated is the result of Evaluator.Allocate.
type Allocated struct {
	Site string
	// File is the path of the site's file of allocations in the repository, and
	// Text its new content. Text is empty when there is no allocation, so that
	// no file is needed.
	File string
	Text []byte
	// Before is what the design has, After what it gets.
	Before, After Allocations
}

// Allocate evaluates a site and gives addresses to the nodes that ask for them.
// Findings about allocations alone do not stop it. With any other error-level
// finding the result has no site, and nothing is allocated. If a pool is too
// small, the error names it.
func (e *Evaluator) Allocate(ctx context.Context, files fs.FS, siteName string) (Allocated, Result, error) {
	r, err := e.answer(ctx, files, siteName, evaluation{
		tolerated: []string{"allocation-missing", "allocation-stale", "allocation-invalid"},
	})
	if err != nil || r.Site == nil {
		return Allocated{}, r, err
	}
	a := Allocated{Site: r.Site.Name, Before: Allocations(r.Site.Allocations)}
	if a.After, err = Allocate(r.Site); err != nil {
		return a, r, err
	}
	dir, name, err := e.Package(files, r.Site.Name)
	if err != nil {
		return a, r, err
	}
	a.File = path.Join(dir, AllocationsFile)
	if len(a.After) > 0 {
		a.Text = a.After.CUE(name)
	}
	return a, r, nil
}

// Package returns the folder of a site's package, "." for the root, and the
// package's name.
func (e *Evaluator) Package(files fs.FS, siteName string) (dir, name string, err error) {
	p, _, err := collect(files, siteName, e.Limits.withDefaults())
	if err != nil {
		return "", "", err
	}
	return p.dir, newLoader(p).mainPackage(), nil
}

// Allocations are addresses taken from pools, by network and node.
type Allocations map[string]map[string]string

// allocationLayer is the layer of an allocated address.
const allocationLayer = "allocation"

// Allocate gives every node that asks for one an address of the network's
// static ranges. A node keeps its allocation while it asks for one, the address
// is in a range and no other node has it. The others get the lowest free
// addresses in the order of their names, so the same design gives the same
// addresses. The error names a network that has too few.
func Allocate(s *site.Site) (Allocations, error) {
	all := Allocations{}
	for _, network := range slices.Sorted(maps.Keys(s.Networks)) {
		p := newPool(s, network)
		for _, node := range s.NodeNames() {
			p.meet(s.Nodes[node])
		}
		if err := p.serve(s.Allocations[network]); err != nil {
			return nil, err
		}
		if len(p.given) > 0 {
			all[network] = p.given
		}
	}
	return all, nil
}

// pool holds the static addresses of one network while they are given out.
type pool struct {
	network string
	ranges  []addressRange
	// taken are addresses that no node may get.
	taken map[netip.Addr]bool
	// asking are the nodes that want an address, in order.
	asking []string
	given  map[string]string
	next   netip.Addr // where the search continues in the first range
}

type addressRange struct{ from, to netip.Addr }

func newPool(s *site.Site, network string) *pool {
	n := s.Networks[network]
	p := &pool{network: network, taken: map[netip.Addr]bool{}, given: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(n.Ranges)) {
		r := n.Ranges[name]
		from, err1 := netip.ParseAddr(r.From)
		to, err2 := netip.ParseAddr(r.To)
		if r.Use == site.RangeStatic && err1 == nil && err2 == nil {
			p.ranges = append(p.ranges, addressRange{from, to})
		}
	}
	slices.SortFunc(p.ranges, func(a, b addressRange) int { return a.from.Compare(b.from) })
	p.take(n.Gateway)
	if n.DHCPRelay != nil {
		p.take(n.DHCPRelay.Address)
	}
	for _, r := range n.Routes {
		p.take(r.Gateway)
	}
	for _, s := range n.Shared {
		p.take(s.Address)
	}
	if cidr, err := netip.ParsePrefix(n.CIDR); err == nil {
		for _, a := range site.Unusable(cidr) {
			p.taken[a] = true
		}
	}
	return p
}

func (p *pool) take(address string) {
	if a, err := netip.ParseAddr(address); err == nil {
		p.taken[a] = true
	}
}

// meet records the addresses that a node has in the network, or that it asks
// for one.
func (p *pool) meet(n *site.Node) {
	for _, more := range n.ExtraAddresses[p.network] {
		p.take(more)
	}
	path := "addresses." + p.network
	switch address := n.Addresses[p.network]; {
	case address == site.AddressAllocate || n.Origins.Of(path).LayerName() == allocationLayer:
		p.asking = append(p.asking, n.Name)
	case address != "":
		p.take(address)
	}
}

// serve gives an address to every node that asks, first to the nodes that keep
// theirs.
func (p *pool) serve(before map[string]string) error {
	var waiting []string
	for _, node := range p.asking {
		a, err := netip.ParseAddr(before[node])
		if err != nil || p.taken[a] || !p.holds(a) {
			waiting = append(waiting, node)
			continue
		}
		p.give(node, a)
	}
	for _, node := range waiting {
		a, ok := p.free()
		if !ok {
			return fmt.Errorf("the static ranges of network %s have no address left for %s: widen one under networks.%s.ranges",
				p.network, node, strconv.Quote(p.network))
		}
		p.give(node, a)
	}
	return nil
}

func (p *pool) give(node string, a netip.Addr) {
	p.taken[a] = true
	p.given[node] = a.String()
}

func (p *pool) holds(a netip.Addr) bool {
	return slices.ContainsFunc(p.ranges, func(r addressRange) bool { return r.from.Compare(a) <= 0 && a.Compare(r.to) <= 0 })
}

// free returns the lowest address that is not taken.
func (p *pool) free() (netip.Addr, bool) {
	for len(p.ranges) > 0 {
		r := p.ranges[0]
		if !p.next.IsValid() {
			p.next = r.from
		}
		for ; p.next.IsValid() && p.next.Compare(r.to) <= 0; p.next = p.next.Next() {
			if !p.taken[p.next] {
				return p.next, true
			}
		}
		p.ranges, p.next = p.ranges[1:], netip.Addr{}
	}
	return netip.Addr{}, false
}

// CUE writes the allocations as a file of the package, one line for each
// address, so that commits merge.
func (a Allocations) CUE(pkg string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Written by `slipway allocate`; change the nodes or the ranges instead.\npackage %s\n", pkg)
	for _, network := range slices.Sorted(maps.Keys(a)) {
		fmt.Fprintf(&b, "\nallocations: %s: {\n", cueliteral.String.Quote(network))
		for _, node := range slices.Sorted(maps.Keys(a[network])) {
			fmt.Fprintf(&b, "\t%s: %s\n", cueliteral.String.Quote(node), cueliteral.String.Quote(a[network][node]))
		}
		b.WriteString("}\n")
	}
	text, err := format.Source(b.Bytes())
	if err != nil {
		panic(err) // all texts are quoted
	}
	return text
}

// allocation returns the layer of a node's allocated addresses, which overrides
// its requests for them. It is nil without any.
func (sh *shared) allocation(name string, n *tree) *tree {
	var l *tree
	for network, wish := range n.get("addresses").orEmpty().fields {
		given := sh.pools.get(network, name)
		if wish.value != site.AddressAllocate || given == nil || given.broken {
			continue
		}
		o := given.origin
		l = l.set([]string{"addresses", network}, &tree{
			value: given.value, origin: site.At(o.File.Value(), o.Line, o.Col, allocationLayer),
		})
	}
	return l
}
