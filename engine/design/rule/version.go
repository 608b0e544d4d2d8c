package rule

import (
	"fmt"

	"github.com/slipway-gitops/slipway/engine/site"
)

var version = []Rule{{
	Code: "schema-version", Severity: site.SeverityError, Firm: true,
	What:  "A site is written for the version of the schema that this slipway reads.",
	Why:   "The meaning of a field may have changed, so Slipway does not apply the design.",
	Wrong: `site: schema: "v1alpha1"`,
	Right: `site: schema: "v1alpha2"`,
	Site: func(s *site.Site) []site.Finding {
		if s.Schema == "" || s.Schema == site.SchemaVersion {
			return nil
		}
		return []site.Finding{wrong("site.schema",
			fmt.Sprintf("the site is written for the schema %q, this slipway reads %q", s.Schema, site.SchemaVersion),
			"Rewrite it with `slipway migrate`, or use a slipway of the site's version.")}
	},
}}
