package control

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
)

// personsAlone are the verbs that no token may use, told here once more: a mistake in one place is
// found by the other.
var personsAlone = []access.Verb{"approve", "release", "take-over", "export", "ssh", "incident", "grant"}

// bodies are what each order takes, for a node and for the whole site.
var bodies = map[string][2]string{
	"approve":    {`{"node":"NODE","shown":"` + digestOfAll + `"}`, `{"digest":"` + digestOfAll + `"}`},
	"disapprove": {`{"node":"NODE"}`, `{"digest":"` + digestOfAll + `"}`},
	"pause":      {`{"node":"NODE","reason":"r"}`, `{"all":true,"reason":"r"}`},
	"resume":     {`{"node":"NODE"}`, `{"all":true}`},
	"verify":     {`{"nodes":["NODE"]}`, `{"all":true}`},
	"retry":      {`{"node":"NODE"}`, `{"all":true}`},
	"quarantine": {`{"node":"NODE","reason":"r"}`, `{"all":true,"reason":"r"}`},
	"release":    {`{"node":"NODE"}`, `{"all":true}`},
	"incident":   {`{"incident":"i","nodes":["NODE"],"since":"2026-01-01T00:00:00Z","reason":"r"}`, `{"confirm":"` + digestOfAll + `"}`},
	"grant":      {`{"digest":"` + digestOfAll + `"}`, `{"digest":"` + digestOfAll + `"}`},
	"take-over":  {`{"reason":"r"}`, `{"reason":"r"}`},
}

// asked is one request of the matrix: for a node, or for the site as a whole with "".
type asked struct {
	route      route
	node       string
	path, body string
}

// everyRequest is each route for n1, which is in rack r1, for n2, which is in another, and for the site.
func everyRequest() (all []asked) {
	for _, rt := range routes() {
		for _, node := range []string{"", "n1", "n2"} {
			onNode := rt.scope == ofNode || rt.scope == ofOrder && rt.verb != "take-over" && rt.verb != "grant"
			if node != "" && !onNode || node == "" && rt.scope == ofNode {
				continue
			}
			a := asked{route: rt, node: node, path: prefix + strings.NewReplacer("{site}", "berlin", "{node}", node, "{number}", "7", "{commit}", commitIDs[0]).Replace(rt.path)}
			if rt.scope == ofOrder {
				a.body = bodies[string(rt.verb)][1]
				if node != "" {
					a.body = strings.Replace(bodies[string(rt.verb)][0], "NODE", node, 1)
				}
			}
			if rt.verb == access.SSH {
				a.body = `{"account":"root","key":"ssh-ed25519 AAAA","life":"5m"}`
			}
			all = append(all, a)
		}
	}
	return all
}

// expected says what somebody gets who has all verbs within bounds: of the whole site, of rack r1, of
// nothing. It knows nothing of how that is decided.
func expected(a asked, verbs []string, bound string, program bool) int {
	switch {
	case a.route.scope == ofCaller:
		return 200
	case program && slices.Contains(personsAlone, a.route.verb), !slices.Contains(verbs, string(a.route.verb)), bound == "nothing":
		return 403
	case bound == "r1" && a.route.scope == ofSome, bound == "r1" && a.node == "n1", bound == "site":
		return 200
	}
	return 403
}

func TestWhoMayDoWhat(t *testing.T) {
	f := &fake{}
	o := listening(t, f, nil)
	everything := strings.Fields("read records logs files audit artifacts export approve disapprove take-over pause resume retry verify quarantine release ssh")
	ofPrograms := strings.Fields("read records logs files audit artifacts disapprove pause resume retry verify quarantine")
	now := time.Now()
	person := func(name string) *http.Client { return o.as(o.people.client(t, mail(name+"@example.org"))) }
	for who, x := range map[string]struct {
		client  *http.Client
		token   string
		verbs   []string
		bound   string
		program bool
		unknown bool
	}{
		"nobody":                  {client: o.as(nil), unknown: true},
		"an expired token":        {client: o.as(nil), token: o.token("old", now.Add(-time.Hour), time.Minute), unknown: true},
		"a token":                 {client: o.as(nil), token: o.token("ci", now, time.Hour), verbs: ofPrograms, bound: "site", program: true},
		"a token that may read":   {client: o.as(nil), token: o.token("grafana", now, time.Hour), verbs: []string{"read"}, bound: "site", program: true},
		"a token without a line":  {client: o.as(nil), token: o.token("stray", now, time.Hour), bound: "nothing", program: true},
		"a person":                {client: person("ana"), verbs: everything, bound: "site"},
		"a person who may read":   {client: person("bob"), verbs: []string{"read"}, bound: "site"},
		"a person of a rack":      {client: person("carol"), verbs: everything, bound: "r1"},
		"a person of another":     {client: person("eve"), verbs: everything, bound: "nothing"},
		"a person without a line": {client: person("zoe"), bound: "nothing"},
	} {
		t.Run(who, func(t *testing.T) {
			for _, a := range everyRequest() {
				before := len(f.orders)
				got, answer := o.ask(x.client, a.route.method, a.path, x.token, a.body)
				want := expected(a, x.verbs, x.bound, x.program)
				if x.unknown {
					want = 401
				}
				isLet := got != 401 && got != 403 // what comes of it then is for the daemon to say
				if isLet != (want == 200) || !isLet && got != want {
					t.Errorf("%s %s %s: %d %.200s, want %d", a.route.method, a.path, a.body, got, answer, want)
				}
				if !isLet && len(f.orders) != before {
					t.Errorf("%s %s %s was refused and carried out", a.route.method, a.path, a.body)
				}
			}
		})
	}
}

// The peer of the socket may do everything, as before there were roles.
func TestPeersMayDoEverything(t *testing.T) {
	socket, _ := serving(t, &fake{})
	client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }}}
	defer client.CloseIdleConnections()
	for _, a := range everyRequest() {
		req, err := http.NewRequest(a.route.method, "http://slipway"+a.path, strings.NewReader(a.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode == 401 || resp.StatusCode == 403 {
			t.Errorf("%s %s: %d %s", a.route.method, a.path, resp.StatusCode, text)
		}
	}
}

// Every verb of the access file is the verb of some route, and every route but those about the caller
// has one.
func TestEveryVerbHasARoute(t *testing.T) {
	used := map[access.Verb]bool{}
	for _, rt := range routes() {
		used[rt.verb] = true
		m, known := meaningOf(rt.verb)
		if (rt.scope == ofCaller) != (rt.verb == "") || rt.verb != "" && !known {
			t.Errorf("%s has the verb %q", rt.path, rt.verb)
		}
		if known && m.ForPersons != slices.Contains(personsAlone, rt.verb) {
			t.Errorf("%s is for persons only: %v", rt.verb, m.ForPersons)
		}
		if rt.method != http.MethodGet && !rt.acts {
			t.Errorf("%s %s is not in the audit log", rt.method, rt.path)
		}
	}
	for _, m := range access.Verbs {
		if !used[m.Verb] {
			t.Errorf("no route needs the verb %s", m.Verb)
		}
	}
}

// A set by its digest is approved only by who may approve all of its nodes, and a set that is not the
// one that waits only by who may approve everything.
func TestApprovalOfASet(t *testing.T) {
	f := &fake{}
	o := listening(t, f, nil)
	put(t, o.network.Access.Path, "role a: approve\nperson one@example.org: a rack=r1\nperson both@example.org: a rack=r1,r2\nperson all@example.org: a\n")
	f.waits("n1", "n2")
	for _, x := range []struct {
		who, digest string
		let         bool
	}{
		{"one", digestOfAll, false}, {"both", digestOfAll, true}, {"all", digestOfAll, true},
		{"both", strings.Repeat("f", 32), false}, {"all", strings.Repeat("f", 32), true},
	} {
		got, answer := o.ask(o.as(o.people.client(t, mail(x.who+"@example.org"))), http.MethodPost, "/api/v1/sites/berlin/approve", "", fmt.Sprintf(`{"digest":%q}`, x.digest))
		if (got != 403) != x.let {
			t.Errorf("%s approves %s: %d %s", x.who, x.digest, got, answer)
		}
	}
	for _, body := range []string{`{"node":"n1"}`, `{"node":"n1","shown":"yes"}`, `{}`, `{"all":true}`, `{"digest":""}`, `{"node":"n1","digest":"` + digestOfAll + `","shown":"` + digestOfAll + `"}`} {
		if got, answer := o.ask(o.as(o.people.client(t, mail("all@example.org"))), http.MethodPost, "/api/v1/sites/berlin/approve", "", body); got != 400 {
			t.Errorf("%s: %d %s", body, got, answer)
		}
	}
}
