package supervise

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// grouped is a group whose processes run a script of the shell, by name.
func grouped(t *testing.T, scripts map[string]string) (g *Group, end context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	g = &Group{
		Log: slog.New(slog.DiscardHandler), Wait: func(int) time.Duration { return 10 * time.Millisecond },
		Command: func(ctx context.Context, name string) (*exec.Cmd, error) {
			if scripts[name] == "" {
				return nil, errors.New("it has no script")
			}
			return exec.CommandContext(ctx, "sh", "-c", scripts[name]), nil
		},
	}
	for name := range scripts {
		g.Keep(ctx, name)
	}
	t.Cleanup(func() { cancel(); g.End() })
	return g, cancel
}

// until waits until the state of a name is so.
func until(t *testing.T, g *Group, name string, is func(State) bool) State {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		if s, known := g.State(name); known && is(s) {
			return s
		} else if time.Now().After(end) {
			t.Fatalf("%s is %+v, known %v", name, s, known)
		}
	}
}

func runs(s State) bool { return s.PID != 0 }

// One that is killed is started again, and one that cannot run concerns no other.
func TestKilledIsStartedAgain(t *testing.T) {
	g, _ := grouped(t, map[string]string{"berlin": "exec cat", "paris": "echo the records are locked; exit 1", "oslo": ""})
	berlin := until(t, g, "berlin", runs)
	if err := syscall.Kill(berlin.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	again := until(t, g, "berlin", func(s State) bool { return runs(s) && s.PID != berlin.PID })
	if again.Why != "" || again.Since.Before(berlin.Since) {
		t.Errorf("it runs again: %+v", again)
	}
	until(t, g, "paris", func(s State) bool { return s.PID == 0 && s.Why == "the records are locked" })
	until(t, g, "oslo", func(s State) bool { return s.PID == 0 && s.Why == "it has no script" })
	if _, known := g.State("madrid"); known {
		t.Error("madrid is kept")
	}
}

// It is told how a process has ended that says nothing, and since when it does not run, through all starts.
func TestSaysWhySinceWhen(t *testing.T) {
	g, _ := grouped(t, map[string]string{"berlin": "kill -9 $$", "paris": "exit 0"})
	first := until(t, g, "berlin", func(s State) bool { return s.Why == "signal: killed" })
	until(t, g, "berlin", runs)
	next := until(t, g, "berlin", func(s State) bool { return s.PID == 0 })
	if !next.Since.Equal(first.Since) {
		t.Errorf("it ended first at %s, and is said to be away since %s", first.Since, next.Since)
	}
	until(t, g, "paris", func(s State) bool { return s.Why == "it ended without an error" })
}

// A process ends in order with its group: it sees the end of its input.
func TestEndsInOrder(t *testing.T) {
	done := filepath.Join(t.TempDir(), "done")
	g, end := grouped(t, map[string]string{"berlin": "cat; echo ended > " + done})
	until(t, g, "berlin", runs)
	end()
	g.End()
	if text, err := os.ReadFile(done); err != nil || strings.TrimSpace(string(text)) != "ended" {
		t.Errorf("it was not let end: %q %v", text, err)
	}
}

// The wait grows with the ends in a row, and a name that is kept already is not kept twice.
func TestWaitsLonger(t *testing.T) {
	waits := make(chan int)
	ctx, cancel := context.WithCancel(t.Context())
	g := &Group{
		Log:     slog.New(slog.DiscardHandler),
		Command: func(context.Context, string) (*exec.Cmd, error) { return nil, errors.New("no") },
		Wait: func(ends int) time.Duration {
			select {
			case waits <- ends:
			case <-ctx.Done():
			}
			return time.Millisecond
		},
	}
	g.Keep(ctx, "berlin")
	g.Keep(ctx, "berlin")
	for want := 1; want < 6; want++ {
		if ends := <-waits; ends != want {
			t.Errorf("end %d is number %d", want, ends)
		}
	}
	cancel()
	g.End()
}
