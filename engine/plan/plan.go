// Package plan leads from a designed node and what is known of its machine to
// the steps that make the one as the other. It is pure: no I/O, no clock, no
// log. The plan that people are shown and the plan that runs come from the
// same function.
package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Site plans every node of a design in order, and says what happens to nodes
// that are known and no longer designed.
func Site(s *site.Site, revision string, known map[string]site.Memory) site.Plan {
	p := site.Plan{Version: site.PlanVersion, Site: s.Name, Revision: revision}
	for _, name := range s.NodeNames() {
		p.Nodes = append(p.Nodes, Node(s, s.Nodes[name], known[name]))
	}
	for name, m := range known {
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
	if m.Recorded.Decommissioned.IsZero() {
		r.Held = "it was not decommissioned first: set `decommission: true` in one revision and remove the node in a later one"
	}
	return r
}

// Node plans one node. Only the first step is ever run before the machine is
// looked at again; the others say what would follow.
func Node(s *site.Site, n *site.Node, m site.Memory) site.NodePlan {
	p := site.NodePlan{Node: n.Name, Seen: m.Observed.Seen()}
	p.Notes = append(notes(n, m), imageNote(s, n, m)...)
	if n.Decommission && underWay(m.Recorded) == 0 {
		p.Notes = append(p.Notes, "decommissioned: it is only observed, and may be removed from the design")
		return p
	}
	if why := wrongMachine(n, m); why != "" {
		p.Blocked = []string{why}
		return p
	}
	if planInstallation(&p, s, n, m) {
		return p
	}
	for _, f := range []site.Facet{site.FacetBoot, site.FacetPower} {
		planFacet(&p, n, f, m.Observed.Facets[f])
	}
	if !n.Identity.Known() && len(p.Steps) > 0 {
		p.Blocked = append(p.Blocked, unnamed(p.Steps, m.Observed.Identity))
		p.Steps = nil
	}
	return p
}

// wrongMachine says why the machine met must not be touched under this name.
func wrongMachine(n *site.Node, m site.Memory) string {
	seen, designed := m.Observed.Identity, n.Identity
	if seen.Known() && designed.Known() && !designed.Matches(seen) {
		return fmt.Sprintf("another machine answers: the design says %s, the machine at %s is %s; nothing is written to it",
			full(designed), n.Endpoints[site.BMC].URL, full(seen))
	}
	a := m.Recorded.Adopted
	if a != nil && designed.Known() && !designed.Matches(a.Machine) {
		return fmt.Sprintf("the design binds the name to %s, but it belongs to %s since %s; a replaced machine is never wiped under an old name",
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

// unnamed says that a machine without a designed identity is never written.
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

// wish is what the design asks for, in the driver's terms where the facet was
// seen for the same wish. Without such an observation the design's own terms
// stand.
func wish(n *site.Node, f site.Facet, seen site.FacetState) site.Values {
	asked := n.Want(f)
	if seen.Want != nil && (seen.Asked == nil || maps.Equal(seen.Asked, asked)) {
		return seen.Want
	}
	return asked
}

// planFacet adds the step that makes one facet as designed.
func planFacet(p *site.NodePlan, n *site.Node, f site.Facet, seen site.FacetState) {
	want := wish(n, f, seen)
	changes := diff(n, f, seen, want)
	if len(changes) == 0 {
		return
	}
	if reaches(seen.Pending, want) {
		p.Waiting = string(f) + " is on its way to " + changes[0].Want
		return
	}
	k := kinds[f](changes)
	if slices.ContainsFunc(p.Steps, func(s site.Step) bool { return s.Action == site.ActionInstall }) && k.action == site.ActionPowerOn {
		return // an installation ends with the machine on
	}
	p.Steps = append(p.Steps, site.Step{
		Node: n.Name, Machine: n.Identity, Facet: f, Action: k.action, Changes: changes,
		Impact: k.impact, Reason: reason(seen), Expect: k.expect,
	})
}

func reason(seen site.FacetState) string {
	if seen.Seen.IsZero() {
		return "never seen"
	}
	return "differs from the design"
}

func reaches(pending, want site.Values) bool {
	for field, v := range want {
		if pending[field] != v {
			return false
		}
	}
	return len(want) > 0
}

func diff(n *site.Node, f site.Facet, seen site.FacetState, want site.Values) []site.Change {
	var changes []site.Change
	for field, w := range want {
		have := seen.Have[field]
		if seen.Seen.IsZero() {
			have = "?"
		}
		if have != w {
			changes = append(changes, site.Change{Field: string(f) + "." + field, Have: have, Want: w, Origin: origin(n, f, field)})
		}
	}
	slices.SortFunc(changes, func(a, b site.Change) int { return strings.Compare(a.Field, b.Field) })
	return changes
}

// origin finds where a facet's field was designed: "boot.order", or "power"
// for a facet that is a single value in the design.
func origin(n *site.Node, f site.Facet, field string) site.Origin {
	return cmp.Or(n.Origins.Of(string(f)+"."+field), n.Origins.Of(string(f)))
}
