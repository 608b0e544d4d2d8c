package rule

import (
	"fmt"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// identities objects to two nodes that claim one machine.
func identities(s *site.Site) []site.Finding {
	uuids, serials := claims{}, claims{}
	for _, n := range nodes(s) {
		uuids.add(n, "identity.uuid", n.Identity.UUID)
		serials.add(n, "identity.serial", n.Identity.Serial)
	}
	const why = "Two nodes would act on one machine."
	found := uuids.twice("duplicate-uuid", "the UUID", why)
	return append(found, serials.twice("duplicate-serial", "the serial number", why)...)
}

// claim is one node's use of something that only one may use.
type claim struct {
	node *site.Node
	path string
}

// claims are the uses by what is used.
type claims map[string][]claim

func (c claims) add(n *site.Node, path, what string) {
	if what != "" {
		c[what] = append(c[what], claim{n, path})
	}
}

// twice objects to every use but the first.
func (c claims) twice(code, what, why string) []site.Finding {
	var found []site.Finding
	for _, value := range keys(c) {
		first := c[value][0]
		for _, again := range c[value][1:] {
			f := on(again.node, again.path, site.Finding{
				Code:    code,
				Message: fmt.Sprintf("%s %s of %s is also that of %s", what, value, again.node.Name, first.node.Name),
				Why:     why,
				Fix:     "Correct the one that is wrong.",
			})
			if o := first.node.Origins[first.path]; !o.IsZero() {
				f.Related = []string{strings.TrimSpace(o.String())}
			}
			found = append(found, f)
		}
	}
	return found
}
