package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// withDrivers returns the node with the origins of the drivers that may be for it.
func withDrivers(s *site.Site, n *site.Node) *site.Node {
	if !n.MayHaveDrivers() {
		return n
	}
	own := *n
	own.Origins = n.Origins.Beside(s.Origins, "drivers")
	return &own
}

// looksAtDrivers reports whether the design's drivers concern the node's system.
func looksAtDrivers(s *site.Site, n *site.Node, serves map[site.Facet]bool) bool {
	return n.MayHaveDrivers() && serves[site.FacetConfig] && s.Unused(n) == "" && !n.Decommission && n.Power != "off"
}

// driverNotes names the drivers of which Slipway does not know yet whether they are for the
// machine, and the items left by drivers whose hardware is gone.
func driverNotes(s *site.Site, n *site.Node, o site.Observed, serves map[site.Facet]bool) []string {
	if !looksAtDrivers(s, n, serves) {
		return nil
	}
	var notes []string
	seen := o.Facets[site.FacetConfig].System
	if names := n.DriverNames(seen, site.FitUnknown); len(names) > 0 && (seen == nil || seen.PCI == nil) {
		why := n.References.Drivers[names[0]].For(n, seen).By
		notes = append(notes, fmt.Sprintf("Slipway does not know yet whether %s for this machine: %s", areFor(names), why))
	}
	for _, f := range []site.Facet{site.FacetPackages, site.FacetConfig} {
		state := o.Facets[f]
		if len(state.Owned) == 0 || state.System == nil || state.System.PCI == nil {
			continue
		}
		asked := item.Keys(state.Resolve(n, f).Items)
		var stay []string
		for _, key := range item.Keys(n.MayItems(f, state.System)) {
			if slices.Contains(state.Owned, key) && !slices.Contains(asked, key) {
				stay = append(stay, key)
			}
		}
		if len(stay) > 0 {
			notes = append(notes, fmt.Sprintf("Slipway made %s for a driver whose hardware Slipway no longer sees in this machine; it stays until the driver leaves the design", someOf(stay)))
		}
	}
	return notes
}

func areFor(names []string) string {
	if len(names) == 1 {
		return "the driver " + names[0] + " is"
	}
	return fmt.Sprintf("%d drivers (%s) are", len(names), someOf(names))
}

// Drivers compares the devices of a node's drivers, as last seen, with the design: the kernel
// driver that each device uses, and the firmware that the kernel did not find. What nobody saw is
// not compared. A module that is not loaded is a change, and no finding.
func Drivers(s *site.Site, n *site.Node, o site.Observed, serves map[site.Facet]bool) []site.Finding {
	seen := o.Facets[site.FacetConfig]
	if !looksAtDrivers(s, n, serves) || seen.System == nil || seen.System.PCI == nil {
		return nil
	}
	c := comparison{node: withDrivers(s, n)}
	for _, name := range n.DriverNames(seen.System, site.FitSure) {
		d := n.References.Drivers[name]
		for _, device := range seen.System.PCI.Devices {
			if slices.Contains(d.Match.PCI, device.ID) {
				c.bound(name, d, device, seen)
				c.lacked(name, device)
			}
		}
	}
	return c.found
}

// bound compares the kernel driver of a device with the modules of a driver, once all of them are loaded.
func (c *comparison) bound(name string, d *site.Driver, device item.PCIDevice, seen site.FacetState) {
	var modules []string
	for m := range d.Modules {
		if !isLoaded(seen, m) {
			return
		}
		modules = append(modules, m)
	}
	slices.Sort(modules)
	at := "drivers." + name + ".modules"
	if len(modules) == 0 {
		at = "drivers." + name
	}
	drives := func(m string) bool {
		return slices.ContainsFunc(append(slices.Clone(device.Modules), device.Driver), func(by string) bool { return underscored(by) == underscored(m) })
	}
	switch {
	case device.Driver == "":
		c.find("driver-unbound", at, "the device %s (%s) has no driver in the system: the kernel's log there says why", device.Address, device.ID)
	case len(modules) > 0 && !slices.ContainsFunc(modules, drives):
		c.find("driver-other", at, "the device %s (%s) is driven by %s, and not by %s. Slipway does not take a device away from a driver", device.Address, device.ID, device.Driver, strings.Join(modules, " or "))
	}
}

func underscored(module string) string { return strings.ReplaceAll(module, "-", "_") }

// isLoaded reports whether a module was seen loaded, under any spelling of its name.
func isLoaded(seen site.FacetState, module string) bool {
	for field, have := range seen.Have {
		key, isParameters := strings.CutSuffix(field, ".parameters")
		if isParameters && item.Kind(key) == item.KindModules && underscored(item.ID(key)) == underscored(module) {
			return have != item.ModuleNotLoaded && have != item.Absent
		}
	}
	return false
}

// lacked reports firmware files that the kernel asked for and did not have then.
func (c *comparison) lacked(name string, device item.PCIDevice) {
	for _, f := range device.Lacked {
		at := "drivers." + name + ".firmware"
		if f.There {
			c.find("driver-firmware", at, "the device %s (%s) asked for the firmware %s before it was there. Unless its driver was loaded again since, the firmware takes effect at the next boot", device.Address, device.ID, f.File)
		} else {
			c.find("driver-firmware", at, "the device %s (%s) asked for the firmware %s, and the system does not have it. Add the package that brings it, or an artifact under `firmware`", device.Address, device.ID, f.File)
		}
	}
}
