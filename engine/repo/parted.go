package repo

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// The limits on the history that is read to find where two commits parted.
const (
	maxHistory = 500_000
	maxParted  = 8
)

// ErrShallow is returned when the commit where two parted may not have been
// fetched.
var ErrShallow = errors.New("the history is incomplete here")

// parted returns the last commits that both have in their history, mostly one.
// None of them is in the history of another.
func (s *Store) parted(one, other plumbing.Hash) ([]plumbing.Hash, error) {
	behind, err := s.behind(one)
	if err != nil {
		return nil, err
	}
	return s.partedBy(behind, other)
}

// partedOf is parted for a merge of several commits.
func (s *Store) partedOf(ones []plumbing.Hash, other plumbing.Hash) ([]plumbing.Hash, error) {
	behind := map[plumbing.Hash]bool{}
	if err := s.back(slices.Clone(ones), behind, func(plumbing.Hash) bool { return true }); err != nil {
		return nil, err
	}
	return s.partedBy(behind, other)
}

// oldestFirst orders commits by their time.
func (s *Store) oldestFirst(ids []plumbing.Hash) ([]plumbing.Hash, error) {
	if len(ids) < 2 {
		return ids, nil
	}
	when := map[plumbing.Hash]time.Time{}
	for _, id := range ids {
		c, err := s.commit(id)
		if err != nil {
			return nil, err
		}
		when[id] = c.Committer.When
	}
	ids = slices.Clone(ids)
	slices.SortStableFunc(ids, func(a, b plumbing.Hash) int { return when[a].Compare(when[b]) })
	return ids, nil
}

func (s *Store) partedBy(behind map[plumbing.Hash]bool, other plumbing.Hash) ([]plumbing.Hash, error) {
	common, err := s.meets(other, behind)
	switch {
	case err != nil:
		return nil, err
	case len(common) == 0:
		return nil, ErrUnrelated
	case len(common) > 64:
		return nil, errTangled
	}
	if common, err = s.last(common); len(common) > maxParted {
		return nil, errTangled
	}
	return common, err
}

var errTangled = fmt.Errorf("%w: the branch and the proposal were merged into each other too often to tell what each of them changed: rebase the proposal", ErrUnmergeable)

// behind returns a commit and its whole history. It keeps the last answer,
// because every proposal asks for that of the same branch.
func (s *Store) behind(id plumbing.Hash) (map[plumbing.Hash]bool, error) {
	if s.history.of == id && s.history.all != nil {
		return s.history.all, nil
	}
	all := map[plumbing.Hash]bool{}
	err := s.back([]plumbing.Hash{id}, all, func(plumbing.Hash) bool { return true })
	if err != nil {
		return nil, err
	}
	s.history = history{id, all}
	return all, nil
}

// history is a commit and its whole history.
type history struct {
	of  plumbing.Hash
	all map[plumbing.Hash]bool
}

// meets returns the commits of a set that are reached first on the way back
// from a commit.
func (s *Store) meets(id plumbing.Hash, set map[plumbing.Hash]bool) (met []plumbing.Hash, err error) {
	err = s.back([]plumbing.Hash{id}, map[plumbing.Hash]bool{}, func(at plumbing.Hash) bool {
		if set[at] {
			met = append(met, at)
		}
		return !set[at]
	})
	return met, err
}

// last returns the commits that are in the history of no other one.
func (s *Store) last(all []plumbing.Hash) ([]plumbing.Hash, error) {
	if len(all) == 1 {
		return all, nil
	}
	left := map[plumbing.Hash]bool{}
	for _, id := range all {
		left[id] = true
	}
	for _, id := range all {
		if !left[id] {
			continue
		}
		err := s.back([]plumbing.Hash{id}, map[plumbing.Hash]bool{}, func(at plumbing.Hash) bool {
			if at != id {
				delete(left, at)
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	kept := all[:0]
	for _, id := range all { // in the order in which they were found
		if left[id] {
			kept = append(kept, id)
		}
	}
	return kept, nil
}

// back visits commits and their history, each once. It continues behind a
// commit only if visit returns true.
func (s *Store) back(next []plumbing.Hash, seen map[plumbing.Hash]bool, visit func(plumbing.Hash) bool) error {
	for _, id := range next {
		seen[id] = true
	}
	for len(next) > 0 {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		if !visit(at) {
			continue
		}
		c, err := object.GetCommit(s.objects, at)
		switch {
		case errors.Is(err, plumbing.ErrObjectNotFound):
			return fmt.Errorf("%w: commit %s is not", ErrShallow, at)
		case err != nil:
			return fmt.Errorf("commit %s: %w", at, err)
		case len(seen) > maxHistory:
			return fmt.Errorf("%w: more than %d commits would have to be read to find where they parted", ErrUnmergeable, maxHistory)
		}
		for _, p := range c.ParentHashes {
			if !seen[p] {
				seen[p] = true
				next = append(next, p)
			}
		}
	}
	return nil
}
