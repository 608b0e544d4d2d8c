package github

import (
	"context"
	"errors"
	"fmt"
	"time"

	gh "github.com/google/go-github/v60/github"
)

const (
	// maxDeliveryPages bounds one look at the deliveries, of 100 each.
	maxDeliveryPages = 20
	// maxRedeliver is how many deliveries are asked for again at once.
	maxRedeliver = 20
	// maxAttempts is how often one delivery is attempted, by GitHub at first
	// and then by us.
	maxAttempts = 3
)

// Sweep has GitHub deliver again what it could not deliver to the App's webhook
// since a time, and says how many those are. GitHub does not do so by itself,
// and knows of three days. Without an App there is nothing to sweep: a token
// would have to be able to change webhooks (errors.ErrUnsupported).
func (r *Repository) Sweep(ctx context.Context, since time.Time) (int, error) {
	if r.app == nil {
		return 0, fmt.Errorf("sweep webhook deliveries: %w with a token", errors.ErrUnsupported)
	}
	if _, err := r.app.token(ctx); err != nil { // the installation is known then
		return 0, fmt.Errorf("sweep webhook deliveries: %w", err)
	}
	missed, err := r.missed(ctx, since)
	if err != nil {
		return 0, fmt.Errorf("sweep webhook deliveries: %w", explain(err, "the App's own key"))
	}
	for n, id := range missed {
		if _, _, err := r.app.api.Apps.RedeliverHookDelivery(ctx, id); err != nil && !accepted(err) {
			return n, fmt.Errorf("deliver %d again: %w", id, explain(err, "the App's own key"))
		}
	}
	return len(missed), nil
}

// accepted is how the library says that GitHub will do it.
func accepted(err error) bool {
	var a *gh.AcceptedError
	return errors.As(err, &a)
}

// missed are the deliveries of which no attempt succeeded, the oldest first.
func (r *Repository) missed(ctx context.Context, since time.Time) ([]int64, error) {
	type delivery struct {
		id       int64
		attempts int
		arrived  bool
	}
	byGUID := map[string]*delivery{}
	var order []*delivery // the latest first
	err := r.eachDelivery(ctx, since, func(d *gh.HookDelivery) {
		seen := byGUID[d.GetGUID()]
		if seen == nil {
			seen = &delivery{id: d.GetID()}
			byGUID[d.GetGUID()] = seen
			order = append(order, seen)
		}
		seen.attempts++
		seen.arrived = seen.arrived || d.GetStatusCode()/100 == 2
	})
	var missed []int64
	for i := len(order) - 1; i >= 0 && len(missed) < maxRedeliver; i-- {
		if d := order[i]; !d.arrived && d.attempts < maxAttempts {
			missed = append(missed, d.id)
		}
	}
	return missed, err
}

// eachDelivery goes through the deliveries for this repository since a time, as
// far as it is known which those are.
func (r *Repository) eachDelivery(ctx context.Context, since time.Time, on func(*gh.HookDelivery)) error {
	o := &gh.ListCursorOptions{PerPage: 100}
	for range maxDeliveryPages {
		some, resp, err := r.app.api.Apps.ListHookDeliveries(ctx, o)
		if err != nil {
			return err
		}
		for _, d := range some {
			if d.GetDeliveredAt().Before(since) {
				return nil
			}
			if r.app.concerns(d) {
				on(d)
			}
		}
		if o.Cursor = resp.Cursor; o.Cursor == "" {
			return nil
		}
	}
	return nil // what is older still is found by looking at the repository
}

// concerns tells whether a delivery is about the repository.
func (a *app) concerns(d *gh.HookDelivery) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d.InstallationID != nil && *d.InstallationID != a.installation {
		return false
	}
	return d.RepositoryID == nil || a.repository == 0 || *d.RepositoryID == a.repository
}
