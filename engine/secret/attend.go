package secret

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// attendEvery is how often encrypted secrets are looked at again: the identity and the clock of this host may change, which
// the design does not tell.
const attendEvery = time.Minute

// Attend opens every encrypted secret of each design that comes into force, whether or not something needs it now,
// until ctx ends. So what cannot be used is told by Watch before a machine needs it. Nothing is sent anywhere.
func (s *Store) Attend(ctx context.Context) error {
	again := time.NewTicker(attendEvery)
	defer again.Stop()
	for {
		s.openAll(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-s.inForce:
		case <-again.C:
		}
	}
}

// openAll opens the encrypted secrets of the design in force, and notes which cannot be used.
func (s *Store) openAll(ctx context.Context) {
	d := s.designInForce()
	if d == nil {
		return
	}
	unusable := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(d.Credentials)) {
		c := d.Credentials[name]
		if !c.Encrypted() {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if _, err := s.decrypt(name, c, d); err != nil {
			unusable[name] = fmt.Sprintf("credential %q cannot be used: %v. Until then Slipway neither logs in with it nor sets it anywhere", name, err)
		}
	}
	s.noteUnusable(d, unusable)
	s.trouble()
}

func (s *Store) designInForce() *site.Site {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.encrypted.design
}

// noteUnusable notes which secrets of a design cannot be used, and why, while it is in force.
func (s *Store) noteUnusable(d *site.Site, why map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.encrypted.design == d {
		s.encrypted.unusable = why
	}
}
