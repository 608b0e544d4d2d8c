package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// The kernel kills the workers that evaluate a design, as it does when memory runs out. The daemon says so and goes on;
// the design in force stays so, and the new one is evaluated once workers live.
func TestDaemonOutlivesItsWorkers(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.start()
	w.converge()
	killed := 0
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			for _, pid := range w.daemon.workers() {
				if syscall.Kill(pid, syscall.SIGKILL) == nil {
					killed++
				}
			}
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	slow := strings.Replace(w.design(), "package town\n", "package town\n\nimport \"list\"\n", 1) +
		"\nroles: worker: description: \"\\(len([for x in list.Range(0, 60, 1) for y in list.Range(0, 60, 1) {x}])) machines\"\n"
	w.commit(slow, "takes long")
	w.status("the killed worker is told", func(s site.Status) bool {
		for _, p := range s.Problems {
			if p.About == "evaluation" && strings.Contains(p.What, "was killed while") {
				return allInSync(s)
			}
		}
		return false
	})
	close(stop)
	<-ended
	head := w.git("-C", "site", "rev-parse", "HEAD")
	w.status("the design is in force", func(s site.Status) bool {
		return s.Applied.ID == head && len(s.Problems) == 0 && allInSync(s)
	})
	if killed == 0 {
		t.Error("no worker was killed")
	}
	w.stop()
}

// workers are the daemon's child processes.
func (d *daemon) workers() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || string(fields[1]) != fmt.Sprint(d.cmd.Process.Pid) {
			continue
		}
		if args, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline")); err == nil && bytes.Contains(args, []byte("\x00evaluate")) {
			pids = append(pids, pid)
		}
	}
	return pids
}
