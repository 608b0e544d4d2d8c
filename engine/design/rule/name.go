package rule

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

var naming = []Rule{
	{
		Code: "node-name", Severity: site.SeverityError, Firm: true,
		What:  "The name of a node is a host name of at most 63 lower case letters, digits and hyphens.",
		Why:   "The name serves as host name, in file names and in URLs (RFC 1123, section 2.1).",
		Wrong: `nodes: "N_1": {profiles: ["base"], role: "compute", rack: "r1", endpoints: manager: url: "redfish+https://10.9.0.50/redfish/v1/Systems/1"}`,
		Right: `nodes: "n-1": {profiles: ["base"], role: "compute", rack: "r1", endpoints: manager: url: "redfish+https://10.9.0.50/redfish/v1/Systems/1"}`,
		Node: func(_ *site.Site, n *site.Node) []site.Finding {
			if hostName.MatchString(n.Name) {
				return nil
			}
			return []site.Finding{wrong("", fmt.Sprintf("%q cannot be the name of a node", n.Name),
				"Use at most 63 lower case letters, digits and hyphens, beginning and ending with a letter or digit.")}
		},
	},
	entryNaming,
}

var entryNaming = Rule{
	Code: "entry-name", Severity: site.SeverityError, Firm: true,
	What:  "The name of an entry has at most 63 letters, digits, '.', '_' and '-'.",
	Why:   "The name is used in file names, logs and commands.",
	Wrong: `bootActions: "burn in": run: ["/usr/bin/stress"]`,
	Right: `bootActions: "burn-in.1": run: ["/usr/bin/stress"]`,
	Site:  entryNames,
}

// EntryNames reports wrong names in a section that is not part of a site.
func EntryNames[V any](section string, in map[string]V, origins *site.Origins) []site.Finding {
	found := namesOf(section, in)
	for i := range found {
		o, _ := nearest(origins, found[i].Path)
		entryNaming.complete(&found[i], o)
	}
	return found
}

// hostName matches the names of nodes: labels of RFC 1123, section 2.1, so that
// a name can serve as host name, file name and part of a URL.
var hostName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// entryName matches the names of other parts of a design.
var entryName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func entryNames(s *site.Site) []site.Finding {
	return slices.Concat(
		namesOf("networks", s.Networks),
		namesOf("routeDomains", s.RouteDomains),
		namesOf("links", s.Links),
		namesOf("windows", s.Windows),
		namesOf("artifacts", s.Artifacts),
		namesOf("drivers", s.Drivers),
		namesOf("bootActions", s.BootActions),
		namesOf("extensions", s.Extensions),
		namesOf("policies", s.Policies),
		namesOf("suppressions", s.Suppressions),
		namesOf("roles", s.Roles),
		namesOf("racks", s.Racks),
		namesOf("images", s.Images),
		namesOf("credentials", s.Credentials),
	)
}

func namesOf[V any](section string, in map[string]V) []site.Finding {
	var found []site.Finding
	for _, key := range keys(in) {
		if !entryName.MatchString(key) {
			found = append(found, wrong(section+"."+key,
				fmt.Sprintf("%q cannot be a name in `%s`", key, section),
				"Use at most 63 letters, digits, '.', '_' and '-', beginning with a letter or digit."))
		}
	}
	return found
}
