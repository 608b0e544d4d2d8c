package probe

import (
	"testing"
	"time"
)

// RunFor has commands end after some time.
func RunFor(t *testing.T, d time.Duration) {
	was := running
	running = d
	t.Cleanup(func() { running = was })
}
