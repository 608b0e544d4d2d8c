package author

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// lease puts an interface into the network of its leased address.
func (m *wired) lease(l lease) {
	for _, text := range strings.Split(l.prefixes, ", ") {
		prefix, err := netip.ParsePrefix(text)
		if l.prefixes == "" || err != nil || !prefix.Addr().Is4() {
			continue
		}
		name := ""
		for _, candidate := range slices.Sorted(maps.Keys(m.networks)) {
			if cidr, err := netip.ParsePrefix(m.networks[candidate].CIDR); err == nil && cidr == prefix.Masked() {
				name = candidate
			}
		}
		if name == "" {
			m.fail(l.link, "it has %s by DHCP; write a network %s with a range of the use \"dhcp\", and take it over again", prefix.Addr(), prefix.Masked())
			return
		}
		m.join(l.link, name, site.AddressDHCP)
	}
}

// inDesign returns an interface in the design's terms.
func (m *wired) inDesign(id string, l item.Link) (section string, value branch) {
	value = branch{}
	if l.MTU != 0 {
		value["mtu"] = int64(l.MTU)
	}
	value.list("networks", m.carried[id])
	switch l.Kind {
	case "bond":
		value.list("members", l.Members)
		if l.Bond != nil {
			value.set("primary", l.Bond.Primary)
		}
		value["link"] = m.linkOf(id, l)
		return "bonds", value
	case "bridge":
		value.list("members", l.Members)
		if l.STP {
			value["stp"] = true
		}
		return "bridges", value
	case "vlan":
		delete(value, "networks")
		value.set("parent", l.Parent)
		if len(m.carried[id]) == 1 {
			value["network"] = m.carried[id][0]
		}
		return "vlans", value
	}
	value.set("mac", strings.ToLower(l.MAC))
	if l.Functions > 0 {
		value["sriov"] = branch{"functions": int64(l.Functions)}
	}
	if bond := m.bondOf(id); bond != "" {
		value["link"] = m.linkOf(bond, m.links[bond])
	} else if len(m.tagged(id)) > 0 {
		value["link"] = m.linkOf(id, l)
	}
	return "interfaces", value
}

// bondOf returns the bond that an interface is a member of.
func (m *wired) bondOf(id string) string {
	for name, l := range m.links {
		if l.Kind == "bond" && slices.Contains(l.Members, id) {
			return name
		}
	}
	return ""
}

// tagged returns the networks of the VLANs on an interface.
func (m *wired) tagged(id string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(m.links)) {
		if l := m.links[name]; l.Kind == "vlan" && l.Parent == id {
			all = append(all, m.carried[name]...)
		}
	}
	return all
}

// linkOf returns the link of an interface or bond. It makes a new link if no node
// has one like it.
func (m *wired) linkOf(id string, l item.Link) string {
	tagged := m.tagged(id)
	link := site.Link{Networks: slices.Concat(m.carried[id], tagged), Trunk: len(tagged) > 0}
	value := branch{"networks": link.Networks}
	if link.Networks == nil {
		value["networks"], link.Networks = []string{}, []string{}
	}
	if l.MTU != 0 {
		value["mtu"] = int64(l.MTU)
	}
	if link.Trunk {
		value["trunk"] = true
		if len(m.carried[id]) > 0 {
			link.Native = m.carried[id][0]
			value["native"] = link.Native
		}
	}
	if b := l.Bond; b != nil {
		bonding := branch{"mode": b.Mode}
		bonding.set("lacpRate", b.LACPRate)
		bonding.set("hashPolicy", b.HashPolicy)
		for name, ms := range map[string]int{"monitor": b.Monitor, "upDelay": b.UpDelay, "downDelay": b.DownDelay} {
			if ms != 0 {
				bonding[name] = (time.Duration(ms) * time.Millisecond).String()
			}
		}
		if b.MinLinks > 0 {
			bonding["minLinks"] = int64(b.MinLinks)
		}
		value["bonding"] = bonding
	}
	for name := range m.network.links {
		if said, ours := m.said["links/"+name]; ours && inJSON(said) == inJSON(value) {
			return name
		}
	}
	taken := map[string]bool{}
	for name := range m.network.links {
		taken[name] = true
	}
	name := spare(slug(id), taken)
	m.network.links[name] = &link
	m.said["links/"+name] = value
	return name
}
