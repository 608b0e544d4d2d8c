package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// roleRules: can Slipway bring up every role in order?
var roleRules = []Rule{
	{
		Code: "unknown-needed-role", Severity: site.SeverityError, Firm: true,
		What:  "A role needs entries of `roles`.",
		Why:   "The phase waits for nodes that will never exist, so it never begins.",
		Wrong: `roles: compute: needs: install: controler: {}`,
		Right: `roles: compute: needs: install: controller: {}`,
		Site: func(s *site.Site) []site.Finding {
			return eachNeed(s, func(n need) []site.Finding {
				return refer(n.path(), "roles", n.on, s.Roles)
			})
		},
	},
	{
		Code: "unknown-phase", Severity: site.SeverityError, Firm: true,
		What:  "The phase that waits is one of its role, and the phase that is waited for is one of the role that is needed.",
		Why:   "Others wait forever for a phase that no node goes through; and a phase that does not exist waits for nothing, so what follows begins too early.",
		Wrong: `roles: compute: needs: instal: controller: {}`,
		Right: `roles: compute: needs: install: controller: phase: "network"`,
		Site: func(s *site.Site) []site.Finding {
			return eachNeed(s, func(n need) []site.Finding {
				return slices.Concat(
					refusePhase(s, n.role, n.phase, "roles."+n.role+".needs."+n.phase),
					refusePhase(s, n.on, n.Phase, n.path()+".phase"))
			})
		},
	},
	{
		Code: "phase-twice", Severity: site.SeverityError, Firm: true,
		What:  "A role has each of its phases once.",
		Why:   "Slipway cannot tell which of the two another role waits for.",
		Wrong: `roles: compute: phases: ["base", "install", "base", "configure"]`,
		Right: `roles: compute: phases: ["base", "install", "configure"]`,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.Roles) {
				for _, phase := range repeated(s.Roles[key].Phases) {
					found = append(found, wrong("roles."+key+".phases",
						fmt.Sprintf("the role %s has the phase %s twice", key, phase), "Remove one, or give it another name."))
				}
			}
			return found
		},
	},
	{
		Code: "role-without-phases", Severity: site.SeverityError, Firm: true,
		What:  "A role has a phase.",
		Why:   "Without a phase, Slipway never changes the nodes of the role, and every role that needs it waits forever.",
		Wrong: `roles: storage: phases: []`,
		Right: `roles: storage: phases: ["base"]`,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.Roles) {
				if phases := s.Roles[key].Phases; phases != nil && len(phases) == 0 {
					found = append(found, wrong("roles."+key+".phases",
						fmt.Sprintf("the role %s has no phase", key),
						"List its phases, or remove the line: a role without one has base, network, install and configure."))
				}
			}
			return found
		},
	},
	{
		Code: "needs-cycle", Severity: site.SeverityError, Firm: true,
		What: "Roles do not wait for each other in a circle.",
		Why:  "Each waits for the other, so that none of their nodes ever gets past that phase. A role goes through its phases in order, and where its leader goes first, the others wait for the leader.",
		Wrong: `roles: storage: needs: install: compute: phase: "configure"
roles: compute: needs: base: storage: phase: "configure"`,
		Right: `roles: storage: needs: install: compute: phase: "network"
roles: compute: needs: install: storage: phase: "configure"`,
		Facts: roleFacts, Fleet: needsCycle,
	},
	{
		Code: "needs-disabled", Severity: site.SeverityError,
		What:  "A role that is needed is enabled.",
		Why:   "Slipway does not change the machines of a disabled role, so the phase may wait for them forever.",
		Wrong: "roles: storage: enabled: false\nroles: compute: needs: install: storage: {}",
		Right: "roles: storage: enabled: true\nroles: compute: needs: install: storage: {}",
		Site: func(s *site.Site) []site.Finding {
			return eachNeed(s, func(n need) []site.Finding {
				if !disabled(s, n.on) || disabled(s, n.role) {
					return nil
				}
				return []site.Finding{also(s, "roles."+n.on+".enabled", wrong(n.path(),
					fmt.Sprintf("%s of the role %s needs the role %s, which is not enabled", n.phase, n.role, n.on),
					"Enable the role, or remove the need."))}
			})
		},
	},
	{
		Code: "needs-quorum", Severity: site.SeverityError,
		What:  "A role that is needed has as many nodes in use, and not away, as are needed.",
		Why:   "The phase waits forever for nodes that do not exist.",
		Wrong: `roles: compute: needs: install: storage: quorum: "3"`,
		Right: `roles: compute: needs: install: storage: quorum: "2"`,
		Facts: roleFacts, Fleet: needsQuorum, Whole: true,
	},
	{
		Code: "unknown-leader", Severity: site.SeverityError,
		What:  "The leader of a role is a node of the role, in use, and not away.",
		Why:   "The other nodes of the role wait for it forever.",
		Wrong: `roles: storage: {leaderFirst: true, leader: "n4"}`,
		Right: `roles: storage: {leaderFirst: true, leader: "n3"}`,
		Facts: leaderFacts, Fleet: unknownLeader, Whole: true,
	},
	{
		Code: "leader-unused", Severity: site.SeverityWarning,
		What:  "A role with a leader lets it go first.",
		Why:   "Without leaderFirst the leader has no effect: all nodes of the role begin at once, and several of them may each found what only the leader should found.",
		Wrong: `roles: storage: leader: "n2"`,
		Right: `roles: storage: {leaderFirst: true, leader: "n2"}`,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.Roles) {
				path := "roles." + key + ".leaderFirst"
				stated := s.Origins.Has(path)
				if r := s.Roles[key]; r.Leader == "" || r.LeaderFirst {
					continue
				} else if fix := "Set leaderFirst to true, or remove the leader."; stated {
					found = append(found, also(s, path, wrong("roles."+key+".leader",
						fmt.Sprintf("%s is the leader of the role %s, and does not go first", r.Leader, key), fix)))
				} else {
					found = append(found, wrong("roles."+key+".leader",
						fmt.Sprintf("%s is the leader of the role %s, which has no leaderFirst", r.Leader, key), fix))
				}
			}
			return found
		},
	},
	{
		Code: "role-too-small", Severity: site.SeverityError,
		What:  "A role has at least as many nodes in use as its minimum.",
		Why:   "With fewer nodes the service on them does not work, which would show only when the last node is installed.",
		Wrong: `roles: storage: minimum: 3`,
		Right: `roles: storage: minimum: 2`,
		Facts: roleFacts, Fleet: roleTooSmall, Whole: true,
	},
	{
		Code: "role-even", Severity: site.SeverityWarning,
		What:  "A role whose nodes decide by majority has an odd number of them in use.",
		Why:   "An even number of nodes survives no more failures than one node fewer: with four nodes, as with three, only one may fail.",
		Wrong: "roles: storage: majority: true",
		Right: "roles: controller: majority: true",
		Facts: roleFacts, Fleet: roleEven, Whole: true,
	},
	{
		Code: "majority-away", Severity: site.SeverityWarning,
		What:  "A role that decides by majority keeps a majority even if, besides the machines that are away, one more fails.",
		Why:   "The next outage, or the next step that takes one more node out of service, stops the service of this role.",
		Wrong: "roles: {storage: majority: true, controller: enabled: false}\nnodes: {\"n1\": role: \"storage\", \"n3\": away: \"sent in for repair\"}",
		Right: "roles: {storage: majority: true, controller: enabled: false}\nnodes: {\"n1\": role: \"storage\", \"n4\": away: \"sent in for repair\"}",
		Facts: roleFacts, Fleet: majorityAway, Whole: true,
	},
	{
		Code: "role-in-one-domain", Severity: site.SeverityWarning,
		What: "The nodes of a role that decides by majority are in several failure domains, if the site has several.",
		Why:  "One failed power feed or switch stops all of them at once, and everything that depends on them.",
		Wrong: `roles: {storage: majority: true, compute: enabled: false}
racks: {r1: domain: "row-a", r2: domain: "row-a", r3: domain: "row-b"}
nodes: {"n1": rack: "r3", "n4": role: "storage"}`,
		Right: `roles: {storage: majority: true, compute: enabled: false}
racks: {r1: domain: "row-a", r2: domain: "row-b"}
nodes: "n4": role: "storage"`,
		Facts: domainFacts, Fleet: roleInOneDomain, Whole: true,
	},
}

// need is one need of a role's phase.
type need struct {
	role, phase, on string
	site.Need
}

func (n need) path() string { return "roles." + n.role + ".needs." + n.phase + "." + n.on }

// needs lists the needs of a site's roles, in order.
func needs(s *site.Site) []need {
	var all []need
	for _, role := range keys(s.Roles) {
		for _, phase := range keys(s.Roles[role].Needs) {
			for _, on := range keys(s.Roles[role].Needs[phase]) {
				all = append(all, need{role, phase, on, s.Roles[role].Needs[phase][on]})
			}
		}
	}
	return all
}

func eachNeed(s *site.Site, check func(need) []site.Finding) []site.Finding {
	var found []site.Finding
	for _, n := range needs(s) {
		found = append(found, check(n)...)
	}
	return found
}

// refusePhase reports a phase that a role does not have.
func refusePhase(s *site.Site, role, phase, path string) []site.Finding {
	r := s.Roles[role]
	if r == nil || len(r.Phases) == 0 || phase == "" || slices.Contains(r.Phases, phase) {
		return nil
	}
	return []site.Finding{wrong(path,
		fmt.Sprintf("the role %s has no phase %q%s", role, phase, DidYouMean(phase, r.Phases)),
		fmt.Sprintf("Use one of its phases: %s.", strings.Join(r.Phases, ", ")))}
}

// repeated lists the items that a list has more than once, each once, in order.
func repeated(list []string) []string {
	sorted := slices.Sorted(slices.Values(list))
	var twice []string
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			twice = append(twice, sorted[i])
		}
	}
	return slices.Compact(twice)
}

// disabled reports whether the design takes a role out of use.
func disabled(s *site.Site, role string) bool {
	r := s.Roles[role]
	stated := s.Origins.Has("roles." + role + ".enabled")
	return r != nil && stated && !r.Enabled
}

// roleFacts counts the nodes of a role: all, those in use under the key inUse,
// and of these the ones away under the key away.
func roleFacts(_ *site.Site, n *site.Node) []Fact {
	switch {
	case n.Role == "":
		return []Fact{{}}
	case !n.InUse():
		return []Fact{{Key: n.Role}}
	case n.Away != "":
		return []Fact{{Key: n.Role}, {Key: inUse(n.Role)}, {Key: away(n.Role)}}
	}
	return []Fact{{Key: n.Role}, {Key: inUse(n.Role)}}
}

// inUse and away are keys for counting nodes of a role. No role's name ends
// like them.
func inUse(role string) string { return role + " in use" }
func away(role string) string  { return role + " away" }

func needsQuorum(s *site.Site, x *Index) []site.Finding {
	return eachNeed(s, func(n need) []site.Finding {
		if s.Roles[n.on] == nil || disabled(s, n.on) || x.Count(inUse(n.role)) == 0 || n.Quorum == "" {
			return nil
		}
		return n.unmet(x.Count(inUse(n.on)), x.Count(away(n.on)))
	})
}

// unmet reports a need of more nodes than a role has in use. It also reports,
// as a warning, when nodes that are away would be needed.
func (n need) unmet(have, gone int) []site.Finding {
	of := fmt.Sprintf("%s of the role %s needs %s nodes of the role %s, ", n.phase, n.role, n.Quorum, n.on)
	if have == 0 {
		of = fmt.Sprintf("%s of the role %s needs the role %s, ", n.phase, n.role, n.on)
	}
	f := wrong(n.path()+".quorum", "", "Lower the quorum, add nodes, or remove the need.")
	switch {
	case have == 0:
		f.Message = of + "which has no node in use"
	case n.Quorum.Of(have) > have:
		f.Message = of + "which has " + say.Count(have, "node") + " in use"
	case have == gone || n.Quorum.Of(have-gone) > have-gone:
		f.Message = of + fmt.Sprintf("which has %s in use, %d of them away", say.Count(have, "node"), gone)
		f.Severity, f.Why = site.SeverityWarning, "A machine that is away meets no need, so the phase waits until it is back."
		f.Fix = "Lower the quorum until then, or remove the need."
	default:
		return nil
	}
	return []site.Finding{f}
}

// leaderFacts lists the nodes of roles with a leader, and the leaders that are
// away.
func leaderFacts(s *site.Site, n *site.Node) []Fact {
	if n.Role == "" {
		return []Fact{{}}
	}
	r := s.Roles[n.Role]
	if r == nil || r.Leader == "" || !n.InUse() {
		return nil
	}
	facts := []Fact{{Key: n.Role + " " + n.Name}}
	if n.Name == r.Leader && n.Away != "" {
		facts = append(facts, Fact{Key: away(n.Role + " " + n.Name)})
	}
	return facts
}

func unknownLeader(s *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	var members map[string][]string // by role, filled when needed
	for _, role := range keys(s.Roles) {
		leader, path := s.Roles[role].Leader, "roles."+role+".leader"
		if leader == "" || disabled(s, role) {
			continue
		}
		if x.Count(away(role+" "+leader)) > 0 {
			found = append(found, awayLeader(path, role, leader))
		}
		if x.Count(role+" "+leader) > 0 {
			continue
		}
		if members == nil {
			members = x.pairs()
		}
		found = append(found, wrong(path,
			fmt.Sprintf("%s is to lead the role %s, and is not one of its nodes in use", leader, role),
			"Name one of its nodes in use"+some(members[role])+"."))
	}
	return found
}

func awayLeader(path, role, leader string) site.Finding {
	f := wrong(path, fmt.Sprintf("%s is to lead the role %s, and is away", leader, role),
		"Name another of its nodes until it is back.")
	f.Severity, f.Why = site.SeverityWarning, "Meanwhile another node goes first, and may found a second time what the leader has already founded."
	return f
}

// some returns the first names of a list after a colon, to follow what they
// are.
func some(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ": " + say.Some(names, 5)
}

func roleTooSmall(s *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	for _, role := range keys(s.Roles) {
		least, have := s.Roles[role].Minimum, x.Count(inUse(role))
		if have < least && !disabled(s, role) {
			found = append(found, wrong("roles."+role+".minimum",
				fmt.Sprintf("the role %s needs %s and has %d in use", role, say.Count(least, "node"), have),
				"Add nodes to the role, or lower its minimum."))
		}
	}
	return found
}

func roleEven(s *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	for _, role := range keys(s.Roles) {
		have := x.Count(inUse(role))
		if s.Roles[role].Majority && have > 0 && have%2 == 0 && !disabled(s, role) {
			found = append(found, wrong("roles."+role+".majority",
				fmt.Sprintf("the role %s decides by majority and has %s in use", role, say.Count(have, "node")),
				fmt.Sprintf("Give it %d or %d nodes.", have-1, have+1)))
		}
	}
	return found
}

func majorityAway(s *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	for _, role := range keys(s.Roles) {
		all, gone := x.Count(inUse(role)), x.Count(away(role))
		if !s.Roles[role].Majority || gone == 0 || disabled(s, role) || 2*(all-gone-1) > all {
			continue
		}
		found = append(found, wrong("roles."+role+".majority",
			fmt.Sprintf("the role %s decides by majority, with %d of its %s away", role, gone, say.Count(all, "node")),
			"Bring them back or add nodes before anything disrupts the other nodes, or pause the other nodes."))
	}
	return found
}

// domainFacts returns the failure domains of roles that decide by majority.
func domainFacts(s *site.Site, n *site.Node) []Fact {
	if n.Role == "" || rackLost(n) {
		return []Fact{{}}
	}
	r := s.Roles[n.Role]
	if r == nil || !r.Majority || !n.InUse() || s.Racks[n.Rack] == nil {
		return nil
	}
	return []Fact{{Key: n.Role}, {Key: n.Role + " " + domainOf(s, n.Rack)}}
}

// rackLost reports whether a node's rack is unknown. A virtual machine gets its
// rack from its placement.
func rackLost(n *site.Node) bool { return n.Rack == "" && !n.IsVirtual() }

// domainOf returns the failure domain of a rack, or the rack itself if it has
// none.
func domainOf(s *site.Site, rack string) string {
	if d := s.Racks[rack].Domain; d != "" {
		return d
	}
	return rack
}

func roleInOneDomain(s *site.Site, x *Index) []site.Finding {
	domains := map[string]bool{}
	for rack := range s.Racks {
		domains[domainOf(s, rack)] = true
	}
	if len(domains) < 2 {
		return nil
	}
	var found []site.Finding
	in := x.pairs()
	for _, role := range keys(s.Roles) {
		for _, domain := range in[role] {
			all := x.Count(role)
			if all > 1 && x.Count(role+" "+domain) == all && !disabled(s, role) {
				found = append(found, wrong("roles."+role+".majority",
					fmt.Sprintf("all %d nodes of the role %s are in the failure domain %s", all, role, domain),
					"Spread them over racks of several domains."))
			}
		}
	}
	return found
}
