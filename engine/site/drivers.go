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

// firmwareFolder is where the kernel looks for firmware.
const firmwareFolder = "/lib/firmware"

// kindDrivers is the section of the design with drivers. Their paths begin with it.
const kindDrivers = "drivers"

// Fit says whether a driver is for a machine.
type Fit int

// The values of Fit. FitUnknown means that nobody has seen the deciding fact yet.
const (
	FitNone Fit = iota
	FitUnknown
	FitSure
)

// Fitting says whether a driver is for a machine, and why.
type Fitting struct {
	Fit Fit
	// By is the match: "8086:1592", or "the model X". If Fit is FitUnknown, By says why.
	By string
}

// ModelFits reports whether a model matches a pattern, in which "*" stands for any text.
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

// For says whether the driver is for the machine of a node, given what was seen of its system; nil
// means that the system was not seen yet. A designed model takes precedence over the model that the
// system reports. PCI devices count only if they were seen.
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

// DriverPCI returns the PCI IDs of the drivers that may be for the node, sorted.
func (n *Node) DriverPCI() []string {
	var all []string
	for _, d := range n.References.Drivers {
		all = append(all, d.Match.PCI...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// MayHaveDrivers reports whether a driver of the design may be for the node.
func (n *Node) MayHaveDrivers() bool { return len(n.References.Drivers) > 0 }

// DriverNames returns the names of the drivers whose Fit for the node is as given, sorted.
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

// driven is what drivers add to a system, and which driver adds which item.
type driven struct {
	System
	from map[string]string // driver names by item key
	// contradict says why drivers disagree on an item, by its key.
	contradict Values
}

// drivenBy returns what the named drivers add to a system of a family. Of two that add the same
// file, or the same parameter of a module, the first one counts.
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
			at := path.Join(firmwareFolder, file)
			key := item.KindFiles + "." + at
			if !strings.HasPrefix(at, firmwareFolder+"/") {
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

// module adds a module. The name may be written with "-" or "_".
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

// under removes what the node's own design defines, because that takes precedence over drivers.
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
		at := strings.TrimPrefix(name, "/usr") // /lib is usually a link to /usr/lib
		if _, there := all.Files[at]; there {
			delete(all.Files, at)
			drop(item.KindFiles + "." + at)
		}
	}
	return all
}

// driverPaths returns the paths in the design at which a driver sets an item or a field of it, nearest first.
// The path of the driver itself is left out where an item has its own: it would win over what is in the item.
func driverPaths(driver, family, key, rest string) []string {
	at := "drivers." + driver
	switch item.Kind(key) {
	case item.KindPackages:
		return []string{at + ".packages." + family}
	case item.KindModules:
		return []string{at + ".modules." + item.ID(key) + rest, at + ".modules." + item.ID(key)}
	case item.KindFiles:
		return []string{at + ".firmware." + strings.TrimPrefix(item.ID(key), firmwareFolder+"/")}
	}
	return []string{at}
}

// driversFor returns the drivers that may be for a node, as far as the design tells, and the
// artifacts that they name.
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

// DriverNodes lists the nodes that a driver is for according to the design, and the nodes for which
// only observation can tell: of their PCI devices, or of the model that their systems report. Both
// lists are sorted.
type DriverNodes struct {
	Driver string   `json:"driver"`
	For    []string `json:"for,omitempty"`
	// Unknown are the nodes for which the design alone does not decide.
	Unknown []string `json:"unknown,omitempty"`
}

// DriversOfNodes lists for each driver, by name, the nodes that it concerns. It leaves out nodes
// that are not in use and nodes without an endpoint for their system.
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
