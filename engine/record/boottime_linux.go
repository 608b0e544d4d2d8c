package record

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime returns the time since the host was started, with the time that it was suspended. Go's
// monotonic clock stands still meanwhile (clock_gettime(2), CLOCK_BOOTTIME).
func bootTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err) // Linux has this clock since 2.6.39
	}
	return time.Duration(now.Nano())
}
