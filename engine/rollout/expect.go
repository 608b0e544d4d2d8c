package rollout

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// expected holds the nodes of a simulation.
type expected struct {
	nodes []Node // by name
	// plans are the plans of the nodes. A node without one has one without steps.
	plans []*site.NodePlan
	at    map[string]int // where in nodes each name is
	roles map[string][]*Node
}

// expectAll returns what is known of all nodes of a design when a forecast begins.
func expectAll(s *site.Site, p *site.Plan, known site.Known, now time.Time) *expected {
	order := inOrder(s, p)
	all := &expected{nodes: make([]Node, len(order)), plans: make([]*site.NodePlan, len(order)), at: make(map[string]int, len(order)), roles: map[string][]*Node{}}
	for i, o := range order {
		x := &all.nodes[i]
		*x = expect(o.design, o.plan, known, now)
		x.role = s.Roles[o.design.Role]
		all.plans[i] = o.plan
		all.at[o.design.Name] = i
		all.roles[o.design.Role] = append(all.roles[o.design.Role], x)
	}
	return all
}

// planned is a node of the design with its plan.
type planned struct {
	design *site.Node
	plan   *site.NodePlan
}

// inOrder returns all nodes of a design by name, each once.
func inOrder(s *site.Site, p *site.Plan) []planned {
	all := make([]planned, 0, len(s.Nodes))
	for i := range p.Nodes {
		if n := s.Nodes[p.Nodes[i].Node]; n != nil {
			all = append(all, planned{n, &p.Nodes[i]})
		}
	}
	byName := func(a, b planned) int { return strings.Compare(a.design.Name, b.design.Name) }
	slices.SortStableFunc(all, byName) // most plans are in this order already
	all = slices.CompactFunc(all, func(a, b planned) bool { return a.design == b.design })
	if len(all) == len(s.Nodes) {
		return all
	}
	nothing, sorted := &site.NodePlan{}, all
	for _, n := range s.Nodes {
		if _, has := slices.BinarySearchFunc(sorted, planned{design: n}, byName); !has {
			all = append(all, planned{n, nothing})
		}
	}
	slices.SortFunc(all, byName)
	return all
}

// Node implements Nodes.
func (all *expected) Node(name string) *Node {
	if at, designed := all.at[name]; designed {
		return &all.nodes[at]
	}
	return nil
}

// All implements Nodes.
func (all *expected) All() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for i := range all.nodes {
			if !yield(&all.nodes[i]) {
				return
			}
		}
	}
}

// InRole implements Nodes.
func (all *expected) InRole(role string) iter.Seq[*Node] { return slices.Values(all.roles[role]) }

// expect returns what is known of a node when a forecast begins. It assumes three
// things: a machine with a plan answers by the time its turn comes; work under way
// with nothing else planned ends by itself; and Slipway keeps looking at machines. A
// node of which nothing is known counts as in service.
func expect(n *site.Node, np *site.NodePlan, known site.Known, now time.Time) Node {
	m, isKnown := known.Nodes[n.Name]
	r, o := &m.Recorded, &m.Observed
	changes, waits := len(np.Steps) > 0, len(np.Steps) == 0 && np.Waiting != ""
	x := Node{
		Design:      n,
		Quarantined: r.Quarantined != nil,
		Settled:     r.Adopted != nil && !r.Adopted.Settled.IsZero(),
		WasHealthy:  !r.Healthy.IsZero(), EverHealthy: !r.EverHealthy.IsZero(),
		Paused:    n.Paused.Holds(now) || r.Paused.Holds(now),
		Disrupted: !r.Disrupted.IsZero(), Disrupts: !r.Disrupted.IsZero() || r.UnderWay() > 0,
		Seen:     true,
		Rotates:  rotates(np.Steps),
		Accounts: r.Accounts,
		Blind:    !changes && !waits && (known.Unseen[n.Name] || isKnown && o.Seen().IsZero()),
		Power:    o.Facets[site.FacetPower].Have["state"],
		Probes:   plan.Health(n, *o, known.Serves),
		State:    site.Unknown,
	}
	switch {
	case changes:
	case waits:
		x.Disrupted, x.Disrupts = false, false
		inSync(&x)
	case len(np.Blocked)+len(np.Reported) > 0 || np.Foreign != "" || np.Unproven != "":
		x.Phase = np.Phase
		if x.Phase == "" {
			x.Phase = (*site.Role)(nil).AllPhases()[0]
		}
	default:
		x.State = site.InSync
	}
	if x.Paused {
		x.State = site.Paused
	}
	return x
}

// rotates reports whether one of some steps replaces a derived password.
func rotates(steps []site.Step) bool {
	for i := range steps {
		if len(steps[i].Rotates) > 0 {
			return true
		}
	}
	return false
}

// begun updates a node for a step that has begun.
func begun(n *Node, s *site.Step) {
	if s.Impact >= site.ImpactInterrupts {
		n.Settled = true
		n.Disrupted = n.Disrupted || !s.Force
	}
	n.Disrupts = n.Disrupts || s.TakesPlace()
	if !s.Force && !s.Drift && s.Impact != site.ImpactNone && n.Part != Aside {
		n.InHand = true
	}
	if s.Action == site.ActionInstall && n.Design.Health() != nil {
		n.WasHealthy, n.Probes = false, site.SystemHealth{State: site.HealthUnknown}
	}
}

// ended updates a node for a step that has had its effect.
func ended(n *Node, s *site.Step) {
	if len(s.Rotates) > 0 {
		n.Accounts = maps.Clone(n.Accounts)
		if n.Accounts == nil {
			n.Accounts = map[string]site.AccountUse{}
		}
		for _, account := range s.Rotates {
			d, _ := n.derived(account)
			n.Accounts[account] = site.AccountUse{ProvenAs: d}
		}
	}
	switch {
	case s.Action == site.ActionPowerOff:
		n.Power = "off"
	case s.Action == site.ActionPowerOn, s.Impact >= site.ImpactReboot:
		n.Power = "on"
	}
}

// inSync updates a node that has become as designed.
func inSync(n *Node) {
	n.State, n.Phase, n.Settled = site.InSync, "", true
	n.Disrupts, n.Disrupted = false, false
	n.Power = "on"
	if n.Design.Power == "off" {
		n.Power = "off"
	}
	if n.Design.Health() != nil {
		n.Probes, n.WasHealthy, n.EverHealthy = site.SystemHealth{State: site.Healthy}, true, true
	}
}
