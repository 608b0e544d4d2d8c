package github_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/tests/github"
)

const secret = "It's a Secret to Everybody"

// The example of GitHub's documentation ("Validating webhook deliveries").
func TestSign(t *testing.T) {
	want(t, "the signature", github.Sign(secret, []byte("Hello, World!")), "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
}

// receiver is a well known client's reading of webhooks.
type receiver struct {
	url string
	mu  sync.Mutex
	got []string // delivery, event
}

func receive(t *testing.T) *receiver {
	r := &receiver{}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := client.ValidatePayload(q, []byte(secret))
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	event, err := client.ParseWebHook(client.WebHookType(q), body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, fmt.Sprintf("%s %T", client.DeliveryID(q), event))
}

func (r *receiver) kinds() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.got {
		_, kind, _ := strings.Cut(g, " *github.")
		all = append(all, kind)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestEveryWebhook(t *testing.T) {
	w := start(t)
	r := receive(t)
	w.repo.Hook(r.url, secret)
	sendEverything(w)
	w.Settle()
	want(t, "the kinds", strings.Join(r.kinds(), " "), "CheckRunEvent IssueCommentEvent PingEvent PullRequestEvent PushEvent")
}

// sendEverything has the double send every kind of webhook.
func sendEverything(w *world) []*github.Delivery {
	h := w.repo.Hook("http://127.0.0.1:1/", secret)
	h.Hold()
	p := w.propose("feature")
	fork := w.repo.Fork("eve")
	fork.Push("eve", "theirs", "mine", github.Files{"e.cue": "e: 1\n"})
	w.repo.Open(github.Proposal{Author: "eve", From: fork, Head: "theirs", Title: "Please"})
	p.SetDraft("ada", true)
	p.SetDraft("ada", false)
	p.Retitle("ada", "Better")
	w.repo.Push("ada", "next", "next", github.Files{"n.cue": "n: 1\n"})
	p.Retarget("ada", "next")
	p.Close("ada")
	p.Reopen("ada")
	m := p.Comment("ada", "/slipway plan")
	m.Edit("ada", "/slipway approve x")
	m.Delete("ada")
	_, in := w.app()
	o := client.CreateCheckRunOptions{Name: "n", HeadSHA: p.HeadID(), Conclusion: client.String("success")}
	good(w.as(in.Token()).Checks.CreateCheckRun(ctx, "acme", "site", o))(w.t)
	k := w.repo.Checks(p.HeadID())[0]
	k.Rerun("ada")
	k.Request("ada", "replan")
	p.Merge("ada")
	w.repo.DeleteBranch("ada", "feature")
	return h.Deliveries()
}

func TestDeliveriesByHand(t *testing.T) {
	w := start(t)
	r := receive(t)
	h := w.repo.Hook(r.url, secret, "ping", "pull_request")
	w.Settle()
	h.Hold()
	p := w.propose("feature")
	p.Close("ada")
	all := h.Deliveries()[1:]
	want(t, "what is held", all[0].Event()+" "+all[1].Event(), "pull_request.opened pull_request.closed")
	want(t, "what came", len(r.got), 1)
	w.Pass(time.Hour)
	want(t, "late and out of order", all[1].Send(), 200)
	want(t, "the first after the second", all[0].Send(), 200)
	want(t, "again", all[0].Send(), 200)
	want(t, "forged", all[0].Send(github.Forge(all[0], "another")), 403)
	want(t, "tampered with", all[0].Send(github.Replace("{}", "another")), 403)
	want(t, "unparsable", all[0].Send(github.Replace("{", secret)), 400)
	want(t, "unsigned", all[0].Send(func(q *http.Request) { q.Header.Del("X-Hub-Signature-256") }), 403)
	want(t, "the same delivery", r.got[2], r.got[3])
}

func TestMissedDeliveries(t *testing.T) {
	w := start(t)
	r := receive(t)
	a, in := w.app()
	h := a.Hook(r.url, secret, "pull_request")
	h.Hold()
	p := w.propose("feature")
	for range 3 {
		p.SetDraft("ada", true)
		p.SetDraft("ada", false)
	}
	for _, d := range h.Deliveries() {
		d.Lose()
	}
	h.Release()
	c := w.as(assertion(t, a, w.Now().Add(-time.Minute), w.Now().Add(9*time.Minute)))
	seen := 0
	o := &client.ListCursorOptions{PerPage: 5}
	for {
		some, resp, err := c.Apps.ListHookDeliveries(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range some {
			seen++
			want(t, "status", d.GetStatusCode(), 502)
			want(t, "installation", d.GetInstallationID(), in.ID())
		}
		if resp.Cursor == "" {
			break
		}
		o.Cursor = resp.Cursor
	}
	want(t, "deliveries listed", seen, 7)
	missed := h.Deliveries()[0]
	d := good(c.Apps.ListHookDeliveries(ctx, &client.ListCursorOptions{PerPage: 100}))(t)[6]
	whole := good(c.Apps.GetHookDelivery(ctx, d.GetID()))(t)
	want(t, "what was sent", strings.Contains(string(*whole.Request.RawPayload), "Add feature"), true)
	_, _, err := c.Apps.RedeliverHookDelivery(ctx, d.GetID())
	var accepted *client.AcceptedError
	if err != nil && !errors.As(err, &accepted) {
		t.Fatal(err)
	}
	w.Settle()
	want(t, "the same GUID", strings.HasPrefix(r.got[0], missed.GUID()), true)
	again := good(c.Apps.ListHookDeliveries(ctx, nil))(t)[0]
	want(t, "listed as repeated", again.GetRedelivery(), true)
	w.Pass(72 * time.Hour)
	late := w.as(assertion(t, a, w.Now().Add(-time.Minute), w.Now().Add(9*time.Minute)))
	want(t, "after three days", len(good(late.Apps.ListHookDeliveries(ctx, nil))(t)), 0)
}

func TestDeliveriesOfARepository(t *testing.T) {
	w := start(t)
	h := w.repo.Hook("http://127.0.0.1:1/", secret, "ping")
	w.Settle()
	c := w.as(w.Token("acme", "repo"))
	all := good(c.Repositories.ListHookDeliveries(ctx, "acme", "site", h.ID(), nil))(t)
	want(t, "nobody was there", all[0].GetStatusCode(), 502)
	want(t, "for a writer", status(failure(w.as(w.Token("ada", "repo")).Repositories.ListHookDeliveries(ctx, "acme", "site", h.ID(), nil))), 404)
}

// silent is a receiver that never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestDeliveryTimeout(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := github.New(github.Config{Dir: dir, Webhooks: silent{}})
		began := time.Now()
		h := s.Repository("acme/site").Hook("http://receiver.invalid/", secret)
		s.Settle()
		want(t, "the delivery took", time.Since(began), 10*time.Second)
		want(t, "its status", h.Deliveries()[0].Code(), http.StatusGatewayTimeout)
		s.Close()
	})
}
