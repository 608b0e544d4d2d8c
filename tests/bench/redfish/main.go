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

import (
	"flag"
	"fmt"
	"log"

	"github.com/slipway-gitops/slipway/tests/bench/rig"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	only := flag.String("only", "", "run one of: requests, ironic")
	quick := flag.Bool("quick", false, "small sizes, to see that it works")
	flag.Parse()
	if err := rig.Built(); err != nil {
		log.Fatal(err)
	}
	var lines []string
	for _, b := range []struct {
		name string
		run  func(quick bool) ([]string, error)
	}{{"requests", requests}, {"ironic", beside}} {
		if *only != "" && *only != b.name {
			continue
		}
		figures, err := b.run(*quick)
		if err != nil {
			log.Fatalf("%s: %v", b.name, err)
		}
		lines = append(lines, figures...)
	}
	fmt.Println()
	for _, l := range lines {
		fmt.Println(l)
	}
}
