// Command engine measures the daemon on simulated machines with a fixed
// latency model and real TLS, and prints one line a figure. It runs the built
// programs (bin/slipway), never the code in this process, so that what is
// measured is what users run.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	only := flag.String("only", "", "run one of: overhead, idle, commit")
	quick := flag.Bool("quick", false, "small sizes, to see that it works")
	flag.Parse()
	if _, err := os.Stat(binary()); err != nil {
		log.Fatal("bin/slipway is missing: run make build")
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

func binary() string { return filepath.Join("bin", "slipway") }

func figure(name string, value float64, unit string) string {
	return fmt.Sprintf("bench: %s %.4g %s", name, value, unit)
}

func median[T float64 | time.Duration](v []T) T {
	slices.Sort(v)
	return v[len(v)/2]
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
