package rule

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// bonds are the rules of bonding, from the options in the Linux kernel's
// Documentation/networking/bonding.rst.
var bonds = []Rule{
	{
		Code: "bonding-options", Severity: site.SeverityError,
		What:  "The options of a bonding are those that its mode has.",
		Why:   "The kernel refuses lacp_rate in modes other than 802.3ad, and ignores min_links and xmit_hash_policy in modes that do not use them, so the bond is not what the design says.",
		Wrong: `links: uplink: bonding: {mode: "active-backup", hashPolicy: "layer3+4"}`,
		Right: `links: uplink: bonding: {mode: "802.3ad", hashPolicy: "layer3+4", lacpRate: "fast", minLinks: 1}`,
		Site:  bondingOptions,
	},
	{
		Code: "bonding-delays", Severity: site.SeverityError,
		What:  "The delays of a bonding are multiples of its `monitor`, the time between two checks of the carrier, which is in whole milliseconds.",
		Why:   "The kernel rounds a delay down to such a multiple, and a shorter delay to zero. Without a monitor it has no delay. Then the whole bond flaps when one port does.",
		Wrong: `links: uplink: bonding: {monitor: "100ms", upDelay: "250ms"}`,
		Right: `links: uplink: bonding: {monitor: "100ms", upDelay: "200ms"}`,
		Site:  bondingDelays,
	},
	{
		Code: "bonding-unmonitored", Severity: site.SeverityWarning,
		What:  "A bonding checks the carrier of its members.",
		Why:   "Only 802.3ad, balance-tlb and balance-alb do so by themselves (miimon); in the other modes the kernel keeps sending through a member that lost its carrier.",
		Wrong: `links: uplink: bonding: {mode: "active-backup", monitor: "0s"}`,
		Right: `links: uplink: bonding: {mode: "active-backup", monitor: "100ms"}`,
		Site:  bondingUnmonitored,
	},
	{
		Code: "bond-of-one", Severity: site.SeverityError,
		What:  "A bond has at least two members.",
		Why:   "It survives no failure, although it looks as if it did.",
		Wrong: `nodes: "n4": {interfaces: eno2: _ @unset(), bonds: bond0: members: ["eno1"]}`,
		Right: `nodes: "n4": bonds: bond0: members: ["eno2", "eno1"]`,
		Node: eachBond(func(_ *site.Site, _ *site.Node, b site.Bond) (string, string, string) {
			if b.Members == nil || len(b.Members) > 1 {
				return "", "", ""
			}
			return "members", "has fewer than two members", "Add a member, or use the interface itself."
		}),
	},
	{
		Code: "bond-without-bonding", Severity: site.SeverityError,
		What: "The link of a bond has `bonding`.",
		Why:  "Nothing says how the members work as one, and the switch treats each of its ports separately.",
		Wrong: `links: access: networks: ["bmc"]
nodes: "n1": {interfaces: {eno1: {}, eno2: {}}, bonds: bond1: {members: ["eno1", "eno2"], link: "access"}, addresses: mgmt: _ @unset()}`,
		Right: `links: access: {networks: ["bmc"], bonding: {mode: "802.3ad", monitor: "100ms"}}
nodes: "n1": {interfaces: {eno1: {}, eno2: {}}, bonds: bond1: {members: ["eno1", "eno2"], link: "access"}, addresses: mgmt: _ @unset()}`,
		Node: eachBond(func(s *site.Site, _ *site.Node, b site.Bond) (string, string, string) {
			if l := s.Links[b.Link]; l == nil || l.Bonding != nil {
				return "", "", ""
			}
			return "link", fmt.Sprintf("is plugged into the link %s, which has no bonding", b.Link), "Set the link's bonding, or name a link that has it."
		}),
	},
	{
		Code: "bonding-without-bond", Severity: site.SeverityWarning,
		What:  "An interface on a link with `bonding` is a member of a bond.",
		Why:   "A switch that speaks LACP on the port keeps it closed to a single interface.",
		Wrong: `nodes: "n4": interfaces: eno3: link: "uplink"`,
		Right: `nodes: "n4": {interfaces: eno3: link: "uplink", bonds: bond0: members: ["eno1", "eno2", "eno3"]}`,
		Node:  bondingWithoutBond,
	},
	{
		Code: "bond-member-link", Severity: site.SeverityError,
		What: "The members of a bond are plugged into the link of the bond.",
		Why:  "The ports of the switch at their other ends are set up differently, so the bond works over some of its members only.",
		Wrong: `links: access: networks: ["bmc"]
nodes: "n4": interfaces: eno2: link: "access"`,
		Right: `nodes: "n4": interfaces: eno2: link: "uplink"`,
		Node:  memberLink,
	},
	{
		Code: "bond-min-links", Severity: site.SeverityError,
		What:  "A bond has as many members as its link needs to be up.",
		Why:   "The bond never comes up (min_links).",
		Wrong: `links: uplink: bonding: minLinks: 3`,
		Right: `links: uplink: bonding: minLinks: 2`,
		Node: eachBond(func(s *site.Site, _ *site.Node, b site.Bond) (string, string, string) {
			l := s.Links[b.Link]
			if l == nil || l.Bonding == nil || len(b.Members) < 2 || len(b.Members) >= l.Bonding.MinLinks {
				return "", "", ""
			}
			return "members", fmt.Sprintf("has %d members, and its link %s needs %d of them up", len(b.Members), b.Link, l.Bonding.MinLinks),
				"Add members, or lower the link's bonding.minLinks."
		}),
	},
	{
		Code: "bond-primary", Severity: site.SeverityError,
		What: "The primary of a bond is one of its members, and its mode is one that prefers a member.",
		Why:  "The kernel has a primary in active-backup, balance-tlb and balance-alb only; otherwise nothing is preferred, though the design says so.",
		Wrong: `links: uplink: bonding: mode: "active-backup"
nodes: "n4": bonds: bond0: primary: "eno3"`,
		Right: `links: uplink: bonding: mode: "active-backup"
nodes: "n4": bonds: bond0: primary: "eno1"`,
		Node: eachBond(bondPrimary),
	},
}

// modesWith are the modes that have an option.
var modesWith = map[string][]string{
	"lacpRate":   {"802.3ad"},
	"minLinks":   {"802.3ad"},
	"hashPolicy": {"balance-xor", "802.3ad", "balance-tlb"},
	"primary":    {"active-backup", "balance-tlb", "balance-alb"},
}

func bondingOptions(s *site.Site) []site.Finding {
	return eachBonding(s, func(b *site.Bonding) (found []site.Finding) {
		set := map[string]bool{"lacpRate": b.LACPRate != "", "minLinks": b.MinLinks != 0, "hashPolicy": b.HashPolicy != ""}
		for _, option := range keys(set) {
			if modes := modesWith[option]; set[option] && b.Mode != "" && !slices.Contains(modes, b.Mode) {
				found = append(found, wrong(option, fmt.Sprintf("the mode %s has no %s", b.Mode, option),
					fmt.Sprintf("Remove it, or use the mode %s.", strings.Join(modes, ", or "))))
			}
		}
		return found
	})
}

func bondingDelays(s *site.Site) []site.Finding {
	return eachBonding(s, func(b *site.Bonding) (found []site.Finding) {
		monitor := time.Duration(b.Monitor)
		if monitor%time.Millisecond != 0 {
			return []site.Finding{wrong("monitor", fmt.Sprintf("%s is not a whole number of milliseconds", monitor), "Write whole milliseconds: 100ms.")}
		}
		delays := map[string]site.Duration{"upDelay": b.UpDelay, "downDelay": b.DownDelay}
		for _, name := range keys(delays) {
			if message, fix := objectToDelay(time.Duration(delays[name]), monitor); message != "" {
				found = append(found, wrong(name, message, fix))
			}
		}
		return found
	})
}

func objectToDelay(delay, monitor time.Duration) (message, fix string) {
	switch {
	case delay == 0:
		return "", ""
	case monitor == 0:
		return fmt.Sprintf("the delay of %s has no effect, because monitor is not set", delay), "Set monitor: 100ms is usual."
	case delay%monitor != 0:
		return fmt.Sprintf("%s is not a multiple of the monitor's %s", delay, monitor),
			fmt.Sprintf("Write %s.", (delay/monitor+1)*monitor)
	}
	return "", ""
}

func bondingUnmonitored(s *site.Site) []site.Finding {
	return eachBonding(s, func(b *site.Bonding) []site.Finding {
		own := slices.Contains([]string{"", "802.3ad", "balance-tlb", "balance-alb"}, b.Mode)
		if b.Monitor != 0 || b.UpDelay != 0 || b.DownDelay != 0 || own {
			return nil
		}
		return []site.Finding{wrong("monitor", fmt.Sprintf("the mode %s does not check the carrier by itself", b.Mode), `Write monitor: "100ms".`)}
	})
}

// eachBonding checks the bonding of every link. The paths of its findings are
// relative to the bonding.
func eachBonding(s *site.Site, check func(*site.Bonding) []site.Finding) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Links) {
		if s.Links[key].Bonding == nil {
			continue
		}
		for _, f := range check(s.Links[key].Bonding) {
			f.Path = "links." + key + ".bonding." + f.Path
			found = append(found, f)
		}
	}
	return found
}

// eachBond checks every bond of a node. An objection is the field, a message
// about the bond, and what to do.
func eachBond(object func(*site.Site, *site.Node, site.Bond) (field, message, fix string)) func(*site.Site, *site.Node) []site.Finding {
	return func(s *site.Site, n *site.Node) []site.Finding {
		var found []site.Finding
		for _, key := range keys(n.Bonds) {
			if field, message, fix := object(s, n, n.Bonds[key]); message != "" {
				found = append(found, wrong("bonds."+key+"."+field, fmt.Sprintf("the bond %s %s", key, message), fix))
			}
		}
		return found
	}
}

func bondPrimary(s *site.Site, _ *site.Node, b site.Bond) (field, message, fix string) {
	l, modes := s.Links[b.Link], modesWith["primary"]
	switch {
	case b.Primary == "":
		return "", "", ""
	case b.Members != nil && !slices.Contains(b.Members, b.Primary):
		return "primary", fmt.Sprintf("has the primary %q, which is not a member%s", b.Primary, DidYouMean(b.Primary, b.Members)),
			fmt.Sprintf("Write one of %s.", strings.Join(b.Members, ", "))
	case l != nil && l.Bonding != nil && l.Bonding.Mode != "" && !slices.Contains(modes, l.Bonding.Mode):
		return "primary", fmt.Sprintf("has a primary, and the mode %s of its link %s prefers no member", l.Bonding.Mode, b.Link),
			fmt.Sprintf("Remove it, or use the mode %s.", strings.Join(modes, ", or "))
	}
	return "", "", ""
}

// bondOf returns the name of the bond that an interface is a member of.
func bondOf(n *site.Node, name string) string {
	for _, bond := range keys(n.Bonds) {
		if slices.Contains(n.Bonds[bond].Members, name) {
			return bond
		}
	}
	return ""
}

// pluggedInto returns the link of an interface: its own, or that of its bond.
func pluggedInto(n *site.Node, name string) string {
	if link := n.Interfaces[name].Link; link != "" {
		return link
	}
	return n.Bonds[bondOf(n, name)].Link
}

func bondingWithoutBond(s *site.Site, n *site.Node) []site.Finding {
	for _, bond := range keys(n.Bonds) {
		if len(n.Bonds[bond].Members) == 0 {
			return nil // any interface may be its member
		}
	}
	var found []site.Finding
	for _, name := range keys(n.Interfaces) {
		l := s.Links[n.Interfaces[name].Link]
		if l != nil && l.Bonding != nil && bondOf(n, name) == "" {
			found = append(found, wrong("interfaces."+name+".link",
				fmt.Sprintf("%s is plugged into the link %s, which has bonding, and is in no bond", name, n.Interfaces[name].Link),
				"Make it a member of a bond, or name a link without bonding."))
		}
	}
	return found
}

func memberLink(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, name := range keys(n.Interfaces) {
		bond, link := bondOf(n, name), n.Interfaces[name].Link
		if want := n.Bonds[bond].Link; link != "" && s.Links[want] != nil && link != want {
			found = append(found, wrong("interfaces."+name+".link",
				fmt.Sprintf("%s is plugged into the link %s, and its bond %s into %s", name, link, bond, want),
				fmt.Sprintf("Write %q, or take it out of the bond.", want)))
		}
	}
	return found
}
