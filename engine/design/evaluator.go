package design

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Evaluator evaluates designs in worker processes: each a child without
// environment that gets a site's files on its standard input and is bounded in
// time and memory. What kills a worker is a finding about the design, and the
// next evaluation has a new one. Workers end when they have been idle for a
// while. Its methods may be called from several goroutines.
type Evaluator struct {
	// Command is the worker's argument vector: a program that calls Work on
	// its standard input and output.
	Command []string
	// Workers is how many evaluate at once; default 1.
	Workers int
	Limits  Limits
	// Log gets the workers' comings and goings; default none.
	Log *slog.Logger
	// Now tells the time, by which suppressions end; default time.Now.
	Now func() time.Time

	once   sync.Once
	turns  chan struct{}
	mu     sync.Mutex
	idle   []*worker
	closed bool
}

const (
	// maxServed is how many requests a worker answers before it is replaced.
	maxServed = 500
	// maxHeld is how much memory a worker may keep after a request, in bytes.
	maxHeld = 256 << 20
	// maxIdle is how long a worker waits for its next request.
	maxIdle = 30 * time.Second
	// maxStderr is how much is kept of a worker's last words, in bytes.
	maxStderr = 4 << 10
)

// errResponse says that a response is larger than its bound.
var errResponse = errors.New("the effective design is too large")

// Evaluate gives the effective design of one site, or findings that say what
// is wrong with it. An empty name means the only site. An error is about the
// evaluation itself: the files could not be read, a worker could not run, the
// context ended. It says nothing about the design.
func (e *Evaluator) Evaluate(ctx context.Context, files fs.FS, siteName string) (Result, error) {
	return e.answer(ctx, files, siteName, "")
}

// answer evaluates a site, and explains a node of it when one is named.
func (e *Evaluator) answer(ctx context.Context, files fs.FS, siteName, explain string) (Result, error) {
	lim := e.Limits.withDefaults()
	p, findings, err := collect(files, siteName, lim)
	p.explain, p.now = explain, e.now()
	if err != nil {
		return Result{}, fmt.Errorf("read design: %w", err)
	}
	if site.HasErrors(findings) {
		return Result{Findings: limit(findings)}, nil
	}
	e.once.Do(func() { e.turns = make(chan struct{}, max(1, e.Workers)) })
	select {
	case e.turns <- struct{}{}:
		defer func() { <-e.turns }()
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	return e.evaluate(ctx, p, lim)
}

func (e *Evaluator) evaluate(ctx context.Context, p pack, lim Limits) (Result, error) {
	w, err := e.take()
	if err != nil {
		return Result{}, fmt.Errorf("start worker: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, lim.Timeout)
	defer cancel()
	var at string
	o, err := w.ask(bounded, p, lim, &at)
	if err != nil && at == "" && w.served > 1 && bounded.Err() == nil {
		_ = w.end() // it died while it was idle, which says nothing about the design
		return e.evaluate(ctx, p, lim)
	}
	if err == nil {
		e.give(w, o.Memory)
		return Result{Site: o.Site, Findings: o.Findings, Suppressed: o.Suppressed, Explanation: o.Explanation}, nil
	}
	ended := w.end()
	e.log().Debug("worker killed", "site", p.site, "at", at, "err", err, "ended", ended)
	if ctx.Err() != nil {
		return Result{}, ctx.Err()
	}
	f, ok := epitaph(w, err, bounded.Err() != nil, lim)
	if !ok {
		return Result{}, fmt.Errorf("evaluate %s: worker ended while %s: %w: %s", p.site, at, errors.Join(err, ended), w.stderr.firstLine())
	}
	f.Severity = site.SeverityError
	f.Message = fmt.Sprintf("the design %s; it was given up while %s", f.Message, cmp.Or(at, "being read"))
	f.Why = "Evaluation is bounded so that no commit can hang or exhaust the controller."
	return Result{Findings: []site.Finding{f}}, nil
}

// epitaph says which bound of the design a worker died of, if it was one.
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
	// A new thread needs memory for its stack; "failed to allocate" is what a
	// build with the race detector says. The collector of Go 1.26 does not look
	// whether its own queues got memory (runtime/mgcmark_greenteagc.go): it
	// faults, which unlike a program's fault begins with the signal's name.
	case w.stderr.says("out of memory", "cannot allocate memory", "pthread_create failed", "failed to create new OS thread", "failed to allocate"),
		strings.HasPrefix(w.stderr.firstLine(), "SIGSEGV: "):
		return site.Finding{
			Code: "too-large", Message: fmt.Sprintf("takes more than %d MiB of memory to evaluate", lim.Memory>>20),
			Fix: "Look for comprehensions over comprehensions and for disjunctions that multiply.",
		}, true
	}
	return site.Finding{}, false
}

// Close ends the workers that are idle; those at work end with their request.
func (e *Evaluator) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, w := range e.idle {
		w.retire.Stop()
		_ = w.end() // it was killed, which is what it says
	}
	e.idle = nil
	return nil
}

// take gives an idle worker, or a new one.
func (e *Evaluator) take() (*worker, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.idle); n > 0 {
		w := e.idle[n-1]
		e.idle = e.idle[:n-1]
		w.retire.Stop()
		return w, nil
	}
	w, err := start(e.Command)
	if err == nil {
		e.log().Debug("worker started", "pid", w.cmd.Process.Pid)
	}
	return w, err
}

// give takes a worker back, unless it has done its part.
func (e *Evaluator) give(w *worker, held uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || w.killed || w.served >= maxServed || held > maxHeld {
		_ = w.end() // it was killed, which is what it says
		return
	}
	w.retire = time.AfterFunc(maxIdle, func() { e.dismiss(w) })
	e.idle = append(e.idle, w)
}

// dismiss ends a worker that nobody needed for a while.
func (e *Evaluator) dismiss(w *worker) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, x := range e.idle {
		if x == w {
			e.idle = append(e.idle[:i:i], e.idle[i+1:]...)
			_ = w.end() // it was killed, which is what it says
			return
		}
	}
}

func (e *Evaluator) now() time.Time {
	if e.Now == nil {
		return time.Now()
	}
	return e.Now()
}

func (e *Evaluator) log() *slog.Logger {
	if e.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return e.Log
}

// worker is one child process.
type worker struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	quota  *quota
	out    *json.Decoder
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
	// A process group of its own: an interrupt typed at a terminal is for the
	// parent.
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
	w.in, w.quota = in, &quota{from: out}
	w.out = json.NewDecoder(w.quota)
	return w, cmd.Start()
}

// ask sends a request and reads its response. When the context ends the worker
// is killed.
func (w *worker) ask(ctx context.Context, p pack, lim Limits, at *string) (*outcome, error) {
	stop := context.AfterFunc(ctx, func() { _ = w.cmd.Process.Kill() })
	defer func() { w.killed = !stop() }()
	w.served++
	w.quota.left = lim.Response
	if err := send(w.in, p, lim); err != nil {
		return nil, err
	}
	return receive(w.out, at)
}

// end kills the worker and waits for its end, which it returns.
func (w *worker) end() error {
	_ = w.in.Close()
	_ = w.cmd.Process.Kill()
	return w.cmd.Wait()
}

// quota reads up to a number of bytes.
type quota struct {
	from io.Reader
	left int64
}

func (q *quota) Read(p []byte) (int, error) {
	if q.left <= 0 {
		return 0, errResponse
	}
	n, err := q.from.Read(p[:min(int64(len(p)), q.left)])
	q.left -= int64(n)
	return n, err
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
