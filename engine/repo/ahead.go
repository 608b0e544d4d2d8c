package repo

import (
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// Ahead returns the commits that head has in its history and base does not: head itself, and then the newest first. It returns
// none if base has head. has reports whether head has base in its history.
func (s *Store) Ahead(base, head string) (ids []string, has bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	behind, err := s.behind(plumbing.NewHash(base))
	if err != nil {
		return nil, false, err
	}
	var ahead []plumbing.Hash
	err = s.back([]plumbing.Hash{plumbing.NewHash(head)}, map[plumbing.Hash]bool{}, func(at plumbing.Hash) bool {
		switch {
		case !behind[at]:
			ahead = append(ahead, at)
		case at.String() == base:
			has = true
		}
		return !behind[at]
	})
	if err != nil || len(ahead) == 0 {
		return nil, has, err
	}
	when := make(map[plumbing.Hash]time.Time, len(ahead))
	for _, id := range ahead {
		c, err := s.commit(id)
		if err != nil {
			return nil, false, err
		}
		when[id] = c.Committer.When
	}
	slices.SortStableFunc(ahead[1:], func(a, b plumbing.Hash) int { return when[b].Compare(when[a]) }) // people set clocks: head stays first
	for _, id := range ahead {
		ids = append(ids, id.String())
	}
	return ids, has, nil
}
