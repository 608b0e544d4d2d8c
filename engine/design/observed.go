package design

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/design/author"
	"github.com/slipway-gitops/slipway/engine/site"
)

// edited is a worker's answer about an edit.
type edited struct {
	Files map[string][]byte `json:"files,omitempty"`
	Why   string            `json:"why,omitempty"`
}

// Amend changes the files of a site so that one node's design matches what was observed of its
// machine. Amend evaluates the changed files and returns them only if the effective design differs in
// these values alone. An error says nothing about the design.
func (e *Evaluator) Amend(ctx context.Context, files fs.FS, siteName string, a site.Amendment) (site.Amended, error) {
	refused := func(why string, args ...any) (site.Amended, error) {
		return site.Amended{Why: fmt.Sprintf(why, args...)}, nil
	}
	before, err := e.answer(ctx, files, siteName, evaluation{explain: a.Node})
	switch {
	case err != nil:
		return site.Amended{}, err
	case before.Site == nil || before.Explanation == nil:
		return refused("the newest design cannot be read, or does not have the node")
	}
	p, _, err := collect(files, siteName, e.Limits.withDefaults())
	if err != nil {
		return site.Amended{}, fmt.Errorf("read design: %w", err)
	}
	edit, why := editFor(a, before.Explanation)
	if why != "" {
		return site.Amended{Why: why}, nil
	}
	var done edited
	broken, err := e.askText(ctx, request{ask: askEdit, pack: p, edit: &edit}, &done)
	switch {
	case err != nil:
		return site.Amended{}, err
	case broken != nil:
		return refused("%s", broken.Message)
	case done.Why != "":
		return refused("%s", done.Why)
	}
	after, err := e.answer(ctx, withTexts(files, done.Files), siteName, evaluation{})
	if err != nil {
		return site.Amended{}, err
	}
	if i := slices.IndexFunc(after.Findings, func(f site.Finding) bool { return f.Severity == site.SeverityError }); i >= 0 {
		return refused("the design so changed would be refused: %s", after.Findings[i].Message)
	}
	if why, err := provenAlone(a, before.Site, after.Site); why != "" || err != nil {
		return site.Amended{Why: why}, err
	}
	return site.Amended{Files: done.Files, Site: after.Site}, nil
}

// editFor returns the edit for a node's own declaration, depending on where its values come from.
func editFor(a site.Amendment, x *Explanation) (e author.Edit, why string) {
	e.Node = a.Node
	own := "node/" + a.Node
	for _, v := range a.Values {
		into := author.EditValue{Path: v.Path, Value: v.Value}
		for _, is := range x.Values {
			if !is.within(v.At()) {
				continue
			}
			for _, s := range append([]Setting{is.Setting}, is.Overrode...) {
				switch layer := s.Origin.LayerName(); {
				case layer == own && !strings.HasSuffix(s.Origin.File.Value(), ".cue"):
					return e, fmt.Sprintf("%s is set in %s, which is not a CUE file", v.At(), s.Origin)
				case layer == own:
					into.Own = true
				case layer != "schema" && layer != "":
					into.Below = true
				}
			}
		}
		e.Values = append(e.Values, into)
	}
	return e, ""
}

// provenAlone says what else differs between two effective designs, or which value of an amendment
// does not. It is empty when exactly these values differ.
func provenAlone(a site.Amendment, before, after *site.Site) (why string, err error) {
	d, err := Compare(before, after)
	if err != nil {
		return "", err
	}
	if len(d.Added)+len(d.Removed) > 0 {
		return "the change would add or remove nodes", nil
	}
	for _, g := range d.Groups {
		for _, x := range g.Differences {
			if !slices.Equal(x.Nodes, []string{a.Node}) || !isMeant(a, x) {
				return fmt.Sprintf("the change would change %s too", strings.Join(append(slices.Clone(x.Nodes), x.Path), " ")), nil
			}
		}
	}
	was, err := flat(renderedNode{Node: before.Nodes[a.Node]})
	if err != nil {
		return "", err
	}
	is, err := flat(renderedNode{Node: after.Nodes[a.Node]})
	if err != nil {
		return "", err
	}
	for _, v := range a.Values {
		switch {
		case !sameJSON(is[v.At()], v.Value):
			return fmt.Sprintf("%s would not become what was observed", v.At()), nil
		case v.Value != nil && sameJSON(was[v.At()], v.Value):
			return fmt.Sprintf("%s is designed so already", v.At()), nil
		}
	}
	return "", nil
}

// sameJSON reports whether two values are the same, regardless of their notation.
func sameJSON(a, b json.RawMessage) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	x, errX := flat(a)
	y, errY := flat(b)
	return errX == nil && errY == nil && maps.EqualFunc(x, y, func(v, w json.RawMessage) bool { return bytes.Equal(v, w) })
}

// isMeant reports whether a difference is one of the values of an amendment, or lies within something
// that it removes.
func isMeant(a site.Amendment, d Difference) bool {
	return slices.ContainsFunc(a.Values, func(v site.AmendedValue) bool {
		if v.Value == nil {
			return d.Want == nil && (d.Path == v.At() || strings.HasPrefix(d.Path, v.At()+"."))
		}
		return d.Path == v.At() && sameJSON(d.Want, v.Value)
	})
}

// editHere edits only the files of a site's own folder. Files in folders above belong to other sites
// too.
func editHere(p pack, e author.Edit) edited {
	l := newLoader(p)
	main := l.mainPackage()
	own := map[string][]byte{}
	for _, name := range l.inDir(p.dir) {
		if packageName(p.files[name]) == main {
			own[name] = p.files[name]
		}
	}
	files, why := e.Apply(own)
	return edited{files, why}
}
