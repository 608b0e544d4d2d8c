package secret

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// newest is the newest value that was opened of an encrypted credential.
type newest struct {
	changed time.Time
	file    *file // nil if only the records know it
	written bool  // in the records
}

// Ahead is how far a value's time of change may be ahead of this host's clock.
const Ahead = 10 * time.Minute

// Remember makes the store refuse an encrypted credential that is older than one it opened
// before. Otherwise, anyone who can merge could bring back the file of a leaked password. known
// is the recorded time of change of the newest value, by credential. record records a newer one.
// After an error, the next request calls it again.
func (s *Store) Remember(known map[string]time.Time, record func(name string, changed time.Time) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.encrypted.record = record
	for name, at := range known {
		s.encrypted.newest[name] = newest{changed: at, written: true}
	}
}

// newestLocked returns the credential opened from a file, or a newer one opened before. The
// error says why there is neither.
func (s *Store) newestLocked(name string, c *site.Credential, f *file, changed time.Time) (*file, error) {
	last, known := s.encrypted.newest[name]
	var why string
	switch {
	case changed.After(time.Now().Add(Ahead)):
		why = fmt.Sprintf("%s says that it was changed on %s, which is in the future of this host's clock", f.path, said(changed))
	case changed.Before(last.changed):
		why = fmt.Sprintf("%s is older than the one that Slipway opened before (%s, and %s before): an older file was put back, and others may know its value", f.path, said(changed), said(last.changed))
	default:
		delete(s.encrypted.refused, name)
		if !known || changed.After(last.changed) {
			last.changed, last.written = changed, false
		}
		last.file = f
		s.encrypted.newest[name] = last
		return f, nil
	}
	remedy := fmt.Sprintf("Set the secret again with `slipway secret set %s`, on a computer whose clock is right, and commit it", name)
	if c.From == site.FromSOPS {
		remedy = fmt.Sprintf("Set the secret again with `slipway secret set %s --file %s --key %s` or `sops edit`, on a computer whose clock is right, and commit it", name, c.File, c.Key)
	}
	if last.file == nil && known {
		return nil, fmt.Errorf("%w: %s. Slipway no longer has the newer value. %s", ErrMissing, why, remedy)
	} else if last.file == nil {
		return nil, fmt.Errorf("%w: %s. %s", ErrMissing, why, remedy)
	}
	s.encrypted.refused[name] = fmt.Sprintf("credential %q: %s. Slipway goes on with the newer value until it restarts. %s", name, why, remedy)
	return last.file, nil
}

func said(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

// recordNewest records the time of change of a credential's newest value, unless it is recorded.
func (s *Store) recordNewest(name string) {
	last, record := s.newestOf(name)
	if last.file == nil || last.written || record == nil || record(name, last.changed) != nil {
		return
	}
	s.noteWritten(name, last)
}

// newestOf returns the newest value of a credential, and the function that records one.
func (s *Store) newestOf(name string) (newest, func(name string, changed time.Time) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.encrypted.newest[name], s.encrypted.record
}

// noteWritten marks a credential's value as recorded, unless there is a newer one.
func (s *Store) noteWritten(name string, last newest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.encrypted.newest[name]; now.changed.Equal(last.changed) {
		now.written = true
		s.encrypted.newest[name] = now
	}
}

// Watch calls tell with what is wrong with credentials that are still used: now, and when a
// request finds a change.
func (s *Store) Watch(tell func(error)) {
	s.telling.Lock()
	s.tell, s.told = tell, ""
	s.telling.Unlock()
	tell(nil)
	s.trouble()
}

// trouble reports what is wrong, if that has changed.
func (s *Store) trouble() {
	s.telling.Lock()
	defer s.telling.Unlock()
	if s.tell == nil {
		return
	}
	text := s.troubles() // before the call: tell may call the store
	if text == s.told {
		return
	}
	if s.told = text; text == "" {
		s.tell(nil)
	} else {
		s.tell(errors.New(text))
	}
}

// troubles returns what is wrong with credentials that are still used; empty for nothing.
func (s *Store) troubles() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	if err := s.unlimitedLocked(); err != nil {
		all = append(all, err.Error())
	}
	for _, name := range slices.Sorted(maps.Keys(s.encrypted.refused)) {
		all = append(all, s.encrypted.refused[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.encrypted.unusable)) {
		all = append(all, s.encrypted.unusable[name])
	}
	return strings.Join(all, "; ")
}
