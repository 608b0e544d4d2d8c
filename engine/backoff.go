package engine

import (
	"regexp"
	"strings"
	"time"
)

// Waits between tries double from firstBackoff to maxBackoff, 5 s, 10 s, 20 s,
// 40 s, 80 s, 160 s and then 180 s, each with jitter. A machine that names its
// own time is believed up to maxRetryAfter.
const (
	firstBackoff  = 5 * time.Second
	maxBackoff    = 3 * time.Minute
	maxRetryAfter = 15 * time.Minute
)

func backoff(failures int) time.Duration {
	if failures > 6 {
		return maxBackoff
	}
	return min(firstBackoff<<(max(failures, 1)-1), maxBackoff)
}

// ephemeral is the local half of a connection in an error of package net; its
// port is another one each time.
var ephemeral = regexp.MustCompile(`\S+:\d+->`)

// steady is an error's text without what differs from try to try, so that the
// same trouble reads the same.
func steady(err error) string {
	return strings.TrimSpace(ephemeral.ReplaceAllString(strings.ReplaceAll(err.Error(), "\n", "; "), ""))
}
