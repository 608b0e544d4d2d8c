package watch

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// nodePage is all about one node.
func (m *model) nodePage(s *sheet) {
	n := m.status(m.node.name)
	if n == nil {
		s.add(fmt.Sprintf("Node %s is no longer in the design.", clean(m.node.name)))
		return
	}
	s.add(fit(m.in(bold, clean(n.Name)), m.width/2) + " is " + m.in(colourOf(n.State), clean(string(n.State))) + " for " + present.Age(n.Since, m.now))
	s.row("reason", "", n.Reason)
	s.row("cause", "", n.Cause)
	s.row("now", "", n.Detail)
	s.row("phase", "", n.Phase)
	s.row("next", "", n.Next)
	if held := m.holding(n); len(held) > 0 {
		for _, i := range held {
			s.row("incident", red, i.Name+": "+cmp.Or(i.Nodes[n.Name].Power, i.Verdict()))
		}
		s.row("to continue", "", fmt.Sprintf("%s, after what `slipway incident %s` lists is done", releaseUnder(n.Name, held[0].Name), held[0].Name))
	} else {
		s.row("to continue", "", present.ReleaseOf(*n, m.now))
	}
	s.row("approve", red, n.Approve)
	for _, l := range m.report.Status.Waiting {
		if l.Node == n.Name {
			s.row("erases", red, present.LossLine(l))
		}
	}
	if n.Paused != nil {
		s.row("paused", yellow, present.HoldLine(*n.Paused, m.now))
	}
	if n.Quarantined != nil {
		s.row("quarantine", yellow, present.HoldLine(*n.Quarantined, m.now))
	}
	m.machineRows(s, n)
	for _, f := range n.Findings {
		s.row("finding", yellow, f.String())
	}
	if len(n.NotActedOn) > 0 {
		s.row("no driver", yellow, "acts on these parts of the design: "+strings.Join(n.NotActedOn, ", "))
	}
	for _, note := range n.Notes {
		s.row("note", "", note)
	}
	m.planRows(s, n.Name)
	m.historyRows(s)
}

// machineRows are what is known of the machine and its system.
func (m *model) machineRows(s *sheet, n *site.NodeStatus) {
	s.row("role", "", n.Role)
	s.row("rack", "", n.Rack)
	s.row("machine", "", strings.Trim(present.MachineOf(n.Machine)+", "+n.Model, ", "))
	s.row("on", "", n.Hypervisor)
	s.row("power", "", present.PowerOf(n, m.now))
	s.row("health", "", present.HealthOf(n, m.now))
	s.row("system", "", present.SystemOf(*n))
	s.row("login", "", present.LoginOf(n.Login))
	for _, password := range present.PasswordsOf(n.Passwords) {
		s.row("password", "", password)
	}
	if n.SystemHealth.State != "" {
		s.row("service", "", n.SystemHealth.String())
	}
	if n.Links.State != "" {
		s.row("links", "", n.Links.String())
	}
	if n.Generation > 0 {
		s.row("installed", "", fmt.Sprintf("generation %d", n.Generation))
	}
	seen := present.Age(n.Seen, m.now)
	if !n.Seen.IsZero() {
		seen += " ago"
	}
	s.row("seen", "", seen)
	s.row("overdue", yellow, present.FacetAges(n.Stale, m.now))
}

// planRows are what Slipway is about to do to a node.
func (m *model) planRows(s *sheet, node string) {
	lines := m.planOf(node)
	if len(lines) > 0 {
		s.title("Plan")
	}
	for _, line := range lines {
		s.text(clean(line))
	}
}

// planOf is what is planned for a node, as `slipway plan` shows it; nothing for no plan.
func (m *model) planOf(node string) []string {
	plans := m.report.Plan.Nodes
	i := slices.IndexFunc(plans, func(p site.NodePlan) bool { return p.Node == node })
	if i < 0 {
		return nil
	}
	plan := plans[i]
	plan.Findings = nil // are on the node's page
	var b bytes.Buffer
	present.Nodes(&b, []site.NodePlan{plan}, m.now, present.Paint{})
	return strings.FieldsFunc(b.String(), func(r rune) bool { return r == '\n' })
}

// historyRows are the last events of the node, the newest first.
func (m *model) historyRows(s *sheet) {
	s.title("History")
	switch {
	case !m.node.loaded:
		s.add("Loading the history.")
	case m.node.err != nil:
		s.row("unknown", red, m.node.err.Error())
	case len(m.node.history) == 0:
		s.add("Slipway has recorded no event of this node.")
	}
	for _, e := range slices.Backward(m.node.history) {
		m.eventRow(s, "", e, true)
	}
}
