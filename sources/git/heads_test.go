package git_test

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/repo/repotest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sources/git"
)

func heads(t *testing.T, g *repotest.Repo, dir string) *git.Heads {
	t.Helper()
	remote, err := repo.New(g.Dir, secret.Value{}, "")
	if err != nil {
		t.Fatal(err)
	}
	h, err := git.NewHeads(git.HeadsConfig{Remote: remote, Branch: "main", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func look(t *testing.T, h *git.Heads, inForce string) site.CommitList {
	t.Helper()
	list, err := h.Look(t.Context(), inForce)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// branch commits on a branch of its own, from a commit on, and goes back to main.
func branch(g *repotest.Repo, name, from, file, content string) string {
	g.Git("checkout", "-q", "-B", name, from)
	g.Write(file, content)
	id := g.Commit("on " + name)
	g.Git("checkout", "-q", "main")
	return id
}

// inShort is a list as "subject branches flags".
func inShort(list site.CommitList) (all []string) {
	for _, c := range list.Commits {
		text := c.Subject + " " + strings.Join(c.Branches, ",")
		for flag, is := range map[string]bool{"+": c.Followed, "-": c.Lacks, "!": c.Problem != ""} {
			if is {
				text += flag
			}
		}
		all = append(all, text)
	}
	return all
}

// What can be planned are the commits of the followed branch that are newer than the revision in force, and the heads of
// branches that it does not have.
func TestHeadsAreThoseThatAreNotInForce(t *testing.T) {
	g := repotest.Init(t)
	g.Write("a", "1\n")
	first := g.Commit("first")
	early := branch(g, "early", first, "b", "early\n")
	g.Write("a", "2\n")
	second := g.Commit("second")
	ahead := branch(g, "rack/new", second, "b", "new\n")
	g.Git("branch", "same", ahead)
	g.Git("branch", "merged", first)
	g.Git("branch", "slipway/status/berlin", ahead)
	g.Write("a", "3\n")
	g.Commit("third")
	g.Write("a", "4\n")
	fourth := g.Commit("fourth")
	for _, dir := range []string{"", t.TempDir()} {
		h := heads(t, g, dir)
		list := look(t, h, second)
		want := []string{"fourth main+", "third +", "on early early-", "on rack/new rack/new,same"}
		got := inShort(list)
		slices.Sort(got[2:]) // within one second
		if !slices.Equal(got, want) || list.InForce != second || list.Branch != "main" || list.Looked.IsZero() {
			t.Errorf("got %q", got)
		}
		for _, id := range []string{fourth, early, ahead} {
			rev, err := h.Revision(t.Context(), id)
			if err != nil || rev.ID != id || rev.Author != "Ada" {
				t.Fatalf("%v, %v", rev, err)
			}
			if _, err := fs.ReadFile(rev.Files, "a"); err != nil {
				t.Error(err)
			}
		}
		if _, err := h.Revision(t.Context(), strings.Repeat("0", 40)); !errors.Is(err, site.ErrNotFound) {
			t.Errorf("a commit of no branch: %v", err)
		}
		if got := inShort(look(t, h, fourth)); len(got) != 2 {
			t.Errorf("all of main is in force: %q", got)
		}
		if got := inShort(look(t, h, "")); !slices.Contains(got, "fourth main+") || slices.Contains(got, "third +") || strings.Contains(strings.Join(got, ""), "-") {
			t.Errorf("before a design is in force: %q", got)
		}
		if got := inShort(look(t, h, strings.Repeat("1", 40))); got[0] != "fourth main+-" && got[0] != "fourth main-+" {
			t.Errorf("a revision in force that is gone: %q", got)
		}
	}
}

// A branch that moves, goes or comes is seen at the next look.
func TestHeadsMove(t *testing.T) {
	g := repotest.Init(t)
	g.Write("a", "1\n")
	first := g.Commit("first")
	h := heads(t, g, t.TempDir())
	if got := inShort(look(t, h, first)); len(got) != 0 {
		t.Errorf("nothing is new: %q", got)
	}
	was := branch(g, "one", first, "b", "1\n")
	if list := look(t, h, first); len(list.Commits) != 1 || list.Commits[0].ID != was {
		t.Errorf("it came: %q", inShort(list))
	}
	now := branch(g, "one", first, "b", "2\n")
	if list := look(t, h, first); len(list.Commits) != 1 || list.Commits[0].ID != now {
		t.Errorf("it moved: %q", inShort(list))
	}
	g.Git("branch", "-q", "-D", "one")
	if got := inShort(look(t, h, first)); len(got) != 0 {
		t.Errorf("it is gone: %q", got)
	}
	g.Git("branch", "-q", "-m", "main", "other")
	if _, err := h.Look(t.Context(), first); !errors.Is(err, repo.ErrNoBranch) {
		t.Errorf("the followed branch is gone: %v", err)
	}
}

// However many branches there are, a look has bounds, and says what it leaves out.
func TestHeadsHaveBounds(t *testing.T) {
	g := repotest.Init(t)
	g.Write("a", "1\n")
	first := g.Commit("first")
	for i := range 60 {
		g.Git("commit", "-q", "--allow-empty", "-m", fmt.Sprint("newer ", i))
	}
	var refs strings.Builder
	for i := range 230 {
		id := g.Git("commit-tree", "-m", fmt.Sprint("head ", i), "-p", first, first+"^{tree}")
		fmt.Fprintf(&refs, "create refs/heads/b%03d %s\n", i, strings.TrimSpace(id))
	}
	g.GitInput(refs.String(), "update-ref", "--stdin")
	h := heads(t, g, "")
	list := look(t, h, first)
	if list.NewerLeftOut != 10 || list.BranchesLeftOut != 30 || len(list.Commits) != 250 || list.Commits[0].Subject != "newer 59" {
		t.Fatalf("%d commits, %d newer and %d branches left out, first %q", len(list.Commits), list.NewerLeftOut, list.BranchesLeftOut, list.Commits[0].Subject)
	}
	waits := 0
	for _, c := range list.Commits {
		if strings.HasPrefix(c.Problem, "it is not fetched yet") {
			waits++
		}
	}
	if waits != 180 {
		t.Errorf("%d branches wait to be fetched", waits)
	}
	for range 9 {
		list = look(t, h, first)
	}
	for _, c := range list.Commits {
		if c.Problem != "" {
			t.Fatalf("%v: %s", c.Branches, c.Problem)
		}
	}
}

// A branch that cannot be fetched, and one with a hostile name, keep nobody from the others.
func TestHostileHeads(t *testing.T) {
	g := repotest.Init(t)
	g.Write("a", "1\n")
	first := g.Commit("first")
	branch(g, "fine", first, "b", "1\n")
	branch(g, "evil\u202e<script>", first, "b", "2\n")
	branch(g, "large", first, "large", strings.Repeat("x", repo.MaxObject+1))
	list := look(t, heads(t, g, t.TempDir()), first)
	got := inShort(list)
	if len(got) != 3 || !slices.Contains(got, "on fine fine") || !slices.ContainsFunc(list.Commits, func(c site.Commit) bool {
		return slices.Equal(c.Branches, []string{"large"}) && strings.Contains(c.Problem, "could not be fetched") && strings.Contains(c.Problem, "MiB are refused")
	}) {
		t.Errorf("got %q", got)
	}
	for _, c := range list.Commits {
		if strings.Contains(c.Branches[0]+c.Problem, "\u202e") {
			t.Errorf("%q is not printable", c.Branches[0])
		}
	}
}

// The history of a branch that has nothing in common with the design, such as one of web pages, is read once, and not at each look.
func TestLongHistoryIsReadOnce(t *testing.T) {
	g := repotest.Init(t)
	g.Write("a", "1\n")
	first := g.Commit("first")
	var pages strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&pages, "commit refs/heads/pages\ncommitter Ada <ada@example.org> %d +0000\ndata 1\nx\n", 1700000000+i)
	}
	g.GitInput(pages.String(), "fast-import", "--quiet")
	for i := 1; i < 10; i++ {
		g.Git("update-ref", fmt.Sprintf("refs/heads/pages%d", i), fmt.Sprintf("pages~%d", i))
	}
	h := heads(t, g, t.TempDir())
	var took [2]time.Duration
	for i := range took {
		began := time.Now()
		list := look(t, h, first)
		took[i] = time.Since(began)
		if len(list.Commits) != 10 || !list.Commits[0].Lacks {
			t.Errorf("look %d: %q", i, inShort(list))
		}
	}
	if took[1] > took[0]/3 {
		t.Errorf("the first look took %s, and the next one %s", took[0], took[1])
	}
	g.Write("a", "2\n")
	second := g.Commit("second")
	if got := inShort(look(t, h, first)); got[0] != "second main+" {
		t.Errorf("got %q", got)
	}
	if got := inShort(look(t, h, second)); len(got) != 10 {
		t.Errorf("with the second in force: %q", got)
	}
}
