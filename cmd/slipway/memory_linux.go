package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// hideMemory has the kernel keep the memory of this process, which holds secrets, from
// other processes of the same user and out of cores. Programs that it starts are not
// hidden: they hold none, but for slipway-pkcs11, which hides itself.
func hideMemory() error {
	var all error
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		all = fmt.Errorf("other processes of this user can read the memory of slipway, and with it secrets: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		all = errors.Join(all, fmt.Errorf("a crash of slipway can leave a core on the disk, with secrets in it: %w", err))
	}
	return all
}
