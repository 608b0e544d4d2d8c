package design

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// NotActedOn notes the parts of a design that no driver acts on, where drivers act on some
// facets. It returns one note for each place that sets such a part.
func NotActedOn(s *site.Site, acts map[site.Facet]bool) []site.Finding {
	var all findings
	for _, path := range s.NotActedOn(acts) {
		all.of("", wherePart(s, path), notActedOn(path))
	}
	for _, name := range s.NodeNames() {
		n := s.Nodes[name]
		for _, path := range n.NotActedOn(acts) {
			f := notActedOn(path)
			switch facet := facetOf(path); {
			case site.IsInside(facet) && n.Endpoints[site.OS].URL == "":
				f = notReached(n, path)
			case strings.HasPrefix(path, "drift.") && acts[facet]:
				f = onlyReported(path)
			}
			all.of(name, whereSet(n, path), f)
		}
	}
	site.SortFindings(all.list)
	return fold(all.list)
}

func notActedOn(path string) site.Finding {
	f := site.Finding{
		Code: "not-acted-on", Severity: site.SeverityNote, Path: path,
		Message: "no driver acts on " + path,
		Why:     "Slipway does not apply it to a machine, and does not check it.",
		Fix:     "See to it by other means for now, or take it out of the design.",
	}
	if site.IsInside(facetOf(path)) {
		f.Fix = "Run Slipway with the helpers that act inside systems: they are in its packages, and --agents or SLIPWAY_AGENTS names another folder. Or take it out of the design."
	}
	return f
}

// notReached is the finding for a part inside a system that has no endpoint.
func notReached(n *site.Node, path string) site.Finding {
	f := site.Finding{
		Code: "not-acted-on", Severity: site.SeverityNote, Path: path,
		Message: "nothing acts on " + path + ": the node has no endpoints.os",
		Why:     "Slipway reaches an installed system over that endpoint alone. It does not apply this, and does not check it.",
		Fix:     "Add `endpoints: os: url:` such as \"ssh://192.0.2.10\" and its credential, or take this out of the design.",
	}
	if n.References.ByAgent && n.Generation > 0 {
		f.Message = "after the installation nothing acts on " + path + ": the node has no endpoints.os"
		f.Why = "The agent applies it once, when it installs the system, as far as the image allows. Slipway reaches an installed system over that endpoint alone: it does not check this later, and does not apply a change of it."
	}
	return f
}

// facetOf returns the facet of a part of a design by its path. It also accepts the paths of
// families and of drift.
func facetOf(path string) site.Facet {
	if facet, isDrift := strings.CutPrefix(path, "drift."); isDrift {
		return site.Facet(facet)
	}
	if rest, ofFamily := strings.CutPrefix(path, "families."); ofFamily {
		_, part, _ := strings.Cut(rest, ".")
		path = "system." + part
	}
	return site.FacetOf(path)
}

// onlyReported is the finding for drift that asks for a proposal in a facet that Slipway cannot
// propose.
func onlyReported(path string) site.Finding {
	return site.Finding{
		Code: "not-acted-on", Severity: site.SeverityNote, Path: path,
		Message: path + ": \"propose\" works like \"report\" for this facet",
		Why:     "Slipway cannot write what it observes of this facet as a change of the design.",
		Fix:     "Write \"report\", or \"repair\" to have the change set back in a window.",
	}
}

// IdleNeeds returns errors for needs on phases in which no driver does anything, where drivers
// act on some facets. Such needs would delay nothing.
func IdleNeeds(s *site.Site, acts map[site.Facet]bool) []site.Finding {
	var all findings
	for _, name := range slices.Sorted(maps.Keys(s.Roles)) {
		r := s.Roles[name]
		works := s.PhasesOf(name, acts)
		for _, phase := range slices.Sorted(maps.Keys(r.Needs)) {
			if slices.Contains(works, phase) {
				continue
			}
			path := "roles." + name + ".needs." + phase
			all.of("", wherePart(s, path), site.Finding{
				Code: "need-gates-nothing", Severity: site.SeverityError, Path: path,
				Message: fmt.Sprintf("no driver does anything in the phase %s, so nothing of the role %s would wait for what it needs", phase, name),
				Why:     "Its nodes would be installed and changed before that is there.",
				Fix:     "Put the need on a phase in which something is done: " + strings.Join(works, ", ") + ".",
			})
		}
	}
	return all.list
}

// UnseenHealth warns about nodes whose role has a health that nothing can observe, where drivers
// serve some facets. Whatever needs such a node would wait forever.
func UnseenHealth(s *site.Site, serves map[site.Facet]bool) []site.Finding {
	var all findings
	unseen := func(node string, at site.Origin, path, message, fix string) {
		all.of(node, at, site.Finding{
			Code: "health-unseen", Severity: site.SeverityWarning, Path: path, Message: message,
			Why: "Health that Slipway cannot look at is unknown, and unknown is not healthy: whatever needs the node waits forever, and its changes never count as done.",
			Fix: fix,
		})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Roles)) {
		if path := "roles." + name + ".health"; s.Roles[name].Health != nil && s.Roles[name].Enabled && !serves[site.FacetProbes] {
			unseen("", wherePart(s, path), path, "Slipway cannot look at the health of the role "+name+", since the daemon has no helpers",
				"Start the daemon with its helpers (--agents, and SLIPWAY_AGENTS for this command), or take the health out.")
		}
	}
	for _, name := range s.NodeNames() {
		n := s.Nodes[name]
		if _, reachable := n.Endpoints[site.OS]; n.Health() == nil || reachable || s.Unused(n) != "" {
			continue
		}
		unseen(name, n.Place, "endpoints.os", "Slipway cannot look at the health that the role "+n.Role+" asks for, since the node has no endpoint os",
			"Give the node an endpoint os, another role, or take the health out of the role.")
	}
	site.SortFindings(all.list)
	return fold(all.list)
}

// wherePart returns the first place outside the nodes that sets something in a part of the
// design. The part is a path, a section, or a part of each item of a section.
func wherePart(s *site.Site, path string) site.Origin {
	for _, o := range s.Origins.Within(path) {
		if !strings.HasPrefix(o.File.Value(), schemaPrefix[1:]) { // skip values that the schema fills in
			return o
		}
	}
	section, part, _ := strings.Cut(path, ".")
	for at, o := range s.Origins.Within(section) {
		if part == "" || strings.Contains(at, "."+part+".") {
			return o
		}
	}
	return site.Origin{}
}

// whereSet returns where a part of a node's design is set: the part itself, the first value in
// it, or the part around it.
func whereSet(n *site.Node, path string) site.Origin {
	if o := n.Origins.Of(path); !o.IsZero() {
		return o
	}
	for _, o := range n.Origins.Within(path) {
		return o
	}
	if i := strings.LastIndexByte(path, '.'); i > 0 {
		return whereSet(n, path[:i])
	}
	return n.Place
}
