package author

import (
	"fmt"
	"maps"
	"slices"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/parser"
	"cuelang.org/go/cue/token"
)

// RaiseEpoch raises the epoch of a derived credential by one in the files of a site's package, given by name, and keeps
// comments and formatting. It replaces a literal that is the present epoch, or adds one where none stands and the epoch is
// the default, 1. It returns the changed files, or says why, and where, the design has a form that a person has to edit.
func RaiseEpoch(files map[string][]byte, credential string, present int) (edited map[string][]byte, why string) {
	d := &declaration{files: files, cuts: map[string][]cut{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := parser.ParseFile(name, files[name], parser.ParseComments)
		if err != nil {
			return nil, fmt.Sprintf("%s cannot be read as CUE", name)
		}
		d.find(f, "credentials", credential)
	}
	if len(d.at) == 0 {
		return nil, fmt.Sprintf("no file of the folder declares it as `credentials: %s:`; a comprehension, a template, a reference or a folder above makes it", quote(credential))
	}
	var found []*ast.Field
	for _, at := range d.at {
		for _, chain := range chainsTo(at, []string{"epoch"}) {
			found = append(found, chain[0])
		}
	}
	next := fmt.Sprint(present + 1)
	switch {
	case len(found) == 0 && present > 1:
		return nil, fmt.Sprintf("its declaration at %s has no epoch; a comprehension, a template, a reference or a folder above sets it", d.at[0].Pos())
	case len(found) == 0 && !isPlain(d.at):
		return nil, fmt.Sprintf("at %s it is more than fields in braces, so Slipway cannot know that no other place sets its epoch", d.at[0].Pos())
	case len(found) == 0:
		d.add(credential, []string{"epoch"}, next)
	case len(found) > 1:
		return nil, fmt.Sprintf("its epoch is set at %s and at %s", found[0].Pos(), found[1].Pos())
	case len(found[0].Attrs) > 0 || !isNumber(found[0].Value, present):
		return nil, fmt.Sprintf("at %s its epoch is not the number %d that the design in force has: it is computed, set by more than a literal, or was changed since", found[0].Pos(), present)
	default:
		d.cut(found[0].Value, next)
	}
	return d.result()
}

// isNumber reports whether an expression is a number, written as people write one.
func isNumber(e ast.Expr, n int) bool {
	x, is := e.(*ast.BasicLit)
	return is && x.Kind == token.INT && x.Value == fmt.Sprint(n)
}

// isPlain reports whether a declaration is one struct in braces, of fields alone.
func isPlain(at []ast.Expr) bool {
	if len(at) != 1 {
		return false
	}
	s, is := at[0].(*ast.StructLit)
	return is && s.Lbrace.IsValid() && !slices.ContainsFunc(s.Elts, func(decl ast.Decl) bool {
		switch decl.(type) {
		case *ast.Field, *ast.CommentGroup:
			return false
		}
		return true
	})
}
