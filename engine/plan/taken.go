package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// takesFrom says that a node would take something that still belongs to another. A
// node that left the design keeps its things until a person lets it go. The machine
// of a held node stays as designed before. It is empty if the node takes nothing.
func takesFrom(s *site.Site, n *site.Node, others map[string]site.Reach) string {
	if len(others) == 0 {
		return ""
	}
	own := site.ReachOf(n)
	for _, name := range slices.Sorted(maps.Keys(others)) {
		x, other := s.Nodes[name], others[name]
		if name == n.Name || x != nil && !other.Held && x.Paused == nil && x.Away == "" {
			continue
		}
		switch what := shared(own, other); {
		case what == "":
		case x == nil:
			return fmt.Sprintf("%s has %s of %s, which left the design and is not removed yet: put %[3]s back, or run `slipway approve %[3]s` to let it go",
				n.Name, what, name)
		default:
			return fmt.Sprintf("%s has %s of %s, which is paused, away or quarantined and still has it: %[1]s waits until Slipway acts on %[3]s again", n.Name, what, name)
		}
	}
	return ""
}

// shared says what two nodes have in common that only one of them can have;
// empty for nothing.
func shared(a, b site.Reach) string {
	switch {
	case a.Machine.UUID != "" && (a.Machine.UUID == b.Machine.UUID || a.Machine.UUID == site.TurnedRound(b.Machine.UUID)):
		return "the machine (UUID " + a.Machine.UUID + ")"
	case a.Machine.Serial != "" && a.Machine.Serial == b.Machine.Serial && !a.Machine.Contradicts(b.Machine):
		return "the machine (serial " + a.Machine.Serial + ")"
	case a.Manager.URL != "" && a.Manager.Plain() == b.Manager.Plain():
		return "the endpoint " + a.Manager.URL
	}
	for _, network := range slices.Sorted(maps.Keys(a.Addresses)) {
		theirs := append([]string{b.Addresses[network]}, b.Extra[network]...)
		for _, address := range append([]string{a.Addresses[network]}, a.Extra[network]...) {
			if address != site.AddressDHCP && address != site.AddressAllocate && slices.Contains(theirs, address) {
				return "the address " + address + " in the network " + network
			}
		}
	}
	for _, mac := range macs(a) {
		if slices.Contains(macs(b), mac) {
			return "the MAC address " + mac
		}
	}
	return ""
}

// macs returns the MAC addresses of a node, including the one that identifies its machine.
func macs(r site.Reach) []string {
	if r.Machine.MAC == "" {
		return r.MACs
	}
	return append(slices.Clone(r.MACs), r.Machine.MAC)
}
