// Command ha measures what several controllers cost and how soon another one leads, on simulated machines with a
// fixed latency model and real TLS. It runs the built program (bin/slipway): two daemons and a witness that keep the
// records together, on loopback, beside one daemon with records of its own.
package main

import "github.com/slipway-gitops/slipway/tests/bench/rig"

func main() {
	rig.Main(rig.Bench{Name: "overhead", Run: overhead}, rig.Bench{Name: "takeover", Run: takeover})
}
