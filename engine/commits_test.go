package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/review"
	"github.com/slipway-gitops/slipway/engine/site"
)

// branches are the heads of a repository.
type branches struct {
	w      *world
	mu     sync.Mutex
	list   []site.Commit
	looks  int
	away   error
	hangs  chan struct{} // evaluations wait for it to be closed; nil for none
	judged []string
	evals  []string
}

// push makes a commit the head of a branch.
func (b *branches) push(id, branch string, s *site.Site, findings ...site.Finding) {
	b.w.source.mu.Lock()
	b.w.source.designs[id], b.w.source.broken[id] = apart(s), findings
	b.w.source.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = slices.DeleteFunc(b.list, func(c site.Commit) bool { return slices.Contains(c.Branches, branch) })
	b.list = append(b.list, site.Commit{Revision: site.Revision{ID: id, Subject: "of " + branch}, Branches: []string{branch}})
}

func (b *branches) Look(_ context.Context, inForce string) (site.CommitList, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks++
	return site.CommitList{Commits: slices.Clone(b.list), Branch: "main", InForce: inForce, Looked: time.Now()}, b.away
}

func (b *branches) Revision(_ context.Context, id string) (site.Revision, error) {
	b.w.source.mu.Lock()
	defer b.w.source.mu.Unlock()
	if _, has := b.w.source.designs[id]; !has {
		return site.Revision{}, fmt.Errorf("%w: no commit %s", site.ErrNotFound, id)
	}
	return site.Revision{ID: id}, nil
}

func (b *branches) evaluate(ctx context.Context, r site.Revision) (*site.Site, []site.Finding, error) {
	b.mu.Lock()
	hangs := b.hangs
	b.evals = append(b.evals, r.ID)
	b.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
	return b.w.source.evaluate(ctx, r)
}

func (b *branches) evaluated(id string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.evals {
		if x == id {
			n++
		}
	}
	return n
}

// branches has commits planned for as long as the test runs.
func (w *world) branches() (b *branches, stop func()) {
	b = &branches{w: w}
	c := w.engine.PlanCommits(review.CommitsConfig{Heads: b, Evaluate: b.evaluate, Judge: func(_ context.Context, revision, by site.Revision) ([]site.Finding, error) {
		b.judged = append(b.judged, revision.ID+" by "+by.ID)
		return nil, nil
	}})
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return b, func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	}
}

// planned is a commit with its plan.
func (w *world) planned(id string) site.CommitDetail {
	w.t.Helper()
	d, err := w.engine.PlanCommit(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// A branch is planned as if it were in force: against the design in force, with what is lost, and nothing can be approved by it.
func TestCommitIsPlanned(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		f := w.inSync("n1", "n2")
		if _, err := w.engine.Commits(w.t.Context()); !errors.Is(err, site.ErrNotFound) || w.engine.Report().Status.Commits {
			t.Errorf("without branches: %v", err)
		}
		b, stop := w.branches()
		defer stop()
		b.push("aaaaaaaaaaaaaa", "wipe", w.wiping([]string{"n1", "n2"}, "n1"))
		b.push("bbbbbbbbbbbbbb", "same", w.wiping([]string{"n1", "n2"}))
		b.push("cccccccccccccc", "broken", nil, site.Finding{Severity: site.SeverityError, Code: "broken", Message: "it is broken", File: "site.cue", Line: 7})
		list, err := w.engine.Commits(w.t.Context())
		if err != nil || len(list.Commits) != 3 || !w.engine.Report().Status.Commits || b.looks != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		if d, err := w.engine.Commit(w.t.Context(), "aaaaaaaaaaaaaa"); err != nil || !d.Outdated || !d.Planned.IsZero() || len(b.evals) > 0 {
			t.Errorf("it was planned for somebody who only looks: %+v, %v", d, err)
		}
		d := w.planned("aaaaaaa")
		if d.Planning || d.Outdated || d.Erases != 1 || d.Counts[site.MergeErases] != 1 || len(d.Nodes) != 1 || d.Nodes[0].Node != "n1" || d.InForce.ID != "commit-1" || d.Review.Set != "" {
			t.Errorf("planned is %+v", d)
		}
		for _, part := range []string{"1 machine is erased", "Nothing can be approved from this plan", "compared with <code>commit-1</code>, which is in force"} {
			if !strings.Contains(d.Review.Comment, part) {
				t.Errorf("the comment has no %q:\n%s", part, d.Review.Comment)
			}
		}
		if strings.Contains(d.Review.Comment, "erging") {
			t.Errorf("the comment is about a merge:\n%s", d.Review.Comment)
		}
		if _, err := w.engine.Do(w.t.Context(), site.Order{Verb: site.VerbApprove, Digest: d.Losses.Digest(), By: "ann"}); !errors.Is(err, site.ErrRefused) && !errors.Is(err, site.ErrNotFound) {
			t.Errorf("its set is approved: %v", err)
		}
		if d := w.planned("bbbbbbbbbbbbbb"); d.Counts == nil || len(d.Nodes) != 0 || !strings.Contains(d.Review.Comment, "This does nothing to any machine.") {
			t.Errorf("planned is %+v\n%s", d.Nodes, d.Review.Comment)
		}
		if d := w.planned("cccccccccccccc"); d.Counts != nil || d.Verdict != "no plan, the design has 1 error" || !strings.Contains(present.CommentText(d.Review.Comment), "site.cue:7") {
			t.Errorf("planned is %s\n%s", d.Verdict, d.Review.Comment)
		}
		if len(f.told) > 0 {
			t.Error("a plan did something")
		}
	}, "n1", "n2")
}

// A plan counts until another design is in force or it is old. Whoever asks again gets it without an evaluation.
func TestPlanOfACommitIsKept(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.inSync("n1")
		b, stop := w.branches()
		defer stop()
		b.push("aaaaaaaaaaaaaa", "wipe", w.wiping([]string{"n1"}, "n1"))
		asks := func(what string, want int) {
			t.Helper()
			if d := w.planned("aaaaaaaaaaaaaa"); d.Planning || d.Erases != 1 || b.evaluated("aaaaaaaaaaaaaa") != want {
				t.Errorf("%s: evaluated %d times, %+v", what, b.evaluated("aaaaaaaaaaaaaa"), d.Verdict)
			}
		}
		asks("first", 1)
		asks("again", 1)
		time.Sleep(11 * time.Minute)
		asks("later", 2)
		w.commit(w.wiping([]string{"n1"}))
		w.until("it is in force", time.Minute, func() bool { return w.engine.Report().Status.Applied.ID == "commit-2" })
		asks("after another commit", 3)
		if d := w.planned("aaaaaaaaaaaaaa"); d.InForce.ID != "commit-2" {
			t.Errorf("compared with %s", d.InForce.ID)
		}
	}, "n1")
}

// A branch that moved, or is gone, is planned no more, and it is said why not.
func TestCommitThatIsGone(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.inSync("n1")
		b, stop := w.branches()
		defer stop()
		b.push("aaaaaaaaaaaaaa", "wipe", w.wiping([]string{"n1"}, "n1"))
		w.planned("aaaaaaaaaaaaaa")
		b.push("aaaaaaabbbbbbb", "wipe", w.wiping([]string{"n1"}))
		b.push("aaaaaaaccccccc", "other", w.wiping([]string{"n1"}))
		time.Sleep(time.Hour)
		for id, want := range map[string]string{"aaaaaaaaaaaaaa": "it was neither the head of a branch nor a commit of main that is newer than the design in force", "aaaaaaa": "2 commits begin with aaaaaaa"} {
			if _, err := w.engine.PlanCommit(w.t.Context(), id); !errors.Is(err, site.ErrNotFound) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", id, err)
			}
		}
		b.mu.Lock()
		b.away = errors.New("no route to the repository")
		b.mu.Unlock()
		time.Sleep(time.Hour)
		if list, err := w.engine.Commits(w.t.Context()); err != nil || list.Problem != "no route to the repository" || len(list.Commits) != 2 {
			t.Errorf("%+v, %v", list, err)
		}
		looks := b.looks
		for range 10 {
			if d := w.planned("aaaaaaabbbbbbb"); d.Verdict != "no machine changes" {
				t.Errorf("what was listed is not planned: %+v", d)
			}
		}
		if b.looks != looks {
			t.Errorf("looked %d times more", b.looks-looks)
		}
	}, "n1")
}

// Commits are planned one at a time, few wait, and whoever asks is not kept waiting: the answer says that it is planned.
func TestCommitsArePlannedOneAtATime(t *testing.T) {
	inBubble(t, usual, func(w *world) {
		w.inSync("n1")
		b, stop := w.branches()
		defer stop()
		for i := range 8 {
			b.push(fmt.Sprintf("%014d", i), fmt.Sprint("b", i), w.wiping([]string{"n1"}))
		}
		b.hangs = make(chan struct{})
		refused := 0
		for i := range 8 {
			began := time.Now()
			d, err := w.engine.PlanCommit(w.t.Context(), fmt.Sprintf("%014d", i))
			switch {
			case errors.Is(err, site.ErrRefused):
				refused++
			case err != nil || !d.Planning || time.Since(began) > 10*time.Second:
				t.Errorf("%d: %+v, %v after %s", i, d, err, time.Since(began))
			}
		}
		if refused != 3 || len(b.evals) != 1 {
			t.Errorf("%d were refused, and %d are evaluated", refused, len(b.evals))
		}
		b.mu.Lock()
		close(b.hangs)
		b.hangs = nil
		b.mu.Unlock()
		w.until("all are planned", time.Minute, func() bool {
			d, err := w.engine.Commit(w.t.Context(), fmt.Sprintf("%014d", 4))
			return err == nil && !d.Planning && !d.Planned.IsZero()
		})
		w.source.mu.Lock()
		w.source.fails = errors.New("no memory left")
		w.source.mu.Unlock()
		if d := w.planned(fmt.Sprintf("%014d", 7)); !strings.Contains(d.Review.Problem, "no memory left") || d.Counts != nil || !d.Review.Ours {
			t.Errorf("%+v", d)
		}
		w.source.mu.Lock()
		w.source.fails = nil
		w.source.mu.Unlock()
		time.Sleep(time.Minute)
		if d := w.planned(fmt.Sprintf("%014d", 7)); d.Counts == nil {
			t.Errorf("it is not planned again: %+v", d)
		}
	}, "n1")
}
