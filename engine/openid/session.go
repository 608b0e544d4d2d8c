package openid

import (
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
)

// How many sessions there are at most, of all persons and of one.
const (
	mostSessions      = 1024
	mostSessionsOfOne = 16
)

// sessions are the browsers that are logged in. They are in memory alone: a daemon that starts knows none.
type sessions struct {
	mu  sync.Mutex
	all map[digest]session
}

// digest is the SHA-256 of what a cookie has: what is compared tells nothing by the time that it takes.
type digest [sha256.Size]byte

func digestOf(text string) digest { return sha256.Sum256([]byte(text)) }

// session is one browser of a person.
type session struct {
	caller access.Caller // without an address
	// by is what the person was judged by. Other settings end the session.
	by          access.Issuer
	began, ends time.Time
}

// judging are the settings that say who a person is: those that only say how to ask the issuer, and for how long the
// answer counts, are left out.
func judging(s *access.Issuer) access.Issuer {
	return access.Issuer{URL: s.URL, Client: s.Client, Name: s.Name, Groups: s.Groups, Domains: s.Domains, Authority: s.Authority}
}

// begin makes a session, and gives what the cookie has. The oldest of the person ends where there are too many, or of
// everybody.
func (s *sessions) begin(one session) (secret string) {
	secret = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[digest]session{}
	}
	s.clean(one.began)
	own := func(x session) bool { return x.caller.Name == one.caller.Name && x.caller.Issuer == one.caller.Issuer }
	s.makeRoom(own, mostSessionsOfOne)
	s.makeRoom(func(session) bool { return true }, mostSessions)
	s.all[digestOf(secret)] = one
	return secret
}

// clean forgets those that are over. It is called with the lock held.
func (s *sessions) clean(now time.Time) {
	for key, x := range s.all {
		if !now.Before(x.ends) {
			delete(s.all, key)
		}
	}
}

// makeRoom ends the oldest session of some, where there are as many as there may be. It is called with the lock held.
func (s *sessions) makeRoom(of func(session) bool, most int) {
	n, oldest, began := 0, digest{}, time.Time{}
	for key, x := range s.all {
		if !of(x) {
			continue
		}
		if n++; n == 1 || x.began.Before(began) {
			oldest, began = key, x.began
		}
	}
	if n >= most {
		delete(s.all, oldest)
	}
}

// of is the session of a cookie. A clock that was set back does not make it longer.
func (s *sessions) of(secret string, now time.Time) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.all[digestOf(secret)]
	if ok && (!now.Before(one.ends) || one.began.Sub(now) > clockSlack) {
		delete(s.all, digestOf(secret))
		return session{}, false
	}
	return one, ok
}

// end ends the session of a cookie, and gives it.
func (s *sessions) end(secret string) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.all[digestOf(secret)]
	delete(s.all, digestOf(secret))
	return one, ok
}
