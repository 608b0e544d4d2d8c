package github_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/tests/github"
)

// run runs the git program against the double.
func (w *world) run(dir string, args ...string) (string, error) {
	ca := filepath.Join(w.t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, w.CA(), 0o600); err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_SSL_CAINFO=" + ca, "no_proxy=127.0.0.1",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org",
	}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (w *world) git(dir string, args ...string) string {
	w.t.Helper()
	out, err := w.run(dir, args...)
	if err != nil {
		w.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// remote is the repository's address with a token in it.
func (w *world) remote(token string) string {
	return strings.Replace(w.repo.CloneURL(), "https://", "https://x-access-token:"+token+"@", 1)
}

func TestGitOverHTTP(t *testing.T) {
	w := start(t)
	p := w.propose("feature")
	dir := t.TempDir()
	w.git(dir, "clone", "-q", "-b", "feature", w.remote(w.Token("ada", "repo")), "site")
	site := filepath.Join(dir, "site")
	if err := os.WriteFile(filepath.Join(site, "new.cue"), []byte("n: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.git(site, "add", "-A")
	w.git(site, "commit", "-q", "-m", "by git")
	w.git(site, "push", "-q", "origin", "feature")
	want(t, "the pull request follows", p.HeadID(), w.git(site, "rev-parse", "HEAD"))

	heads := w.git(site, "ls-remote", "origin", "refs/pull/*/head")
	want(t, "the heads of pull requests", heads, p.HeadID()+"\trefs/pull/1/head")
	out, err := w.run(site, "push", "origin", "HEAD:refs/pull/1/head")
	if err == nil || !strings.Contains(out, "hidden ref") {
		t.Errorf("pushing to a pull request: %v %s", err, out)
	}
}

func TestGitAsksForRights(t *testing.T) {
	w := start(t)
	w.propose("feature")
	app := w.App("reader", github.Permissions{"contents": "read"}).Install("acme")
	for _, c := range []struct{ who, token, fetch, push string }{
		{"nobody", "", "could not read Username", "could not read Username"},
		{"a wrong token", "ghp_wrong", "Invalid username or token", "Invalid username or token"},
		{"a reader", w.Token("ben", "repo"), "", "403"},
		{"a stranger", w.Token("eve", "repo"), "not found", "not found"},
		{"an App that reads", app.Token(), "", "403"},
	} {
		remote := w.remote(c.token)
		if c.token == "" {
			remote = w.repo.CloneURL()
		}
		out, err := w.run(t.TempDir(), "ls-remote", remote)
		check(t, c.who+" fetches", out, err, c.fetch)
		out, err = w.run(w.repo.Dir(), "push", remote, "feature:refs/heads/mine")
		check(t, c.who+" pushes", out, err, c.push)
	}
	ours := app.Token()
	w.Pass(3_600e9)
	out, err := w.run(t.TempDir(), "ls-remote", w.remote(ours))
	check(t, "an expired token", out, err, "Invalid username or token")
}

func check(t *testing.T, what, out string, err error, expected string) {
	t.Helper()
	if (err == nil) != (expected == "") || !strings.Contains(out, expected) {
		t.Errorf("%s: got %v %q, want %q", what, err, out, expected)
	}
}
