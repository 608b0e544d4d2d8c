package web

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The list of sites asks them at the same time, and one that does not answer is unknown and delays no other.
func TestListOfSitesWaitsForNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"berlin", "madrid", "oslo", "paris", "rome"}
		may := map[string][]access.Verb{}
		for _, name := range names {
			may[name] = []access.Verb{access.Read}
		}
		api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var answer any
			switch path := strings.TrimPrefix(r.URL.Path, "/api/v1"); path {
			case "/whoami":
				answer = control.Identity{Caller: access.Caller{Kind: access.User, Name: "ana"}, Verbs: may, Whole: may}
			case "/sites":
				answer = names
			case "/sites/oslo/overview":
				<-r.Context().Done()
				w.WriteHeader(http.StatusServiceUnavailable)
				answer = map[string]string{"error": "site oslo does not answer", "kind": "away"}
			case "/sites/berlin/events", "/sites/madrid/events", "/sites/paris/events", "/sites/rome/events":
				answer = []site.Event{}
			default:
				time.Sleep(time.Second)
				answer = control.Overview{Verdict: "3/3 in-sync of " + strings.Split(path, "/")[2]}
			}
			json.NewEncoder(w).Encode(answer)
		})
		began, w := time.Now(), httptest.NewRecorder()
		New(api).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		if took := time.Since(began); took != siteWait {
			t.Errorf("it took %s, and waits %s for the one that does not answer", took, siteWait)
		}
		for _, want := range []string{"3/3 in-sync of berlin", "3/3 in-sync of madrid", "3/3 in-sync of paris", "3/3 in-sync of rome", "unknown: site oslo does not answer"} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("the page has no %q", want)
			}
		}
	})
}
