package secret

import (
	"errors"
	"fmt"
	"os"

	"github.com/slipway-gitops/slipway/engine/hostfile"
)

// Derives has the passwords of derived credentials made by a function. Without one there are none.
func (s *Store) Derives(derive func(Of) (Value, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.derive = derive
}

// deriving returns the function that makes derived passwords, or nil.
func (s *Store) deriving() func(Of) (Value, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.derive
}

// fromKey returns a password that is derived from the site key. Where it may be sent stands in a file of
// this host that has the name of the credential, and no secret.
func (s *Store) fromKey(r Request) (*file, error) {
	limits, err := s.limitsOf(r.Name)
	if err != nil {
		return nil, err
	}
	if err := limits.allow(r); err != nil {
		return nil, err // before anything is derived
	}
	if r.Of == (Of{}) {
		return nil, fmt.Errorf("%w: it is derived for each machine, and only the daemon logs in with it or sets it", ErrUnavailable)
	}
	if limits.username != "" && limits.username != r.Of.Account {
		return nil, fmt.Errorf("%w: the design has it for the account %s, and %s for another one", ErrUse, r.Of.Account, limits.path)
	}
	derive := s.deriving()
	if derive == nil {
		return nil, fmt.Errorf("%w: it is derived from the site key, and there is none here", ErrMissing)
	}
	f := *limits
	if f.value, err = derive(r.Of); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return &f, nil
}

// limitsOf reads where a derived credential may be sent.
func (s *Store) limitsOf(name string) (*file, error) {
	if !validName.MatchString(name) {
		return nil, errName
	}
	path, info, err := s.stat(name)
	switch {
	case s.dir == "":
		return nil, fmt.Errorf("%w: there is no directory of credentials that says where it may be sent: start with --credentials DIR, or as a systemd service with LoadCredential=", ErrMissing)
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%w: its value is derived, and no file on this host says where it may be sent: make %s of mode 0600 with the lines \"hosts: 192.0.2.0/24\" and \"use: redfish\", and no secret; if systemd hands credentials over, put it into the folder of LoadCredential=, and restart the service", ErrMissing, path)
	case err != nil:
		return nil, explain(path, err)
	}
	key := "derived " + name // not that of a file with a secret
	if f, ok := s.lastRead(key); ok && f.stamp == hostfile.StampOf(info) {
		return f, nil
	}
	f, err := readAs(path, parseLimits)
	if err != nil {
		return nil, err
	}
	s.keepRead(key, f)
	return f, nil
}
