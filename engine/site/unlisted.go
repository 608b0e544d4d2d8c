package site

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
)

// Unlisted is what becomes of what a system has and its design does not name.
type Unlisted struct {
	// Units is UnlistedReport or UnlistedDisable; empty leaves them as they are.
	Units string `json:"units,omitempty"`
}

// What becomes of units that start with the system and that the design does not name.
const (
	UnlistedReport  = "report"
	UnlistedDisable = "disable"
)

// UnlistedIn is what becomes of such units in a system of a family.
func (n *Node) UnlistedIn(family string) string {
	if own := n.Families[family].Unlisted.Units; own != "" {
		return own
	}
	return n.System.Unlisted.Units
}

// AsksForUnits says whether the units are to be listed that the design does not name, in some
// system.
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
	// Package has brought it; empty for one that no package has.
	Package string
}

// UnlistedUnits are the units that start with the system and that neither the design nor what
// the system needs by itself names, in order. Where known is false nobody has listed them.
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

// listsUnits says whether the machine has told which units the design may not name.
func (s FacetState) listsUnits() bool {
	return slices.Contains(s.Absent, item.KindUnlisted) && s.Unread[item.KindUnlisted] == ""
}

func unlistedKey(name string) string { return item.KindUnlisted + "." + name }

// unlistedNames are the units that were told of, and those that Slipway has disabled, as far as
// the design does not name them. What becomes of one that Slipway made is said when it was set
// back.
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

// mostUnlisted bounds how many units are disabled because the design does not name them: a machine
// tells which these are.
const mostUnlisted = 1000

// unlistedItems are the items that disable such units. Where nobody has listed them it is one
// that says so; lacking is why that is not possible.
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

// managerItems are the items that disable other managers of the network than the one that Slipway
// writes for. What sets the network up does so.
func (s FacetState) managerItems() (items []item.Item) {
	for _, key := range slices.Sorted(maps.Keys(s.Have)) {
		if item.Kind(key) == item.KindManagers && item.ID(key) != "" {
			items = append(items, item.New(key, map[string]string{"": item.Disabled}, nil))
		}
	}
	return items
}

// staysDisabled says whether a unit that Slipway has disabled is to stay so.
func (s FacetState) staysDisabled(n *Node, family, name string) bool {
	return n.UnlistedIn(family) == UnlistedDisable && !n.namedIn(s).unit(name, s.Have)
}

// Unlisted are the items of a step that disable units that the design does not name.
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

// namedIn is what the design names in a system: units, also of health and of boot actions,
// and packages, whose units are meant with them.
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

// packageName is a package without its architecture: "libc6" of "libc6:amd64".
func packageName(name string) string {
	name, _, _ = strings.Cut(name, ":")
	return name
}

// unit says whether a unit is named: itself, by another name of it, by its template, by the service
// that it starts, by a unit that stops with it, or by the package that has brought it or one that
// needs that.
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
	// What starts a service that is named goes with it: systemd stops the service with its socket.
	service := strings.TrimSuffix(name, path.Ext(name)) + ".service"
	return service != name && all.units[service]
}
