package commit

import (
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/repo/repotest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// TestThousandCommitsStaySmall: a site of 10,000 nodes, one of which changes
// with each of 1,000 commits, a handful being under way at any time.
func TestThousandCommitsStaySmall(t *testing.T) {
	t.Parallel()
	const (
		commits  = 1000
		underWay = 8
	)
	g := repotest.InitBare(t)
	r := reporter(t, g)
	rep := healthy(10_000)
	report(t, r, rep)
	fresh := size(t, g)
	g.Git("repack", "-adfq")
	packed := size(t, g)

	for i := range commits {
		at := since.Add(time.Duration(i) * 17 * time.Second)
		if i%2 == 0 {
			n := &rep.Status.Nodes[i*13/2]
			n.State, n.Reason, n.Since = site.Progressing, "installs generation 2: waits for the installer to power the machine off", at
		} else {
			n := &rep.Status.Nodes[max(i/2-underWay, 0)*13]
			n.State, n.Reason, n.Since, n.Generation = site.InSync, "", at, 2
		}
		report(t, r, rep)
	}
	wantCommits(t, g, commits+1)
	added := size(t, g) - packed
	g.Git("gc", "-q", "--prune=now")
	addedPacked := size(t, g) - packed
	t.Logf("10,000 nodes: %d KiB loose and %d KiB packed; %d commits add %d KiB, %d KiB after git gc", fresh>>10, packed>>10, commits, added>>10, addedPacked>>10)
	if added >= 4<<20 {
		t.Errorf("%d commits add %d KiB without gc, want less than 4096", commits, added>>10)
	}
	if addedPacked >= 1<<20 {
		t.Errorf("%d commits add %d KiB after git gc, want less than 1024", commits, addedPacked>>10)
	}
}

// size is what the repository's objects take in bytes.
func size(t *testing.T, g *repotest.Repo) (total int64) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(g.Dir, "objects"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		total += info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}
