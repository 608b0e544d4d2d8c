package design

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// kind is a kind of items that the site declares.
type kind struct {
	name string
	item *constraint
	// shape has the fields that the item names and closes it, so that misspelt
	// fields are found.
	shape *shape
}

// kindsOf reads the kinds of a package. A kind with an error has no item.
func kindsOf(v cue.Value, declared map[string]*site.Extension) map[string]kind {
	all := map[string]kind{}
	for name := range declared {
		all[name] = kind{name: name}
		if c := constraintAt(v, extensionsField, name, "item"); c != nil {
			all[name] = kind{name, c, shapeOf(c.value)}
		}
	}
	return all
}

// extensionsField holds a layer's items by kind and name.
const extensionsField = "extensions"

// finishItems checks the items of a node with merged layers against their
// kinds. It adds the kinds' own values where no layer sets one.
func finishItems(name string, node *tree, kinds map[string]kind, found *findings) *tree {
	all := node.get(extensionsField)
	for _, of := range all.orEmpty().keys() {
		k, ok := kinds[of]
		if !ok {
			found.of(name, node.place([]string{extensionsField, of}), unknownKind(of, kinds))
		}
		if k.item == nil {
			continue
		}
		for _, item := range all.fields[of].keys() {
			at := []string{extensionsField, of, item}
			if t := node.get(at...); t.fields != nil {
				node = node.set(at, k.finish(name, t, strings.Join(at, "."), found))
			}
		}
	}
	return node
}

// checkKinds reports where a layer replaces a value by one of another form.
// This can happen only in what a site's own kinds leave open.
func (sh *shared) checkKinds(found *findings, node string, order []string, above []*tree) {
	if len(sh.site.Extensions) == 0 {
		return
	}
	var below *tree
	lay := func(l *tree) {
		over := l.get(extensionsField)
		reportKinds(found, node, extensionsField, below, over)
		below = merge(below, over)
	}
	for _, name := range order {
		lay(sh.pedigree.profiles[name].layer)
	}
	for _, l := range above {
		lay(l)
	}
}

func reportKinds(found *findings, node, path string, under, over *tree) {
	switch {
	case under == nil || over == nil || over.unset || under.vague() || over.vague():
	case under.form() != over.form():
		found.of(node, over.place(nil), site.Finding{
			Code: "kind-changed", Path: path,
			Message: fmt.Sprintf("%s is %s here and %s at %s", path, over.form(), under.form(), under.place(nil)),
			Why:     "A layer changes a value, but not its kind: what the layers below set would be lost.",
			Fix:     "Write both the same way, or give one of them another name.",
			Related: []string{under.place(nil).String()},
		})
	default:
		for _, name := range over.keys() {
			reportKinds(found, node, join(path, name), under.fields[name], over.fields[name])
		}
	}
}

// vague reports whether a leaf has no value because it is broken, open or
// unset.
func (t *tree) vague() bool { return t.fields == nil && (t.broken || t.open || t.unset) }

// form names the form of a tree in words.
func (t *tree) form() string {
	if t.fields != nil {
		return "fields in braces"
	}
	if _, isList := t.value.([]any); isList {
		return "a list"
	}
	return "a single value"
}

func unknownKind(name string, kinds map[string]kind) site.Finding {
	return site.Finding{
		Code: "unknown-extension", Path: join(extensionsField, name),
		Message: fmt.Sprintf("there is no kind %q in `extensions`%s", name, rule.DidYouMean(name, slices.Sorted(maps.Keys(kinds)))),
		Why:     "Slipway does not know what its items are, so it can do nothing with them.",
		Fix:     fmt.Sprintf("Use a kind that is there, or declare this one: `extensions: %s: item: {…}`.", name),
	}
}

// finish checks one item against its kind.
func (k kind) finish(node string, item *tree, path string, found *findings) *tree {
	strange := unnamed(item, k.shape, nil)
	for _, u := range strange {
		found.of(node, item.place(u.path), k.unknown(u, path))
	}
	plain, _ := item.plain().(map[string]any)
	for _, b := range k.item.hold(plain) {
		switch {
		case slices.ContainsFunc(strange, func(u stranger) bool { return prefixes(u.path, b.path) }):
		case b.lacks && item.get(b.path...) != nil: // it is broken, and already reported
		case b.lacks && b.given != nil:
			item = item.set(b.path, b.given)
		default:
			found.of(node, item.place(b.path), k.breach(b, path))
		}
	}
	return item
}

// stranger is a field of an item that its kind does not name; in is the shape
// around it.
type stranger struct {
	path []string
	in   *shape
}

func unnamed(t *tree, s *shape, path []string) []stranger {
	var all []stranger
	for _, item := range t.items {
		all = append(all, unnamed(item.tree, s.items(), append(slices.Clone(path), strconv.Itoa(item.at)))...)
	}
	if !s.isStruct() {
		return all
	}
	for _, name := range t.keys() {
		at := append(slices.Clone(path), name)
		if sub := s.sub(name); sub != nil {
			all = append(all, unnamed(t.fields[name], sub, at)...)
			continue
		}
		all = append(all, stranger{at, s})
	}
	return all
}

func (k kind) unknown(u stranger, path string) site.Finding {
	last := len(u.path) - 1
	name := u.path[last]
	path = strings.Join(append([]string{path}, u.path[:last]...), ".")
	return site.Finding{
		Code: "unknown-field", Path: join(path, name),
		Message: fmt.Sprintf("there is no field %q in %s%s", name, path, rule.DidYouMean(name, slices.Sorted(maps.Keys(u.in.fields)))),
		Why:     "Nothing reads it, so it would have no effect.",
		Fix:     fmt.Sprintf("Remove it, or add it to the kind: `extensions: %s: item`.", k.name),
	}
}

func (k kind) breach(b breach, path string) site.Finding {
	path = strings.Join(append([]string{path}, b.path...), ".")
	f := site.Finding{
		Code: "extension-item", Path: path, Message: path + b.message,
		Why: fmt.Sprintf("The kind %s says so.", k.name), Fix: "Change the item, or the kind.",
	}
	if b.lacks {
		f.Message = path + " is required and not set"
		f.Fix = "Set it, in the node or a profile."
	}
	if ours(b.at) {
		f.Related = []string{where(b.at)}
	}
	return f
}
