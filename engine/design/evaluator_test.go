package design

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/slipway-gitops/slipway/engine/site"
)

// asWorker makes the test binary a worker.
const asWorker = "evaluate-as-a-worker-of-the-tests"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asWorker {
		if err := Work(os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		if len(os.Args) > 2 {
			_, err := os.ReadFile("/proc/self/status")
			fmt.Print(err)
		}
		return
	}
	os.Exit(m.Run())
}

func newEvaluator(t *testing.T, lim Limits) *Evaluator {
	e := &Evaluator{Command: []string{os.Args[0], asWorker}, Limits: lim}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func evaluateIn(t *testing.T, e *Evaluator, files map[string]string) Result {
	t.Helper()
	r, err := e.Evaluate(t.Context(), repository(files), "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// repository is a revision with the given files, and a module file.
func repository(files map[string]string) fstest.MapFS {
	repo := fstest.MapFS{moduleFile: {Data: []byte("module: \"example.org/site\"\nlanguage: version: \"v0.17.0\"\n")}}
	for name, text := range files {
		repo[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return repo
}

var (
	small  = map[string]string{"site.cue": "package small\nroles: compute: {}\n"}
	broken = map[string]string{"site.cue": "package small\nroles: compute: {\n"}
)

// A worker's answer is that of an evaluation in this process, and one worker
// answers many requests.
func TestWorkerAnswersAsHere(t *testing.T) {
	e := newEvaluator(t, Limits{})
	example := os.DirFS("../../site-example")
	want := EvaluateHere(example, "")
	for range 3 {
		got, err := e.Evaluate(t.Context(), example, "")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b site.Origin) bool { return a == b }), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("worker (+) and here (-) differ:\n%s", diff)
		}
	}
	if len(e.idle) == 0 {
		t.Error("no worker is kept for the next evaluation")
	}
}

// What kills a worker is a finding within its bound, and the next evaluation
// works.
func TestBombsAreFindings(t *testing.T) {
	measuresMemory(t)
	deep := strings.Repeat("a: ", 300_000) + "1"
	lists := "x: " + strings.Repeat("[", 400_000) + strings.Repeat("]", 400_000)
	for _, test := range []struct {
		name, text string
		lim        Limits
		codes      []string
	}{
		{"nested fields", deep, Limits{}, []string{"too-deep"}},
		{"nested fields of 4 MB", strings.Repeat("a: ", 1_400_000) + "1", Limits{}, []string{"file-too-large"}},
		{"nested fields of 4 MB let through", strings.Repeat("a: ", 1_400_000) + "1", Limits{FileBytes: 8 << 20}, []string{"too-deep"}},
		{"nested lists", lists, Limits{}, []string{"too-deep"}},
		{"nested parentheses", "x: " + strings.Repeat("(", 500_000) + "1" + strings.Repeat(")", 500_000), Limits{}, []string{"too-deep"}},
		{"exponential growth", doubling(40), Limits{Memory: 512 << 20, Timeout: 20 * time.Second}, []string{"too-large", "too-slow"}},
		{"a long list", "import \"list\"\nroles: {for i in list.Range(0, 100000000, 1) {\"r\\(i)\": {}}}", Limits{Memory: 256 << 20, Timeout: 20 * time.Second}, []string{"too-large", "too-slow"}},
		{"multiplying disjunctions", disjunctions(30), Limits{Memory: 512 << 20, Timeout: 2 * time.Second}, []string{"too-large", "too-slow"}},
		{"a large answer", "roles: {for i in [for x in _a for y in _a {x*100+y}] {\"r\\(i)\": description: \"0123456789\" * 1000}}\n_a: [" + strings.Repeat("1,2,3,4,5,6,7,8,9,", 11) + "]",
			Limits{Response: 1 << 10}, []string{"too-large"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := newEvaluator(t, test.lim)
			r := evaluateIn(t, e, map[string]string{"site.cue": "package bomb\n" + test.text})
			if r.Site != nil || len(r.Findings) != 1 {
				t.Fatalf("got %d findings, want one: %v", len(r.Findings), r.Findings)
			}
			if f := r.Findings[0]; !strings.Contains(" "+strings.Join(test.codes, " ")+" ", " "+f.Code+" ") {
				t.Errorf("got %s: %s, want one of %v", f.Code, f.Message, test.codes)
			}
			if r := evaluateIn(t, e, broken); len(r.Findings) == 0 || r.Findings[0].Code != "syntax" {
				t.Errorf("the next evaluation: %v, want a syntax finding", r.Findings)
			}
		})
	}
}

// doubling is a text that is twice as long n times.
func doubling(n int) string {
	b := strings.Builder{}
	b.WriteString("_x0: \"0123456789\"\n")
	for i := range n {
		b.WriteString(strings.NewReplacer("N", strconv.Itoa(i+1), "P", strconv.Itoa(i)).Replace("_xN: _xP + _xP\n"))
	}
	return b.String() + "roles: x: description: _x" + strconv.Itoa(n) + "\n"
}

// disjunctions is a product of n disjunctions.
func disjunctions(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll("_x: {fN: 1, ...} | {fN: 2, ...}\n", "N", strconv.Itoa(i)))
	}
	return b.String() + "roles: x: description: \"\\(_x.f0)\"\n"
}

// The end of the context ends an evaluation, and says so.
func TestEvaluateEndsWithItsContext(t *testing.T) {
	e := newEvaluator(t, Limits{})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := e.Evaluate(ctx, repository(map[string]string{"site.cue": "package bomb\n" + disjunctions(40)}), "")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's error", err)
	}
}

// A worker that cannot be started is an error, and no finding.
func TestEvaluateWithoutWorker(t *testing.T) {
	e := &Evaluator{Command: []string{"/nonexistent"}}
	if r, err := e.Evaluate(t.Context(), repository(small), ""); err == nil || len(r.Findings) > 0 {
		t.Errorf("got %v and findings %v, want an error alone", err, r.Findings)
	}
}

// A worker that died while it waited is replaced.
func TestDeadIdleWorkerIsReplaced(t *testing.T) {
	e := newEvaluator(t, Limits{})
	evaluateIn(t, e, small)
	if err := e.idle[0].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if r := evaluateIn(t, e, small); r.Site == nil {
		t.Errorf("got findings %v, want a site", r.Findings)
	}
}

// A worker that the kernel kills is an error and no finding, as the design need
// not be to blame, and the next evaluation has another one. The kernel takes
// workers first.
func TestKilledWorkerIsAnError(t *testing.T) {
	e := newEvaluator(t, Limits{})
	evaluateIn(t, e, small) // the one that is killed has answered before
	pid := e.idle[0].cmd.Process.Pid
	score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	if err != nil || strings.TrimSpace(string(score)) != "1000" {
		t.Errorf("the worker's oom_score_adj is %q, %v", score, err)
	}
	var killed atomic.Bool
	var all sync.WaitGroup
	before := used(pid) // with the design that it has answered
	all.Go(func() {
		for !killed.Load() && t.Context().Err() == nil {
			if used(pid) >= before+50 {
				killed.Store(syscall.Kill(pid, syscall.SIGKILL) == nil)
			}
			runtime.Gosched()
		}
	})
	r, err := e.Evaluate(t.Context(), repository(map[string]string{"site.cue": "package bomb\n" + disjunctions(40)}), "")
	all.Wait()
	if err == nil || len(r.Findings) > 0 || !strings.Contains(err.Error(), "was killed while") || !strings.Contains(err.Error(), "MemoryMax") {
		t.Errorf("got %v and findings %v, want an error", err, r.Findings)
	}
	if r := evaluateIn(t, e, small); r.Site == nil {
		t.Errorf("got findings %v, want a site", r.Findings)
	}
}

// used is how much processor time a process has used, in hundredths of a second.
func used(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	return user
}

// Evaluations run side by side, up to the number of workers, and an idle
// worker ends.
func TestEvaluateSideBySide(t *testing.T) {
	e := newEvaluator(t, Limits{})
	e.Workers = 2
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if r, err := e.Evaluate(t.Context(), repository(small), ""); err != nil || r.Site == nil {
				t.Errorf("got %v and findings %v, want a site", err, r.Findings)
			}
		})
	}
	all.Wait()
	if n := len(e.idle); n < 1 || n > 2 {
		t.Fatalf("got %d idle workers, want 1 or 2", n)
	}
	w := e.idle[0]
	e.dismiss(w)
	if slices.Contains(e.idle, w) || w.cmd.ProcessState == nil {
		t.Error("the worker that was dismissed goes on")
	}
}

// A worker opens nothing once it serves, also after its last request.
func TestWorkerIsConfined(t *testing.T) {
	cmd := exec.Command(os.Args[0], asWorker, "and", "look")
	out, err := cmd.Output()
	if err != nil || string(out) != "open /proc/self/status: operation not permitted" {
		t.Errorf("got %q, %v", out, err)
	}
}

// A worker that cannot be confined evaluates nothing, and the error says why.
func TestWorkerThatCannotBeConfined(t *testing.T) {
	e := &Evaluator{Command: []string{"/bin/sh", "-c", "echo slipway: cannot confine this process: the kernel refuses >&2; exit 1"}}
	_, err := e.Evaluate(t.Context(), repository(map[string]string{"site.cue": "package site\n"}), "")
	if err == nil || !strings.Contains(err.Error(), "worker ended while being started: ") || !strings.HasSuffix(err.Error(), ": slipway: cannot confine this process: the kernel refuses") {
		t.Errorf("got %v", err)
	}
}

// A worker has no environment.
func TestWorkerHasNoEnvironment(t *testing.T) {
	t.Setenv("SLIPWAY_CANARY", "seen")
	w, err := start([]string{"/usr/bin/env"})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	buf := make([]byte, 100)
	for {
		n, err := w.out.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			break
		}
	}
	_ = w.cmd.Wait()
	if b.Len() > 0 {
		t.Errorf("got environment %q, want none", b.String())
	}
}
