package install_test

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// ownMounts is set in the environment of the process that has mounts of its own.
const ownMounts = "SLIPWAY_TEST_OWN_MOUNTS"

// TestMain runs the tests with mounts of their own, where root runs them: whatever else is started
// on this host meanwhile, such as a container, would keep a copy of a mount, and its disk in use.
func TestMain(m *testing.M) {
	if os.Getuid() != 0 || os.Getenv(ownMounts) != "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), ownMounts+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		panic(err)
	}
	os.Exit(cmd.ProcessState.ExitCode())
}
