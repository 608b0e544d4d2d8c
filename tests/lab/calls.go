package lab

import (
	"sync"
	"time"
)

// maxCalls is how many calls the log keeps; counts go on beyond.
const maxCalls = 200_000

// Call is one request that a BMC received.
type Call struct {
	When    time.Time `json:"when"`
	Source  string    `json:"source"`
	Machine string    `json:"machine"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	Status  int       `json:"status"`
}

// Write says whether the call asked for a change of the machine; logging in
// and out is none.
func (c Call) Write() bool {
	return c.Method != "GET" && c.Method != "HEAD" && !isSession(c.Path)
}

// callLog is what all BMCs were asked.
type callLog struct {
	mu    sync.Mutex
	calls []Call
	count int
	first time.Time
}

func (l *callLog) begin() { l.calls = make([]Call, 0, 1024) }

func (l *callLog) add(c Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == 0 {
		l.first = c.When
	}
	l.count++
	if len(l.calls) < maxCalls {
		l.calls = append(l.calls, c)
	}
}

// Calls is the log of requests, the first 200,000 of them.
func (f *Fleet) Calls() []Call {
	f.calls.mu.Lock()
	defer f.calls.mu.Unlock()
	return append([]Call(nil), f.calls.calls...)
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
