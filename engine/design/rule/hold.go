package rule

import (
	"fmt"
	"regexp"

	"github.com/slipway-gitops/slipway/engine/site"
)

// holds warns of a pause that keeps a node from leaving.
func holds(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, n := range nodes(s) {
		if n.Paused != nil && n.Decommission {
			found = append(found, on(n, "paused.by", site.Finding{
				Code: "paused-decommission", Severity: site.SeverityWarning,
				Message: fmt.Sprintf("the node %s is paused and to be decommissioned", n.Name),
				Why:     "A pause keeps every hand off the machine, so the removal waits for its end.",
				Fix:     "Remove one of the two.",
			}))
		}
	}
	return found
}

var digest = regexp.MustCompile(`^[0-9a-f]{16}$`)

// approvals objects to approvals that can approve nothing.
func approvals(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, key := range keys(s.Approvals) {
		if !digest.MatchString(key) {
			found = append(found, at(s, "approvals."+key+".by", site.Finding{
				Code: "invalid-approval", Message: fmt.Sprintf("%q is not the digest of a set of destruction", key),
				Why: "It approves nothing, though it reads as if it did.",
				Fix: "Copy the 16 hex digits that the plan and the status name.",
			}))
		}
	}
	return found
}
