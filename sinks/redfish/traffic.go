package redfish

import (
	"context"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// lanes are how many requests a BMC has at a time: one write, and at most two
// reads. BMCs are small computers, and some stop answering under more.
type lanes struct{ reads, writes *semaphore.Weighted }

const maxReads = 2

func newLanes() lanes { return lanes{semaphore.NewWeighted(maxReads), semaphore.NewWeighted(1)} }

// enter waits for a free lane, which leave gives back.
func (l lanes) enter(ctx context.Context, method string) (leave func(), err error) {
	lane := l.writes
	if method == http.MethodGet || method == http.MethodHead {
		lane = l.reads
	}
	return func() { lane.Release(1) }, lane.Acquire(ctx, 1)
}

// breaker keeps requests from a BMC that does not answer, so that a look with
// many of them waits for its timeouts once. It rests for less than the engine
// waits between two tries, and hides no recovery: the first request after a
// rest is let through as a probe, and an answer ends it.
type breaker struct {
	rest time.Duration

	mu       sync.Mutex
	failures int
	until    time.Time
	last     error
}

// breakAfter is how many requests in a row have to fail: one may be a
// connection that the BMC has just closed.
const breakAfter = 2

// allow says why a request is not sent; nil when it is.
func (b *breaker) allow() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < breakAfter {
		return nil
	}
	if now := time.Now(); now.After(b.until) {
		b.until = now.Add(b.rest) // for the others, while this one probes
		return nil
	}
	return resting{b.last}
}

// resting is the error of the last request, for one that is not sent.
type resting struct{ error }

func (r resting) Unwrap() []error { return []error{r.error, driver.ErrNotAsked} }

// note takes in how a request ended; nil is an answer, of whatever kind.
func (b *breaker) note(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.failures, b.last = 0, nil
		return
	}
	b.failures++
	b.until, b.last = time.Now().Add(b.rest), err
}
