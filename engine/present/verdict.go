package present

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Verdict summarizes a review in one line.
func Verdict(r *site.Review) string {
	if r.Landing != nil {
		return landedVerdict(r)
	}
	p := &r.Plan
	parts := []string{verdictOfPlan(r)}
	if n := len(p.Removes); n > 0 {
		parts = append(parts, say.Count(n, "machine")+" removed from the design")
	}
	if n := blocked(p); n > 0 {
		parts = append(parts, say.Count(n, "machine")+" blocked")
	}
	if n := len(r.Access); n > 0 {
		parts = append(parts, say.Count(n, "new right"))
	}
	if n := len(r.Findings) - errorsOf(r); n > 0 {
		parts = append(parts, say.Count(n, "finding"))
	}
	return strings.Join(parts, "; ")
}

// unchanged is the verdict on a plan that does nothing.
const unchanged = "no machine changes"

// verdictOfPlan says why there is no plan, or what happens to the machines,
// worst first.
func verdictOfPlan(r *site.Review) string {
	switch {
	case len(r.Conflicts) > 0:
		return "no plan, this conflicts with " + escape(cmp.Or(r.Proposal.Base, "the branch")) + " in " + inFiles(r)
	case r.Problem != "":
		return "no plan"
	case errorsOf(r) > 0:
		return "no plan, the design has " + say.Count(errorsOf(r), "error")
	}
	return becomes(&r.Plan)
}

// becomes says what happens to the machines, worst first.
func becomes(p *site.Plan) string {
	of := map[site.Consequence][]*site.NodePlan{}
	for i := range p.Nodes {
		if n := &p.Nodes[i]; len(n.Steps) > 0 {
			c := consequenceOf(n)
			of[c] = append(of[c], n)
		}
	}
	var parts []string
	say := func(nodes []*site.NodePlan, words [2]string) {
		text := fmt.Sprintf("%d ", len(nodes))
		switch {
		case len(nodes) == 0:
			return
		case len(parts) == 0 && len(nodes) == 1:
			text += "machine "
		case len(parts) == 0:
			text += "machines "
		}
		parts = append(parts, text+words[min(len(nodes), 2)-1])
	}
	erased, away, perhaps := of[site.MergeErases], of[site.MergeStops], of[site.MergeMayRestart]
	interrupted, online := of[site.MergeInterrupts], of[site.MergeChanges]
	say(erased, consequenceWords[site.MergeErases])
	say(away, together(away, consequenceWords[site.MergeStops]))
	say(perhaps, consequenceWords[site.MergeMayRestart])
	say(interrupted, consequenceWords[site.MergeInterrupts])
	say(online, together(online, consequenceWords[site.MergeChanges]))
	switch {
	case len(parts) == 0:
		return unchanged
	case len(erased)+len(away)+len(perhaps)+len(interrupted) == 0:
		parts = append(parts, "all stay in service")
	case len(erased) == 0 && len(away)+len(perhaps)+len(interrupted)+len(online) > 1:
		parts = append(parts, "nothing is erased")
	}
	return strings.Join(parts, ", ")
}

// together says what happens to machines if it is the same for all, or else the
// given words.
func together(nodes []*site.NodePlan, otherwise [2]string) [2]string {
	var same site.Action
	for _, n := range nodes {
		for _, s := range n.Steps {
			if s.Impact < worst(*n) {
				continue
			}
			if same != "" && s.Action != same {
				return otherwise
			}
			same = s.Action
		}
	}
	if words, ok := deed[same]; ok {
		return words
	}
	return otherwise
}

func errorsOf(r *site.Review) int {
	errors := 0
	for _, f := range r.Findings {
		if f.Severity == site.SeverityError {
			errors++
		}
	}
	return errors
}

// inFiles names the first conflicting file.
func inFiles(r *site.Review) string {
	file, _, _ := strings.Cut(r.Conflicts[0], ": ")
	if more := len(r.Conflicts) - 1 + r.More; more > 0 {
		return escape(file) + " and " + say.Count(more, "more file")
	}
	return escape(file)
}

func blocked(p *site.Plan) int {
	blocked := 0
	for _, n := range p.Nodes {
		if len(n.Blocked) > 0 {
			blocked++
		}
	}
	return blocked
}
