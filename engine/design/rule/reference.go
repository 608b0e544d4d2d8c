package rule

import (
	"fmt"

	"github.com/slipway-gitops/slipway/engine/site"
)

var references = []Rule{
	{
		Code: "unknown-role", Severity: site.SeverityError, Firm: true,
		What: "The role of a node is an entry in `roles`, and so are those that a role's placement and shared addresses name.", Why: noMeaning,
		Wrong: `nodes: "n2": role: "computer"`,
		Right: `nodes: "n2": role: "compute"`,
		Node: func(s *site.Site, n *site.Node) []site.Finding {
			return refer("role", "roles", n.Role, s.Roles)
		},
		Site: func(s *site.Site) (found []site.Finding) {
			for _, network := range keys(s.Networks) {
				for _, name := range keys(s.Networks[network].Shared) {
					found = append(found, refer("networks."+network+".shared."+name+".role", "roles", s.Networks[network].Shared[name].Role, s.Roles)...)
				}
			}
			for _, role := range keys(s.Roles) {
				at, p := "roles."+role+".placement.", s.Roles[role].Placement
				for _, other := range p.Apart {
					found = append(found, refer(at+"apart", "roles", other, s.Roles)...)
				}
				for _, other := range p.Near {
					found = append(found, refer(at+"near", "roles", other, s.Roles)...)
				}
			}
			return found
		},
	},
	{
		Code: "unknown-rack", Severity: site.SeverityError, Firm: true,
		What: "The rack of a node or hypervisor is an entry in `racks`.", Why: noMeaning,
		Wrong: `nodes: "n1": rack: "r9"`,
		Right: `nodes: "n1": rack: "r2"`,
		Node: func(s *site.Site, n *site.Node) []site.Finding {
			return refer("rack", "racks", n.Rack, s.Racks)
		},
		Site: func(s *site.Site) (found []site.Finding) {
			for _, name := range keys(s.Hypervisors) {
				found = append(found, refer("hypervisors."+name+".rack", "racks", s.Hypervisors[name].Rack, s.Racks)...)
			}
			return found
		},
	},
	{
		Code: "unknown-image", Severity: site.SeverityError, Firm: true,
		What: "The image of a node is an entry in `images`.", Why: noMeaning,
		Wrong: `nodes: "n1": image: "debian13"`,
		Right: `nodes: "n1": image: "debian12"`,
		Node: func(s *site.Site, n *site.Node) []site.Finding {
			return refer("image", "images", n.Image, s.Images)
		},
	},
	{
		Code: "unknown-credential", Severity: site.SeverityError, Firm: true,
		What: "The credential of an endpoint or hypervisor is an entry in `credentials`.", Why: noMeaning,
		Wrong: `nodes: "n1": endpoints: manager: credential: "ilo"`,
		Right: `nodes: "n1": endpoints: manager: credential: "os"`,
		Node: func(s *site.Site, n *site.Node) (found []site.Finding) {
			for _, kind := range keys(n.Endpoints) {
				path := "endpoints." + string(kind) + ".credential"
				found = append(found, refer(path, "credentials", n.Endpoints[kind].Credential, s.Credentials)...)
			}
			return found
		},
		Site: func(s *site.Site) (found []site.Finding) {
			for _, name := range keys(s.Hypervisors) {
				found = append(found, refer("hypervisors."+name+".credential", "credentials", s.Hypervisors[name].Credential, s.Credentials)...)
			}
			return found
		},
	},
	{
		Code: "unknown-network", Severity: site.SeverityError, Firm: true,
		What: "The networks of a node are entries in `networks`.", Why: noMeaning,
		Wrong: `nodes: "n1": addresses: mgmnt: "10.1.0.21"`,
		Right: `nodes: "n1": addresses: mgmt: "10.1.0.21"`,
		Node: func(s *site.Site, n *site.Node) (found []site.Finding) {
			for _, network := range keys(n.Addresses) {
				found = append(found, refer("addresses."+network, "networks", network, s.Networks)...)
			}
			found = append(found, refer("primaryNetwork", "networks", n.PrimaryNetwork, s.Networks)...)
			for _, name := range keys(n.Interfaces) {
				found = append(found, refer("interfaces."+name+".boot", "networks", n.Interfaces[name].Boot, s.Networks)...)
			}
			return append(found, eachNetwork(n, func(c carrier, network string, i int) []site.Finding {
				if s.Networks[network] != nil {
					return nil
				}
				return refer(c.networkPath(i), "networks", network, s.Networks)
			})...)
		},
	},
}

const noMeaning = "Slipway does not know what the name stands for, so it does nothing with the nodes that use it."

// refer reports a name that a section does not have.
func refer[V any](path, section, name string, in map[string]V) []site.Finding {
	if _, ok := in[name]; ok || name == "" {
		return nil
	}
	return []site.Finding{wrong(path,
		fmt.Sprintf("there is no %s %q%s", section[:len(section)-1], name, didYouMean(name, in)),
		fmt.Sprintf("Use a name that `%s` has, or declare %q there.", section, name))}
}
