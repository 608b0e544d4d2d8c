package control

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

// byHand says which verb each route needs, and for what: "whole" for the site, "node" for the node that
// is asked about, "some" for anything, "known" for no verb. An order is for what its body names. The table
// knows nothing of how that is decided.
const byHand = `
GET  /openapi.json                          -          known
GET  /whoami                                -          known
GET  /sites                                 -          known
GET  /sites/{site}/report                   read       whole
GET  /sites/{site}/status                   read       whole
GET  /sites/{site}/overview                 read       whole
GET  /sites/{site}/access                   read       whole
GET  /sites/{site}/plan                     read       whole
GET  /sites/{site}/findings                 read       whole
GET  /sites/{site}/rollout                  read       whole
GET  /sites/{site}/rollout/chart            read       whole
GET  /sites/{site}/proposals                read       whole
GET  /sites/{site}/proposals/{number}       read       whole
GET  /sites/{site}/commits                  read       whole
GET  /sites/{site}/commits/{commit}         read       whole
GET  /sites/{site}/design                   read       whole
GET  /sites/{site}/history                  read       whole
GET  /sites/{site}/verification             read       some
GET  /sites/{site}/racks                    read       some
GET  /sites/{site}/links                    read       some
GET  /sites/{site}/events                   read       some
GET  /sites/{site}/nodes                    read       some
GET  /sites/{site}/known                    records    whole
GET  /sites/{site}/audit                    audit      whole
GET  /sites/{site}/nodes/{node}             read       node
GET  /sites/{site}/nodes/{node}/design      read       node
GET  /sites/{site}/nodes/{node}/allowed     read       node
GET  /sites/{site}/nodes/{node}/inventory   read       node
GET  /sites/{site}/nodes/{node}/history     read       node
GET  /sites/{site}/nodes/{node}/timeline    read       node
GET  /sites/{site}/approvals                read       whole
GET  /sites/{site}/incidents                read       whole
GET  /sites/{site}/nodes/{node}/records     records    node
GET  /sites/{site}/nodes/{node}/console     logs       node
GET  /sites/{site}/nodes/{node}/agent-log   logs       node
GET  /sites/{site}/nodes/{node}/machine-log logs       node
GET  /sites/{site}/nodes/{node}/file        files      node
POST /sites/{site}/nodes/{node}/ssh         ssh        node
POST /sites/{site}/approve                  approve    order
POST /sites/{site}/disapprove               disapprove order
POST /sites/{site}/pause                    pause      order
POST /sites/{site}/resume                   resume     order
POST /sites/{site}/retry                    retry      order
POST /sites/{site}/verification             verify     order
POST /sites/{site}/quarantine               quarantine order
POST /sites/{site}/release                  release    order
POST /sites/{site}/incident                 incident   order
POST /sites/{site}/grant                    grant      whole
POST /sites/{site}/take-over                take-over  whole
POST /state                                 export     whole
GET  /artifacts                             read       whole
PUT  /artifacts                             artifacts  whole
POST /artifacts/fetch                       artifacts  whole
POST /artifacts/verify                      artifacts  whole
POST /artifacts/collect                     artifacts  whole
`

// notForPrograms are the verbs that no token may use, whoever gives them.
const notForPrograms = "approve release incident ssh grant take-over export"

// source is where a right comes from, and whether it counts then.
type source struct {
	name   string
	counts bool
}

var sources = []source{
	{"host", true},       // a line of the access file
	{"design", true},     // merged and approved
	{"merged", false},    // merged, not approved
	{"withdrawn", false}, // approved, not in the design any more
}

// everybody makes a holder of each verb, by each source, for the whole site and for n1 alone. The name of
// each says what it has. Tokens have it too, but not from the access file, which refuses some.
func everybody() (file string, approved, inForce site.Access, names []string) {
	var lines, people []string
	approved = site.Access{Roles: map[string]site.AccessRole{}, People: map[string][]string{}, Tokens: map[string][]string{}, Groups: map[string][]string{}}
	inForce = site.Access{Roles: map[string]site.AccessRole{}, People: map[string][]string{}, Tokens: map[string][]string{}, Groups: map[string][]string{}}
	for _, m := range access.Verbs {
		v := string(m.Verb)
		lines = append(lines, "role "+v+": "+v)
		for _, a := range []site.Access{approved, inForce} {
			a.Roles[v+"-whole"] = site.AccessRole{Verbs: []string{v}}
			a.Roles[v+"-one"] = site.AccessRole{Verbs: []string{v}, Nodes: &site.Selector{Match: site.Match{Names: []string{"n1"}}}}
		}
		for _, s := range sources {
			for _, bound := range []string{"whole", "one"} {
				name, role := s.name+"."+v+"."+bound, v+"-"+bound
				token := strings.ReplaceAll(name, ".", "-")
				names = append(names, name)
				if s.name == "host" {
					people = append(people, "person "+name+": "+v+map[string]string{"one": " rack=r1"}[bound])
					if !slices.Contains(strings.Fields(notForPrograms), v) {
						people = append(people, "token "+token+": "+v+map[string]string{"one": " rack=r1"}[bound])
					}
				}
				for _, a := range map[string][]site.Access{"design": {approved, inForce}, "merged": {inForce}, "withdrawn": {approved}}[s.name] {
					a.People[name], a.Tokens[token], a.Groups["g."+name] = []string{role}, []string{role}, []string{role}
				}
			}
		}
	}
	return strings.Join(append(lines, people...), "\n") + "\n", approved, inForce, names
}

// means are the ways to be known, with whether a program asks.
var means = map[string]struct {
	program bool
	caller  func(name string) access.Caller
}{
	"certificate": {false, func(n string) access.Caller { return access.Caller{Kind: access.Person, Name: n} }},
	"oidc": {false, func(n string) access.Caller {
		return access.Caller{Kind: access.OIDC, Name: "someone", Issuer: "https://id.example.org", Groups: []string{"x", "g." + n}}
	}},
	"token": {true, func(n string) access.Caller {
		return access.Caller{Kind: access.Token, Name: strings.ReplaceAll(n, ".", "-")}
	}},
}

// may is the oracle: what the table says of a request by somebody whose name says what they have.
func may(need [2]string, node, holder, means string, counts, forDesign bool) bool {
	has := strings.Split(holder, ".") // source, verb, bound
	switch {
	case need[1] == "known":
		return true
	case !counts, has[1] != need[0]:
		return false
	case has[0] != "host" && !forDesign:
		return false
	case means == "oidc" && has[0] == "host": // a line for a person is not one for a group
		return false
	case means == "token" && slices.Contains(strings.Fields(notForPrograms), need[0]):
		return false
	}
	return has[2] == "whole" || need[1] == "some" || need[1] != "whole" && node == "n1"
}

// Each verb by each source, bound and means of login is tried against each route.
func TestWhoMayDoWhatByTheDesign(t *testing.T) {
	table := map[string][2]string{}
	for _, line := range strings.Split(strings.TrimSpace(byHand), "\n") {
		f := strings.Fields(line)
		table[f[0]+" "+f[1]] = [2]string{f[2], f[3]}
	}
	if len(table) != len(routes()) {
		t.Fatalf("the table has %d routes and the API %d", len(table), len(routes()))
	}
	file, approved, inForce, names := everybody()
	nodes := map[string]*site.Node{"n1": {Name: "n1", Rack: "r1"}, "n2": {Name: "n2", Rack: "r2"}}
	f := &fake{approved: site.GrantedState{Granted: (&site.Site{Access: approved, Nodes: nodes}).Granted()}, inForce: (&site.Site{Access: inForce, Nodes: nodes}).Granted()}
	tried, let := 0, 0
	for line, granted := range map[string]string{"": "", "design: true grant": "all", "design: true grant site=paris": "", "design: read pause approve": "read pause approve"} {
		conf := &access.File{Path: filepath.Join(t.TempDir(), "access.conf"), Owner: owner()}
		put(t, conf.Path, file+line+"\n")
		if _, err := conf.Policy(); err != nil {
			t.Fatal(err)
		}
		mux := newAPI(f, conf, Limits{}, 0, slog.New(slog.DiscardHandler)).mux()
		for how, m := range means {
			for _, name := range names {
				of := sources[slices.IndexFunc(sources, func(s source) bool { return strings.HasPrefix(name, s.name+".") })]
				for _, a := range everyRequest() {
					need, known := table[a.route.method+" "+a.route.path]
					if !known {
						t.Fatalf("the table lacks %s %s", a.route.method, a.route.path)
					}
					if has := strings.Split(name, ".")[1]; has != need[0] && (a.node == "n2" || need[1] == "known" || !of.counts || granted != "all") {
						continue // of another verb this is enough
					}
					forDesign := granted == "all" || slices.Contains(strings.Fields(granted), need[0])
					want := may(need, a.node, name, how, of.counts, forDesign)
					status, answer := handled(mux, m.caller(name), a)
					tried++
					if want {
						let++
					}
					if (status != 403) != want {
						t.Errorf("%q: %s by %s: %s %s %s: %d %.300s, want it let: %v", line, name, how, a.route.method, a.path, a.body, status, answer, want)
					}
				}
				if t.Failed() {
					t.FailNow()
				}
			}
		}
	}
	t.Logf("%d tried, %d of them let", tried, let)
}

// handled is the answer to a request of a caller that was identified.
func handled(h http.Handler, c access.Caller, a asked) (status int, text string) {
	r := httptest.NewRequest(a.route.method, a.path, strings.NewReader(a.body))
	if a.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	func() {
		defer func() { recover() }() // an answer that is cut off
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	}()
	return w.Code, w.Body.String()
}

func rackOf(verbs ...string) site.Access {
	return site.Access{Roles: map[string]site.AccessRole{"oncall": {Verbs: verbs, Nodes: &site.Selector{Match: site.Match{Names: []string{"n1"}}}}}, People: map[string][]string{"bob": {"oncall"}}}
}

// A file that is broken denies what the design grants, too, and the socket works on.
func TestBrokenFileDeniesTheDesign(t *testing.T) {
	g := (&site.Site{Access: rackOf("read"), Nodes: map[string]*site.Node{"n1": {Name: "n1"}}}).Granted()
	f := &fake{approved: site.GrantedState{Granted: g}, inForce: g}
	conf := &access.File{Path: filepath.Join(t.TempDir(), "access.conf"), Owner: owner()}
	mux := newAPI(f, conf, Limits{}, 0, slog.New(slog.DiscardHandler)).mux()
	socket := newAPI(f, nil, Limits{}, 0, slog.New(slog.DiscardHandler)).mux()
	a := asked{route: route{method: http.MethodGet}, path: "/api/v1/sites/berlin/nodes/n1"}
	bob, root := access.Caller{Kind: access.Person, Name: "bob"}, access.Caller{Kind: access.User, Name: "root"}
	for _, x := range []struct {
		text string
		let  bool
	}{{"design: true\n", true}, {"design: true\nrole: x\n", false}, {"design: true\n", true}, {"", false}} {
		put(t, conf.Path, x.text)
		if status, answer := handled(mux, bob, a); (status != 403) != x.let {
			t.Errorf("%q: %d %s", x.text, status, answer)
		}
		if status, answer := handled(socket, root, a); status == 403 {
			t.Errorf("%q: root on the socket: %d %s", x.text, status, answer)
		}
	}
}

// What a caller may do with one node is told for that node, and a list has the nodes that it may read.
func TestAllowedOnANode(t *testing.T) {
	a := rackOf("pause", "approve")
	a.Roles["viewer"] = site.AccessRole{Verbs: []string{"read"}}
	a.People["bob"] = []string{"oncall", "viewer"}
	g := (&site.Site{Access: a, Nodes: map[string]*site.Node{"n1": {Name: "n1"}, "n2": {Name: "n2"}}}).Granted()
	conf := &access.File{Path: filepath.Join(t.TempDir(), "access.conf"), Owner: owner()}
	put(t, conf.Path, "design: true\n")
	mux := newAPI(&fake{approved: site.GrantedState{Granted: g}, inForce: g}, conf, Limits{}, 0, slog.New(slog.DiscardHandler)).mux()
	for node, want := range map[string]string{"n1": `["read","pause","approve"]`, "n2": `["read"]`} {
		status, answer := handled(mux, access.Caller{Kind: access.Person, Name: "bob"}, asked{route: route{method: http.MethodGet}, path: "/api/v1/sites/berlin/nodes/" + node + "/allowed"})
		if status != 200 || answer != want {
			t.Errorf("%s: %d %s", node, status, answer)
		}
	}
	_, answer := handled(mux, access.Caller{Kind: access.Person, Name: "bob"}, asked{route: route{method: http.MethodGet}, path: "/api/v1/whoami"})
	var is Identity
	if err := json.Unmarshal([]byte(answer), &is); err != nil || fmt.Sprint(is.Verbs["berlin"]) != "[read pause approve]" || fmt.Sprint(is.Whole["berlin"]) != "[read]" {
		t.Errorf("%s", answer)
	}
}

// A change waits with its digest, and an order names the digest.
func TestAccessWaits(t *testing.T) {
	f := &fake{inForce: (&site.Site{Access: rackOf("pause"), Nodes: map[string]*site.Node{"n1": {Name: "n1"}}}).Granted()}
	socket := newAPI(f, nil, Limits{}, 0, slog.New(slog.DiscardHandler)).mux()
	root := access.Caller{Kind: access.User, Name: "root"}
	_, answer := handled(socket, root, asked{route: route{method: http.MethodGet}, path: "/api/v1/sites/berlin/access"})
	var r site.AccessReport
	if err := json.Unmarshal([]byte(answer), &r); err != nil || r.Waiting != f.inForce.Digest() || fmt.Sprint(r.Changes) != "[bob may now pause on 1 node: n1]" {
		t.Errorf("%s", answer)
	}
	for body, want := range map[string]int{`{}`: 400, `{"digest":"x"}`: 400, `{"all":true}`: 400, `{"digest":"` + r.Waiting + `"}`: 200} {
		if status, answer := handled(socket, root, asked{route: route{method: http.MethodPost}, path: "/api/v1/sites/berlin/grant", body: body}); status != want {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if n := len(f.orders); n != 1 || f.orders[0].Verb != site.VerbGrant || f.orders[0].By != "root" || f.orders[0].Digest != r.Waiting {
		t.Errorf("orders %+v", f.orders)
	}
}

// A stream ends soon after a commit has taken the role away.
func TestStreamEndsWithTheRole(t *testing.T) {
	conf := &access.File{Path: filepath.Join(t.TempDir(), "access.conf"), Owner: owner()}
	put(t, conf.Path, "design: read\n")
	g := (&site.Site{Access: rackOf("read"), Nodes: map[string]*site.Node{"n1": {Name: "n1"}}}).Granted()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{approved: site.GrantedState{Granted: g}, inForce: g}
		f.add(site.Event{Node: "n1", Text: "first"})
		w := &reluctant{header: http.Header{}, then: func(writes int) {
			if writes == 3 {
				f.mu.Lock()
				f.inForce = site.Granted{}
				f.mu.Unlock()
			}
		}}
		mux := newAPI(f, conf, Limits{}, 0, slog.New(slog.DiscardHandler)).mux()
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), callerKey{}, access.Caller{Kind: access.Person, Name: "bob"}), http.MethodGet, eventsPath, nil)
		r.Header.Set("Accept", "text/event-stream")
		begun := time.Now()
		mux.ServeHTTP(w, r)
		if w.writes < 3 || w.writes > 5 || time.Since(begun) > 2*time.Minute {
			t.Errorf("%d writes in %v", w.writes, time.Since(begun))
		}
		time.Sleep(2 * lookEvery) // nobody follows any more
	})
}

// Who has a role that waits is told so at the login, and not to ask for a line of the access file, which gives more.
func TestLoginSaysWhatWaits(t *testing.T) {
	conf := &access.File{Path: filepath.Join(t.TempDir(), "access.conf"), Owner: owner()}
	g := (&site.Site{Access: rackOf("read"), Nodes: map[string]*site.Node{"n1": {Name: "n1"}}}).Granted()
	f := &fake{inForce: g}
	a := newAPI(f, conf, Limits{}, 0, slog.New(slog.DiscardHandler))
	bob, eve := access.Caller{Kind: access.OIDC, Name: "bob"}, access.Caller{Kind: access.OIDC, Name: "eve"}
	const waits, none = "the design of site berlin has a role for bob", `ask for a line "person `
	for _, x := range []struct {
		lines string
		c     access.Caller
		want  string
	}{{"design: read\n", bob, waits}, {"design: read\n", eve, none + "eve: ROLE"}, {"role x: read\n", bob, none + "bob: ROLE"}} {
		put(t, conf.Path, x.lines)
		if err := a.admit(x.c); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: %s: %v", x.lines, x.c, err)
		}
	}
	put(t, conf.Path, "design: read\n")
	f.approved.Granted = g
	if err := a.admit(bob); err != nil {
		t.Error(err)
	}
}
