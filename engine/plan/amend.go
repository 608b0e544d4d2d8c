package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The limits on what is proposed: what a machine reports is untrusted text.
const (
	maxAmended      = 100   // values per facet
	maxAmendedBytes = 1_000 // per value
)

// amendment returns what the design would have to say for a facet to be as it was seen. It cannot
// express something that left the design and is still there.
func amendment(n *site.Node, f site.Facet, w wish, seen site.FacetState, left bool) site.Amendment {
	a := site.Amendment{Node: n.Name, Facet: f}
	refuse := func(why string, args ...any) site.Amendment {
		return site.Amendment{Node: n.Name, Facet: f, Why: fmt.Sprintf(why, args...)}
	}
	switch {
	case !site.Facets[f].Proposable:
		return refuse("Slipway cannot write the %s of a machine into the design", f)
	case left:
		return refuse("something that left the design is still on the machine")
	}
	absent := map[string]bool{}
	for _, field := range slices.Sorted(maps.Keys(w.Want)) {
		have := w.has(f, field)
		next := seen.Pending[field]
		switch {
		case next != "" && next != have:
			return refuse("%s changes at the next boot", FieldOf(f, field))
		case have == w.Want[field] || absent[w.Keys[field]]:
			continue
		case have == Unknown:
			return refuse("%s was not read", FieldOf(f, field))
		}
		values, why := w.amended(n, f, field, have)
		if why != "" {
			return refuse("%s: %s", FieldOf(f, field), why)
		}
		absent[w.Keys[field]] = len(values) == 1 && values[0].Value == nil
		a.Values = append(a.Values, values...)
	}
	switch {
	case len(a.Values) == 0:
		return refuse("what differs is nothing that a design sets")
	case len(a.Values) > maxAmended:
		return refuse("%d values differ, and Slipway proposes at most %d at once", len(a.Values), maxAmended)
	}
	slices.SortFunc(a.Values, func(x, y site.AmendedValue) int { return slices.Compare(x.Path, y.Path) })
	return a
}

// amended returns one field as values of the design, or why that is impossible.
func (w wish) amended(n *site.Node, f site.Facet, field, have string) (values []site.AmendedValue, why string) {
	switch {
	case len(have) > maxAmendedBytes:
		return nil, fmt.Sprintf("what the machine says is longer than %d bytes", maxAmendedBytes)
	case site.Printable(have) != have:
		return nil, "what the machine says has invisible or control characters"
	case item.HoldsSecret([]byte(have)):
		return nil, "the value on the machine looks like a secret"
	}
	switch f {
	case site.FacetPower:
		return valueAt(have, "power"), ""
	case site.FacetBoot:
		if field == "order" {
			all := strings.Split(have, ",")
			return valueAt(all[:min(len(all), len(n.Boot.Order))], "boot", field), ""
		}
		return valueAt(have, "boot", field), ""
	case site.FacetBIOS:
		return w.amendedSetting(n, field, have)
	}
	return w.amendedItem(n, f, field, have)
}

// valueAt returns a value at a path; nil means that the machine has none.
func valueAt(value any, path ...string) []site.AmendedValue {
	v := site.AmendedValue{Path: path}
	if value != nil {
		v.Value, _ = json.Marshal(value) // a string, a number, a boolean or a list
	}
	return []site.AmendedValue{v}
}

// amendedSetting amends a firmware setting. An intent stands for different settings on each
// machine, so the design has no word for a machine's own value.
func (w wish) amendedSetting(n *site.Node, field, have string) (values []site.AmendedValue, why string) {
	from := cmp.Or(w.From[field], field)
	name, isAttribute := strings.CutPrefix(from, site.AttributeField(""))
	if !isAttribute {
		return nil, fmt.Sprintf("the design asks for it by bios.%s, which is not a setting of the machine; Slipway proposes only bios.attributes", from)
	}
	return valueAt(likeValue(n.BIOS.Attributes[name], have), "bios", "attributes", name), ""
}

// amendedItem amends a field of an item inside the installed system.
func (w wish) amendedItem(n *site.Node, f site.Facet, field, have string) (values []site.AmendedValue, why string) {
	key := w.Keys[field]
	if driver := w.Drivers[key]; driver != "" {
		return nil, "it comes from the driver " + driver
	}
	part := strings.TrimPrefix(strings.TrimPrefix(field, key), ".")
	at := w.placeOf(n, f, key)
	gone := slices.Contains(w.seen.Absent, key) || have == item.Absent
	under := func(value any, more ...string) ([]site.AmendedValue, string) {
		return valueAt(value, append(at, more...)...), ""
	}
	switch kind := item.Kind(key); {
	case gone && slices.Contains(removable, kind):
		return under(nil)
	case gone:
		return nil, "the machine does not have it"
	case kind == item.KindHostname && have != "":
		return under(have)
	case kind == item.KindTime && part == "zone" && have != "":
		return under(have, part)
	case kind == item.KindTime && part == "servers" && have != "":
		return under(strings.Split(have, ", "), part)
	case kind == item.KindSysctl && have != "":
		return under(likeValue(over(n.System.Sysctl, n.Families[w.Family].Sysctl)[item.ID(key)], have))
	case kind == item.KindParameters && have != "":
		return under(likeValue(n.Kernel.Parameters[item.ID(key)], have))
	case kind == item.KindModules:
		return w.amendedParameters(n, key, at, have)
	case kind == item.KindPackages && (part == "version" && have != "" || part == "state" && have == item.Held),
		kind == item.KindUnits && part == "state" && have != "", kind == item.KindUsers && part == "shell" && have != "":
		return under(have, part)
	case (kind == item.KindUnits && part == "enabled" || kind == item.KindUsers && part == "sudo") && (have == "true" || have == "false"):
		return under(have == "true", part)
	case kind == item.KindUsers && part == "groups":
		return under(slices.DeleteFunc(strings.Split(have, ", "), func(g string) bool { return g == "" }), part)
	case kind == item.KindUsers && part == "uid":
		if uid, err := strconv.ParseInt(have, 10, 64); err == nil {
			return under(uid, part)
		}
	case kind == item.KindUsers && (part == "keys" || part == "password"):
		return nil, "Slipway knows of keys and passwords on a machine only whether they are the designed ones"
	case part == "content":
		return nil, "Slipway does not propose the content of files"
	}
	return nil, fmt.Sprintf("a design cannot ask for %q", have)
}

// removable are the kinds of items that a design can stop asking for individually.
var removable = []string{item.KindSysctl, item.KindParameters, item.KindModules, item.KindPackages, item.KindUsers, item.KindUnits}

// placeOf returns the path of an item in a node's design.
func (w wish) placeOf(n *site.Node, f site.Facet, key string) []string {
	top := []string{"system"}
	switch {
	case f == site.FacetKernel:
		top = []string{"kernel"}
	case hasItem(n.Families[w.Family], w.Family, key):
		top = []string{"families", w.Family}
	}
	if id := item.ID(key); id != "" && id != key {
		return append(top, item.Kind(key), id)
	}
	return append(top, key)
}

// amendedParameters returns the parameters of a module that differ.
func (w wish) amendedParameters(n *site.Node, key string, at []string, have string) (values []site.AmendedValue, why string) {
	id := item.ID(key)
	designed := n.System.Modules[id].Parameters
	if own, is := n.Families[w.Family].Modules[id]; is {
		designed = own.Parameters
	}
	is := map[string]string{}
	for _, p := range strings.Split(have, ", ") {
		name, value, ok := strings.Cut(p, "=")
		if p != "" && !ok {
			return nil, fmt.Sprintf("a design cannot ask for %q", have)
		}
		if p != "" {
			is[name] = value
		}
	}
	place := func(name string) []string { return append(slices.Clone(at), "parameters", name) }
	for name, value := range is {
		if want, asked := designed[name]; !asked || site.SettingText(want) != value {
			values = append(values, valueAt(likeValue(want, value), place(name)...)...)
		}
	}
	for name := range designed {
		if _, there := is[name]; !there {
			values = append(values, valueAt(nil, place(name)...)...)
		}
	}
	return values, ""
}

// hasItem reports whether a family's design has the item itself.
func hasItem(s site.System, family, key string) bool {
	of := &site.Node{Families: map[string]site.System{family: s}}
	for _, f := range []site.Facet{site.FacetBase, site.FacetPackages, site.FacetConfig} {
		if slices.ContainsFunc(of.ItemsIn(f, family), func(i item.Item) bool { return i.Key == key }) {
			return true
		}
	}
	return false
}

// over returns settings with those of a family taking precedence.
func over(all, own site.Scalars) site.Scalars {
	merged := site.Scalars{}
	maps.Copy(merged, all)
	maps.Copy(merged, own)
	return merged
}

// likeValue converts what a machine reports to the type that the design uses there, if that has the
// same text.
func likeValue(designed any, have string) any {
	switch designed.(type) {
	case bool:
		if is, err := strconv.ParseBool(have); err == nil && strconv.FormatBool(is) == have {
			return is
		}
	case string:
		return have
	}
	if n, err := strconv.ParseInt(have, 10, 64); err == nil && strconv.FormatInt(n, 10) == have {
		return n
	}
	return have
}
