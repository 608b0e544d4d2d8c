package secret

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/hostfile"
	"github.com/slipway-gitops/slipway/engine/sealed"
)

// opening is the last result of opening the identity.
type opening struct {
	mu    sync.Mutex // held while it opens: a TPM may be slow, but others do not need an identity
	stamp hostfile.Stamp
	id    sealed.Identity
	err   error
	until time.Time // when to try a failed one again
}

// identity returns the identity that opens secrets. It reads the file again when it
// changed.
func (s *Store) identity() (sealed.Identity, hostfile.Stamp, error) {
	o := &s.opening
	o.mu.Lock()
	defer o.mu.Unlock()
	path, made := s.identityFile()
	if path == "" {
		return sealed.Identity{}, hostfile.Stamp{}, errNoIdentity
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && made != nil {
		id, _, merr := sealed.LoadOrCreate(path, sealed.Classic)
		if merr != nil {
			return sealed.Identity{}, hostfile.Stamp{}, fmt.Errorf("make an identity: %w", merr)
		}
		made(path, id.Recipients()[0])
		info, err = os.Stat(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return sealed.Identity{}, hostfile.Stamp{}, fmt.Errorf("%w (%s is not there; put its copy back if it has one)", errNoIdentity, path)
	case err != nil:
		return sealed.Identity{}, hostfile.Stamp{}, fmt.Errorf("identity: %w", err)
	}
	now := hostfile.StampOf(info)
	if o.stamp == now && (o.err == nil || time.Now().Before(o.until)) {
		return o.id, now, o.err
	}
	o.id, o.err = sealed.Load(path, sealed.Means{})
	o.stamp, o.until = now, time.Now().Add(retryAfter)
	if o.err == nil {
		s.keepIdentity(o.id)
	}
	return o.id, now, o.err
}

// identityFile returns the file of the identity, and the function to call when one is
// made.
func (s *Store) identityFile() (path string, made func(path, recipient string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.encrypted.path, s.encrypted.made
}

// keepIdentity keeps the last opened identity, for notes to people.
func (s *Store) keepIdentity(id sealed.Identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.encrypted.identity = id
}
