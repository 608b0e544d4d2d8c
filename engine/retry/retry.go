// Package retry decides when something is tried again, and makes recurring errors read
// the same.
package retry

import (
	"context"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"
)

// Waits between tries double from first to longest, 5 s, 10 s, 20 s, 40 s, 80 s, 160 s
// and then 180 s, each with jitter.
const (
	first   = 5 * time.Second
	longest = 3 * time.Minute
)

// Backoff returns how long to wait after that many failures in a row.
func Backoff(failures int) time.Duration {
	if failures > 6 {
		return longest
	}
	return min(first<<(max(failures, 1)-1), longest)
}

// Jitter spreads a period by a tenth to either side, so that many machines, or many
// sites, do not fall into step.
func Jitter(dice *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*dice.Float64()))
}

// Sleep waits for d. It returns false if the context ended meanwhile.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// ephemeral matches the local half of a connection in an error of package net; its
// port differs each time.
var ephemeral = regexp.MustCompile(`\S+:\d+->`)

// Steady returns an error's text without what differs from try to try, so that the
// same trouble reads the same.
func Steady(err error) string {
	return strings.TrimSpace(ephemeral.ReplaceAllString(strings.ReplaceAll(err.Error(), "\n", "; "), ""))
}
