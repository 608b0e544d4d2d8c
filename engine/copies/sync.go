package copies

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/record"
)

// sync compares the store with the records: it removes what was collected, writes what is here now, and, where this
// daemon leads, which artifacts there are.
func (s *Service) sync(ctx context.Context) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.syncLocked(ctx)
}

func (s *Service) syncLocked(ctx context.Context) {
	shelves, ok := s.settle(ctx)
	if !ok {
		return
	}
	s.copying.forget(shelves)
	if err := s.tell(ctx, shelves); err != nil {
		s.fail(ctx, "the list of this daemon's artifacts was not recorded", err)
	}
}

// settle reads the records, and does what the daemon that leads does with them. It reports whether they were read.
func (s *Service) settle(ctx context.Context) (record.Shelves, bool) {
	shelves, err := s.Records.Read(ctx)
	if err != nil {
		s.fail(ctx, "the records of the artifacts cannot be read", err)
		return shelves, false
	}
	s.view.take(shelves, time.Now())
	named, leads, err := s.role.now()
	if err != nil { // the engine does not know what is named yet: nothing is recorded or removed before
		return shelves, true
	}
	if leads != nil {
		if err := s.catalogue(ctx, leads, shelves, named); err != nil {
			s.fail(ctx, "the list of the site's artifacts was not recorded", err)
		}
	}
	s.removeCollected(shelves, named)
	return shelves, true
}

// fail notes what went wrong, unless nobody has led the site yet.
func (s *Service) fail(ctx context.Context, what string, err error) {
	if ctx.Err() != nil || errors.Is(err, record.ErrNotYet) {
		return
	}
	if _, _, before := s.view.now(); before == nil {
		s.Log.Warn(what, "err", err)
	}
	s.view.fail(err)
}

// removeCollected removes files that were collected. That is a record of its own: what is only missing in the
// records stays.
func (s *Service) removeCollected(shelves record.Shelves, named map[string]bool) {
	for digest, i := range s.Files.Originals() {
		if a := shelves.Artifacts[digest]; a.Removed.IsZero() || named[digest] {
			continue
		}
		s.Log.Info("artifact removed: it was collected", "name", i.Name, "sha256", digest, "size", i.Size)
		if err := s.Files.Remove(digest); err != nil {
			s.Log.Warn("artifact not removed", "sha256", digest, "err", err)
		}
	}
	isCollected := func(digest string) bool { return !shelves.Artifacts[digest].Removed.IsZero() && !named[digest] }
	if err := s.Files.DropParts(isCollected); err != nil {
		s.Log.Warn("parts of artifacts not removed", "err", err)
	}
}

// tell writes what this daemon has, if that has changed, and from time to time that it runs.
func (s *Service) tell(ctx context.Context, shelves record.Shelves) error {
	if !s.Records.IsDaemon(s.Name) || s.view.twin() != nil {
		return nil
	}
	own, before := s.Files.Originals(), shelves.Holders[s.Name]
	at, _ := s.door.now()
	h := record.Holder{Name: s.Name, Host: s.Host, Address: at, Key: s.identity.key, Trouble: s.copying.trouble()}
	var has, lacks []string
	for digest := range own {
		if !before.Has[digest] {
			has = append(has, digest)
		}
	}
	for digest := range before.Has {
		if _, is := own[digest]; !is {
			lacks = append(lacks, digest)
		}
	}
	same := h.Host == before.Host && h.Address == before.Address && h.Key == before.Key && h.Trouble == before.Trouble
	if same && len(has)+len(lacks) == 0 && time.Since(s.view.toldAt()) < beatEvery {
		return nil
	}
	h.Beat, h.Time = before.Beat+1, time.Now()
	if err := s.Records.Tell(ctx, h, has, lacks); err != nil {
		return err
	}
	s.view.tells(time.Now())
	return nil
}

// catalogue records, as the daemon that leads, which artifacts there are: those that are named and here. It never
// makes one of a file that is only here: that may have been collected long ago.
func (s *Service) catalogue(ctx context.Context, leads Catalogue, shelves record.Shelves, named map[string]bool) error {
	var puts []record.Artifact
	own := s.Files.Originals()
	for _, digest := range slices.Sorted(maps.Keys(named)) {
		a, known := shelves.Artifacts[digest]
		if i, here := own[digest]; here && !known {
			a, known = artifactOf(i), true
		}
		if known && (!a.Needed || !a.Removed.IsZero()) {
			a.Needed, a.Removed = true, time.Time{}
			puts = append(puts, a)
		}
	}
	var drops []string
	for digest, a := range shelves.Artifacts {
		_, here := own[digest]
		switch {
		case named[digest]:
		case !here && len(shelves.HoldersOf(digest)) == 0 && (a.Removed.IsZero() || time.Since(a.Removed) > forgottenAfter):
			drops = append(drops, digest)
		case a.Needed:
			a.Needed = false
			puts = append(puts, a)
		}
	}
	gone := slices.Concat(shelves.Gone, s.view.forgotten())
	return errors.Join(leads.PutArtifacts(ctx, puts...), leads.DropArtifacts(ctx, drops...), leads.DropHolders(ctx, gone...))
}

// artifactOf is the record of a file of the store that there was none of.
func artifactOf(i artifact.Info) record.Artifact {
	return record.Artifact{SHA256: i.SHA256, Name: i.Name, Source: i.Source, Size: i.Size, Added: time.Now()}
}
