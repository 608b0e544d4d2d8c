// Command engine measures the daemon on simulated machines with a fixed
// latency model and real TLS, and prints one line a figure. It runs the built
// programs (bin/slipway), never the code in this process, so that what is
// measured is what users run.
package main

import "github.com/slipway-gitops/slipway/tests/bench/rig"

func main() {
	rig.Main(rig.Bench{Name: "overhead", Run: overhead}, rig.Bench{Name: "idle", Run: idle}, rig.Bench{Name: "commit", Run: commitToWrite})
}
