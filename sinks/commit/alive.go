package commit

import (
	"context"
	"fmt"
	"time"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/site"
)

// aliveRefs is what the references for signs of life begin with. They are no branches: nobody who clones the repository
// gets them, and replacing one leaves no history.
const aliveRefs = "refs/slipway/alive/"

const aliveFile = "alive.json"

// Alive replaces the site's sign of life in the repository by a commit without a parent. Whoever watches the site from
// elsewhere learns by it that the daemon runs and reaches the repository, also while nothing changes.
func (r *Reporter) Alive(ctx context.Context, s site.SignOfLife) error {
	data, err := asJSON(s)
	if err != nil {
		return err
	}
	tree := repo.NewTree()
	if err := tree.Set(aliveFile, data); err != nil {
		return err
	}
	text := fmt.Sprintf("alive: %s at %s\n", r.site, s.At.UTC().Format(time.RFC3339))
	id, err := r.remote.Replace(ctx, aliveRefs+r.site, tree, repo.Message{Text: text, When: s.At, Author: "slipway", Email: "slipway@localhost"})
	if err != nil {
		return fmt.Errorf("sign of life: %w", err)
	}
	r.log.Debug("sign of life sent", "site", r.site, "commit", id)
	return nil
}
