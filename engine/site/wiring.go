package site

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
)

// ReferencesOf resolves the names in a node's design.
func (s *Site) ReferencesOf(n *Node) References {
	r := References{Authorities: s.SSH.Users}
	if gone := s.SSH.Revoked; len(gone.People)+len(gone.Keys) > 0 {
		r.Revoked = &item.Revoked{Site: s.Name, People: gone.People, Keys: gone.Keys}
	}
	if image := s.Images[n.Image]; image != nil {
		r.Family = image.Family
		r.ByAgent, r.WholeDisk = image.ByAgent() && !n.IsVirtual(), image.IsDisk() && !n.IsVirtual()
	}
	if r.ByAgent || n.Retires() {
		r.Start = s.StartOf(n)
	}
	if role := s.Roles[n.Role]; role != nil {
		r.Health = role.Health
	}
	if len(n.Interfaces)+len(n.Bonds)+len(n.Bridges)+len(n.VLANs) > 0 {
		if links, err := s.Wiring(n); err == nil { // otherwise a rule reports what is wrong
			r.Links = links
		}
	}
	if len(s.SSH.Hosts) > 0 {
		r.HostNames = s.hostNames(n, r.Links)
	}
	if len(s.TLS.Authorities) > 0 {
		r.TLS, r.TLSNames = s.TLS.Authorities, tlsNames(s.hostNames(n, r.Links))
	}
	systems := slices.AppendSeq([]System{n.System}, maps.Values(n.Families))
	for name, a := range s.BootActions {
		if !a.Nodes.Selects(n) {
			continue
		}
		if r.Actions == nil {
			r.Actions = map[string]BootAction{}
		}
		own := *a
		own.Description, own.Nodes = "", nil
		r.Actions[name] = own
		systems = append(systems, System{Files: a.Files})
	}
	var artifacts []string
	for _, system := range systems {
		for _, f := range system.Files {
			artifacts = append(artifacts, f.Artifact)
		}
	}
	r.Derived = s.derivedOf(n)
	drivers, firmware := s.driversFor(n)
	r.Drivers = drivers
	for _, name := range append(artifacts, firmware...) {
		a := s.Artifacts[name]
		if a == nil {
			continue // a rule reports names of artifacts that do not exist
		}
		if r.Artifacts == nil {
			r.Artifacts = map[string]Artifact{}
		}
		r.Artifacts[name] = *a
	}
	return r
}

// Wiring returns a node's interfaces, bonds, bridges and VLANs by name, with the settings of its
// networks and links. It is the only place that knows how a node reaches its networks. The error is
// the first inconsistency.
func (s *Site) Wiring(n *Node) (map[string]item.Link, error) {
	w := wiring{site: s, node: n, links: map[string]item.Link{}}
	w.ethernets()
	for name, b := range n.Bonds {
		l := w.carrier(b.Link, b.Networks, b.MTU)
		l.Kind, l.Members, l.Bond = "bond", b.Members, w.bonding(b)
		w.links[name] = l
	}
	for name, b := range n.Bridges {
		l := w.carrier("", b.Networks, b.MTU)
		l.Kind, l.Members, l.STP = "bridge", b.Members, b.STP
		w.links[name] = l
	}
	for name, v := range n.VLANs {
		l := w.carrier("", []string{v.Network}, v.MTU)
		if w.inBridge(name) { // the bridge has the addresses then
			l = item.Link{MTU: l.MTU}
		}
		l.Kind, l.Parent = "vlan", v.Parent
		if net := s.Networks[v.Network]; net != nil {
			l.VLAN = net.VLAN
		}
		w.links[name] = l
	}
	return w.links, w.err
}

func (w *wiring) inBridge(name string) bool {
	for _, b := range w.node.Bridges {
		if slices.Contains(b.Members, name) {
			return true
		}
	}
	return false
}

// wiring collects what a node has; err is the first inconsistency.
type wiring struct {
	site  *Site
	node  *Node
	links map[string]item.Link
	err   error
}

// ethernets adds the designed interfaces, and all of a virtual machine. Those that the design does
// not mention exist without configuration.
func (w *wiring) ethernets() {
	for name, i := range w.node.Interfaces {
		l := w.carrier(i.Link, i.Networks, i.MTU)
		l.Kind, l.MAC, l.PCI = "ethernet", w.node.MACOf(name), w.node.PCIOf(name)
		if i.SRIOV != nil {
			l.Functions, l.Trusted = i.SRIOV.Functions, i.SRIOV.Trusted
		}
		w.links[name] = l
	}
	for name, v := range w.node.Virtual.Interfaces {
		l := w.links[name]
		l.Kind, l.MAC, l.PCI = "ethernet", v.MAC, ""
		w.links[name] = l
	}
	if !w.node.IsVirtual() {
		return
	}
	maps.DeleteFunc(w.links, func(name string, _ item.Link) bool {
		_, there := w.node.Virtual.Interfaces[name]
		return !there
	})
}

// bonding returns how a bond's members are used, from its link.
func (w *wiring) bonding(b Bond) *item.Bond {
	its := &item.Bond{Primary: b.Primary}
	if l := w.site.Links[b.Link]; l != nil && l.Bonding != nil {
		o := l.Bonding
		its.Mode, its.LACPRate, its.HashPolicy, its.MinLinks = o.Mode, o.LACPRate, o.HashPolicy, o.MinLinks
		its.Monitor, its.UpDelay, its.DownDelay = milliseconds(o.Monitor), milliseconds(o.UpDelay), milliseconds(o.DownDelay)
	}
	return its
}

func milliseconds(d Duration) int { return int(time.Duration(d) / time.Millisecond) }

// carrier returns what every kind of interface has: addresses and routes in the networks that it
// carries.
func (w *wiring) carrier(link string, networks []string, mtu int) item.Link {
	var l item.Link
	for _, name := range networks {
		net, address := w.site.Networks[name], w.node.Addresses[name]
		if net == nil {
			continue
		}
		l.SLAAC = l.SLAAC || net.Autoconfigure
		if address == "" && !net.Autoconfigure {
			continue
		}
		if mtu == 0 {
			mtu = net.MTU
		}
		l.Shared = append(l.Shared, net.sharedBy(w.node)...)
		l.Routes = append(l.Routes, w.ownRoutes(name, net)...)
		if address == AddressDHCP {
			l.DHCP4, l.DHCP6 = l.DHCP4 || net.IPFamily() == IPv4, l.DHCP6 || net.IPFamily() == IPv6
			continue
		}
		if address != "" {
			l.Addresses = append(l.Addresses, w.withLength(name, address, net.CIDR))
		}
		for _, more := range w.node.ExtraAddresses[name] {
			l.Addresses = append(l.Addresses, w.withLength(name, more, net.CIDR))
		}
		l.Routes = append(l.Routes, w.routes(name, net)...)
		l.Servers = append(l.Servers, net.DNS.Servers...)
		if net.DNS.Domain != "" {
			l.Search = append(l.Search, net.DNS.Domain)
		}
	}
	if sw := w.site.Links[link]; mtu == 0 && sw != nil {
		mtu = sw.MTU
	}
	l.MTU = mtu
	return l
}

// withLength returns an address with the prefix length of its network.
func (w *wiring) withLength(network, address, cidr string) string {
	prefix, err := netip.ParsePrefix(cidr)
	if err == nil {
		_, err = netip.ParseAddr(address)
	}
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("address %q in network %q (%s): %w", address, network, cidr, err)
	}
	return fmt.Sprintf("%s/%d", address, prefix.Bits())
}

// routes returns the routes of a network. The default route uses the network that DefaultNetwork
// picks for its family.
func (w *wiring) routes(name string, net *Network) []item.Route {
	var routes []item.Route
	if first, _ := w.site.DefaultNetwork(w.node, net.IPFamily()); net.Gateway != "" && name == first {
		routes = append(routes, item.Route{To: net.IPFamily().everything(), Via: net.Gateway})
	}
	for _, key := range slices.Sorted(maps.Keys(net.Routes)) {
		routes = append(routes, w.over(name, net.Routes[key])...)
	}
	return routes
}

// ownRoutes returns the node's own routes over a gateway in a network.
func (w *wiring) ownRoutes(name string, net *Network) []item.Route {
	prefix, err := netip.ParsePrefix(net.CIDR)
	if err != nil {
		return nil
	}
	var routes []item.Route
	for _, key := range slices.Sorted(maps.Keys(w.node.Routes)) {
		r := w.node.Routes[key]
		if via, err := netip.ParseAddr(r.Gateway); err == nil && prefix.Contains(via) {
			routes = append(routes, w.over(name, r)...)
		}
	}
	return routes
}

// over returns the routes over a gateway in a network, except those to networks that the node
// itself is in.
func (w *wiring) over(network string, r Route) (routes []item.Route) {
	for _, d := range w.site.Destinations(network, r) {
		if w.node.Addresses[d.Network] == "" {
			routes = append(routes, item.Route{To: d.Range.String(), Via: r.Gateway, Metric: r.Metric})
		}
	}
	return routes
}

// sharedBy returns the shared addresses of a network that a node may have.
func (n *Network) sharedBy(node *Node) []string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(n.Shared)) {
		if s := n.Shared[key]; s.Role == "" || s.Role == node.Role {
			all = append(all, s.Address)
		}
	}
	return all
}

// BootsOnly reports whether a network serves only to boot the machine from one of its ports. The
// installed system does not use it then.
func (n *Node) BootsOnly(network string) bool {
	boots := false
	for _, i := range n.Interfaces {
		boots = boots || i.Boot == network
	}
	return boots && !n.carriesNetwork(network)
}

func (n *Node) carriesNetwork(network string) bool {
	for _, i := range n.Interfaces {
		if slices.Contains(i.Networks, network) {
			return true
		}
	}
	for _, b := range n.Bonds {
		if slices.Contains(b.Networks, network) {
			return true
		}
	}
	for _, b := range n.Bridges {
		if slices.Contains(b.Networks, network) {
			return true
		}
	}
	for _, v := range n.VLANs {
		if v.Network == network {
			return true
		}
	}
	return false
}
