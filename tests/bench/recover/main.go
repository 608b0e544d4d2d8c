// Command recover measures how soon a site of 20 nodes is safe after three of them were compromised, on simulated
// machines with a fixed latency model and real TLS. It runs the built program (bin/slipway). What counts is what the
// machines' BMCs were asked and what the status branch says, never the daemon's answer alone. The compromised machines
// are not installed again: an incident is all clear without that.
package main

import "github.com/slipway-gitops/slipway/tests/bench/rig"

func main() {
	rig.Main(rig.Bench{Name: "incident", Run: recover20})
}
