package git_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/repo/repotest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/sources/git"
)

// BenchmarkIdlePoll measures the processor time of a poll that finds nothing
// new, in a remote with 10,000 files, 1,000 commits and 5,000 references: that
// of this process and of the programs it starts, but not of an SSH server. Run
// it with -benchtime 1x; it prints the medians of 31 polls as lines that begin
// with "bench:".
func BenchmarkIdlePoll(b *testing.B) {
	g := largeRemote(b)
	local, err := repo.New(g.Dir, secret.Value{}, "")
	if err != nil {
		b.Fatal(err)
	}
	worst := 0.0
	for _, c := range []struct {
		name   string
		remote repo.Remote
	}{
		{"file", local},
		{"ssh", repotest.ServeSSH(b, false).Remote(b, g)},   // a listing of all references
		{"ssh-v2", repotest.ServeSSH(b, true).Remote(b, g)}, // of one
	} {
		ms := idlePoll(b, c.remote)
		worst = max(worst, ms)
		fmt.Printf("bench: git/idle-poll-cpu/%s %.1f ms\n", c.name, ms)
	}
	fmt.Printf("bench: git/idle-poll-cpu %.1f ms\n", worst)
	if worst >= 50 {
		b.Errorf("an idle poll takes %.1f ms, want less than 50", worst)
	}
}

// idlePoll is the median processor time of a poll in milliseconds.
func idlePoll(b *testing.B, remote repo.Remote) float64 {
	b.Helper()
	s, err := git.New(git.Config{Remote: remote, Branch: "main", Dir: b.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	for i := range 32 {
		before := processorTime(b)
		if _, err := s.Fetch(b.Context()); err != nil {
			b.Fatal(err)
		}
		if i > 0 { // the first fetches everything
			took = append(took, processorTime(b)-before)
		}
	}
	slices.Sort(took)
	return float64(took[len(took)/2].Microseconds()) / 1000
}

// processorTime is what this process and those it waited for have used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var total time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			b.Fatal(err)
		}
		total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return total
}

func largeRemote(b *testing.B) *repotest.Repo {
	const files, commits, refs = 10_000, 1000, 5000
	g := repotest.InitBare(b)
	var in strings.Builder
	for c := range commits {
		fmt.Fprintf(&in, "commit refs/heads/main\nmark :%d\ncommitter Ada <ada@example.org> %d +0000\ndata 6\nchange\n", c+1, 1_700_000_000+c)
		for f := range files / commits {
			content := fmt.Sprintf("package site\n\nnodes: n%d_%d: power: \"on\"\n", c, f)
			fmt.Fprintf(&in, "M 100644 inline racks/r%d/n%d.cue\ndata %d\n%s\n", c, f, len(content), content)
		}
	}
	for r := range refs - 1 {
		fmt.Fprintf(&in, "reset refs/heads/topic/%d\nfrom :%d\n\n", r, r%commits+1)
	}
	g.GitInput(in.String(), "fast-import", "--quiet")
	g.Git("pack-refs", "--all")
	return g
}
