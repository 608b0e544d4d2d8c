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

// newest is the newest value of an encrypted credential that was opened.
type newest struct {
	changed time.Time
	file    *file // nil where only the records know of it
	written bool  // in the records
}

// Ahead is how much later than this host's clock a value may say that it was changed.
const Ahead = 10 * time.Minute

// Remember has the store refuse an encrypted credential that is older than one which
// it has opened before: whoever can merge could put the file of a leaked password
// back. Known is when the newest of each credential was changed, as it was recorded,
// and record records a newer one. After an error it is called again with the next
// request.
func (s *Store) Remember(known map[string]time.Time, record func(name string, changed time.Time) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.encrypted.record = record
	for name, at := range known {
		s.encrypted.newest[name] = newest{changed: at, written: true}
	}
}

// newestLocked gives the credential that was opened from a file, or a newer one that
// was opened before. The error says why there is neither.
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

// recordNewest records when the newest value of a credential was changed, if that is
// not recorded.
func (s *Store) recordNewest(name string) {
	last, record := s.newestOf(name)
	if last.file == nil || last.written || record == nil || record(name, last.changed) != nil {
		return
	}
	s.noteWritten(name, last)
}

// newestOf is the newest value of a credential, and what records one.
func (s *Store) newestOf(name string) (newest, func(name string, changed time.Time) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.encrypted.newest[name], s.encrypted.record
}

// noteWritten notes that a value of a credential is in the records, unless there is a newer one.
func (s *Store) noteWritten(name string, last newest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.encrypted.newest[name]; now.changed.Equal(last.changed) {
		now.written = true
		s.encrypted.newest[name] = now
	}
}

// Watch has tell told what is wrong with credentials that are used all the same, now
// and when a request finds that it has changed.
func (s *Store) Watch(tell func(error)) {
	s.telling.Lock()
	s.tell, s.told = tell, ""
	s.telling.Unlock()
	tell(nil)
	s.trouble()
}

// trouble tells what is wrong, if that has changed.
func (s *Store) trouble() {
	s.telling.Lock()
	defer s.telling.Unlock()
	if s.tell == nil {
		return
	}
	text := s.troubles() // before it is told: who is told asks the store in turn
	if text == s.told {
		return
	}
	if s.told = text; text == "" {
		s.tell(nil)
	} else {
		s.tell(errors.New(text))
	}
}

// troubles are what is wrong with credentials that are used all the same; empty for nothing.
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
	return strings.Join(all, "; ")
}
