package secret

import (
	"sync"
	"time"
)

// retryAfter is how long a credential that could not be had is not asked for again.
const retryAfter = 30 * time.Second

// fetch is a credential that somebody else keeps, as it was had last.
type fetch struct {
	mu    sync.Mutex // held while it is fetched: others wait for that
	by    stamp      // of the file that says how it is had
	file  *file
	err   error
	until time.Time
}

// fetchOf is what is kept of a credential that somebody else keeps.
func (s *Store) fetchOf(name string) *fetch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fetched[name] == nil {
		s.fetched[name] = &fetch{}
	}
	return s.fetched[name]
}

// get gives what was fetched last while that counts, and fetches it otherwise. Fetching
// says for how long the credential counts.
func (f *fetch) get(by stamp, fetching func() (*file, time.Duration, error)) (*file, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by == by && time.Now().Before(f.until) {
		return f.file, f.err
	}
	got, keep, err := fetching()
	if err != nil {
		got, keep = nil, retryAfter
	}
	f.by, f.file, f.err, f.until = by, got, err, time.Now().Add(keep)
	return got, err
}
