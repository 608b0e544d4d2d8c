package github

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// GitHub's limits (docs.github.com, "Rate limits for the REST API"). What the
// documentation calls content-generating is open; here it is every POST on a
// repository.
const (
	userHourly      = 5_000
	anonymousHourly = 60
	installHourly   = 5_000 // and 50 more for each repository and user beyond 20
	installMost     = 12_500
	maxAtOnce       = 100
	pointsPerMinute = 900 // a read is one, a write five
	contentMinute   = 80
	contentHour     = 500
	secondaryWait   = time.Minute
)

// budget is what an account spent.
type budget struct {
	limit   int
	used    int
	resets  time.Time // zero before the first request
	under   int       // requests under way
	points  window
	content window
	blocked time.Time // by a secondary limit, until then
}

// window is costs by time, the last hour's.
type window []cost

type cost struct {
	at time.Time
	n  int
}

// since adds up what was spent after a time.
func (w window) since(t time.Time) (n int) {
	for _, c := range w {
		if c.at.After(t) {
			n += c.n
		}
	}
	return n
}

func (w *window) spend(at time.Time, n int) {
	for len(*w) > 0 && !(*w)[0].at.After(at.Add(-time.Hour)) {
		*w = (*w)[1:]
	}
	*w = append(*w, cost{at, n})
}

// budgetOf is the budget of an identity in the hour that runs.
func (s *Server) budgetOf(i *identity) *budget {
	name := i.account()
	b := s.spent[name]
	if b == nil {
		b = &budget{}
		s.spent[name] = b
	}
	b.limit = s.hourly(i)
	if !b.resets.IsZero() && !s.now().Before(b.resets) {
		b.used, b.resets = 0, time.Time{}
	}
	return b
}

func (s *Server) hourly(i *identity) int {
	switch {
	case i.install != nil:
		return min(installMost, installHourly+50*max(0, len(i.install.repositories())-20))
	case i.user != nil:
		return userHourly
	}
	return anonymousHourly
}

// Spend counts requests against the rate limit of a token, as if they had been
// made.
func (s *Server) Spend(token string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budgetOf(s.must(token)).spend(s.now(), n)
}

// Throttle has the secondary limit of a token's account reached, for a while.
func (s *Server) Throttle(token string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budgetOf(s.must(token)).blocked = s.now().Add(d)
}

func (s *Server) must(token string) *identity {
	i, err := s.bearer(token)
	if err != nil {
		panic("github double: no such token: " + token)
	}
	return i
}

func (b *budget) spend(at time.Time, n int) {
	if b.resets.IsZero() {
		b.resets = at.Add(time.Hour)
	}
	b.used += n
}

// admit says whether a request may go on, and which limit forbids it. Who went
// over a secondary limit is refused for a minute.
func (b *budget) admit(now time.Time, method string, content, crowded bool) (limit string) {
	points, contents := 1, 0
	if method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions {
		points = 5
	}
	if content {
		contents = 1
	}
	minute, hour := now.Add(-time.Minute), now.Add(-time.Hour)
	switch {
	case b.used >= b.limit:
		return "primary"
	case now.Before(b.blocked):
		return "secondary"
	case crowded, b.points.since(minute)+points > pointsPerMinute,
		content && (b.content.since(minute) >= contentMinute || b.content.since(hour) >= contentHour):
		b.blocked = now.Add(secondaryWait)
		return "secondary"
	}
	b.points.spend(now, points)
	b.content.spend(now, contents)
	return ""
}

// limited is the answer to a request that was not admitted.
func (b *budget) limited(now time.Time, kind string, who *identity) *answer {
	if kind == "primary" {
		return failed(http.StatusForbidden, "API rate limit exceeded for "+who.account()+".", "/rest/overview/rate-limits-for-the-rest-api")
	}
	a := failed(http.StatusForbidden,
		"You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
		"/free-pro-team@latest/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits")
	a.header = http.Header{"Retry-After": {strconv.Itoa(int(math.Ceil(b.blocked.Sub(now).Seconds())))}}
	return a
}

// headers tell the caller how they stand with the primary limit.
func (b *budget) headers(h http.Header, now time.Time) {
	v := b.view(now)
	for _, name := range []string{"limit", "remaining", "reset", "used"} {
		h.Set("X-RateLimit-"+name, fmt.Sprint(v[name]))
	}
	h.Set("X-RateLimit-Resource", "core")
}

func (b *budget) view(now time.Time) object {
	resets := b.resets
	if resets.IsZero() {
		resets = now.Add(time.Hour)
	}
	return object{"limit": b.limit, "remaining": max(0, b.limit-b.used), "reset": resets.Unix(), "used": min(b.used, b.limit)}
}

// rateLimit is free of the primary limit.
func (c *call) rateLimit() answer {
	v := c.budgetOf(c.who).view(c.now())
	return ok(object{"resources": object{"core": v, "search": object{"limit": 30, "remaining": 30, "reset": v["reset"], "used": 0}}, "rate": v})
}
