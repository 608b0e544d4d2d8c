package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// These are the bounds of a command.
const (
	maxSaid   = 2 << 10 // bytes of its stderr
	waitDelay = 5 * time.Second
)

// Command is a program that gets messages on its standard input. It runs without a shell and without arguments. Its
// only environment variable is SLIPWAY_SUMMARY, with the summary.
type Command struct {
	path string
	log  *slog.Logger
}

// NewCommand refuses a program that cannot be run, or that anybody may replace.
func NewCommand(path string, log *slog.Logger) (*Command, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("notify by a command: %w", err)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return nil, fmt.Errorf("notify by a command: %s is not a program: name an executable file (chmod +x)", path)
	case info.Mode()&0o002 != 0:
		return nil, fmt.Errorf("notify by a command: anybody may write to %s, and so have this daemon run what they like: chmod o-w", path)
	}
	return &Command{path, log}, nil
}

// Send runs the program once. Its stderr goes to the log. When the program ends, Send kills the processes that it
// left.
func (c *Command) Send(ctx context.Context, m Message) error {
	said := &head{}
	cmd := exec.CommandContext(ctx, c.path)
	cmd.Env = []string{"SLIPWAY_SUMMARY=" + m.Summary}
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stderr = bytes.NewReader(m.body()), said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return killGroup(cmd.Process) }
	cmd.WaitDelay = waitDelay
	err := cmd.Run()
	if cmd.Process != nil {
		killGroup(cmd.Process)
	}
	words := printable(said.String())
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		if words != "" {
			c.log.Info("the notify command said something", "stderr", words)
		}
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s did not end in time and was killed: %s", c.path, words)
	}
	return fmt.Errorf("%s: %w: %s", c.path, err, words)
}

// killGroup kills the program and what it started.
func killGroup(p *os.Process) error {
	err := syscall.Kill(-p.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// head keeps the start of what is written to it.
type head struct{ bytes.Buffer }

func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), max(0, maxSaid-h.Len()))])
	return len(p), nil
}
