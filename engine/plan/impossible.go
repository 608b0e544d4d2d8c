package plan

import (
	"fmt"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// withoutImpossible takes out the first step that the machine is known not to be
// able to take, and what would follow it, so that nobody is asked to approve what
// then comes to nothing. What was begun is brought to its end, and a quarantine is
// tried however the machine answers.
func withoutImpossible(p *site.NodePlan, n *site.Node, m site.Memory) {
	i := slices.IndexFunc(p.Steps, func(s site.Step) bool { return !s.Force && m.Observed.Lacks.Why(n, s.Action) != "" })
	if i < 0 || m.Recorded.UnderWay() > 0 || m.Recorded.InFlight != nil {
		return
	}
	s := p.Steps[i]
	from := ""
	if len(s.Changes) > 0 {
		from = placed(s.Changes[0].Origin)
	}
	p.Blocked = append(p.Blocked, fmt.Sprintf("%s%s is not possible: %s", from, s.Action, m.Observed.Lacks.Why(n, s.Action)))
	p.Steps = p.Steps[:i]
}
