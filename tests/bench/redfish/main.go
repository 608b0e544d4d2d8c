// Command redfish measures what the Redfish driver asks of management
// controllers, and the daemon beside Debian's Ironic on the same machines. It
// prints one line a figure.
//
//	redfish/NAME/observe        requests of one look in steady state
//	redfish/NAME/inspect        requests of one inspection, from login to logout
//	redfish/NAME/inspect-ratio  the same over a plain walk by typed calls
//	redfish/ironic/…            see sync.go
//
// NAME is a personality of the lab, or the vendor of a capture of a real
// machine in the folder that SLIPWAY_CAPTURES names.
package main

import "github.com/slipway-gitops/slipway/tests/bench/rig"

func main() {
	rig.Main(rig.Bench{Name: "requests", Run: requests}, rig.Bench{Name: "ironic", Run: beside})
}
