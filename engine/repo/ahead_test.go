package repo_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/repo/repotest"
)

// What a commit is ahead by is what Git lists as base..head, its own first, also over merges.
func TestAheadIsGits(t *testing.T) {
	g := repotest.Init(t)
	g.Write("a", "1\n")
	first := g.Commit("first")
	g.Git("checkout", "-q", "-b", "side")
	g.Write("b", "1\n")
	side := g.Commit("side")
	g.Git("checkout", "-q", "main")
	g.Write("a", "2\n")
	second := g.Commit("second")
	g.Git("merge", "-q", "-m", "merge", "side")
	merge := strings.TrimSpace(g.Git("rev-parse", "HEAD"))
	s := openStore(t, "")
	if _, err := open(t, g.Dir).FetchWhole(t.Context(), s, "refs/heads/main"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		base, head string
		has        bool
	}{{first, merge, true}, {second, merge, true}, {side, merge, true}, {second, side, false}, {merge, side, false}, {merge, merge, true}, {first, second, true}} {
		ids, has, err := s.Ahead(c.base, c.head)
		want := strings.Fields(g.Git("rev-list", c.base+".."+c.head))
		if err != nil || has != c.has || len(want) > 0 && ids[0] != c.head {
			t.Errorf("%s..%s: %v, has it: %t, %v", c.base, c.head, ids, has, err)
		}
		slices.Sort(ids)
		slices.Sort(want)
		if !slices.Equal(ids, want) {
			t.Errorf("%s..%s: %v, want %v", c.base, c.head, ids, want)
		}
	}
	if _, _, err := s.Ahead(strings.Repeat("1", 40), merge); !errors.Is(err, repo.ErrShallow) {
		t.Errorf("of a commit that is not there: %v", err)
	}
}
