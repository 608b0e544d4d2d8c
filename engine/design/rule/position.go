package rule

import (
	"fmt"
	"strconv"

	"github.com/slipway-gitops/slipway/engine/site"
)

// whyPosition is what a wrong position leads to.
const whyPosition = "Somebody who goes to the rack takes another machine for this one, and pulls the wrong cable."

// positions: where in its rack is each machine?
var positions = []Rule{
	{
		Code: "position-outside-rack", Severity: site.SeverityError,
		What: "All units that a node takes are units of its rack.", Why: whyPosition,
		Wrong: "racks: r1: units: 42\nnodes: \"n1\": position: {unit: 42, height: 2}",
		Right: "racks: r1: units: 42\nnodes: \"n1\": position: {unit: 41, height: 2}",
		Node:  positionOutside,
	},
	{
		Code: "position-overlap", Severity: site.SeverityError,
		What: "No two nodes of a rack take the same unit, unless both are in one enclosure with the same unit and height.", Why: whyPosition,
		Wrong: "racks: r1: units: 42\nnodes: \"n1\": position: {unit: 10, height: 2}\nnodes: \"n2\": position: unit: 11",
		Right: "racks: r1: units: 42\nnodes: \"n1\": position: {unit: 10, height: 2, enclosure: \"c1\"}\nnodes: \"n2\": position: {unit: 10, height: 2, enclosure: \"c1\"}",
		Facts: positionFacts, Fleet: positionOverlap,
	},
	{
		Code: "position-without-units", Severity: site.SeverityWarning,
		What:  "The rack of a node with a position says how many units it has.",
		Why:   "Slipway cannot check whether the rack has the unit, and a mistyped one is not noticed.",
		Wrong: `nodes: "n1": position: unit: 40`,
		Right: "racks: r1: units: 42\nnodes: \"n1\": position: unit: 40",
		Node:  positionWithoutUnits,
	},
}

// positionOf returns a node's position, if all of it is known, unit, height and rack,
// and as the schema allows it.
func positionOf(n *site.Node) (p site.Position, known bool) {
	p = n.Position
	return p, n.Rack != "" && 0 < p.Unit && p.Unit <= site.MaxUnits && p.Height <= site.MaxUnits && (p.Height > 0 || !states(n, "position.height"))
}

func positionOutside(s *site.Site, n *site.Node) []site.Finding {
	p, known := positionOf(n)
	rack := s.Racks[n.Rack]
	if !known || rack == nil || rack.Units == 0 || p.Top() <= rack.Units {
		return nil
	}
	return []site.Finding{also(s, "racks."+n.Rack+".units", wrong("position.unit",
		fmt.Sprintf("the node %s takes %s, and the rack %s has the units 1 to %d", n.Name, unitsOf(p), n.Rack, rack.Units),
		"Correct the unit or the height of the node, or the units of the rack."))}
}

func positionWithoutUnits(s *site.Site, n *site.Node) []site.Finding {
	rack := s.Racks[n.Rack]
	if n.Position.Unit == 0 || rack == nil || s.Origins.Has("racks."+n.Rack+".units") {
		return nil
	}
	return []site.Finding{wrong("position.unit",
		fmt.Sprintf("the node %s is at unit %d of the rack %s, which does not say how many units it has", n.Name, n.Position.Unit, n.Rack),
		fmt.Sprintf("Set racks.%s.units, such as 42.", n.Rack))}
}

// positionFacts has one fact for each unit that a node takes.
func positionFacts(_ *site.Site, n *site.Node) []Fact {
	p, known := positionOf(n)
	if !known {
		return nil
	}
	var facts []Fact
	for unit := p.Unit; unit <= p.Top(); unit++ {
		facts = append(facts, Fact{Key: "unit " + strconv.Itoa(unit) + " of the rack " + n.Rack, Path: "position.unit", Value: bodyOf(p)})
	}
	return facts
}

// bodyOf names what nodes of one enclosure are in; it is empty for a node that has its
// units for itself.
func bodyOf(p site.Position) string {
	if p.Enclosure == "" {
		return ""
	}
	return unitsOf(p) + " in the enclosure " + p.Enclosure
}

// positionOverlap reports each pair of nodes once, at the lowest unit that both take.
func positionOverlap(_ *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	reported := map[[2]string]bool{}
	for _, key := range x.Several() {
		first := x.Holders(key)[0]
		for _, again := range x.Holders(key)[1:] {
			pair := [2]string{first.Node, again.Node}
			if reported[pair] || first.Value != "" && first.Value == again.Value {
				continue
			}
			reported[pair] = true
			f := again.about(site.Finding{
				Message: fmt.Sprintf("the nodes %s and %s both take %s", first.Node, again.Node, key),
				Fix:     "Correct the one that is wrong. Where both are in one enclosure, give both the same position.enclosure, unit and height.",
				Related: []string{first.Place.String()},
			})
			if again.Place == first.Place {
				f.Related = nil
				f.Fix = "Write position.unit in the declaration of each node: here one profile gives the same unit to all of its nodes."
			}
			found = append(found, f)
		}
	}
	return found
}

// unitsOf names the units that a machine takes.
func unitsOf(p site.Position) string {
	if p.Top() == p.Unit {
		return fmt.Sprintf("unit %d", p.Unit)
	}
	return fmt.Sprintf("the units %d to %d", p.Unit, p.Top())
}
