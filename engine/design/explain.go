package design

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Explanation says where the values of a node come from.
type Explanation struct {
	Node string `json:"node"`
	// Values are in the order of their paths: first the node's own, then those of the boot
	// actions and drivers that apply to it.
	Values []Value `json:"values"`
}

// Value is one value of a node: the setting in force, and those it overrides.
type Value struct {
	// Path is the value's place in the node, as in "boot.order".
	Path string `json:"path"`
	// at are the names that make up Path; a name may contain dots.
	at []string
	Setting
	// Overrode is what other layers say of the same value, nearest first, with the
	// schema's default last.
	Overrode []Setting `json:"overrode,omitempty"`
}

// Setting is what one layer says of a value.
type Setting struct {
	// Value is JSON; nil when the layer unsets the value.
	Value  json.RawMessage `json:"value,omitempty"`
	Unset  bool            `json:"unset,omitempty"`
	Origin site.Origin     `json:"origin,omitzero"`
}

// Explain evaluates a site as Evaluate does, and says where the values of one node come
// from. The target is the node's name, or the name, a dot and a path or the beginning of a
// path. A target that does not exist is an error. Without a site in the result there is no
// explanation.
func (e *Evaluator) Explain(ctx context.Context, files fs.FS, siteName, target string) (Explanation, Result, error) {
	name, path, _ := strings.Cut(target, ".")
	r, err := e.answer(ctx, files, siteName, evaluation{explain: name})
	if err != nil || r.Site == nil {
		return Explanation{}, r, err
	}
	if r.Explanation == nil {
		return Explanation{}, r, fmt.Errorf("site %s has no node %q%s", r.Site.Name, name, rule.DidYouMean(name, r.Site.NodeNames()))
	}
	x, err := r.Explanation.under(path)
	return x, r, err
}

// under returns the part of an explanation at a path.
func (x *Explanation) under(path string) (Explanation, error) {
	part := Explanation{Node: x.Node}
	for _, v := range x.Values {
		if v.within(path) {
			part.Values = append(part.Values, v)
		}
	}
	if len(part.Values) == 0 {
		return part, fmt.Errorf("the node %s has no value at %q%s", x.Node, path, rule.DidYouMean(path, x.paths()))
	}
	return part, nil
}

// within reports whether a value is at a path or below it; an empty path contains all. The
// file /etc/motd.d is not within /etc/motd.
func (v Value) within(path string) bool {
	size := len(path)
	if path == "" || v.Path == path {
		return true
	}
	if !strings.HasPrefix(v.Path, path+".") {
		return false
	}
	for _, name := range v.at {
		if size -= len(name); size == 0 {
			return true
		}
		size-- // the dot
	}
	return false
}

// paths lists the paths of all values and of everything around them.
func (x *Explanation) paths() []string {
	all := map[string]bool{}
	for _, v := range x.Values {
		for i := range v.at {
			all[strings.Join(v.at[:i+1], ".")] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// layersOf returns the layers of a node, nearest first.
func (sh *shared) layersOf(n *node) []*tree {
	layers := []*tree{n.layer.tree}
	if n.allocation != nil {
		layers = []*tree{n.allocation, n.layer.tree}
	}
	for _, l := range slices.Backward(sh.data[n.name]) {
		layers = append(layers, l.tree)
	}
	for _, p := range slices.Backward(n.merged.get("profiles").strings()) {
		layers = append(layers, sh.pedigree.profiles[p].layer)
	}
	return layers
}

// explainValues explains every value that a layer sets or unsets, or that holds for
// another reason. The layers are nearest first.
func explainValues(layers []*tree, effective *tree) []Value {
	paths := map[string][]string{}
	effective.leaves(nil, paths)
	for _, l := range layers {
		l.leaves(nil, paths)
	}
	var values []Value
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if holds := effective.get(paths[path]...); holds == nil || len(holds.fields) == 0 {
			values = append(values, explainValue(paths[path], layers, effective))
		}
	}
	return values
}

// explainActions explains the boot actions of the site that select a node. They follow the
// node's own values.
func explainActions(s *site.Site, n *site.Node) (values []Value) {
	if n == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(n.References.Actions)) {
		text, err := json.Marshal(s.BootActions[name])
		var of any
		if err == nil && json.Unmarshal(text, &of) == nil {
			values = append(values, settingsWithin(s, []string{"bootActions", name}, of)...)
		}
	}
	return values
}

// explainDrivers explains the drivers of the site that may apply to a node's machine. They
// follow its boot actions.
func explainDrivers(s *site.Site, n *site.Node) (values []Value) {
	if n == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(n.References.Drivers)) {
		text, err := json.Marshal(s.Drivers[name])
		var of any
		if err == nil && json.Unmarshal(text, &of) == nil {
			values = append(values, settingsWithin(s, []string{"drivers", name}, of)...)
		}
	}
	return values
}

// settingsWithin returns the values within a part of the site, with their places.
func settingsWithin(s *site.Site, at []string, of any) (values []Value) {
	fields, isObject := of.(map[string]any)
	if !isObject {
		text, _ := json.Marshal(of) // it was read from JSON
		path := strings.Join(at, ".")
		return []Value{{Path: path, at: at, Setting: Setting{Value: text, Origin: s.Origins.Of(path)}}}
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		values = append(values, settingsWithin(s, append(slices.Clone(at), key), fields[key])...)
	}
	return values
}

// explainValue explains the value at one path.
func explainValue(path []string, layers []*tree, effective *tree) Value {
	var said []Setting
	for _, l := range layers {
		if s, ok := l.says(path); ok {
			said = append(said, s)
		}
	}
	v := Value{Path: strings.Join(path, "."), at: path, Overrode: said}
	holds := effective.get(path...)
	if holds == nil { // the nearest layer unset it
		v.Setting, v.Overrode = said[0], said[1:]
		return v
	}
	v.Setting = settingOf(holds)
	if len(said) > 0 && !said[0].Unset {
		v.Overrode = said[1:]
	}
	if d := styleOf(effective).shape().fallbackAt(path); d != nil && holds.origin.LayerName() != "schema" {
		v.Overrode = append(v.Overrode, settingOf(d))
	}
	return v
}

// leaves adds the paths of the tree's leaves and of structs written empty, by their text.
func (t *tree) leaves(at []string, all map[string][]string) {
	if t.fields == nil || len(t.fields) == 0 && !t.unset && !t.origin.IsZero() {
		all[strings.Join(at, ".")] = at
		return
	}
	for key, f := range t.fields {
		f.leaves(append(slices.Clone(at), key), all)
	}
}

// says returns what a layer says of the value at a path. Unsetting something around the
// path unsets the value too.
func (t *tree) says(path []string) (Setting, bool) {
	var away *tree
	for _, key := range path {
		if t.unset {
			away = t
		}
		if t = t.fields[key]; t == nil {
			break
		}
	}
	switch {
	case t != nil && len(t.fields) == 0:
		return settingOf(t), true
	case t != nil && t.unset:
		return Setting{Unset: true, Origin: t.origin}, true
	case away != nil:
		return Setting{Unset: true, Origin: away.origin}, true
	}
	return Setting{}, false
}

// settingOf returns a leaf in the form shown to people.
func settingOf(t *tree) Setting {
	if t.unset {
		return Setting{Unset: true, Origin: t.origin}
	}
	value, _ := compact(t.plain()) // a string, number or boolean, a list of them, or {}
	return Setting{Value: value, Origin: t.origin}
}

// fallbackAt returns the schema's default at a path, or nil without one.
func (s *shape) fallbackAt(path []string) *tree {
	for _, key := range path {
		if s = s.sub(key); s == nil {
			return nil
		}
	}
	if s.optional {
		return nil
	}
	return s.fallback
}
