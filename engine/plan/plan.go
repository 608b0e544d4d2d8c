// Package plan computes the steps that bring a machine to its design. It is
// pure: no I/O, no clock, no log. The plan that people see and the plan that
// runs come from the same function.
package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Site plans every node of a design in order, and says what happens to known
// nodes that left the design.
func Site(s *site.Site, revision string, k site.Known) site.Plan {
	p := site.Plan{Version: site.PlanVersion, Site: s.Name, Revision: revision}
	k.Reach = maps.Clone(k.Reach)
	maps.DeleteFunc(k.Reach, func(name string, _ site.Reach) bool { return s.Nodes[name] != nil })
	for _, name := range s.NodeNames() {
		p.Nodes = append(p.Nodes, Node(s, s.Nodes[name], k))
	}
	if len(k.Serves) > 0 {
		p.NotActedOn = s.NotActedOn(k.Serves)
	}
	for name, m := range k.Nodes {
		if s.Nodes[name] == nil {
			p.Removes = append(p.Removes, removal(name, m))
		}
	}
	slices.SortFunc(p.Removes, func(a, b site.Removal) int { return strings.Compare(a.Node, b.Node) })
	return p
}

func removal(name string, m site.Memory) site.Removal {
	r := site.Removal{Node: name}
	if m.Recorded.Adopted != nil {
		r.Machine = m.Recorded.Adopted.Machine
	}
	if there := StillThere(nil, m); there != "" {
		r.Held = there
	}
	if m.Recorded.Retires && m.Recorded.Retired.IsZero() {
		r.Held = notErased
	}
	if m.Recorded.Decommissioned.IsZero() {
		r.Held = "it was not decommissioned first: set `decommission: true` in one revision and remove the node in a later one"
	}
	return r
}

// Node plans one node. Only the first step ever runs before the machine is
// looked at again; the others are a preview.
func Node(s *site.Site, n *site.Node, k site.Known) site.NodePlan {
	m := k.Nodes[n.Name]
	m.Account = k.Account(n.Name)
	all := k.Serves
	k.Serves = n.Served(all)
	p := site.NodePlan{Node: n.Name, Hypervisor: n.Virtual.Host.Hypervisor, Seen: m.Observed.Seen()}
	if len(all) > 0 {
		p.NotActedOn = append(n.NotActedOn(all), editedSinceFirstBoot(s, n, m, k.Serves)...)
	}
	p.Notes = slices.Concat(notes(s, n, m), askedNotes(n, m, k.Serves), unlistedNotes(n, m, k.Serves), loginNote(m), imageNote(s, n, m), agentNote(n, k.Serves), unheardNote(n, m), hostKeyNote(n, m), diskNotes(n, m), accountNotes(n, m, k.Serves), epochNotes(n, m), onceNotes(n, m, k.Serves), driverNotes(s, n, m.Observed, k.Serves))
	_, p.Findings = Links(s, n, m.Observed, k.Serves)
	p.Findings = slices.Concat(Hardware(n, m.Observed.Inventory), p.Findings, Drivers(s, n, m.Observed, k.Serves))
	if why := takesFrom(s, n, k.Reach); why != "" && m.Recorded.Quarantined == nil && !leftAlone(s, n, m) {
		p.Blocked = []string{why}
	} else {
		planNode(&p, s, n, m, all)
	}
	finish(&p, s, n, m, k)
	return p
}

// planNode adds the steps, or why there are none.
func planNode(p *site.NodePlan, s *site.Site, n *site.Node, m site.Memory, all map[site.Facet]bool) {
	serves := n.Served(all)
	n = withDrivers(s, withoutNext(s, n, m))
	if why := wrongMachine(n, m); why != "" && (m.Recorded.Quarantined != nil || !leftAlone(s, n, m)) {
		p.Blocked = []string{why}
		p.Release = "check cabling and DHCP; for a machine that was replaced add `moved`, for one with a new address correct its endpoint"
		return
	}
	switch {
	case m.Recorded.Quarantined != nil:
		planQuarantine(p, n, m)
	case otherSystem(s, n, m) != "" && !leftAlone(s, n, m) && !zeroizes(s, n) && !retires(s, n, m):
		planForeign(p, s, n, m)
	case zeroizes(s, n):
		planZeroize(p, n, m)
	case retires(s, n, m):
		planRetire(p, s, n, m)
	case m.Recorded.EraseBegun():
		p.Waiting = "the agent erases the machine's disks, as the design asked when it began; Slipway waits until the agent says that it has finished"
	case leftAlone(s, n, m):
		return
	case planRunning(p, s, n, m, all):
		return
	case n.IsVirtual():
		planVirtual(p, s, n, m, serves)
		planConfirmation(p, m)
	case planInstallation(p, s, n, m):
		return
	default:
		planFacets(p, s, n, m, serves)
		planConfirmation(p, m)
	}
	if !n.Retires() {
		planLostList(p, n, m)
	}
	withoutImpossible(p, n, m)
	if !n.Machine().Known() && len(p.Steps) > 0 {
		p.Blocked = append(p.Blocked, unnamed(p.Steps, m.Observed.Identity))
		p.Steps = nil
	}
}

// leftAlone reports whether nothing is planned for the node. An installation
// that was begun is finished anyway, except on a machine that is away.
func leftAlone(s *site.Site, n *site.Node, m site.Memory) bool {
	if zeroizes(s, n) || retires(s, n, m) {
		return false
	}
	return n.Away != "" || (n.Decommission || s.Unused(n) != "") && m.Recorded.UnderWay() == 0
}

// withoutNext returns the node without a newer generation if only the installation
// under way is to be finished.
func withoutNext(s *site.Site, n *site.Node, m site.Memory) *site.Node {
	if under := m.Recorded.UnderWay(); under > 0 && under < n.Generation && (n.Decommission || s.Unused(n) != "") {
		own := *n
		own.Generation = under
		return &own
	}
	return n
}

// planQuarantine switches the machine off, whatever the design says.
func planQuarantine(p *site.NodePlan, n *site.Node, m site.Memory) {
	power := m.Observed.Facets[site.FacetPower]
	switch {
	case power.Have["state"] == "off" && power.Pending["state"] == "on":
		p.Waiting = "the machine is powering on; Slipway then switches it off"
		return
	case power.Have["state"] == "off":
		return
	}
	q := m.Recorded.Quarantined
	if q.Imported {
		p.Waiting = "its quarantine comes from imported records, and a person may have ended it since, so Slipway does not switch the machine off: order it again with `slipway quarantine " + n.Name + " --reason TEXT`, or end it with `" + q.Release(n.Name) + "`"
		return
	}
	k := workOf(site.FacetPower, []site.Change{{Want: "off"}})
	p.Steps = []site.Step{{
		Node: n.Name, Machine: n.Machine(), Facet: site.FacetPower, Action: k.Action, Impact: k.Impact, Expect: k.Expect, Force: true,
		Changes: []site.Change{{Field: "power.state", Have: cmp.Or(power.Have["state"], "?"), Want: "off"}},
		Reason:  "quarantined by " + q.By + ": " + q.Reason, Undo: "`" + q.Release(n.Name) + "`",
	}}
}

// planFacets brings one facet after the other to the design: first those that
// take effect at a boot, so that one boot serves all, then the power, then what
// is inside.
func planFacets(p *site.NodePlan, s *site.Site, n *site.Node, m site.Memory, serves map[site.Facet]bool) {
	for _, f := range staged(n) {
		if serves[f] {
			planFacet(p, n, f, m)
		}
	}
	planRest(p, s, n, m, serves)
}

// planRest brings the facets after the staged ones to the design. A virtual
// machine is created with the designed boot order.
func planRest(p *site.NodePlan, s *site.Site, n *site.Node, m site.Memory, serves map[site.Facet]bool) {
	if !n.IsVirtual() || stateOf(m.Observed) == site.StateDefined {
		planFacet(p, n, site.FacetBoot, m)
	}
	planRestart(p, n, m, staged(n))
	planFacet(p, n, site.FacetPower, m)
	if serves[site.FacetAccounts] {
		planFacet(p, n, site.FacetAccounts, m)
	}
	if n.Power == "off" || Absent(m.Observed) && !isDue(n, m) {
		return // there is no system to look into
	}
	r := s.Roles[n.Role]
	for _, phase := range r.AllPhases() {
		for _, f := range inside(r) {
			if serves[f] && r.PhaseOf(f) == phase {
				planFacet(p, n, f, m)
			}
		}
		planOnce(p, s, n, m, phase, serves)
	}
	planRestart(p, n, m, slices.DeleteFunc(slices.Clone(site.InsideFacets), func(f site.Facet) bool { return !serves[f] }))
	planLacking(p, s, n, m, serves)
}

// insideUpTo returns the facets of the installed system up to a phase.
func insideUpTo(r *site.Role, phase string) []site.Facet {
	return slices.DeleteFunc(inside(r), func(f site.Facet) bool { return PhaseIndex(r, r.PhaseOf(f)) > PhaseIndex(r, phase) })
}

// inside returns the facets of the installed system in the order of the role's
// phases, without those whose items have their own phases.
func inside(r *site.Role) []site.Facet {
	facets := slices.DeleteFunc(slices.Clone(site.InsideFacets), func(f site.Facet) bool { return site.Facets[f].Once })
	slices.SortStableFunc(facets, func(a, b site.Facet) int { return PhaseIndex(r, r.PhaseOf(a)) - PhaseIndex(r, r.PhaseOf(b)) })
	return facets
}

// finish fills in what follows from all steps together.
func finish(p *site.NodePlan, s *site.Site, n *site.Node, m site.Memory, k site.Known) {
	role := s.Roles[n.Role]
	for i := range p.Steps {
		step := &p.Steps[i]
		complete(step, n, m)
		sayOpening(step, n, m)
		if step.Facet == site.FacetPackages {
			p.Upgrades = Upgrades(n, m.Observed.Facets[site.FacetPackages])
		}
		if !site.Facets[step.Facet].Once {
			step.Phase = role.PhaseOf(step.Facet)
		}
		step.Expect = expected(k.History, Model(m.Observed), *step)
		p.Expect += step.Expect
	}
	if k.Serves[site.FacetPackages] && !leftAlone(s, n, m) {
		p.Notes = append(p.Notes, upgradeNotes(p, n, m)...)
	}
	p.Phase = phase(p, role)
	for _, f := range inside(role) {
		if of := role.PhaseOf(f); k.Serves[f] && lacks(n, f, m.Observed.Facets[f]) && PhaseIndex(role, of) < PhaseIndex(role, p.Phase) {
			p.Phase = of
		}
	}
}

// phase returns the first of the role's phases with something left to do.
func phase(p *site.NodePlan, r *site.Role) string {
	if p.Running != nil && !p.Seen.IsZero() && len(p.Blocked)+len(p.Reported) == 0 {
		return p.Running.Phase
	}
	if p.Seen.IsZero() || len(p.Blocked) > 0 || p.Waiting != "" || p.Foreign != "" || p.Unproven != "" || len(p.Reported) > 0 {
		return r.AllPhases()[0]
	}
	first := ""
	for _, s := range p.Steps {
		if first == "" || PhaseIndex(r, s.Phase) < PhaseIndex(r, first) {
			first = s.Phase
		}
	}
	return first
}

// wrongMachine says why the observed machine must not be changed under this name.
func wrongMachine(n *site.Node, m site.Memory) string {
	seen, designed := m.Observed.Identity, n.Machine()
	if seen.Known() && designed.Known() && !designed.Matches(seen) {
		return fmt.Sprintf("another machine answers: the design says %s, the machine at %s is %s; nothing is written to it",
			full(designed), n.Endpoints[site.Manager].URL, full(seen))
	}
	a := m.Recorded.Adopted
	if a != nil && designed.Known() && !designed.Matches(a.Machine) && !Moves(n, m.Recorded) {
		return fmt.Sprintf("the design binds the name to %s, but it belongs to %s since %s; Slipway never wipes a replaced machine under an old name; `moved` lets another machine take its place",
			full(designed), full(a.Machine), a.When.UTC().Format("2006-01-02"))
	}
	return ""
}

func full(i site.Identity) string {
	if i.UUID != "" && i.Serial != "" {
		return "UUID " + i.UUID + ", serial " + i.Serial
	}
	return i.String()
}

// unnamed says that a machine without a designed identity is never changed.
func unnamed(steps []site.Step, seen site.Identity) string {
	var differs []string
	for _, s := range steps {
		differs = append(differs, s.Summary())
	}
	hint := "add its UUID or serial to the design"
	if seen.Known() {
		hint = fmt.Sprintf("if it is the right machine, add `identity: uuid: %q` to the node", seen.UUID)
	}
	return fmt.Sprintf("only observed, because the design names no UUID or serial (%s); %s", strings.Join(differs, "; "), hint)
}

// Moves reports whether the design moves the name to another machine than the
// adopted one.
func Moves(n *site.Node, r site.Recorded) bool {
	return n.Moved.Known() && r.Adopted != nil && !n.Moved.Matches(r.Adopted.Machine) && n.Identity.Matches(r.Adopted.Machine)
}

// planConfirmation resumes our network change that waits for confirmation. The process
// that began it has ended, and everything else waits for it, except what switches the machine off for good or is about
// another system: whether it is to be confirmed only the machine says.
func planConfirmation(p *site.NodePlan, m site.Memory) {
	begun := m.Recorded.InFlight
	if m.Observed.Facets[site.FacetNetwork].Unconfirmed && begun != nil && begun.Step.Facet == site.FacetNetwork && len(p.Blocked) == 0 {
		p.Waiting, p.Steps = "", []site.Step{begun.Step}
	}
}
