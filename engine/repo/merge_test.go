package repo_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/repo/repotest"
	"github.com/slipway-gitops/slipway/engine/secret"
)

// fork is a repository with a branch and a proposal that part at one commit.
func fork(t testing.TB, start, branch, proposal func(*repotest.Repo)) (r repo.Remote, g *repotest.Repo, base, head string) {
	t.Helper()
	g = repotest.Init(t)
	start(g)
	g.Commit("start")
	g.Git("checkout", "-q", "-b", "proposal")
	proposal(g)
	head = g.Commit("proposal")
	g.Git("update-ref", "refs/pull/7/head", head)
	g.Git("checkout", "-q", "main")
	branch(g)
	base = g.Commit("branch")
	r, err := repo.New(g.Dir, secret.Value{}, "")
	if err != nil {
		t.Fatal(err)
	}
	return r, g, base, head
}

func merged(t testing.TB, r repo.Remote, base, head string) repo.Merged {
	t.Helper()
	store := whole(t, r)
	m, err := store.Merge(base, head)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// whole is a store with the branch and the proposal.
func whole(t testing.TB, r repo.Remote) *repo.Store {
	t.Helper()
	store, err := repo.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	base, err := r.FetchWhole(t.Context(), store, "refs/heads/main")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.FetchWhole(t.Context(), store, "refs/pull/7/head", base); err != nil {
		t.Fatal(err)
	}
	return store
}

func start(g *repotest.Repo) {
	for _, name := range []string{"a.cue", "b.cue", "c.cue", "deep/er/d.cue", "deep/er/e.cue", "kind"} {
		g.Write(name, name+"\n")
	}
	g.Write("lines", "1\n2\n3\n4\n5\n6\n")
}

func remove(name string) func(*repotest.Repo) {
	return func(g *repotest.Repo) { g.Git("rm", "-rq", name) }
}

func write(name, content string) func(*repotest.Repo) {
	return func(g *repotest.Repo) { g.Write(name, content) }
}

func link(name, to string) func(*repotest.Repo) {
	return func(g *repotest.Repo) {
		if err := errors.Join(os.RemoveAll(filepath.Join(g.Dir, name)), os.Symlink(to, filepath.Join(g.Dir, name))); err != nil {
			panic(err)
		}
	}
}

func executable(name string) func(*repotest.Repo) {
	return func(g *repotest.Repo) {
		if err := os.Chmod(filepath.Join(g.Dir, name), 0o700); err != nil {
			panic(err)
		}
	}
}

func all(does ...func(*repotest.Repo)) func(*repotest.Repo) {
	return func(g *repotest.Repo) {
		for _, do := range does {
			do(g)
		}
	}
}

// What only one side changed, and what both changed alike, merges as git does
// it.
func TestMergeIsGits(t *testing.T) {
	for name, c := range map[string]struct{ branch, proposal func(*repotest.Repo) }{
		"other files":          {write("a.cue", "branch\n"), write("b.cue", "proposal\n")},
		"other folders":        {write("deep/er/d.cue", "branch\n"), write("deep/new/x.cue", "proposal\n")},
		"the same":             {all(write("a.cue", "same\n"), write("n", "new\n")), all(write("a.cue", "same\n"), write("b.cue", "x\n"), write("n", "new\n"))},
		"both removed":         {all(remove("a.cue"), write("b.cue", "x\n")), all(remove("a.cue"), write("c.cue", "x\n"))},
		"removed folder":       {write("a.cue", "x\n"), remove("deep")},
		"all of a folder":      {remove("deep/er/d.cue"), remove("deep/er/e.cue")},
		"file becomes folder":  {write("a.cue", "x\n"), all(remove("kind"), write("kind/of", "folder\n"))},
		"folder becomes file":  {write("a.cue", "x\n"), all(remove("deep"), write("deep", "file\n"))},
		"emptied and replaced": {remove("deep/er/d.cue"), all(remove("deep"), write("deep", "file\n"))},
		"link and mode":        {link("a.cue", "b.cue"), executable("c.cue")},
		"content and mode":     {write("kind", "branch\n"), executable("kind")},
		"lines of one file":    {write("lines", "1\nbranch\n3\n4\n5\n6\n"), write("lines", "1\n2\n3\n4\n5\nproposal\n")},
		"the same lines":       {write("lines", "1\nsame\n3\n4\n5\n6\n"), write("lines", "1\nsame\n3\n4\n5\nproposal\n")},
		"an empty file":        {write("new", ""), write("new", "content\n")},
	} {
		t.Run(name, func(t *testing.T) {
			r, g, base, head := fork(t, start, c.branch, c.proposal)
			m := merged(t, r, base, head)
			want := g.Git("-c", "merge.renames=false", "merge-tree", "--write-tree", base, head)
			if len(m.Conflicts) > 0 || m.ID != want {
				t.Fatalf("got %s %v, git has %s", m.ID, m.Conflicts, want)
			}
			if got, want := listing(t, m.Files), strings.Split(g.Git("ls-tree", "-r", "--name-only", want), "\n"); !slices.Equal(got, want) {
				t.Errorf("files %v, git has %v", got, want)
			}
		})
	}
}

// listing lists all files in git's order, and reads the regular ones.
func listing(t *testing.T, files fs.FS) (names []string) {
	err := fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		names = append(names, name)
		if e.Type().IsRegular() {
			_, err = fs.ReadFile(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func TestConflictsAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		branch, proposal func(*repotest.Repo)
		want             string
	}{
		"modify/modify": {write("deep/er/d.cue", "branch\n"), write("deep/er/d.cue", "proposal\n"), "deep/er/d.cue: both sides changed it at the same lines, or next to each other's (on the branch: line 1)"},
		"modify/delete": {write("a.cue", "branch\n"), remove("a.cue"), "a.cue: it was changed on the branch and removed or renamed in the proposal"},
		"delete/modify": {remove("a.cue"), write("a.cue", "proposal\n"), "a.cue: it was changed in the proposal and removed or renamed on the branch"},
		"add/add":       {write("new", "branch\n"), write("new", "proposal\n"), "new: both sides added it, with different content"},
		"mode":          {executable("kind"), link("kind", "a.cue"), "kind: both sides changed it, and what kind of file it is"},
		"binary":        {write("kind", "\x00a"), write("kind", "\x00b"), "kind: both sides changed it, and it is binary"},
		"renamed":       {all(remove("a.cue"), write("z.cue", "a.cue\nmore\n")), write("a.cue", "changed\na.cue\n"), "a.cue: it was changed in the proposal and removed or renamed on the branch"},
		"moved":         {write("a.cue", "changed\na.cue\n"), all(remove("a.cue"), write("z.cue", "a.cue\nmore\n")), "a.cue: it was changed on the branch and removed or renamed in the proposal"},
		"file/folder":   {write("new", "file\n"), write("new/in", "folder\n"), "new: it is a file on one side and a folder on the other"},
		"folder kept":   {write("deep/x", "new\n"), all(remove("deep"), write("deep", "file\n")), "deep: it is a file on one side and a folder on the other"},
		"became folder": {write("kind", "branch\n"), all(remove("kind"), write("kind/of", "folder\n")), "kind: it is a file on one side and a folder on the other"},
		"link":          {link("kind", "a.cue"), link("kind", "b.cue"), "kind: both sides changed it"},
		"folder":        {write("deep/er/d.cue", "branch\n"), remove("deep"), "deep/er/d.cue: it was changed on the branch and removed or renamed in the proposal"},
	} {
		t.Run(name, func(t *testing.T) {
			r, g, base, head := fork(t, start, c.branch, c.proposal)
			m := merged(t, r, base, head)
			if m.Files != nil || m.ID != "" || len(m.Conflicts) == 0 || m.Conflicts[0].String() != c.want {
				t.Errorf("got %q %q, want %q", m.ID, m.Conflicts, c.want)
			}
			if name == "renamed" || name == "moved" {
				return // it is a file that Git follows, on by default
			}
			cmd := exec.Command("git", "-C", g.Dir, "-c", "merge.renames=false", "merge-tree", "--write-tree", base, head)
			if out, err := cmd.CombinedOutput(); err == nil {
				t.Errorf("git merges it:\n%s", out)
			}
		})
	}
}

// A branch that was merged into the proposal, and the other way round, has
// more than one commit where the sides parted.
func TestMergeOfSidesThatMet(t *testing.T) {
	g := repotest.Init(t)
	start(g)
	g.Commit("start")
	g.Git("branch", "proposal")
	g.Write("a.cue", "branch\n")
	one := g.Commit("branch")
	g.Git("checkout", "-q", "proposal")
	g.Write("b.cue", "proposal\n")
	two := g.Commit("proposal")
	g.Git("merge", "-q", "-m", "from branch", one)
	g.Write("c.cue", "proposal\n")
	head := g.Commit("more")
	g.Git("update-ref", "refs/pull/7/head", head)
	g.Git("checkout", "-q", "main")
	g.Git("merge", "-q", "-m", "from proposal", two)
	g.Write("kind", "branch\n")
	base := g.Commit("more")
	r := open(t, g.Dir)

	m := merged(t, r, base, head)
	if want := g.Git("merge-tree", "--write-tree", base, head); m.ID != want {
		t.Errorf("got %s %v, git has %s", m.ID, m.Conflicts, want)
	}

	// Each took the other's file back to what it was: a change of the branch.
	g.Write("b.cue", "b.cue\n")
	base = g.Commit("taken back")
	m = merged(t, r, base, head)
	if want := g.Git("merge-tree", "--write-tree", base, head); m.ID != want {
		t.Errorf("got %s %v, git has %s", m.ID, m.Conflicts, want)
	}
}

func TestMergeOfWhatIsInTheOther(t *testing.T) {
	g := repotest.Init(t)
	start(g)
	first := g.Commit("start")
	g.Write("a.cue", "x\n")
	second := g.Commit("more")
	g.Git("update-ref", "refs/pull/7/head", first)
	store := whole(t, open(t, g.Dir))
	for _, c := range [][2]string{{first, second}, {second, first}, {second, second}} {
		if m, err := store.Merge(c[0], c[1]); err != nil || m.ID != g.Git("rev-parse", second+"^{tree}") || m.Done != (c[0] == second) {
			t.Errorf("%v: got %s %t %v", c, m.ID, m.Done, err)
		}
	}
}

func TestWhatCannotBeMerged(t *testing.T) {
	g := repotest.Init(t)
	start(g)
	g.Commit("start")
	g.Git("checkout", "-q", "--orphan", "elsewhere")
	g.Write("a.cue", "other\n")
	stranger := g.Commit("stranger")
	g.Git("update-ref", "refs/pull/7/head", stranger)
	g.Git("checkout", "-q", "main")
	g.Write("c.cue", "x\n")
	base := g.Commit("more")
	r := open(t, g.Dir)
	if _, err := whole(t, r).Merge(base, stranger); !errors.Is(err, repo.ErrUnrelated) {
		t.Errorf("strangers: %v", err)
	}

	shallow := openStore(t, "")
	if _, err := r.Fetch(t.Context(), shallow, "main", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := r.FetchWhole(t.Context(), shallow, "refs/pull/7/head"); err != nil {
		t.Fatal(err)
	}
	if _, err := shallow.Merge(base, stranger); !errors.Is(err, repo.ErrShallow) {
		t.Errorf("shallow: %v", err)
	}
	if _, err := r.FetchWhole(t.Context(), shallow, "refs/pull/8/head"); !errors.Is(err, repo.ErrNoBranch) {
		t.Errorf("no such proposal: %v", err)
	}
}

// A thousand conflicts are counted, and some of them named.
func TestManyConflicts(t *testing.T) {
	each := func(content string) func(*repotest.Repo) {
		return func(g *repotest.Repo) {
			for i := range 300 {
				g.Write(fmt.Sprintf("n/%03d", i), content)
			}
		}
	}
	r, _, base, head := fork(t, start, each("one"), each("other"))
	m := merged(t, r, base, head)
	if len(m.Conflicts) != repo.MaxConflicts || m.More != 200 || m.Conflicts[0].Path != "n/000" {
		t.Errorf("%d conflicts and %d more, the first %v", len(m.Conflicts), m.More, m.Conflicts[0])
	}
}

// Files are merged by lines within bounds; beyond them there is a conflict.
func TestMergeOfLargeFiles(t *testing.T) {
	many := func(first, last string) func(*repotest.Repo) {
		return func(g *repotest.Repo) {
			g.Write("bytes", first+strings.Repeat("0123456789\n", 420_000)+last)
			g.Write("lines", first+strings.Repeat("\n", 120_000)+last)
			g.Write("changes", first+strings.Repeat("a\nb\n", 2000)+last)
		}
	}
	alike := func(g *repotest.Repo) {
		many("", "x\n")(g)
		g.Write("changes", strings.Repeat("b\na\na\nb\nb\nb\n", 1400))
	}
	r, _, base, head := fork(t, many("", ""), many("x\n", ""), alike)
	var got []string
	for _, c := range merged(t, r, base, head).Conflicts {
		got = append(got, c.String())
	}
	want := []string{
		"bytes: both sides changed it, and it is larger than the 4 MiB or 100000 lines that are merged by lines",
		"changes: both sides changed it, and comparing its lines would take too long",
		"lines: both sides changed it, and it is larger than the 4 MiB or 100000 lines that are merged by lines",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// A tree that has itself in it many times over is not read to its end.
func TestMergeOfATreeThatExplodes(t *testing.T) {
	g := repotest.Init(t)
	start(g)
	g.Commit("start")
	bomb := func(leaf string) string {
		id := g.GitInput(leaf, "hash-object", "-w", "--stdin")
		entry := "100644 blob " + id + "\tf\n"
		for range 8 {
			tree := g.GitInput(entry, "mktree")
			entry = ""
			for i := range 10 {
				entry += fmt.Sprintf("040000 tree %s\t%d\n", tree, i)
			}
		}
		return g.Git("commit-tree", "-p", "HEAD", "-m", "bomb", g.GitInput(entry, "mktree"))
	}
	base, head := bomb("one"), bomb("other")
	g.Git("update-ref", "refs/heads/main", base)
	g.Git("update-ref", "refs/pull/7/head", head)
	_, err := whole(t, open(t, g.Dir)).Merge(base, head)
	if err == nil || !strings.Contains(err.Error(), "propose it in smaller parts") {
		t.Errorf("got %v", err)
	}
}
