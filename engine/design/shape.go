package design

import (
	"slices"
	"strings"

	"cuelang.org/go/cue"
)

// section is a top-level field of a site, and the definition of its content.
type section struct {
	name, definition string
	// bind is the section's declaration, with %s for the definition.
	bind string
	// many says that the section is a map of the definition.
	many bool
}

var sections = []section{
	{"site", "#Site", "site: %s", false},
	{"networks", "#Network", "networks: [string]: %s", true},
	{"routeDomains", "#RouteDomain", "routeDomains: [string]: %s", true},
	{"links", "#Link", "links: [string]: %s", true},
	{"windows", "#Window", "windows: [string]: %s", true},
	{"roles", "#Role", "roles: [string]: %s", true},
	{"racks", "#Rack", "racks: [string]: %s", true},
	{"hypervisors", "#Hypervisor", "hypervisors: [string]: %s", true},
	{"images", "#Image", "images: [string]: %s", true},
	{"artifacts", "#Artifact", "artifacts: [string]: %s", true},
	{"drivers", "#Driver", "drivers: [string]: %s", true},
	{"bootActions", "#BootAction", "bootActions: [string]: %s", true},
	{"allocations", "#Allocation", "allocations: [string]: %s", true},
	{"credentials", "#Credential", "credentials: [string]: %s", true},
	{"data", "#Data", "data: [string]: %s", true},
	{"extensions", "#Extension", "extensions: [string]: %s", true},
	{"policies", "#Policy", "policies: [string]: %s", true},
	{"suppressions", "#Suppression", "suppressions: [string]: %s", true},
	{"approvals", "#Approval", "approvals: [string]: %s", true},
	{"incidents", "#Incident", "incidents: [string]: %s", true},
	{profilesSection, "#Profile", "profiles: [string]: %s", true},
	{nodesSection, "#Layer", "nodes: [string]: %s", true},
}

const (
	profilesSection = "profiles"
	nodesSection    = "nodes"
)

// shape is what a definition of the schema allows in one place. Findings about
// fields come from shapes, because CUE hides unknown and missing fields behind
// other errors. The shape of a recursive definition is recursive too.
type shape struct {
	// kind is the kinds that a value may have; all for an open value.
	kind cue.Kind
	// fields are a struct's own fields, entries the patterns of a map.
	fields  map[string]*shape
	entries []entry
	// item is the shape of a list's items.
	item     *shape
	required bool
	optional bool
	// constraint says that the value is CUE to check other values against.
	constraint bool
	// says is the schema's value for a scalar or list. It is missing where the
	// schema has parts of it in several places.
	says cue.Value
	// fallback is the default, with its origin in the schema.
	fallback *tree
	// form says in words what fits.
	form string
}

// entry is a pattern of a map: the keys that it matches, and their values.
type entry struct {
	// fits is nil when every key fits.
	fits func(string) bool
	// keys says in words which keys fit.
	keys string
	*shape
}

// anything is the shape of a value that the schema leaves open.
var anything = &shape{kind: cue.TopKind}

func (s *shape) isStruct() bool { return s.kind == cue.StructKind }

// of returns the kind that a value is read as. It finds the kind of an open
// value even when CUE sees none because something in it has no value.
func (s *shape) of(v cue.Value) cue.Kind {
	if s.kind != cue.TopKind {
		return s.kind
	}
	if k := v.IncompleteKind(); k != cue.BottomKind {
		return k
	}
	if v.LookupPath(cue.MakePath(cue.Index(0))).Exists() {
		return cue.ListKind
	}
	if _, err := v.Fields(); err == nil {
		return cue.StructKind
	}
	return cue.BottomKind
}

// sub returns the shape of a field of s, or nil when s does not allow that
// name.
func (s *shape) sub(field string) *shape {
	if f, ok := s.fields[field]; ok {
		return f
	}
	for _, e := range s.entries {
		if e.fits == nil || e.fits(field) {
			return e.shape
		}
	}
	if s.kind == cue.TopKind {
		return s
	}
	return nil
}

// items returns the shape of a list's items.
func (s *shape) items() *shape {
	if s.item == nil {
		return anything
	}
	return s.item
}

// holdsFields reports whether a list's items are structs or lists.
func (s *shape) holdsFields() bool { return s.items().kind&(cue.StructKind|cue.ListKind) != 0 }

// fits says in words what a value must be.
func (s *shape) fits() string {
	switch {
	case s.form != "":
		return s.form
	case s.kind == cue.TopKind:
		return "a value"
	case s.kind == cue.ListKind && !s.holdsFields():
		return "a list, each item " + s.items().fits()
	}
	var kinds []string
	left := s.kind
	for _, k := range kindWords {
		if left&k.kind == k.kind {
			left &^= k.kind
			kinds = append(kinds, k.words)
		}
	}
	return alternatives(kinds)
}

var kindWords = []struct {
	kind  cue.Kind
	words string
}{
	{cue.NumberKind, "a number"},
	{cue.IntKind, "a whole number"},
	{cue.StringKind, "a text in quotes"},
	{cue.BoolKind, "true or false"},
	{cue.ListKind, "a list"},
	{cue.StructKind, "fields in braces"},
}

// alternatives joins words as in "a, b or c".
func alternatives(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// keys says in words what the keys of a map must be.
func (s *shape) keys() string {
	var forms []string
	for _, e := range s.entries {
		forms = append(forms, e.keys)
	}
	return alternatives(slices.Compact(forms))
}
