// Package rule holds what a design must satisfy beyond the types of the
// schema: references, and everything that spans several fields or nodes. Each
// rule is a pure function over the effective site and stops no other. A value
// that is already the subject of a finding is missing from the site, but not
// from its origins.
package rule

import (
	"maps"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Rule is one rule.
type Rule struct {
	// Name says which rule it is, for when it breaks.
	Name string
	// Check lists everything in the site that the rule objects to.
	Check func(*site.Site) []site.Finding
}

// All lists the rules.
func All() []Rule {
	return []Rule{
		{"names", names},
		{"references", references},
		{"identities", identities},
		{"networks", networks},
		{"addresses", addresses},
		{"endpoints", endpoints},
		{"images", images},
		{"installations", installations},
		{"holds", holds},
		{"approvals", approvals},
	}
}

// at completes a finding about a value outside the nodes.
func at(s *site.Site, path string, f site.Finding) site.Finding {
	f.Path = path
	return placed(s.Origins[path], f)
}

// on completes a finding about a node's value; without an origin of its own
// it is about the node.
func on(n *site.Node, path string, f site.Finding) site.Finding {
	o, ok := n.Origins[path]
	if !ok {
		o = n.Place
	}
	f.Node, f.Path = n.Name, path
	return placed(o, f)
}

func placed(o site.Origin, f site.Finding) site.Finding {
	if f.Severity == "" {
		f.Severity = site.SeverityError
	}
	if !o.IsZero() {
		f.File, f.Line, f.Col = o.File.Value(), o.Line, o.Col
	}
	return f
}

// states says whether the design sets a node's value, be it a good one or not.
func states(n *site.Node, path string) bool {
	_, ok := n.Origins[path]
	return ok
}

// nodes lists the nodes by name.
func nodes(s *site.Site) []*site.Node {
	list := make([]*site.Node, 0, len(s.Nodes))
	for _, name := range s.NodeNames() {
		list = append(list, s.Nodes[name])
	}
	return list
}

func keys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
