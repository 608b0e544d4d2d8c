// Package crash ends the process it is built into over one of its writes. No
// program has it: the tests of crashes build one that calls it wherever the
// daemon writes something down, see TestProveCrashPoints.
package crash

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
)

const (
	// At is the variable that says when the process ends: "before 17" ends it
	// in place of its 17th write, "after 17" when that is done and whoever
	// asked for it has no answer yet.
	At = "E2E_CRASH_AT"
	// Log is the variable that names the file in which each write is a line.
	Log = "E2E_CRASH_LOG"
)

var writes atomic.Int64

// Write is called at the beginning of a write; what it gives, at its end.
func Write() (written func()) {
	n := writes.Add(1)
	note(n)
	die("before", n)
	return func() { die("after", n) }
}

// die ends the process without another instruction of it if this is the moment.
func die(when string, n int64) {
	if os.Getenv(At) != fmt.Sprint(when, " ", n) {
		return
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {}
}

// note tells of a write and of who asked for it.
func note(n int64) {
	f, err := os.OpenFile(os.Getenv(Log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, n, callers()); err != nil {
		panic(err)
	}
}

// callers names the functions that led to a write, the nearest first.
func callers() string {
	pcs := make([]uintptr, 8)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	var names []string
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		names = append(names, f.Function[strings.LastIndex(f.Function, "/")+1:])
	}
	return strings.Join(names, " < ")
}
