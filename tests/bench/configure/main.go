// Command configure measures how installed systems are configured, beside Debian's
// Ansible on the same hosts: first from nothing, then with nothing to do. It runs as
// root, in namespaces of its own, and prints one line a figure.
//
//	configure/first-ratio     wall of slipway over wall of Ansible, from nothing
//	configure/nochange-ratio  the same, with nothing to do
//	configure/login-ratio     looks of slipway at all hosts over bare logins that run `true`
//	configure/cpu-ratio       processor time of both on the controlling side, with nothing to do
//	configure/node-requests   commands that a look runs on one host
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/slipway-gitops/slipway/tests/bench/rig"
)

// within is set in the environment of the process that has the namespaces.
const within = "SLIPWAY_BENCH_WITHIN"

func main() {
	if os.Getenv(within) == "" {
		os.Exit(enter())
	}
	rig.Main(rig.Bench{Name: "configure", Run: configure})
}

// enter runs the program again in namespaces of its own, so that its bridge and its
// mounts are nobody else's.
func enter() int {
	if _, err := debian(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), within+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}
