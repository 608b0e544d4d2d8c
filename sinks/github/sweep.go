package github

import (
	"context"
	"errors"
	"fmt"
	"time"

	gh "github.com/google/go-github/v60/github"
)

const (
	// maxDeliveryPages bounds one look at the deliveries, in pages of 100.
	maxDeliveryPages = 20
	// maxRedeliver bounds the redeliveries that are requested at once.
	maxRedeliver = 20
	// maxAttempts bounds the attempts for one delivery: first by GitHub, then by us.
	maxAttempts = 3
)

// Sweep asks GitHub to redeliver what it could not deliver to the App's webhook since a time, and returns their
// number. GitHub does not redeliver by itself, and remembers three days. Without an App, Sweep returns
// errors.ErrUnsupported: the token would need the right to change webhooks.
func (r *Repository) Sweep(ctx context.Context, since time.Time) (int, error) {
	if r.app == nil {
		return 0, fmt.Errorf("sweep webhook deliveries: %w with a token", errors.ErrUnsupported)
	}
	if _, err := r.app.token(ctx); err != nil { // this finds the installation
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

// accepted reports whether GitHub will do it later, which the library reports as an error.
func accepted(err error) bool {
	var a *gh.AcceptedError
	return errors.As(err, &a)
}

// missed returns the deliveries that never succeeded and have attempts left, the oldest first.
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

// eachDelivery goes through the deliveries since a time that may be for this repository.
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
	return nil // older changes are found by looking at the repository
}

// concerns reports whether a delivery may be about the repository.
func (a *app) concerns(d *gh.HookDelivery) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d.InstallationID != nil && *d.InstallationID != a.installation {
		return false
	}
	return d.RepositoryID == nil || a.repository == 0 || *d.RepositoryID == a.repository
}
