package forge

import (
	"context"
	"sync"
)

// About is what a hint is about.
type About string

// What hints are about.
const (
	AboutAnything About = "anything" // something has changed: check everything
	AboutBranch   About = "branch"   // Branch has a new commit
	AboutProposal About = "proposal" // the proposal Number was changed
	AboutComment  About = "comment"  // the comment Comment on the proposal Number
	AboutCheck    About = "check"    // somebody requests the check Check of Commit again
)

// Hint says where to look for news, but carries none. Whoever receives it asks
// the forge, as in a regular poll. So a hint that is late, repeated, out of
// order or lost does no harm.
type Hint struct {
	About         About
	Branch        string
	Number        int
	Comment       int64
	Check, Commit string
}

// maxHints is how many hints may wait before they are replaced by one about
// anything.
const maxHints = 1000

// Hints is a queue of hints, without duplicates. It is safe for concurrent use.
type Hints struct {
	mu    sync.Mutex
	queue []Hint
	there map[Hint]bool
	wake  chan struct{}
}

// NewHints makes an empty queue.
func NewHints() *Hints { return &Hints{there: map[Hint]bool{}, wake: make(chan struct{}, 1)} }

// Add adds a hint and returns at once.
func (h *Hints) Add(x Hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.there[x] || h.there[Hint{About: AboutAnything}] {
		return
	}
	if x.About == AboutAnything || len(h.queue) >= maxHints {
		x = Hint{About: AboutAnything}
		h.queue = nil
		clear(h.there)
	}
	h.queue = append(h.queue, x)
	h.there[x] = true
	select {
	case h.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// Next waits for and returns the oldest hint. Its error is the context's.
func (h *Hints) Next(ctx context.Context) (Hint, error) {
	for {
		if x, ok := h.take(); ok {
			return x, nil
		}
		select {
		case <-h.wake:
		case <-ctx.Done():
			return Hint{}, ctx.Err()
		}
	}
}

func (h *Hints) take() (Hint, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) == 0 {
		return Hint{}, false
	}
	x := h.queue[0]
	h.queue = h.queue[1:]
	delete(h.there, x)
	return x, true
}
