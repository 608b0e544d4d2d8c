package agent

import (
	"slices"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// asksHardware is the PCI probe for the machine. It is nil if no driver in the design may apply to the machine.
func asksHardware(n *site.Node) *item.PCIProbe {
	if !n.MayHaveDrivers() {
		return nil
	}
	ids := n.DriverPCI()
	return &item.PCIProbe{IDs: ids[:min(len(ids), item.MaxPCIIDs)]}
}

func (m *machine) knowsHardware() bool {
	seen := m.seen()
	return seen != nil && seen.PCI != nil
}

// pciIDs are the device ids that a system reported, or the reason why it reported none. Malformed ids are dropped.
func pciIDs(told *item.PCI) *item.PCI {
	if told == nil {
		return nil
	}
	is := &item.PCI{}
	if told.Unread != "" {
		is.Unread = brief(told.Unread)
		return is
	}
	for _, id := range told.IDs[:min(len(told.IDs), item.MaxPCIIDs)] {
		if isPCIID(id) {
			is.IDs = append(is.IDs, id)
		}
	}
	slices.Sort(is.IDs)
	is.IDs = slices.Compact(is.IDs)
	return is
}

// isPCIID reports whether a text is an id such as "8086:1592".
func isPCIID(text string) bool {
	if len(text) != len("8086:1592") || text[4] != ':' {
		return false
	}
	for i, c := range text {
		if i != 4 && !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}

// withHardware adds the individual devices to the facet that loads modules. Facets that do not concern drivers keep
// nothing about the bus.
func withHardware(s *site.FacetState, f site.Facet, told *item.PCI) {
	switch {
	case f != site.FacetConfig && f != site.FacetPackages:
		s.System.Model, s.System.PCI = "", nil
	case f == site.FacetConfig && told != nil && s.System.PCI.Unread == "":
		for _, d := range told.Devices[:min(len(told.Devices), item.MaxPCIDevices)] {
			if isPCIID(d.ID) {
				s.System.PCI.Devices = append(s.System.PCI.Devices, deviceOf(d))
			}
		}
	}
}

// deviceOf is a device as reported by a system, printable and bounded.
func deviceOf(d item.PCIDevice) item.PCIDevice {
	const most = 64 // modules
	is := item.PCIDevice{Address: line(d.Address), ID: d.ID, Driver: line(d.Driver)}
	for _, m := range d.Modules[:min(len(d.Modules), most)] {
		is.Modules = append(is.Modules, line(m))
	}
	for _, f := range d.Lacked[:min(len(d.Lacked), item.MaxLacked)] {
		is.Lacked = append(is.Lacked, item.LackedFirmware{File: line(f.File), There: f.There})
	}
	return is
}
