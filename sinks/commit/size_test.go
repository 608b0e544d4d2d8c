package commit

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/repo/repotest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A thousand commits to a site of 10,000 nodes, one of which changes with each,
// a handful being under way at any time, add 4 MiB at most, and 1 MiB once they
// are packed. With SLIPWAY_PROVE set these are 1,000, otherwise 100 that may add a
// tenth of it.
func TestProveThousandCommitsStaySmall(t *testing.T) {
	t.Parallel()
	const underWay = 8
	commits := 100
	if os.Getenv("SLIPWAY_PROVE") != "" {
		commits = 1000
	}
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
	if most := int64(commits) * 4 << 20 / 1000; added >= most {
		t.Errorf("%d commits add %d KiB without gc, want less than %d", commits, added>>10, most>>10)
	}
	if most := int64(commits) * 1 << 20 / 1000; addedPacked >= most {
		t.Errorf("%d commits add %d KiB after git gc, want less than %d", commits, addedPacked>>10, most>>10)
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
