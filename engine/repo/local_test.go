package repo_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/repo/repotest"
)

// A commit is found by every name that git has for it, and its files are
// those of the same folder.
func TestLocal(t *testing.T) {
	g := repotest.Init(t)
	g.Write("dc/site.cue", "one")
	first := g.Commit("one")
	g.Git("tag", "v1")
	g.Git("tag", "-a", "-m", "noted", "v1a")
	g.Git("repack", "-qad")
	g.Write("dc/site.cue", "two")
	second := g.Commit("two")
	beside := filepath.Join(t.TempDir(), "beside")
	g.Git("worktree", "add", "-q", beside, "v1")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(g.Dir, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dir, name, want string }{
		{g.Dir, "HEAD", second}, {g.Dir, "main", second}, {g.Dir, "HEAD~1", first}, {g.Dir, "HEAD^", first},
		{g.Dir, "v1", first}, {g.Dir, "v1a", first}, {g.Dir, first, first}, {g.Dir, first[:8], first},
		{link, "main", second}, {beside, "HEAD", first}, {beside, "main", second},
	} {
		id, files, err := repo.Local(t.Context(), filepath.Join(c.dir, "dc"), c.name)
		if err != nil || id != c.want {
			t.Errorf("%s in %s is %s, %v; want %s", c.name, c.dir, id, err, c.want)
			continue
		}
		text, err := fs.ReadFile(files, "site.cue")
		if want := map[string]string{first: "one", second: "two"}[id]; string(text) != want {
			t.Errorf("site.cue of %s is %q, %v; want %s", c.name, text, err, want)
		}
	}
	if _, files, err := repo.Local(t.Context(), g.Dir, "HEAD"); err != nil {
		t.Error(err)
	} else if _, err := fs.Stat(files, "dc/site.cue"); err != nil {
		t.Error(err)
	}
}

func TestLocalSaysWhatItDoesNotFind(t *testing.T) {
	g := repotest.Init(t)
	g.Write("site.cue", "one")
	g.Commit("one")
	for _, c := range []struct{ dir, name, want string }{
		{g.Dir, "nope", `find commit "nope": fatal: `}, {g.Dir, "HEAD~1", "fatal: "}, {g.Dir, "HEAD:site.cue", "fatal: "},
		{g.Dir, "", "fatal: "}, {g.Dir, "--help", "fatal: "}, {t.TempDir(), "HEAD", "not a git repository"},
	} {
		if id, _, err := repo.Local(t.Context(), c.dir, c.name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %s, %v; want %s", c.name, id, err, c.want)
		}
	}
}
