package main

import (
	"log/slog"
	"syscall"

	"golang.org/x/sys/unix"
)

// dropAmbient has the programs that the daemon starts, workers that evaluate designs
// among them, not inherit the privileges that a service manager gave to the daemon
// for network boot. The daemon itself keeps them.
func dropAmbient(log *slog.Logger) {
	given := false
	for _, c := range []int{unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_RAW} {
		is, err := unix.PrctlRetInt(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_IS_SET, uintptr(c), 0, 0)
		given = given || err == nil && is == 1
	}
	if !given {
		return
	}
	if _, _, err := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0); err != 0 {
		log.Warn("the privileges for network boot could not be dropped: programs that the daemon starts have them too", "err", err)
	}
}
