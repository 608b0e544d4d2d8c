package site

import (
	"path"
	"slices"
)

// Match is a condition on nodes. All stated fields must hold; within a list,
// one entry must.
type Match struct {
	// Names are names of nodes, or patterns with "*".
	Names  []string          `json:"names,omitempty"`
	Tags   []string          `json:"tags,omitempty"`
	Labels map[string]string `json:"labels,omitempty"` // "" matches any value
	Racks  []string          `json:"racks,omitempty"`
	Roles  []string          `json:"roles,omitempty"`
}

// Selector selects nodes that meet its Match, at least one of Any (if there are
// some), all of All, and not Not. The zero Selector selects every node.
type Selector struct {
	Match
	Any []Selector `json:"any,omitempty"`
	All []Selector `json:"all,omitempty"`
	Not *Selector  `json:"not,omitempty"`
}

// Selects reports whether a node is selected. A nil selector selects every node.
func (s *Selector) Selects(n *Node) bool {
	if s == nil {
		return true
	}
	selects := func(sub Selector) bool { return sub.Selects(n) }
	refuses := func(sub Selector) bool { return !sub.Selects(n) }
	return s.holds(n) &&
		(len(s.Any) == 0 || slices.ContainsFunc(s.Any, selects)) &&
		!slices.ContainsFunc(s.All, refuses) &&
		(s.Not == nil || !s.Not.Selects(n))
}

func (m Match) holds(n *Node) bool {
	return m.namesHold(n.Name) &&
		(len(m.Tags) == 0 || slices.ContainsFunc(m.Tags, func(t string) bool { return n.Tags[t] })) &&
		m.labelsHold(n.Labels) &&
		(len(m.Racks) == 0 || slices.Contains(m.Racks, n.Rack)) &&
		(len(m.Roles) == 0 || slices.Contains(m.Roles, n.Role))
}

func (m Match) namesHold(name string) bool {
	return len(m.Names) == 0 || slices.ContainsFunc(m.Names, func(pattern string) bool {
		fits, err := path.Match(pattern, name)
		return fits && err == nil
	})
}

func (m Match) labelsHold(labels map[string]string) bool {
	for name, want := range m.Labels {
		if have, ok := labels[name]; !ok || want != "" && have != want {
			return false
		}
	}
	return true
}
