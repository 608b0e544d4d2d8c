package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// latency is the fixed model of the figures.
func latency(get time.Duration) lab.Latency {
	return lab.Latency{GET: get, Write: 500 * time.Millisecond, PowerOn: 30 * time.Second, PowerOff: 10 * time.Second, Boot: 30 * time.Second}
}

// bed is a fleet, a repository of its site, and the daemon that keeps it.
type bed struct {
	dir    string
	fleet  *lab.Fleet
	daemon *exec.Cmd
	ask    *control.Client
	n      int
	begun  time.Time
}

// newBed starts n machines and a daemon on a site that wants them as wanted.
func newBed(n int, get time.Duration, power, wanted string, r rollout) (*bed, error) {
	dir, err := os.MkdirTemp("", "slipway-bench-")
	if err != nil {
		return nil, err
	}
	b := &bed{dir: dir, n: n}
	if b.fleet, err = lab.Start(lab.Config{Seed: seed, Latency: latency(get), Machines: machines(n, power)}); err != nil {
		return b, err
	}
	for _, step := range []func() error{
		func() error { return writeSite(b.work(), n, b.fleet.BMCPort(), wanted, r) },
		func() error { return git(b.work(), "init", "-q", "-b", "main") },
		func() error { return git(b.work(), "add", "-A") },
		func() error { return git(b.work(), "commit", "-q", "-m", "site") },
		func() error { return git(b.dir, "clone", "-q", "--bare", b.work(), b.repo()) },
		func() error { return os.Mkdir(filepath.Join(dir, "credentials"), 0o700) },
		func() error {
			return os.WriteFile(filepath.Join(dir, "credentials", "bmc"), []byte("hosts: 127.0.0.0/8\nusername: admin\n\nbench\n"), 0o600)
		},
		b.start,
	} {
		if err := step(); err != nil {
			return b, err
		}
	}
	return b, nil
}

func (b *bed) work() string { return filepath.Join(b.dir, "work") }
func (b *bed) repo() string { return filepath.Join(b.dir, "site.git") }

func (b *bed) start() error {
	state := filepath.Join(b.dir, "state")
	out, err := os.Create(filepath.Join(b.dir, "log"))
	if err != nil {
		return err
	}
	defer out.Close()
	b.daemon = exec.Command(binary(), "run", "--repo", "file://"+b.repo(), "--branch", "main",
		"--state", state, "--credentials", filepath.Join(b.dir, "credentials"))
	b.daemon.Stderr, b.daemon.Stdout = out, out
	b.begun = time.Now()
	b.ask = control.Dial(control.Socket(state))
	return b.daemon.Start()
}

// close ends the daemon and the fleet, and shows the log's end after an error.
func (b *bed) close(failed error) {
	if b.daemon != nil && b.daemon.Process != nil {
		b.daemon.Process.Signal(syscall.SIGTERM)
		b.daemon.Wait()
	}
	if b.fleet != nil {
		b.fleet.Close()
	}
	if failed != nil {
		text, _ := os.ReadFile(filepath.Join(b.dir, "log"))
		fmt.Fprintf(os.Stderr, "the daemon's log ends:\n%s\n", text[max(0, len(text)-2000):])
	}
	os.RemoveAll(b.dir)
}

// inSync waits until every node is, and gives the status.
func (b *bed) inSync(ctx context.Context) (site.Status, error) {
	for {
		r, err := b.ask.Report("")
		if err == nil && r.Status.Counts()[site.InSync] == b.n {
			return r.Status, nil
		}
		select {
		case <-ctx.Done():
			return site.Status{}, fmt.Errorf("not in-sync in time: %v %w", r.Status.Counts(), err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// usage is the CPU time and resident memory of the daemon and its workers.
func (b *bed) usage() (cpu time.Duration, rss int64, err error) {
	for _, pid := range append([]int{b.daemon.Process.Pid}, children(b.daemon.Process.Pid)...) {
		c, r, err := processUsage(pid)
		if err != nil && pid == b.daemon.Process.Pid {
			return 0, 0, err
		}
		cpu, rss = cpu+c, rss+r
	}
	return cpu, rss, nil
}

func children(pid int) []int {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // a pattern of ours
	var pids []int
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended
		}
		for _, f := range strings.Fields(string(text)) {
			if p, err := strconv.Atoi(f); err == nil {
				pids = append(pids, p)
			}
		}
	}
	return pids
}

// processUsage reads proc(5): utime, stime, cutime and cstime in ticks of
// 10 ms are fields 14 to 17 of stat, resident pages field 24.
func processUsage(pid int) (time.Duration, int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int64
	for _, i := range []int{11, 12, 13, 14} {
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			return 0, 0, err
		}
		ticks += n
	}
	pages, err := strconv.ParseInt(f[21], 10, 64)
	return time.Duration(ticks) * 10 * time.Millisecond, pages * int64(os.Getpagesize()), err
}
