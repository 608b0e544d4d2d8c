package rollout

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// expected holds the nodes of a simulation.
type expected struct {
	named   ByName
	inOrder []*Node // by name
	roles   map[string][]*Node
}

func (all *expected) add(n *Node) {
	all.named[n.Name()] = n
	all.inOrder = append(all.inOrder, n)
	all.roles[n.Design.Role] = append(all.roles[n.Design.Role], n)
}

// Node implements Nodes.
func (all *expected) Node(name string) *Node { return all.named[name] }

// All implements Nodes.
func (all *expected) All() iter.Seq[*Node] { return slices.Values(all.inOrder) }

// InRole implements Nodes.
func (all *expected) InRole(role string) iter.Seq[*Node] { return slices.Values(all.roles[role]) }

// expect returns what is known of a node when a forecast begins. It assumes three
// things: a machine with a plan answers by the time its turn comes; work under way
// with nothing else planned ends by itself; and Slipway keeps looking at machines. A
// node of which nothing is known counts as in service.
func expect(n *site.Node, np *site.NodePlan, known site.Known, now time.Time) *Node {
	m, isKnown := known.Nodes[n.Name]
	r, o := &m.Recorded, &m.Observed
	changes, waits := len(np.Steps) > 0, len(np.Steps) == 0 && np.Waiting != ""
	x := &Node{
		Design:      n,
		Quarantined: r.Quarantined != nil,
		Settled:     r.Adopted != nil && !r.Adopted.Settled.IsZero(),
		WasHealthy:  !r.Healthy.IsZero(), EverHealthy: !r.EverHealthy.IsZero(),
		Paused:    n.Paused.Holds(now) || r.Paused.Holds(now),
		Disrupted: !r.Disrupted.IsZero(), Disrupts: !r.Disrupted.IsZero() || r.UnderWay() > 0,
		Seen:     true,
		Rotates:  slices.ContainsFunc(np.Steps, func(s site.Step) bool { return len(s.Rotates) > 0 }),
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
		inSync(x)
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

// begun updates a node for a step that has begun.
func begun(n *Node, s site.Step) {
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
func ended(n *Node, s site.Step) {
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
