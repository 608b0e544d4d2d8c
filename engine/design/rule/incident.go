package rule

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

var incidents = []Rule{
	{
		Code: "unknown-incident-node", Severity: site.SeverityError,
		What:  "The nodes of an incident are in the design, and each is named once.",
		Why:   "A compromised machine under a misspelled name would stay on.",
		Wrong: `incidents: "shell": {nodes: ["n77"], since: "2026-03-01T18:00:00Z", reason: "unknown shell"}`,
		Right: `incidents: "shell": {nodes: ["n1"], since: "2026-03-01T18:00:00Z", reason: "unknown shell"}`,
		Facts: func(s *site.Site, n *site.Node) []Fact {
			for _, i := range s.Incidents {
				if slices.Contains(i.Nodes, n.Name) {
					return []Fact{{Key: n.Name}}
				}
			}
			return nil
		},
		Fleet: func(s *site.Site, x *Index) (found []site.Finding) {
			for _, name := range keys(s.Incidents) {
				path, nodes := "incidents."+name+".nodes", s.Incidents[name].Nodes
				for i, node := range nodes {
					if x.Count(node) == 0 {
						found = append(found, wrong(path, fmt.Sprintf("the incident %s names %q, and there is no node of that name", name, node), "Write the name as `nodes` has it."))
					}
					if slices.Contains(nodes[:i], node) {
						found = append(found, wrong(path, fmt.Sprintf("the incident %s names %s twice", name, node), "Name each node once."))
					}
				}
			}
			return found
		},
	},
	{
		Code: "invalid-incident", Severity: site.SeverityError,
		What:  "An incident has a name of lower case letters, digits and hyphens, and a reason of at most 1000 bytes.",
		Why:   "The name is typed in commands and names a page on the status branch; the reason is shown wherever the nodes are.",
		Wrong: `incidents: "Shell!": {nodes: ["n1"], since: "2026-03-01T18:00:00Z", reason: "unknown shell"}`,
		Right: `incidents: "shell": {nodes: ["n1"], since: "2026-03-01T18:00:00Z", reason: "unknown shell"}`,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, name := range keys(s.Incidents) {
				if !site.IsIncidentName(name) {
					found = append(found, wrong("incidents."+name+".nodes", fmt.Sprintf("%q cannot be the name of an incident", name),
						"Use up to 63 lower case letters, digits and hyphens, such as shell-2026-03-01."))
				}
				if n := len(s.Incidents[name].Reason); n > mostReason || blank.MatchString(s.Incidents[name].Reason) {
					found = append(found, wrong("incidents."+name+".reason", fmt.Sprintf("the reason has %d bytes, or only spaces", n), "Say in a sentence what is known."))
				}
			}
			return found
		},
	},
	futureIncident,
}

// mostReason is how many bytes a reason may have, as in an order to the daemon.
const mostReason = 1000

var blank = regexp.MustCompile(`^\s+$`)

var futureIncident = Rule{
	Code: "incident-future", Severity: site.SeverityError,
	What:  "An incident began in the past.",
	Why:   "What a machine could read is counted from that time on: one in the future would count nothing.",
	Wrong: `incidents: "shell": {nodes: ["n1"], since: "2926-03-01T18:00:00Z", reason: "unknown shell"}`,
	Right: `incidents: "shell": {nodes: ["n1"], since: "2026-03-01T18:00:00Z", reason: "unknown shell"}`,
	// FutureIncidents finds it: a rule has no clock.
	Site: func(*site.Site) []site.Finding { return nil },
}

// clockSlack is how far ahead the clock of an author may be.
const clockSlack = 10 * time.Minute

// FutureIncidents finds the incidents that begin in the future. This is apart from the rules because it
// needs a clock.
func FutureIncidents(s *site.Site, now time.Time) []site.Finding {
	var found []site.Finding
	for _, name := range keys(s.Incidents) {
		since := s.Incidents[name].Since
		if !since.After(now.Add(clockSlack)) {
			continue
		}
		path := "incidents." + name + ".since"
		f := wrong(path, fmt.Sprintf("the incident %s begins on %s, in the future", name, since.UTC().Format(time.RFC3339)),
			"Write the earliest time at which the machines can have been in other hands.")
		futureIncident.complete(&f, s.Origins.Of(path))
		found = append(found, f)
	}
	return found
}
