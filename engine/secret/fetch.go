package secret

import (
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/hostfile"
)

// retryAfter is how long to wait after a credential could not be fetched.
const retryAfter = 30 * time.Second

// fetch is the last result of fetching a credential that another program or server
// keeps.
type fetch struct {
	mu    sync.Mutex     // held during the fetch: others wait for it
	by    hostfile.Stamp // of the file that says how to fetch it
	file  *file
	err   error
	until time.Time
}

// fetchOf returns the cached fetch of a credential that another program or server
// keeps.
func (s *Store) fetchOf(name string) *fetch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fetched[name] == nil {
		s.fetched[name] = &fetch{}
	}
	return s.fetched[name]
}

// get returns the last result while it is valid, and fetches it otherwise. fetching
// also returns for how long the credential is valid.
func (f *fetch) get(by hostfile.Stamp, fetching func() (*file, time.Duration, error)) (*file, error) {
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
