package rule

import (
	"fmt"
	"regexp"

	"github.com/slipway-gitops/slipway/engine/site"
)

var holds = []Rule{
	{
		Code: "paused-decommission", Severity: site.SeverityWarning,
		What:  "A node to be decommissioned is not paused.",
		Why:   "A pause keeps every hand off the machine, so the removal waits for its end.",
		Wrong: `nodes: "n1": {decommission: true, paused: {by: "mw", reason: "disk swap"}}`,
		Right: `nodes: "n1": decommission: true`,
		Node: func(_ *site.Site, n *site.Node) []site.Finding {
			if n.Paused == nil || !n.Decommission {
				return nil
			}
			return []site.Finding{wrong("paused.by",
				fmt.Sprintf("the node %s is paused and to be decommissioned", n.Name), "Remove one of the two.")}
		},
	},
	{
		Code: "invalid-approval", Severity: site.SeverityError,
		What:  "An approval stands under the digest of a set of destruction.",
		Why:   "It approves nothing, though it reads as if it did.",
		Wrong: `approvals: "compute-1": by: "mw"`,
		Right: `approvals: "9f2c81ab44e07d35": by: "mw"`,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.Approvals) {
				if !digest.MatchString(key) {
					found = append(found, wrong("approvals."+key+".by",
						fmt.Sprintf("%q is not the digest of a set of destruction", key),
						"Copy the 16 hex digits that the plan and the status name."))
				}
			}
			return found
		},
	},
}

var digest = regexp.MustCompile(`^[0-9a-f]{16}$`)
