package driver

import (
	"context"
	"fmt"
	"time"
)

// Wait is something outside that a step waits for. For completes the sentence
// "waits for …".
type Wait struct {
	For   string
	Since time.Time
	Limit time.Duration
}

// At says how far the wait is.
func (w Wait) At(now time.Time) string {
	passed, limit := max(0, min(now.Sub(w.Since), w.Limit)).Truncate(time.Second), w.Limit
	if limit > time.Minute {
		limit = limit.Round(time.Second) // what is left of a longer one
	}
	return fmt.Sprintf("waits for %s, %s of %s", w.For, passed, limit)
}

type waitKey struct{}

// ShowWaits is a context for Apply in which show is told of each wait as it begins,
// and of nil when it is over. It is told twice for a wait, however long that takes:
// whoever is asked how far it is computes that.
func ShowWaits(ctx context.Context, show func(*Wait)) context.Context {
	return context.WithValue(ctx, waitKey{}, show)
}

// Waiting tells that a step begins to wait, for as long as limit at most. The step
// calls what it returns when the wait is over, however it ended.
func Waiting(ctx context.Context, what string, limit time.Duration) (over func()) {
	show, ok := ctx.Value(waitKey{}).(func(*Wait))
	if !ok {
		return func() {}
	}
	show(&Wait{For: what, Since: time.Now(), Limit: limit})
	return func() { show(nil) }
}
