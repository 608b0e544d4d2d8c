package site

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
)

// FirmwareFolder is where the kernel looks for firmware.
const FirmwareFolder = "/lib/firmware"

// kindDrivers is the section of the design with drivers, which begins their paths.
const kindDrivers = "drivers"

// Fit is whether a driver is for a machine.
type Fit int

// The answers. What nobody saw is unknown.
const (
	FitNone Fit = iota
	FitUnknown
	FitSure
)

// Fitting is whether a driver is for a machine, and why.
type Fitting struct {
	Fit Fit
	// By is what the driver is for the machine by: "8086:1592", or "the model X". Where
	// that is unknown it says why, in words.
	By string
}

// ModelFits says whether a model is what a pattern means, in which "*" stands for any letters.
func ModelFits(pattern, model string) bool {
	parts := strings.Split(pattern, "*")
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return model == pattern
	}
	if len(model) < len(first)+len(last) || !strings.HasPrefix(model, first) || !strings.HasSuffix(model, last) {
		return false
	}
	rest := model[len(first) : len(model)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return true
}

// For says whether the driver is for the machine of a node, of which that was seen; nil
// for a system that was not seen yet. A designed model counts over the one that the
// system tells. PCI devices count only where they were seen.
func (d *Driver) For(n *Node, seen *Platform) Fitting {
	unknown := ""
	if pattern := d.Match.Model; pattern != "" {
		model := n.Hardware.Model
		wasSeen := seen != nil && seen.PCI != nil // both are read together
		if model == "" && wasSeen {
			model = seen.Model
		}
		switch {
		case model != "" && ModelFits(pattern, model):
			return Fitting{FitSure, "the model " + model}
		case model != "":
		case !wasSeen:
			unknown = "its model was not seen yet"
		default:
			unknown = "its system does not report its model, and the design states no hardware.model"
		}
	}
	if len(d.Match.PCI) > 0 {
		switch {
		case seen == nil || seen.PCI == nil:
			unknown = "its PCI devices were not seen yet"
		case seen.PCI.Unread != "":
			unknown = "its PCI devices cannot be read: " + seen.PCI.Unread
		default:
			for _, id := range d.Match.PCI {
				if _, there := slices.BinarySearch(seen.PCI.IDs, id); there {
					return Fitting{FitSure, id}
				}
			}
		}
	}
	if unknown != "" {
		return Fitting{FitUnknown, unknown}
	}
	return Fitting{}
}

// DriverPCI are the PCI ids of the drivers that may be for the node, in order.
func (n *Node) DriverPCI() []string {
	var all []string
	for _, d := range n.References.Drivers {
		all = append(all, d.Match.PCI...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// MayHaveDrivers says whether a driver of the design may be for the node.
func (n *Node) MayHaveDrivers() bool { return len(n.References.Drivers) > 0 }

// DriverNames are the drivers of which it is, or is not, known that they are for the
// node, in order.
func (n *Node) DriverNames(seen *Platform, is Fit) []string {
	var names []string
	for name, d := range n.References.Drivers {
		if d.For(n, seen).Fit == is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// driven is what drivers bring to a system, and which of them brings what.
type driven struct {
	System
	from map[string]string // names of drivers by the keys of items
	// contradict says of keys of items why drivers do not agree on them.
	contradict Values
}

// drivenBy are some drivers as parts of a system of a family. Of two that bring the same
// file the first one counts, and so it does for a parameter of a module.
func (n *Node) drivenBy(names []string, family string) driven {
	all := driven{System{Packages: map[string]Package{}, Modules: map[string]Module{}, Files: map[string]File{}}, map[string]string{}, Values{}}
	for _, name := range names {
		d := n.References.Drivers[name]
		for _, p := range d.Packages[family] {
			all.Packages[p] = Package{}
			all.note(item.KindPackages+"."+p, name)
		}
		for _, m := range slices.Sorted(maps.Keys(d.Modules)) {
			all.module(m, name, d.Modules[m].Parameters)
		}
		for file, artifact := range d.Firmware {
			at := path.Join(FirmwareFolder, file)
			key := item.KindFiles + "." + at
			if !strings.HasPrefix(at, FirmwareFolder+"/") {
				continue // a rule refuses it
			}
			if other, there := all.Files[at]; there && n.References.Artifacts[other.Artifact].SHA256 != n.References.Artifacts[artifact].SHA256 {
				all.contradict[key] = fmt.Sprintf("the drivers %s and %s are both for this machine, and name two artifacts for it. "+
					"Set it in system.files, which counts over drivers, or change one of them", all.from[key], name)
				continue
			}
			all.Files[at] = File{Artifact: artifact}
			all.note(key, name)
		}
	}
	return all
}

func (all *driven) note(key, name string) {
	if all.from[key] == "" {
		all.from[key] = name
	}
}

// module adds a module, whose name may be written with "-" or "_".
func (all *driven) module(m, name string, parameters Scalars) {
	for known := range all.Modules {
		if sameModule(known, m) {
			m = known
		}
	}
	key := item.KindModules + "." + m
	both := maps.Clone(all.Modules[m].Parameters)
	if both == nil {
		both = Scalars{}
	}
	for p, v := range parameters {
		if other, there := both[p]; there && SettingText(other) != SettingText(v) {
			all.contradict[key] = fmt.Sprintf("the drivers %s and %s are both for this machine, and give its parameter %s the values %s and %s. "+
				"Set it in system.modules, which counts over drivers, or change one of them", all.from[key], name, p, SettingText(other), SettingText(v))
			continue
		}
		both[p] = v
	}
	all.Modules[m] = Module{Parameters: both}
	all.note(key, name)
}

func sameModule(a, b string) bool {
	return strings.ReplaceAll(a, "-", "_") == strings.ReplaceAll(b, "-", "_")
}

// under leaves out what the design says of the node itself, which counts over drivers.
func (all driven) under(own System) driven {
	drop := func(key string) {
		delete(all.from, key)
		delete(all.contradict, key)
	}
	for name := range own.Packages {
		delete(all.Packages, name)
		drop(item.KindPackages + "." + name)
	}
	for name := range own.Modules {
		for m := range all.Modules {
			if sameModule(m, name) {
				delete(all.Modules, m)
				drop(item.KindModules + "." + m)
			}
		}
	}
	for name := range own.Files {
		at := strings.TrimPrefix(name, "/usr") // /lib is a link to /usr/lib, mostly
		if _, there := all.Files[at]; there {
			delete(all.Files, at)
			drop(item.KindFiles + "." + at)
		}
	}
	return all
}

// driverPaths are the paths in the design at which a driver has an item, or a field of it,
// the nearest first. The driver itself is none: it would go before what is in the item.
func driverPaths(driver, family, key, rest string) []string {
	at := "drivers." + driver
	switch item.Kind(key) {
	case item.KindPackages:
		return []string{at + ".packages." + family}
	case item.KindModules:
		return []string{at + ".modules." + item.ID(key) + rest, at + ".modules." + item.ID(key)}
	case item.KindFiles:
		return []string{at + ".firmware." + strings.TrimPrefix(item.ID(key), FirmwareFolder+"/")}
	}
	return []string{at}
}

// driversFor are the drivers that may be for a node, as far as the design knows it, and
// the artifacts that they name.
func (s *Site) driversFor(n *Node) (map[string]*Driver, []string) {
	if _, reachable := n.Endpoints[OS]; !reachable {
		return nil, nil
	}
	var all map[string]*Driver
	var artifacts []string
	for name, d := range s.Drivers {
		if d.For(n, nil).Fit == FitNone {
			continue
		}
		if all == nil {
			all = map[string]*Driver{}
		}
		all[name] = d
		artifacts = slices.AppendSeq(artifacts, maps.Values(d.Firmware))
	}
	return all, artifacts
}

// DriverNodes are the nodes that a driver is for as far as the design says, and those of
// which only their PCI devices, or the model that their systems tell, will say it. Both
// are in order.
type DriverNodes struct {
	Driver string   `json:"driver"`
	For    []string `json:"for,omitempty"`
	// Unknown are those of which the design alone does not say it.
	Unknown []string `json:"unknown,omitempty"`
}

// DriversOfNodes says for each driver, by name, which nodes it concerns. Nodes that are
// not in use, or whose system nobody reaches, are not among them.
func (s *Site) DriversOfNodes() []DriverNodes {
	var all []DriverNodes
	for _, name := range slices.Sorted(maps.Keys(s.Drivers)) {
		of := DriverNodes{Driver: name}
		for _, node := range s.NodeNames() {
			n := s.Nodes[node]
			d := n.References.Drivers[name]
			if d == nil || s.Unused(n) != "" {
				continue
			}
			if d.For(n, nil).Fit == FitSure {
				of.For = append(of.For, node)
			} else {
				of.Unknown = append(of.Unknown, node)
			}
		}
		all = append(all, of)
	}
	return all
}

// String is one line: "driver ice: for 2 nodes (n1, n2); for 3 more it is unknown until …".
func (d DriverNodes) String() string {
	var parts []string
	if len(d.For) > 0 {
		parts = append(parts, "for "+someNodes(d.For)+" by the model")
	}
	if len(d.Unknown) > 0 {
		parts = append(parts, "unknown for "+someNodes(d.Unknown)+" until their systems report their hardware")
	}
	return "driver " + d.Driver + ": " + cmp.Or(strings.Join(parts, "; "), "for no node")
}

func someNodes(names []string) string {
	const some = 5
	text := strings.Join(names[:min(len(names), some)], ", ")
	if more := len(names) - some; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
