package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// buildCue builds the cue command of the version in go.mod, which names it as
// a tool.
func buildCue(dir string) (string, error) {
	path := filepath.Join(dir, "cue")
	out, err := exec.Command("go", "build", "-o", path, "cuelang.org/go/cmd/cue").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the cue command: %w: %s", err, out)
	}
	return path, nil
}

// usage is what a program took: its time, and the peak of the memory that it
// and its children held together.
type usage struct {
	wall time.Duration
	rss  int64
}

// cold runs the whole of `slipway check` and `cue export` in turn, each a new
// process.
func (b *bench) cold(ctx context.Context) ([]string, error) {
	var lines []string
	growth := 0.0
	for _, s := range styles {
		wall := map[int]float64{}
		for _, n := range []int{b.small, b.middle, b.large} {
			ours, theirs, err := b.compare(ctx, s, n)
			if err != nil {
				return nil, err
			}
			wall[n] = ours.wall.Seconds()
			progress("cold: %s, %d nodes: slipway %.2f s %d MiB, cue %.2f s %d MiB", s.name, n,
				ours.wall.Seconds(), ours.rss>>20, theirs.wall.Seconds(), theirs.rss>>20)
			if n == b.large {
				name := fmt.Sprintf("cold-%d-%s", n, s.name)
				lines = append(lines,
					figure(name+"/seconds", ours.wall.Seconds(), "s"),
					figure(name+"/mib", float64(ours.rss)/(1<<20), "MiB"),
					figure(name+"/wall", ours.wall.Seconds()/theirs.wall.Seconds(), "ratio"),
					figure(name+"/rss", float64(ours.rss)/float64(theirs.rss), "ratio"))
			}
		}
		growth = max(growth, wall[b.large]/wall[b.middle])
	}
	return append(lines, figure("growth", growth, "ratio")), nil
}

// compare gives the medians of both programs on one site.
func (b *bench) compare(ctx context.Context, s style, n int) (ours, theirs usage, err error) {
	var us, them []usage
	for range b.rounds {
		u, err := measure(exec.CommandContext(ctx, b.slipway, "check", b.site(s, n)))
		if err != nil {
			return ours, theirs, err
		}
		export := exec.CommandContext(ctx, b.cue, "export", ".")
		export.Dir = b.site(s, n)
		t, err := measure(export)
		if err != nil {
			return ours, theirs, err
		}
		us, them = append(us, u), append(them, t)
	}
	return medians(us), medians(them), nil
}

func medians(all []usage) usage {
	var wall, rss []float64
	for _, u := range all {
		wall, rss = append(wall, u.wall.Seconds()), append(rss, float64(u.rss))
	}
	return usage{time.Duration(median(wall) * float64(time.Second)), int64(median(rss))}
}

// measure runs a program to its end.
func measure(cmd *exec.Cmd) (usage, error) {
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return usage{}, err
	}
	stop, peak := make(chan struct{}), make(chan int64)
	go func() { peak <- watch(cmd.Process.Pid, stop) }()
	err := cmd.Wait()
	u := usage{wall: time.Since(begun)}
	close(stop)
	u.rss = max(<-peak, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss<<10)
	if err != nil {
		return u, fmt.Errorf("%s: %w: %s", cmd, err, complaint.Bytes()[:min(complaint.Len(), 2000)])
	}
	return u, nil
}

// watch samples the memory of a process and its children until it is stopped,
// and gives the most that they held together. The pages of files, which are
// those of one program and which they share, count once.
func watch(pid int, stop <-chan struct{}) (peak int64) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return peak
		case <-tick.C:
			own, files := resident(pid)
			for _, child := range children(pid) {
				o, f := resident(child)
				own, files = own+o, max(files, f)
			}
			peak = max(peak, own+files)
		}
	}
}

// children lists the child processes of all threads of a process.
func children(pid int) []int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	var all []int
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread that ended has none
		for _, field := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(field)
			if err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// resident is what a process holds of the machine's memory, in bytes, of its
// own and of files; zero once it ended.
func resident(pid int) (own, files int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return 0, 0
	}
	all, _ := strconv.ParseInt(fields[1], 10, 64) // the kernel writes numbers
	files, _ = strconv.ParseInt(fields[2], 10, 64)
	page := int64(os.Getpagesize())
	return (all - files) * page, files * page
}
