package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// explainedDriver is whether a driver is for the machine of a node.
type explainedDriver struct {
	Driver string `json:"driver"`
	// For is what it is for the machine by; Unknown says why nobody knows whether it is.
	// Without both it is not.
	For     string `json:"for,omitempty"`
	Unknown string `json:"unknown,omitempty"`
	// Devices are those that it is for, as they were last seen.
	Devices []item.PCIDevice `json:"devices,omitempty"`
}

// explainDrivers says of the drivers at a path of a node whether they are for its machine,
// by what a daemon has seen of that.
func explainDrivers(ctx context.Context, state string, s *site.Site, node, path string) (all []explainedDriver) {
	n := s.Nodes[node]
	about, rest, _ := strings.Cut(path, ".")
	if n == nil || about != "drivers" {
		return nil
	}
	daemon := daemonAt(state)
	defer daemon.Close()
	known, err := daemon.Known(ctx, s.Name)
	seen := known.Nodes[node].Observed.Facets[site.FacetConfig].System
	for _, name := range slices.Sorted(maps.Keys(n.References.Drivers)) {
		if rest != "" && rest != name && !strings.HasPrefix(rest, name+".") {
			continue
		}
		d := n.References.Drivers[name]
		x := explainedDriver{Driver: name}
		switch is := d.For(n, seen); {
		case is.Fit == site.FitSure:
			x.For = is.By
		case is.Fit == site.FitUnknown && err != nil:
			x.Unknown = err.Error()
		case is.Fit == site.FitUnknown:
			x.Unknown = is.By
		}
		if seen != nil && seen.PCI != nil {
			for _, device := range seen.PCI.Devices {
				if slices.Contains(d.Match.PCI, device.ID) {
					x.Devices = append(x.Devices, device)
				}
			}
		}
		all = append(all, x)
	}
	return all
}

// print writes whether the driver is for the machine, and its devices.
func (x explainedDriver) print(w *screen) {
	said := "not for this machine"
	if x.For != "" {
		said = "for this machine: " + x.For
	} else if x.Unknown != "" {
		said = "unknown whether it is for this machine: " + x.Unknown
	}
	w.Println(paint(w, text.Bold)("driver "+x.Driver) + "  " + said)
	for _, d := range x.Devices {
		by := "has no driver"
		if d.Driver != "" {
			by = "driven by " + d.Driver
		}
		w.Println(fmt.Sprintf("  %s (%s) %s", d.Address, d.ID, by))
		for _, f := range d.Lacked {
			w.Println("    asked for the firmware " + f.File + ", which was not there")
		}
	}
}
