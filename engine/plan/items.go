package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// hasOf returns the value of an item's field, and whether it was read. A state that is not reported
// follows from whether the item exists.
func (w wish) hasOf(key, field string) (have string, read bool) {
	if w.seen.Unread[key] != "" || w.seen.Unread[field] != "" || !w.wasLookedFor(key) {
		return "", false
	}
	have, told := w.seen.Have[field]
	if told || field != key+".state" {
		return have, true
	}
	if w.isThere(key) {
		return item.Present, true
	}
	return item.Absent, true
}

// wasLookedFor reports whether the last look covered an item. It did not cover items that a
// proposal adds.
func (w wish) wasLookedFor(key string) bool { return w.looked[key] }

// lookedFor returns the keys of the items that were looked for: absent items, and every prefix of
// an observed field's name that ends before a dot.
func lookedFor(seen site.FacetState) map[string]bool {
	keys := item.Told(seen.Have)
	for _, key := range seen.Absent {
		keys[key] = true
	}
	return keys
}

// isThere reports whether anything was seen of an item.
func (w wish) isThere(key string) bool {
	for _, i := range w.Items {
		if i.Key != key {
			continue
		}
		for field := range i.Fields {
			if have, told := w.seen.Have[item.Name(key, field)]; told && have != item.Absent {
				return true
			}
		}
	}
	_, installed := w.seen.Have[key+".version"]
	return installed
}

// FieldOf returns the name of a facet's field in a change: "config.files./etc/motd.mode". If the
// kind of item has the facet's name, it appears once: "packages.nginx.version".
func FieldOf(f site.Facet, field string) string {
	if strings.HasPrefix(field, string(f)+".") && site.IsInside(f) {
		return field
	}
	return string(f) + "." + field
}

// addedItems reports an item that does not exist at all as one change.
func (w wish) addedItems(f site.Facet, changes []site.Change) []site.Change {
	byField := map[string]site.Change{}
	for _, c := range changes {
		byField[c.Field] = c
	}
	var short []site.Change
	for _, i := range w.Items {
		var of []site.Change
		for _, field := range slices.Sorted(maps.Keys(i.Fields)) {
			if c, differs := byField[FieldOf(f, item.Name(i.Key, field))]; differs {
				of = append(of, c)
			}
		}
		if len(of) > 1 && len(of) == w.asks(i) && !w.isThere(i.Key) {
			whole := site.Change{Field: FieldOf(f, i.Key), Have: item.Absent, Want: asked(of), Origin: of[0].Origin, Intent: of[0].Intent}
			if of[0].Have == Unknown {
				whole.Have = Unknown
			}
			of = []site.Change{whole}
		}
		short = append(short, of...)
	}
	slices.SortFunc(short, func(a, b site.Change) int { return strings.Compare(a.Field, b.Field) })
	return short
}

// asks counts the requested fields of an item that the system can have.
func (w wish) asks(i item.Item) (count int) {
	for field := range i.Fields {
		if _, lacking := w.Lacking[item.Name(i.Key, field)]; !lacking {
			count++
		}
	}
	return count
}

// asked describes what is asked of an item, field by field.
func asked(changes []site.Change) string {
	var parts []string
	for _, c := range changes {
		field := c.Field[strings.LastIndexByte(c.Field, '.')+1:]
		if c.Want != "" && (field != "state" || c.Want != item.Present) {
			parts = append(parts, field+" "+c.Want)
		}
	}
	return strings.Join(parts, ", ")
}

// interrupts reports whether bringing a facet to the design interrupts services. That happens if
// packages that they may run from are replaced or removed, or if an existing unit restarts, stops,
// or is restored.
func (w wish) interrupts(f site.Facet, remove []string, returning []site.Change) bool {
	unit := FieldOf(f, item.KindUnits+".")
	if slices.ContainsFunc(returning, func(c site.Change) bool { return strings.HasPrefix(c.Field, unit) }) {
		return true
	}
	if f == site.FacetPackages && len(remove) > 0 || slices.ContainsFunc(remove, isUnit) {
		return true
	}
	read := w.readFiles()
	if slices.ContainsFunc(remove, func(key string) bool { return read[key] }) {
		return true
	}
	for field, want := range w.Want {
		key := w.Keys[field]
		if have := w.has(f, field); have != want && (read[key] || replaces(f, key, field, want) || isUnitChanged(key, field, have, want)) {
			return true
		}
	}
	return false
}

// isUnit reports whether an item is a unit, which may stop or start when it is restored.
func isUnit(key string) bool {
	return item.Kind(key) == item.KindUnits || item.Kind(key) == item.KindUnlisted
}

// readFiles returns the keys of files whose change restarts units.
func (w wish) readFiles() map[string]bool {
	read := map[string]bool{}
	for _, i := range w.Items {
		var body item.Unit
		if item.Kind(i.Key) != item.KindUnits || json.Unmarshal(i.Body, &body) != nil {
			continue
		}
		for _, file := range body.RestartOn {
			read[item.KindFiles+"."+file] = true
		}
	}
	return read
}

// replaces reports whether a differing field of a package may replace or remove a package: a
// version, upgrades, or an absence is designed.
func replaces(f site.Facet, key, field, want string) bool {
	return f == site.FacetPackages && (field == key+".version" || item.Kind(key) == item.KindPatch || want == item.Absent)
}

// isUnitChanged reports whether a differing field of a unit restarts or stops the unit. Creating or
// starting a unit interrupts nothing.
func isUnitChanged(key, field, have, want string) bool {
	switch {
	case item.Kind(key) == item.KindUnlisted:
		return have == Unknown || strings.HasSuffix(have, "running")
	case item.Kind(key) != item.KindUnits:
		return false
	case field == key+".content":
		return have != "" && have != item.Absent
	}
	return field == key+".state" && (want == "stopped" || want == "masked")
}

// itemAt returns the origin of an item's field, or else of anything in the item.
func (w wish) itemAt(n *site.Node, f site.Facet, field string) site.Origin {
	key := w.Keys[field]
	if key == "" {
		key = field
	}
	for _, name := range []string{field, key} {
		for _, path := range w.PathsOf(f, name) {
			if o := n.Origins.Of(path); !o.IsZero() {
				return o
			}
		}
	}
	for _, path := range w.PathsOf(f, key) {
		var first string
		var at site.Origin
		for name, o := range n.Origins.Within(path) {
			if first == "" || name < first {
				first, at = name, o
			}
		}
		if first != "" {
			return at
		}
	}
	return site.Origin{}
}
