package git_test

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/repo/repotest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sources/git"
)

func TestFetch(t *testing.T) {
	g := repotest.Init(t)
	g.Write("site.cue", "package site\n")
	id := g.Commit("racks: add the third\n\nmore")
	s := follow(t, g, git.Config{})
	rev := fetch(t, s)
	if rev.ID != id || rev.Subject != "racks: add the third" || rev.Author != "Ada" || rev.When.IsZero() {
		t.Errorf("got %+v", rev)
	}
	if data, err := fs.ReadFile(rev.Files, "site.cue"); err != nil || string(data) != "package site\n" {
		t.Errorf("site.cue is %q, %v", data, err)
	}
	if again := fetch(t, s); again.ID != rev.ID || again.Files != rev.Files {
		t.Error("a poll without change gave other files")
	}
}

// TestPollWithoutChangeFetchesNothing: the repository's objects are gone, and
// only a listing would not notice.
func TestPollWithoutChangeFetchesNothing(t *testing.T) {
	g := repotest.Init(t)
	g.Commit("one")
	s := follow(t, g, git.Config{})
	before := fetch(t, s)
	if err := os.RemoveAll(filepath.Join(g.Dir, ".git/objects/pack")); err != nil {
		t.Fatal(err)
	}
	if after := fetch(t, s); after.ID != before.ID {
		t.Errorf("got %s, want %s", after.ID, before.ID)
	}
}

func TestRestartContinues(t *testing.T) {
	g := repotest.Init(t)
	g.Write("site.cue", "package site\n")
	first := g.Commit("one")
	dir := t.TempDir()
	fetch(t, follow(t, g, git.Config{Dir: dir}))
	if rev := fetch(t, follow(t, g, git.Config{Dir: dir})); rev.ID != first {
		t.Errorf("got %s, want %s", rev.ID, first)
	}
	g.Git("commit", "-q", "--amend", "-m", "other")
	_, err := follow(t, g, git.Config{Dir: dir}).Fetch(t.Context())
	wantError(t, err, "was rewritten")
}

func TestRewriteIsRefusedWhileItLasts(t *testing.T) {
	g := repotest.Init(t)
	root := g.Commit("root")
	reviewed := g.Commit("reviewed")
	dir := t.TempDir()
	s := follow(t, g, git.Config{Dir: dir})
	fetch(t, s)
	g.Git("reset", "-q", "--hard", root)
	rewritten := g.Commit("slipped in")
	for range 2 {
		_, err := s.Fetch(t.Context())
		wantError(t, err, reviewed[:12], rewritten[:12], "--allow-rewrite", "undo what was reviewed")
	}
	g.Git("reset", "-q", "--hard", reviewed)
	if rev := fetch(t, s); rev.ID != reviewed {
		t.Errorf("got %s, want %s", rev.ID, reviewed)
	}
	g.Git("reset", "-q", "--hard", root)
	_, err := s.Fetch(t.Context())
	wantError(t, err, "was rewritten")
	if rev := fetch(t, follow(t, g, git.Config{Dir: dir, AllowRewrite: true})); rev.ID != root {
		t.Errorf("got %s, want %s", rev.ID, root)
	}
	if rev := fetch(t, follow(t, g, git.Config{Dir: dir})); rev.ID != root {
		t.Errorf("after it was allowed once: got %s, want %s", rev.ID, root)
	}
}

func TestManyCommitsBetweenPolls(t *testing.T) {
	g := repotest.Init(t)
	g.Commit("root")
	s := follow(t, g, git.Config{})
	fetch(t, s)
	g.Git("checkout", "-q", "-b", "side")
	for range 20 {
		g.Commit("side")
	}
	g.Git("checkout", "-q", "main")
	g.Commit("main")
	g.Git("merge", "-q", "--no-ff", "-m", "merge", "side")
	if rev := fetch(t, s); rev.Subject != "merge" {
		t.Errorf("got %q, want the merge", rev.Subject)
	}
}

func TestNothingToFollow(t *testing.T) {
	empty := repotest.Init(t)
	s := follow(t, empty, git.Config{})
	_, err := s.Fetch(t.Context())
	wantError(t, err, "the repository is empty", "push a design to branch main")
	want := empty.Commit("at last")
	if rev := fetch(t, s); rev.ID != want {
		t.Errorf("got %s, want %s", rev.ID, want)
	}

	g := repotest.Init(t)
	g.Commit("one")
	for _, b := range []string{"a", "b", "c", "d", "e", "f"} {
		g.Git("branch", b)
	}
	_, err = follow(t, g, git.Config{Branch: "prod"}).Fetch(t.Context())
	wantError(t, err, "branch prod", "does not exist", "there is: a, b, c, d, e, and 2 more")
}

func TestVanishedRepositoryComesBack(t *testing.T) {
	g := repotest.Init(t)
	id := g.Commit("one")
	s := follow(t, g, git.Config{})
	fetch(t, s)
	if err := os.Rename(g.Dir, g.Dir+".away"); err != nil {
		t.Fatal(err)
	}
	rev, err := s.Fetch(t.Context())
	wantError(t, err, "no Git repository")
	if rev.ID != "" || rev.Files != nil {
		t.Errorf("a failed fetch gave %+v", rev)
	}
	if err := os.Rename(g.Dir+".away", g.Dir); err != nil {
		t.Fatal(err)
	}
	if rev := fetch(t, s); rev.ID != id {
		t.Errorf("got %s, want %s", rev.ID, id)
	}
}

func follow(t *testing.T, g *repotest.Repo, c git.Config) *git.Source {
	t.Helper()
	remote, err := repo.New(g.Dir, secret.Value{}, "")
	if err != nil {
		t.Fatal(err)
	}
	c.Remote, c.Log = remote, slog.New(slog.DiscardHandler)
	if c.Branch == "" {
		c.Branch = "main"
	}
	s, err := git.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fetch(t *testing.T, s *git.Source) site.Revision {
	t.Helper()
	rev, err := s.Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q lacks %q", err, part)
		}
	}
}
