package github

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/slipway-gitops/slipway/engine/forge"
)

// GitHub's limits for one token, and what we stay below (docs.github.com, "Rate
// limits for the REST API" and "Best practices for using the REST API").
const (
	// betweenWrites is counted from the end of one write to the beginning of
	// the next.
	betweenWrites = time.Second
	// 900 points a minute, of which a read takes 1 and a write 5.
	pointsPerMinute, pointsAtOnce = 720, 100
	readPoints, writePoints       = 1, 5
	// 500 pieces of new content an hour; 80 a minute are beyond betweenWrites.
	creationsPerHour, creationsAtOnce = 400, 80
	// maxWait is how long a request waits for a budget; when it would be
	// longer, it fails with the time.
	maxWait = time.Minute
	// firstSilence is kept when GitHub does not say for how long it wants no
	// requests. It doubles as long as it says so again.
	firstSilence, longestSilence = time.Minute, 24 * time.Hour
	maxDoublings                 = 6
)

// limits keep us below GitHub's.
type limits struct {
	log               *slog.Logger
	turn              chan struct{} // held by the one who writes
	next              time.Time     // when the next write may begin; of who has the turn
	points, creations *rate.Limiter

	mu      sync.Mutex
	until   time.Time // no request before
	why     string
	strikes int // how often in a row GitHub wanted no request
}

func newLimits(log *slog.Logger) *limits {
	return &limits{
		log: log, turn: make(chan struct{}, 1),
		points:    rate.NewLimiter(rate.Every(time.Minute/pointsPerMinute), pointsAtOnce),
		creations: rate.NewLimiter(rate.Every(time.Hour/creationsPerHour), creationsAtOnce),
	}
}

// enter waits until a request may be sent. The caller calls leave after it.
func (l *limits) enter(req *http.Request) (leave func(), err error) {
	if err := l.silence(); err != nil {
		return nil, err
	}
	ctx := req.Context()
	if req.Method == http.MethodGet {
		return func() {}, l.spend(ctx, l.points, readPoints)
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := l.ready(req); err != nil {
		<-l.turn
		return nil, err
	}
	return func() {
		l.next = time.Now().Add(betweenWrites)
		<-l.turn
	}, nil
}

// ready waits until the write that has the turn may begin.
func (l *limits) ready(req *http.Request) error {
	ctx := req.Context()
	if creates(req) {
		if err := l.spend(ctx, l.creations, 1); err != nil {
			return err
		}
	}
	if err := l.spend(ctx, l.points, writePoints); err != nil {
		return err
	}
	if err := sleep(ctx, time.Until(l.next)); err != nil {
		return err
	}
	return l.silence() // which others may have been told to keep meanwhile
}

// creates tells what may count as new content. GitHub does not say which of a
// repository's things do, beside comments: so all of them do here. Editing does
// not.
func creates(req *http.Request) bool {
	return req.Method == http.MethodPost && strings.Contains(req.URL.Path, "/repos/")
}

func (l *limits) spend(ctx context.Context, budget *rate.Limiter, n int) error {
	r := budget.ReserveN(time.Now(), n)
	wait := r.Delay()
	if wait > maxWait {
		r.Cancel()
		return &forge.Limited{Until: time.Now().Add(wait), Why: "Slipway stays below GitHub's hourly limit of new content"}
	}
	if err := sleep(ctx, wait); err != nil {
		r.Cancel()
		return err
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// silence is the error of a request in a time in which GitHub wants none.
func (l *limits) silence() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.until) {
		return &forge.Limited{Until: l.until, Why: l.why}
	}
	return nil
}

// heard looks for limits in an answer. An answer that is nothing else is an
// error.
func (l *limits) heard(resp *http.Response, body []byte) error {
	used := resp.Header.Get("X-Ratelimit-Remaining") == "0"
	limited := isLimit(resp, used, body)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !limited {
		l.strikes = 0
	}
	if !limited && !used {
		return nil
	}
	wait := silenceOf(resp.Header, time.Now(), l.strikes)
	if limited {
		l.strikes++
	}
	l.until, l.why = time.Now().Add(wait), "this hour's requests are used up"
	if !used {
		l.why = "too many requests at once"
	}
	l.log.Warn("github accepts no requests for now", "for", wait.Round(time.Second), "err", l.why)
	if !limited {
		return nil
	}
	return &forge.Limited{Until: l.until, Why: l.why}
}

// isLimit tells whether an answer says only that there were too many requests.
// The secondary limits come as 403, too, and not always with a header; older
// servers call them abuse detection.
func isLimit(resp *http.Response, used bool, body []byte) bool {
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusForbidden:
		said := strings.ToLower(string(body))
		return used || resp.Header.Get("Retry-After") != "" || strings.Contains(said, "secondary rate limit") || strings.Contains(said, "abuse detection")
	}
	return false
}

// silenceOf is for how long an answer wants no requests. Times are by the
// server's clock, which is in the answer.
func silenceOf(h http.Header, now time.Time, strikes int) time.Duration {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	wait := firstSilence << min(strikes, maxDoublings)
	after := h.Get("Retry-After")
	reset, resetErr := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64)
	if seconds, err := strconv.ParseInt(after, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(after); err == nil {
		wait = date.Sub(now)
	} else if h.Get("X-Ratelimit-Remaining") == "0" && resetErr == nil {
		wait = time.Unix(reset, 0).Sub(now) + time.Second
	}
	return min(max(wait, time.Second), longestSilence)
}
