package present

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Bounds of one picture: how many nodes are drawn beside each other in the units that
// they share, and how many without a position are drawn. The others are counted.
const (
	mostColumns = 8
	mostLoose   = 200
)

// ElevationView is how pictures of racks are drawn.
type ElevationView struct {
	// StandAlone gives the picture a background and its style, for a file of its own. A
	// page has ElevationStyle in its style sheet instead.
	StandAlone bool
	// Shared are the shapes of the document that pictures are put into, which use them together; nil for a picture that is
	// alone in its document.
	Shared Symbols
	// Apart has the document define the shapes, by Shared.SVG, and no picture: then each can be replaced by itself. All
	// states have their shapes in it.
	Apart bool
	// Link returns the address of a node's page; nil for no links.
	Link func(node string) string
	// Only chooses nodes; nil for all. Racks without one of them are left out. In the
	// others the nodes that were not chosen are drawn faint.
	Only func(n *site.NodeStatus) bool
	// Merging has what merging a proposal does to the nodes, by name, which is shown instead of their states; nil for their states.
	// Nodes that are not in it stay as they are. The page has MergingStyle too; such a picture does not stand alone.
	Merging map[string]site.NodeConsequence
}

// Elevation is one rack with its nodes, ready to be drawn.
type Elevation struct {
	Rack string
	// Design is the rack of the design; zero for one that the design does not have.
	Design site.Rack
	// Placed are the nodes with a position, from the top of the rack to the bottom and
	// from left to right. Loose are the others, in order of their names.
	Placed []Placed
	Loose  []*site.NodeStatus
	// Chosen is how many of the nodes the view chooses.
	Chosen int
	// More is how many nodes the rack has besides these.
	More int

	view ElevationView
}

// Placed is a node at its units. Nodes that share units are in columns beside each other.
type Placed struct {
	Node            *site.NodeStatus
	Column, Columns int
}

// Elevations sorts the nodes of a site into their racks, in order of the racks' names
// (r2 before r10). Virtual machines are left out, as they are in no rack themselves.
// Nothing is drawn yet, so a page can choose which racks it shows.
func Elevations(racks map[string]*site.Rack, nodes []site.NodeStatus, v ElevationView) []Elevation {
	in := map[string][]*site.NodeStatus{}
	for name := range racks {
		in[name] = nil
	}
	for i := range nodes {
		if n := &nodes[i]; n.Rack != "" && n.Hypervisor == "" {
			in[n.Rack] = append(in[n.Rack], n)
		}
	}
	var all []Elevation
	for _, name := range slices.SortedFunc(maps.Keys(in), site.CompareNumbered) {
		e := Elevation{Rack: name, view: v}
		if r := racks[name]; r != nil {
			e.Design = *r
		}
		e.place(in[name])
		for _, n := range in[name] {
			if v.chooses(n) {
				e.Chosen++
			}
		}
		if e.Chosen > 0 || v.Only == nil {
			all = append(all, e)
		}
	}
	return all
}

func (v ElevationView) chooses(n *site.NodeStatus) bool { return v.Only == nil || v.Only(n) }

// place sorts the nodes of a rack into those with a position and the others.
func (e *Elevation) place(nodes []*site.NodeStatus) {
	slices.SortFunc(nodes, func(a, b *site.NodeStatus) int {
		return cmp.Or(cmp.Compare(a.Position.Unit, b.Position.Unit), site.CompareNumbered(a.Name, b.Name))
	})
	var group []Placed // nodes that share units, directly or by others
	var tops []int     // the highest unit in use in each column of the group
	finish := func() {
		for _, p := range group {
			p.Columns = len(tops)
			e.Placed = append(e.Placed, p)
		}
		group, tops = nil, nil
	}
	for _, n := range nodes {
		p := n.Position
		if p.Unit < 1 || p.Top() < p.Unit || p.Top() > site.MaxUnits {
			e.Loose = append(e.Loose, n)
			continue
		}
		if len(tops) > 0 && p.Unit > slices.Max(tops) {
			finish()
		}
		column := slices.IndexFunc(tops, func(top int) bool { return top < p.Unit })
		switch {
		case column < 0 && len(tops) == mostColumns:
			e.Loose = append(e.Loose, n)
			continue
		case column < 0:
			column = len(tops)
			tops = append(tops, 0)
		}
		tops[column] = p.Top()
		group = append(group, Placed{Node: n, Column: column})
	}
	finish()
	slices.SortStableFunc(e.Placed, func(a, b Placed) int {
		return cmp.Or(cmp.Compare(b.Node.Position.Top(), a.Node.Position.Top()), cmp.Compare(a.Column, b.Column))
	})
	slices.SortFunc(e.Loose, func(a, b *site.NodeStatus) int { return site.CompareNumbered(a.Name, b.Name) })
}

// Units is how many units are drawn: those of the design, or up to the highest one with
// a node where the design does not say it.
func (e *Elevation) Units() int {
	units := min(max(0, e.Design.Units), site.MaxUnits)
	for _, p := range e.Placed {
		units = max(units, p.Node.Position.Top())
	}
	return units
}

// Summary says in one line how many nodes the rack has, and how many are in which state.
func (e *Elevation) Summary() string {
	if e.view.Merging != nil {
		merging := map[site.Consequence]int{}
		for _, n := range e.Nodes() {
			merging[e.view.mergingOf(n).What]++
		}
		return SummaryOfMerging(len(e.Placed)+len(e.Loose), merging)
	}
	counts := map[site.State]int{}
	unseen := 0
	for _, n := range e.Nodes() {
		counts[n.State]++
		if n.Seen.IsZero() {
			unseen++
		}
	}
	return SummaryOf(len(e.Placed)+len(e.Loose), counts, unseen)
}

// SummaryOf says in one line how many nodes there are, how many in which state, and how many were never seen.
func SummaryOf(all int, counts map[site.State]int, unseen int) string {
	parts := []string{say.Count(all, "node")}
	for _, s := range site.States {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	if unseen > 0 {
		parts = append(parts, fmt.Sprintf("%d never seen", unseen))
	}
	return strings.Join(parts, ", ")
}

// Nodes are all nodes of the rack: those with a position from the top to the bottom, and
// then the others.
func (e *Elevation) Nodes() []*site.NodeStatus {
	var all []*site.NodeStatus
	for _, p := range e.Placed {
		all = append(all, p.Node)
	}
	return append(all, e.Loose...)
}

// Mark is a node's state in one to three words, for where there is little room. It is
// empty for a machine that is in-sync and not known to be off.
func Mark(n *site.NodeStatus) string {
	var words []string
	if n.State != site.InSync && (n.State != site.Unknown || !n.Seen.IsZero()) {
		words = append(words, string(n.State))
	}
	if n.Power == "off" {
		words = append(words, inPast(n)+"off")
	}
	if n.Seen.IsZero() {
		words = append(words, "never seen")
	}
	return strings.Join(words, ", ")
}

// Troubles are what a person should look at although the state does not say it, each in
// a few words: ailments, and findings.
func Troubles(n *site.NodeStatus) []string {
	all := n.Ailments()
	if len(n.Findings) > 0 {
		all = append(all, say.Count(len(n.Findings), "finding")+" about its hardware and links")
	}
	return all
}

// description is what the picture says of a node where there is room for a sentence.
func description(n *site.NodeStatus) string {
	parts := []string{n.Name, string(n.State)}
	if n.Reason != "" {
		parts[1] += ": " + n.Reason
	}
	if n.Seen.IsZero() {
		parts = append(parts, "never seen")
	}
	if n.Role != "" {
		parts = append(parts, "role "+n.Role)
	}
	parts = append(parts, PositionWords(n.Position), "power "+inPast(n)+cmp.Or(n.Power, "unknown"))
	parts = append(parts, Troubles(n)...)
	return strings.Join(parts, "; ")
}

// PositionWords is a position in words: "unit 7", "units 7 to 8 in c1", "position unknown".
func PositionWords(p site.Position) string {
	var text string
	switch {
	case p.Unit == 0:
		return "position unknown"
	case p.Top() == p.Unit:
		text = fmt.Sprintf("unit %d", p.Unit)
	default:
		text = fmt.Sprintf("units %d to %d", p.Unit, p.Top())
	}
	if p.Enclosure != "" {
		text += " in " + p.Enclosure
	}
	return text
}

// WriteSVG draws the rack.
func (e *Elevation) WriteSVG(w io.Writer) error {
	d := &rackDrawing{e: e, units: e.Units(), has: e.view.Shared}
	if d.has == nil {
		d.has = Symbols{}
	}
	_, err := io.WriteString(w, d.svg())
	return err
}
