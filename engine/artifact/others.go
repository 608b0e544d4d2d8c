package artifact

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Others knows the other daemons of a site. Its methods return at once.
type Others interface {
	// With returns a file as daemons that run give it, the one to ask first first. Where nothing more than its digest
	// is known of it, Copy has no name.
	With(f File) []File
	// Silent names daemons that have a file and do not answer.
	Silent(sha256 string) []string
}

// others is where files are copied from: from nobody until it is set.
type others struct {
	mu   sync.Mutex
	know Others
	src  *source
}

func (o *others) set(client *http.Client, know Others) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.know, o.src = know, &source{client: client, quiet: defaultQuiet, grace: copyGrace}
}

// source is what a file is fetched by: own for one that no daemon gives.
func (o *others) source(f File, own *source) *source {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f.Copy.From == "" || o.src == nil {
		return own
	}
	return o.src
}

func (o *others) known() Others {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.know
}

// of returns a file as other daemons give it.
func (o *others) of(f File) []File {
	know := o.known()
	if know == nil {
		return nil
	}
	all := know.With(f)
	for i := range all {
		if c := &all[i].Copy; c.Name == "" {
			c.Name, c.Source = f.URL, shownURL(f.URL)
		}
	}
	return all
}

// hint adds to an error who else has the file.
func (o *others) hint(sha256 string, err error) error {
	know := o.known()
	if know == nil || err == nil {
		return err
	}
	if silent := know.Silent(sha256); len(silent) > 0 {
		return fmt.Errorf("%w; a whole copy is at %s, which does not answer: start the daemon there", err, strings.Join(silent, " and "))
	}
	return err
}

// CopyFrom has files that other daemons have copied from these. The client reaches them.
func (s *Service) CopyFrom(client *http.Client, know Others) { s.Fetcher.others.set(client, know) }

// Copy makes one try to copy a file from another daemon, and continues an earlier one from there.
func (s *Service) Copy(ctx context.Context, f File, progress func(have, size int64)) (Info, error) {
	i, err := s.fetch(ctx, s.Fetcher.others.source(f, s.src), f, progress)
	if err == nil {
		s.Fetcher.arrived(f.SHA256)
		s.changed()
	}
	return i, err
}

// arrived notes that somebody else has brought a file.
func (f *Fetcher) arrived(sha256 string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.wanted[sha256]; w != nil {
		w.failures, w.state.Retry = 0, time.Time{} // its frames may be wanted
	}
	f.wake()
}

// IsFetching reports whether a file that is wanted is being fetched.
func (f *Fetcher) IsFetching(sha256 string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.wanted[sha256]
	return w != nil && w.cancel != nil
}
