package present

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// mergeShapes are the shapes of the consequences, in a square of 10 pixels. Each has a shape of its own.
var mergeShapes = map[site.Consequence]string{
	site.MergeErases:     "M1.5 1.5l7 7M8.5 1.5l-7 7",
	site.MergeRemoves:    "M5 .5L9.5 5 5 9.5 .5 5z",
	site.MergeStops:      "M5 .5v4M2.5 2.5a4 4 0 1 0 5 0",
	site.MergeMayRestart: "M8.5 6.5A4 4 0 1 1 8 2.5M8.5 .5v2.5H6",
	site.MergeInterrupts: "M1.5 1h7L5 5l3.5 4h-7L5 5z",
	site.MergeUnknown:    stateShapes[site.Unknown],
	site.MergeChanges:    "M2 1l7 4-7 4z",
	site.MergeSpares:     "M1 5.5l3 3L9.5 2",
	site.MergePending:    "M3 1v8M7 1v8",
	site.MergeLeaves:     "M2 5h6",
}

// mergeMarks are the consequences in one to three words, for where there is little room. What is left as it is has none.
var mergeMarks = map[site.Consequence]string{
	site.MergeErases:     "erased",
	site.MergeRemoves:    "leaves design",
	site.MergeStops:      "out of service",
	site.MergeMayRestart: "may restart",
	site.MergeInterrupts: "interrupted",
	site.MergeUnknown:    "unknown",
	site.MergeChanges:    "changes",
	site.MergeSpares:     "spared",
	site.MergePending:    "pending anyway",
}

// ConsequenceMark is a consequence in one to three words.
func ConsequenceMark(c site.Consequence) string {
	if c == site.MergeLeaves {
		return "stays as it is"
	}
	return cmp.Or(mergeMarks[c], string(c)) // of a newer daemon
}

// ConsequenceShape is the sign of a consequence, as the data of a path in a square of 10 pixels.
func ConsequenceShape(c site.Consequence) string { return mergeShapes[c] }

// mergingOf is what merging does to a node of the picture.
func (v ElevationView) mergingOf(n *site.NodeStatus) site.NodeConsequence {
	if c, is := v.Merging[n.Name]; is {
		return c
	}
	return site.NodeConsequence{Node: n.Name, Role: n.Role, Position: n.Position, What: site.MergeLeaves}
}

// mergingLook is how a machine is drawn that has a consequence.
func mergingLook(c site.NodeConsequence) look {
	if mergeShapes[c.What] == "" {
		c.What = site.MergeUnknown
	}
	return look{class: "m-" + string(c.What), sign: mergeShapes[c.What], id: fmt.Sprintf("m%d", slices.Index(site.Consequences, c.What)),
		mark: mergeMarks[c.What], about: ConsequenceSentence(c), alert: c.Why != "" && c.What != site.MergeUnknown}
}

// ConsequenceSentence says what merging does to a node, after its name.
func ConsequenceSentence(c site.NodeConsequence) string {
	parts := []string{c.Node + ": " + ConsequenceMark(c.What)}
	for _, text := range []string{c.Does, c.Loses, c.Why} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if c.New {
		parts = append(parts, "new in the design")
	}
	if c.Away != "" && c.Away != "no" {
		parts = append(parts, "out of service: "+c.Away)
	}
	if c.Role != "" {
		parts = append(parts, "role "+c.Role)
	}
	return strings.Join(append(parts, PositionWords(c.Position)), "; ")
}
