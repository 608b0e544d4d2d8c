package github

import (
	"net/http"
	"slices"
	"sync"
	"time"
)

// Kind is a way to break down.
type Kind int

// The ways. Those before Slow carry out nothing of what was asked; Lost and Half
// carry it out.
const (
	Refuse     Kind = iota // the connection is closed
	Fail                   // 502, with a page of HTML
	Stall                  // nothing is said until the outage ends or the caller goes; then Refuse
	Missing                // 404, though it is there
	Invalid                // 422, though nothing is wrong with it
	Speechless             // 422, without a message
	TooMany                // 429, without a header that says for how long
	Abuse                  // 403, a secondary limit as a page of HTML without a header
	Slow                   // the answer comes after the delay
	Lost                   // it is done, and the connection closed without an answer
	Half                   // it is done, and half of the answer given
)

// canned are the answers of outages that have one.
var canned = map[Kind]struct {
	status     int
	kind, body string
}{
	Fail:       {http.StatusBadGateway, "text/html", "<html><body><h1>Whoa there!</h1></body></html>"},
	Missing:    {http.StatusNotFound, "application/json; charset=utf-8", `{"message":"Not Found","documentation_url":"https://docs.github.com/rest","status":"404"}`},
	Invalid:    {http.StatusUnprocessableEntity, "application/json; charset=utf-8", `{"message":"Validation Failed","errors":[{"resource":"IssueComment","code":"unprocessable"}],"status":"422"}`},
	Speechless: {http.StatusUnprocessableEntity, "application/json; charset=utf-8", `{}`},
	TooMany:    {http.StatusTooManyRequests, "text/html", "<html><body>Too many requests</body></html>"},
	Abuse:      {http.StatusForbidden, "text/html", "<html><body>You have triggered an abuse detection mechanism.</body></html>"},
}

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
	if a, speaks := canned[o.Kind]; speaks {
		w.Header().Set("Content-Type", a.kind)
		w.WriteHeader(a.status)
		_, _ = w.Write([]byte(a.body))
		return
	}
	if o.Kind == Stall {
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
