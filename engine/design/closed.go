package design

import (
	"fmt"
	"slices"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/errors"

	"github.com/slipway-gitops/slipway/engine/site"
)

// isShutOut reports whether a definition of the repository rejects a field that the
// schema has. CUE closes definitions, and gives such a field an error as its value.
func isShutOut(v cue.Value) bool {
	if v.IncompleteKind() != cue.BottomKind {
		return false
	}
	errs := errors.Errors(v.Err())
	if len(errs) == 0 {
		return false
	}
	format, _ := errs[0].Msg()
	return format == "field not allowed" && causeOf(errs[0]) == dotted(v.Path().Selectors())
}

// closed reports the fields of one struct that a closed definition rejects.
func (r *reader) closed(shut []cue.Value, path string) {
	slices.SortFunc(shut, func(a, b cue.Value) int {
		return strings.Compare(dotted(a.Path().Selectors()), dotted(b.Path().Selectors()))
	})
	var names []string
	for _, v := range shut {
		labels := v.Path().Selectors()
		names = append(names, labelsOf(labels[len(labels)-1:])...)
	}
	f := site.Finding{
		Code:    "closed-definition",
		Message: fmt.Sprintf("%s does not take %s: it is closed with close()", path, and(names)),
		Why:     "CUE closes every definition (#Name) and what close() holds: nobody can add a field to them.",
		Fix:     "Add `...` inside, or set the fields there.",
	}
	if name, at := r.closedBy(names[0]); name != "" {
		f.Message = fmt.Sprintf("%s does not take %s: it is %s, which is closed and does not have %s (%s)", path, and(names), name, themOrIt(names), at)
		f.Fix = fmt.Sprintf("Write `...` as the last line of %s, or set the fields there. Or make it a profile, which is never closed.", name)
		f.Related = []string{at}
	}
	r.report(place(shut[0]), join(path, names[0]), f)
}

// closedBy returns the definition that rejects a field of the innermost struct being
// read, and its place. Both are empty when no named definition does.
func (r *reader) closedBy(field string) (name, at string) {
	below := []cue.Selector{cue.Str(field)}
	for _, v := range slices.Backward(r.around) {
		for _, c := range operandsOf(v, 4) {
			root, path := c.ReferencePath()
			labels := path.Selectors()
			if len(labels) == 0 || !slices.ContainsFunc(labels, cue.Selector.IsDefinition) {
				continue
			}
			d := root.LookupPath(path)
			if p := declared(d, labels[len(labels)-1].String()); ours(p) && !allows(d, below) {
				return strings.Join(labelsOf(labels), "."), where(p)
			}
		}
		if labels := v.Path().Selectors(); len(labels) > 0 {
			below = append([]cue.Selector{labels[len(labels)-1]}, below...)
		}
	}
	return "", ""
}

// operandsOf returns the expressions that v unifies, and their own operands down to
// depth deep.
func operandsOf(v cue.Value, deep int) []cue.Value {
	op, args := v.Expr()
	if op != cue.AndOp || deep == 0 {
		return []cue.Value{v}
	}
	all := []cue.Value{v}
	for _, c := range args {
		all = append(all, operandsOf(c, deep-1)...)
	}
	return all
}

// allows reports whether a definition accepts a field at a path within it.
func allows(d cue.Value, path []cue.Selector) bool {
	for i, label := range path {
		if !d.Allows(label) {
			return false
		}
		if i < len(path)-1 {
			if d = d.LookupPath(cue.MakePath(label)); !d.Exists() {
				return true
			}
		}
	}
	return true
}

func themOrIt(names []string) string {
	if len(names) > 1 {
		return "them"
	}
	return "it"
}

// and joins names as in "a, b and c".
func and(names []string) string {
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " and " + names[last]
	}
	return strings.Join(names, "")
}
