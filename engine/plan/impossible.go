package plan

import (
	"fmt"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// withoutImpossible removes the first step that the machine is known to be unable
// to take, and all after it, so that nobody is asked to approve it in vain. It
// leaves work that has begun, and a quarantine, which is always tried.
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
