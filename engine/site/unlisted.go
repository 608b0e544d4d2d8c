package site

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
)

// Unlisted says what to do about things that a system has and its design does not name.
type Unlisted struct {
	// Units is UnlistedReport or UnlistedDisable; empty ignores such units.
	Units string `json:"units,omitempty"`
}

// What to do about units that start with the system and that the design does not name.
const (
	UnlistedReport  = "report"
	UnlistedDisable = "disable"
)

// UnlistedIn returns what to do about such units in a system of a family.
func (n *Node) UnlistedIn(family string) string {
	if own := n.Families[family].Unlisted.Units; own != "" {
		return own
	}
	return n.System.Unlisted.Units
}

// AsksForUnits reports whether units that the design does not name are to be listed, in any system.
func (n *Node) AsksForUnits() bool {
	for family := range n.Families {
		if n.UnlistedIn(family) != "" {
			return true
		}
	}
	return n.System.Unlisted.Units != ""
}

// UnlistedUnit is a unit that starts with the system and that the design does not name.
type UnlistedUnit struct {
	Name string
	// Package is the package that brought the unit; empty for none.
	Package string
}

// UnlistedUnits returns, sorted, the units that start with the system and that neither the design
// names nor the system itself needs. If known is false, nobody has listed them.
func (s FacetState) UnlistedUnits(n *Node) (units []UnlistedUnit, known bool) {
	if !s.listsUnits() {
		return nil, false
	}
	named := n.namedIn(s)
	for _, name := range s.unlistedNames(n, named) {
		if strings.HasPrefix(s.Have[unlistedKey(name)], "enabled") {
			from, _, _ := strings.Cut(s.Have[item.BroughtBy(name)], " ")
			units = append(units, UnlistedUnit{name, from})
		}
	}
	return units, true
}

// listsUnits reports whether the machine has listed the units that the design may not name.
func (s FacetState) listsUnits() bool {
	return slices.Contains(s.Absent, item.KindUnlisted) && s.Unread[item.KindUnlisted] == ""
}

func unlistedKey(name string) string { return item.KindUnlisted + "." + name }

// unlistedNames returns the reported units, and those that Slipway has disabled, without those that
// the design names. It leaves out a unit that Slipway made, until that unit is restored.
func (s FacetState) unlistedNames(n *Node, named naming) []string {
	var names []string
	add := func(key string) {
		name := item.ID(key)
		if item.Kind(key) == item.KindUnlisted && name != "" && !named.unit(name, s.Have) &&
			!slices.Contains(s.Owned, item.KindUnits+"."+name) {
			names = append(names, name)
		}
	}
	for key := range s.Have {
		add(key)
	}
	for _, key := range s.Owned {
		add(key)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// mostUnlisted limits how many units are disabled because the design does not name them. The list
// comes from the machine, so it is not trusted.
const mostUnlisted = 1000

// unlistedItems returns the items that disable such units. If nobody has listed the units, it
// returns one item that says so. If the list is unusable, lacking says why.
func (s FacetState) unlistedItems(n *Node, family string) (items []item.Item, lacking string) {
	disabled := map[string]string{"": item.Disabled}
	switch {
	case n.UnlistedIn(family) != UnlistedDisable:
		return nil, ""
	case s.Unread[item.KindUnlisted] != "":
		return nil, "the units that start with the system could not be listed, so none is disabled: " + s.Unread[item.KindUnlisted]
	case !s.listsUnits():
		return []item.Item{item.New(item.KindUnlisted, disabled, nil)}, ""
	}
	names := s.unlistedNames(n, n.namedIn(s))
	if len(names) > mostUnlisted {
		return nil, fmt.Sprintf("the machine reports %d units that start with it, more than %d, so none is disabled", len(names), mostUnlisted)
	}
	for _, name := range names {
		items = append(items, item.New(unlistedKey(name), disabled, nil))
	}
	return items, ""
}

// managerItems returns the items that disable all network managers except the one that Slipway
// configures. The step that configures the network applies them.
func (s FacetState) managerItems() (items []item.Item) {
	for _, key := range slices.Sorted(maps.Keys(s.Have)) {
		if item.Kind(key) == item.KindManagers && item.ID(key) != "" {
			items = append(items, item.New(key, map[string]string{"": item.Disabled}, nil))
		}
	}
	return items
}

// staysDisabled reports whether a unit that Slipway has disabled stays disabled.
func (s FacetState) staysDisabled(n *Node, family, name string) bool {
	return n.UnlistedIn(family) == UnlistedDisable && !n.namedIn(s).unit(name, s.Have)
}

// Unlisted returns the items of a step that disable units that the design does not name.
func (s Step) Unlisted() (items []item.Item) {
	for _, c := range s.Changes {
		key, is := strings.CutPrefix(c.Field, string(FacetConfig)+".")
		if is && s.Facet == FacetConfig && c.Want == item.Disabled && item.Kind(key) == item.KindUnlisted && item.ID(key) != "" {
			items = append(items, item.New(key, map[string]string{"": item.Disabled}, nil))
		}
	}
	return items
}

// naming is what a design names that brings units.
type naming struct{ units, packages map[string]bool }

// namedIn returns what the design names in a system: units, including those of health and boot
// actions, and packages, which stand for their units.
func (n *Node) namedIn(s FacetState) naming {
	all := naming{map[string]bool{}, map[string]bool{}}
	for _, i := range n.MayItems(FacetConfig, s.System) {
		if item.Kind(i.Key) == item.KindUnits {
			all.units[item.ID(i.Key)] = true
		}
	}
	for _, i := range n.MayItems(FacetPackages, s.System) {
		if item.Kind(i.Key) == item.KindPackages && i.Fields["state"] != item.Absent {
			all.packages[packageName(item.ID(i.Key))] = true
		}
	}
	for _, a := range n.References.Actions {
		for name := range a.Units {
			all.units[name] = true
		}
		for name := range a.Packages {
			all.packages[packageName(name)] = true
		}
	}
	if n.References.Health != nil {
		for _, name := range n.References.Health.Units {
			all.units[name] = true
		}
	}
	return all
}

// packageName returns a package without its architecture: "libc6" of "libc6:amd64".
func packageName(name string) string {
	name, _, _ = strings.Cut(name, ":")
	return name
}

// unit reports whether the design names a unit: by its own or another name, by its template, by the
// service that it starts, by a unit that stops with it, by the package that brought it, or by one
// that needs that package.
func (all naming) unit(name string, have Values) bool {
	for _, by := range strings.Fields(have[item.BroughtBy(name)]) {
		if all.packages[packageName(by)] {
			return true
		}
	}
	for _, by := range strings.Fields(have[item.MeantBy(name)]) {
		if all.names(by) {
			return true
		}
	}
	return all.names(name)
}

func (all naming) names(name string) bool {
	if all.units[name] {
		return true
	}
	if at := strings.IndexByte(name, '@'); at >= 0 {
		return all.units[name[:at+1]+name[strings.LastIndexByte(name, '.'):]]
	}
	// A unit that starts a named service is named too: systemd stops the service with its socket.
	service := strings.TrimSuffix(name, path.Ext(name)) + ".service"
	return service != name && all.units[service]
}
