package repo_test

import (
	"encoding/json"
	"testing"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/repo/repotest"
	"github.com/slipway-gitops/slipway/engine/secret"
)

// Whoever may push sets the time of a commit, also one that JSON cannot have: everything that is said beside it would be lost.
func TestTimeOfACommitCanBeSaid(t *testing.T) {
	for _, when := range []string{"999999999999 +0000", "253402300799 +0000", "253402300800 -1200", "9223372036854775807 +0000"} {
		g := repotest.Init(t)
		g.Write("a", "1\n")
		late := commitAt(t, g, when)
		remote, err := repo.New(g.Dir, secret.Value{}, "")
		if err != nil {
			t.Fatal(err)
		}
		store, err := repo.OpenStore("")
		if err != nil {
			t.Fatal(err)
		}
		g.Git("branch", "late", late)
		id, err := remote.FetchWhole(t.Context(), store, "refs/heads/late")
		if err != nil {
			t.Fatal(err)
		}
		c, err := store.Commit(id)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(c); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if c.When.Year() < 2500 {
			t.Errorf("%s is said to be of %s", when, c.When)
		}
	}
}

// commitAt writes a commit with the time as it is given.
func commitAt(t *testing.T, g *repotest.Repo, when string) string {
	t.Helper()
	head := g.Commit("first")
	text := "tree " + g.Git("rev-parse", head+"^{tree}") + "\nparent " + head + "\nauthor Eve <eve@example.org> 1700000000 +0000\ncommitter Eve <eve@example.org> " + when + "\n\nlate\n"
	return g.GitInput(text, "hash-object", "-t", "commit", "-w", "--stdin", "--literally")
}
