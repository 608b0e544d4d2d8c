package design

import (
	"sync"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/cuecontext"
)

// section is a top-level field of a site, and the definition of what it holds.
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
	{"roles", "#Role", "roles: [string]: %s", true},
	{"racks", "#Rack", "racks: [string]: %s", true},
	{"images", "#Image", "images: [string]: %s", true},
	{"credentials", "#Credential", "credentials: [string]: %s", true},
	{"approvals", "#Approval", "approvals: [string]: %s", true},
	{profilesSection, "#Profile", "profiles: [string]: %s", true},
	{nodesSection, "#Layer", "nodes: [string]: %s", true},
}

const (
	profilesSection = "profiles"
	nodesSection    = "nodes"
)

// shape is what a definition of the schema allows in one place. Findings about
// fields come from it, because CUE hides unknown and missing fields behind
// other errors.
type shape struct {
	kind cue.Kind
	// fields are a struct's, each what the pattern of a map allows.
	fields   map[string]*shape
	each     *shape
	required bool
	optional bool
	// fallback is the default, with its origin in the schema.
	fallback *tree
	// form says in words what fits.
	form string
}

func (s *shape) isStruct() bool { return s.kind == cue.StructKind }

// fits says in words what a value must be.
func (s *shape) fits() string {
	switch {
	case s.form != "":
		return s.form
	case s.isStruct():
		return "fields in braces"
	case s.kind == cue.ListKind:
		return "a list"
	case s.kind == cue.BoolKind:
		return "true or false"
	}
	return "a text in quotes"
}

// shapes are the shapes of all definitions by name.
var shapes = sync.OnceValue(func() map[string]*shape {
	l := newLoader(pack{})
	l.context = build.NewContext()
	l.done = map[string]*build.Instance{}
	v := cuecontext.New().BuildInstance(l.loadSchema())
	all := map[string]*shape{}
	for it, _ := v.Fields(cue.Definitions(true)); it.Next(); {
		all[it.Selector().String()] = shapeOf(it.Value())
	}
	return all
})

// shapeOf reads the shape of a definition.
func shapeOf(v cue.Value) *shape {
	s := &shape{kind: v.IncompleteKind(), fallback: fallback(v)}
	if a := v.Attribute("form"); a.Err() == nil {
		s.form, _ = a.String(0)
	}
	switch s.kind {
	case cue.StructKind:
		s.fields = map[string]*shape{}
		for it, _ := v.Fields(cue.Optional(true)); it.Next(); {
			f := shapeOf(it.Value())
			f.required = it.FieldType().ConstraintType() == cue.RequiredConstraint
			f.optional = it.FieldType().ConstraintType() == cue.OptionalConstraint
			s.fields[it.Selector().Unquoted()] = f
		}
		if each := v.LookupPath(cue.MakePath(cue.AnyString)); each.Exists() {
			s.each = shapeOf(each)
		}
	}
	return s
}

// fallback is a definition's default for a scalar, nil without one.
func fallback(v cue.Value) *tree {
	d, ok := v.Default()
	if !ok || !d.IsConcrete() || v.IncompleteKind() == cue.StructKind || v.IncompleteKind() == cue.ListKind {
		return nil
	}
	value, err := scalar(d)
	if err != nil {
		return nil
	}
	return &tree{value: value, origin: origin(d.Pos(), "schema")}
}

// sub is the shape of a field of s, nil when s allows none of that name.
func (s *shape) sub(field string) *shape {
	if f, ok := s.fields[field]; ok {
		return f
	}
	return s.each
}
