package present

import (
	"fmt"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// upgrades says how many packages a plan upgrades and how to list them, if its step does not name
// all.
func upgrades(n site.NodePlan) []string {
	const named = 12 // how many the machine names
	u := n.Upgrades
	if u == nil || len(u.Packages) <= named {
		return nil
	}
	count := say.Count(len(u.Packages), "package")
	if u.More > 0 {
		count = fmt.Sprintf("more than %d packages", len(u.Packages))
	}
	return []string{fmt.Sprintf("%s; `slipway explain %s system.patch` lists them", count, n.Node)}
}
