package actions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

const (
	// killGrace is how long a command may take to end after its timeout.
	killGrace = 10 * time.Second
	// maxOutput and maxLines bound what is kept of its output, in bytes and in lines.
	maxOutput = 64 << 10
	maxLines  = 20
	// maxLogged bounds what goes to the system's log, in bytes. The log is slow, and others need its space.
	maxLogged = 1 << 20
)

// Run is the program of an action's unit, `PROGRAM action NAME ATTEMPT`. It records the start of the command, runs
// it, and records how it ended. If several units want the same attempt, only one runs it. A late unit does nothing.
// The command's output also goes to out.
func Run(ctx context.Context, h *inside.Host, name string, attempt int, out io.Writer) error {
	return New(nil, nil).run(ctx, h, name, attempt, out)
}

func (f *Facet) run(ctx context.Context, h *inside.Host, name string, attempt int, out io.Writer) error {
	if !isName(name) {
		return fmt.Errorf("%q cannot be the name of a boot action", name)
	}
	unlock, err := lock(file(h, name, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	var j job
	if err := readJSON(file(h, name, "job"), &j); err != nil {
		return err
	}
	here, err := installation(h)
	if err != nil {
		return err
	}
	e, err := f.entryOf(h, name, here)
	switch {
	case err != nil:
		return err
	case j.Installation != here || j.Attempt != attempt || len(j.Run) == 0:
		return fmt.Errorf("attempt %d of %s is not what was asked for last", attempt, name)
	case e.Attempt != attempt-1:
		return fmt.Errorf("attempt %d of %s does not begin: %d were begun before it", attempt, name, e.Attempt)
	}
	e = entry{Installation: here, Attempt: attempt, Begun: f.now().UTC(), Boot: bootID()}
	if err := f.write(file(h, name, "json"), e); err != nil {
		return err
	}
	var kept tail
	e.Wrong = command(ctx, j, io.MultiWriter(&kept, &limited{to: out, left: maxLogged}))
	e.Ended, e.Output = f.now().UTC(), inside.Lines(string(kept.bytes), maxLines)
	return f.end(h, name, e)
}

// command runs a command and says what went wrong; empty if it exited with 0.
func command(ctx context.Context, j job, out io.Writer) (wrong string) {
	errLate := fmt.Errorf("it did not end within %s, and was ended", j.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, j.Timeout, errLate)
	defer cancel()
	os.Setenv("PATH", inside.SearchPath) // for looking up a bare name
	cmd := exec.CommandContext(ctx, j.Run[0], j.Run[1:]...)
	cmd.Env = []string{"PATH=" + inside.SearchPath, "LC_ALL=C.UTF-8", "HOME=/root"}
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = killGrace // then the command is killed, and its children cannot block on a pipe
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // any children left behind
	}
	var exit *exec.ExitError
	switch cause := context.Cause(ctx); {
	case err == nil || errors.Is(err, exec.ErrWaitDelay) && cause == nil && cmd.ProcessState.Success():
		return ""
	case cause == errLate:
		return errLate.Error()
	case cause != nil:
		return "it was stopped from outside, as when the machine shuts down"
	case errors.As(err, &exit) && exit.Exited():
		return fmt.Sprintf("its exit code is %d", exit.ExitCode())
	case errors.As(err, &exit):
		return fmt.Sprintf("it was ended by a signal (%s)", exit)
	}
	return fmt.Sprintf("it cannot be started: %v", err)
}

// lock prevents concurrent attempts. It ends with the program.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s runs already: %w", path, err)
	}
	return func() { f.Close() }, nil
}

// limited passes on the beginning of the data written to it.
type limited struct {
	to   io.Writer
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	if l.left <= 0 {
		return len(b), nil
	}
	_, _ = l.to.Write(b[:min(len(b), l.left)]) // a full log must not stop the command
	if l.left -= len(b); l.left <= 0 {
		fmt.Fprintf(l.to, "\n[Slipway logs no more than %d bytes of a boot action's output]\n", maxLogged)
	}
	return len(b), nil
}

// tail keeps the end of the data written to it.
type tail struct{ bytes []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.bytes = append(t.bytes, b...)
	if over := len(t.bytes) - maxOutput; over > maxOutput {
		t.bytes = append([]byte(nil), t.bytes[over:]...)
	}
	return len(b), nil
}
