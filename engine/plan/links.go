package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Links compares the network links of a node, as its system last saw them, with the design: the
// ports, the other ends of their cables, and whether the node's networks carry what they should. It
// only reports, since people configure the switches. What nobody saw is unknown. The age of the
// observation is ignored.
func Links(s *site.Site, n *site.Node, o site.Observed, serves map[site.Facet]bool) (site.Links, []site.Finding) {
	if _, asks := n.LinkProbes(); !asks || !serves[site.FacetLinks] || s.Unused(n) != "" {
		return site.Links{}, nil
	}
	c := cabling{comparison: comparison{node: n}, site: s, seen: o.Links}
	_, c.sets = o.Facets[site.FacetNetwork]
	unread := unreadLinks(n, o)
	asks := false
	for _, name := range slices.Sorted(maps.Keys(n.Interfaces)) {
		if n.Carries(name) && !n.IsVirtual() {
			asks = true
			c.port(name)
		}
	}
	asks = c.networks() || asks
	switch {
	case !asks:
		return site.Links{}, nil
	case unread != "":
		return site.Links{State: site.LinksUnknown, Why: unread}, nil
	case len(c.found) > 0:
		return site.Links{State: site.LinksDiffer, Why: first(messages(c.found))}, c.found
	case len(c.unknown) > 0:
		return site.Links{State: site.LinksUnknown, Why: first(c.unknown)}, nil
	}
	return site.Links{State: site.LinksAsDesigned}, nil
}

// unreadLinks says why nobody has seen the links of a node; empty if somebody has.
func unreadLinks(n *site.Node, o site.Observed) string {
	_, reachable := n.Endpoints[site.OS]
	switch why := o.Facets[site.FacetLinks].Unread[string(site.FacetLinks)]; {
	case !reachable:
		return "Slipway cannot look at them: the design has no endpoint os for the node"
	case why != "":
		return why
	case o.Links == nil:
		return "they were not looked at yet"
	}
	return ""
}

// Port compares one port of a node with the design, as Links does. unknown says why it may differ without
// a finding; empty if that is known.
func Port(s *site.Site, n *site.Node, name string, o site.Observed) (found []site.Finding, unknown string) {
	if why := unreadLinks(n, o); why != "" {
		return nil, why
	}
	c := cabling{comparison: comparison{node: n}, site: s, seen: o.Links}
	_, c.sets = o.Facets[site.FacetNetwork]
	c.port(name)
	if len(c.unknown) > 0 {
		unknown = first(c.unknown)
	}
	return c.found, unknown
}

// heardFor is how long a neighbour that Slipway heard by itself stays recent.
const heardFor = 24 * time.Hour

// Listens reports whether to listen for neighbours at the node's ports: the design names a switch,
// and nobody has heard one recently.
func Listens(n *site.Node, o site.Observed, now time.Time) bool {
	return n.Unheard(o.Links, func(x item.Neighbour) bool { return now.Sub(x.Heard) >= heardFor })
}

func messages(found []site.Finding) (all []string) {
	for _, f := range found {
		all = append(all, f.Message)
	}
	return all
}

// first returns the first sentence and how many more there are.
func first(all []string) string {
	if more := len(all) - 1; more > 0 {
		return fmt.Sprintf("%s (and %d more)", all[0], more)
	}
	return all[0]
}

// cabling collects the differences and the unknowns in the links of one node.
type cabling struct {
	comparison
	site    *site.Site
	seen    *item.LinksSeen
	sets    bool // the facet network reports the settings of its interfaces
	unknown []string
}

func (c *cabling) doubt(format string, args ...any) {
	c.unknown = append(c.unknown, fmt.Sprintf(format, args...))
}

// port compares one port.
func (c *cabling) port(name string) {
	if c.seen == nil {
		return
	}
	at := "interfaces." + name
	p, there := c.node.PortOf(name, c.seen)
	switch {
	case !there:
		c.find("link-absent", at, "port %s is not there: the system has no interface of that name or address", name)
		return
	case p.Off:
		c.doubt("port %s is switched off in the system, so nothing is known of its cable", name)
		return
	case p.Carrier == "":
		c.doubt("port %s does not say whether it has a carrier", name)
		return
	case p.Carrier == "down":
		c.find("link-carrier", at+"."+c.cable(name), "port %s has no carrier: its cable is unplugged or broken, or the other end is off; %s", name, c.meant(name))
		return
	}
	c.neighbour(name, p)
	if link, path := c.node.LinkOf(name); link != "" && c.site.Links[link] != nil {
		switch rate := c.site.Links[link].Rate; {
		case rate == 0:
		case p.Speed == 0:
			c.doubt("port %s does not say how fast it is; link %s is designed for %s", name, link, rate)
		case site.Rate(p.Speed) < rate:
			c.find("link-rate", path, "port %s runs at %s, and link %s is designed for %s", name, site.Rate(p.Speed), link, rate)
		}
	}
	if p.Duplex == "half" {
		c.find("link-duplex", at, "port %s runs at half duplex: the settings of its two ends do not match", name)
	}
	// The facet network has a step for the MTU of an interface that Slipway configures.
	if mtu := c.node.References.Links[name].MTU; !c.sets && p.MTU < mtu {
		c.find("link-mtu", at+".mtu", "port %s has an MTU of %d, and is designed for %d", name, p.MTU, mtu)
	}
}

// cable is the field of an interface that describes best where it is plugged in.
func (c *cabling) cable(name string) string {
	i := c.node.Interfaces[name]
	switch {
	case i.Switch != "":
		return "switch"
	case i.Link != "":
		return "link"
	}
	return "networks"
}

// meant says where a port is designed to be plugged in.
func (c *cabling) meant(name string) string {
	i := c.node.Interfaces[name]
	link, _ := c.node.LinkOf(name)
	switch {
	case i.Switch != "" && i.Port != "":
		return fmt.Sprintf("it is designed for port %s of switch %s", i.Port, i.Switch)
	case i.Switch != "":
		return "it is designed for switch " + i.Switch
	case link != "":
		return "it is designed for link " + link
	}
	return "the design uses it"
}

// neighbour compares the LLDP neighbours of a port with its designed switch and port. One neighbour
// that fits is enough: some adapters send LLDP themselves.
func (c *cabling) neighbour(name string, p item.Port) {
	i := c.node.Interfaces[name]
	if i.Switch == "" {
		return
	}
	if len(p.Neighbours) == 0 {
		c.doubt("port %s has heard no LLDP from its other end, so Slipway does not know what it is plugged into; %s", name, c.meant(name))
		return
	}
	named := slices.DeleteFunc(slices.Clone(p.Neighbours), func(x item.Neighbour) bool { return x.System == "" })
	right := slices.DeleteFunc(slices.Clone(named), func(x item.Neighbour) bool { return !sameSwitch(x.System, i.Switch) })
	switch {
	case len(right) > 0 && (i.Port == "" || slices.ContainsFunc(right, func(x item.Neighbour) bool { return samePort(i.Port, x) })):
	case len(right) > 0:
		c.find("link-port", "interfaces."+name+".port", "port %s is plugged into port %s of switch %s; %s", name, portOf(right[0]), right[0].System, c.meant(name))
	case len(named) < len(p.Neighbours):
		c.doubt("port %s hears a switch that does not say its name (%s, port %s); %s", name, p.Neighbours[0].Chassis, portOf(p.Neighbours[0]), c.meant(name))
	default:
		c.find("link-switch", "interfaces."+name+".switch", "port %s is plugged into port %s of %s; %s", name, portOf(named[0]), named[0].System, c.meant(name))
	}
}

// portOf returns a neighbour's port for people.
func portOf(n item.Neighbour) string {
	if n.PortDescription != "" && n.PortDescription != n.Port {
		return fmt.Sprintf("%s (%s)", n.Port, n.PortDescription)
	}
	return n.Port
}

// sameSwitch compares an LLDP system name with the name of a switch in the design. The system name
// may include the switch's domain.
func sameSwitch(system, designed string) bool {
	short, _, _ := strings.Cut(system, ".")
	return strings.EqualFold(system, designed) || strings.EqualFold(short, designed)
}

// samePort compares a neighbour's port with the design's, by its ID or its description. Many
// switches abbreviate the names of their ports.
func samePort(designed string, n item.Neighbour) bool {
	return sameName(designed, n.Port) || sameName(designed, n.PortDescription)
}

// sameName reports whether two names mean the same port: "Eth1/7" and "Ethernet1/7".
func sameName(a, b string) bool {
	if strings.EqualFold(a, b) {
		return a != ""
	}
	letters := func(s string) int {
		return len(s) - len(strings.TrimLeft(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz"))
	}
	i, j := letters(a), letters(b)
	if a[i:] != b[j:] || a[i:] == "" || min(i, j) < 2 {
		return false
	}
	short, long := strings.ToLower(a[:i]), strings.ToLower(b[:j])
	if len(short) > len(long) {
		short, long = long, short
	}
	return strings.HasPrefix(long, short)
}

// networks compares whether gateways and other nodes answer in the node's networks. It returns
// whether the design names any that should. Silent nodes are reported only if no node that was
// tried answers.
func (c *cabling) networks() bool {
	gateways := c.site.Gateways(c.node)
	if c.seen == nil {
		return len(gateways) > 0
	}
	peers := map[string][]item.Reached{}
	asked := map[string]item.Reached{}
	for _, r := range c.seen.Reached {
		if r.Node == "" {
			asked[r.Network] = r
		} else {
			peers[r.Network] = append(peers[r.Network], r)
		}
	}
	for _, g := range gateways {
		r := asked[g.Network]
		what := fmt.Sprintf("the gateway %s of network %s", g.Address, g.Network)
		switch {
		case r.Address != g.Address:
			c.doubt("%s was not tried yet", what)
		case r.Answers == item.Silent:
			c.find("link-gateway", "addresses."+g.Network, "%s does not answer", what)
		case r.Answers == "":
			c.doubt("whether %s answers is not known: %s", what, cmp.Or(r.Why, "it was not tried"))
		case r.Sized == item.Silent:
			c.find("link-path", "addresses."+g.Network, "%s answers, but not to packets of %d bytes, for which the network is designed", what, r.MTU)
		}
	}
	for _, network := range slices.Sorted(maps.Keys(peers)) {
		c.peers(network, peers[network])
	}
	return len(gateways)+len(peers) > 0
}

// peers compares what was seen of other nodes in one network.
func (c *cabling) peers(network string, all []item.Reached) {
	var silent, small []string
	answers, whole := false, false
	for _, r := range all {
		answers = answers || r.Answers == item.Answered
		whole = whole || r.Sized == item.Answered
		switch {
		case r.Answers == item.Silent:
			silent = append(silent, fmt.Sprintf("%s (%s)", r.Node, r.Address))
		case r.Sized == item.Silent:
			small = append(small, fmt.Sprintf("%s (%s)", r.Node, r.Address))
		}
	}
	switch {
	case !answers && len(silent) > 0:
		c.find("link-peers", "addresses."+network, "no other node answers in network %s: tried %s", network, strings.Join(silent, ", "))
	case !whole && len(small) > 0:
		c.find("link-path", "addresses."+network, "in network %s packets of %d bytes, for which it is designed, do not arrive: tried %s, which answer small ones", network, sizeOf(all), strings.Join(small, ", "))
	}
}

func sizeOf(all []item.Reached) int {
	for _, r := range all {
		if r.Sized == item.Silent {
			return r.MTU
		}
	}
	return 0
}
