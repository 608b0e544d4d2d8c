package rule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

var interfaces = []Rule{
	{
		Code: "interface-name", Severity: site.SeverityError,
		What:  "The name of an interface, bond, bridge or VLAN, or of a hypervisor's bridge, is one that the kernel and systemd take, and no other of the node's has it.",
		Why:   "A name has at most 15 letters (IFNAMSIZ), and is a directory in /sys and /proc; systemd takes no number for one. The interface would not be made, and the node would not come up on its network.",
		Wrong: `nodes: "n4": {interfaces: "enp216s0f1np1-data": {link: "uplink"}, bonds: bond0: members: ["eno1", "eno2", "enp216s0f1np1-data"]}`,
		Right: `nodes: "n4": {interfaces: "enp216s0f1np1": {link: "uplink"}, bonds: bond0: members: ["eno1", "eno2", "enp216s0f1np1"]}`,
		Node:  interfaceNames,
	},
	{
		Code: "unknown-link", Severity: site.SeverityError, Firm: true,
		What: "The link of an interface, bond or switch's port is an entry in `links`.", Why: noMeaning,
		Wrong: `nodes: "n4": interfaces: eno3: link: "uplnk"`,
		Right: `nodes: "n4": {interfaces: eno3: link: "uplink", bonds: bond0: members: ["eno1", "eno2", "eno3"]}`,
		Node: func(s *site.Site, n *site.Node) (found []site.Finding) {
			for _, c := range carriers(n) {
				if c.section == "interfaces" || c.section == "bonds" {
					found = append(found, refer(c.path()+".link", "links", c.link, s.Links)...)
				}
			}
			return found
		},
		Site: func(s *site.Site) (found []site.Finding) {
			for _, p := range ports(s) {
				found = append(found, refer(p.path+".link", "links", p.link, s.Links)...)
			}
			return found
		},
	},
	{
		Code: "unknown-member", Severity: site.SeverityError, Firm: true,
		What:  "The members of a bond are interfaces of the node; those of a bridge interfaces, bonds and VLANs; the parent of a VLAN an interface, bond or bridge.",
		Why:   "Slipway would make it without that part, or not at all, and the node could not be reached through it. A bond watches the carriers of its members, so these are ports; VLANs and bridges come on top of it (the kernel's Documentation/networking/bonding.rst, 802.1q VLAN Support).",
		Wrong: `nodes: "n4": vlans: "bond0.20": parent: "bnd0"`,
		Right: `nodes: "n4": vlans: "bond0.20": parent: "bond0"`,
		Node:  unknownMember,
	},
	{
		Code: "interface-cycle", Severity: site.SeverityError, Firm: true,
		What:  "No bridge or VLAN is made of itself.",
		Why:   "Each needs the other to be made first, so neither is made; the kernel refuses the last of them.",
		Wrong: `nodes: "n4": {bridges: br0: members: ["br0.20"], vlans: {"bond0.20": _ @unset(), "br0.20": {parent: "br0", network: "data"}}}`,
		Right: `nodes: "n4": {bridges: br0: {members: ["bond0"], networks: ["mgmt"]}, bonds: bond0: networks: [], vlans: {"bond0.20": _ @unset(), "br0.20": {parent: "br0", network: "data"}}}`,
		Node:  interfaceCycle,
	},
	{
		Code: "member-twice", Severity: site.SeverityError,
		What:  "A member of a bond or bridge is a member of only one, and carries no network itself.",
		Why:   "The kernel allows one only, and passes packets of a member on to it: an address on the member cannot be reached.",
		Wrong: `nodes: "n4": bridges: br0: members: ["eno1"]`,
		Right: `nodes: "n4": bridges: br0: members: ["bond0.20"]`,
		Node:  memberTwice,
	},
	{
		Code: "interface-network", Severity: site.SeverityError,
		What:  "The networks of an interface, bond or VLAN are among those of its link.",
		Why:   "The switch drops networks that it does not carry, so the node cannot be reached in that network.",
		Wrong: `nodes: "n4": {bonds: bond0: networks: ["mgmt", "bmc"], addresses: bmc: "10.9.0.114"}`,
		Right: `nodes: "n4": bonds: bond0: networks: ["mgmt"]`,
		Node:  interfaceNetwork,
	},
	{
		Code: "interface-networks-untrunked", Severity: site.SeverityError,
		What: "An interface that carries several networks is connected to a trunk.",
		Why:  "The link says which of them have a tag; without a link all are sent untagged, into one network.",
		Wrong: `networks: bmc: vlan: 90
nodes: "n1": {interfaces: eno1: networks: ["mgmt", "bmc"], addresses: bmc: "10.9.0.111"}`,
		Right: `networks: bmc: vlan: 90
links: access: {networks: ["bmc"], trunk: true}
nodes: "n1": {interfaces: {eno1: networks: ["mgmt"], eno2: {link: "access", networks: ["bmc"]}}, addresses: bmc: "10.9.0.111"}`,
		Node: networksUntrunked,
	},
	{
		Code: "native-tagged", Severity: site.SeverityError,
		What: "A VLAN is made of a network that its link carries with a tag.",
		Why:  "The switch sends that network without a tag, and drops it with one.",
		Wrong: `nodes: "n4": {bonds: bond0: networks: [], vlans: "bond0.20": network: "mgmt", addresses: data: _ @unset()}
nodes: "n1": addresses: data: "10.20.0.11"`,
		Right: `nodes: "n4": {bonds: bond0: networks: ["mgmt"], vlans: "bond0.20": network: "data"}`,
		Node:  nativeTagged,
	},
	{
		Code: "network-twice", Severity: site.SeverityError,
		What:  "A network is carried by one interface, bond, bridge or VLAN of a node.",
		Why:   "Linux answers for all of a node's addresses on every interface of a network, so packets come in where they are not expected, and Slipway cannot tell which interface gets the address.",
		Wrong: `nodes: "n4": bonds: bond0: networks: ["mgmt", "data"]`,
		Right: `nodes: "n4": {bonds: bond0: networks: ["mgmt", "data"], vlans: _ @unset()}`,
		Node:  networkTwice,
	},
	{
		Code: "bridge-stp", Severity: site.SeverityWarning,
		What:  "A bridge of several interfaces or bonds speaks the spanning tree protocol.",
		Why:   "When two of its members lead to one network, packets go round forever and take the network down (IEEE 802.1D).",
		Wrong: `nodes: "n1": {interfaces: {eno1: {}, eno2: {}}, bridges: br0: {members: ["eno1", "eno2"], networks: ["mgmt"]}}`,
		Right: `nodes: "n1": {interfaces: {eno1: {}, eno2: {}}, bridges: br0: {members: ["eno1", "eno2"], networks: ["mgmt"], stp: true}}`,
		Node:  bridgeSTP,
	},
	{
		Code: "sriov", Severity: site.SeverityError,
		What:  "The firmware of a machine whose interfaces have virtual functions turns neither SR-IOV nor the IOMMU off.",
		Why:   "The kernel makes no virtual function without SR-IOV in the firmware, and gives none to a guest without an IOMMU (VFIO).",
		Wrong: `nodes: "n4": {interfaces: eno1: sriov: functions: 8, bios: iommu: false}`,
		Right: `nodes: "n4": {interfaces: eno1: sriov: functions: 8, bios: {iommu: true, sriov: true}}`,
		Node:  sriov,
	},
	{
		Code: "network-without-address", Severity: site.SeverityNote,
		What: "A node has an address in each of the networks that its interfaces carry.",
		Why:  "The interface is up and the node has no address on it; that is right for what guests use, and a slip elsewhere.",
		Wrong: `nodes: "n4": addresses: data: _ @unset()
nodes: "n1": addresses: data: "10.20.0.11"`,
		Right: `nodes: "n4": addresses: data: "10.20.0.44"`,
		Node:  networkWithoutAddress,
	},
	{
		Code: "duplicate-mac", Severity: site.SeverityError, Firm: true,
		What: "No two interfaces have the same MAC address, and no machine is known by that of another node's.",
		Why:  "One of the machines would be taken for the other, and switches send the packets of both to either.",
		Wrong: `nodes: "n1": hardware: devices: port1: {kind: "nic", mac: "52:54:00:00:00:01"}
nodes: "n2": hardware: devices: port1: {kind: "nic", mac: "52:54:00:00:00:01"}`,
		Right: `nodes: "n1": hardware: devices: port1: {kind: "nic", mac: "52:54:00:00:00:01"}
nodes: "n2": hardware: devices: port1: {kind: "nic", mac: "52:54:00:00:00:02"}`,
		Facts: macFacts, Fleet: twiceUnless("the MAC address", ofOneMachine),
	},
	{
		Code: "mac-kind", Severity: site.SeverityError,
		What:  "The MAC address of an interface or device is that of one station.",
		Why:   "No interface has the address of a group (IEEE 802, its first octet is odd) or one of zeros, so it is never found.",
		Wrong: `nodes: "n4": interfaces: eno1: mac: "53:54:00:12:34:56"`,
		Right: `nodes: "n4": interfaces: eno1: mac: "52:54:00:12:34:56"`,
		Node:  macKind,
	},
}

// carrier is anything that can carry networks on a node.
type carrier struct {
	section, name, link string
	mtu                 int
	networks            []string
}

func (c carrier) path() string { return c.section + "." + c.name }

// isLost reports whether the design names only networks that could not be read.
func (c carrier) isLost(n *site.Node) bool {
	return len(c.networks) == 0 && (states(n, c.path()+".networks") || states(n, c.path()+".network"))
}

// carriers lists a node's interfaces, bonds, bridges and VLANs in the order of
// section and name. A VLAN has the link of its parent. A bridge has the link of
// its members, if they share one.
func carriers(n *site.Node) []carrier {
	all := make([]carrier, 0, len(n.Interfaces)+len(n.Bonds)+len(n.Bridges)+len(n.VLANs))
	for _, name := range keys(n.Interfaces) {
		i := n.Interfaces[name]
		all = append(all, carrier{"interfaces", name, i.Link, i.MTU, i.Networks})
	}
	for _, name := range keys(n.Bonds) {
		b := n.Bonds[name]
		all = append(all, carrier{"bonds", name, b.Link, b.MTU, b.Networks})
	}
	for _, name := range keys(n.Bridges) {
		b := n.Bridges[name]
		all = append(all, carrier{"bridges", name, linkUnder(n, name), b.MTU, b.Networks})
	}
	for _, name := range keys(n.VLANs) {
		v := n.VLANs[name]
		c := carrier{section: "vlans", name: name, link: linkUnder(n, name), mtu: v.MTU}
		if v.Network != "" {
			c.networks = []string{v.Network}
		}
		all = append(all, c)
	}
	return all
}

// networkPath returns the path of the i-th network of a carrier.
func (c carrier) networkPath(i int) string {
	if c.section == "vlans" {
		return c.path() + ".network"
	}
	return c.path() + ".networks." + strconv.Itoa(i)
}

// reserved are names with another meaning under /proc/sys/net/ipv4/conf and
// /sys/class/net.
var reserved = []string{".", "..", "all", "default", "lo", "bonding_masters"}

// longestInterface is IFNAMSIZ of linux/if.h without its terminating byte.
const longestInterface = 15

func interfaceNames(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	first := map[string]carrier{}
	for _, c := range carriers(n) {
		before, twice := first[c.name]
		first[c.name] = c
		if twice {
			found = append(found, wrong(c.path(), fmt.Sprintf("%s is in %s and in %s", c.name, before.section, c.section), "Give each a name of its own."))
			continue
		}
		found = append(found, refuseName(c.path(), c.name)...)
	}
	for _, name := range keys(n.Virtual.Interfaces) {
		path := "virtual.interfaces." + name
		if _, twice := first[name]; !twice {
			found = append(found, refuseName(path, name)...)
		}
		found = append(found, refuseName(path+".bridge", n.Virtual.Interfaces[name].Bridge)...)
	}
	return found
}

// refuseName reports a name that the kernel or systemd does not accept for an
// interface.
func refuseName(path, name string) []site.Finding {
	switch {
	case name == "":
	case len(name) > longestInterface:
		return []site.Finding{wrong(path, fmt.Sprintf("the name %s has %d letters, and the kernel takes %d", name, len(name), longestInterface), "Shorten it.")}
	case slices.Contains(reserved, name):
		return []site.Finding{wrong(path, fmt.Sprintf("%q means something else to the kernel", name), "Choose another name.")}
	case strings.Trim(name, "0123456789") == "":
		return []site.Finding{wrong(path, fmt.Sprintf("the name %s is a number, which systemd does not take", name), "Begin it with a letter.")}
	}
	return nil
}

func unknownMember(_ *site.Site, n *site.Node) []site.Finding {
	if len(n.Bonds)+len(n.Bridges)+len(n.VLANs) == 0 {
		return nil
	}
	var found []site.Finding
	forBonds := keys(n.Interfaces)
	ports := slices.Concat(forBonds, keys(n.Bonds))
	forBridges := slices.Concat(ports, keys(n.VLANs))
	forVLANs := slices.Concat(ports, keys(n.Bridges))
	check := func(path, name, place, what string, known []string) {
		if name == "" || slices.Contains(known, name) {
			return
		}
		if is := sortOf(n, name); is != "" {
			found = append(found, wrong(path, fmt.Sprintf("%s is a %s, and %s cannot be one", name, is, place),
				fmt.Sprintf("Name an %s here: bonds are made of interfaces, VLANs and bridges come on top of them.", what)))
			return
		}
		found = append(found, wrong(path, fmt.Sprintf("%q is no %s of the node%s", name, what, DidYouMean(name, known)),
			"Use the name of one, or declare it."))
	}
	for _, b := range keys(n.Bonds) {
		for _, m := range n.Bonds[b].Members {
			check("bonds."+b+".members", m, "a member of a bond", "interface", forBonds)
		}
	}
	for _, b := range keys(n.Bridges) {
		for _, m := range n.Bridges[b].Members {
			check("bridges."+b+".members", m, "a member of a bridge", "interface, bond or VLAN", forBridges)
		}
	}
	for _, v := range keys(n.VLANs) {
		check("vlans."+v+".parent", n.VLANs[v].Parent, "the parent of a VLAN", "interface, bond or bridge", forVLANs)
	}
	return found
}

// sortOf returns the kind of a name that stands for a bond, a bridge or a VLAN;
// empty for any other name.
func sortOf(n *site.Node, name string) string {
	if _, ok := n.Bonds[name]; ok {
		return "bond"
	}
	if _, ok := n.Bridges[name]; ok {
		return "bridge"
	}
	if _, ok := n.VLANs[name]; ok {
		return "VLAN"
	}
	return ""
}

// group is a bond or bridge with its members.
type group struct {
	path    string
	members []string
}

func groups(n *site.Node) []group {
	var all []group
	for _, name := range keys(n.Bonds) {
		all = append(all, group{"bonds." + name, n.Bonds[name].Members})
	}
	for _, name := range keys(n.Bridges) {
		all = append(all, group{"bridges." + name, n.Bridges[name].Members})
	}
	return all
}

func memberTwice(_ *site.Site, n *site.Node) []site.Finding {
	if len(n.Bonds)+len(n.Bridges) == 0 {
		return nil
	}
	var found []site.Finding
	in := map[string]string{}
	for _, g := range groups(n) {
		for _, m := range g.members {
			if strings.HasPrefix(g.path, "bonds.") && sortOf(n, m) != "" {
				continue // unknown-member reports it
			}
			if before, ok := in[m]; ok {
				found = append(found, wrong(g.path+".members", fmt.Sprintf("%s is a member of %s and of %s", m, before, g.path), "Keep it in one of them, once."))
			}
			in[m] = g.path
		}
	}
	for _, c := range carriers(n) {
		if c.section != "vlans" && len(c.networks) > 0 && in[c.name] != "" {
			found = append(found, wrong(c.path()+".networks",
				fmt.Sprintf("%s carries networks itself and is a member of %s", c.name, in[c.name]),
				fmt.Sprintf("Let %s carry them.", in[c.name])))
		}
	}
	for _, name := range keys(n.VLANs) {
		if parent := n.VLANs[name].Parent; strings.HasPrefix(in[parent], "bonds.") {
			found = append(found, wrong("vlans."+name+".parent",
				fmt.Sprintf("%s carries the VLAN %s and is a member of %s", parent, name, in[parent]),
				fmt.Sprintf("Write %q.", strings.TrimPrefix(in[parent], "bonds."))))
		}
	}
	return found
}

// eachNetwork checks every network that the carriers of a node carry; i is its
// position in the carrier.
func eachNetwork(n *site.Node, check func(c carrier, network string, i int) []site.Finding) []site.Finding {
	var found []site.Finding
	for _, c := range carriers(n) {
		for i, network := range c.networks {
			found = append(found, check(c, network, i)...)
		}
	}
	return found
}

func interfaceNetwork(s *site.Site, n *site.Node) []site.Finding {
	return eachNetwork(n, func(c carrier, network string, i int) []site.Finding {
		l := s.Links[c.link]
		if l == nil || s.Networks[network] == nil || len(l.Networks) == 0 || slices.Contains(l.Networks, network) || network == l.Native {
			return nil
		}
		return []site.Finding{also(s, "links."+c.link+".networks", wrong(c.networkPath(i),
			fmt.Sprintf("%s carries the network %s, and its link %s does not", c.name, network, c.link),
			fmt.Sprintf("Use one of its networks (%s), or let the link carry %s too.", strings.Join(l.Networks, ", "), network)))}
	})
}

// networksUntrunked leaves interfaces with a link to interface-network and
// trunk-needed.
func networksUntrunked(s *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, c := range carriers(n) {
		if c.section == "interfaces" && !states(n, c.path()+".link") && severalWires(s, c.networks) {
			found = append(found, wrong(c.path()+".networks",
				fmt.Sprintf("%s carries %d networks (%s), and has no link that says which of them have a tag", c.name, len(c.networks), strings.Join(c.networks, ", ")),
				"Set its link to a trunk, or keep one network."))
		}
	}
	return found
}

func nativeTagged(s *site.Site, n *site.Node) []site.Finding {
	return eachNetwork(n, func(c carrier, network string, i int) []site.Finding {
		l := s.Links[c.link]
		if c.section != "vlans" || l == nil || !slices.Contains(l.Networks, network) || tagged(s, l, network) || !l.Trunk && severalWires(s, l.Networks) {
			return nil
		}
		return []site.Finding{also(s, "links."+c.link, wrong(c.networkPath(i),
			fmt.Sprintf("the link %s carries the network %s without a tag, and %s puts one on", c.link, network, c.name),
			fmt.Sprintf("List it in the networks of %s instead.", n.VLANs[c.name].Parent)))}
	})
}

// inBridge reports whether a bridge has a member.
func inBridge(n *site.Node, member string) bool {
	for _, b := range n.Bridges {
		if slices.Contains(b.Members, member) {
			return true
		}
	}
	return false
}

func networkTwice(_ *site.Site, n *site.Node) []site.Finding {
	first := map[string]string{}
	return eachNetwork(n, func(c carrier, network string, i int) []site.Finding {
		before, ok := first[network]
		if c.section == "vlans" && inBridge(n, c.name) {
			return nil // the node is in the network through the bridge
		}
		first[network] = c.path()
		if !ok {
			return nil
		}
		return []site.Finding{wrong(c.networkPath(i), fmt.Sprintf("the network %s is carried by %s and by %s", network, before, c.path()), "Keep one of them.")}
	})
}

func bridgeSTP(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, name := range keys(n.Bridges) {
		b := n.Bridges[name]
		out := slices.DeleteFunc(slices.Clone(b.Members), func(m string) bool { return !isPort(n, m) })
		if path := "bridges." + name; len(out) > 1 && !b.STP && !states(n, path+".stp") {
			found = append(found, wrong(path+".members", fmt.Sprintf("%s connects %s and says nothing of stp", name, strings.Join(out, " and ")),
				"Set stp: true; or false where you know that there is no loop."))
		}
	}
	return found
}

func sriov(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	off := map[string]*bool{"sriov": n.BIOS.SRIOV, "iommu": n.BIOS.IOMMU}
	for _, name := range keys(n.Interfaces) {
		for _, setting := range keys(off) {
			if on, virtual := off[setting], n.Interfaces[name].SRIOV; virtual == nil || virtual.Functions == 0 || on == nil || *on {
				continue
			}
			f := wrong("interfaces."+name+".sriov.functions", fmt.Sprintf("%s has virtual functions, and bios.%s is false", name, setting),
				fmt.Sprintf("Set bios.%s: true, or remove the functions.", setting))
			f.Related = []string{n.Origins.Of("bios." + setting).String()}
			found = append(found, f)
		}
	}
	return found
}

// isPort reports whether a name is an interface or a bond, which lead to a
// switch directly.
func isPort(n *site.Node, name string) bool {
	_, isInterface := n.Interfaces[name]
	_, isBond := n.Bonds[name]
	return isInterface || isBond
}

func networkWithoutAddress(s *site.Site, n *site.Node) []site.Finding {
	return eachNetwork(n, func(c carrier, network string, i int) []site.Finding {
		if net := s.Networks[network]; net == nil || net.Autoconfigure || states(n, "addresses."+network) || inBridge(n, c.name) {
			return nil
		}
		return []site.Finding{wrong(c.networkPath(i), fmt.Sprintf("%s carries the network %s, in which the node has no address", c.name, network),
			fmt.Sprintf(`Set addresses.%s, or suppress this if guests use it.`, network))}
	})
}
