// Command design measures how fast and in how little memory a design is
// evaluated: generated sites, by the built slipway (bin/slipway), beside the
// cue command of the same version on the same files and in the same run. It
// prints one line a figure.
package main

import (
	"context"
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
	quick := flag.Bool("quick", false, "small sizes, to see that it works")
	only := flag.String("only", "", "run one of: cold, edit, profile")
	rounds := flag.Int("rounds", 3, "how often each cold run is measured")
	keep := flag.String("keep", "", "a directory to leave the generated sites in")
	flag.Parse()
	b, done, err := newBench(*quick, *rounds, *keep)
	if err != nil {
		log.Fatal(err)
	}
	lines, err := b.run(context.Background(), *only)
	done()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println()
	for _, l := range lines {
		fmt.Println(l)
	}
}

// bench is one run over generated sites.
type bench struct {
	// large, middle and small are how many nodes the sites have, rounds how
	// often each measurement is taken.
	large, middle, small, rounds int
	slipway, cue                 string
	dir                          string
}

// newBench generates the sites and builds the cue command.
func newBench(quick bool, rounds int, keep string) (b *bench, done func(), err error) {
	b = &bench{large: 10_000, middle: 1000, small: 100, rounds: rounds, dir: keep}
	if quick {
		b.large, b.middle, b.small, b.rounds = 1000, 300, 100, 1
	}
	done = func() {}
	if b.slipway, err = filepath.Abs(filepath.Join("bin", "slipway")); err != nil {
		return nil, nil, err
	}
	if _, err = os.Stat(b.slipway); err != nil {
		return nil, nil, fmt.Errorf("bin/slipway is missing: run make build")
	}
	if keep == "" {
		if b.dir, err = os.MkdirTemp("", "slipway-bench-"); err != nil {
			return nil, nil, err
		}
		done = func() { _ = os.RemoveAll(b.dir) } // what is left is in the temporary directory
	}
	if b.cue, err = buildCue(b.dir); err != nil {
		return nil, nil, err
	}
	for _, s := range styles {
		for _, n := range []int{b.large, b.middle, b.small} {
			if err := writeSite(b.site(s, n), s, n); err != nil {
				return nil, nil, err
			}
		}
	}
	return b, done, nil
}

// site is the directory of a generated site.
func (b *bench) site(s style, n int) string {
	return filepath.Join(b.dir, fmt.Sprintf("%s-%d", s.name, n))
}

func (b *bench) run(ctx context.Context, only string) ([]string, error) {
	var lines []string
	for _, part := range []struct {
		name string
		run  func(context.Context) ([]string, error)
	}{{"cold", b.cold}, {"edit", b.edits}, {"profile", b.profileEdits}} {
		if only != "" && only != part.name {
			continue
		}
		figures, err := part.run(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		lines = append(lines, figures...)
	}
	return lines, nil
}

func figure(name string, value float64, unit string) string {
	return fmt.Sprintf("bench: design/%s %.4g %s", name, value, unit)
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
