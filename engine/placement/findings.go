package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Why each kind of finding matters.
const (
	whyUnplaced = "Slipway makes a machine only where there is room for it and where the placement of its role allows it."
	whyStays    = "Its disks are on the hypervisor where it was placed, and nothing here moves them to another."
	whyFull     = "Machines that are promised more than a hypervisor has slow each other down, or do not start."
	whyBridge   = "The machine is connected where its network is not, so it cannot be reached."
	whyUnknown  = "If it carries another network, the machines cannot be reached, and Slipway cannot tell before they are made."
	whyRole     = "Roles that are kept apart must not fail together, and a role that is kept near needs the other one on the same hypervisor."
)

// giveUp says how to get a machine to another hypervisor.
const giveUp = "decommission it, which deletes its disks, take it out of the design once it is gone, and add it again"

// findings returns what is wrong with the places of all machines.
func (f *fleet) findings() []site.Finding {
	var all []site.Finding
	for _, g := range f.guests {
		if g.node != nil {
			all = append(all, f.wrongWith(g)...)
		}
	}
	all = append(fold(all), f.unknownBridges()...)
	for _, h := range f.hosts {
		all = append(all, f.overfull(h)...)
	}
	site.SortFindings(all)
	return all
}

// wrongWith returns what is wrong with the place of one machine. No placement
// rule applies to a machine that is leaving.
func (f *fleet) wrongWith(g *guest) []site.Finding {
	switch {
	case g.lost != "":
		return []site.Finding{g.wrong("machine-moves", "", whyStays,
			fmt.Sprintf("it was placed on hypervisor %s, which is no longer in the design", g.lost),
			fmt.Sprintf("Put hypervisors.%s back, under the same name; to do without it, keep it until its machines are gone: for each of them, %s.", g.lost, giveUp))}
	case g.at == nil:
		return []site.Finding{f.unplaced(g)}
	case g.leaving:
		return nil
	case g.pinned != "" && g.pinned != g.at.name:
		return []site.Finding{g.wrong("machine-moves", "virtual.hypervisor", whyStays,
			fmt.Sprintf("virtual.hypervisor asks for %s, and the machine was placed on %s", g.pinned, g.at.name),
			fmt.Sprintf("Write virtual.hypervisor: %q, or leave it out; to have the machine on %s, %s.", g.at.name, g.pinned, giveUp))}
	}
	return slices.Concat(f.tooNear(g), f.tooFar(g), f.unplugged(g))
}

// wrong returns a finding about a machine's node, at the origin of one of its
// values or, if the design does not set it, of the node itself.
func (g *guest) wrong(code, path, why, message, fix string) site.Finding {
	x := site.Finding{Code: code, Severity: site.SeverityError, Node: g.name, Path: path, Message: message, Why: why, Fix: fix}
	o := g.node.Origins.Of(path)
	if o.IsZero() || o.LayerName() == "schema" {
		o = g.node.Place
	}
	return located(x, o)
}

func located(x site.Finding, o site.Origin) site.Finding {
	if !o.IsZero() {
		x.File, x.Line, x.Col = o.File.Value(), o.Line, o.Col
	}
	return x
}

// unplugged reports a placed machine that its hypervisor's bridges do not suit.
func (f *fleet) unplugged(g *guest) []site.Finding {
	x := f.unfit(g, g.at)
	if g.isNew() || x.message == "" {
		return nil // a new machine was placed on suitable bridges
	}
	return []site.Finding{g.wrong("bridge-unfit", x.path, whyBridge, x.message,
		"Name a bridge that carries the network, or declare it at the hypervisor's node.")}
}

// tooNear reports a placed machine beside one that it must be apart from. Of
// the two, the later by name gets the finding.
func (f *fleet) tooNear(g *guest) []site.Finding {
	if g.isNew() || len(f.roles[g.role].apart) == 0 {
		return nil // a new machine was kept apart
	}
	for _, other := range f.guests {
		if other.name >= g.name || other.leaving || other.at != g.at || !slices.Contains(f.roles[g.role].apart, other.role) {
			continue
		}
		return []site.Finding{g.wrong("placed-otherwise", "role", whyRole,
			fmt.Sprintf("its role %s is to be apart from role %s, and it is placed on %s together with %s", f.roles[g.role].name, f.roles[other.role].name, g.at.name, other.name),
			"Take the role out of placement.apart; to have one of the two elsewhere, "+giveUp+".")}
	}
	return nil
}

// tooFar reports a machine without the one that it has to be near.
func (f *fleet) tooFar(g *guest) []site.Finding {
	for _, other := range f.roles[g.role].near {
		if g.at.staying[other] > 0 {
			continue
		}
		if g.isNew() {
			return []site.Finding{f.unplaced(g)}
		}
		return []site.Finding{g.wrong("placed-otherwise", "role", whyRole,
			fmt.Sprintf("its role %s has to be near role %s, and there is no node of that on %s, where it is placed", f.roles[g.role].name, f.roles[other].name, g.at.name),
			fmt.Sprintf("Add a node of role %s with virtual.hypervisor: %q, or take the role out of placement.near; to have this one elsewhere, %s.", f.roles[other].name, g.at.name, giveUp))}
	}
	return nil
}

// overfull reports that placed machines take more of a hypervisor than the
// design permits.
func (f *fleet) overfull(h *host) []site.Finding {
	var all []site.Finding
	say := func(path, what, takes, has string, of func(room) string) {
		x := site.Finding{
			Code: "hypervisor-full", Severity: site.SeverityError, Path: "hypervisors." + h.name + "." + path, Why: whyFull,
			Message: fmt.Sprintf("the machines on hypervisor %s take %s of %s, and they may have %s: %s", h.name, takes, what, has, f.listed(h, of)),
			Fix:     fmt.Sprintf("Raise hypervisors.%s.%s, let the machines have less, or decommission one; a machine that is placed is not moved.", h.name, path),
		}
		all = append(all, located(x, f.site.Origins.Of(x.Path)))
	}
	if over(h.used.cpus, h.bound.cpus) {
		say("cpus", "CPUs", fmt.Sprint(h.used.cpus), fmt.Sprint(h.bound.cpus), func(r room) string { return number(r.cpus) })
	}
	if over(h.used.memory, h.bound.memory) {
		has := amount(h.bound.memory)
		if h.ofNode {
			has += fmt.Sprintf(" (hardware.memory of its node %s)", h.metal.Name)
		}
		say("memory", "memory", amount(h.used.memory), has, func(r room) string { return size(r.memory) })
	}
	for _, pool := range slices.Sorted(maps.Keys(h.bound.pools)) {
		if used, bound := h.used.pools[pool], h.bound.pools[pool]; over(used, bound) {
			say("pools."+pool, "pool "+pool, amount(used), amount(bound), func(r room) string { return size(r.pools[pool]) })
		}
	}
	return all
}

// listed lists the machines on a hypervisor, with what each takes of something.
func (f *fleet) listed(h *host, of func(room) string) string {
	const most = 8
	var all []string
	for _, g := range f.guests {
		text := of(g.takes)
		if g.at != h || text == "" {
			continue
		}
		text = g.name + " " + text
		if g.node == nil {
			text += " (dropped from the design and still there)"
		}
		all = append(all, text)
	}
	if more := len(all) - most; more > 0 {
		all = append(all[:most], fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, ", ")
}

// fold combines equal findings of several nodes: the fault is in the
// hypervisors, and a hundred nodes may have it.
func fold(all []site.Finding) []site.Finding {
	type key struct{ code, message string }
	at := map[key]int{}
	var folded []site.Finding
	for _, x := range all {
		k := key{x.Code, x.Message}
		if i, known := at[k]; known {
			folded[i].More++
			continue
		}
		at[k] = len(folded)
		folded = append(folded, x)
	}
	return folded
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func size(s site.Size) string {
	if s == 0 {
		return ""
	}
	return amount(s)
}

// amount is a size for people, in whole MiB if it is that large.
func amount(s site.Size) string {
	const mib = 1 << 20
	switch {
	case s <= 0:
		return "nothing"
	case s >= mib && s%1_000_000 != 0:
		s = s / mib * mib
	}
	return s.String()
}
