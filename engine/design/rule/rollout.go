package rule

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// rollouts: is what may happen at once, and how often, what can be borne?
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
			if all < 2 || atOnce(most, all) < all {
				return nil
			}
			return []site.Finding{wrong("site.rollout.maxUnavailable",
				fmt.Sprintf("%s of %d nodes may be out of service at once", most, all),
				fmt.Sprintf("Write at most %q.", strconv.Itoa(all-1)))}
		},
	},
	{
		Code: "pace", Severity: site.SeverityError,
		What:  "Machines and repositories are looked at, and the status is written, ten times a second at most.",
		Why:   "A BMC that is asked more often stops answering, people too; a Git server takes it for an attack.",
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

// atOnce is how many of all nodes a maxUnavailable allows, 0 for none.
func atOnce(most string, all int) int {
	if share, ok := strings.CutSuffix(most, "%"); ok {
		n, _ := strconv.Atoi(share)
		return all * n / 100
	}
	n, _ := strconv.Atoi(most)
	return n
}
