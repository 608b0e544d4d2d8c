package github

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// Kind is a way to break down.
type Kind int

// The ways. Those of the first three carry out nothing of what was asked;
// Lost and Half carry it out.
const (
	Refuse Kind = iota // the connection is closed
	Fail               // 502, with a page of HTML
	Stall              // nothing is said until the outage ends or the caller goes; then Refuse
	Slow               // the answer comes after the delay
	Lost               // it is done, and the connection closed without an answer
	Half               // it is done, and half of the answer given
)

// Outage is how the double breaks down, and for what.
type Outage struct {
	Kind  Kind
	For   func(*http.Request) bool // nil for everything, Git too; it must not ask the double
	Times int                      // after how many requests it ends by itself; zero for never
	Delay time.Duration            // of Slow, in the world's time
}

type outage struct {
	Outage
	over chan struct{}
	once sync.Once
}

// Suffer begins an outage, and returns what ends it.
func (s *Server) Suffer(o Outage) (end func()) {
	n := &outage{Outage: o, over: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outages = append(s.outages, n)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.outages = slices.DeleteFunc(s.outages, func(o *outage) bool { return o == n })
		n.end()
	}
}

func (o *outage) end() { o.once.Do(func() { close(o.over) }) }

// outageFor is the first outage that a request meets, nil for none.
func (s *Server) outageFor(r *http.Request) *outage {
	for i, o := range s.outages {
		if o.For != nil && !o.For(r) {
			continue
		}
		if o.Times--; o.Times == 0 {
			s.outages = slices.Delete(s.outages, i, i+1)
		}
		return o
	}
	return nil
}

// carriesOut says whether requests are carried out.
func (o *outage) carriesOut() bool { return o.Kind >= Slow }

// fail is the end of a request that is not.
func (o *outage) fail(w http.ResponseWriter, r *http.Request) {
	switch o.Kind {
	case Fail:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = w.Write([]byte("<html><body><h1>Whoa there!</h1></body></html>"))
		return
	case Stall:
		select {
		case <-o.over:
		case <-r.Context().Done():
		}
	}
	panic(http.ErrAbortHandler)
}

// wait is the delay of an answer.
func (o *outage) wait(r *http.Request) {
	if o == nil || o.Kind != Slow {
		return
	}
	t := time.NewTimer(o.Delay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-o.over:
	case <-r.Context().Done():
	}
}

// around is the writer through which an answer goes.
func (o *outage) around(w http.ResponseWriter) http.ResponseWriter {
	if o == nil || (o.Kind != Lost && o.Kind != Half) {
		return w
	}
	return &broken{w, o.Kind}
}

// broken is a writer that gives nothing of an answer, or half.
type broken struct {
	http.ResponseWriter
	kind Kind
}

func (b *broken) WriteHeader(status int) {
	if b.kind == Half {
		b.ResponseWriter.WriteHeader(status)
	}
}

func (b *broken) Write(p []byte) (int, error) {
	if b.kind == Half {
		_, _ = b.ResponseWriter.Write(p[:len(p)/2])
		_ = http.NewResponseController(b.ResponseWriter).Flush()
	}
	return len(p), nil
}

// after breaks the connection of an answer that was not given whole.
func (o *outage) after() {
	if o != nil && (o.Kind == Lost || o.Kind == Half) {
		panic(http.ErrAbortHandler)
	}
}
