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

// These are GitHub's limits for one token, and our lower ones (docs.github.com, "Rate limits for the REST API" and
// "Best practices for using the REST API").
const (
	// betweenWrites is the time from the end of one write to the start of the next.
	betweenWrites = time.Second
	// GitHub allows 900 points a minute. A read takes 1 and a write 5.
	pointsPerMinute, pointsAtOnce = 720, 100
	readPoints, writePoints       = 1, 5
	// GitHub allows 500 pieces of new content an hour. betweenWrites keeps us below its 80 a minute.
	creationsPerHour, creationsAtOnce = 400, 80
	// maxWait is how long a request waits for a budget. If the wait is longer, the request fails with the time.
	maxWait = time.Minute
	// firstSilence applies when GitHub wants no requests but does not say for how long. It doubles each time that
	// this repeats.
	firstSilence, longestSilence = time.Minute, 24 * time.Hour
	maxDoublings                 = 6
)

// limits keeps us below GitHub's limits.
type limits struct {
	log               *slog.Logger
	turn              chan struct{} // held by the writer
	next              time.Time     // when the next write may begin; guarded by turn
	points, creations *rate.Limiter

	mu      sync.Mutex
	until   time.Time // no request before
	why     string
	strikes int // how often in a row GitHub refused
}

func newLimits(log *slog.Logger) *limits {
	return &limits{
		log: log, turn: make(chan struct{}, 1),
		points:    rate.NewLimiter(rate.Every(time.Minute/pointsPerMinute), pointsAtOnce),
		creations: rate.NewLimiter(rate.Every(time.Hour/creationsPerHour), creationsAtOnce),
	}
}

// enter waits until a request may be sent. The caller calls leave after the request.
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

// ready waits until the write that holds the turn may begin.
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
	return l.silence() // another request may have met a limit meanwhile
}

// creates reports whether a request may count as new content. Besides comments, GitHub does not say which things in
// a repository count, so all of them do here. Editing does not.
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

// silence is an error while GitHub wants no requests.
func (l *limits) silence() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().Before(l.until) {
		return &forge.Limited{Until: l.until, Why: l.why}
	}
	return nil
}

// heard looks for limits in an answer. It returns an error if the answer only reports a limit.
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

// isLimit reports whether an answer only says that there were too many requests. The secondary limits also come as
// 403, not always with a header. Older servers call them abuse detection.
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

// silenceOf returns how long the server wants no requests. It goes by the server's clock, which is in the answer.
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
