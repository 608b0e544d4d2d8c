package agent

import (
	"testing"
	"time"
)

// ShortenLooks bounds looks otherwise for a test.
func ShortenLooks(t *testing.T, d time.Duration) {
	was := lookTimeout
	lookTimeout = d
	t.Cleanup(func() { lookTimeout = was })
}
