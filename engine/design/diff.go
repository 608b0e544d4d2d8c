package design

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Diff is the difference between two effective designs.
type Diff struct {
	// Added and Removed are nodes that only one of the designs has.
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	// Groups are in the order of their layers.
	Groups []Group `json:"groups,omitempty"`
}

// Empty reports whether the designs are the same.
func (d Diff) Empty() bool { return len(d.Added)+len(d.Removed)+len(d.Groups) == 0 }

// Group holds the differences that one layer causes.
type Group struct {
	// Layer is "profile/NAME", "schema", "site", or "node" for what nodes set
	// themselves.
	Layer string `json:"layer"`
	// Nodes are those that the layer changes; none where no node's value
	// differs.
	Nodes []string `json:"nodes,omitempty"`
	// Differences are in the order of their paths.
	Differences []Difference `json:"differences"`
}

// Difference is one value that differs in the same way for some nodes.
type Difference struct {
	Path string `json:"path"`
	// Have and Want are JSON; nil where the value is not set.
	Have  json.RawMessage `json:"have,omitempty"`
	Want  json.RawMessage `json:"want,omitempty"`
	Nodes []string        `json:"nodes,omitempty"`
	// Origins are the places of the new value or, without one, of the old
	// value. A line that sets it for several nodes is listed once.
	Origins []site.Origin `json:"origins,omitempty"`
}

// Compare returns what changes from one effective design to another. It
// compares values only, not the places where they are set.
func Compare(have, want *site.Site) (Diff, error) {
	var d Diff
	c := comparison{}
	if err := c.add("", general(have), general(want)); err != nil {
		return d, err
	}
	for _, name := range have.NodeNames() {
		if want.Nodes[name] == nil {
			d.Removed = append(d.Removed, name)
		}
	}
	for _, name := range want.NodeNames() {
		h, w := have.Nodes[name], want.Nodes[name]
		if h == nil {
			d.Added = append(d.Added, name)
			continue
		}
		if err := c.add(name, placed{renderedNode{Node: h}, h.Origins}, placed{renderedNode{Node: w}, w.Origins}); err != nil {
			return d, err
		}
	}
	d.Groups = c.groups()
	return d, nil
}

// placed is a part of a design with the origins of its values, by path.
type placed struct {
	part    any
	origins *site.Origins
}

// general returns a site without its nodes and profiles. Changes of profiles
// show in the nodes.
func general(s *site.Site) placed {
	d := whole(s)
	d.Profiles, d.Nodes = nil, nil
	return placed{d, s.Origins}
}

// comparison gathers differences and merges equal differences of several nodes.
type comparison map[differenceKey]*Difference

type differenceKey struct{ layer, path, have, want string }

// add compares two states of a node; an empty name is the site itself.
func (c comparison) add(node string, have, want placed) error {
	h, err := flat(have.part)
	if err != nil {
		return err
	}
	w, err := flat(want.part)
	if err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(union(h, w))) {
		if bytes.Equal(h[path], w[path]) || emptied(path, h, w) || emptied(path, w, h) {
			continue
		}
		o := want.origins.Of(path)
		if w[path] == nil {
			o = have.origins.Of(path)
		}
		c.note(node, path, h[path], w[path], o)
	}
	return nil
}

func (c comparison) note(node, path string, have, want json.RawMessage, o site.Origin) {
	name := o.LayerName()
	if strings.HasPrefix(name, "node/") || o.IsZero() && node != "" {
		name = "node"
	}
	key := differenceKey{name, path, string(have), string(want)}
	d := c[key]
	if d == nil {
		d = &Difference{Path: path, Have: have, Want: want}
		c[key] = d
	}
	if node != "" {
		d.Nodes = append(d.Nodes, node)
	}
	if !o.IsZero() && !slices.ContainsFunc(d.Origins, func(x site.Origin) bool { return x.String() == o.String() }) {
		d.Origins = append(d.Origins, o)
	}
}

// groups returns the differences by layer.
func (c comparison) groups() []Group {
	keys := slices.SortedFunc(maps.Keys(c), func(a, b differenceKey) int {
		return slices.Compare([]string{a.layer, a.path, a.have, a.want}, []string{b.layer, b.path, b.have, b.want})
	})
	var all []Group
	for _, k := range keys {
		if len(all) == 0 || all[len(all)-1].Layer != k.layer {
			all = append(all, Group{Layer: k.layer})
		}
		g := &all[len(all)-1]
		g.Differences = append(g.Differences, *c[k])
		g.Nodes = append(g.Nodes, c[k].Nodes...)
	}
	for i := range all {
		slices.Sort(all[i].Nodes)
		all[i].Nodes = slices.Compact(all[i].Nodes)
	}
	return all
}

// union has the paths of both maps.
func union(a, b map[string]json.RawMessage) map[string]json.RawMessage {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// emptied reports whether a path is empty in a and has content in b. Then the
// content is the difference.
func emptied(path string, a, b map[string]json.RawMessage) bool {
	if string(a[path]) != "{}" {
		return false
	}
	for other := range b {
		if strings.HasPrefix(other, path+".") {
			return true
		}
	}
	return false
}

// flat lists the values of a part of a design as JSON, by path. Lists and
// structs without fields count as values.
func flat(part any) (map[string]json.RawMessage, error) {
	text, err := compact(part)
	if err != nil {
		return nil, err
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	all := map[string]json.RawMessage{}
	return all, flatten("", v, all)
}

func flatten(path string, v any, all map[string]json.RawMessage) error {
	if fields, ok := v.(map[string]any); ok && len(fields) > 0 {
		for key, f := range fields {
			if err := flatten(join(path, key), f, all); err != nil {
				return err
			}
		}
		return nil
	}
	text, err := compact(v)
	all[path] = text
	return err
}

// compact returns a value as JSON on one line, for people.
func compact(v any) (json.RawMessage, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(text.Bytes()), err
}
