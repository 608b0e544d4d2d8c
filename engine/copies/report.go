package copies

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// most is how many artifacts are named in one sentence.
const most = 3

// Notes says which artifacts would be lost with one host, for the status of a site that this daemon leads.
func (s *Service) Notes() []string {
	shelves, ok, _ := s.view.now()
	if !ok {
		return nil
	}
	if len(shelves.Holders) == 1 {
		if n := len(live(shelves)); n > 0 {
			return []string{fmt.Sprintf("this is the only daemon with an artifact store: %s would be lost with this host", say.Count(n, "artifact"))}
		}
		return nil
	}
	run, _ := s.view.running()
	var once []string
	for _, a := range live(shelves) {
		var on []string
		for _, name := range shelves.HoldersOf(a.SHA256) {
			if name == s.Name || run[name] {
				on = append(on, hostOf(shelves.Holders[name]))
			}
		}
		switch len(on) {
		case 0:
			once = append(once, a.Name+" (on no running daemon)")
		case 1:
			once = append(once, a.Name+" (on "+on[0]+")")
		}
	}
	if len(once) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("fewer than two running daemons have %s, and the loss of one host could lose the only copy: %s; see `slipway artifact list`",
		say.Count(len(once), "artifact"), say.Some(once, most))}
}

// Problem is what keeps artifacts from being copied, here and at the other daemons that run; nil for nothing.
func (s *Service) Problem() error {
	shelves, ok, failed := s.view.now()
	_, why := s.door.now()
	if ok {
		failed = nil // for a moment: the records say themselves what is wrong with them
	}
	var all []string
	for _, err := range []error{why, failed, s.view.twin()} {
		if err != nil {
			all = append(all, site.Printable(err.Error()))
		}
	}
	if t := s.copying.trouble(); t != "" {
		all = append(all, "this host: "+site.Printable(t))
	}
	run, _ := s.view.running()
	for _, name := range slices.Sorted(maps.Keys(run)) {
		if h := shelves.Holders[name]; h.Trouble != "" {
			all = append(all, hostOf(h)+": "+site.Shorten(site.Printable(h.Trouble), 500))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(all, "; "))
}

// Numbers count artifacts for metrics.
type Numbers struct {
	// Kept are all that daemons are to have, Lacking those that this daemon lacks, Single those that fewer than two
	// daemons have.
	Kept, Lacking, Single int
}

// Numbers counts as the records were last read.
func (s *Service) Numbers() (n Numbers) {
	shelves, _, _ := s.view.now()
	for _, a := range live(shelves) {
		n.Kept++
		if _, here := s.Files.Get(a.SHA256); !here {
			n.Lacking++
		}
		if len(shelves.HoldersOf(a.SHA256)) < 2 {
			n.Single++
		}
	}
	return n
}

// Keeper is the daemon's store as people work with it.
func (s *Service) Keeper() artifact.Keeper { return keeper{s} }

type keeper struct{ s *Service }

// Listing adds which daemons have a file, and what this one lacks.
func (k keeper) Listing(ctx context.Context) (artifact.Listing, error) {
	l, err := k.s.Files.Listing(ctx)
	if err != nil {
		return l, err
	}
	shelves, _, _ := k.s.view.now()
	originals := k.s.Files.Originals() // frames are made on each host
	for i, e := range l.Files {
		if _, is := originals[e.SHA256]; is {
			l.Files[i].Copies = copiesOf(shelves, e.SHA256)
		}
	}
	states := k.s.copying.states()
	for _, a := range live(shelves) {
		if _, here := k.s.Files.Get(a.SHA256); here {
			continue
		}
		if l.Wanted == nil {
			l.Wanted = map[string]artifact.State{}
		}
		state, is := states[a.SHA256]
		if !is {
			state = l.Wanted[a.SHA256]
		}
		if !state.Fetching && state.Why == "" && len(k.s.view.With(fileOf(a))) == 0 {
			state.Why = "no running daemon gives it"
		}
		state.Name, state.Copies = a.Name, copiesOf(shelves, a.SHA256)
		l.Wanted[a.SHA256] = state
	}
	return l, nil
}

func copiesOf(s record.Shelves, digest string) *artifact.Copies {
	a, is := s.Artifacts[digest]
	c := &artifact.Copies{On: []string{}, Of: len(s.Holders), Kept: is && a.Removed.IsZero()}
	for _, name := range s.HoldersOf(digest) {
		c.On = append(c.On, hostOf(s.Holders[name]))
	}
	return c
}

func (k keeper) AddFile(ctx context.Context, from io.Reader, size int64, digest, name string, progress func(int64)) (artifact.Info, error) {
	i, err := k.s.Files.AddFile(ctx, from, size, digest, name, progress)
	if err == nil {
		err = k.s.Add(ctx, i)
	}
	return i, err
}

func (k keeper) AddURL(ctx context.Context, f artifact.File, progress func(have, size int64)) (artifact.Info, error) {
	i, err := k.s.Files.AddURL(ctx, f, progress)
	if err == nil {
		err = k.s.Add(ctx, i)
	}
	return i, err
}

func (k keeper) Verify(ctx context.Context, progress func(have, of int64), each func(artifact.Checked)) error {
	defer k.s.Poke()
	return k.s.Files.Verify(ctx, progress, each)
}

// Collect also collects what only other daemons have. The store records what it removes itself (Forget).
func (k keeper) Collect(ctx context.Context, unusedFor time.Duration, dry bool) ([]artifact.Info, error) {
	here, err := k.s.Files.Collect(ctx, unusedFor, dry)
	if err != nil {
		return here, err
	}
	elsewhere, err := k.s.forgetElsewhere(ctx, unusedFor, dry)
	if err != nil && !dry {
		return here, fmt.Errorf("removed %s; files that only other daemons have were not removed: %w; run `slipway artifact gc` again once this is over", say.Count(len(here), "file"), err)
	}
	return append(here, elsewhere...), err
}
