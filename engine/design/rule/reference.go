package rule

import (
	"fmt"

	"github.com/slipway-gitops/slipway/engine/site"
)

// references objects to names that nothing has.
func references(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, n := range nodes(s) {
		refer(&found, n, "role", "roles", n.Role, s.Roles)
		refer(&found, n, "rack", "racks", n.Rack, s.Racks)
		refer(&found, n, "image", "images", n.Image, s.Images)
		for _, kind := range keys(n.Endpoints) {
			refer(&found, n, "endpoints."+string(kind)+".credential", "credentials", n.Endpoints[kind].Credential, s.Credentials)
		}
		for _, network := range keys(n.Addresses) {
			refer(&found, n, "addresses."+network, "networks", network, s.Networks)
		}
	}
	return found
}

// refer objects to a name that is not in a section.
func refer[V any](found *[]site.Finding, n *site.Node, path, section, name string, in map[string]V) {
	if _, ok := in[name]; ok || name == "" {
		return
	}
	what := section[:len(section)-1]
	*found = append(*found, on(n, path, site.Finding{
		Code:    "unknown-" + what,
		Message: fmt.Sprintf("there is no %s %q%s", what, name, DidYouMean(name, keys(in))),
		Why:     "What the name stands for is not known, so nothing is done with the nodes that use it.",
		Fix:     fmt.Sprintf("Use a name that `%s` has, or declare %q there.", section, name),
	}))
}
