package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/site"
)

// described is the description, with which answers are compared strictly: a field that it does not name
// is wrong.
func described(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	no := false
	for _, s := range doc.Components.Schemas {
		if len(s.Value.Properties) > 0 {
			s.Value.AdditionalProperties = openapi3.AdditionalProperties{Has: &no}
		}
	}
	return doc
}

// filled is a daemon whose answers have something in every part that this test can fill.
type filled struct {
	fake
	store *artifact.Service
}

func (f *filled) Artifacts() artifact.Keeper { return f.store }

func (f *filled) Export(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, "records\n")
	return err
}

func (f *filled) Report(string) (site.Report, error) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	loss := site.Loss{Node: "n1", Action: "install"}
	return site.Report{
		Status: site.Status{
			Site: "berlin", Applied: site.Revision{ID: "4f2a51c09d3e", Subject: "add n1", When: now}, Problems: []site.Problem{{About: "source", What: "away", Since: now}},
			Rollout: &site.RolloutStatus{Revision: site.Revision{ID: "4f2a51c09d3e"}, Since: now, Nodes: []string{"n1"}},
			Waiting: site.Losses{loss}, Approve: digestOfAll, Ledger: []site.LedgerEntry{{Loss: loss, Set: digestOfAll, Source: site.ApprovalSource{Kind: site.ByCommand, By: "ana", When: now}, Opened: now, Expires: now}},
			Nodes: []site.NodeStatus{{Name: "n1", State: site.Blocked, Reason: "waits", Since: now, Rack: "r1", Role: "compute", Stale: map[site.Facet]time.Time{site.FacetPower: now},
				Findings: []site.Finding{{Code: "x", Severity: site.SeverityWarning, Message: "m"}}, Paused: &site.Hold{By: "ana", Reason: "r", Since: now, Until: now}}},
		},
		Plan:     site.Plan{Version: site.PlanVersion, Site: "berlin", Nodes: []site.NodePlan{{Node: "n1", Steps: []site.Step{{Node: "n1", Facet: site.FacetPower, Action: site.ActionPowerOff, Changes: []site.Change{{Field: "state", Have: "on", Want: "off"}}}}}}},
		Findings: []site.Finding{{Code: "y", Severity: site.SeverityError, Message: "m", File: "site.cue", Line: 3}},
	}, nil
}

// Every answer of every route is as the description says, also those to hostile requests, and none
// brings the daemon down.
func TestAnswersAreAsDescribed(t *testing.T) {
	store, err := artifact.OpenService(artifact.Config{Dir: t.TempDir(), Space: 10 << 20, Named: func() (map[string]bool, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	f := &filled{store: store}
	f.fake.pulls, f.fake.pull = 9, pulledByAll()
	f.happens("x")
	socket, _ := serving(t, f)
	h := newHeld(t, socket)
	met := map[string]bool{}
	for _, a := range everyRequest() {
		status := h.ask(a.route, a.path, a.body)
		if status == 200 {
			met[a.route.method+a.route.path] = true
		}
	}
	for _, rt := range routes() {
		// A fetch needs a server, and the fake refuses some orders.
		if !met[rt.method+rt.path] && rt.path != "/sites/{site}/approve" && rt.path != "/sites/{site}/retry" && rt.path != "/artifacts/collect" {
			t.Errorf("%s %s was never answered with 200", rt.method, rt.path)
		}
	}
	// What comes out of a schema, and what no schema allows.
	dice := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		rt := routes()[dice.IntN(len(routes()))]
		path := prefix + strings.NewReplacer("{site}", oneOf(dice, "berlin", "-", "paris", hostile(dice)), "{node}", oneOf(dice, "n1", "n2", hostile(dice)), "{number}", oneOf(dice, "7", hostile(dice)), "{commit}", oneOf(dice, commitIDs[1], hostile(dice))).Replace(rt.path)
		if dice.IntN(2) == 0 {
			path += "?" + oneOf(dice, "after", "before", "skip", "limit", "newest", "q", "kind", "with", "range", "key", "unused", "state") + "=" + hostile(dice)
		}
		h.ask(rt, path, hostileBody(dice, rt))
	}
	if h.asked < 1000 {
		t.Errorf("only %d requests could be sent", h.asked)
	}
}

func oneOf(dice *rand.Rand, texts ...string) string { return texts[dice.IntN(len(texts))] }

// hostile is a text that a path or query may have.
func hostile(dice *rand.Rand) string {
	return oneOf(dice, "..", ".", "%2e%2e", "%00", "%0d%0aX-Injected:%201", "n1%2f..%2fn2", "-1", "99999999999999999999", "1e9", strings.Repeat("a", 5000), "%ff%fe", "%e2%80%ae", "n1;x", "0", "1")
}

// hostileBody is a body that is nearly right.
func hostileBody(dice *rand.Rand, rt route) string {
	if rt.method == http.MethodGet {
		return ""
	}
	value := func() string {
		return oneOf(dice, `"n1"`, `"n2"`, `""`, `null`, `true`, `1e999`, `[]`, `{}`, `"\u0000"`, `"\ud800"`, `"`+digestOfAll+`"`, `"`+strings.Repeat("x", 2000)+`"`, `"2026-03-01T00:00:00Z"`, `"../n1"`)
	}
	var fields []string
	for range dice.IntN(5) {
		fields = append(fields, fmt.Sprintf("%q:%s", oneOf(dice, "node", "all", "reason", "digest", "shown", "until", "verb", "by", "Node", "x"), value()))
	}
	return oneOf(dice, "", "{", "[]", "null", strings.Repeat("[", 10000), "{"+strings.Join(fields, ",")+"}", "{"+strings.Join(fields, ",")+"}", "{"+strings.Join(fields, ",")+"}{}")
}

// held asks a daemon and holds its answers against the description.
type held struct {
	t      *testing.T
	doc    *openapi3.T
	client http.Client
	asked  int
}

func newHeld(t *testing.T, socket string) *held {
	h := &held{t: t, doc: described(t), client: http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }}}}
	t.Cleanup(h.client.CloseIdleConnections)
	return h
}

// ask sends a request for a route and gives the status of the answer.
func (h *held) ask(rt route, path, body string) int {
	h.t.Helper()
	req, err := http.NewRequest(rt.method, "http://slipway"+path, strings.NewReader(body))
	if err != nil {
		return 0 // which no client of Go can send
	}
	h.asked++
	if rt.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := h.client.Do(req)
	if err != nil {
		h.t.Errorf("%s %.200s %.200s: %v", rt.method, path, body, err)
		return 0
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Errorf("%s %.200s: %v", rt.method, path, err)
	}
	if resp.StatusCode == http.StatusRequestHeaderFieldsTooLarge {
		return resp.StatusCode // by net/http, in words
	}
	if resp.Header.Get("X-Injected") != "" {
		h.t.Errorf("%s %s: a header was injected", rt.method, path)
	}
	item := h.doc.Paths.Value(prefix + rt.path)
	input := &openapi3filter.RequestValidationInput{Request: req, Route: &routers.Route{Spec: h.doc, Path: prefix + rt.path, PathItem: item, Method: rt.method, Operation: item.GetOperation(rt.method)}}
	if err := openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewReader(text)), Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}); err != nil && resp.Header.Get("Content-Type") != "application/jsonlines" && resp.Header.Get("Content-Type") != "application/octet-stream" {
		h.t.Errorf("%s %.200s %.200s: %d %.300s: %v", rt.method, path, body, resp.StatusCode, text, err)
	}
	if resp.StatusCode >= 400 {
		var fl failure
		if json.Unmarshal(text, &fl) != nil || fl.Text == "" || strings.ContainsAny(fl.Text, "\x00\x1b\r") {
			h.t.Errorf("%s %.200s %.200s: %d %.300q is no error in words", rt.method, path, body, resp.StatusCode, text)
		}
	}
	return resp.StatusCode
}

// The reference is made of the routes.
func TestReference(t *testing.T) {
	got := reference(t)
	page := filepath.Join("..", "..", "docs", "api.md")
	if *update {
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if is, err := os.ReadFile(page); err != nil || string(is) != got {
		t.Errorf("docs/api.md is not of these routes: run go test ./engine/control -run 'OpenAPI|Reference' -update, and read what has changed (%v)", err)
	}
}
