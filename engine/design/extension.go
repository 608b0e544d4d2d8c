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

// kind is a kind of item of the site's own.
type kind struct {
	name string
	item *constraint
	// shape is what the item names, which closes it: a misspelt field is one
	// here as anywhere.
	shape *shape
}

// kindsOf reads the kinds of a package. One that has an error of its own has no
// item.
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

// finishItems holds the items of a node, all of whose layers are merged,
// against their kinds, and adds what the kinds say where no layer speaks.
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

// checkKinds reports where a layer puts something of another kind over what is
// set below: only what a site's own kinds leave open can be of several.
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

// vague says that a leaf has no value, for a reason of its own.
func (t *tree) vague() bool { return t.fields == nil && (t.broken || t.open || t.unset) }

// form says in words what a tree is.
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

// finish holds one item against its kind.
func (k kind) finish(node string, item *tree, path string, found *findings) *tree {
	strange := unnamed(item, k.shape, nil)
	for _, u := range strange {
		found.of(node, item.place(u.path), k.unknown(u, path))
	}
	plain, _ := item.plain().(map[string]any)
	for _, b := range k.item.hold(plain) {
		switch {
		case slices.ContainsFunc(strange, func(u stranger) bool { return prefixes(u.path, b.path) }):
		case b.lacks && item.get(b.path...) != nil: // it is broken, as was said
		case b.lacks && b.given != nil:
			item = item.set(b.path, b.given)
		default:
			found.of(node, item.place(b.path), k.breach(b, path))
		}
	}
	return item
}

// stranger is a field of an item that its kind does not name; in is what the
// kind has around it.
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
