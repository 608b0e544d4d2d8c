// Package git follows one branch of a Git repository.
package git

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Config says what to follow.
type Config struct {
	Remote repo.Remote
	Branch string
	// Dir is Slipway's folder for fetched objects, so that a restart transfers
	// nothing and still detects a rewritten branch. If empty, the objects are
	// kept in memory.
	Dir string
	// AllowRewrite follows the branch even if it no longer contains the commit
	// followed before.
	AllowRewrite bool
	Log          *slog.Logger
}

// Source is a branch; it is an engine.Source. Fetch is called by one goroutine
// at a time.
type Source struct {
	Config
	store *repo.Store
	last  site.Revision
}

// New opens the store, without connecting to the remote.
func New(c Config) (*Source, error) {
	if c.Branch == "" {
		return nil, errors.New("no branch is given: pass its name, such as main")
	}
	store, err := repo.OpenStore(c.Dir)
	if err != nil {
		return nil, err
	}
	return &Source{Config: c, store: store}, nil
}

// Fetch lists the branch and fetches what is new. A rewritten branch is an
// error until that is undone, unless rewriting is allowed.
func (s *Source) Fetch(ctx context.Context) (site.Revision, error) {
	head, err := s.Remote.Head(ctx, s.Branch)
	switch {
	case errors.Is(err, repo.ErrNoBranch):
		return site.Revision{}, s.noBranch(ctx, err)
	case err != nil:
		return site.Revision{}, err
	case head == s.last.ID:
		return s.last, nil
	}
	if head, err = s.advance(ctx, head); err != nil {
		return site.Revision{}, err
	}
	rev, err := revision(s.store, head)
	if err != nil {
		return site.Revision{}, err
	}
	s.last = rev
	return rev, nil
}

// advance moves the store from the last accepted commit to the newest, and
// returns the newest.
func (s *Source) advance(ctx context.Context, head string) (string, error) {
	base, err := s.store.Accepted(s.Branch)
	if err != nil {
		return "", err
	}
	if !s.store.Has(head) {
		// The branch may have moved on since it was listed.
		if head, err = s.Remote.Fetch(ctx, s.store, s.Branch, base); err != nil {
			return "", err
		}
		s.Log.Info("revision fetched", "revision", head, "repository", s.Remote.String(), "branch", s.Branch)
	}
	if base == "" || base == head {
		return head, s.store.Accept(s.Branch, head)
	}
	descends, err := s.store.Descends(head, base)
	switch {
	case err != nil:
		return "", err
	case !descends && !s.AllowRewrite:
		return "", s.rewritten(base, head)
	case !descends:
		s.Log.Warn("rewritten branch followed, as allowed", "branch", s.Branch, "from", base, "revision", head)
	}
	return head, s.store.Accept(s.Branch, head)
}

func (s *Source) rewritten(base, head string) error {
	return fmt.Errorf("%s: branch %s was rewritten: it is at %s, which does not contain %s, the commit followed so far. "+
		"It is not followed, because a rewritten branch can undo what was reviewed without anybody noticing. "+
		"Push the old commit back, or run with --allow-rewrite once if the rewrite is intended", s.Remote, s.Branch, short(head), short(base))
}

func short(id string) string { return site.Revision{ID: id}.Short() }

func revision(store *repo.Store, id string) (site.Revision, error) {
	c, err := store.Commit(id)
	if err != nil {
		return site.Revision{}, err
	}
	files, err := store.Files(id)
	return site.Revision{ID: id, Subject: c.Subject, Author: c.Author, When: c.When, Files: files}, err
}

// noBranch lists the branches that exist instead.
func (s *Source) noBranch(ctx context.Context, err error) error {
	const most = 5
	names, listErr := s.Remote.Branches(ctx)
	switch {
	case listErr != nil:
		return listErr
	case len(names) == 0:
		return fmt.Errorf("%s: the repository is empty: push a design to branch %s", s.Remote, s.Branch)
	case len(names) > most:
		names = append(names[:most], fmt.Sprintf("and %d more", len(names)-most))
	}
	return fmt.Errorf("%w; there is: %s", err, strings.Join(names, ", "))
}
