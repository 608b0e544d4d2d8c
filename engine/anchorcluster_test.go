package engine

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

// claimOf is the claim of another daemon in a cluster, signed with the site's key.
func claimOf(t *testing.T, e *Engine, cluster string) site.TermClaim {
	t.Helper()
	c := another(t, e, 7)
	c.Cluster = cluster
	signature, err := e.Key.Sign(sitekey.ForStatus, c.Unsigned())
	if err != nil {
		t.Fatal(err)
	}
	c.Signature = signature
	return c
}

// A daemon of another cluster that acts for the site bars this one, also where this one's records were copied from
// there and so have published its claim. Within a cluster the next leader goes on.
func TestAnotherClusterActs(t *testing.T) {
	for name, c := range map[string]struct {
		own, published string   // clusters
		claims         []string // in this one's records
		from           string   // whose daemons published them
		want           string
	}{
		"the same cluster":               {"aa", "aa", []string{"another"}, "aa", ""},
		"before it became a cluster":     {"aa", "", []string{"another"}, "", ""},
		"another cluster":                {"aa", "bb", nil, "", `a daemon of another cluster acts for this site: "other host" began term 7`},
		"copied from another cluster":    {"aa", "bb", []string{"another"}, "bb", "in cluster bb, and this daemon is of cluster aa"},
		"taken over from it":             {"aa", "bb", []string{"another"}, "aa", ""},
		"one host, copied":               {"", "bb", []string{"another"}, "bb", "in cluster bb, and this daemon is of no cluster"},
		"the same cluster, set back":     {"aa", "aa", nil, "aa", "another daemon acts for this site"},
		"one host beside a cluster":      {"", "bb", nil, "", "a daemon of another cluster acts"},
		"a cluster beside a single host": {"aa", "", nil, "", "another daemon acts for this site"},
	} {
		t.Run(name, func(t *testing.T) {
			e, _, s := ashore(t)
			e.Cluster, e.book.Claims, e.book.Cluster = c.own, c.claims, c.from
			s.term = claimOf(t, e, c.published)
			err := e.moor(t.Context())
			if got := e.whyBarred(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) || (err != nil) != (c.want != "") {
				t.Fatalf("got %q (%v), want %q", got, err, c.want)
			}
			if c.want == "" {
				if s.term.Cluster != c.own || e.book.Cluster != c.own || s.claims != 1 {
					t.Errorf("it published %+v, and the book is of %q", s.term, e.book.Cluster)
				}
				return
			}
			if s.claims > 0 {
				t.Error("it published its own claim")
			}
			if _, err := e.takeOver(t.Context(), site.Order{Verb: site.VerbTakeOver, By: "ann"}); err != nil || e.isBarred() || s.term.Cluster != c.own {
				t.Errorf("after a person has taken over: %v, %q, published %+v", err, e.whyBarred(), s.term)
			}
		})
	}
}
