package design

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/slipway-gitops/slipway/engine/site"
)

// tree is a layer, or several layers merged: structs and maps down to scalars
// and lists, each leaf with its origin. A tree never changes once it was read;
// merging makes new ones.
type tree struct {
	// fields are those of a struct or map; nil for a leaf.
	fields map[string]*tree
	// value is a leaf's: string, bool, int64, float64, or []any of them and of
	// plain maps.
	value any
	// items are a list's items that have fields, kept only for their origins. A
	// list is replaced as a whole.
	items  []indexed
	origin site.Origin
	// unset removes what layers below have set.
	unset bool
	// open is a leaf with a constraint instead of a value.
	open bool
	// preset is a leaf with the default of an expression of the repository.
	preset bool
	// broken is a leaf whose value already has a finding, or a layer with such a
	// leaf where a struct belongs.
	broken bool
	// common is set when many nodes share this tree.
	common *common
}

// indexed is an item of a list.
type indexed struct {
	at int
	*tree
}

// merge merges over on top of under: maps and structs by key; anything else is
// replaced. Either may be nil.
func merge(under, over *tree) *tree {
	switch {
	case over == nil:
		return under
	case under == nil || over.unset || over.fields == nil || under.fields == nil:
		return over.settled()
	}
	merged := &tree{fields: maps.Clone(under.fields)}
	if len(under.fields)+len(over.fields) == 0 {
		merged.origin = cmp.Or(over.origin, under.origin)
	}
	for key, o := range over.fields {
		m := merge(under.fields[key], o)
		if m == nil {
			delete(merged.fields, key)
			continue
		}
		merged.fields[key] = m
	}
	return merged.unlessEmptied(len(under.fields) + len(over.fields))
}

// unlessEmptied returns t, or nil when everything in it was unset. Only a
// struct that was written empty stays empty.
func (t *tree) unlessEmptied(had int) *tree {
	if len(t.fields) == 0 && had > 0 {
		return nil
	}
	return t
}

// settled returns t as it is with no layer below, without unset parts.
func (t *tree) settled() *tree {
	if t.unset && len(t.fields) == 0 {
		return nil
	}
	if t.fields == nil || t.isSettled() {
		return t
	}
	s := &tree{fields: make(map[string]*tree, len(t.fields))}
	for key, f := range t.fields {
		if x := f.settled(); x != nil {
			s.fields[key] = x
		}
	}
	return s.unlessEmptied(len(t.fields))
}

// isSettled reports whether nothing in a tree is unset. Nearly all trees are
// settled, and need no copy.
func (t *tree) isSettled() bool {
	if t.fields == nil {
		return !t.unset
	}
	if t.unset {
		return false
	}
	for _, f := range t.fields {
		if !f.isSettled() {
			return false
		}
	}
	return true
}

// orEmpty returns t, or a struct without fields.
func (t *tree) orEmpty() *tree {
	if t == nil {
		return &tree{fields: map[string]*tree{}}
	}
	return t
}

// isBare reports whether a struct was written empty, so that it has only
// defaults. Such a struct has its own origin, to give findings about it a
// place.
func (t *tree) isBare() bool {
	for _, f := range t.fields {
		if f.fields != nil || f.origin.LayerName() != "schema" {
			return false
		}
	}
	return true
}

// plain returns the tree as encoding/json writes it, without broken and open
// leaves.
func (t *tree) plain() any {
	if t.fields == nil {
		return t.value
	}
	m := make(map[string]any, len(t.fields))
	for key, f := range t.fields {
		if !f.broken && !f.open {
			m[key] = f.plain()
		}
	}
	return m
}

// origins returns the origins of leaves and of everything else in the tree that
// has one.
func (t *tree) origins() *site.Origins {
	return t.common.originsOf(func() *site.Origins {
		parts := make([]site.OriginPart, 0, len(t.fields)+len(t.items))
		for key, f := range t.fields {
			parts = append(parts, f.originPart(key))
		}
		for _, item := range t.items {
			parts = append(parts, item.originPart(strconv.Itoa(item.at)))
		}
		return site.NewOrigins(parts...)
	})
}

func (t *tree) originPart(name string) site.OriginPart {
	return site.OriginPart{Name: name, Origin: t.origin, Within: t.origins()}
}

// get returns the tree's part at a path, or nil without one.
func (t *tree) get(path ...string) *tree {
	for _, key := range path {
		if t == nil {
			return nil
		}
		t = t.fields[key]
	}
	return t
}

// at returns the tree's part at a dotted path, or nil without one. A name may
// contain dots, so it tries each dot as the end of a name.
func (t *tree) at(path string) *tree {
	if f := t.fields[path]; f != nil {
		return f
	}
	for i, c := range path {
		if c != '.' {
			continue
		}
		if f := t.fields[path[:i]]; f != nil {
			if part := f.at(path[i+1:]); part != nil {
				return part
			}
		}
	}
	return nil
}

// strings returns the items of a list of strings, or none for anything else.
func (t *tree) strings() []string {
	if t == nil {
		return nil
	}
	items, _ := t.value.([]any)
	list := make([]string, 0, len(items))
	for _, item := range items {
		if s, ok := item.(string); ok {
			list = append(list, s)
		}
	}
	return list
}

// set returns a copy of the tree with a path replaced.
func (t *tree) set(path []string, to *tree) *tree {
	if len(path) == 0 {
		return to
	}
	done := *t.orEmpty()
	done.common = nil // cached results of t do not apply to the copy
	done.fields = maps.Clone(done.fields)
	done.fields[path[0]] = done.fields[path[0]].set(path[1:], to)
	return &done
}

// place returns the origin at a path or, if it has none, of something near:
// what contains the path, or something next to it.
func (t *tree) place(path []string) site.Origin {
	if len(path) > 0 {
		if sub := t.sub(path[0]); sub != nil {
			return cmp.Or(sub.place(path[1:]), t.origin)
		}
	}
	for t.origin.IsZero() && len(t.fields) > 0 {
		t = t.fields[t.keys()[0]]
	}
	return t.origin
}

// sub returns a field, or an item that has fields.
func (t *tree) sub(key string) *tree {
	for _, item := range t.items {
		if strconv.Itoa(item.at) == key {
			return item.tree
		}
	}
	return t.fields[key]
}

// without returns the tree without one field.
func (t *tree) without(field string) *tree {
	fields := maps.Clone(t.fields)
	delete(fields, field)
	return &tree{fields: fields, origin: t.origin, unset: t.unset, broken: t.broken}
}

// size returns how many values the tree has: itself, and all that is in it.
func (t *tree) size() int64 {
	n := sizeOf(t.value)
	for _, f := range t.fields {
		n += f.size()
	}
	return n
}

func sizeOf(value any) int64 {
	n := int64(1)
	switch x := value.(type) {
	case []any:
		for _, item := range x {
			n += sizeOf(item)
		}
	case map[string]any:
		for _, item := range x {
			n += sizeOf(item)
		}
	}
	return n
}

// keys returns the fields' names in order.
func (t *tree) keys() []string { return slices.Sorted(maps.Keys(t.fields)) }

func join(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}
