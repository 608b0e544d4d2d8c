package rule

import "github.com/slipway-gitops/slipway/engine/site"

// placements: where does each virtual machine run? These findings arise after a
// design is evaluated, when its machines are placed.
var placements = []Rule{
	{
		Code: "unplaced", Severity: site.SeverityError, Firm: true,
		What: "Every virtual machine finds a hypervisor that has room for it and that the placement of its role allows.",
		Why:  "Slipway makes a machine only where there is room for it and where the placement of its role allows it.",
	},
	{
		Code: "machine-moves", Severity: site.SeverityError, Firm: true,
		What: "A placed virtual machine stays on its hypervisor, and that hypervisor stays in the design.",
		Why:  "Its disks are on the hypervisor where it was placed, and nothing here moves them to another.",
	},
	{
		Code: "hypervisor-full", Severity: site.SeverityError, Firm: true,
		What: "The virtual machines that are placed on a hypervisor take no more than the design lets them have of it.",
		Why:  "Machines that are promised more than a hypervisor has slow each other down, or do not start.",
	},
	{
		Code: "bridge-unfit", Severity: site.SeverityError, Firm: true,
		What: "Where the design of a hypervisor's node has bridges, the machines on it are plugged into one of them, and it carries the networks of the machine.",
		Why:  "The machine is connected where its network is not, so it cannot be reached.",
	},
	{
		Code: "bridge-unknown", Severity: site.SeverityNote, Firm: true,
		What: "Where machines are plugged into a bridge of a hypervisor's node, the design says which networks it carries.",
		Why:  "If it carries another network, the machines cannot be reached, and Slipway cannot tell before they are made.",
	},
	{
		Code: "placed-otherwise", Severity: site.SeverityError, Firm: true,
		What: "Roles are kept apart and near as their virtual machines are placed already.",
		Why:  "Roles that are kept apart must not fail together, and a role that is kept near needs the other one on the same hypervisor.",
	},
}
