package commit

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/repo/repotest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// onlooker reads what others have written to a repository.
func onlooker(t *testing.T, g *repotest.Repo) *Sites {
	t.Helper()
	remote, err := repo.New(g.Dir, secret.Value{}, "")
	if err != nil {
		t.Fatal(err)
	}
	return NewSites(remote)
}

func look(t *testing.T, s *Sites) map[string]Standing {
	t.Helper()
	all, err := s.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What a daemon wrote is read as it was meant, and is brought up to date node by node.
func TestOthersReadWhatIsWritten(t *testing.T) {
	g := repotest.InitBare(t)
	r, s := reporter(t, g), onlooker(t, g)
	if all := look(t, s); len(all) != 0 {
		t.Fatalf("sites of an empty repository: %+v", all)
	}
	rep := healthy(40)
	rep.Status.Nodes[3].State, rep.Status.Nodes[3].Reason = site.Blocked, "waits for approval"
	rep.Status.Nodes[5].State = site.Unknown
	rep.Status.Waiting, rep.Status.Approve = site.Losses{{Node: "n0003"}}, "sha256:1"
	report(t, r, rep)
	is := look(t, s)["lab"]
	if is.Err != nil || is.Status.InWords() != rep.Status.InWords() || len(is.Status.Waiting) != 1 || is.Status.Applied.ID != rep.Status.Applied.ID {
		t.Errorf("%s %+v", is.Status.InWords(), is)
	}
	for i, n := range is.Status.Nodes {
		if want := rep.Status.Nodes[i]; n.Name != want.Name || n.State != want.State || n.Reason != want.Reason {
			t.Errorf("%+v is read as %+v", want, n)
		}
	}
	if is.News.Changed.IsZero() || !is.News.Alive.IsZero() || is.News.Heard.IsZero() {
		t.Errorf("news %+v", is.News)
	}
	rep.Status.Nodes = append(rep.Status.Nodes[:3:3], rep.Status.Nodes[4:]...)
	report(t, r, rep)
	if now := look(t, s)["lab"].Status; len(now.Nodes) != 39 || now.Node("n0003") != nil {
		t.Errorf("after a node left: %d", len(now.Nodes))
	}
	if len(is.Status.Nodes) != 40 {
		t.Error("what was returned has changed")
	}
	g.Git("branch", "-D", branch)
	if all := look(t, s); len(all) != 0 {
		t.Errorf("after the branch was deleted: %+v", all)
	}
}

// Signs of life replace each other, and leave neither branches nor history.
func TestSignsOfLife(t *testing.T) {
	g := repotest.InitBare(t)
	r, s := reporter(t, g), onlooker(t, g)
	clock := since
	s.now = func() time.Time { return clock }
	report(t, r, healthy(2))
	show := func(at time.Time) {
		t.Helper()
		if err := r.Alive(t.Context(), site.SignOfLife{Site: "lab", At: at, Every: site.Duration(10 * time.Minute)}); err != nil {
			t.Fatal(err)
		}
	}
	show(since)
	before := look(t, s)["lab"]
	if !before.News.Alive.Equal(since) || before.News.Every != site.Duration(10*time.Minute) || !before.News.Heard.IsZero() {
		t.Errorf("%+v", before.News) // it may be of long ago
	}
	wantCommits(t, g, 1)
	show(since.Add(10 * time.Minute))
	clock = since.Add(time.Hour)
	after := look(t, s)["lab"]
	if !after.News.Alive.Equal(since.Add(10*time.Minute)) || !after.News.Heard.Equal(since.Add(10*time.Minute)) {
		t.Errorf("%+v", after.News)
	}
	clock = since.Add(2 * time.Hour)
	if again := look(t, s)["lab"]; !reflect.DeepEqual(again.News, after.News) {
		t.Errorf("nothing is new: %+v", again.News)
	}
	if got := g.Git("rev-list", "--count", aliveRefs+"lab"); got != "1" {
		t.Errorf("the reference has %s commits", got)
	}
	if got := g.Git("branch", "--list"); strings.Contains(got, "alive") {
		t.Errorf("branches: %s", got)
	}
	g.Git("update-ref", "-d", aliveRefs+"lab")
	if gone := look(t, s)["lab"]; !gone.News.Alive.IsZero() || gone.Err != nil {
		t.Errorf("after it was deleted: %+v", gone)
	}
	g.Git("fsck", "--strict")
}

// One site's branch that cannot be read hides no other, and what was read of it before stays known.
func TestBrokenBranchHidesNoOther(t *testing.T) {
	g := repotest.InitBare(t)
	s := onlooker(t, g)
	report(t, reporter(t, g), healthy(3))
	if is := look(t, s)["lab"]; is.Err != nil {
		t.Fatal(is.Err)
	}
	for name, files := range map[string]map[string]string{
		"empty":   {"x": "x"},
		"prose":   {summaryFile: "in-sync"},
		"version": {summaryFile: `{"kind": "slipway/status/v9", "site": "version"}`},
		"stolen":  {summaryFile: `{"kind": "slipway/status/v1", "site": "lab"}`},
		"renamed": {summaryFile: `{"kind": "slipway/status/v1", "site": "renamed"}`, "nodes/a/b/n1.json": `{"name": "n2"}`},
		"large":   {summaryFile: `"` + strings.Repeat("x", maxStanding) + `"`},
		"lab":     {summaryFile: `{`},
	} {
		commitFiles(t, g, statusBranches+name, files)
	}
	commitFiles(t, g, statusBranches+"-bad", map[string]string{"x": "x"})
	all := look(t, s)
	for name, want := range map[string]string{
		"empty": "has written no status yet", "prose": "invalid character", "version": `is "slipway/status/v9"`, "stolen": `of site "lab"`,
		"renamed": "whose file has another name", "large": "reads at most 8388608", "lab": "unexpected end",
	} {
		if err := all[name].Err; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if is := all["lab"].Status; len(is.Nodes) != 3 {
		t.Errorf("what was known of it is lost: %+v", is)
	}
	if len(all) != 7 {
		t.Errorf("%d sites", len(all))
	}
}

// Whoever may write to the repository cannot forge what a terminal shows.
func TestOthersTextIsPrintable(t *testing.T) {
	g := repotest.InitBare(t)
	reason, _ := json.Marshal("\x1b[2Jin-sync\u202e")
	commitFiles(t, g, statusBranches+"evil", map[string]string{
		summaryFile:    `{"kind": "slipway/status/v1", "site": "evil"}`,
		nodeFile("n1"): fmt.Sprintf(`{"name": "n1", "state": "in-sync", "reason": %s}`, reason),
	})
	is := look(t, onlooker(t, g))["evil"]
	if is.Err != nil || len(is.Status.Nodes) != 1 {
		t.Fatalf("%+v", is)
	}
	if got := is.Status.Nodes[0].Reason; got != `\u001b[2Jin-sync\u202e` {
		t.Errorf("reason %q", got)
	}
}

// commitFiles puts a commit of some files onto a branch, as anybody may who can push.
func commitFiles(t *testing.T, g *repotest.Repo, branch string, files map[string]string) {
	t.Helper()
	remote, err := repo.New(g.Dir, secret.Value{}, "")
	if err != nil {
		t.Fatal(err)
	}
	store, err := repo.OpenStore("")
	if err != nil {
		t.Fatal(err)
	}
	tree := repo.NewTree()
	if head, err := remote.Fetch(context.Background(), store, branch, ""); err == nil {
		if tree, err = store.Tree(head); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		if err := tree.Set(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := remote.Push(t.Context(), branch, tree, repo.Message{Text: "x", When: since, Author: "eve", Email: "eve@localhost"}); err != nil {
		t.Fatal(err)
	}
}
