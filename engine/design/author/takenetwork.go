package author

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// NetworkKey stands for all interfaces of a node, which are taken over together or not at
// all.
const NetworkKey = "network"

// network is what the nodes of a takeover share: networks, and links of bonds and trunks.
// New networks and links are written once.
type network struct {
	site     *site.Site
	networks map[string]*site.Network // of the design, and new ones
	links    map[string]*site.Link
	said     map[string]branch // what is written of networks and links, by path
	fixed    map[string]bool   // networks in which a designed interface has an address
	listens  map[string]bool   // by IPv6 network, whether the interfaces found there use router advertisements
}

func newNetwork(t Takeover) *network {
	w := &network{site: t.Site, networks: map[string]*site.Network{}, links: maps.Clone(t.Site.Links), said: map[string]branch{}, fixed: map[string]bool{}, listens: map[string]bool{}}
	for name, n := range t.Site.Networks {
		own := *n
		own.Routes = maps.Clone(n.Routes)
		w.networks[name] = &own
	}
	if w.links == nil {
		w.links = map[string]*site.Link{}
	}
	for _, n := range t.Site.Nodes {
		if len(n.References.Links) > 0 {
			for name := range n.Addresses {
				w.fixed[name] = true
			}
		}
	}
	return w
}

// fields returns the networks and links that are new or changed.
func (w *network) fields() branch {
	top := branch{}
	for path, value := range w.said {
		put(top, strings.SplitN(path, "/", 2), value)
	}
	return top
}

// add returns the interfaces of a node as lines of its design. If the design cannot express
// one of them, add returns no lines and says why.
func (w *network) add(n *site.Node, items []item.Item, dropped string) (lines []line, why string) {
	switch {
	case len(items) == 0:
		return nil, ""
	case dropped != "":
		return nil, dropped
	case len(n.Interfaces)+len(n.Bonds)+len(n.Bridges)+len(n.VLANs) > 0 || n.IsVirtual():
		return nil, "" // the design already sets interfaces
	}
	// A node that fails must leave nothing in the shared networks and links.
	before := network{w.site, map[string]*site.Network{}, maps.Clone(w.links), maps.Clone(w.said), w.fixed, maps.Clone(w.listens)}
	for name, net := range w.networks {
		own := *net
		own.Routes = maps.Clone(net.Routes)
		before.networks[name] = &own
	}
	for path, value := range before.said {
		before.said[path] = maps.Clone(value)
	}
	m := &wired{network: w, node: n, links: map[string]item.Link{}, addresses: map[string]string{}, extra: map[string][]string{}, routes: map[string]site.Route{}, carried: map[string][]string{}, defaults: map[site.IPFamily]string{}}
	for _, i := range items {
		var l item.Link
		if why := bodyOf(i, &l); why != "" {
			m.fail(i.Key, "%s", why)
			break
		}
		m.links[item.ID(i.Key)] = l
		m.leases = append(m.leases, lease{item.ID(i.Key), i.Fields["leased"]})
	}
	lines = m.lines()
	for _, l := range lines {
		if hides(l.value) {
			m.fail(strings.Join(l.path, "."), "it has invisible or control characters")
		}
	}
	if m.why != "" {
		*w = before
		return nil, m.why
	}
	return lines, ""
}

// wired is one node whose interfaces are written as a design.
type wired struct {
	*network
	node      *site.Node
	links     map[string]item.Link
	leases    []lease
	addresses map[string]string   // by network
	extra     map[string][]string // further ones
	routes    map[string]site.Route
	carried   map[string][]string      // networks by interface
	defaults  map[site.IPFamily]string // the network of the default route
	why       string                   // the first thing that the design cannot express
}

type lease struct{ link, prefixes string }

func (m *wired) fail(what, format string, args ...any) {
	if m.why == "" {
		m.why = what + ": " + fmt.Sprintf(format, args...)
	}
}

// lines returns the node's interfaces and addresses.
func (m *wired) lines() (lines []line) {
	names := slices.Sorted(maps.Keys(m.links))
	for _, name := range names {
		m.place(name, m.links[name])
	}
	for _, l := range m.leases {
		m.lease(l)
	}
	add := func(value any, path ...string) {
		lines = append(lines, line{site.FacetNetwork, NetworkKey, path, value})
	}
	for _, name := range names {
		section, value := m.inDesign(name, m.links[name])
		add(value, section, name)
	}
	for _, name := range slices.Sorted(maps.Keys(m.addresses)) {
		if m.node.Addresses[name] == "" {
			add(m.addresses[name], "addresses", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.extra)) {
		add(m.extra[name], "extraAddresses", name)
	}
	for _, key := range slices.Sorted(maps.Keys(m.routes)) {
		add(inWords(m.routes[key]), "routes", key)
	}
	if primary := m.primary(); primary != "" {
		add(primary, "primaryNetwork")
	}
	return lines
}

// primary returns the primary network that the design must name for the node to keep its
// default routes; empty where it need not name one.
func (m *wired) primary() string {
	as := &site.Site{Networks: m.networks}
	n := &site.Node{PrimaryNetwork: m.node.PrimaryNetwork, Addresses: maps.Clone(m.addresses), Interfaces: map[string]site.Interface{}}
	maps.Copy(n.Addresses, m.node.Addresses)
	for id, networks := range m.carried {
		n.Interfaces[id] = site.Interface{Networks: networks}
	}
	says := func(primary string) bool {
		n.PrimaryNetwork = primary
		return !slices.ContainsFunc(site.IPFamilies, func(f site.IPFamily) bool {
			chosen, _ := as.DefaultNetwork(n, f)
			return m.defaults[f] != "" && m.defaults[f] != chosen
		})
	}
	if says(m.node.PrimaryNetwork) {
		return ""
	}
	for _, f := range site.IPFamilies {
		if m.node.PrimaryNetwork == "" && m.defaults[f] != "" && says(m.defaults[f]) {
			return m.defaults[f]
		}
	}
	m.fail("primaryNetwork", "its default routes are by the gateways of the networks %s, and no primary network says so", strings.Join(slices.Sorted(maps.Values(m.defaults)), " and "))
	return ""
}

// place finds the networks of an interface's addresses, and their routes and name servers.
func (m *wired) place(id string, l item.Link) {
	if l.DHCP6 {
		m.fail(id, "it has addresses from DHCPv6, which a design cannot say")
	}
	for _, a := range l.Addresses {
		prefix, err := netip.ParsePrefix(a)
		if err != nil {
			m.fail(id, "%q is not an address", a)
			return
		}
		name := m.networkOf(prefix.Masked(), l.VLAN)
		if m.isShared(name, prefix.Addr()) {
			continue
		}
		m.join(id, name, prefix.Addr().String())
		if prefix.Addr().Is6() && !l.SLAAC {
			m.autoconfigured(id, name, false)
		}
	}
	if l.SLAAC {
		m.announced(id, l)
	}
	if l.Kind == "vlan" && len(m.carried[id]) != 1 && m.why == "" {
		m.fail(id, "a VLAN of a design is in one network, and this one is in %d", len(m.carried[id]))
	}
	for _, r := range l.Routes {
		m.route(id, r)
	}
	if len(l.Servers)+len(l.Search) > 0 {
		m.names(id, l)
	}
}

// join puts an interface into a network.
func (m *wired) join(id, name, address string) {
	if name == "" || m.why != "" {
		return
	}
	if has := m.node.Addresses[name]; has != "" && has != address {
		m.fail(id, "it has %s in the network %s, and the design gives the node %s there", address, name, has)
		return
	}
	if has, twice := m.addresses[name]; twice {
		if !slices.Contains(m.carried[id], name) || has == site.AddressDHCP || address == site.AddressDHCP {
			m.fail(id, "the node has two addresses in the network %s, %s and %s, that are on several interfaces or not permanent", name, has, address)
			return
		}
		m.extra[name] = append(m.extra[name], address)
		return
	}
	m.addresses[name] = address
	m.carried[id] = append(m.carried[id], name)
}

// isShared reports whether an address is a shared one of a designed network, and so not the
// node's own.
func (m *wired) isShared(name string, a netip.Addr) bool {
	net := m.networks[name]
	if net == nil {
		return false
	}
	for _, s := range net.Shared {
		if s.Address == a.String() {
			return true
		}
	}
	return false
}

// announced puts an interface into the networks that routers announce to it.
func (m *wired) announced(id string, l item.Link) {
	found := false
	for _, lease := range m.leases {
		for _, text := range strings.Split(lease.prefixes, ", ") {
			prefix, err := netip.ParsePrefix(text)
			if lease.link != id || err != nil || !prefix.Addr().Is6() || prefix.Bits() != 64 {
				continue
			}
			name := m.networkOf(prefix.Masked(), l.VLAN)
			if name == "" {
				return
			}
			found = true
			m.autoconfigured(id, name, true)
			if !slices.Contains(m.carried[id], name) {
				m.carried[id] = append(m.carried[id], name)
			}
		}
	}
	if !found {
		m.fail(id, "it listens to router advertisements and got no address from them, so its network is not known")
	}
}

// autoconfigured checks that all interfaces of a network use router advertisements, or
// none.
func (m *wired) autoconfigured(id, name string, is bool) {
	net := m.networks[name]
	if net == nil {
		return
	}
	said, asked := m.listens[name]
	switch {
	case asked && said != is, net.Autoconfigure != is && (m.fixed[name] || !is):
		m.fail(id, "some interfaces in the network %s listen to router advertisements and some do not, and a design has one of the two", name)
	case is && !net.Autoconfigure:
		net.Autoconfigure = true
		m.say("networks/"+name, "autoconfigure", true)
	}
	m.listens[name] = is
}

// networkOf returns the network of a range. It makes a new one if there is none.
func (m *wired) networkOf(cidr netip.Prefix, vlan int) string {
	for _, name := range slices.Sorted(maps.Keys(m.networks)) {
		has, err := netip.ParsePrefix(m.networks[name].CIDR)
		switch {
		case err != nil || !has.Overlaps(cidr):
			continue
		case has.Masked() != cidr:
			m.fail(cidr.String(), "the design has the network %s (%s) over the same addresses", name, has)
			return ""
		}
		net := m.networks[name]
		switch {
		case vlan == 0 || net.VLAN == vlan:
		case net.VLAN != 0 || m.fixed[name]:
			m.fail(name, "a node is in it by VLAN %d, and the design has %d", vlan, net.VLAN)
		default:
			net.VLAN = vlan
			m.say("networks/"+name, "vlan", int64(vlan))
		}
		return name
	}
	name := spare(slug("net-"+cidr.String()), m.taken())
	m.networks[name] = &site.Network{CIDR: cidr.String(), VLAN: vlan}
	m.say("networks/"+name, "cidr", cidr.String())
	if vlan != 0 {
		m.say("networks/"+name, "vlan", int64(vlan))
	}
	return name
}

func (m *wired) taken() map[string]bool {
	taken := map[string]bool{}
	for name := range m.networks {
		taken[name] = true
	}
	return taken
}

func (w *network) say(path, field string, value any) {
	if w.said[path] == nil {
		w.said[path] = branch{}
	}
	w.said[path][field] = value
}

// route adds a route to the network whose range contains the route's gateway.
func (m *wired) route(id string, r item.Route) {
	via, err := netip.ParseAddr(r.Via)
	name := m.around(id, via)
	if err != nil || name == "" {
		m.fail(id, "its route to %s goes by %q, which is in no network of this interface", r.To, r.Via)
		return
	}
	net, isDefault := m.networks[name], r.To == "0.0.0.0/0" || r.To == "::/0"
	if isDefault && r.Metric == 0 {
		m.defaults[net.IPFamily()] = name
		switch {
		case net.Gateway == r.Via:
		case net.Gateway != "" || m.fixed[name]:
			m.fail(id, "its gateway is %s, and the network %s of the design has %q", r.Via, name, net.Gateway)
		default:
			net.Gateway = r.Via
			m.say("networks/"+name, "gateway", r.Via)
		}
		return
	}
	for _, has := range net.Routes {
		if has.To == r.To && has.Gateway == r.Via && has.Metric == r.Metric {
			return
		}
	}
	key := slug("to-" + r.To)
	if isDefault {
		key = "default"
	}
	for _, has := range net.Routes {
		if has.To == r.To && has.Metric == r.Metric {
			m.fail(id, "the routes of the network %s to %s differ", name, r.To)
			return
		}
	}
	if _, twice := m.routes[key]; twice || net.Routes[key].To != "" {
		m.fail(id, "it has several routes to %s", r.To)
		return
	}
	if m.fixed[name] { // the network's other nodes do not have it
		m.routes[key] = site.Route{To: r.To, Gateway: r.Via, Metric: r.Metric}
		return
	}
	if net.Routes == nil {
		net.Routes = map[string]site.Route{}
	}
	net.Routes[key] = site.Route{To: r.To, Gateway: r.Via, Metric: r.Metric}
	routes := branch{}
	for key, r := range net.Routes {
		if m.site.Networks[name] == nil || m.site.Networks[name].Routes[key] != r {
			routes[key] = inWords(r)
		}
	}
	m.say("networks/"+name, "routes", routes)
}

// inWords returns a route in the design's terms.
func inWords(r site.Route) branch {
	route := branch{"to": r.To, "gateway": r.Gateway}
	if r.Metric != 0 {
		route["metric"] = r.Metric
	}
	return route
}

// around returns the network of an interface that contains an address.
func (m *wired) around(id string, a netip.Addr) string {
	for _, name := range m.carried[id] {
		if cidr, err := netip.ParsePrefix(m.networks[name].CIDR); err == nil && cidr.Contains(a) {
			return name
		}
	}
	return ""
}

// names sets the name servers of an interface on its first network.
func (m *wired) names(id string, l item.Link) {
	if len(m.carried[id]) == 0 || len(l.Search) > 1 {
		m.fail(id, "a design sets name servers only on an interface with an address, and only one search domain")
		return
	}
	name := m.carried[id][0]
	net := m.networks[name]
	dns := site.DNS{Servers: l.Servers}
	if len(l.Search) > 0 {
		dns.Domain = l.Search[0]
	}
	isSaid := len(net.DNS.Servers) > 0 || net.DNS.Domain != ""
	switch {
	case dns.Domain == net.DNS.Domain && slices.Equal(dns.Servers, net.DNS.Servers):
	case isSaid || m.fixed[name]:
		m.fail(id, "its name servers are %s, and the network %s of the design has others", item.DNSText(l.Servers, l.Search), name)
	default:
		net.DNS = dns
		value := branch{}
		value.list("servers", dns.Servers)
		value.set("domain", dns.Domain)
		m.say("networks/"+name, "dns", value)
	}
}
