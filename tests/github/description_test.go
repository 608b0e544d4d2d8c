package github_test

import (
	"net/http"
	"strings"
	"testing"
)

// What GitHub's description does not allow is noticed, whoever sends it.
func TestViolations(t *testing.T) {
	w := start(t)
	token := w.Token("ada", "repo")
	status := "repos/acme/site/statuses/" + w.repo.Head("main")
	for _, c := range []struct{ name, method, path, body, violation string }{
		{"a state that is none", "POST", status, `{"state":"superseded"}`, "/state"},
		{"no state", "POST", status, `{}`, "state"},
		{"no body", "POST", status, ``, "body"},
		{"a field that is none", "POST", status, `{"state":"pending","desciption":"x"}`, `"desciption"`},
		{"a parameter that is none", "GET", "repos/acme/site/pulls?pages=2", ``, `"pages"`},
		{"a page that is none", "GET", "repos/acme/site/pulls?per_page=abc", ``, "per_page"},
		{"a route that is none", "GET", "repos/acme/site/pull/1", ``, "does not serve"},
	} {
		r, err := http.NewRequest(c.method, w.API()+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		resp, err := w.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode < 400 {
			t.Errorf("%s: answered %d", c.name, resp.StatusCode)
		}
		if all := strings.Join(w.Violations(), "\n"); !strings.Contains(all, c.violation) {
			t.Errorf("%s: got violations %q, want one of %q", c.name, all, c.violation)
		}
	}
}
