package rule

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// selectorRules: do selectors select what they should?
var selectorRules = []Rule{
	{
		Code: "unknown-selected", Severity: site.SeverityError,
		What:  "The names, racks, roles, tags and labels of a selector are those of nodes of the site.",
		Why:   "A misspelled name selects nothing or, under `not`, spares nothing: a boot action or policy leaves out nodes that it is for, or includes nodes that it is not for. A tag or a label that no node has yet is a warning.",
		Wrong: `bootActions: burn: {run: ["/usr/bin/stress"], nodes: {roles: ["compute"], not: names: ["n44"]}}`,
		Right: `bootActions: burn: {run: ["/usr/bin/stress"], nodes: {roles: ["compute"], not: names: ["n3"]}}`,
		Facts: selectableFacts, Fleet: unknownSelected, Whole: true,
	},
	{
		Code: "selector-empty", Severity: site.SeverityWarning,
		What:  "A selector selects a node.",
		Why:   "The boot action, policy or canaries never apply to any node, and nobody notices.",
		Wrong: `bootActions: burn: {run: ["/usr/bin/stress"], nodes: {roles: ["compute"], racks: ["r1"]}}`,
		Right: `bootActions: burn: {run: ["/usr/bin/stress"], nodes: {roles: ["compute"], racks: ["r2"]}}`,
		Facts: selectedFacts, Fleet: selectorEmpty, Whole: true,
	},
}

// selection is a selector of the site, with its path.
type selection struct {
	path string
	*site.Selector
}

// selections lists the selectors of a site, in order.
func selections(s *site.Site) []selection {
	var all []selection
	for _, key := range keys(s.BootActions) {
		all = append(all, selection{"bootActions." + key + ".nodes", s.BootActions[key].Nodes})
	}
	for _, key := range keys(s.Policies) {
		all = append(all, selection{"policies." + key + ".nodes", s.Policies[key].Nodes})
	}
	for _, key := range keys(s.Access.Roles) {
		all = append(all, selection{"site.access.roles." + key + ".nodes", s.Access.Roles[key].Nodes})
	}
	if c := s.Rollout.Canaries; c != nil {
		all = append(all, selection{"site.rollout.canaries.nodes", c.Nodes})
	}
	return slices.DeleteFunc(all, func(x selection) bool { return x.Selector == nil })
}

// parts lists a selector and those within it.
func (x selection) parts() []selection {
	all := []selection{x}
	for i := range x.Any {
		all = append(all, selection{x.path + ".any." + strconv.Itoa(i), &x.Any[i]}.parts()...)
	}
	for i := range x.All {
		all = append(all, selection{x.path + ".all." + strconv.Itoa(i), &x.All[i]}.parts()...)
	}
	if x.Not != nil {
		all = append(all, selection{x.path + ".not", x.Not}.parts()...)
	}
	return all
}

// selectableFacts returns the names, tags and labels that can select a node and
// that the site does not list itself. A key is a kind and a name, separated by
// a blank.
func selectableFacts(s *site.Site, n *site.Node) []Fact {
	if len(selections(s)) == 0 {
		return nil
	}
	facts := []Fact{{Key: "name " + n.Name}}
	if lost(n.Origins, "tags", n.Tags) || lost(n.Origins, "labels", n.Labels) || n.Role == "" || rackLost(n) {
		facts = append(facts, Fact{})
	}
	for tag, has := range n.Tags {
		if has {
			facts = append(facts, Fact{Key: "tag " + tag})
		}
	}
	for name, value := range n.Labels {
		facts = append(facts, Fact{Key: "label " + name}, Fact{Key: "value " + name + "=" + value})
	}
	return facts
}

func unknownSelected(s *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	of := selectable{index: x, left: 100}
	for _, whole := range selections(s) {
		for _, part := range whole.parts() {
			found = append(found, part.unknown(s, &of)...)
		}
	}
	return found
}

// selectable is what can select nodes: the facts of selectableFacts.
type selectable struct {
	index *Index
	// keys are those of the index, filled when needed.
	keys []string
	// left is how many more names may get a "did you mean". The search takes
	// time, and there may be many names.
	left int
}

func (x selection) unknown(s *site.Site, index *selectable) []site.Finding {
	var found []site.Finding
	for _, rack := range x.Racks {
		found = append(found, refer(x.path+".racks", "racks", rack, s.Racks)...)
	}
	for _, role := range x.Roles {
		found = append(found, refer(x.path+".roles", "roles", role, s.Roles)...)
	}
	for _, name := range x.Names {
		if _, err := path.Match(name, ""); err != nil {
			found = append(found, wrong(x.path+".names", fmt.Sprintf("%q is not a pattern: a bracket in it is not closed", name),
				`Write a name, or a pattern with "*".`))
		} else if !strings.ContainsAny(name, `*?[\`) {
			found = append(found, index.lacks(x.path+".names", "node", "name ", name, site.SeverityError)...)
		}
	}
	for _, tag := range x.Tags {
		found = append(found, index.lacks(x.path+".tags", "node with the tag", "tag ", tag, site.SeverityWarning)...)
	}
	for _, name := range keys(x.Labels) {
		missing := index.lacks(x.path+".labels."+name, "node with the label", "label ", name, site.SeverityWarning)
		if value := x.Labels[name]; len(missing) == 0 && value != "" {
			missing = index.lacks(x.path+".labels."+name, "node whose label "+name+" is", "value "+name+"=", value, site.SeverityWarning)
		}
		found = append(found, missing...)
	}
	return found
}

// lacks reports a name that no node has under a prefix.
func (x *selectable) lacks(path, what, prefix, name string, severity site.Severity) []site.Finding {
	if x.index.Count(prefix+name) > 0 || name == "" {
		return nil
	}
	f := wrong(path, fmt.Sprintf("there is no %s %q%s", what, name, x.didYouMean(prefix, name)),
		"Correct it, or remove it until there is such a node.")
	f.Severity = severity
	return []site.Finding{f}
}

func (x *selectable) didYouMean(prefix, name string) string {
	if x.left == 0 {
		return ""
	}
	x.left--
	if x.keys == nil {
		x.keys = x.index.Keys()
	}
	var known []string
	for _, key := range x.keys {
		if k, ok := strings.CutPrefix(key, prefix); ok {
			known = append(known, k)
		}
	}
	return DidYouMean(name, known)
}

// selectedFacts returns the selectors that select a node.
func selectedFacts(s *site.Site, n *site.Node) []Fact {
	var facts []Fact
	for _, x := range selections(s) {
		if x.Selects(n) {
			facts = append(facts, Fact{Key: x.path})
		}
	}
	return append(facts, selectableFacts(s, n)...)
}

// isRead reports whether a selector has everything that the design states.
func (x selection) isRead(s *site.Site) bool {
	given := map[string]int{"names": len(x.Names), "racks": len(x.Racks), "roles": len(x.Roles), "tags": len(x.Tags)}
	for _, field := range keys(given) {
		if given[field] == 0 && s.Origins.Has(x.path+"."+field) {
			return false
		}
	}
	return !lost(s.Origins, x.path+".labels", x.Labels)
}

// selectorEmpty ignores a selector with unknown parts, which explain why it
// selects nothing.
func selectorEmpty(s *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	of := selectable{index: x}
	for _, whole := range selections(s) {
		known := true
		for _, part := range whole.parts() {
			known = known && part.isRead(s) && len(part.unknown(s, &of)) == 0
		}
		if known && x.Count(whole.path) == 0 {
			found = append(found, wrong(whole.path, whole.path+" selects no node",
				"A node must meet every condition of the selector: remove a condition, or use `any`."))
		}
	}
	return found
}
