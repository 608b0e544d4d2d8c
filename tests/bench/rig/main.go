package rig

import (
	"flag"
	"fmt"
	"log"
	"strings"
)

// Bench gives some figures, as lines; quick asks for small sizes.
type Bench struct {
	Name string
	Run  func(quick bool) ([]string, error)
}

// Main is the main function of a program of benchmarks: it runs all or, with
// -only, one of them, and prints the figures in the end.
func Main(benches ...Bench) {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	only := flag.String("only", "", "run one of: "+strings.Join(names(benches), ", "))
	quick := flag.Bool("quick", false, "small sizes, to see that it works")
	flag.Parse()
	if err := Built(); err != nil {
		log.Fatal(err)
	}
	var lines []string
	for _, b := range benches {
		if *only != "" && *only != b.Name {
			continue
		}
		figures, err := b.Run(*quick)
		if err != nil {
			log.Fatalf("%s: %v", b.Name, err)
		}
		lines = append(lines, figures...)
	}
	fmt.Println("\n" + strings.Join(lines, "\n"))
}

func names(benches []Bench) []string {
	var all []string
	for _, b := range benches {
		all = append(all, b.Name)
	}
	return all
}
