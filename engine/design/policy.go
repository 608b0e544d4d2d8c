package design

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cuelang.org/go/cue"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// policyCode is the code of a policy's findings.
func policyCode(name string) string { return "policy/" + name }

func isPolicy(code string) bool { return strings.HasPrefix(code, policyCode("")) }

// policy is a site's own constraint on its effective nodes.
type policy struct {
	*site.Policy
	name    string
	require *constraint
	// vain are the required paths that no node can have. The policy has a
	// finding for them, not the nodes.
	vain [][]string
}

// policiesOf reads the policies of a package that have no error of their own,
// in the order of their names.
func policiesOf(v cue.Value, declared map[string]*site.Policy) []policy {
	var all []policy
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if c := constraintAt(v, policiesSection, name, requireField); c != nil {
			vain := demand{reader: reader{findings: &findings{}}, layer: anyLayer(v)}
			vain.hold(c.value, effectiveShape(), nil)
			all = append(all, policy{declared[name], name, c, vain.told})
		}
	}
	return all
}

const (
	policiesSection = "policies"
	requireField    = "require"
)

// demands checks whether any node could have what the policies of a package
// require.
func (x *extraction) demands(v cue.Value) {
	x.each(v, policiesSection, func(name string, _ cue.Value) {
		c := constraintAt(v, policiesSection, name, requireField)
		if c == nil {
			return
		}
		r := x.reader("site", "", strings.Join([]string{policiesSection, name, requireField}, "."), false)
		r.spelling = nil // a policy's fields are not designed fields
		d := demand{reader: *r, layer: anyLayer(v)}
		d.hold(c.value, effectiveShape(), nil)
	})
}

// anyLayer returns what the schema says of every node's layer, in the context
// of a package.
func anyLayer(v cue.Value) cue.Value {
	return v.LookupPath(cue.MakePath(cue.Str(nodesSection), cue.AnyString))
}

// effectiveShape returns the shape that policies are checked against: a node
// with its name.
func effectiveShape() *shape {
	s := *shapes()["#Effective"]
	s.fields = maps.Clone(s.fields)
	s.fields["name"] = anything
	return &s
}

// demand checks a policy against what a node can be. It looks only at values
// that the policy states outright. What CUE must compute for a node is checked
// with the node.
type demand struct {
	reader
	layer cue.Value
	told  [][]string
}

func (d *demand) hold(v cue.Value, s *shape, path []string) {
	if op, _ := v.Expr(); op == cue.OrOp {
		return
	}
	it, err := v.Fields(cue.Optional(true))
	if err != nil {
		return
	}
	for it.Next() {
		name := it.Selector().Unquoted()
		at, sub := append(slices.Clone(path), name), s.sub(name)
		switch {
		case sub == nil:
			d.told = append(d.told, at)
			d.unknown(v, it.Value(), s, name, strings.Join(append([]string{d.path}, path...), "."))
		case sub.isStruct() && it.Value().IncompleteKind() == cue.StructKind:
			d.hold(it.Value(), sub, at)
		case !d.fits(it.Value(), at):
			d.told = append(d.told, at)
			d.impossible(it.Value(), sub, at)
		}
	}
}

// fits reports whether a node can have at a path what a policy requires.
func (d *demand) fits(v cue.Value, path []string) bool {
	can := part(d.layer, path)
	return !can.Exists() || v.Unify(can).Validate() == nil
}

func (d *demand) impossible(v cue.Value, s *shape, path []string) {
	full := strings.Join(append([]string{d.path}, path...), ".")
	d.report(place(v), full, site.Finding{
		Code:    "invalid-value",
		Message: fmt.Sprintf("%s asks for %s, which no node can have; it is %s", full, shorten(fmt.Sprint(v)), s.fits()),
		Why:     "The schema does not allow it, so every node would break the policy.", Fix: "Write " + s.fits() + ".",
	})
}

// checkPolicies checks an effective node, and the tree that it was made from,
// against policies.
func checkPolicies(all []policy, n *site.Node, effective *tree) []site.Finding {
	if len(all) == 0 {
		return nil
	}
	plain := effective.plain().(map[string]any)
	plain["name"] = n.Name
	var found []site.Finding
	for _, p := range all {
		if p.Nodes.Selects(n) {
			found = append(found, p.check(n, effective, plain)...)
		}
	}
	return found
}

// check checks an effective node against the policy. It skips values that
// already have a finding: they are in the tree, but have no plain value.
func (p policy) check(n *site.Node, effective *tree, plain map[string]any) (found []site.Finding) {
	defer func() {
		if cause := recover(); cause != nil {
			found = []site.Finding{rule.Panicked("the policy "+p.name, cause)}
		}
	}()
	for _, b := range p.require.hold(plain) {
		inVain := slices.ContainsFunc(p.vain, func(path []string) bool { return prefixes(path, b.path) || prefixes(b.path, path) })
		if inVain || b.lacks && effective.get(b.path...) != nil {
			continue
		}
		f := p.finding(b)
		f.Node = n.Name
		o := breached(n, effective, b)
		f.File, f.Line, f.Col = o.File.Value(), o.Line, o.Col
		found = append(found, f)
	}
	return found
}

// breached returns where a breach can be fixed: at the value, next to what is
// missing, or at the node.
func breached(n *site.Node, effective *tree, b breach) site.Origin {
	if b.lacks && len(b.path) == 1 || slices.Equal(b.path, []string{"name"}) {
		return n.Place
	}
	if o := effective.place(b.path); !o.IsZero() && o.LayerName() != "schema" {
		return o
	}
	return n.Place
}

func (p policy) finding(b breach) site.Finding {
	code, path := policyCode(p.name), strings.Join(b.path, ".")
	f := site.Finding{Code: code, Severity: p.Severity, Path: path, Message: cmp.Or(path, "the node") + b.message, Why: p.Why, Fix: p.Fix}
	if b.lacks {
		f.Message = path + " is not set"
	}
	f.Message += fmt.Sprintf(" (policy %s)", p.name)
	if f.Fix == "" {
		f.Fix = "Change the node, a profile of it, or the policy."
	}
	if ours(b.at) {
		f.Related = []string{where(b.at)}
	}
	return f
}
