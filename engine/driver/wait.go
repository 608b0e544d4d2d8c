package driver

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Wait is something external that a step waits for. For completes the sentence
// "waits for …".
type Wait struct {
	For   string
	Since time.Time
	Limit time.Duration
}

// At says how long the wait has taken.
func (w Wait) At(now time.Time) string {
	passed, limit := max(0, min(now.Sub(w.Since), w.Limit)).Truncate(time.Second), w.Limit.String()
	switch {
	case w.Limit >= time.Hour:
		limit = strings.TrimSuffix(w.Limit.Round(time.Minute).String(), "0s")
	case w.Limit > time.Minute:
		limit = w.Limit.Round(time.Second).String() // the rest of a longer limit
	}
	return fmt.Sprintf("waits for %s, %s of at most %s", w.For, passed, limit)
}

type waitKey struct{}

// ShowWaits returns a context for Apply that calls show with each wait as it
// begins, and with nil when it is over. There are only these two calls per wait,
// however long it takes: the reader computes the progress.
func ShowWaits(ctx context.Context, show func(*Wait)) context.Context {
	return context.WithValue(ctx, waitKey{}, show)
}

// Waiting reports that a step begins to wait, at most for limit. The step calls
// the returned function when the wait is over, however it ended.
func Waiting(ctx context.Context, what string, limit time.Duration) (over func()) {
	return WaitingSince(ctx, what, time.Now(), limit)
}

// WaitingSince is Waiting for a wait that goes on, and says something else now.
func WaitingSince(ctx context.Context, what string, since time.Time, limit time.Duration) (over func()) {
	show, ok := ctx.Value(waitKey{}).(func(*Wait))
	if !ok {
		return func() {}
	}
	show(&Wait{For: what, Since: since, Limit: limit})
	return func() { show(nil) }
}
