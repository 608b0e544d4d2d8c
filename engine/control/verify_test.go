package control

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A verification is asked for by nodes, by a role or expressly for all, and shows nobody more than
// it may read.
func TestVerification(t *testing.T) {
	f := &fake{}
	o := listening(t, f, nil)
	person := func(name string) *http.Client { return o.as(o.people.client(t, mail(name+"@example.org"))) }
	const path = "/api/v1/sites/berlin/verification"
	for _, body := range []string{`{}`, `{"all":true,"role":"compute"}`, `{"nodes":[""]}`, `{"nodes":["n1"],"all":true}`, `{"node":"n1"}`} {
		if got, answer := o.ask(person("ana"), http.MethodPost, path, "", body); got != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, got, answer)
		}
	}
	if got, answer := o.ask(person("ana"), http.MethodPost, path, "", `{"role":"nobody"}`); got != http.StatusNotFound {
		t.Errorf("a role without nodes: %d %s", got, answer)
	}
	for body, want := range map[string][]string{`{"all":true}`: nil, `{"nodes":["n1","n2"]}`: {"n1", "n2"}, `{"role":"compute"}`: {"n1"}} {
		got, answer := o.ask(person("ana"), http.MethodPost, path, "", body)
		if last := f.verified[len(f.verified)-1]; got != http.StatusOK || !slices.Equal(last.Nodes, want) || last.By != "ana@example.org (certificate)" {
			t.Errorf("%s: %d %s, asked %+v", body, got, answer, last)
		}
	}
	if e := f.audit[len(f.audit)-1]; e.Verb != "verify" || e.Outcome != site.AuditDone {
		t.Errorf("the audit log has %+v", e)
	}
	for who, want := range map[string]int{"ana": 3, "carol": 1} { // carol has rack r1
		got, answer := o.ask(person(who), http.MethodGet, path, "", "")
		var v site.Verification
		if err := json.Unmarshal([]byte(answer), &v); err != nil || got != http.StatusOK || len(v.Checks) != want {
			t.Errorf("%s gets %d %s (%v), want %d checks", who, got, answer, err, want)
		}
	}
}
