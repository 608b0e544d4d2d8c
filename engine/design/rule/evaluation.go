package rule

import "github.com/slipway-gitops/slipway/engine/site"

// evaluation lists what is found while a design is read, before any rule can
// be run on it.
var evaluation = []Rule{
	{
		Code: "unknown-field", Severity: site.SeverityError, Firm: true,
		What:  "Every field is one that the schema has.",
		Why:   "Nothing reads it, so what it asks for would silently not happen.",
		Wrong: `nodes: "n1": generations: 1`,
		Right: `nodes: "n1": generation: 1`,
	},
}
