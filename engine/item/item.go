// Package item names what Slipway sets inside an installed system, item by item:
// a file, a unit, a package, an account. The daemon derives items from the
// design; the program on the machine observes and applies them. Both compare
// items by the texts that this package writes, so that "the same" means one
// thing. It is pure and imports the standard library without package net.
package item

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// Item is one thing that is to be so in an installed system.
type Item struct {
	// Key names the item within its facet: "files./etc/motd",
	// "units.chrony.service", "packages.nginx".
	Key string `json:"key"`
	// Fields are what is to be true of it, in canonical texts, by the names that
	// the design has for them: "mode" is "0644". An item that is a single value
	// has the field "".
	Fields map[string]string `json:"fields"`
	// Body is what it takes to make it so; its form belongs to the kind of item:
	// a File for files, a Unit for units, and so on. It is nil where the fields
	// say all.
	Body json.RawMessage `json:"body,omitempty"`
}

// returning are the fields that go back to what they were when a design that still
// asks for the item names them no more, by kind. Other fields have a value that the
// design implies, or nothing to go back to.
var returning = map[string][]string{
	KindUsers: {"shell", "password"},
	KindUnits: {"content", "enabled", "state"},
	KindTime:  {"zone", "servers"},
	// A shared address is left where it is: what moves it knows where it belongs.
	KindLinks: {"mtu", "addresses", "dhcp", "routes", "dns", "members", "bond", "stp", "slaac", "functions"},
}

// Returning are the names of the fields that were asked for before and that go back to
// what they were, in order. Of an item that is to be absent no field goes back.
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

// needing are the fields that a system can have only with certain programs or files, by
// kind: what they are designed as decides which.
var needing = map[string][]string{
	KindUsers: {"groups", "shell"},
	KindTime:  {"zone"},
	KindLogs:  {"forward"},
	KindLinks: {"dhcp", "pci"},
}

// Needing are the values that items ask for of fields that the system may not be able to
// have yet, under flat names.
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

// Lacking says why a system cannot have a value of a field yet, by what is told of the
// field or of this value of it; empty where it can. Every system can have a field empty.
func Lacking(cannot map[string]string, name, value string) string {
	if value == "" {
		return ""
	}
	if why := cannot[Valued(name, value)]; why != "" {
		return why
	}
	return cannot[name]
}

// Values are the fields of items under flat names: the key, and behind a dot the
// field.
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

// Keys are the keys of items in order.
func Keys(items []Item) []string {
	keys := make([]string, 0, len(items))
	for _, i := range items {
		keys = append(keys, i.Key)
	}
	slices.Sort(keys)
	return keys
}

// Missing are the keys of which values tell nothing, in order.
func Missing(keys []string, values map[string]string) []string {
	there := Told(values)
	all := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return there[key] })
	slices.Sort(all)
	return slices.Compact(all)
}

// Told are the keys of which values tell something: a value's name, and its
// beginning up to the last dot, since no field has one.
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

// Digest is the canonical text of a content: "sha256:" and 32 hexadecimal digits,
// which are half of it and enough to tell contents apart.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:16])
}

// DigestOf is Digest of a content whose SHA-256 is known, in lower-case hex.
func DigestOf(sha256 string) string { return "sha256:" + sha256[:min(len(sha256), 32)] }

// Asked is the fact of what an interface asks others for and does not have, or has and does
// not ask for: sentences, with "; " between. No design has it.
func Asked(id string) string { return "facts." + id + ".asked" }

// AskedOf is the interface of such a fact.
func AskedOf(field string) (id string, ok bool) {
	rest, fact := strings.CutPrefix(field, "facts.")
	id, asked := strings.CutSuffix(rest, ".asked")
	return id, fact && asked
}

// BroughtBy is the fact of which package has brought a unit that the design may not name, and of
// which others need that one, with spaces between. No design has it.
func BroughtBy(unit string) string { return "facts." + KindUnlisted + "." + unit }

// MeantBy is the fact of by which other names the design may mean a unit: its own other ones, and
// those of units that stop with it, with spaces between. No design has it.
func MeantBy(unit string) string { return "facts.meant." + unit }

// List is the canonical text of a list whose order says nothing: sorted, without
// duplicates, with ", " between.
func List(all []string) string {
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	return strings.Join(slices.Compact(sorted), ", ")
}

// The values that a field "state" has.
const (
	Present = "present"
	Absent  = "absent"
	// Held is a package that is installed and that upgrades leave alone.
	Held = "held"
)

// Disabled is what of KindUnlisted or KindManagers neither starts with the system nor runs.
const Disabled = "disabled"
