package git

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/site"
)

// ProposalsConfig says which proposals are merged.
type ProposalsConfig struct {
	Remote repo.Remote
	Branch string
	// Ref is the reference of a proposal's head, with %d for its number, such
	// as "refs/pull/%d/head".
	Ref string
	// Dir is Slipway's folder for the objects of proposals. It is separate from
	// that of the followed branch, because anyone may propose. It can be
	// removed at any time. If empty, the objects are kept in memory.
	Dir string
}

// Proposals merges proposals into a branch; it is a review.Branch.
type Proposals struct {
	ProposalsConfig
	store *repo.Store
	base  string
}

// NewProposals opens the store, without connecting to the remote.
func NewProposals(c ProposalsConfig) (*Proposals, error) {
	store, err := repo.OpenStore(c.Dir)
	if err != nil {
		return nil, err
	}
	return &Proposals{ProposalsConfig: c, store: store}, nil
}

// maxStore is how large the folder may grow, in bytes, before everything in it
// is fetched again. Otherwise it would keep all proposals that are no longer
// open.
const maxStore = 1 << 30

// Base fetches the branch with its whole history, which shows where proposals
// parted from it.
func (p *Proposals) Base(ctx context.Context) (site.Revision, error) {
	var err error
	if p.store, p.base, err = tidied(p.store, p.Dir, p.base, maxStore); err != nil {
		return site.Revision{}, err
	}
	head, err := p.Remote.FetchWhole(ctx, p.store, "refs/heads/"+p.Branch, p.base)
	if err != nil {
		return site.Revision{}, err
	}
	p.base = head
	return revision(p.store, head)
}

// Merge fetches a proposal's commit and merges it into the branch, see
// repo.Store.Merge.
func (p *Proposals) Merge(ctx context.Context, x site.Proposal) (site.Merge, error) {
	head, err := p.Remote.FetchWhole(ctx, p.store, fmt.Sprintf(p.Ref, x.Number), p.base)
	switch {
	case errors.Is(err, repo.ErrNoBranch):
		return site.Merge{}, fmt.Errorf("proposal %d: %w", x.Number, site.ErrMoved)
	case err != nil:
		return site.Merge{}, err
	case head != x.Head:
		return site.Merge{}, fmt.Errorf("proposal %d is at %s: %w", x.Number, short(head), site.ErrMoved)
	}
	m, err := p.store.Merge(p.base, head)
	if errors.Is(err, repo.ErrUnmergeable) {
		return site.Merge{Problem: err.Error()}, nil
	}
	if err != nil {
		return site.Merge{}, err
	}
	c, err := p.store.Commit(head)
	if err != nil {
		return site.Merge{}, err
	}
	merge := site.Merge{Done: m.Done, More: m.More}
	for _, x := range m.Conflicts {
		merge.Conflicts = append(merge.Conflicts, x.String())
	}
	if m.Files != nil {
		merge.Result = site.Revision{ID: m.ID, Subject: c.Subject, Author: c.Author, When: c.When, Files: m.Files}
	}
	return merge, nil
}

// Contains reports whether a commit of the branch has another one in its
// history.
func (p *Proposals) Contains(_ context.Context, revision, commit string) (bool, error) {
	return p.store.Descends(revision, commit)
}

// tidied keeps a store small: one in a folder that has grown beyond its room begins again, without the base that it had.
func tidied(store *repo.Store, dir, base string, room int64) (*repo.Store, string, error) {
	size, err := store.Size()
	if err != nil {
		return store, base, err
	}
	if size < room {
		return store, base, store.Tidy()
	}
	if err := os.RemoveAll(dir); err != nil {
		return store, base, err
	}
	fresh, err := repo.OpenStore(dir)
	if err != nil {
		return store, base, err
	}
	return fresh, "", nil
}
