package design

import (
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

// policy is a site's own constraint on its effective nodes.
type policy struct {
	*site.Policy
	name    string
	require *constraint
}

// policiesOf reads the policies of a package, as far as they have no error of
// their own, in the order of their names.
func policiesOf(v cue.Value, declared map[string]*site.Policy) []policy {
	var all []policy
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		if c := constraintAt(v, "policies", name, "require"); c != nil {
			all = append(all, policy{declared[name], name, c})
		}
	}
	return all
}

// checkPolicies holds an effective node, and the tree that it was made of,
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

// check holds an effective node against the policy. What is already the
// subject of a finding is in the tree, and has no plain value.
func (p policy) check(n *site.Node, effective *tree, plain map[string]any) (found []site.Finding) {
	defer func() {
		if cause := recover(); cause != nil {
			found = []site.Finding{rule.Panicked("the policy "+p.name, cause)}
		}
	}()
	for _, b := range p.require.hold(plain) {
		if b.lacks && effective.get(b.path...) != nil {
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

// breached is where a breach can be repaired: at the value, beside what is
// missing, or at the node.
func breached(n *site.Node, effective *tree, b breach) site.Origin {
	if b.lacks && len(b.path) == 1 {
		return n.Place
	}
	if o := effective.place(b.path); !o.IsZero() && o.LayerName() != "schema" {
		return o
	}
	return n.Place
}

func (p policy) finding(b breach) site.Finding {
	code, path := policyCode(p.name), strings.Join(b.path, ".")
	f := site.Finding{Code: code, Severity: p.Severity, Path: path, Message: path + b.message, Why: p.Why, Fix: p.Fix}
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
