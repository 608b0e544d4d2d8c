// Command slipway-agent is the first process of the ramdisk in which Slipway starts machines in
// memory. `slipway ramdisk build` puts it there; nobody starts it by hand.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/slipway-gitops/slipway/sinks/agent/start"
)

func main() {
	err := start.Run
	switch {
	case filepath.Base(os.Args[0]) == "modprobe" && len(os.Args) > 1:
		err = func() error { return start.Modprobe(os.Args[1:]) }
	case os.Getpid() != 1:
		err = func() error {
			return fmt.Errorf("this program is the first process of a ramdisk: `slipway ramdisk build` makes one")
		}
	}
	if err := err(); err != nil {
		fmt.Fprintln(os.Stderr, "slipway-agent:", err)
		os.Exit(1)
	}
}
