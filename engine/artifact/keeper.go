package artifact

import (
	"context"
	"io"
	"time"
)

// Keeper is a store as people work with it: a daemon's, or one that no daemon has
// open.
type Keeper interface {
	// Listing says what the store has, and what is on its way.
	Listing(ctx context.Context) (Listing, error)
	// AddFile puts what a reader gives into the store: size bytes, 0 where that is
	// not known. With a digest it must have that one. progress is called with the
	// bytes so far.
	AddFile(ctx context.Context, from io.Reader, size int64, digest, name string, progress func(int64)) (Info, error)
	// AddURL fetches a file into the store.
	AddURL(ctx context.Context, f File, progress func(have, size int64)) (Info, error)
	// Verify reads all files again, and removes those that are damaged. It calls
	// each with what it finds of a file.
	Verify(ctx context.Context, progress func(have, of int64), each func(Checked)) error
	// Collect removes what nothing names and was not used for some time; with dry
	// it only says what.
	Collect(ctx context.Context, unusedFor time.Duration, dry bool) ([]Info, error)
}

// Listing is what a store has.
type Listing struct {
	Files []Entry `json:"files"`
	// Wanted are the files that are wanted and not there yet, by digest.
	Wanted map[string]State `json:"wanted,omitempty"`
	Used   int64            `json:"used"`
	Space  int64            `json:"space"`
}

// Entry is a file of a store.
type Entry struct {
	Info
	// Needed is set for a file that the design in force, an installation or an
	// open proposal names; nil where that is not known.
	Needed *bool `json:"needed,omitempty"`
}

// Listing is what the store has.
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

// AddFile puts what a reader gives into the store.
func (s *Store) AddFile(ctx context.Context, from io.Reader, size int64, digest, name string, progress func(int64)) (Info, error) {
	return s.Add(ctx, from, size, digest, name, "", progress)
}

// Listing is what the store has, and what is on its way.
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

// AddFile puts what a reader gives into the store, and tells who waits for it.
func (s *Service) AddFile(ctx context.Context, from io.Reader, size int64, digest, name string, progress func(int64)) (Info, error) {
	i, err := s.Store.AddFile(ctx, from, size, digest, name, progress)
	if err == nil {
		s.changed()
	}
	return i, err
}

// Verify reads all files again. What is damaged is fetched again where it is
// wanted.
func (s *Service) Verify(ctx context.Context, progress func(have, of int64), each func(Checked)) error {
	err := s.Store.Verify(ctx, progress, each)
	s.wake()
	s.changed()
	return err
}
