// Package supervise keeps a process running for each of several names, so that one that breaks, is killed or loops
// concerns no other.
package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/retry"
)

// Group keeps a process for each name. A process that has ended is started again, after a wait that grows with the
// number of ends in a row.
type Group struct {
	// Command makes the command of a name for each start, with exec.CommandContext. An error counts as an end of the
	// process. The command's standard input stays open for as long as the process is to run. What it writes to its standard
	// output says why it ends.
	Command func(ctx context.Context, name string) (*exec.Cmd, error)
	Log     *slog.Logger
	// Wait is how long to wait after so many ends in a row; nil is retry.Backoff.
	Wait func(ends int) time.Duration

	running sync.WaitGroup
	mu      sync.Mutex
	states  map[string]State
}

// State is what is known of the process of a name.
type State struct {
	// PID is the process; 0 while none runs, and before the first begins.
	PID int
	// Since is when the process began or, while none runs, when it ended first of the ends in a row.
	Since time.Time
	// Why says why none runs; empty while one does, and before the first begins.
	Why string
}

const (
	// steady is how long a process has run before its end is the first in a row again.
	steady = 5 * time.Minute
	// endWithin is how long a process may take to end when it is asked to; then it is killed. It is less than what
	// packaging/slipway.service leaves for all.
	endWithin = 50 * time.Second
	// mostSaid is how many bytes are kept of what a process said last.
	mostSaid = 2000
)

// Keep has the process of a name run until the context ends. It does nothing for a name that it has.
func (g *Group) Keep(ctx context.Context, name string) {
	if !g.add(name) {
		return
	}
	g.running.Go(func() {
		since := time.Now()
		for ends := 1; ; ends++ {
			begun := time.Now()
			why := g.run(ctx, name)
			if ctx.Err() != nil {
				return
			}
			if ends == 1 || time.Since(begun) >= steady {
				ends, since = 1, time.Now()
			}
			wait := g.wait(ends)
			g.set(name, State{Since: since, Why: why})
			g.Log.Error("the process of a site has ended; the other sites go on", "site", name, "why", why, "ends", ends, "again", wait)
			if !retry.Sleep(ctx, wait) {
				return
			}
		}
	})
}

// End waits until no process runs any more, once the context of Keep has ended.
func (g *Group) End() { g.running.Wait() }

// State is what is known of a name; false for one that is not kept.
func (g *Group) State(name string) (State, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, known := g.states[name]
	return s, known
}

func (g *Group) wait(ends int) time.Duration {
	if g.Wait != nil {
		return g.Wait(ends)
	}
	return retry.Backoff(ends)
}

func (g *Group) add(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.states[name]; known {
		return false
	}
	if g.states == nil {
		g.states = map[string]State{}
	}
	g.states[name] = State{Since: time.Now()}
	return true
}

func (g *Group) set(name string, s State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.states[name] = s
}

// run runs the process of a name once, and says why it has ended.
func (g *Group) run(ctx context.Context, name string) (why string) {
	cmd, err := g.Command(ctx, name)
	if err != nil {
		return err.Error()
	}
	alive, err := cmd.StdinPipe() // it closes as well when this process is killed
	if err != nil {
		return err.Error()
	}
	said := &tail{}
	cmd.Stdout, cmd.Cancel, cmd.WaitDelay = said, alive.Close, endWithin
	if err := cmd.Start(); err != nil {
		return fmt.Sprintf("it cannot be started: %v", err)
	}
	g.set(name, State{PID: cmd.Process.Pid, Since: time.Now()})
	g.Log.Info("the process of a site runs", "site", name, "pid", cmd.Process.Pid)
	err = cmd.Wait()
	alive.Close()
	if text := strings.TrimSpace(string(*said)); text != "" {
		return text
	}
	if err == nil {
		return "it ended without an error"
	}
	return err.Error() // "signal: killed", "exit status 2"
}

// tail is the end of what was written.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	*t = (*t)[max(0, len(*t)-mostSaid):]
	return len(p), nil
}
