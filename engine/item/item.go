// Package item names what Slipway sets inside an installed system, item by item: a file, a unit, a
// package, an account. The daemon derives items from the design. The program on the machine
// observes and applies them. Both compare items by the canonical texts of this package. It is pure
// and imports the standard library without package net.
package item

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// Item is one required part of an installed system.
type Item struct {
	// Key names the item within its facet: "files./etc/motd",
	// "units.chrony.service", "packages.nginx".
	Key string `json:"key"`
	// Fields are the item's required values in canonical text, by the design's names: "mode" is
	// "0644". An item with a single value has the field "".
	Fields map[string]string `json:"fields"`
	// Body is what is needed to apply the item. Its form depends on the kind: a File for files, a
	// Unit for units, and so on. It is nil if the fields are enough.
	Body json.RawMessage `json:"body,omitempty"`
}

// returning lists, by kind, the fields that return to their earlier value if a design no longer
// names them but still asks for the item. Other fields have a value implied by the design, or
// nothing to return to.
var returning = map[string][]string{
	KindUsers: {"shell", "password"},
	KindUnits: {"content", "enabled", "state"},
	KindTime:  {"zone", "servers"},
	// A shared address stays where it is: whatever moves it knows where it belongs.
	KindLinks: {"mtu", "addresses", "dhcp", "routes", "dns", "members", "bond", "stp", "slaac", "functions"},
}

// Returning returns, sorted, those of the previously asked fields that return to their earlier
// value. An item that should be absent has none.
func (i Item) Returning(asked []string) []string {
	if i.Fields["state"] == Absent {
		return nil
	}
	var back []string
	for _, field := range slices.Sorted(slices.Values(asked)) {
		if _, still := i.Fields[field]; !still && slices.Contains(returning[Kind(i.Key)], field) {
			back = append(back, field)
		}
	}
	return back
}

// needing lists, by kind, the fields that a system can have only with certain programs or files.
// The designed value decides which.
var needing = map[string][]string{
	KindUsers: {"groups", "shell"},
	KindTime:  {"zone"},
	KindLogs:  {"forward"},
	KindLinks: {"dhcp", "pci"},
}

// Needing returns the requested values of fields that the system may not be able to have yet, by
// flat name.
func Needing(items []Item) map[string]string {
	values := map[string]string{}
	for _, i := range items {
		for _, field := range needing[Kind(i.Key)] {
			if v := i.Fields[field]; v != "" {
				values[Name(i.Key, field)] = v
			}
		}
	}
	return values
}

// Valued names one value of a field: "users.ops.groups=docker".
func Valued(name, value string) string { return name + "=" + value }

// Lacking says why a system cannot have a value of a field yet, by what is reported of the field or
// of this value; empty if it can. Every system can have a field empty.
func Lacking(cannot map[string]string, name, value string) string {
	if value == "" {
		return ""
	}
	if why := cannot[Valued(name, value)]; why != "" {
		return why
	}
	return cannot[name]
}

// Values returns the fields of items by flat name: the key, a dot and the field.
func Values(items []Item) map[string]string {
	values := map[string]string{}
	for _, i := range items {
		for field, v := range i.Fields {
			values[Name(i.Key, field)] = v
		}
	}
	return values
}

// Name is the flat name of an item's field.
func Name(key, field string) string {
	if field == "" {
		return key
	}
	return key + "." + field
}

// Keys returns the keys of items, sorted.
func Keys(items []Item) []string {
	keys := make([]string, 0, len(items))
	for _, i := range items {
		keys = append(keys, i.Key)
	}
	slices.Sort(keys)
	return keys
}

// Missing returns, sorted, the keys that values say nothing about.
func Missing(keys []string, values map[string]string) []string {
	there := Told(values)
	all := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return there[key] })
	slices.Sort(all)
	return slices.Compact(all)
}

// Told returns the keys that values say something about: the name of a value, and its part before
// the last dot, since no field contains a dot.
func Told(values map[string]string) map[string]bool {
	keys := map[string]bool{}
	for name := range values {
		keys[name] = true
		if i := strings.LastIndexByte(name, '.'); i > 0 {
			keys[name[:i]] = true
		}
	}
	return keys
}

// Kind is the first part of a key: "files" of "files./etc/motd".
func Kind(key string) string {
	kind, _, _ := strings.Cut(key, ".")
	return kind
}

// ID is a key without its kind: "/etc/motd" of "files./etc/motd".
func ID(key string) string {
	_, id, _ := strings.Cut(key, ".")
	return id
}

// Digest is the canonical text of a content: "sha256:" and 32 hexadecimal digits. That is half of
// the SHA-256, enough to distinguish contents.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:16])
}

// DigestOf is the Digest of a content whose SHA-256 is given in lower-case hex.
func DigestOf(sha256 string) string { return "sha256:" + sha256[:min(len(sha256), 32)] }

// Asked is the name of a fact: what an interface asks others for and does not have, or has and does
// not ask for. Its value is sentences separated by "; ". It is never in a design.
func Asked(id string) string { return "facts." + id + ".asked" }

// AskedOf returns the interface of such a fact.
func AskedOf(field string) (id string, ok bool) {
	rest, fact := strings.CutPrefix(field, "facts.")
	id, asked := strings.CutSuffix(rest, ".asked")
	return id, fact && asked
}

// BroughtBy is the name of a fact: the package that brought a unit that the design may not name,
// and the packages that need that one, separated by spaces. It is never in a design.
func BroughtBy(unit string) string { return "facts." + KindUnlisted + "." + unit }

// MeantBy is the name of a fact: other names by which the design may mean a unit, separated by spaces.
// They are its own other names, and those of units that stop with it. It is never in a design.
func MeantBy(unit string) string { return "facts.meant." + unit }

// List is the canonical text of an unordered list: sorted, without duplicates, separated by ", ".
func List(all []string) string {
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	return strings.Join(slices.Compact(sorted), ", ")
}

// The values of a field "state".
const (
	Present = "present"
	Absent  = "absent"
	// Held is an installed package that upgrades skip.
	Held = "held"
)

// Disabled is the value of a KindUnlisted or KindManagers item that neither starts with the system nor runs.
const Disabled = "disabled"
