package redfish

import (
	"cmp"
	"context"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// adapters reads the network adapters with their ports: those of the chassis,
// and where those have none, those behind the system's interfaces to them.
func (i *inspection) adapters(ctx context.Context) error {
	for _, c := range i.chassis {
		members, err := i.members(ctx, link(c, "NetworkAdapters"))
		if err := i.addAdapters(ctx, members, err); err != nil {
			return err
		}
	}
	if i.inv.NICs != nil {
		return nil
	}
	behind, err := i.members(ctx, link(i.system.object, "NetworkInterfaces"))
	if over(ctx, err) {
		return err
	}
	i.miss("network adapters", err)
	var refs []object
	for _, o := range behind {
		refs = append(refs, at[object](o, "Links", "NetworkAdapter"))
	}
	members, err := i.each(ctx, refs, i.resource)
	return i.addAdapters(ctx, members, err)
}

// addAdapters adds what was read of adapters. The error is one that ends the
// walk.
func (i *inspection) addAdapters(ctx context.Context, members []object, err error) error {
	if over(ctx, err) {
		return err
	}
	i.miss("network adapters", err)
	for _, o := range members {
		if absent(o) {
			continue
		}
		nic, err := i.adapter(ctx, o)
		if i.addNIC(nic); err != nil {
			return err
		}
	}
	return nil
}

func (i *inspection) addNIC(nic site.NIC) {
	if i.inv.NICs == nil {
		i.inv.NICs = []site.NIC{}
	}
	i.inv.NICs = append(i.inv.NICs, nic)
}

// adapter is one adapter. Its ports are read from Ports, or from NetworkPorts,
// which came before; where they tell no address, the functions do. The error
// is one that ends the walk.
func (i *inspection) adapter(ctx context.Context, o object) (site.NIC, error) {
	nic := site.NIC{Part: part(o, label(o))}
	for _, c := range items(o, "Controllers") {
		nic.Firmware = cmp.Or(nic.Firmware, name(c, "FirmwarePackageVersion"))
		nic.Name = cmp.Or(nic.Name, label(c))
	}
	ports, err := i.members(ctx, cmp.Or(link(o, "Ports"), link(o, "NetworkPorts")))
	i.miss("ports of "+nic.ID, err)
	for _, p := range ports {
		nic.Ports = append(nic.Ports, port(p))
	}
	if over(ctx, err) || slices.ContainsFunc(nic.Ports, func(p site.Port) bool { return len(p.MACs) > 0 }) {
		return nic, ended(ctx, err)
	}
	functions, err := i.members(ctx, link(o, "NetworkDeviceFunctions"))
	i.miss("functions of "+nic.ID, err)
	for _, f := range functions {
		nic.Ports = withFunction(nic.Ports, ports, f)
	}
	return nic, ended(ctx, err)
}

// ended is an error if it ends the walk.
func ended(ctx context.Context, err error) error {
	if over(ctx, err) {
		return err
	}
	return nil
}

func port(o object) site.Port {
	p := site.Port{ID: name(o, "Id"), Link: linkState(o)}
	if p.Link == "up" {
		p.Mbps = int(max(amount(o, "CurrentSpeedGbps")*1000, amount(o, "CurrentLinkSpeedMbps")))
	}
	for _, list := range [][]string{at[[]string](o, "Ethernet", "AssociatedMACAddresses"), at[[]string](o, "AssociatedNetworkAddresses")} {
		for _, text := range list {
			p.MACs = withMAC(p.MACs, mac(text))
		}
	}
	return p
}

// maxMACs is how many addresses are kept of one port; a card with many virtual
// functions has hundreds.
const maxMACs = 16

func withMAC(all []string, address string) []string {
	if address == "" || slices.Contains(all, address) || len(all) >= maxMACs {
		return all
	}
	return append(all, address)
}

// linkStates are the words for a link's state, of Port (LinkUp) and of
// NetworkPort (Up) alike.
var linkStates = map[string]string{"Up": "up", "LinkUp": "up", "Down": "down", "LinkDown": "down", "NoLink": "down"}

func linkState(o object) string { return linkStates[name(o, "LinkStatus")] }

// withFunction adds a function's address to the port that it is on, or makes a
// port of it when it names none that is known.
func withFunction(ports []site.Port, from []object, f object) []site.Port {
	address := mac(cmp.Or(at[string](f, "Ethernet", "PermanentMACAddress"), at[string](f, "Ethernet", "MACAddress")))
	if address == "" {
		return ports
	}
	on := key(cmp.Or(link(f, "Links", "PhysicalPortAssignment"), link(f, "Links", "PhysicalNetworkPortAssignment"),
		link(f, "PhysicalPortAssignment"), link(f, "PhysicalNetworkPortAssignment")))
	for n, p := range from {
		if on != "" && key(link(p)) == on {
			ports[n].MACs = withMAC(ports[n].MACs, address)
			return ports
		}
	}
	return append(ports, site.Port{ID: name(f, "Id"), MACs: []string{address}})
}

// interfaces reads what the operating system has as interfaces, for the links
// of ports that are known and for the adapters of which the BMC tells nothing
// else. Those between the machine and its own BMC are no parts.
func (i *inspection) interfaces(ctx context.Context) error {
	members, err := i.members(ctx, link(i.system.object, "EthernetInterfaces"))
	for _, o := range members {
		address := mac(cmp.Or(at[string](o, "PermanentMACAddress"), at[string](o, "MACAddress")))
		if address == "" || link(o, "Links", "HostInterface") != "" {
			continue
		}
		p := i.portOf(address)
		if p == nil {
			id := name(o, "Id")
			i.addNIC(site.NIC{Part: part(o), Ports: []site.Port{{ID: id, MACs: []string{address}}}})
			p = &i.inv.NICs[len(i.inv.NICs)-1].Ports[0]
		}
		if p.Link == "" {
			p.Link = linkState(o)
		}
		if p.Link == "up" && p.Mbps == 0 {
			p.Mbps = int(number(o, "SpeedMbps"))
		}
	}
	if i.inv.NICs == nil && err == nil {
		i.inv.NICs, err = filled(i, i.inv.NICs, nil)
	}
	return err
}

// portOf is the port that has an address, nil for none.
func (i *inspection) portOf(address string) *site.Port {
	for n := range i.inv.NICs {
		for k := range i.inv.NICs[n].Ports {
			if p := &i.inv.NICs[n].Ports[k]; slices.Contains(p.MACs, address) {
				return p
			}
		}
	}
	return nil
}
