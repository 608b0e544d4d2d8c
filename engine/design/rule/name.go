package rule

import (
	"fmt"
	"regexp"

	"github.com/slipway-gitops/slipway/engine/site"
)

// hostName is what may name a node: a label of RFC 1123, section 2.1, so that
// the name can serve as host name, file name and part of a URL.
var hostName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// name is what other parts of a design may be called.
var name = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// names objects to names that cannot be used.
func names(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, n := range nodes(s) {
		if !hostName.MatchString(n.Name) {
			found = append(found, on(n, "", site.Finding{
				Code:    "invalid-name",
				Message: fmt.Sprintf("%q cannot be the name of a node", n.Name),
				Why:     "The name serves as host name, in file names and in URLs.",
				Fix:     "Use at most 63 lower case letters, digits and hyphens, beginning and ending with a letter or digit.",
			}))
		}
	}
	entryNames(&found, s, "networks", s.Networks)
	entryNames(&found, s, "roles", s.Roles)
	entryNames(&found, s, "racks", s.Racks)
	entryNames(&found, s, "images", s.Images)
	entryNames(&found, s, "credentials", s.Credentials)
	return found
}

func entryNames[V any](found *[]site.Finding, s *site.Site, section string, in map[string]V) {
	for _, key := range keys(in) {
		if !name.MatchString(key) {
			*found = append(*found, at(s, section+"."+key, site.Finding{
				Code:    "invalid-name",
				Message: fmt.Sprintf("%q cannot be a name in `%s`", key, section),
				Why:     "The name is used in file names, logs and commands.",
				Fix:     "Use at most 63 letters, digits, '.', '_' and '-', beginning with a letter or digit.",
			}))
		}
	}
}
