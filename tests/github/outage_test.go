package github_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	client "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/tests/github"
)

func TestOutages(t *testing.T) {
	for _, c := range []struct {
		name string
		kind github.Kind
		done int // whether what was asked is done all the same
	}{
		{"refuse", github.Refuse, 0}, {"fail", github.Fail, 0}, {"lost", github.Lost, 1}, {"half", github.Half, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := start(t)
			p := w.propose("feature")
			end := w.Suffer(github.Outage{Kind: c.kind, For: func(r *http.Request) bool { return r.Method == "POST" }})
			say := func() error {
				return failure(w.as(w.Token("ada", "repo")).Issues.CreateComment(ctx, "acme", "site", p.Number(), &client.IssueComment{Body: client.String("x")}))
			}
			if say() == nil {
				t.Error("there was an answer")
			}
			want(t, "comments", len(p.Comments()), c.done)
			want(t, "reading", status(failure(w.as(w.Token("ada", "repo")).PullRequests.Get(ctx, "acme", "site", 1))), 200)
			end()
			want(t, "afterwards", status(say()), 200)
		})
	}
}

func TestOutageOfOneRequest(t *testing.T) {
	w := start(t)
	w.Suffer(github.Outage{Kind: github.Fail, Times: 1})
	c := w.as(w.Token("ada", "repo"))
	want(t, "the first", status(failure(c.Users.Get(ctx, ""))), 502)
	want(t, "the second", status(failure(c.Users.Get(ctx, ""))), 200)
	want(t, "calls", len(w.Calls()), 2)
}

func TestStall(t *testing.T) {
	w := start(t)
	came := make(chan struct{})
	w.Suffer(github.Outage{Kind: github.Stall, For: func(*http.Request) bool {
		close(came)
		return true
	}})
	within, cancel := context.WithCancel(ctx)
	go func() {
		<-came
		cancel()
	}()
	_, _, err := w.as(w.Token("ada", "repo")).Users.Get(within, "")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the caller gave up", err)
	}
}

func TestSlow(t *testing.T) {
	w := start(t)
	end := w.Suffer(github.Outage{Kind: github.Slow, Delay: time.Hour})
	go end()
	want(t, "once the outage is over", status(failure(w.as(w.Token("ada", "repo")).Users.Get(ctx, ""))), 200)
}

func TestOutageOfGit(t *testing.T) {
	w := start(t)
	w.Suffer(github.Outage{Kind: github.Fail})
	out, err := w.run(t.TempDir(), "ls-remote", w.remote(w.Token("ada", "repo")))
	check(t, "git", out, err, "502")
}
