package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is the CPU time and resident memory of a process and its children.
func Usage(pid int) (cpu time.Duration, rss int64, err error) {
	for _, p := range append([]int{pid}, children(pid)...) {
		c, r, err := Process(p)
		if err != nil && p == pid {
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

// Process is what one process has used, and those of its children that have
// ended. It reads proc(5): utime, stime, cutime and cstime in ticks of 10 ms
// are fields 14 to 17 of stat, resident pages field 24.
func Process(pid int) (cpu time.Duration, rss int64, err error) {
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
