package control

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A page of another site gets nothing and does nothing, whatever it has the browser ask for.
func TestNoRouteServesPagesOfOthers(t *testing.T) {
	f := &fake{}
	o := listening(t, f, nil)
	ana := o.as(o.people.client(t, mail("ana@example.org")))
	for _, a := range everyRequest() {
		for _, from := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example.org"}, {"Origin", "null"}} {
			if status, answer := o.ask(ana, a.route.method, a.path, "", a.body, from...); status != 403 {
				t.Errorf("%s %s with %v: %d %.200s", a.route.method, a.path, from, status, answer)
			}
		}
	}
	if len(f.orders)+len(f.audit) != 0 {
		t.Errorf("orders %v, audit %v", f.orders, f.audit)
	}
	for _, from := range [][]string{{"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}, {"Origin", o.url}} {
		if status, answer := o.ask(ana, http.MethodGet, reportPath, "", "", from...); status != 200 {
			t.Errorf("with %v: %d %.200s", from, status, answer)
		}
	}
}

// crowded is a daemon where a set of many nodes waits, which counts how often it is asked for a report.
type crowded struct {
	fake
	reports int
}

func (f *crowded) Report(string) (site.Report, error) {
	f.reports++
	r := site.Report{Status: site.Status{Approve: digestOfAll}}
	for range 10000 {
		r.Status.Waiting = append(r.Status.Waiting, site.Loss{Node: "n2", Action: "install"})
	}
	return r, nil
}

// Who may not approve at all has nothing computed, and who may not approve a node of a set is told of one.
func TestDeniedSetIsCheap(t *testing.T) {
	f := &crowded{}
	o := listening(t, f, nil)
	body := `{"digest":"` + digestOfAll + `"}`
	for who, reports := range map[string]int{"bob": 0, "carol": 1} {
		f.reports = 0
		status, answer := o.ask(o.as(o.people.client(t, mail(who+"@example.org"))), http.MethodPost, "/api/v1/sites/berlin/approve", "", body)
		if status != 403 || len(answer) > 1000 || f.reports != reports {
			t.Errorf("%s: %d, %d bytes, %d reports", who, status, len(answer), f.reports)
		}
	}
	for _, e := range f.audit {
		if len(e.Text) > 1000 {
			t.Errorf("an entry has %d bytes", len(e.Text))
		}
	}
}

// With a full disk a user of the host does what is needed, and the network only what repairs.
func TestFullAuditLogDoesNotHinderRepairs(t *testing.T) {
	f := &filled{fake: fake{full: true}}
	sock, _ := serving(t, f)
	var copied bytes.Buffer
	if err := Dial(sock).Export(t.Context(), &copied); err != nil || copied.String() != "records\n" {
		t.Errorf("export: %q, %v", copied.String(), err)
	}
	if _, err := Dial(sock).Do(t.Context(), "berlin", site.Order{Verb: site.VerbQuarantine, Node: "n1", Reason: "smoke"}); err != nil {
		t.Errorf("quarantine on the host: %v", err)
	}
	o := listening(t, f, nil)
	ana := o.as(o.people.client(t, mail("ana@example.org")))
	if status, answer := o.ask(ana, http.MethodPost, "/api/v1/state", "", ""); status != 200 || answer != "records\n" {
		t.Errorf("export over the network: %d %s", status, answer)
	}
	before := len(f.orders)
	if status, answer := o.ask(ana, http.MethodPost, "/api/v1/sites/berlin/quarantine", "", `{"node":"n1","reason":"r"}`); status != 500 || !strings.Contains(answer, "nothing was done, because the audit log") || len(f.orders) != before {
		t.Errorf("quarantine over the network: %d %s", status, answer)
	}
}

// An order that cannot be understood, of somebody who may give such orders, is refused and not denied.
func TestTypoIsNotDenied(t *testing.T) {
	f := &fake{}
	o := listening(t, f, nil)
	ana := o.as(o.people.client(t, mail("ana@example.org")))
	if status, _ := o.ask(ana, http.MethodPost, "/api/v1/sites/berlin/pause", "", `{"nod":"n1"}`); status != 400 {
		t.Errorf("status %d", status)
	}
	if len(f.audit) != 1 || f.audit[0].Outcome != site.AuditRefused {
		t.Errorf("audit: %+v", f.audit)
	}
}

// A rack's person takes nothing back by a digest, which may reach further than is known.
func TestDisapproveByDigestNeedsTheSite(t *testing.T) {
	o := listening(t, &fake{}, nil)
	carol := o.as(o.people.client(t, mail("carol@example.org")))
	if status, answer := o.ask(carol, http.MethodPost, "/api/v1/sites/berlin/disapprove", "", `{"digest":"`+digestOfAll+`"}`); status != 403 {
		t.Errorf("by digest: %d %s", status, answer)
	}
	if status, answer := o.ask(carol, http.MethodPost, "/api/v1/sites/berlin/disapprove", "", `{"node":"n1"}`); status != 200 {
		t.Errorf("by node: %d %s", status, answer)
	}
}

// A caller that does not read has a share of what is being sent, and the same bytes count once.
func TestAnswersHaveShares(t *testing.T) {
	l := newLimits(Limits{AnswerBytes: 400})
	slow, other := access.Caller{Kind: access.Token, Name: "slow"}, access.Caller{Kind: access.Person, Name: "ana"}
	body := func() []byte { return make([]byte, 90) }
	sent, err := l.send(slow, body())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.send(slow, body()); err == nil {
		t.Error("a caller has more than its share")
	}
	shared := body()
	for n := range 8 {
		if _, err := l.send(access.Caller{Kind: access.Person, Name: strings.Repeat("x", n+1)}, shared); err != nil {
			t.Errorf("shared bytes, reader %d: %v", n, err)
		}
	}
	if l.bytes != 180 {
		t.Errorf("%d bytes are counted", l.bytes)
	}
	sent()
	if _, err := l.send(slow, body()); err != nil || l.bytes != 180 {
		t.Errorf("after it has read: %v, %d bytes", err, l.bytes)
	}
	if _, err := l.send(other, make([]byte, 300)); err == nil {
		t.Error("all answers are more than may be")
	}
}

func TestLimitIsAtLeastOne(t *testing.T) {
	o := listening(t, &fake{}, nil)
	ana := o.as(o.people.client(t, mail("ana@example.org")))
	for _, path := range []string{"nodes", "events", "audit"} {
		if status, answer := o.ask(ana, http.MethodGet, "/api/v1/sites/berlin/"+path+"?limit=0", "", ""); status != 400 || !strings.Contains(answer, "from 1 to 1000") {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
}

// A panic in a computation that many share is an error of theirs.
func TestPanicOfAComputationIsAnError(t *testing.T) {
	var s shared[int]
	if _, err := s.get(t.Context(), "x", func() (int, error) { panic("ouch") }); err == nil || !strings.Contains(err.Error(), "ouch") {
		t.Errorf("got %v", err)
	}
	if got, err := s.get(t.Context(), "x", func() (int, error) { return 7, nil }); err != nil || got.value != 7 {
		t.Errorf("then %v, %v", got, err)
	}
}
