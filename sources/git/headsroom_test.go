package git

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/repo/repotest"
	"github.com/slipway-gitops/slipway/engine/secret"
)

// Whoever may push can make many large branches: one look fetches no more of them than there is room for, plus one.
func TestLargeBranchesLeaveTheDiskRoom(t *testing.T) {
	g := repotest.Init(t)
	g.Write("a", "1\n")
	g.Commit("first")
	for i := range 6 {
		text := make([]byte, 1<<20) // which no compression makes less than half as long again
		if _, err := rand.Read(text); err != nil {
			t.Fatal(err)
		}
		g.Git("checkout", "-q", "-b", fmt.Sprintf("large%d", i), "main")
		g.Write("large", hex.EncodeToString(text))
		g.Commit("large")
		g.Git("checkout", "-q", "main")
	}
	remote, err := repo.New(g.Dir, secret.Value{}, "")
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHeads(HeadsConfig{Remote: remote, Branch: "main", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	h.room = 2 << 20
	for range 3 { // it begins anew, and is as bounded
		list, err := h.Look(t.Context(), g.Git("rev-parse", "main"))
		if err != nil {
			t.Fatal(err)
		}
		size, err := h.store.Size()
		if err != nil || size >= 4<<20 {
			t.Errorf("the store takes %d bytes: %v", size, err)
		}
		left := 0
		for _, c := range list.Commits {
			if strings.Contains(c.Problem, "Remove large branches") {
				left++
			}
		}
		if len(list.Commits) != 6 || left < 3 || left > 5 {
			t.Errorf("%d of %d are left out", left, len(list.Commits))
		}
	}
}
