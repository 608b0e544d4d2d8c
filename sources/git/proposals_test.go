package git_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/repo/repotest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sources/git"
)

func proposals(t *testing.T, g *repotest.Repo, dir string) *git.Proposals {
	t.Helper()
	remote, err := repo.New(g.Dir, secret.Value{}, "")
	if err != nil {
		t.Fatal(err)
	}
	p, err := git.NewProposals(git.ProposalsConfig{Remote: remote, Branch: "main", Ref: "refs/pull/%d/head", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// propose commits a change on a branch of its own and goes back to main.
func propose(g *repotest.Repo, number int, name, content string) site.Proposal {
	g.Git("checkout", "-q", "-B", "proposal", "main")
	g.Write(name, content)
	head := g.Commit(fmt.Sprintf("proposal %d\n\nmore", number))
	g.Git("update-ref", fmt.Sprintf("refs/pull/%d/head", number), head)
	g.Git("checkout", "-q", "main")
	return site.Proposal{Number: number, Base: "main", Head: head, State: site.ProposalOpen}
}

func TestProposalsAreMergedIntoTheBranch(t *testing.T) {
	g := repotest.Init(t)
	g.Write("a", "a\n")
	g.Write("b", "b\n")
	g.Commit("start")
	seven := propose(g, 7, "a", "seven\n")
	eight := propose(g, 8, "b", "eight\n")
	g.Write("b", "branch\n")
	head := g.Commit("branch")
	dir := t.TempDir()
	for range 2 { // the second time with what is there
		p := proposals(t, g, dir)
		base, err := p.Base(t.Context())
		if err != nil || base.ID != head || base.Subject != "branch" {
			t.Fatalf("base %v, %v", base, err)
		}
		m, err := p.Merge(t.Context(), seven)
		if err != nil || m.Done || m.Result.Subject != "proposal 7" || m.Result.ID == "" {
			t.Fatalf("got %+v, %v", m, err)
		}
		for name, want := range map[string]string{"a": "seven\n", "b": "branch\n"} {
			if got, err := fs.ReadFile(m.Result.Files, name); err != nil || string(got) != want {
				t.Errorf("%s is %q, %v", name, got, err)
			}
		}
		m, err = p.Merge(t.Context(), eight)
		if err != nil || m.Result.ID != "" || len(m.Conflicts) != 1 || m.Conflicts[0] != "b: both sides changed it at the same lines, or next to each other's (on the branch: line 1)" {
			t.Errorf("got %+v, %v", m, err)
		}
	}
}

func TestProposalThatMovedOrIsMerged(t *testing.T) {
	g := repotest.Init(t)
	g.Write("a", "a\n")
	g.Commit("start")
	p := proposals(t, g, "")
	was := propose(g, 7, "a", "one\n")
	now := propose(g, 7, "a", "other\n")
	if _, err := p.Base(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Merge(t.Context(), was); !errors.Is(err, site.ErrMoved) {
		t.Errorf("moved: %v", err)
	}
	gone := now
	gone.Number = 9
	if _, err := p.Merge(t.Context(), gone); !errors.Is(err, site.ErrMoved) {
		t.Errorf("gone: %v", err)
	}
	g.Git("merge", "-q", "--no-ff", "-m", "merge 7", now.Head)
	base, err := p.Base(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m, err := p.Merge(t.Context(), now); err != nil || !m.Done {
		t.Errorf("merged: %+v, %v", m, err)
	}
	for commit, want := range map[string]bool{base.ID: true, now.Head: true, was.Head: false, strings.Repeat("0", 40): false, "": false} {
		if got, err := p.Contains(t.Context(), base.ID, commit); err != nil || got != want {
			t.Errorf("contains %q: %t, %v", commit, got, err)
		}
	}
}

func TestProposalOfAStranger(t *testing.T) {
	g := repotest.Init(t)
	g.Write("a", "a\n")
	g.Commit("start")
	g.Git("checkout", "-q", "--orphan", "stranger")
	head := g.Commit("stranger")
	g.Git("update-ref", "refs/pull/7/head", head)
	g.Git("checkout", "-q", "main")
	p := proposals(t, g, t.TempDir())
	if _, err := p.Base(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, err := p.Merge(t.Context(), site.Proposal{Number: 7, Head: head})
	if err != nil || !strings.Contains(m.Problem, "no commit in common") || m.Result.ID != "" {
		t.Errorf("got %+v, %v", m, err)
	}
}
