package design

import (
	"encoding/json"
	"testing"
)

// A count is the same with quotes and without.
func TestCountsWithQuotesAndWithout(t *testing.T) {
	for _, c := range [][2]string{
		{`site: rollout: maxUnavailable: 2`, `site: rollout: maxUnavailable: "2"`},
		{`site: rollout: maxFailures: 0`, `site: rollout: maxFailures: "0"`},
		{`roles: compute: maxUnavailable: 3`, `roles: compute: maxUnavailable: "3"`},
		{`roles: compute: minimum: 1`, `roles: compute: minimum: "1"`},
		{`roles: compute: needs: base: storage: quorum: 2`, `roles: compute: needs: base: storage: quorum: "2"`},
	} {
		var all [2]string
		for i, text := range c {
			r := over(t, text)
			for _, f := range r.Findings {
				if f.Severity == "error" {
					t.Errorf("%s: %s %s", text, f.Place(), f.Message)
				}
			}
			if r.Site == nil {
				t.Fatalf("%s has no site", text)
			}
			r.Site.Nodes, r.Site.Origins = nil, nil
			plain, err := json.Marshal(r.Site)
			if err != nil {
				t.Fatal(err)
			}
			all[i] = string(plain)
		}
		if all[0] != all[1] {
			t.Errorf("%s and %s are not the same", c[0], c[1])
		}
	}
}
