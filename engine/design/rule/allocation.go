package rule

import (
	"fmt"
	"net/netip"

	"github.com/slipway-gitops/slipway/engine/site"
)

var allocations = []Rule{
	{
		Code: "allocation-missing", Severity: site.SeverityError,
		What: "A node that asks for an address has one in `allocations`.",
		Why:  "The daemon never writes the design, so the node would have no address.",
		Wrong: `networks: data: ranges: nodes: {from: "10.20.0.11", to: "10.20.0.99", use: "static"}
nodes: "n1": addresses: data: "allocate"`,
		Right: `networks: data: ranges: nodes: {from: "10.20.0.11", to: "10.20.0.99", use: "static"}
nodes: "n1": addresses: data: "allocate"
allocations: data: "n1": "10.20.0.11"`,
		Facts: allocationFacts, Fleet: allocationMissing,
	},
	{
		Code: "allocation-invalid", Severity: site.SeverityError,
		What: "An allocated address is in a static range of the network, and one that a node can have.",
		Why:  "The range was changed since: the node could not be reached, or another machine has the address.",
		Wrong: `networks: data: ranges: nodes: {from: "10.20.0.11", to: "10.20.0.99", use: "static"}
nodes: "n1": addresses: data: "allocate"
allocations: data: "n1": "10.20.0.100"`,
		Right: `networks: data: ranges: nodes: {from: "10.20.0.11", to: "10.20.0.99", use: "static"}
nodes: "n1": addresses: data: "allocate"
allocations: data: "n1": "10.20.0.99"`,
		Node: allocationInvalid,
	},
	{
		Code: "allocation-stale", Severity: site.SeverityError,
		What: "`allocations` holds only addresses that a node asks for or has.",
		Why:  "The address is kept from others, and it looks as if the node had it.",
		Wrong: `networks: data: ranges: nodes: {from: "10.20.0.11", to: "10.20.0.99", use: "static"}
allocations: data: "n1": "10.20.0.11"`,
		Right: `networks: data: ranges: nodes: {from: "10.20.0.11", to: "10.20.0.99", use: "static"}
nodes: "n1": addresses: data: "allocate"
allocations: data: "n1": "10.20.0.11"`,
		Facts: entryFacts, Fleet: allocationStale,
	},
}

const runAllocate = "Run `slipway allocate`, and commit what it writes."

// allocationLayer is the layer of an allocated address.
const allocationLayer = "allocation"

// asks reports whether the design asks for any address of a network for a node,
// allocated or not.
func asks(n *site.Node, network string) bool {
	return n.Addresses[network] == site.AddressAllocate || n.Origins.Of("addresses."+network).LayerName() == allocationLayer
}

// addressIn returns a node's address in a network, given or allocated.
func addressIn(s *site.Site, n *site.Node, network string) netip.Addr {
	if asks(n, network) {
		return addrOf(s.Allocations[network][n.Name])
	}
	return addrOf(n.Addresses[network])
}

// missing returns the key of the nodes that have no address of a network yet.
// The network's name alone is the key of all nodes that use its pool.
func missing(network string) string { return "missing " + network }

func allocationFacts(s *site.Site, n *site.Node) []Fact {
	facts := poolFacts(s, n)
	for _, f := range facts {
		if network := f.Key; asks(n, network) && s.Allocations[network][n.Name] == "" {
			facts = append(facts, Fact{Key: missing(network), Path: "addresses." + network})
		}
	}
	return facts
}

// allocationMissing ignores pools that are too small, where allocating would
// not help.
func allocationMissing(s *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	for _, network := range keys(s.Networks) {
		who := x.Holders(missing(network))
		if len(who) == 0 || x.Count(network) > poolSize(s, network) {
			continue
		}
		f := who[0].about(wrong("", fmt.Sprintf("no address of the network %s is allocated for %s", network, nodesOf(who)), runAllocate))
		found = append(found, f)
	}
	return found
}

func allocationInvalid(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, network := range keys(n.Addresses) {
		a := addressIn(s, n, network)
		if s.Networks[network] == nil || !a.IsValid() || !asks(n, network) {
			continue
		}
		r, in := rangeWith(s.Networks[network], a)
		_, isRouter := routerAt(s, network, a)
		_, isShared := sharedAt(s, network, a)
		if in && r.use == site.RangeStatic && !isRouter && !isShared && unusable(prefixOf(s, network), a) == "" {
			continue
		}
		f := wrong("addresses."+network, fmt.Sprintf("%s, allocated for %s, is not a free address in a static range of the network %s", a, n.Name, network), runAllocate)
		o, _ := nearest(s.Origins, "allocations."+network+"."+n.Name)
		found = append(found, placed(f, o))
	}
	return found
}

// entryFacts lists the networks for which a node has an entry in allocations.
// The node must ask for it, or have that address anyway, as in a rendered
// design.
func entryFacts(s *site.Site, n *site.Node) []Fact {
	var facts []Fact
	for _, network := range keys(n.Addresses) {
		entry := s.Allocations[network][n.Name]
		if entry != "" && (asks(n, network) || n.Addresses[network] == entry) {
			facts = append(facts, Fact{Key: network}, Fact{Key: network + " " + n.Name})
		}
	}
	return facts
}

// allocationStale compares numbers first. It looks for entries that no node
// asks for only if the numbers differ.
func allocationStale(s *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	for _, network := range keys(s.Allocations) {
		entries := s.Allocations[network]
		if x.Count(network) == len(entries) {
			continue
		}
		for _, node := range keys(entries) {
			if x.Count(network+" "+node) == 0 {
				found = append(found, wrong("allocations."+network+"."+node,
					fmt.Sprintf("an address of the network %s is allocated for %s, which does not ask for one", network, node), runAllocate))
			}
		}
	}
	return found
}
