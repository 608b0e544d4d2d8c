package github

import (
	"slices"
	"sync"
	"time"
)

// Call is a request that the double received.
type Call struct {
	When    time.Time // by the double's clock
	Method  string
	Path    string // without the API's root
	Query   string
	Account string // whose rate limit it counts against
	Route   string // as in GitHub's description: /repos/{owner}/{repo}; empty for Git and for none
	Status  int    // zero when there was no answer
	Body    string
	Limit   string // primary or secondary, when that is why it was refused
}

// Write says whether the call asked for a change.
func (c Call) Write() bool { return c.Method != "GET" && c.Method != "HEAD" }

type callLog struct {
	mu    sync.Mutex
	calls []Call
}

func (l *callLog) add(c Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
}

// Calls is the log of requests, in the order in which they ended.
func (s *Server) Calls() []Call {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return slices.Clone(s.log.calls)
}

// Forget empties the log.
func (s *Server) Forget() {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.calls = nil
}
