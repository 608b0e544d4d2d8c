package rule

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// actions: can each boot action run?
var actions = []Rule{
	{
		Code: "action-phase", Severity: site.SeverityError,
		What:  "The `after` of a boot action is a phase that the role of each of its nodes has.",
		Why:   "On a node whose role has no such phase the action is done after the last one, which may be too late.",
		Wrong: `bootActions: burn: {run: ["/usr/bin/stress"], nodes: roles: ["compute"], after: "join"}`,
		Right: `bootActions: burn: {run: ["/usr/bin/stress"], nodes: roles: ["compute"], after: "install"}`,
		Facts: func(s *site.Site, n *site.Node) (facts []Fact) {
			r := s.Roles[n.Role]
			for _, key := range keys(s.BootActions) {
				a := s.BootActions[key]
				if r != nil && a.After != "" && !slices.Contains(r.AllPhases(), a.After) && a.Nodes.Selects(n) {
					facts = append(facts, Fact{Key: key + " " + n.Role})
				}
			}
			return facts
		},
		Fleet: func(s *site.Site, x *Index) (found []site.Finding) {
			for _, key := range x.Keys() {
				name, role, _ := strings.Cut(key, " ")
				if s.BootActions[name] == nil || s.Roles[role] == nil {
					continue // a name with a blank, which entry-name reports
				}
				after, phases := s.BootActions[name].After, s.Roles[role].AllPhases()
				found = append(found, wrong("bootActions."+name+".after",
					fmt.Sprintf("the role %s (%s of the boot action %s) has no phase %q%s",
						role, say.Count(x.Count(key), "node"), name, after, DidYouMean(after, phases)),
					fmt.Sprintf("Use one of its phases, %s, or leave out its nodes.", strings.Join(phases, ", "))))
			}
			return found
		},
	},
	{
		Code: "action-empty", Severity: site.SeverityWarning,
		What:  "A boot action has packages, files, units, or a command to run.",
		Why:   "It counts as done on every node, and does nothing.",
		Wrong: `bootActions: burn: description: "load a new machine for an hour"`,
		Right: `bootActions: burn: {description: "load a new machine for an hour", run: ["/usr/bin/stress", "--timeout", "3600"]}`,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.BootActions) {
				a := s.BootActions[key]
				path := "bootActions." + key
				if len(a.Run)+len(a.Packages)+len(a.Files)+len(a.Units) == 0 && !stated(s, path+".run") {
					found = append(found, wrong(path, fmt.Sprintf("the boot action %s does nothing", key),
						"Say what it does, or remove it."))
				}
			}
			return found
		},
	},
	{
		Code: "action-file", Severity: site.SeverityError,
		What: "A boot action writes no file that the design of one of its nodes writes too.",
		Why:  "The action writes the file once, and the design at every look: the last writer wins, and the plan cannot say which one that is.",
		Wrong: `bootActions: burn: {run: ["/usr/bin/stress"], files: "/etc/motd": content: "burning in"}
nodes: "n1": system: files: "/etc/motd": content: "Welcome"`,
		Right: `bootActions: burn: {run: ["/usr/bin/stress"], files: "/etc/stress.conf": content: "hours 3"}
nodes: "n1": system: files: "/etc/motd": content: "Welcome"`,
		Facts: func(s *site.Site, n *site.Node) (facts []Fact) {
			for _, key := range keys(s.BootActions) {
				a := s.BootActions[key]
				if !a.Nodes.Selects(n) {
					continue
				}
				for _, name := range keys(a.Files) {
					if at := designsFile(n, name); at != "" {
						facts = append(facts, Fact{Key: key + " " + name, Path: at})
					}
				}
			}
			return facts
		},
		Fleet: func(s *site.Site, x *Index) (found []site.Finding) {
			for _, key := range x.Keys() {
				name, file, _ := strings.Cut(key, " ")
				at := x.Holders(key)[0]
				f := wrong("bootActions."+name+".files."+file, fmt.Sprintf("the boot action %s brings %s, which the design of %s has too", name, file, at.Node),
					"Give one of the two another path.")
				found = append(found, f)
			}
			return found
		},
	},
	{
		Code: "action-timeout", Severity: site.SeverityError,
		What:  "A boot action may take at most 24 hours.",
		Why:   "Until then its node counts as being installed: the rollout continues with one place less, and nobody learns that the action hangs.",
		Wrong: `bootActions: burn: {run: ["/usr/bin/stress"], timeout: "25h"}`,
		Right: `bootActions: burn: {run: ["/usr/bin/stress"], timeout: "24h"}`,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.BootActions) {
				if d := time.Duration(s.BootActions[key].Timeout); d > 24*time.Hour {
					found = append(found, wrong("bootActions."+key+".timeout",
						fmt.Sprintf("the boot action %s may take %s", key, d),
						`Write at most "24h", and let what takes longer go on in a unit.`))
				}
			}
			return found
		},
	},
}

// stated reports whether the design sets a value outside the nodes.
func stated(s *site.Site, path string) bool {
	return s.Origins.Has(path)
}

// designsFile returns the path in a node's design of a file; empty without one.
func designsFile(n *site.Node, name string) string {
	if _, there := n.System.Files[name]; there {
		return "system.files." + name
	}
	for _, family := range keys(n.Families) {
		if _, there := n.Families[family].Files[name]; there {
			return "families." + family + ".files." + name
		}
	}
	return ""
}
