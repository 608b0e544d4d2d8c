package openid

import (
	"crypto/rand"
	"sync"
	"time"
)

// Bounds on logins that have begun.
const (
	mostAttempts      = 4096
	mostAttemptsOfOne = 64 // of one network
	attemptsEndWithin = 10 * time.Minute
)

// attempts are logins that have begun and whose browser has not come back from the issuer. Each is bound to one
// browser by a cookie, and is used once.
type attempts struct {
	mu  sync.Mutex
	all map[digest]attempt
}

// attempt is one login.
type attempt struct {
	issuer, client       string
	state, nonce, secret string // secret is the verifier of PKCE, RFC 7636
	to                   string // where the browser goes afterwards
	network              string // whose share it counts in
	ends                 time.Time
}

// begin keeps an attempt, and gives what the cookie has. The oldest of the same network ends where there are too
// many, or of all.
func (a *attempts) begin(one attempt) (cookie string) {
	cookie = rand.Text()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[digest]attempt{}
	}
	a.makeRoom(func(x attempt) bool { return x.network == one.network }, mostAttemptsOfOne)
	a.makeRoom(func(attempt) bool { return true }, mostAttempts)
	a.all[digestOf(cookie)] = one
	return cookie
}

// makeRoom ends the oldest attempt of some, where there are as many as there may be. It is called with the lock held.
func (a *attempts) makeRoom(of func(attempt) bool, most int) {
	n, oldest, ends := 0, digest{}, time.Time{}
	for key, x := range a.all {
		if !of(x) {
			continue
		}
		if n++; n == 1 || x.ends.Before(ends) {
			oldest, ends = key, x.ends
		}
	}
	if n >= most {
		delete(a.all, oldest)
	}
}

// take gives the attempt of a cookie, once.
func (a *attempts) take(cookie string, now time.Time) (attempt, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one, ok := a.all[digestOf(cookie)]
	delete(a.all, digestOf(cookie))
	return one, ok && now.Before(one.ends) && one.ends.Sub(now) <= attemptsEndWithin+clockSlack
}
