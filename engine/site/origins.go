package site

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Origins says where the values of a node, or outside the nodes, were set: by
// path, such as "boot.order". It is an immutable tree, so nodes share what they
// have from the same profile; a large site has a million origins. A nil Origins
// is empty.
type Origins struct {
	parts []OriginPart // by name
}

// OriginPart is the part of Origins for one name: where the name itself was
// set, if it was, and where its contents were.
type OriginPart struct {
	Name   string
	Origin Origin
	Within *Origins
}

// NewOrigins combines parts with distinct names; nil if there are none.
func NewOrigins(parts ...OriginPart) *Origins {
	if len(parts) == 0 {
		return nil
	}
	slices.SortFunc(parts, func(a, b OriginPart) int { return strings.Compare(a.Name, b.Name) })
	return &Origins{parts}
}

// OriginsByPath builds Origins from the origin of each path.
func OriginsByPath(all map[string]Origin) *Origins {
	var parts []OriginPart
	in := map[string]map[string]Origin{}
	for path, o := range all {
		name, rest, deeper := strings.Cut(path, ".")
		if in[name] == nil {
			in[name] = map[string]Origin{}
		}
		if deeper {
			in[name][rest] = o
		}
	}
	for name, within := range in {
		parts = append(parts, OriginPart{name, all[name], OriginsByPath(within)})
	}
	return NewOrigins(parts...)
}

// Of returns the origin of a path, zero if the path has none of its own.
func (o *Origins) Of(path string) Origin { return o.part(path).Origin }

// Has reports whether there is an origin at a path.
func (o *Origins) Has(path string) bool { return !o.Of(path).IsZero() }

// All iterates over every origin with its path, always in the same order.
func (o *Origins) All() iter.Seq2[string, Origin] {
	return func(yield func(string, Origin) bool) { o.each("", yield) }
}

// Within iterates over the origins below a path, by full path.
func (o *Origins) Within(path string) iter.Seq2[string, Origin] {
	return func(yield func(string, Origin) bool) { o.part(path).Within.each(path+".", yield) }
}

// part returns the part at a path. A name may contain dots, so it tries each
// dot as the end of the name.
func (o *Origins) part(path string) OriginPart {
	if o == nil {
		return OriginPart{}
	}
	for end := 0; end < len(path); end++ {
		next := strings.IndexByte(path[end:], '.')
		if next < 0 {
			return o.named(path)
		}
		end += next
		if p := o.named(path[:end]).Within.part(path[end+1:]); p.Name != "" {
			return p
		}
	}
	return OriginPart{}
}

func (o *Origins) named(name string) OriginPart {
	i, ok := slices.BinarySearchFunc(o.parts, name, func(p OriginPart, name string) int { return strings.Compare(p.Name, name) })
	if !ok {
		return OriginPart{}
	}
	return o.parts[i]
}

func (o *Origins) each(prefix string, yield func(string, Origin) bool) bool {
	if o == nil {
		return true
	}
	for _, p := range o.parts {
		path := prefix + p.Name
		if !p.Origin.IsZero() && !yield(path, p.Origin) || !p.Within.each(path+".", yield) {
			return false
		}
	}
	return true
}

// Beside returns o with the part of one name from other, unless o has that name.
func (o *Origins) Beside(other *Origins, name string) *Origins {
	p := other.part(name)
	if p.Name == "" || o.part(name).Name != "" {
		return o
	}
	if o == nil {
		return NewOrigins(p)
	}
	return NewOrigins(append(slices.Clone(o.parts), p)...)
}

// Equal reports whether both have the same origins.
func (o *Origins) Equal(p *Origins) bool {
	return o == p || maps.Equal(maps.Collect(o.All()), maps.Collect(p.All()))
}

// MarshalJSON writes one object, by path.
func (o *Origins) MarshalJSON() ([]byte, error) {
	return json.Marshal(maps.Collect(o.All()))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (o *Origins) UnmarshalJSON(text []byte) error {
	var all map[string]Origin
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for path, origin := range all {
		if now := pathNow(path); now != path {
			delete(all, path)
			all[now] = origin
		}
	}
	*o = Origins{}
	if read := OriginsByPath(all); read != nil {
		*o = *read
	}
	return nil
}
