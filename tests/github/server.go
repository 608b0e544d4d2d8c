package github

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Config is what a double is made of.
type Config struct {
	Dir         string            // where the repositories lie; it must exist
	Description *Description      // what everything is held against; nil for nothing
	Webhooks    http.RoundTripper // carries webhooks; nil for the network
}

// Server is the double.
type Server struct {
	config Config
	url    string
	host   *httptest.Server
	hooker *http.Client
	log    callLog
	ctx    context.Context // of webhooks; ends with the double
	stop   context.CancelFunc
	moved  sync.Cond // told of each delivery that ended

	mu         sync.Mutex // guards all below, and what hangs from it
	ahead      time.Duration
	last       int64 // the last id given to anything
	users      map[string]*User
	repos      []*Repository
	apps       []*App
	identities map[string]*identity // by token
	spent      map[string]*budget   // by whose requests they are
	hooks      []*Hook
	outages    []*outage
	lag        int    // how many requests lists are late by
	pasts      []past // what there was before the last requests, the oldest first
	carriage   bool   // whether lines of comments end with CR LF
	reticent   bool   // whether timelines leave out how it came to a merge
	violations []string
}

// New is a double that nobody can reach yet: it is an http.Handler.
func New(c Config) *Server {
	s := &Server{
		config: c, url: "https://github.invalid",
		users: map[string]*User{}, identities: map[string]*identity{}, spent: map[string]*budget{},
		hooker: &http.Client{Transport: c.Webhooks, Timeout: hookTimeout, CheckRedirect: noRedirect},
	}
	s.moved.L = &s.mu
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Start is a double that listens on loopback until the test ends, and fails it
// for what GitHub's description does not allow.
//
// Where the description is not installed the test is skipped, and fails under
// CI.
func Start(t testing.TB) *Server {
	t.Helper()
	s := New(Config{Dir: t.TempDir(), Description: Describe(t)})
	s.Listen()
	t.Cleanup(func() {
		s.Close()
		for _, v := range s.Violations() {
			t.Error(v)
		}
	})
	return s
}

// Listen makes the double reachable on a loopback port.
func (s *Server) Listen() {
	s.host = httptest.NewUnstartedServer(s)
	s.host.Config.ErrorLog = quiet
	s.host.StartTLS()
	s.url = s.host.URL
}

// Close ends every connection and every webhook under way.
func (s *Server) Close() {
	s.mu.Lock()
	for _, o := range s.outages {
		o.end()
	}
	s.outages = nil
	s.mu.Unlock()
	s.stop()
	if s.host != nil {
		s.host.CloseClientConnections()
		s.host.Close()
	}
	s.Settle()
}

// URL is the root of the double, without a slash at its end.
func (s *Server) URL() string { return s.url }

// API is the root of its REST API.
func (s *Server) API() string { return s.url + apiRoot + "/" }

// CA is the certificate authority of a double that listens, as PEM.
func (s *Server) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.host.Certificate().Raw})
}

// Client is an HTTP client that trusts the double.
func (s *Server) Client() *http.Client { return s.host.Client() }

// Now is the double's clock, by which tokens expire and limits end.
func (s *Server) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

// Pass sets the double's clock forward.
func (s *Server) Pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// Violations lists what did not agree with GitHub's description, and forgets
// it.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.violations
	s.violations = nil
	return all
}

// CarriageReturns has the lines of comments end with CR LF, as they do where
// browsers send them.
func (s *Server) CarriageReturns(are bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carriage = are
}

func (s *Server) now() time.Time { return time.Now().Add(s.ahead) }

func (s *Server) violated(format string, args ...any) {
	s.violations = append(s.violations, fmt.Sprintf(format, args...))
}

func (s *Server) nextID() int64 {
	s.last++
	return s.last
}
