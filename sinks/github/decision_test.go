package github

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/site"
	double "github.com/slipway-gitops/slipway/tests/github"
)

// How it came to a merge is told as GitHub knows it: by whom, since when, and
// whether a program had a hand in it.
func TestDecisions(t *testing.T) {
	for name, c := range map[string]struct {
		merge       func(*world, *double.Pull)
		by, program string
		auto        bool
		ago         time.Duration // since it was decided
	}{
		"a person": {merge: func(_ *world, p *double.Pull) { p.Merge("ada") }, by: "ada"},
		"squashed": {merge: func(_ *world, p *double.Pull) { p.Squash("ada") }, by: "ada"},
		"rebased":  {merge: func(_ *world, p *double.Pull) { p.Rebase("ada") }, by: "ada"},
		"pushed":   {merge: func(w *world, p *double.Pull) { w.repo.ForcePush("ada", "main", p.HeadID(), "by hand", nil) }, by: "ada"},
		"a bot":    {merge: func(_ *world, p *double.Pull) { p.Merge("mergify[bot]") }, by: "mergify[bot]", program: "mergify[bot]"},
		"an App in her name": {merge: func(w *world, p *double.Pull) { p.MergeBy("ada", w.App("lander", double.Permissions{})) },
			by: "ada", program: "the App lander"},
		"the merge queue":                    {merge: func(_ *world, p *double.Pull) { p.Enqueue("ada"); p.MergeQueued() }, by: "github-merge-queue[bot]", program: "the merge queue"},
		"the merge queue in a person's name": {merge: func(_ *world, p *double.Pull) { p.Enqueue("ada"); p.Merge("ada") }, by: "ada", program: "the merge queue"},
		"out of the queue": {merge: func(_ *world, p *double.Pull) {
			p.Enqueue("ada")
			p.Dequeue("ada")
			<-time.After(time.Hour)
			p.Merge("ben")
		}, by: "ben"},
		"auto-merge": {merge: func(_ *world, p *double.Pull) {
			p.AutoMerge("ben", double.ByMerge)
			<-time.After(time.Hour)
			p.Merge("ben")
		}, by: "ben", auto: true, ago: time.Hour},
		"auto-merge, squashed": {merge: func(_ *world, p *double.Pull) {
			p.AutoMerge("ben", double.BySquash)
			<-time.After(time.Hour)
			p.Squash("ben")
		}, by: "ben", auto: true, ago: time.Hour},
		"auto-merge, rebased, by another meanwhile": {merge: func(_ *world, p *double.Pull) {
			p.AutoMerge("ada", double.ByMerge)
			<-time.After(time.Minute)
			p.NoAutoMerge("ada")
			<-time.After(time.Minute)
			p.AutoMerge("ben", double.ByRebase)
			<-time.After(time.Hour)
			p.Rebase("ben")
		}, by: "ben", auto: true, ago: time.Hour},
		"auto-merge, taken back": {merge: func(_ *world, p *double.Pull) {
			p.AutoMerge("ben", double.ByMerge)
			p.NoAutoMerge("ben")
			<-time.After(time.Minute)
			p.Merge("ada")
		}, by: "ada"},
		"auto-merge by a bot": {merge: func(_ *world, p *double.Pull) {
			p.AutoMerge("dependabot[bot]", double.ByMerge)
			<-time.After(time.Hour)
			p.Merge("ada")
		}, by: "dependabot[bot]", program: "dependabot[bot]", auto: true, ago: time.Hour},
		"with our own token":      {merge: func(_ *world, p *double.Pull) { p.Merge("slipway-machine") }, by: "slipway-machine", program: ownAccount},
		"an account that is gone": {merge: func(w *world, p *double.Pull) { p.Merge("eve"); w.User("eve").Delete() }},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				r := w.withToken()
				pull := w.propose("n1")
				for n := range 120 { // more than a page before the merge
					pull.Comment("ben", fmt.Sprint(n))
				}
				c.merge(w, pull)
				p, err := r.Proposal(w.t.Context(), pull.Number())
				must(w.t, err)
				d, err := r.Decision(w.t.Context(), pull.Number())
				want := site.Decision{By: c.by, Program: c.program, Auto: c.auto, When: p.MergedAt.Add(-c.ago)}
				if err != nil || d.By != want.By || d.Program != want.Program || d.Auto != want.Auto || !d.When.Equal(want.When) {
					w.t.Errorf("got %+v, %v, want %+v", d, err, want)
				}
			})
		})
	}
}

// As long as the timeline does not tell, it is not known; and of auto-merge that
// the pull request alone tells of nobody knows since when.
func TestDecisionThatIsNotKnown(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.withToken()
		pull := w.propose("n1")
		if _, err := r.Decision(w.t.Context(), pull.Number()); !errors.Is(err, site.ErrNotYet) {
			w.t.Errorf("of an open one got %v", err)
		}
		w.Lag(4)
		_, err := r.Open(w.t.Context(), "main")
		must(w.t, err)
		pull.AutoMerge("ada", double.ByMerge)
		pull.Merge("ada")
		late := 0
		for {
			d, err := r.Decision(w.t.Context(), pull.Number())
			if err == nil {
				if !d.Auto || d.When.IsZero() {
					w.t.Errorf("got %+v", d)
				}
				break
			}
			if late++; !errors.Is(err, site.ErrNotYet) || late > 4 {
				w.t.Fatalf("the list is late: %v", err)
			}
		}
		if late == 0 {
			w.t.Error("the list was not late")
		}
		w.Lag(0)
		w.Reticent(true)
		if _, err := r.Decision(w.t.Context(), pull.Number()); !errors.Is(err, site.ErrNotYet) {
			w.t.Errorf("without the merge in it got %v", err)
		}
	})
}

// A fork, a repository and accounts that are gone are read as what is left of
// them: a fork as one, and nobody as its author.
func TestWhatIsGone(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.withToken()
		fork := w.repo.Fork("eve")
		fork.Push("eve", "n1", "one", double.Files{"n1.cue": "x: 1\n"})
		pull := w.repo.Open(double.Proposal{Author: "eve", From: fork, Head: "n1", Title: "From a fork"})
		pull.Comment("eve", "/slipway plan")
		fork.Delete()
		w.User("eve").Delete()
		all, err := r.Open(w.t.Context(), "main")
		if err != nil || len(all) != 1 || !all[0].Fork || all[0].Head != pull.HeadID() {
			w.t.Errorf("open are %+v, %v", all, err)
		}
		said, err := r.CommentsSince(w.t.Context(), time.Now().Add(-time.Hour))
		if err != nil || len(said) != 1 || said[0].Author != "" {
			w.t.Errorf("the comments are %+v, %v", said, err)
		}
		if may, err := r.Permission(w.t.Context(), said[0].Author); may != forge.None || err != nil {
			w.t.Errorf("nobody may %v, %v", may, err)
		}
	})
}

// A comment says by which App it was written in somebody's name, and when it was
// edited.
func TestHowACommentWasWritten(t *testing.T) {
	inWorld(t, func(w *world) {
		r := w.withToken()
		pull := w.propose("n1")
		pull.Comment("ada", "one")
		pull.CommentBy("ada", w.App("helper", double.Permissions{}), "two")
		<-time.After(time.Minute)
		pull.Comments()[0].Edit("ben", "three")
		said, err := r.CommentsSince(w.t.Context(), time.Now().Add(-time.Hour))
		if err != nil || len(said) != 2 || !said[0].Edited() || said[0].Via != "" || said[0].Author != "ada" || said[1].Edited() || said[1].Via != "helper" || said[1].Bot {
			w.t.Errorf("the comments are %+v, %v", said, err)
		}
		pull.Comment("Slipway-machine", "four")
		pull.Comment("slipway-machine", "five")
		said, err = r.CommentsSince(w.t.Context(), time.Now().Add(-time.Second))
		if err == nil && len(said) == 3 && (said[1].Via != ownAccount || said[2].Via != ownAccount) {
			w.t.Errorf("with our own account: %+v", said)
		}
		said = said[:min(len(said), 1)]
		if err != nil || len(said) != 1 || said[0].Body != "three" {
			w.t.Errorf("what was changed since is %+v, %v", said, err)
		}
	})
}

// A limit that comes without a word of for how long is kept all the same.
func TestLimitsWithoutHeaders(t *testing.T) {
	for _, kind := range []double.Kind{double.TooMany, double.Abuse} {
		inWorld(t, func(w *world) {
			r := w.withToken()
			pull := w.propose("n1")
			w.Suffer(double.Outage{Kind: kind, Times: 1, For: func(r *http.Request) bool { return r.Method == http.MethodGet }})
			var limited *forge.Limited
			if _, err := r.Proposal(w.t.Context(), pull.Number()); !errors.As(err, &limited) {
				w.t.Fatalf("got %v", err)
			}
			<-time.After(time.Until(limited.Until))
			_, err := r.Proposal(w.t.Context(), pull.Number())
			must(w.t, err)
		})
	}
}

// What the pull request says and its timeline does not, or otherwise, counts
// against it.
func TestDecisionInDoubt(t *testing.T) {
	at := gh.Timestamp{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	user := func(login, kind string) *gh.User { return &gh.User{Login: &login, Type: &kind} }
	merged := []*gh.Timeline{{Event: gh.String("merged"), Actor: user("ada", "User"), CreatedAt: &at}}
	d, known := decided(&gh.PullRequest{MergedAt: &at, MergedBy: user("lander[bot]", "Bot")}, merged)
	if !known || d.Program != "lander[bot]" {
		t.Errorf("merged by a bot, it is %+v", d)
	}
	d, known = decided(&gh.PullRequest{MergedAt: &at, MergedBy: user("ada", "User"), AutoMerge: &gh.PullRequestAutoMerge{EnabledBy: user("ben", "User")}}, merged)
	if !known || !d.Auto || !d.When.IsZero() || d.By != "ben" {
		t.Errorf("merged automatically, nobody knows since when, it is %+v", d)
	}
}
