package lab

import (
	"slices"
	"sync"
	"time"
)

// maxCalls is how many calls the log keeps; the machines' counts go on
// beyond.
const maxCalls = 200_000

// Call is one request that a BMC received.
type Call struct {
	When    time.Time `json:"when"`
	Source  string    `json:"source"`
	Machine string    `json:"machine"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	Status  int       `json:"status"` // 0 when there was no answer
	// Reset is the ResetType that the body asks for.
	Reset string `json:"reset,omitempty"`
}

// Write says whether the call asked for a change of the machine; logging in
// and out is none.
func (c Call) Write() bool {
	return c.Method != "GET" && c.Method != "HEAD" && !isSession(c.Path)
}

// callLog is what all BMCs were asked: a ring of the last calls.
type callLog struct {
	mu    sync.Mutex
	calls []Call
	count int // of all calls ever; the next one's place in the ring
	first time.Time
	watch func(n int, c Call) // told of each call; may be nil
	hold  func(n int, c Call) // told of each call that arrived; may be nil
}

// arrived tells whoever holds calls of one.
func (l *callLog) arrived(n int, c Call) {
	l.mu.Lock()
	hold := l.hold
	l.mu.Unlock()
	if hold != nil {
		hold(n, c)
	}
}

// add logs a call, and tells whoever watches.
func (l *callLog) add(c Call) {
	if n, watch := l.put(c); watch != nil {
		watch(n, c)
	}
}

func (l *callLog) put(c Call) (n int, watch func(int, Call)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == 0 || c.When.Before(l.first) {
		l.first = c.When
	}
	if len(l.calls) < maxCalls {
		l.calls = append(l.calls, c)
	} else {
		l.calls[l.count%maxCalls] = c
	}
	l.count++
	return l.count, l.watch
}

// Calls is the log of requests, the last 200,000 of them, in the order in
// which they ended.
func (f *Fleet) Calls() []Call {
	l := &f.calls
	l.mu.Lock()
	defer l.mu.Unlock()
	oldest := 0
	if l.count > maxCalls {
		oldest = l.count % maxCalls
	}
	return append(slices.Clone(l.calls[oldest:]), l.calls[:oldest]...)
}

// CallCount is how many requests were received.
func (f *Fleet) CallCount() int {
	f.calls.mu.Lock()
	defer f.calls.mu.Unlock()
	return f.calls.count
}

// FirstCall is when the first request was received.
func (f *Fleet) FirstCall() time.Time {
	f.calls.mu.Lock()
	defer f.calls.mu.Unlock()
	return f.calls.first
}

// Watch has every request told from now on, with its number, from 1: when it
// was carried out and logged, and is not answered before do returns. A client
// that is killed in that moment never learns what it has done. A nil do ends
// it.
func (f *Fleet) Watch(do func(n int, c Call)) {
	f.calls.mu.Lock()
	defer f.calls.mu.Unlock()
	f.calls.watch = do
}

// Hold has every request told from now on, with its number at its machine,
// from 1: when it was received, and it is not carried out before do returns. A
// client that leaves in that moment does not stop a request that asks for a
// change. A nil do ends it.
func (f *Fleet) Hold(do func(n int, c Call)) {
	f.calls.mu.Lock()
	defer f.calls.mu.Unlock()
	f.calls.hold = do
}
