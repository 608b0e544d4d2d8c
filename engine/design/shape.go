package design

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
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
	{"routeDomains", "#RouteDomain", "routeDomains: [string]: %s", true},
	{"links", "#Link", "links: [string]: %s", true},
	{"windows", "#Window", "windows: [string]: %s", true},
	{"roles", "#Role", "roles: [string]: %s", true},
	{"racks", "#Rack", "racks: [string]: %s", true},
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
	{profilesSection, "#Profile", "profiles: [string]: %s", true},
	{nodesSection, "#Layer", "nodes: [string]: %s", true},
}

const (
	profilesSection = "profiles"
	nodesSection    = "nodes"
)

// shape is what a definition of the schema allows in one place. Findings about
// fields come from it, because CUE hides unknown and missing fields behind
// other errors. The shape of a definition that contains itself does, too.
type shape struct {
	// kind is what a value may be; all kinds for one that is open.
	kind cue.Kind
	// fields are a struct's own, entries what the patterns of a map allow.
	fields  map[string]*shape
	entries []entry
	// item is what a list holds.
	item     *shape
	required bool
	optional bool
	// constraint says that the value is CUE to be held against other values,
	// and says nothing itself.
	constraint bool
	// fallback is the default, with its origin in the schema.
	fallback *tree
	// form says in words what fits.
	form string
}

// entry is a pattern of a map: which keys it is for, and what they hold.
type entry struct {
	// fits is nil when every key fits.
	fits func(string) bool
	// keys says in words which do.
	keys string
	*shape
}

// anything is the shape of a value that the schema leaves open.
var anything = &shape{kind: cue.TopKind}

func (s *shape) isStruct() bool { return s.kind == cue.StructKind }

// of is the kind that a value is read as: an open one as what it is, also where
// CUE sees no kind because something in it has no value.
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

// sub is the shape of a field of s, nil when s allows none of that name.
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

// items is the shape of what a list holds.
func (s *shape) items() *shape {
	if s.item == nil {
		return anything
	}
	return s.item
}

// holdsFields says whether a list's items have fields of their own to tell of.
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

// shapes are the shapes of all definitions by name.
var shapes = sync.OnceValue(func() map[string]*shape {
	l := newLoader(pack{})
	l.context = build.NewContext()
	l.done = map[string]*build.Instance{}
	return shapesOf(cuecontext.New().BuildInstance(l.loadSchema()))
})

// shapesOf reads the shapes of a package's definitions.
func shapesOf(v cue.Value) map[string]*shape {
	r := newShaper()
	r.strict = true
	for it, _ := v.Fields(cue.Definitions(true)); it.Next(); {
		if text, ok := regular(it.Value()); ok {
			r.words[text] = formOf(it.Value())
		}
	}
	all := map[string]*shape{}
	for it, _ := v.Fields(cue.Definitions(true)); it.Next(); {
		if it.Selector().IsDefinition() {
			all[it.Selector().String()] = r.definition(it.Selector().String(), it.Value())
		}
	}
	r.link()
	return all
}

// shapeOf reads the shape of a site's own constraint. It is closed but where
// the constraint itself says "...", or nothing at all.
func shapeOf(v cue.Value) *shape {
	r := newShaper()
	var parts []*shape
	for _, c := range conjuncts(v) {
		if ours(c.Pos()) {
			parts = append(parts, r.read(c))
		}
	}
	r.link()
	whole := anything
	for _, p := range parts {
		whole = both(whole, p)
	}
	if len(whole.fields)+len(whole.entries) == 0 {
		return anything
	}
	return whole
}

// shaper reads shapes. A field that is a definition by name gets its shape
// last, so that a definition may contain itself.
type shaper struct {
	definitions map[string]*shape
	named       map[*shape]string
	// mixed have several patterns.
	mixed []*shape
	// words are what definitions say of themselves, by regular expression.
	words map[string]string
	// strict panics on what is not understood, which the schema does not have.
	strict bool
}

func newShaper() *shaper {
	return &shaper{definitions: map[string]*shape{}, named: map[*shape]string{}, words: map[string]string{}}
}

// link gives fields that are definitions by name their shapes.
func (r *shaper) link() {
	for s, name := range r.named {
		s.is(r.definitions[name])
	}
	for _, s := range r.mixed {
		unmix(s.entries)
	}
}

// definition reads the shape of a definition once.
func (r *shaper) definition(name string, v cue.Value) *shape {
	key := definitionKey(name, v)
	if r.definitions[key] == nil {
		r.definitions[key] = &shape{}
		*r.definitions[key] = *r.read(v)
	}
	return r.definitions[key]
}

// definitionKey tells definitions of several packages apart.
func definitionKey(name string, v cue.Value) string { return path.Dir(v.Pos().Filename()) + name }

// read reads the shape of a definition.
func (r *shaper) read(v cue.Value) *shape {
	s := &shape{kind: v.IncompleteKind(), fallback: fallback(v), form: formOf(v), constraint: isConstraint(v)}
	switch s.kind {
	case cue.ListKind:
		if item := v.LookupPath(cue.MakePath(cue.AnyIndex)); item.Exists() {
			s.item = r.field(item)
		}
	case cue.StructKind:
		if op, _ := v.Expr(); op == cue.OrOp {
			s.kind = cue.TopKind
			break
		}
		s.fields = map[string]*shape{}
		for it, _ := v.Fields(cue.Optional(true), cue.Patterns(true)); it.Next(); {
			r.add(s, it.Selector(), it.Value())
		}
		if rest := v.LookupPath(cue.MakePath(cue.AnyString)); len(s.entries) == 0 && rest.Exists() {
			s.entries = []entry{{shape: r.field(rest)}} // "..."
		}
	}
	return s
}

// add adds a field, or a pattern, to a struct's shape.
func (r *shaper) add(s *shape, label cue.Selector, v cue.Value) {
	f := r.field(v)
	if label.LabelType() == cue.PatternConstraint || label.ConstraintType() == cue.PatternConstraint {
		if s.entries = append(s.entries, r.entry(label.Pattern(), f)); len(s.entries) == 2 {
			r.mixed = append(r.mixed, s)
		}
		return
	}
	f.required = label.ConstraintType() == cue.RequiredConstraint
	f.optional = label.ConstraintType() == cue.OptionalConstraint
	s.fields[label.Unquoted()] = f
}

// field reads the shape of a field or an item.
func (r *shaper) field(v cue.Value) *shape {
	name, definition, ok := named(v)
	if !ok {
		return r.read(v)
	}
	r.definition(name, definition)
	s := &shape{form: formOf(v)}
	r.named[s] = definitionKey(name, definition)
	return s
}

// named is the definition that a value is, and nothing else; false without
// one.
func named(v cue.Value) (string, cue.Value, bool) {
	root, path := v.ReferencePath()
	if at := path.Selectors(); len(at) != 1 || !at[0].IsDefinition() {
		return "", cue.Value{}, false
	}
	definition := root.LookupPath(path)
	return path.String(), definition, definition.Exists()
}

// is gives a field the shape of a definition.
func (s *shape) is(d *shape) {
	if s.form == "" {
		s.form = d.form
	}
	s.kind, s.fields, s.entries, s.item, s.fallback = d.kind, d.fields, d.entries, d.item, d.fallback
}

// unmix has each pattern say what is also said of every key, so that the first
// that fits says everything. It changes the list in place, which fields share.
func unmix(entries []entry) {
	every := anything
	for _, e := range entries {
		if e.fits == nil {
			every = both(every, e.shape)
		}
	}
	for i, e := range entries {
		if entries[i].shape = every; e.fits != nil {
			entries[i].shape = both(e.shape, every)
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return order(a.fits == nil) - order(b.fits == nil) })
}

func order(last bool) int {
	if last {
		return 1
	}
	return 0
}

// both is the shape of what fits two shapes.
func both(a, b *shape) *shape {
	switch {
	case a.kind == cue.TopKind:
		return b
	case b.kind == cue.TopKind:
		return a
	}
	s := *a
	s.fields = maps.Clone(a.fields)
	for name, f := range b.fields {
		if s.fields == nil {
			break // CUE says that nothing fits
		}
		if s.fields[name] != nil {
			f = both(s.fields[name], f)
		}
		s.fields[name] = f
	}
	s.entries = slices.Concat(a.entries, b.entries)
	s.required, s.optional = a.required || b.required, a.optional && b.optional
	if s.fallback == nil {
		s.fallback = b.fallback
	}
	if s.form == "" {
		s.form = b.form
	}
	return &s
}

func isConstraint(v cue.Value) bool {
	a := v.Attribute("constraint")
	return a.Err() == nil
}

// formOf is what a field of the schema says of itself in words.
func formOf(v cue.Value) string {
	a := v.Attribute("form")
	text, _ := a.String(0) // empty without one
	return text
}

// entry is a pattern and what it holds: a regular expression, or one that any
// key fits.
func (r *shaper) entry(pattern cue.Value, holds *shape) entry {
	if text, ok := regular(pattern); ok {
		return entry{regexp.MustCompile(text).MatchString, cmp.Or(r.words[text], "a text that matches "+text), holds}
	}
	if op, _ := pattern.Expr(); r.strict && (op != cue.NoOp || pattern.IncompleteKind() != cue.StringKind || pattern.IsConcrete()) {
		panic(fmt.Sprintf("the schema has a pattern for keys that is not understood: %v", pattern))
	}
	return entry{shape: holds}
}

// regular is the regular expression that a value is.
func regular(v cue.Value) (string, bool) {
	op, args := v.Expr()
	if op != cue.RegexMatchOp {
		return "", false
	}
	text, err := args[0].String()
	return text, err == nil
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
