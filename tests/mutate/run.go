package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// verdict is what became of a mutant.
type verdict struct {
	Key string `json:"key"`
	Sum string `json:"sum"`
	// By is the test that has caught it, with its package; empty where none did.
	By string `json:"by,omitempty"`
	// Late is set where the test did not end in its time.
	Late bool `json:"late,omitempty"`
	// Tests is how many tests ran its place.
	Tests int `json:"tests"`
}

func (v verdict) caught() bool { return v.By != "" }

// caughtAs says whether this very mutant was caught: its function has not changed
// since.
func (v verdict) caughtAs(m *mutant) bool { return v.caught() && v.Sum == m.Sum }

// Bounds on one run of tests with a mutant.
const (
	leastTime  = 20 * time.Second // of the processor
	timesTook  = 8                // as much as without the mutant
	wallTimes  = 20               // as much by the clock: others use the machine too
	mostMemory = 3 << 30
	batchTime  = 4 * time.Second // of tests in one process
)

// tests are those of a suite that may catch a mutant.
type tests struct {
	*suite
	these []*test
}

// candidates are the tests that run a mutant's place, in the order in which they
// are run: those that have caught mutants of the function or file before, then
// those of its own package, then the others; the quick ones first.
func candidates(m *mutant, suites []*suite, hints []string) []tests {
	var all []tests
	own := filepath.Dir(m.File)
	add := func(s *suite, some []*test) {
		slices.SortStableFunc(some, func(a, b *test) int { return cmp.Compare(a.Took, b.Took) })
		var batch []*test
		var took time.Duration
		for _, t := range some {
			if len(batch) > 0 && took+t.Took > batchTime {
				all = append(all, tests{s, batch})
				batch, took = nil, 0
			}
			batch, took = append(batch, t), took+t.Took
		}
		if len(batch) > 0 {
			all = append(all, tests{s, batch})
		}
	}
	ordered := slices.Clone(suites)
	slices.SortStableFunc(ordered, func(a, b *suite) int { return cmp.Compare(btoi(a.pkg != own), btoi(b.pkg != own)) })
	hinted := map[*test]bool{}
	for _, h := range hints {
		for _, s := range ordered {
			for _, t := range s.tests {
				if h == s.pkg+"."+t.Name && t.runs(m) && !hinted[t] {
					hinted[t] = true
					all = append(all, tests{s, []*test{t}})
				}
			}
		}
	}
	for _, s := range ordered {
		var some []*test
		for _, t := range s.tests {
			if t.runs(m) && !hinted[t] {
				some = append(some, t)
			}
		}
		add(s, some)
	}
	return all
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// try runs the tests that may catch a mutant until one does, or the budget is spent.
func (p *program) try(ctx context.Context, m *mutant, all []tests, budget time.Duration) (verdict, error) {
	v := verdict{Key: m.Key, Sum: m.Sum}
	var spent time.Duration
	for _, b := range all {
		if budget > 0 && spent > budget {
			return v, nil
		}
		for _, t := range b.these {
			spent += t.Took
		}
		v.Tests += len(b.these)
		by, late, err := p.run(ctx, m, b)
		if err != nil {
			return v, err
		}
		if by != "" {
			v.By, v.Late = b.pkg+"."+by, late
			return v, nil
		}
	}
	return v, nil
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// run runs some tests of a package with a mutant in one process, and names the one
// that has failed.
func (p *program) run(ctx context.Context, m *mutant, b tests) (by string, late bool, err error) {
	temp, err := os.MkdirTemp(p.dir, "run-")
	if err != nil {
		return "", false, err
	}
	defer os.RemoveAll(temp)
	var names []string
	var took time.Duration
	for _, t := range b.these {
		names, took = append(names, t.Name), took+t.Took
	}
	limit := max(leastTime, timesTook*took)
	ctx, cancel := context.WithTimeoutCause(ctx, max(3*leastTime, wallTimes*took), errLate)
	defer cancel()
	script := fmt.Sprintf("ulimit -t %d; exec \"$@\"", int(limit.Seconds()))
	cmd := p.command(ctx, b.pkg, "/bin/sh", "-c", script, "sh", b.binary,
		"-test.run", "^("+strings.Join(names, "|")+")$", "-test.failfast", "-test.timeout", "0")
	p.asMutant(cmd, m, temp)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return "", false, err
	}
	large := p.watch(ctx, cmd)
	err = cmd.Wait()
	isLarge := large()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", false, nil
	case context.Cause(ctx) == errLate || isLarge:
		return names[0], true, nil
	case ctx.Err() != nil:
		return "", false, ctx.Err()
	case !errors.As(err, &exit):
		return "", false, err
	}
	if found := failed.FindSubmatch(out.Bytes()); found != nil {
		return string(found[1]), false, nil
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	return names[0], status.Signaled(), nil
}

var errLate = errors.New("the tests did not end in their time")

// watch ends a process that takes too much memory, and gives how to learn at its
// end whether it did.
func (p *program) watch(ctx context.Context, cmd *exec.Cmd) func() bool {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan bool, 1)
	statm := "/proc/" + strconv.Itoa(cmd.Process.Pid) + "/statm"
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				done <- false
				return
			case <-tick.C:
			}
			var pages, resident int64
			if data, err := os.ReadFile(statm); err == nil {
				fmt.Sscan(string(data), &pages, &resident)
			}
			if resident*int64(os.Getpagesize()) > mostMemory {
				_ = cmd.Cancel()
				done <- true
				return
			}
		}
	}()
	return func() bool { cancel(); return <-done }
}
