package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/slipway-gitops/slipway"

// files hold gates, approvals, identity and records: what decides whether data
// is destroyed.
var files = []string{
	"engine/anchor.go",
	"engine/account.go",
	"engine/approve.go",
	"engine/approvenode.go",
	"engine/book.go",
	"engine/connection.go",
	"engine/consume.go",
	"engine/gate.go",
	"engine/key.go",
	"engine/keyfile/keyfile.go",
	"engine/ledger/ledger.go",
	"engine/plan/loss.go",
	"engine/plan/marker.go",
	"engine/plan/taken.go",
	"engine/record/ledger.go",
	"engine/record/term.go",
	"engine/resume.go",
	"engine/rollout/bounds.go",
	"engine/rollout/canary.go",
	"engine/rollout/facts.go",
	"engine/rollout/failure.go",
	"engine/rollout/firstpassword.go",
	"engine/rollout/guests.go",
	"engine/rollout/join.go",
	"engine/rollout/leader.go",
	"engine/rollout/needs.go",
	"engine/rollout/queue.go",
	"engine/rollout/service.go",
	"engine/rollout/verdict.go",
	"engine/rollout/window.go",
	"engine/site/approval.go",
	"engine/site/identity.go",
	"engine/site/ledger.go",
	"engine/site/loss.go",
	"engine/sitekey/marker.go",
	"engine/sitekey/sitekey.go",
	"engine/term.go",
	"sinks/redfish/identity.go",
	"sinks/redfish/neighbour.go",
}

// testedBy are the packages whose tests may catch mutants.
var testedBy = []string{
	"engine/keyfile",
	"engine/ledger",
	"engine/site",
	"engine/sitekey",
	"engine/plan",
	"engine/rollout",
	"engine/record",
	"engine",
	"sinks/redfish",
}

const folder = "tests/mutate"

const because = " because: "

// readEquivalents reads the mutants that nobody could tell from the program, each
// with the reason.
func readEquivalents(root string) (map[string]string, error) {
	all := map[string]string{}
	err := readLines(filepath.Join(root, folder, "equivalent.txt"), func(line string) error {
		key, reason, ok := strings.Cut(line, because)
		if !ok || strings.TrimSpace(reason) == "" {
			return fmt.Errorf("each line is a mutant's key,%sand the reason: %s", because, line)
		}
		if all[key] != "" {
			return fmt.Errorf("listed twice: %s", key)
		}
		all[key] = reason
		return nil
	})
	return all, err
}

// readHints reads which tests have caught the mutants of each function. They are
// tried first.
func readHints(root string) (map[string][]string, error) {
	all := map[string][]string{}
	err := readLines(filepath.Join(root, folder, "hints.txt"), func(line string) error {
		function, tests, ok := strings.Cut(line, ": ")
		if !ok {
			return fmt.Errorf("each line is a function and its tests: %s", line)
		}
		all[function] = strings.Fields(tests)
		return nil
	})
	return all, err
}

// writeHints writes the tests of each function, those that caught most first.
func writeHints(root string, mutants []*mutant, found map[string]verdict) error {
	count := map[string]map[string]int{}
	for _, m := range mutants {
		v := found[m.Key]
		if !v.caughtAs(m) {
			continue
		}
		if count[m.function()] == nil {
			count[m.function()] = map[string]int{}
		}
		count[m.function()][v.By]++
	}
	var b bytes.Buffer
	b.WriteString("# Which tests have caught the mutants of each function, written by `go run ./tests/mutate -update`.\n")
	b.WriteString("# They are tried first. Nothing depends on this file but the time that it saves.\n")
	for _, function := range sortedKeys(count) {
		by := count[function]
		tests := slices.SortedFunc(maps.Keys(by), func(a, b string) int {
			return cmp.Or(cmp.Compare(by[b], by[a]), strings.Compare(a, b))
		})
		fmt.Fprintf(&b, "%s: %s\n", function, strings.Join(tests, " "))
	}
	return os.WriteFile(filepath.Join(root, folder, "hints.txt"), b.Bytes(), 0o644)
}

// readSurvivors reads the mutants that no test is known to catch. They count as
// survivors; a sample has others.
func readSurvivors(root string) (map[string]bool, error) {
	all := map[string]bool{}
	err := readLines(filepath.Join(root, folder, "survivors.txt"), func(line string) error {
		all[line] = true
		return nil
	})
	return all, err
}

func writeSurvivors(root string, mutants []*mutant, found map[string]verdict, equivalent map[string]string) error {
	var b bytes.Buffer
	b.WriteString("# The mutants that no test has caught, written by `go run ./tests/mutate -update`.\n")
	for _, m := range mutants {
		if v, tried := found[m.Key]; tried && !v.caught() && v.Sum == m.Sum && equivalent[m.Key] == "" {
			fmt.Fprintln(&b, m.Key)
		}
	}
	return os.WriteFile(filepath.Join(root, folder, "survivors.txt"), b.Bytes(), 0o644)
}

// readLines calls f for each line of a file that is not empty and no comment.
func readLines(name string, f func(line string) error) error {
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	n := 0
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		n++
		if line := lines.Text(); line != "" && !strings.HasPrefix(line, "#") {
			if err := f(line); err != nil {
				return fmt.Errorf("%s:%d: %w", filepath.Base(name), n, err)
			}
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
