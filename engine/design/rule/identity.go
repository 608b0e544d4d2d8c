package rule

import "github.com/slipway-gitops/slipway/engine/site"

var identities = []Rule{
	{
		Code: "duplicate-uuid", Severity: site.SeverityError, Firm: true,
		What:  "No two nodes name the same machine by its UUID.",
		Why:   "Two nodes would act on one machine.",
		Wrong: `nodes: "n2": identity: uuid: "4c4c4544-0000-4000-8000-000000000001"`,
		Right: `nodes: "n2": identity: uuid: "4c4c4544-0000-4000-8000-0000000000ff"`,
		Facts: func(_ *site.Site, n *site.Node) []Fact { return fact(n.Identity.UUID, "identity.uuid") },
		Fleet: twice("the UUID"),
	},
	{
		Code: "duplicate-serial", Severity: site.SeverityError, Firm: true,
		What:  "No two nodes name the same machine by its serial number.",
		Why:   "Two nodes would act on one machine.",
		Wrong: `nodes: "n2": identity: serial: "SN1"`,
		Right: `nodes: "n2": identity: serial: "SN99"`,
		Facts: func(_ *site.Site, n *site.Node) []Fact { return fact(n.Identity.Serial, "identity.serial") },
		Fleet: twice("the serial number"),
	},
}

// fact is one fact, or none where the key is empty.
func fact(key, path string) []Fact {
	if key == "" {
		return nil
	}
	return []Fact{{key, path}}
}
