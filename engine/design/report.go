package design

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/cue/errors"
	"cuelang.org/go/cue/token"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// incomplete reports a field that was given a type, or a reference to nothing,
// instead of a value.
func (r *reader) incomplete(v cue.Value, path string) *tree {
	p := place(v)
	broken := &tree{broken: true, origin: origin(p, r.layer)}
	if r.cut {
		return broken
	}
	what := fmt.Sprintf("%s is %s, which is not a value", path, shorten(fmt.Sprint(v)))
	if errs := errors.Errors(v.Err()); len(errs) > 0 {
		what = fmt.Sprintf("%s has no value: %s", path, message(errs[0]))
	}
	fix := "Write a value, or remove the field."
	for _, a := range v.Attributes(cue.FieldAttr) {
		if rule.Nearest(a.Name(), []string{"unset"}) != "" {
			fix = "Write @unset() to remove the field; there is no @" + a.Name() + "()."
		}
	}
	r.report(p, path, site.Finding{
		Code: "incomplete-value", Message: what,
		Why: "A design needs a definite value; a range, a type or a reference to nothing leaves it open.",
		Fix: fix,
	})
	return broken
}

// invalid reports why v has no value: an expression without a value, two
// values, or a value that does not fit.
func (r *reader) invalid(v cue.Value, s *shape, path string) *tree {
	broken := &tree{broken: true, origin: origin(place(v), r.layer)}
	set := setBy(v)
	misfit := slices.IndexFunc(set, func(x setting) bool { return x.kind&s.kind == 0 && s.kind != cue.BottomKind })
	switch {
	case len(set) == 0 || slices.ContainsFunc(set, func(x setting) bool { return x.fails }):
		r.reportAll(v)
	case misfit >= 0:
		r.misfit(set[misfit], v, s, path)
	case len(set) > 1 && sameButQuotes(set[0].text, set[1].text):
		r.report(set[1].pos, path, twoForms(set[0], set[1], path))
	case len(set) > 1 && set[0].text != set[1].text:
		r.report(set[1].pos, path, site.Finding{
			Code:    "conflicting-values",
			Message: fmt.Sprintf("%s is set to %s here and to %s at %s", path, set[1].text, set[0].text, where(set[0].pos)),
			Why:     "Within one layer nothing overrides, and both cannot hold.",
			Fix:     "Remove one of them, or put one into a profile, which a node overrides.",
			Related: []string{where(set[0].pos)},
		})
	default:
		r.misfit(set[0], v, s, path)
	}
	return broken
}

// misfit reports a value that the schema does not allow.
func (r *reader) misfit(x setting, v cue.Value, s *shape, path string) {
	f := site.Finding{
		Code: "invalid-value", Message: fmt.Sprintf("%s is %s; it must be %s", path, x.text, s.fits()),
		Why: "The schema does not allow it.", Fix: "Write " + s.fits() + ".",
	}
	if as := s.requoted(x.text, v); as != "" {
		f.Fix = "Write " + as + "."
		if as[0] == '"' {
			f.Message = fmt.Sprintf("%s is the number %s without quotes; it must be %s", path, x.text, s.fits())
		} else {
			f.Message = fmt.Sprintf("%s is the text %s; it must be %s, without quotes", path, x.text, s.fits())
		}
	}
	if x.text == "null" {
		f.Fix = r.insteadOfNull(v, s)
	}
	r.report(x.pos, path, f)
}

// insteadOfNull says what to write for a null, which sets and removes nothing in CUE.
func (r *reader) insteadOfNull(v cue.Value, s *shape) string {
	if !r.merged {
		return "Write " + s.fits() + ", or remove the line."
	}
	labels := v.Path().Selectors()
	name := labels[len(labels)-1].String()
	if s.isStruct() {
		return fmt.Sprintf("Write %[1]s: {} to add nothing, or %[1]s: _ @unset() to remove what a profile sets.", name)
	}
	return fmt.Sprintf("To remove what a profile sets, write %s: _ @unset()", name)
}

// sameButQuotes reports whether one of two expressions is a whole number, and the other the text of it.
func sameButQuotes(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	_, err := strconv.ParseInt(a, 10, 64)
	return err == nil && b == strconv.Quote(a)
}

// twoForms reports that a value is a number in one place, and the text of that number in another. CUE does not take them
// for the same value, also where the schema allows both.
func twoForms(first, second setting, path string) site.Finding {
	says := func(x setting) string {
		if x.text[0] == '"' {
			return "the text " + x.text
		}
		return "the number " + x.text
	}
	return site.Finding{
		Code:    "conflicting-values",
		Message: fmt.Sprintf("%s is %s here and %s at %s", path, says(second), says(first), where(first.pos)),
		Why:     "CUE does not take a number and a text for the same value.",
		Fix:     "Write both without quotes, or remove one.",
		Related: []string{where(first.pos)},
	}
}

// requoted corrects the quotes of a number written as a text, or a text written
// as a number. It returns an empty string where the schema rejects that too.
func (s *shape) requoted(text string, v cue.Value) string {
	as := strings.Trim(text, `"`)
	if as == text {
		as = strconv.Quote(text)
	}
	if as == "" {
		return "" // an empty text
	}
	x := cuecontext.New().CompileString(as)
	number := as[0] != '"'
	if x.Err() != nil || number && x.IncompleteKind() != cue.IntKind || !number && cuecontext.New().CompileString(text).IncompleteKind() != cue.IntKind {
		return ""
	}
	value, err := scalar(x)
	if err != nil || !s.accepts(value) {
		return ""
	}
	return as
}

// setting is one expression of the repository that contributes to a value.
type setting struct {
	text string
	kind cue.Kind
	pos  token.Pos
	// fails says that the expression itself has no value.
	fails bool
}

// setBy lists what the repository itself sets of a value; `_` sets nothing.
func setBy(v cue.Value) []setting {
	var all []setting
	for _, c := range conjuncts(v) {
		if p := literal(c); ours(p) && !isTop(c) {
			all = append(all, setting{shorten(fmt.Sprint(c)), c.IncompleteKind(), p, c.Validate() != nil})
		}
	}
	return all
}

// isTop reports whether an expression is `_`, which stands for a value set
// elsewhere.
func isTop(c cue.Value) bool {
	x := c.Source()
	if f, ok := x.(*ast.Field); ok {
		x = f.Value
	}
	id, ok := x.(*ast.Ident)
	return ok && id.Name == "_"
}

func where(p token.Pos) string {
	return fmt.Sprintf("%s:%d:%d", p.Filename(), p.Line(), p.Column())
}

// reportAll reports every error that CUE has for a value. Errors that may come
// from another field wait until that field was read.
func (r *reader) reportAll(v cue.Value) {
	wrong := errors.Errors(v.Validate())
	if len(wrong) == 0 {
		return
	}
	own, rests := dotted(v.Path().Selectors()), restsOn(v)
	for _, e := range wrong {
		cause := causeOf(e)
		if own != "" && cause == own && len(rests) > 0 {
			r.later = append(r.later, consequence{rests, cause, e, v})
			continue
		}
		if own != "" && cause != own && !strings.HasPrefix(cause, own+".") {
			r.later = append(r.later, consequence{[]string{cause}, cause, e, v})
			continue
		}
		r.noValue(v, cause, e)
	}
}

// restsOn returns the paths of the fields that an expression refers to.
func restsOn(v cue.Value) []string {
	var all []string
	for _, c := range conjuncts(v) {
		_, args := c.Expr()
		for _, arg := range args {
			if _, path := arg.ReferencePath(); len(path.Selectors()) > 0 {
				all = append(all, dotted(path.Selectors()))
			}
		}
	}
	return all
}

// settle reports the waiting errors whose causing fields have no finding.
func (r *reader) settle() {
	for _, c := range r.later {
		if !slices.ContainsFunc(c.on, func(path string) bool { return r.told[path] }) {
			r.noValue(c.of, c.cause, c.err)
		}
	}
	r.later = nil
}

func (r *reader) noValue(v cue.Value, path string, e errors.Error) {
	p := position(e)
	if !ours(p) {
		p = declared(v, lastOf(path))
	}
	f := site.Finding{
		Code: "no-value", Message: path + ": " + message(e),
		Why: "CUE finds no value that fits everything that is said about it.", Fix: "Change one of the places that are involved.",
		Related: related(e),
	}
	if m := minusText.FindStringSubmatch(message(e)); m != nil {
		f.Message = fmt.Sprintf("%s: %q is a list item in YAML's form", path, "- "+m[1])
		f.Why, f.Fix = "CUE reads the dash as a minus.", yamlListFix
	}
	r.report(p, path, f)
}

// minusText matches CUE's message for a text with a minus before it, or subtracted.
var minusText = regexp.MustCompile(`^invalid operation (?:.* )?- ?("[^"]*") \(`)

// causeOf returns the path of the field that an error is about.
func causeOf(e errors.Error) string {
	return strings.Join(labels(e), ".")
}

// labels returns the path of an error without quotes.
func labels(e errors.Error) []string {
	var all []string
	for _, label := range e.Path() {
		if text, err := strconv.Unquote(label); err == nil {
			label = text
		}
		all = append(all, label)
	}
	return all
}

// dotted returns a path without quotes.
func dotted(selectors []cue.Selector) string {
	return strings.Join(labelsOf(selectors), ".")
}

func labelsOf(selectors []cue.Selector) []string {
	var all []string
	for _, s := range selectors {
		label := s.String()
		if s.IsString() {
			label = s.Unquoted()
		}
		all = append(all, label)
	}
	return all
}

// related returns the other places in the repository that contribute to an
// error.
func related(e errors.Error) []string {
	var places []string
	for _, p := range e.InputPositions() {
		if ours(p) && p != position(e) {
			places = append(places, where(p))
		}
	}
	return places
}

func (r *reader) report(p token.Pos, path string, f site.Finding) {
	if r.told == nil {
		r.told = map[string]bool{}
	}
	r.found++
	r.told[path] = true
	r.tell(p, path, f)
}

// tell adds a finding without counting it.
func (r *reader) tell(p token.Pos, path string, f site.Finding) {
	f.Node, f.Path = r.node, path
	if r.node != "" {
		f.Path = strings.TrimPrefix(path, r.path+".")
	}
	r.findings.at(origin(p, r.layer), f)
}

// lastOf is the last element of a path.
func lastOf(path string) string { return path[strings.LastIndex(path, ".")+1:] }
