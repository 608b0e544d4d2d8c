package copies

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/retry"
)

// copying is the copy under way and those that failed.
type copying struct {
	mu     sync.Mutex
	digest string // of the copy under way; empty for none
	state  artifact.State
	cancel context.CancelFunc
	failed map[string]failure
}

// failure is why an artifact could not be copied the last time.
type failure struct {
	name  string
	times int
	state artifact.State
}

// doubtful is after how many failures in a row people are told: a daemon that restarts is no trouble.
const doubtful = 2

func (c *copying) begin(digest, from string, cancel context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.digest, c.cancel, c.state = digest, cancel, artifact.State{Fetching: true, From: from}
}

func (c *copying) progress(have, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Have, c.state.Size = have, size
}

// end notes how a copy ended, which was not broken off from here.
func (c *copying) end(a record.Artifact, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.digest, c.cancel = "", nil
	if err == nil || errors.Is(err, context.Canceled) {
		delete(c.failed, a.SHA256)
		return
	}
	if c.failed == nil {
		c.failed = map[string]failure{}
	}
	f := failure{name: a.Name, times: c.failed[a.SHA256].times + 1}
	f.state = artifact.State{From: c.state.From, Size: a.Size, Why: err.Error(), Retry: time.Now().Add(retry.Backoff(f.times)), Person: errors.Is(err, artifact.ErrNoRoom)}
	c.failed[a.SHA256] = f
}

// untilDue is how long to wait before an artifact is tried again; not positive for not at all.
func (c *copying) untilDue(digest string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Until(c.failed[digest].state.Retry)
}

// forget forgets failures of what is no artifact any more, and breaks off its copy.
func (c *copying) forget(s record.Shelves) {
	c.mu.Lock()
	defer c.mu.Unlock()
	isGone := func(digest string) bool {
		a, is := s.Artifacts[digest]
		return !is || !a.Removed.IsZero()
	}
	maps.DeleteFunc(c.failed, func(digest string, _ failure) bool { return isGone(digest) })
	if c.digest != "" && isGone(c.digest) {
		c.cancel()
	}
}

// states are those of the copy under way and of those that failed, by digest.
func (c *copying) states() map[string]artifact.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]artifact.State{}
	for digest, f := range c.failed {
		all[digest] = f.state
	}
	if c.digest != "" {
		all[c.digest] = c.state
	}
	return all
}

// trouble is why artifacts are not copied, for people; empty for no reason.
func (c *copying) trouble() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var why []string
	for _, f := range c.failed {
		if f.times >= doubtful || f.state.Person {
			why = append(why, fmt.Sprintf("%s is not copied: %s", f.name, retry.Steady(errors.New(f.state.Why))))
		}
	}
	slices.Sort(why)
	if more := len(why) - most; more > 0 {
		why = append(why[:most], fmt.Sprintf("%d more are not copied", more))
	}
	return strings.Join(why, "; ")
}

// keepCopying copies what is lacking, one after the other.
func (s *Service) keepCopying(ctx context.Context) {
	for {
		a, next := s.next()
		if a.SHA256 == "" {
			if !wait(ctx, next, s.due) {
				return
			}
			continue
		}
		s.copy(ctx, a)
		if ctx.Err() != nil {
			return
		}
		s.Poke()
	}
}

// next is the artifact to copy now, or when to look again.
func (s *Service) next() (record.Artifact, time.Duration) {
	const idle = time.Minute
	shelves, ok, _ := s.view.now()
	if !ok {
		return record.Artifact{}, idle
	}
	later := idle
	for _, a := range live(shelves) {
		if _, here := s.Files.Get(a.SHA256); here || s.Files.IsFetching(a.SHA256) || len(s.view.With(fileOf(a))) == 0 {
			continue
		}
		if due := s.copying.untilDue(a.SHA256); due > 0 {
			later = min(later, due)
			continue
		}
		return a, 0
	}
	return record.Artifact{}, later
}

func fileOf(a record.Artifact) artifact.File {
	return artifact.File{SHA256: a.SHA256, For: a.Name, Copy: artifact.Copy{Spare: !a.Needed}}
}

// copy tries each daemon that has an artifact.
func (s *Service) copy(ctx context.Context, a record.Artifact) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := errors.New("no running daemon has it now")
	for _, f := range s.view.With(fileOf(a)) {
		s.copying.begin(a.SHA256, "the daemon "+f.Copy.From, cancel)
		s.Log.Info("artifact is copied", "name", a.Name, "sha256", a.SHA256, "size", a.Size, "from", f.Copy.From)
		if _, err = s.Files.Copy(ctx, f, s.copying.progress); err == nil {
			s.Log.Info("artifact was copied", "name", a.Name, "sha256", a.SHA256, "from", f.Copy.From)
			break
		}
		if ctx.Err() != nil {
			err = context.Canceled
			break
		}
		s.Log.Warn("artifact not copied", "name", a.Name, "sha256", a.SHA256, "from", f.Copy.From, "err", err)
		if errors.Is(err, artifact.ErrNoRoom) {
			break
		}
	}
	s.copying.end(a, err)
}
