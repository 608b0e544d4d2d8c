package github_test

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	client "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/tests/github"
)

func TestPrimaryLimit(t *testing.T) {
	w := start(t)
	token := w.Token("ada", "repo")
	c := w.as(token)
	_, resp, err := c.Repositories.Get(ctx, "acme", "site")
	if err != nil {
		t.Fatal(err)
	}
	want(t, "the limit", resp.Rate.Limit, 5_000)
	want(t, "what remains", resp.Rate.Remaining, 4_999)

	w.Spend(token, 4_999)
	_, _, err = c.Repositories.Get(ctx, "acme", "site")
	var limit *client.RateLimitError
	if !errors.As(err, &limit) {
		t.Fatalf("got %v, want a rate limit error", err)
	}
	want(t, "when it is refused", limit.Response.StatusCode, http.StatusForbidden)
	other := w.as(w.Token("ada", "repo"))
	want(t, "with another token of the user", status(failure(other.Repositories.Get(ctx, "acme", "site"))), 403)
	rate := good(w.as(token).RateLimit.Get(ctx))(t)
	want(t, "asking for the limit is free", rate.Core.Remaining, 0)

	w.Pass(time.Hour)
	want(t, "an hour later", status(failure(w.as(token).Repositories.Get(ctx, "acme", "site"))), 200)
}

func TestPrimaryLimitOfAnInstallation(t *testing.T) {
	w := start(t)
	a := w.App("wide", github.Permissions{"contents": "read"})
	in := a.Install("acme")
	_, resp, err := w.as(in.Token()).Repositories.Get(ctx, "acme", "site")
	want(t, "with one repository", resp.Rate.Limit, 5_000)
	want(t, "the error", err, nil)
	for i := range 25 {
		w.Repository("acme/" + string(rune('a'+i)))
	}
	_, resp, err = w.as(in.Token()).Repositories.Get(ctx, "acme", "site")
	want(t, "with 26 repositories", resp.Rate.Limit, 5_300)
	want(t, "the error", err, nil)
}

func TestConditionalRequestsAreFree(t *testing.T) {
	w := start(t)
	token := w.Token("ada", "repo")
	get := func(tag string) *http.Response {
		r, err := http.NewRequest("GET", w.API()+"repos/acme/site/pulls", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("If-None-Match", tag)
		resp, err := w.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	first := get("")
	second := get(first.Header.Get("ETag"))
	want(t, "unchanged", second.StatusCode, http.StatusNotModified)
	want(t, "used after both", second.Header.Get("X-RateLimit-Used"), "1")
	w.propose("feature")
	third := get(first.Header.Get("ETag"))
	want(t, "changed", third.StatusCode, http.StatusOK)
	want(t, "used after the third", third.Header.Get("X-RateLimit-Used"), "2")
}

// secondary says whether an error is of a secondary limit, and how long it
// asks to wait.
func secondary(err error) (time.Duration, bool) {
	var abuse *client.AbuseRateLimitError
	if !errors.As(err, &abuse) || abuse.RetryAfter == nil {
		return 0, false
	}
	return *abuse.RetryAfter, true
}

func TestContentLimit(t *testing.T) {
	w := start(t)
	p := w.propose("feature")
	token := w.Token("ada", "repo")
	say := func() error {
		return failure(w.as(token).Issues.CreateComment(ctx, "acme", "site", p.Number(), &client.IssueComment{Body: client.String("hello")}))
	}
	for i := range 80 {
		if err := say(); err != nil {
			t.Fatalf("comment %d: %v", i+1, err)
		}
	}
	wait, limited := secondary(say())
	want(t, "the 81st in a minute is refused", limited, true)
	want(t, "and asks to wait", wait, time.Minute)
	want(t, "comments made", len(p.Comments()), 80)
	calls := w.Calls()
	want(t, "why, in the log", calls[len(calls)-1].Limit, "secondary")

	w.Pass(61 * time.Second)
	for minute := range 6 {
		for range 70 {
			if err := say(); err != nil {
				t.Fatalf("minute %d: %v", minute, err)
			}
		}
		w.Pass(61 * time.Second)
	}
	_, limited = secondary(say())
	want(t, "the 501st in an hour is refused", limited, true)
}

func TestPointsLimit(t *testing.T) {
	w := start(t)
	token := w.Token("ada", "repo")
	c := w.as(token)
	for i := range 900 {
		if _, _, err := c.Users.Get(ctx, ""); err != nil {
			t.Fatalf("read %d: %v", i+1, err)
		}
	}
	_, limited := secondary(failure(c.Users.Get(ctx, "")))
	want(t, "the 901st read in a minute is refused", limited, true)
	w.Pass(30 * time.Second)
	wait, _ := secondary(failure(w.as(token).Users.Get(ctx, "")))
	want(t, "half a minute later", wait > 0 && wait <= 30*time.Second, true)
	w.Pass(31 * time.Second)
	want(t, "a minute later", status(failure(w.as(token).Users.Get(ctx, ""))), 200)
}

func TestAtMostAHundredAtOnce(t *testing.T) {
	w := start(t)
	token := w.Token("ada", "repo")
	came := make(chan struct{}, 101)
	end := w.Suffer(github.Outage{Kind: github.Slow, Delay: time.Hour, For: func(*http.Request) bool {
		came <- struct{}{}
		return true
	}})
	refused := make(chan bool, 101)
	var all sync.WaitGroup
	for range 101 {
		all.Go(func() {
			_, limited := secondary(failure(w.as(token).Users.Get(ctx, "")))
			refused <- limited
		})
	}
	for range 101 {
		<-came
	}
	end()
	all.Wait()
	close(refused)
	n := 0
	for r := range refused {
		if r {
			n++
		}
	}
	if n == 0 {
		t.Error("all of 101 requests at once were answered")
	}
}

func TestThrottle(t *testing.T) {
	w := start(t)
	token := w.Token("ada", "repo")
	w.Throttle(token, 90*time.Second)
	wait, limited := secondary(failure(w.as(token).Users.Get(ctx, "")))
	want(t, "limited", limited, true)
	want(t, "for as long as it was told", wait > time.Minute && wait <= 90*time.Second, true)
	want(t, "another user", status(failure(w.as(w.Token("ben", "repo")).Users.Get(ctx, ""))), 200)
}
