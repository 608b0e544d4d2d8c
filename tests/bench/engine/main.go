// Command engine measures the daemon on simulated machines with a fixed
// latency model and real TLS, and prints one line a figure. It runs the built
// programs (bin/slipway), never the code in this process, so that what is
// measured is what users run.
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
	only := flag.String("only", "", "run one of: overhead, idle, commit")
	quick := flag.Bool("quick", false, "small sizes, to see that it works")
	flag.Parse()
	if err := rig.Built(); err != nil {
		log.Fatal(err)
	}
	var lines []string
	for _, b := range []struct {
		name string
		run  func(quick bool) ([]string, error)
	}{{"overhead", overhead}, {"idle", idle}, {"commit", commitToWrite}} {
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
