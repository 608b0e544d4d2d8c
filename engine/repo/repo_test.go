package repo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/repo/repotest"
	"github.com/slipway-gitops/slipway/engine/secret"
)

func TestNewSaysWhatToPass(t *testing.T) {
	const token = "ghp_t0psecret"
	key := secret.New("", repotest.Key(t).Private)
	known := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(known, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, address string
		credential    secret.Value
		known         string
		want          string
	}{
		{"nothing", "", secret.Value{}, "", "pass a path"},
		{"scp form", "git@git.example.org:team/site.git", key, known, "write ssh://git@git.example.org/team/site.git"},
		{"scp form with a token", token + "@git.example.org:team/site.git", key, known, "write ssh://USER@git.example.org/team/site.git"},
		{"https with a token", "https://" + token + "@git.example.org/site.git", key, known, "carries a user or a token"},
		{"https without a path", "https://git.example.org", key, "", "write https://host[:port]/path"},
		{"http", "http://git.example.org/site.git", key, "", "use https://"},
		{"git protocol", "git://git.example.org/site.git", key, known, "git:// is not supported"},
		{"no key", "ssh://git@git.example.org/site.git", secret.Value{}, known, "no private key is given"},
		{"no known_hosts", "ssh://git@git.example.org/site.git", key, "", "no known_hosts file is given"},
		{"known_hosts gone", "ssh://git@git.example.org/site.git", key, known + "x", "no such file"},
		{"password", "ssh://git:" + token + "@git.example.org/site.git", key, known, "carries a password"},
		{"no path", "ssh://git.example.org", key, known, "write ssh://[user@]host[:port]/path"},
		{"no key at all", "ssh://git.example.org/x", secret.New("", token), known, "not a private key in PEM form"},
		{"other host's file", "file://elsewhere/srv/site.git", secret.Value{}, "", "three slashes"},
		{"broken URL", "ssh://" + token + "@host:port/%zz", key, known, "not a URL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := repo.New(c.address, c.credential, c.known)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
			if strings.Contains(err.Error(), token) {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestPrintingShowsNoKey(t *testing.T) {
	g := repotest.Init(t)
	r := repotest.ServeSSH(t, false).Remote(t, g)
	around := struct{ remote repo.Remote }{r}
	for _, s := range []string{r.String(), fmt.Sprintf("%+v %#v", r, r), fmt.Sprintf("%+v %#v", around, around)} {
		if strings.Contains(s, "PRIVATE KEY") {
			t.Errorf("the key is shown: %s", s)
		}
	}
}

// TestHungHookIsLeft: a push whose hook never ends, and whose pipes its child
// holds, is over with the context.
func TestHungHookIsLeft(t *testing.T) {
	g := repotest.Init(t)
	g.Commit("one")
	pid := filepath.Join(t.TempDir(), "pid")
	hook := filepath.Join(g.Dir, ".git/hooks/pre-receive")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\nsleep 600 &\necho $! >"+pid+"\nwait\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if data, err := os.ReadFile(pid); err == nil {
			_ = exec.Command("kill", strings.TrimSpace(string(data))).Run()
		}
	})
	r := open(t, g.Dir)
	tree := fetched(t, r, "main")
	if err := tree.Set("ours", []byte("x")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	begun := time.Now()
	_, err := r.Push(ctx, "main", tree, message("ours"))
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 10*time.Second {
		t.Errorf("got %v after %s, want a deadline", err, time.Since(begun))
	}
}

// TestTransports runs the whole life of a branch over each transport.
func TestTransports(t *testing.T) {
	for name, serve := range transports {
		t.Run(name, func(t *testing.T) {
			g := repotest.Init(t)
			g.Write("site.cue", "package site\n")
			first := g.Commit("first")
			lifeOfABranch(t, g, serve(t, g), first)
		})
	}
}

var transports = map[string]func(*testing.T, *repotest.Repo) repo.Remote{
	"path": func(t *testing.T, g *repotest.Repo) repo.Remote { return open(t, g.Dir) },
	"file": func(t *testing.T, g *repotest.Repo) repo.Remote { return open(t, "file://"+g.Dir) },
	"ssh": func(t *testing.T, g *repotest.Repo) repo.Remote {
		return repotest.ServeSSH(t, false).Remote(t, g)
	},
	"ssh, protocol 2": func(t *testing.T, g *repotest.Repo) repo.Remote {
		return repotest.ServeSSH(t, true).Remote(t, g)
	},
	"https": func(t *testing.T, g *repotest.Repo) repo.Remote {
		return repotest.ServeHTTPS(t, g).Remote(t)
	},
}

func lifeOfABranch(t *testing.T, g *repotest.Repo, r repo.Remote, first string) {
	ctx := t.Context()
	if got, err := r.Head(ctx, "main"); err != nil || got != first {
		t.Fatalf("Head is %q, %v, want %q", got, err, first)
	}
	store := openStore(t, t.TempDir())
	if got, err := r.Fetch(ctx, store, "main", ""); err != nil || got != first {
		t.Fatalf("Fetch is %q, %v, want %q", got, err, first)
	}
	g.Write("racks/r1.cue", "package racks\n")
	second := g.Commit("second")
	if got, err := r.Fetch(ctx, store, "main", first); err != nil || got != second {
		t.Fatalf("Fetch is %q, %v, want %q", got, err, second)
	}
	if ok, err := store.Descends(second, first); err != nil || !ok {
		t.Errorf("Descends is %v, %v, want true", ok, err)
	}
	files, err := store.Files(second)
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(files, "site.cue", "racks/r1.cue"); err != nil {
		t.Error(err)
	}

	tree, err := store.Tree(second)
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Set("racks/r2.cue", []byte("package racks\n")); err != nil {
		t.Fatal(err)
	}
	third, err := r.Push(ctx, "main", tree, message("third"))
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Git("ls-tree", "-r", "--name-only", third); got != "racks/r1.cue\nracks/r2.cue\nsite.cue" {
		t.Errorf("the branch has\n%s", got)
	}
	if got := g.Git("rev-parse", "main", "main~1"); got != third+"\n"+second {
		t.Errorf("main and its parent are\n%s\nwant\n%s\n%s", got, third, second)
	}
	g.Git("fsck", "--strict")
}

func TestRewriteIsSeen(t *testing.T) {
	g := repotest.Init(t)
	root := g.Commit("root")
	old := g.Commit("reviewed")
	r, store := open(t, g.Dir), openStore(t, "")
	if _, err := r.Fetch(t.Context(), store, "main", ""); err != nil {
		t.Fatal(err)
	}
	g.Git("reset", "-q", "--hard", root)
	rewritten := g.Commit("slipped in")
	if _, err := r.Fetch(t.Context(), store, "main", old); err != nil {
		t.Fatal(err)
	}
	if ok, err := store.Descends(rewritten, old); err != nil || ok {
		t.Errorf("Descends is %v, %v, want false", ok, err)
	}
}

// TestLostStore: the commit in force is known, but not its objects.
func TestLostStore(t *testing.T) {
	g := repotest.Init(t)
	old := g.Commit("one")
	g.Commit("two")
	head := g.Commit("three")
	r, store := open(t, g.Dir), openStore(t, "")
	if _, err := r.Fetch(t.Context(), store, "main", old); err != nil {
		t.Fatal(err)
	}
	if ok, err := store.Descends(head, old); err != nil || !ok {
		t.Errorf("Descends is %v, %v, want true", ok, err)
	}
}

// A fetch that was cut off between its objects and the note that their history
// is not there does not have the server leave out what is in that history.
func TestFetchThatWasCutOff(t *testing.T) {
	g := repotest.Init(t)
	g.Write("n.cue", "n: 1\n")
	g.Commit("one")
	g.Write("n.cue", "n: 2\n")
	two := g.Commit("two")
	dir := t.TempDir()
	r, store := open(t, g.Dir), openStore(t, dir)
	note := filepath.Join(dir, "shallow")
	if err := os.Mkdir(note, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Fetch(t.Context(), store, "main", ""); err == nil {
		t.Fatal("the note was not needed")
	}
	if err := os.Remove(note); err != nil {
		t.Fatal(err)
	}
	if store = openStore(t, dir); !store.Has(two) {
		if _, err := r.Fetch(t.Context(), store, "main", ""); err != nil {
			t.Fatal(err)
		}
	}
	g.Write("n.cue", "n: 1\n")
	back := g.Commit("one again")
	g.Git("repack", "-qadb") // with bitmaps a server leaves out all that is reachable
	if _, err := r.Fetch(t.Context(), store, "main", two); err != nil {
		t.Fatal(err)
	}
	files, err := store.Files(back)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := fs.ReadFile(files, "n.cue"); err != nil || string(data) != "n: 1\n" {
		t.Errorf("n.cue is %q, %v", data, err)
	}
}

// The commit in force is replaced, and at no moment is there none: without one
// a rewritten branch is not seen.
func TestCommitInForceIsReplacedAsAWhole(t *testing.T) {
	dir := t.TempDir()
	store := openStore(t, dir)
	for _, branch := range []string{"main", "site/a"} {
		var before *os.File
		for _, id := range []string{strings.Repeat("1", 40), strings.Repeat("2", 40)} {
			if err := store.Accept(branch, id); err != nil {
				t.Fatal(err)
			}
			if got, err := openStore(t, dir).Accepted(branch); err != nil || got != id {
				t.Errorf("%s: Accepted is %q, %v, want %q", branch, got, err, id)
			}
			if before == nil {
				f, err := os.Open(filepath.Join(dir, "refs/slipway/followed", branch))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				before = f
			}
		}
		if was, err := io.ReadAll(before); err != nil || string(was) != strings.Repeat("1", 40)+"\n" {
			t.Errorf("%s: what was there became %q, %v", branch, was, err)
		}
	}
}

func TestFilesThatAreNone(t *testing.T) {
	g := repotest.Init(t)
	g.Write("a.cue", "package a\n")
	if err := os.Symlink("/etc/passwd", filepath.Join(g.Dir, "link.cue")); err != nil {
		t.Fatal(err)
	}
	sub := g.Commit("a link")
	g.Git("update-index", "--add", "--cacheinfo", "160000,"+sub+",module")
	g.Git("commit", "-q", "-m", "a submodule")
	head := g.Git("rev-parse", "HEAD")
	r, store := open(t, g.Dir), openStore(t, "")
	if _, err := r.Fetch(t.Context(), store, "main", ""); err != nil {
		t.Fatal(err)
	}
	files, err := store.Files(head)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]fs.FileMode{}
	for _, e := range entries {
		got[e.Name()] = e.Type()
	}
	if got["a.cue"] != 0 || got["link.cue"] != fs.ModeSymlink || got["module"] != fs.ModeIrregular {
		t.Errorf("modes are %v", got)
	}
	for _, name := range []string{"link.cue", "module", "link.cue/x", "../a.cue", "/a.cue"} {
		if _, err := fs.ReadFile(files, name); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	if data, err := fs.ReadFile(files, "a.cue"); err != nil || string(data) != "package a\n" {
		t.Errorf("a.cue is %q, %v", data, err)
	}
}

func TestStoreSurvivesARestartAndPacksItself(t *testing.T) {
	g := repotest.Init(t)
	r, dir := open(t, g.Dir), t.TempDir()
	store := openStore(t, dir)
	var first, base string
	for i := range 40 {
		g.Write("n.cue", fmt.Sprintf("n: %d\n", i))
		head := g.Commit("n")
		if _, err := r.Fetch(t.Context(), store, "main", base); err != nil {
			t.Fatal(err)
		}
		if err := store.Accept("main", head); err != nil {
			t.Fatal(err)
		}
		if base == "" {
			first = head
		}
		base = head
	}
	packs, err := filepath.Glob(filepath.Join(dir, "objects/pack/*.pack"))
	if err != nil || len(packs) == 0 || len(packs) > 32 {
		t.Errorf("%d packs, %v", len(packs), err)
	}
	for name, s := range map[string]*repo.Store{"same": store, "reopened": openStore(t, dir)} {
		if got, err := s.Accepted("main"); err != nil || got != base {
			t.Errorf("%s: Accepted is %q, %v, want %q", name, got, err, base)
		}
		for id, want := range map[string]string{first: "n: 0\n", base: "n: 39\n"} {
			files, err := s.Files(id)
			if err != nil {
				t.Fatal(err)
			}
			if data, err := fs.ReadFile(files, "n.cue"); err != nil || string(data) != want {
				t.Errorf("%s: n.cue is %q, %v, want %q", name, data, err, want)
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "incoming-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPushLosesARace(t *testing.T) {
	g := repotest.Init(t)
	g.Commit("one")
	r := open(t, g.Dir)
	tree := fetched(t, r, "main")
	theirs := g.Commit("theirs")
	if err := tree.Set("ours", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Push(t.Context(), "main", tree, message("ours")); !errors.Is(err, repo.ErrMoved) {
		t.Errorf("got %v, want ErrMoved", err)
	}
	if got := g.Git("rev-parse", "main"); got != theirs {
		t.Errorf("main is %s, want %s", got, theirs)
	}
}

func TestPushIsRefusedByAHook(t *testing.T) {
	g := repotest.Init(t)
	g.Commit("one")
	hook := filepath.Join(g.Dir, ".git/hooks/update")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\necho no >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := open(t, g.Dir)
	tree := fetched(t, r, "main")
	if err := tree.Set("ours", []byte("x")); err != nil {
		t.Fatal(err)
	}
	_, err := r.Push(t.Context(), "main", tree, message("ours"))
	if err == nil || errors.Is(err, repo.ErrMoved) || !strings.Contains(err.Error(), "hook declined") {
		t.Errorf("got %v, want that the hook declined", err)
	}
}

func TestTreeChangesAlongPathsOnly(t *testing.T) {
	g := repotest.Init(t)
	for _, name := range []string{"a/b/c", "a/b/d", "a/e", "f", "a-b", "a.b/x"} {
		g.Write(name, name)
	}
	g.Commit("files")
	r := open(t, g.Dir)
	tree := fetched(t, r, "main")
	for _, name := range []string{"a/b/c", "f"} {
		if err := tree.Set(name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if tree.Changed() {
		t.Error("setting the same content changed the tree")
	}
	for _, name := range []string{"a/b/c", "a/b/d", "no/such", "a/nor"} {
		if err := tree.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"f/now/a/folder", "z"} {
		if err := tree.Set(name, []byte("new")); err != nil {
			t.Fatal(err)
		}
	}
	if err := tree.Set("../out", nil); err == nil {
		t.Error("a path out of the repository was taken")
	}
	id, err := r.Push(t.Context(), "main", tree, message("surgery"))
	if err != nil {
		t.Fatal(err)
	}
	want := "a-b\na.b/x\na/e\nf/now/a/folder\nz"
	if got := g.Git("ls-tree", "-r", "--name-only", id); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, err := tree.Walk("."); err != nil || !slices.Equal(got, strings.Split("a-b a.b/x a/e f/now/a/folder z", " ")) {
		t.Errorf("Walk is %v, %v", got, err)
	}
	g.Git("fsck", "--strict")
}

func TestWhatCannotBeReached(t *testing.T) {
	g := repotest.Init(t)
	g.Commit("one")
	empty := t.TempDir()
	for name, c := range map[string]struct {
		remote repo.Remote
		want   string
	}{
		"no such folder":  {open(t, filepath.Join(empty, "gone.git")), "no Git repository"},
		"no repository":   {open(t, empty), "no Git repository"},
		"nobody listens":  {ssh(t, g, func(s *repotest.SSH) { s.Address = repotest.FreeAddress(t) }), "refused"},
		"other host key":  {ssh(t, g, func(s *repotest.SSH) { s.HostKey = repotest.Key(t).Public }), "not the one in"},
		"unknown host":    {ssh(t, g, func(s *repotest.SSH) { s.HostKey = "" }), "is not in"},
		"key not allowed": {ssh(t, g, func(s *repotest.SSH) { s.ClientKey = repotest.Key(t).Private }), "refused the key"},
		"vanished": {ssh(t, g, func(s *repotest.SSH) {
			moved := g.Dir + ".moved"
			if err := os.Rename(g.Dir, moved); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Rename(moved, g.Dir) })
		}), "no Git repository"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.remote.Head(t.Context(), "main")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// TestSilentServerIsLeft: a server that accepts and says nothing holds nobody
// longer than the context.
func TestSilentServerIsLeft(t *testing.T) {
	address := repotest.Silent(t)
	g := repotest.Init(t)
	r := ssh(t, g, func(s *repotest.SSH) { s.Address = address })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := r.Head(ctx, "main")
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "does not answer in time") {
		t.Errorf("got %v, want a deadline", err)
	}
}

func TestLargeFileIsRefused(t *testing.T) {
	g := repotest.Init(t)
	g.Write("disk.img", string(bytes.Repeat([]byte{0}, repo.MaxObject+1)))
	g.Commit("an image")
	store := openStore(t, "")
	_, err := open(t, g.Dir).Fetch(t.Context(), store, "main", "")
	if err == nil || !strings.Contains(err.Error(), "keep images and other large files elsewhere") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func open(t *testing.T, address string) repo.Remote {
	t.Helper()
	r, err := repo.New(address, secret.Value{}, "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ssh(t *testing.T, g *repotest.Repo, change func(*repotest.SSH)) repo.Remote {
	t.Helper()
	s := repotest.ServeSSH(t, false)
	change(s)
	return s.Remote(t, g)
}

func openStore(t *testing.T, dir string) *repo.Store {
	t.Helper()
	s, err := repo.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fetched(t *testing.T, r repo.Remote, branch string) *repo.Tree {
	t.Helper()
	store := openStore(t, "")
	id, err := r.Fetch(t.Context(), store, branch, "")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := store.Tree(id)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func message(text string) repo.Message {
	return repo.Message{Text: text, When: time.Unix(1_700_000_000, 0), Author: "slipway", Email: "slipway@localhost"}
}
