package rule

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// rollouts: can the site bear what may happen at once, and how often?
var rollouts = []Rule{
	{
		Code: "rollout-all", Severity: site.SeverityWarning,
		What:  "Not all nodes of a site may be out of service at once.",
		Why:   "A mistake that passes every check reaches all machines before anybody sees the first.",
		Wrong: `site: rollout: maxUnavailable: "4"`,
		Right: `site: rollout: maxUnavailable: "3"`,
		Facts: func(*site.Site, *site.Node) []Fact { return []Fact{{Key: "node"}} },
		Fleet: func(s *site.Site, x *Index) []site.Finding {
			all, most := x.Count("node"), s.Rollout.MaxUnavailable
			if all < 2 || site.Bound(most, all) < all {
				return nil
			}
			return []site.Finding{wrong("site.rollout.maxUnavailable",
				fmt.Sprintf("%s of %d nodes may be out of service at once", most, all),
				fmt.Sprintf("Write at most %q.", strconv.Itoa(all-1)))}
		},
	},
	{
		Code: "failures-all", Severity: site.SeverityWarning,
		What:  "A rollout halts before all nodes have failed.",
		Why:   "A revision that breaks machines would reach every one of them.",
		Wrong: `site: rollout: maxFailures: "4"`,
		Right: `site: rollout: maxFailures: "1"`,
		Facts: failingFacts, Fleet: failuresAll, Whole: true,
	},
	{
		Code: "bound-majority", Severity: site.SeverityWarning,
		What:  "The bound for a role that decides by majority leaves a majority of its nodes in service.",
		Why:   "Slipway always keeps the majority in service, so rollouts are slower than this line suggests.",
		Wrong: "roles: storage: majority: true\nroles: storage: maxUnavailable: \"2\"\nnodes: \"n1\": role: \"storage\"\nroles: controller: enabled: false",
		Right: "roles: storage: majority: true\nroles: storage: maxUnavailable: \"1\"\nnodes: \"n1\": role: \"storage\"\nroles: controller: enabled: false",
		Facts: decidingFacts, Fleet: boundMajority, Whole: true,
	},
	{
		Code: "bound-without-effect", Severity: site.SeverityNote,
		What:  "How many nodes of a role or a rack may be out of service at once is more than none and fewer than all of them.",
		Why:   "A bound of all nodes limits nothing. A share of less than one node counts as one node, which is not what the line says.",
		Wrong: `racks: r1: maxUnavailable: "25%"`,
		Right: `racks: r1: maxUnavailable: "1"`,
		Facts: boundFacts, Fleet: boundWithoutEffect, Whole: true,
	},
	{
		Code: "canary-count", Severity: site.SeverityWarning,
		What:  "There are fewer canaries, the nodes that go first, than nodes, and no more than the selector of the canaries matches.",
		Why:   "When all nodes go first, a mistake reaches all of them before anybody has waited for the first.",
		Wrong: `site: rollout: canaries: count: 4`,
		Right: `site: rollout: canaries: count: 3`,
		Facts: canaryFacts, Fleet: canaryCount, Whole: true,
	},
	{
		Code: "soak-over-budget", Severity: site.SeverityWarning,
		What:  "The canaries soak for less time than the rollout is meant to take.",
		Why:   "A rollout of more nodes than the canaries cannot stay within its budget.",
		Wrong: `site: rollout: {budget: "10m", canaries: soak: "10m"}`,
		Right: `site: rollout: {budget: "30m", canaries: soak: "10m"}`,
		Site: func(s *site.Site) []site.Finding {
			r := s.Rollout
			if r.Canaries == nil || r.Budget == 0 || r.Canaries.Soak < r.Budget {
				return nil
			}
			return []site.Finding{also(s, "site.rollout.canaries.soak", wrong("site.rollout.budget",
				fmt.Sprintf("the canaries soak for %s, and the rollout is to take %s", plainly(r.Canaries.Soak), plainly(r.Budget)),
				"Let them soak for less time, or allow for more."))}
		},
	},
	{
		Code: "pace", Severity: site.SeverityError,
		What:  "Slipway polls machines and repositories, and writes the status, at most ten times a second.",
		Why:   "A BMC that is polled more often stops answering, even to people. A Git server takes the requests for an attack.",
		Wrong: `site: rollout: observeEvery: "50ms"`,
		Right: `site: rollout: observeEvery: "100ms"`,
		Site: func(s *site.Site) (found []site.Finding) {
			const least = time.Second / 10
			for _, p := range []struct {
				name  string
				every site.Duration
			}{
				{"observeEvery", s.Rollout.ObserveEvery},
				{"pollEvery", s.Rollout.PollEvery},
				{"reportEvery", s.Rollout.ReportEvery},
			} {
				if d := time.Duration(p.every); d > 0 && d < least {
					found = append(found, wrong("site.rollout."+p.name, fmt.Sprintf("%s is %s", p.name, d), fmt.Sprintf("Write at least %q.", least)))
				}
			}
			return found
		},
	},
}

// failingFacts counts the nodes in use and not away, but only if the site has
// maxFailures. Otherwise ten thousand nodes would each keep a fact for nothing.
func failingFacts(s *site.Site, n *site.Node) []Fact {
	switch {
	case n.Role == "":
		return []Fact{{}}
	case s.Rollout.MaxFailures == "" || !working(n) || disabled(s, n.Role):
		return nil
	}
	return []Fact{{Key: "node"}}
}

func failuresAll(s *site.Site, x *Index) []site.Finding {
	all, most := x.Count("node"), s.Rollout.MaxFailures
	if all < 2 || most == "" || site.Bound(most, all) < all {
		return nil
	}
	return []site.Finding{wrong("site.rollout.maxFailures",
		fmt.Sprintf("%s of %d nodes may fail before a rollout halts", most, all), "Write less, as in \"10%\".")}
}

// decidingFacts counts the nodes of roles that decide by majority and have a
// bound. Nodes that are away count, because they decide too.
func decidingFacts(s *site.Site, n *site.Node) []Fact {
	if n.Role == "" {
		return []Fact{{}}
	}
	if r := s.Roles[n.Role]; r == nil || !r.Majority || r.MaxUnavailable == "" || !n.InUse() {
		return nil
	}
	return []Fact{{Key: n.Role}}
}

func boundMajority(s *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	for _, role := range keys(s.Roles) {
		r, all := s.Roles[role], x.Count(role)
		most := max(1, (all-1)/2)
		if !r.Majority || all == 0 || disabled(s, role) || site.Bound(r.MaxUnavailable, all) <= most {
			continue
		}
		found = append(found, also(s, "roles."+role+".majority", wrong("roles."+role+".maxUnavailable",
			fmt.Sprintf("%s of %s of the role %s may be out of service at once, and only %d leaves a majority", r.MaxUnavailable, say.Count(all, "node"), role, most),
			fmt.Sprintf("Write %q, or remove the line.", strconv.Itoa(most)))))
	}
	return found
}

// boundFacts counts the nodes in use and not away of each role and rack with a
// bound.
func boundFacts(s *site.Site, n *site.Node) (facts []Fact) {
	if n.Role == "" || rackLost(n) {
		return []Fact{{}}
	}
	if !working(n) || disabled(s, n.Role) {
		return nil
	}
	if r := s.Roles[n.Role]; r != nil && r.MaxUnavailable != "" {
		facts = append(facts, Fact{Key: "roles." + n.Role})
	}
	if r := s.Racks[n.Rack]; r != nil && r.MaxUnavailable != "" {
		facts = append(facts, Fact{Key: "racks." + n.Rack})
	}
	return facts
}

func boundWithoutEffect(s *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	for _, role := range keys(s.Roles) {
		if !s.Roles[role].Majority {
			found = append(found, noBound(x, "roles."+role, "the role "+role, s.Roles[role].MaxUnavailable)...)
		}
	}
	for _, rack := range keys(s.Racks) {
		found = append(found, noBound(x, "racks."+rack, "the rack "+rack, s.Racks[rack].MaxUnavailable)...)
	}
	return found
}

// noBound reports a bound that allows all nodes, and a share of less than one
// node.
func noBound(x *Index, path, what, most string) []site.Finding {
	all := x.Count(path)
	n := site.Bound(most, all)
	switch {
	case most == "" || all == 0:
	case n == 0:
		return []site.Finding{wrong(path+".maxUnavailable",
			fmt.Sprintf("%s of %s of %s is less than one, and counts as one", most, say.Count(all, "node"), what), `Write "1".`)}
	case n >= all && n > 1:
		return []site.Finding{wrong(path+".maxUnavailable",
			fmt.Sprintf("%s of %s of %s may be out of service at once", most, say.Count(all, "node"), what),
			fmt.Sprintf("Write at most %q, or remove the line.", strconv.Itoa(max(1, all-1))))}
	}
	return nil
}

// canaryFacts counts the nodes in use and not away, and those of them that can
// go first.
func canaryFacts(s *site.Site, n *site.Node) []Fact {
	switch {
	case n.Role == "" || rackLost(n):
		return []Fact{{}}
	case s.Rollout.Canaries == nil || !working(n) || disabled(s, n.Role):
		return nil
	case !s.Rollout.Canaries.Nodes.Selects(n):
		return []Fact{{Key: "node"}}
	}
	return []Fact{{Key: "node"}, {Key: "canary"}}
}

// canaryCount leaves a selector without nodes to selector-empty.
func canaryCount(s *site.Site, x *Index) []site.Finding {
	c, all, some := s.Rollout.Canaries, x.Count("node"), x.Count("canary")
	if c == nil || some == 0 || c.Count < all && c.Count <= some {
		return nil
	}
	message := fmt.Sprintf("%d nodes go first, and the site has %d in use", c.Count, all)
	if some < all {
		message = fmt.Sprintf("%d nodes go first, and only %d can be chosen", c.Count, some)
	}
	fix := fmt.Sprintf("Let at most %d go first.", max(1, min(some, all-1)))
	return []site.Finding{wrong("site.rollout.canaries.count", message, fix)}
}

// plainly formats a duration without trailing zeros: 10m, not 10m0s.
func plainly(d site.Duration) string {
	text := strings.Replace(time.Duration(d).String(), "m0s", "m", 1)
	return strings.Replace(text, "h0m", "h", 1)
}
