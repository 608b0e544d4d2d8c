package design

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Evaluator evaluates designs in worker processes. A worker is a child process
// without environment that gets a site's files on its standard input. Its time
// and memory are limited. A worker that exceeds a limit dies, which is a
// finding about the design; the next evaluation starts a new worker. Idle
// workers end after a while. The methods of an Evaluator are safe for
// concurrent use.
type Evaluator struct {
	// Command is the worker's argument vector: a program that calls Work on its
	// standard input and output.
	Command []string
	// Workers is how many evaluate at once; default one for each processor.
	Workers int
	Limits  Limits
	// Log gets messages when workers start and are killed; default none.
	Log *slog.Logger
	// Now returns the current time, which ends suppressions; default time.Now.
	Now func() time.Time

	once   sync.Once
	turns  chan struct{}
	mu     sync.Mutex
	idle   []*worker
	closed bool
	// memories hold what is kept of sites, by name, until their timer in fade
	// fires.
	memories map[string]*memory
	fade     map[string]*time.Timer
}

const (
	// maxServed is how many requests a worker answers before it is replaced.
	maxServed = 500
	// maxHeld is how much memory a worker may keep after a request, in bytes.
	maxHeld = 256 << 20
	// maxIdle is how long a worker waits for its next request.
	maxIdle = 30 * time.Second
	// maxKept is how long the memory of a site is kept.
	maxKept = 15 * time.Minute
	// maxStderr is how much of a worker's standard error is kept, in bytes.
	maxStderr = 4 << 10
)

// errResponse says that a response exceeds its limit.
var errResponse = errors.New("the effective design is too large")

// Evaluate returns the effective design of one site, or findings that say what
// is wrong with it. An empty name means the only site. An error is about the
// evaluation itself and says nothing about the design: the files could not be
// read, a worker could not run, or the context ended.
//
// Several goroutines open the files at once. A directory entry may have a
// method ContentID() string that names the content of the file. Then Evaluate
// does not read the file again while that ID stays the same.
func (e *Evaluator) Evaluate(ctx context.Context, files fs.FS, siteName string) (Result, error) {
	return e.answer(ctx, files, siteName, evaluation{})
}

// answer runs an evaluation of a site, starting from the site's memory.
func (e *Evaluator) answer(ctx context.Context, files fs.FS, siteName string, run evaluation) (Result, error) {
	release := func() {}
	defer func() { release() }()
	return e.answerOn(ctx, files, siteName, run, func(siteName string) (m *memory) {
		m, release = e.remember(siteName)
		return m
	})
}

// answerAnew is answer with an empty memory.
func (e *Evaluator) answerAnew(ctx context.Context, files fs.FS, siteName string, run evaluation) (Result, error) {
	return e.answerOn(ctx, files, siteName, run, func(string) *memory { return newMemory() })
}

func (e *Evaluator) answerOn(ctx context.Context, files fs.FS, siteName string, run evaluation, on func(siteName string) *memory) (Result, error) {
	lim := e.Limits.withDefaults()
	var m *memory
	p, findings, err := collectAnew(files, siteName, lim, func(siteName string) map[string]text {
		m = on(siteName)
		return m.texts
	})
	if err != nil {
		return Result{}, fmt.Errorf("read design: %w", err)
	}
	if site.HasErrors(findings) {
		return Result{Findings: limit(findings)}, nil
	}
	run.memory, run.most, run.atOnce, run.now, run.ask = m, lim.Values, e.workers(), e.now(), e.asker(p.site, lim)
	return run.run(ctx, p)
}

// errOverdue says that an evaluation exceeded its time limit.
var errOverdue = errors.New("the evaluation is overdue")

// remember returns the memory of a site for one evaluation at a time. A
// concurrent evaluation gets an empty one.
func (e *Evaluator) remember(name string) (m *memory, release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m = e.memories[name]
	if m == nil || !m.occupy() {
		m = newMemory()
		m.occupy()
	}
	return m, func() {
		m.leave()
		e.keep(name, m)
	}
}

// keep keeps a site's memory for a while.
func (e *Evaluator) keep(name string, m *memory) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	if e.memories == nil {
		e.memories, e.fade = map[string]*memory{}, map[string]*time.Timer{}
	}
	e.memories[name] = m
	if t := e.fade[name]; t != nil {
		t.Stop()
	}
	e.fade[name] = time.AfterFunc(maxKept, func() { e.forget(name, m) })
}

// forget drops a site's memory, if it is still this one.
func (e *Evaluator) forget(name string, m *memory) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.memories[name] == m {
		delete(e.memories, name)
		delete(e.fade, name)
	}
}

func (e *Evaluator) workers() int {
	if e.Workers > 0 {
		return e.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// asker returns an asker for one evaluation, which waits for a free worker.
// Limits on time and on answers apply to all requests of the evaluation
// together. Waiting for a worker does not count, or one site could make another
// one seem too slow.
func (e *Evaluator) asker(siteName string, lim Limits) asker {
	e.once.Do(func() { e.turns = make(chan struct{}, e.workers()) })
	var size, spent atomic.Int64
	return func(ctx context.Context, r request) ([]byte, error) {
		select {
		case e.turns <- struct{}{}:
			defer func() { <-e.turns }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		begun := time.Now()
		bounded, cancel := context.WithTimeoutCause(ctx, lim.Timeout-time.Duration(spent.Load()), errOverdue)
		defer cancel()
		one := lim
		one.Response -= size.Load()
		outcome, err := e.request(ctx, bounded, siteName, r, one)
		size.Add(int64(len(outcome)))
		spent.Add(int64(time.Since(begun)))
		return outcome, err
	}
}

// request lets a worker answer a request. If the design killed the worker, the
// error is a fatal.
func (e *Evaluator) request(ctx, bounded context.Context, siteName string, r request, lim Limits) ([]byte, error) {
	w, err := e.take()
	if err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	var at string
	outcome, held, err := w.ask(bounded, r, lim, &at)
	if err == nil {
		e.give(w, held)
		return outcome, nil
	}
	ended := w.end()
	if at == "" && w.served > 1 && bounded.Err() == nil && !errors.Is(err, errResponse) {
		return e.request(ctx, bounded, siteName, r, lim) // it died while idle, which says nothing about the design
	}
	e.log().Debug("worker killed", "site", siteName, "at", at, "err", err, "ended", ended)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	f, ok := epitaph(w, err, bounded.Err() != nil, e.Limits.withDefaults())
	if !ok && wasKilled(w, err) {
		return nil, fmt.Errorf("evaluate %s: the worker process was killed while %s (SIGKILL), most likely because memory ran out: a worker may need %d MiB; give the host, or the service by MemoryMax=, more memory",
			siteName, cmp.Or(at, "being started"), e.Limits.withDefaults().Memory>>20)
	}
	if !ok {
		return nil, fmt.Errorf("evaluate %s: worker ended while %s: %w: %s", siteName, cmp.Or(at, "being started"), errors.Join(err, ended), w.stderr.firstLine())
	}
	f.Severity = site.SeverityError
	f.Message = fmt.Sprintf("the design %s; it was given up while %s", f.Message, cmp.Or(at, "being read"))
	f.Why = "Evaluation is limited so that no commit can stop the daemon."
	return nil, fatal{f}
}

// Close ends the idle workers. Busy workers end with their request.
func (e *Evaluator) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, w := range e.idle {
		w.retire.Stop()
		_ = w.end() // always reports that the worker was killed
	}
	for _, t := range e.fade {
		t.Stop()
	}
	e.idle, e.memories = nil, nil
	return nil
}

// take returns the worker that was idle for longest, or a new one. The longest
// idle worker most likely has its next basis ready.
func (e *Evaluator) take() (*worker, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.idle) > 0 {
		w := e.idle[0]
		e.idle = slices.Delete(e.idle, 0, 1)
		w.retire.Stop()
		return w, nil
	}
	w, err := start(e.Command)
	if err == nil {
		e.log().Debug("worker started", "pid", w.cmd.Process.Pid)
	}
	return w, err
}

// give returns a worker to the idle ones, or ends it when it is used up.
func (e *Evaluator) give(w *worker, held uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || w.killed || w.served >= maxServed || held > maxHeld {
		_ = w.end() // always reports that the worker was killed
		return
	}
	w.retire = time.AfterFunc(maxIdle, func() { e.dismiss(w) })
	e.idle = append(e.idle, w)
}

// dismiss ends a worker that was idle too long.
func (e *Evaluator) dismiss(w *worker) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, x := range e.idle {
		if x == w {
			e.idle = append(e.idle[:i:i], e.idle[i+1:]...)
			_ = w.end() // always reports that the worker was killed
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
