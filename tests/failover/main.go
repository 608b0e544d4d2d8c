// Command failover judges the history in a folder, which the tests beside it leave with SLIPWAY_KEEP=FOLDER. It
// reads nothing else.
package main

import (
	"fmt"
	"os"

	"github.com/slipway-gitops/slipway/tests/failover/judge"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: failover FOLDER")
		os.Exit(2)
	}
	history, err := judge.Read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "failover:", err)
		os.Exit(2)
	}
	v := judge.Judge(history)
	fmt.Print(v)
	if len(v.Broken) > 0 {
		os.Exit(1)
	}
}
