package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Each metric of a site's process has its site, and a site that does not answer in order hides no other.
func TestMetricsOfSitesAreMerged(t *testing.T) {
	scraped := func(name string) []byte {
		m := New("v1")
		m.Site(name, func() site.Report { return full(time.Now()) })
		s := httptest.NewServer(m.Pages(func() []string { return nil }))
		defer s.Close()
		_, text := ask(t, "GET", s.URL+"/metrics", "")
		return []byte(text)
	}
	pages := map[string][]byte{"berlin": scraped("berlin"), "paris": scraped("paris"), "oslo": nil, "rome": []byte("{{{")}
	s := httptest.NewServer(New("v1").PagesOfSites(func() map[string][]byte { return pages }, func() []string { return []string{"site oslo: it has ended"} }))
	defer s.Close()
	status, text := ask(t, "GET", s.URL+"/metrics", "")
	for _, want := range []string{
		`slipway_site_up{site="berlin"} 1`, `slipway_site_up{site="oslo"} 0`, `slipway_site_up{site="rome"} 0`,
		`slipway_nodes{site="berlin",state="stalled"} 2`, `slipway_nodes{site="paris",state="stalled"} 2`,
		"go_goroutines ", `go_goroutines{site="berlin"} `, `process_open_fds{site="paris"} `,
	} {
		if status != 200 || !strings.Contains(text, "\n"+want) {
			t.Errorf("/metrics answers %d without %s", status, want)
		}
	}
	if n := strings.Count(text, "# TYPE slipway_nodes "); n != 1 {
		t.Errorf("the type of a metric is there %d times", n)
	}
	if status, text := ask(t, "GET", s.URL+"/readyz", ""); status != 503 || text != "site oslo: it has ended\n" {
		t.Errorf("/readyz answers %d %q", status, text)
	}
	if status, text := ask(t, "GET", s.URL+"/healthz", ""); status != 200 || text != "ok\n" {
		t.Errorf("/healthz answers %d %q", status, text)
	}
}
