package artifact

import (
	"context"
	"io"
	"time"
)

// Keeper is a store as people work with it: a daemon's, or one that no daemon has
// open.
type Keeper interface {
	// Listing returns what the store has, and what is on its way.
	Listing(ctx context.Context) (Listing, error)
	// AddFile stores what a reader returns: size bytes, or 0 if unknown. A given
	// digest must match. progress is called with the bytes so far.
	AddFile(ctx context.Context, from io.Reader, size int64, digest, name string, progress func(int64)) (Info, error)
	// AddURL fetches a file into the store.
	AddURL(ctx context.Context, f File, progress func(have, size int64)) (Info, error)
	// Verify reads all files again, and removes damaged ones. It calls each with
	// the result for a file.
	Verify(ctx context.Context, progress func(have, of int64), each func(Checked)) error
	// Collect removes files that nothing names and that have not been used for
	// some time. With dry it only lists them.
	Collect(ctx context.Context, unusedFor time.Duration, dry bool) ([]Info, error)
}

// Listing is the content of a store.
type Listing struct {
	Files []Entry `json:"files"`
	// Wanted are the wanted files that are not there yet, by digest.
	Wanted map[string]State `json:"wanted,omitempty"`
	Used   int64            `json:"used"`
	Space  int64            `json:"space"`
}

// Entry is a file of a store.
type Entry struct {
	Info
	// Needed is true for a file that the design in force, an installation or an
	// open proposal names; nil if unknown.
	Needed *bool `json:"needed,omitempty"`
	// Copies is where else the file is; nil where the site has one daemon.
	Copies *Copies `json:"copies,omitempty"`
}

// Copies is which of a site's daemons have a file.
type Copies struct {
	// On names the daemons whose store has the whole file, as far as the records know.
	On []string `json:"on"`
	// Of is how many daemons with a store there are.
	Of int `json:"of"`
	// Kept is set if all daemons are to have the file. One that is in a store and nothing else is not copied.
	Kept bool `json:"kept,omitempty"`
}

// Listing returns what the store has.
func (s *Store) Listing(context.Context) (Listing, error) {
	named, err := s.opts.Named()
	l := Listing{Files: []Entry{}}
	s.mu.Lock()
	named = s.withFramesLocked(named)
	s.mu.Unlock()
	for _, i := range s.List() {
		e := Entry{Info: i}
		if err == nil {
			needed := named[i.SHA256]
			e.Needed = &needed
		}
		l.Files = append(l.Files, e)
	}
	l.Used, l.Space = s.Space()
	return l, nil
}

// AddFile stores what a reader returns.
func (s *Store) AddFile(ctx context.Context, from io.Reader, size int64, digest, name string, progress func(int64)) (Info, error) {
	return s.Add(ctx, from, size, digest, name, "", progress)
}

// Listing returns what the store has, and what is on its way.
func (s *Service) Listing(ctx context.Context) (Listing, error) {
	l, err := s.Store.Listing(ctx)
	for digest, state := range s.States() {
		if state.Ready {
			continue
		}
		if l.Wanted == nil {
			l.Wanted = map[string]State{}
		}
		l.Wanted[digest] = state
	}
	return l, err
}

// AddURL fetches a file into the store now, whether or not it is wanted.
func (s *Service) AddURL(ctx context.Context, f File, progress func(have, size int64)) (Info, error) {
	return s.fetch(ctx, s.src, f, progress)
}

// AddFile stores what a reader returns, and notifies whoever waits for it.
func (s *Service) AddFile(ctx context.Context, from io.Reader, size int64, digest, name string, progress func(int64)) (Info, error) {
	i, err := s.Store.AddFile(ctx, from, size, digest, name, progress)
	if err == nil {
		s.changed()
	}
	return i, err
}

// Verify reads all files again. Damaged files that are wanted are fetched
// again.
func (s *Service) Verify(ctx context.Context, progress func(have, of int64), each func(Checked)) error {
	err := s.Store.Verify(ctx, progress, each)
	s.wake()
	s.changed()
	return err
}
