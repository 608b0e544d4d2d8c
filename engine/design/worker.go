package design

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// worker is one child process.
type worker struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr *head
	served int
	killed bool
	retire *time.Timer
}

func start(command []string) (*worker, error) {
	if len(command) == 0 {
		return nil, errors.New("no command")
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = []string{}
	// The worker gets its own process group: an interrupt typed at a terminal
	// is for the parent.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	w := &worker{cmd: cmd, stderr: &head{}}
	cmd.Stderr = w.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.in, w.out = in, bufio.NewReaderSize(out, 1<<16)
	return w, cmd.Start()
}

// ask sends a request and reads its outcome. It kills the worker when the
// context ends.
func (w *worker) ask(ctx context.Context, r request, lim Limits, at *string) (outcome []byte, held uint64, err error) {
	stop := context.AfterFunc(ctx, func() { _ = w.cmd.Process.Kill() })
	defer func() { w.killed = !stop() }()
	w.served++
	if err := send(w.in, r, lim); err != nil {
		return nil, 0, err
	}
	return receive(w.out, lim.Response, at)
}

// end kills the worker, waits for its end and returns the result.
func (w *worker) end() error {
	_ = w.in.Close()
	_ = w.cmd.Process.Kill()
	return w.cmd.Wait()
}

// wasKilled reports whether another process killed a worker while Slipway
// talked to it.
func wasKilled(w *worker, err error) bool {
	s, ok := w.cmd.ProcessState.Sys().(syscall.WaitStatus)
	gone := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE)
	return gone && ok && s.Signaled() && s.Signal() == syscall.SIGKILL
}

// head keeps the first bytes written to it.
type head struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf.Write(p[:min(len(p), max(0, maxStderr-h.buf.Len()))])
	return len(p), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buf.String()
}

// says says whether one of the texts was written.
func (h *head) says(texts ...string) bool {
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(h.String(), t) })
}

func (h *head) firstLine() string {
	line, _, _ := strings.Cut(h.String(), "\n")
	return line
}

// epitaph returns the finding for the limit that killed a worker, if it was a
// limit.
func epitaph(w *worker, err error, overdue bool, lim Limits) (site.Finding, bool) {
	switch {
	case overdue:
		return site.Finding{
			Code: "too-slow", Message: fmt.Sprintf("takes longer than %s to evaluate", lim.Timeout),
			Fix: "Look for comprehensions over comprehensions and for disjunctions that multiply.",
		}, true
	case errors.Is(err, errResponse):
		return site.Finding{
			Code: "too-large", Message: fmt.Sprintf("evaluates to more than %d MiB", lim.Response>>20),
			Fix: "Look for values that are repeated in every node.",
		}, true
	case w.stderr.says("stack exceeds"):
		return site.Finding{
			Code: "too-deep", Message: "is nested too deeply",
			Fix: "Look for a file with thousands of levels, or a definition that contains itself.",
		}, true
	// A new thread needs memory for its stack. A build with the race detector
	// prints "failed to allocate". The garbage collector of Go 1.26 does not
	// check whether its own queues got memory (runtime/mgcmark_greenteagc.go).
	// It faults, and the output begins with the signal's name, unlike for a
	// program's own fault.
	case w.stderr.says("out of memory", "cannot allocate memory", "pthread_create failed", "failed to create new OS thread", "failed to allocate"),
		strings.HasPrefix(w.stderr.firstLine(), "SIGSEGV: "):
		return site.Finding{
			Code: "too-large", Message: fmt.Sprintf("takes more than %d MiB of memory to evaluate", lim.Memory>>20),
			Fix: "Look for comprehensions over comprehensions and for disjunctions that multiply.",
		}, true
	}
	return site.Finding{}, false
}
