package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
)

// Source is the records that a cluster begins with.
type Source struct {
	// Export is read once, from its beginning; nil for no records.
	Export io.Reader
	// Site is the name of the only site in it.
	Site string
	// Replace is set if it takes the place of records that are there.
	Replace bool
	// Older is set if something may have been done since the export: then approvals end and the site
	// is paused, as with Import.
	Older bool
}

// Found begins an etcd of members with the first one, in the state directory dir. The
// directory must be absent or empty, unless records there are to be replaced, which happens in one step at the end.
// No process may hold the directory.
func Found(ctx context.Context, dir string, c Cluster, from Source, opts Options) (Summary, error) {
	opts.Cluster, opts.found = &c, true
	sum, err := foundIn(ctx, filepath.Clean(dir), from, opts)
	if err != nil {
		return Summary{}, fmt.Errorf("begin a cluster in %s: %w", dir, err)
	}
	return sum, nil
}

func foundIn(ctx context.Context, dir string, from Source, opts Options) (Summary, error) {
	release, err := claim(dir, from.Replace)
	if err != nil {
		return Summary{}, err
	}
	defer release()
	fresh, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".member-*")
	if err != nil {
		return Summary{}, explain(err)
	}
	defer os.RemoveAll(fresh) // after the exchange it is the replaced directory
	sum, err := foundFrom(ctx, fresh, from, opts)
	if err != nil {
		return Summary{}, err
	}
	return sum, exchange(fresh, dir)
}

// foundFrom begins a cluster in a new directory, with the records of an export.
func foundFrom(ctx context.Context, dir string, from Source, opts Options) (Summary, error) {
	s, err := Open(ctx, dir, opts)
	if err != nil {
		return Summary{}, err
	}
	defer s.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("etcd does not become ready"))
	defer cancel()
	if err := s.etcd.serves(ctx); err != nil || from.Export == nil {
		return Summary{}, err
	}
	s.shared.below(url.PathEscape(from.Site))
	s.kv = s.shared.raw
	if err := s.noteWhereabouts(); err != nil {
		return Summary{}, err
	}
	return s.fill(ctx, from.Export, from.Older, opts)
}

// openPeer opens records in an etcd whose member this process is.
func (s *Store) openPeer(ctx context.Context, opts Options) error {
	if err := checkAddress(opts.Cluster.Peer.Address); err != nil {
		return err
	}
	s.shared = opts.Cluster.shared()
	s.steps = opts.steps()
	var m *member
	err := s.checkDirectory()
	if err == nil {
		m, err = s.startPeer(ctx, opts)
	}
	if err != nil {
		s.shared = nil // nothing to close
		return err
	}
	s.etcd, s.shared.client = m, m.client
	return nil
}

// UntilStopped returns when the context ends, which is no error, or when the member of this process
// cannot continue.
func (s *Store) UntilStopped(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.etcd.ctx.Done():
		return s.stopped()
	}
}
