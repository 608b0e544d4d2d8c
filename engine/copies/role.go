package copies

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/record"
)

// role is whether this daemon leads.
type role struct {
	mu    sync.Mutex
	leads Catalogue // nil while it follows
	named func() (map[string]bool, error)
}

// now returns what is named, and where the daemon that leads writes; nil for both while this one follows.
func (r *role) now() (named map[string]bool, leads Catalogue, err error) {
	leads, ask := r.get()
	if leads == nil {
		return nil, nil, nil
	}
	named, err = ask()
	return named, leads, err
}

func (r *role) get() (Catalogue, func() (map[string]bool, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leads, r.named
}

func (r *role) set(c Catalogue, named func() (map[string]bool, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leads, r.named = c, named
}

// Lead says that this daemon leads the site from now on. named returns the digests that the design in force, an
// installation or an open proposal names; while it fails nothing is recorded of the site's artifacts, and nothing
// removed.
func (s *Service) Lead(c Catalogue, named func() (map[string]bool, error)) {
	s.role.set(c, named)
	s.Poke()
}

// Named returns the digests that must not be removed to make room: what the daemon that leads needs. It fails while
// that is not known.
func (s *Service) Named() (map[string]bool, error) {
	if named, leads, err := s.role.now(); leads != nil {
		return named, err
	}
	shelves, ok, failed := s.view.now()
	switch {
	case failed != nil:
		return nil, failed
	case !ok:
		return nil, errors.New("the records of the artifacts were not read yet")
	}
	named := map[string]bool{}
	for digest, a := range shelves.Artifacts {
		if a.Needed {
			named[digest] = true
		}
	}
	return named, nil
}

// Add records a file of the store as one that all daemons are to have.
func (s *Service) Add(ctx context.Context, i artifact.Info) error {
	leads, _ := s.role.get()
	if leads == nil {
		return errors.New("only the daemon that leads records artifacts")
	}
	a := artifactOf(i)
	if shelves, _, _ := s.view.now(); shelves.Artifacts[i.SHA256].Needed {
		a.Needed = true
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	s.Files.Use(i.SHA256)
	if err := leads.PutArtifacts(ctx, a); err != nil {
		return fmt.Errorf("%s is in the store of this host, and the other daemons of the site do not know of it: %w; add it again once this is over", i.Name, err)
	}
	if _, here := s.Files.Get(i.SHA256); !here {
		return fmt.Errorf("%s had been collected before, and was removed again while it was added: add it again", i.Name)
	}
	s.syncLocked(ctx) // says that it is here: this host may be lost before anybody else has it
	return nil
}

// Forget records that files were collected, before they are removed here. The other daemons remove theirs then.
func (s *Service) Forget(ctx context.Context, files []artifact.Info) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	var all []record.Artifact
	originals := s.Files.Originals() // frames belong to this host alone
	for _, i := range files {
		if originals[i.SHA256] != i {
			continue // or somebody has added it again
		}
		a := artifactOf(i)
		a.Removed = time.Now()
		all = append(all, a)
	}
	if err := s.recordCollected(ctx, all); err != nil {
		return fmt.Errorf("nothing was removed, because that could not be recorded: %w", err)
	}
	return nil
}

// forgetElsewhere records that artifacts were collected which nothing needs and only other daemons have. With dry
// it only returns them.
func (s *Service) forgetElsewhere(ctx context.Context, unusedFor time.Duration, dry bool) (gone []artifact.Info, err error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	shelves, err := s.Records.Read(ctx)
	if err != nil {
		return nil, err
	}
	named, err := s.Named()
	if err != nil {
		return nil, err
	}
	var all []record.Artifact
	for _, a := range live(shelves) {
		_, here := s.Files.Get(a.SHA256)
		if here || named[a.SHA256] || time.Since(a.Added) < unusedFor {
			continue
		}
		gone = append(gone, artifact.Info{SHA256: a.SHA256, Name: a.Name, Size: a.Size, Source: a.Source, Added: a.Added})
		a.Removed = time.Now()
		all = append(all, a)
	}
	if dry || len(all) == 0 {
		return gone, nil
	}
	return gone, s.recordCollected(ctx, all)
}

// recordCollected records that artifacts were collected. The caller holds turn.
func (s *Service) recordCollected(ctx context.Context, all []record.Artifact) error {
	leads, _ := s.role.get()
	if leads == nil {
		return errors.New("only the daemon that leads removes artifacts")
	}
	defer s.Poke()
	return leads.PutArtifacts(ctx, all...)
}
