//go:build !linux

package record

import "time"

var started = time.Now()

// bootTime returns the time since the program was started: other systems than Linux have no such
// clock that also counts the time that the host was suspended.
func bootTime() time.Duration { return time.Since(started) }
