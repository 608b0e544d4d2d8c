package forge

import (
	"context"
	"sync"
)

// About is what a hint is about.
type About string

// What hints are about.
const (
	AboutAnything About = "anything" // something has changed: look at all of it
	AboutBranch   About = "branch"   // Branch is at another commit
	AboutProposal About = "proposal" // the proposal Number was changed
	AboutComment  About = "comment"  // the comment Comment on the proposal Number
	AboutCheck    About = "check"    // somebody wants the check Check of Commit again
)

// Hint says where to look for news. It carries no news: whoever gets one asks
// the forge, as if it were time to anyway. A hint that is late, repeated, out of
// order or lost therefore does no harm.
type Hint struct {
	About         About
	Branch        string
	Number        int
	Comment       int64
	Check, Commit string
}

// maxHints is how many hints wait, before they become one that is about
// anything.
const maxHints = 1000

// Hints wait for whoever looks. Equal ones are one. It may be used by many
// goroutines.
type Hints struct {
	mu    sync.Mutex
	queue []Hint
	there map[Hint]bool
	wake  chan struct{}
}

// NewHints makes an empty queue.
func NewHints() *Hints { return &Hints{there: map[Hint]bool{}, wake: make(chan struct{}, 1)} }

// Add returns at once.
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
	default: // it is awake
	}
}

// Next waits for a hint, the oldest. Its error is the context's.
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
