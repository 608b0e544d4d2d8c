package design

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// bomb is a design that is made to hang or exhaust whoever evaluates it.
type bomb struct {
	name string
	// text is that of the package's file; files are others.
	text  string
	files map[string]string
	// codes are what may be found, one of them first. "" is a design like any
	// other: it is harmless.
	codes []string
	// says is part of the finding's message.
	says string
	// long is for when there is time; what is like it is tried all the same, here
	// or in a test of its own.
	long bool
}

var overrun = []string{"too-slow", "too-large", "too-deep", "too-many-operators"}

// bombs are every way that we know to keep an evaluation busy.
func bombs() []bomb {
	const n1 = "nodes: n1: {profiles: [\"p\"], role: \"compute\", rack: \"r1\", endpoints: manager: url: \"redfish+https://192.0.2.1/redfish/v1/Systems/1\"}\nprofiles: p: {}\nroles: compute: {}\nracks: r1: {}\ncredentials: bmc: {}\n"
	return []bomb{
		{name: "structs that double", text: chain(40, "_x0: {a: 1}", "_xN: {a: _xP, b: _xP}") + "roles: x: description: \"\\(_x40.a.b.a)\"", codes: append(overrun, "no-value")},
		{name: "a unification of products", long: true, text: disjunctions(30), codes: overrun},
		{name: "texts that double", text: chain(40, `_x0: "0123456789"`, `_xN: "\(_xP)\(_xP)"`) + "roles: x: description: _x40", codes: overrun},
		{name: "lists that double", long: true, text: "import \"list\"\n" + chain(40, "_x0: [1]", "_xN: list.Concat([_xP, _xP])") + "roles: {for i, _ in _x40 {\"r\\(i)\": {}}}", codes: overrun},
		{name: "numbers that double", text: chain(40, "_x0: 123456789", "_xN: _xP * _xP") + "roles: x: description: \"\\(_x40)\"", codes: append(overrun, "no-value", "does-not-compile")},
		{name: "a comprehension of four", long: true, text: "_a: [" + strings.Repeat("1,", 200) + "]\nroles: {for a in _a for b in _a for c in _a for d in _a {x: description: \"\\(a+b+c+d)\"}}", codes: overrun},
		{name: "fields that fields make", long: true, text: "_a: {for i in _l {\"a\\(i)\": {for j in _l {\"b\\(j)\": {for k in _l {\"c\\(k)\": {for m in _l {\"d\\(m)\": 1}}}}}}}}\n_l: [" + numbers(100) + "]\nroles: x: description: \"\\(len(_a.a1.b1))\"", codes: append(overrun, "")},
		{name: "a list of a billion", text: "import \"list\"\nroles: x: description: \"\\(len(list.Range(0, 1000000000, 1)))\"", codes: overrun},
		{name: "a list repeated", text: "import \"list\"\nroles: x: description: \"\\(len(list.Repeat([1,2,3], 1000000000)))\"", codes: append(overrun, "no-value")},
		{name: "a text repeated", text: "import \"strings\"\nroles: x: description: strings.Repeat(\"0123456789\", 1000000000)", codes: append(overrun, "no-value")},
		{name: "a power", text: "import \"math\"\nroles: x: description: \"\\(math.Pow(9, 1000000000))\"", codes: append(overrun, "no-value", "")},
		{name: "a number with a large exponent", text: "roles: x: description: \"\\(1e999999999 + 1)\"", codes: append(overrun, "no-value", "does-not-compile", "")},
		{name: "a number of a million digits", text: "nodes: n1: generation: " + strings.Repeat("9", 1_000_000) + "\n" + n1, codes: append(overrun, "invalid-value", "no-value", "incomplete-value", "generation-without-identity")},
		{name: "1+1 and so on", text: "_x: 1" + strings.Repeat("+1", 500_000) + "\nroles: x: description: \"\\(_x)\"", codes: append(overrun, "")},
		{name: "brackets", text: "_x: " + strings.Repeat("[", 400_000) + strings.Repeat("]", 400_000), codes: append(overrun, "syntax")},
		{name: "braces", text: "_x: " + strings.Repeat("{", 400_000) + strings.Repeat("}", 400_000), codes: append(overrun, "syntax")},
		{name: "parentheses", text: "_x: " + strings.Repeat("(", 400_000) + "1" + strings.Repeat(")", 400_000), codes: append(overrun, "syntax")},
		{name: "fields in fields", text: strings.Repeat("a: ", 300_000) + "1", codes: overrun},
		{name: "signs", text: "_x: " + strings.Repeat("-", 900_000) + "1", codes: append(overrun, "syntax", "")},
		{name: "negations", text: "_x: " + strings.Repeat("!", 900_000) + "true", codes: append(overrun, "syntax", "")},
		{name: "texts in texts", text: "_x: " + strings.Repeat(`"\(`, 200_000) + "1" + strings.Repeat(`)"`, 200_000), codes: append(overrun, "syntax")},
		{name: "selectors", text: "_a: _\n_x: _a" + strings.Repeat(".a", 400_000), codes: append(overrun, "syntax", "does-not-compile", "")},
		{name: "indices", text: "_a: _\n_x: " + strings.Repeat("_a[", 200_000) + "1" + strings.Repeat("]", 200_000), codes: append(overrun, "syntax", "does-not-compile", "")},
		{name: "calls", text: "_x: " + strings.Repeat("len(", 200_000) + "1" + strings.Repeat(")", 200_000), codes: append(overrun, "syntax", "does-not-compile", "")},
		{name: "comprehensions in comprehensions", long: true, text: "_x: " + strings.Repeat("{for i in [1] ", 60_000) + "{}" + strings.Repeat("}", 60_000), codes: append(overrun, "syntax", "does-not-compile", "")},
		{name: "alternatives", text: "_x: 1" + strings.Repeat("|1", 400_000), codes: append(overrun, "")},
		{name: "attributes", text: "_x: 1 @a(" + strings.Repeat("(", 400_000) + strings.Repeat(")", 400_000) + ")", codes: append(overrun, "syntax", "")},
		{name: "32,000 declarations of one field", long: true, text: strings.Repeat("nodes: n1: power: \"on\"\n", 32_000) + n1, codes: append(overrun, "")},
		{name: "32,000 values of one field", long: true, text: counted(32_000, "nodes: n1: labels: a: \"%d\"\n") + n1, codes: append(overrun, "conflicting-values", "no-value")},
		{name: "32,000 references to one field", text: "nodes: n1: labels: {" + counted(32_000, "a%d: a\n") + "a: \"x\"}\n" + n1, codes: append(overrun, "does-not-compile", "")},
		{name: "a definition in itself", text: "#L: {next: #L}\nroles: x: description: \"\\(#L.next.next)\"", codes: append(overrun, "no-value", "does-not-compile", "incomplete-value")},
		{name: "a field in itself", text: "_a: {b: _a}\nroles: x: description: \"\\(_a.b.b)\"", codes: append(overrun, "no-value", "does-not-compile", "incomplete-value")},
		{name: "two that want each other", text: "_a: _b + 1\n_b: _a - 1\nroles: x: description: \"\\(_a)\"", codes: append(overrun, "no-value", "does-not-compile", "incomplete-value")},
		{name: "a pattern of patterns", text: "nodes: n1: kernel: parameters: x: =~\"" + strings.Repeat("(", 6) + "a" + strings.Repeat("{1,30})", 6) + "\"\n" + n1, codes: append(overrun, "invalid-value", "no-value", "does-not-compile", "incomplete-value")},
		{name: "a thousand patterns for a thousand fields", long: true, text: counted(1000, "nodes: n1: labels: [=~\"^(a|b|ab)*x*%d$\"]: string\n") + counted(1000, "nodes: n1: labels: abababababababababababx%d: \"\"\n") + n1, codes: append(overrun, "")},
		{name: "files of 50 MB", files: map[string]string{"large.cue": strings.Repeat("//3456789\n", 5_000_000)}, codes: []string{"file-too-large"}, says: "large.cue"},
		{name: "many files", files: filesOf(20_001, "f%d.cue", "package bomb\n"), codes: []string{"too-large"}, says: "more than the 20000"},
		{name: "files of 40 MB together", files: filesOf(50, "f%d.cue", "package bomb\n"+strings.Repeat("//3456789\n", 80_000)), codes: []string{"too-large"}, says: "over 32 MiB"},
		{name: "findings without end", long: true, text: "import \"list\"\nnodes: {for i in list.Range(0, 20000, 1) {\"n\\(i)\": bogus: i}}", codes: append(overrun, "unknown-field")},
		{name: "nodes without end", long: true, text: "import \"list\"\nnodes: {for i in list.Range(0, 10000000, 1) {\"n\\(i)\": {}}}", codes: overrun},
		{name: "layers that multiply", long: true, text: "import \"list\"\nprofiles: p: labels: {for i in list.Range(0, 2000, 1) {\"l\\(i)\": \"x\"}}\nnodes: {for i in list.Range(0, 3000, 1) {\"n\\(i)\": {profiles: [\"p\"], labels: l1: \"y\"}}}", codes: overrun},
		{name: "a policy that doubles", long: true, text: "policies: x: {why: \"w\", require: {labels: a: _x40.a.b.a}}\n" + chain(40, "_x0: {a: 1}", "_xN: {a: _xP, b: _xP}") + n1, codes: overrun},
		{name: "a network of everything", text: "networks: {for i in [\"a\", \"b\", \"c\"] {(i): {cidr: \"::/0\", ranges: r: {from: \"::1\", to: \"ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0\", use: \"static\"}}}}\nnodes: n1: addresses: {a: \"allocate\", b: \"allocate\"}\n" + n1, codes: append(overrun, "network-overlap", "allocation-missing", "unused-network")},
		{name: "ten thousand networks", long: true, text: "import \"list\"\nnetworks: {for i in list.Range(0, 10000, 1) {\"a\\(i)\": {cidr: \"10.\\(div(i, 256)).\\(mod(i, 256)).0/24\"}}}\n" + n1, codes: append(overrun, "", "unused-network")},
		{name: "selectors that select each other", text: "bootActions: {for i in [" + numbers(1000) + "] {\"a\\(i)\": {run: [\"x\"], nodes: names: [\"" + strings.Repeat("*a", 500) + "*b\"]}}}\n" + strings.ReplaceAll(n1, "n1", strings.Repeat("a", 50)), codes: append(overrun, "", "unknown-selected", "selector-empty")},
		{name: "aliases in YAML", text: "data: d: path: \"d.yaml\"\n" + n1, files: map[string]string{"d.yaml": aliases(20)}, codes: append(overrun, "data-file", "rules-not-checked")},
		{name: "braces in JSON", text: "data: d: path: \"d.json\"\n" + n1, files: map[string]string{"d.json": strings.Repeat(`{"a":`, 170_000) + "1" + strings.Repeat("}", 170_000)}, codes: append(overrun, "data-file", "rules-not-checked")},
		{name: "braces in YAML", text: "data: d: path: \"d.yaml\"\n" + n1, files: map[string]string{"d.yaml": strings.Repeat(`{a: `, 200_000) + "1" + strings.Repeat("}", 200_000)}, codes: append(overrun, "data-file", "rules-not-checked")},
		{name: "a key a hundred thousand times in JSON", long: true, text: "data: d: path: \"d.json\"\n" + n1, files: map[string]string{"d.json": `{"n1": {"labels": {` + strings.Repeat(`"a":"x",`, 100_000) + `"a": "x"}}}`}, codes: append(overrun, "data-file", "")},
		{name: "a number with a large exponent in JSON", text: "data: d: path: \"d.json\"\n" + n1, files: map[string]string{"d.json": `{"n1": {"generation": 1e999999999}}`}, codes: append(overrun, "data-file", "invalid-value", "incomplete-value", "no-value", "generation-without-identity")},
	}
}

// chain is a first line, and n that each follow from the one before: N and P
// stand for their number and the one before.
func chain(n int, first, next string) string {
	lines := []string{first}
	for i := range n {
		lines = append(lines, strings.NewReplacer("N", strconv.Itoa(i+1), "P", strconv.Itoa(i)).Replace(next))
	}
	return strings.Join(lines, "\n") + "\n"
}

func numbers(n int) string { return strings.TrimSuffix(counted(n, "%d,"), ",") }

func counted(n int, form string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(form, "%d", strconv.Itoa(i)))
	}
	return b.String()
}

func filesOf(n int, form, text string) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf(form, i)] = text
	}
	return files
}

func aliases(n int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range n {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	return b.String()
}

func (b bomb) repository() fstest.MapFS {
	files := map[string]string{"site.cue": "package bomb\n" + b.text + "\n"}
	for name, text := range b.files {
		files[name] = text
	}
	return repository(files)
}

// hostileLimits are the limits under which bombs are tried: small ones where there is
// little time, the real ones otherwise.
func hostileLimits() Limits {
	if os.Getenv("SLIPWAY_PROVE") != "" {
		return Limits{}
	}
	limit := 2 * time.Second
	if racing {
		limit = 4 * time.Second // everything takes longer, also what is no bomb
	}
	return Limits{Timeout: limit, Memory: 512 << 20, Values: 200_000}
}

// Every bomb ends within its bounds, and says what it was; meanwhile the same
// evaluator evaluates another site, again and again.
func TestBombsEndWhileOthersGoOn(t *testing.T) {
	lim := hostileLimits()
	bounds := lim.withDefaults()
	e := newEvaluator(t, lim)
	e.Workers = 3
	watch := newWatch(t)
	e.Log = slog.New(watch)
	var during, running atomic.Int64
	ctx, done := context.WithCancel(t.Context())
	var beside sync.WaitGroup
	beside.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			before := running.Load()
			other := map[string]string{"site.cue": fmt.Sprintf("package small\nroles: compute: description: \"%d\"\n", i)}
			r, err := e.Evaluate(t.Context(), repository(other), "")
			if err != nil || r.Site == nil {
				t.Errorf("beside the bombs: %v, %v", err, r.Findings)
				return
			}
			if before > 0 && running.Load() > 0 {
				during.Add(1)
			}
		}
	})
	t.Run("bombs", func(t *testing.T) {
		turns := make(chan struct{}, 2)
		for i, b := range bombs() {
			if b.long && lim != (Limits{}) || racing && i%3 > 0 {
				continue // the race detector sees the same of each
			}
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				repo := b.repository()
				turns <- struct{}{}
				running.Add(1)
				begun := time.Now()
				r, err := e.Evaluate(t.Context(), repo, "")
				took := time.Since(begun)
				running.Add(-1)
				<-turns
				if err != nil {
					t.Fatal(err)
				}
				b.check(t, r)
				// To kill a worker of some gigabytes takes a while, all the more where
				// others want the processors too.
				if took > bounds.Timeout*5/4+10*time.Second {
					t.Errorf("took %s, want at most %s", took, bounds.Timeout)
				}
				t.Logf("%.1f s: %s", took.Seconds(), foundCodes(r.Findings))
			})
		}
	})
	done()
	beside.Wait()
	if during.Load() < 3 {
		t.Errorf("the other site was evaluated %d times while bombs were, want more", during.Load())
	}
	// The program itself and its threads' stacks are no data.
	if most := watch.most(); most > bounds.Memory+128<<20 {
		t.Errorf("a worker took %d MiB, want at most %d", most>>20, bounds.Memory>>20)
	} else {
		t.Logf("the largest worker had %d MiB, the other site was evaluated %d times meanwhile", most>>20, during.Load())
	}
}

func (b bomb) check(t *testing.T, r Result) {
	t.Helper()
	if len(r.Findings) == 0 {
		if r.Site == nil || !slices.Contains(b.codes, "") {
			t.Errorf("found nothing, want one of %q", b.codes)
		}
		return
	}
	f := r.Findings[0]
	if !slices.Contains(b.codes, f.Code) {
		t.Errorf("found %s first: %s; want one of %q", f.Code, f.Message, b.codes)
	}
	if !strings.Contains(f.Message+f.File, b.says) {
		t.Errorf("found %s: %s; want it to say %s", f.Code, f.Message, b.says)
	}
	if len(r.Findings) > maxFindings+1 {
		t.Errorf("%d findings, want at most %d", len(r.Findings), maxFindings+1)
	}
	for _, f := range r.Findings {
		if len(f.Message) > 2000 || f.Code == "panic" {
			t.Errorf("found %s with %d letters: %.200s", f.Code, len(f.Message), f.Message)
		}
		if f.File == "" && f.Code != "rules-not-checked" && f.Code != "more-findings" && f.Why != gaveUp {
			t.Errorf("found %s without a place: %s", f.Code, f.Message)
		}
	}
}

// gaveUp is why an evaluation was given up.
const gaveUp = "Evaluation is limited so that no commit can stop the daemon."

func foundCodes(all []site.Finding) string {
	var list []string
	for _, f := range all[:min(3, len(all))] {
		list = append(list, f.Code)
	}
	return fmt.Sprintf("%d findings %v", len(all), list)
}

// watch notes the workers that are started, and looks how much memory each
// has had at most.
type watch struct {
	mu   sync.Mutex
	had  map[int]int64
	stop chan struct{}
}

func newWatch(t *testing.T) *watch {
	w := &watch{had: map[int]int64{}, stop: make(chan struct{})}
	every := time.NewTicker(10 * time.Millisecond)
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-w.stop:
				return
			case <-every.C:
				w.look()
			}
		}
	})
	t.Cleanup(func() { every.Stop(); close(w.stop); looking.Wait() })
	return w
}

func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for pid, had := range w.had {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may have ended
		_, after, _ := strings.Cut(string(text), "VmHWM:")
		line, _, _ := strings.Cut(after, "kB")
		n, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		w.had[pid] = max(had, n<<10)
	}
}

func (w *watch) most() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Max(append(slices.Collect(maps.Values(w.had)), 0))
}

func (w *watch) Enabled(context.Context, slog.Level) bool { return true }
func (w *watch) WithAttrs([]slog.Attr) slog.Handler       { return w }
func (w *watch) WithGroup(string) slog.Handler            { return w }
func (w *watch) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "pid" {
			w.mu.Lock()
			w.had[int(a.Value.Int64())] = 0
			w.mu.Unlock()
		}
		return true
	})
	return nil
}

// measuresMemory leaves a test of how much a worker may take out where the race
// detector takes most of it; it runs without.
func measuresMemory(t *testing.T) {
	t.Helper()
	if racing {
		t.Skip("runs without the race detector")
	}
}

// hasOneGoroutine leaves a test that does one thing after the other out where the
// race detector makes it slow and has nothing to find; it runs without.
func hasOneGoroutine(t *testing.T) {
	t.Helper()
	if racing {
		t.Skip("runs without the race detector")
	}
}

// Layers that multiply are bounded before they do: a profile of many values and
// many nodes that name it are a few lines, and no worker has to do with them.
func TestLayersThatMultiplyAreBounded(t *testing.T) {
	measuresMemory(t)
	text := "package bomb\nimport \"list\"\nprofiles: p: labels: {for i in list.Range(0, 300, 1) {\"l\\(i)\": \"x\"}}\n" +
		"nodes: {for i in list.Range(0, 500, 1) {\"n\\(i)\": {profiles: [\"p\"], labels: l1: \"y\"}}}\n"
	for most, want := range map[int64]bool{100_000: true, 200_000: false} {
		r := evaluateIn(t, newEvaluator(t, Limits{Values: most}), map[string]string{"site.cue": text})
		f := r.Findings[0]
		if got := len(r.Findings) == 1 && f.Code == "too-large" && strings.Contains(f.Message, "100000 values"); got != want {
			t.Errorf("at most %d values: %d findings, the first %s: %s", most, len(r.Findings), f.Code, f.Message)
		}
	}
}

// So are the entries of a section, which rules hold against each other.
func TestEntriesAreBounded(t *testing.T) {
	measuresMemory(t)
	for n, want := range map[int]bool{maxEntries: false, maxEntries + 1: true} {
		text := fmt.Sprintf("package bomb\nimport \"list\"\nroles: {for i in list.Range(0, %d, 1) {\"r\\(i)\": {}}}\n", n)
		r := evaluateIn(t, newEvaluator(t, Limits{}), map[string]string{"site.cue": text})
		got := len(r.Findings) == 1 && r.Findings[0].Code == "too-large" && r.Findings[0].Message == "`roles` has more than 5000 entries"
		if got != want {
			t.Errorf("%d roles: %v, want it too large: %v", n, r.Findings[:min(2, len(r.Findings))], want)
		}
	}
}

// What one site takes of its workers' time is not taken from another's: where
// there is one worker, a site that comes after three bombs waits for them, and
// is not found too slow.
func TestWaitingForOthersIsNotSlow(t *testing.T) {
	e := newEvaluator(t, Limits{Timeout: 3 * time.Second})
	e.Workers = 1
	started := make(chan struct{}, 10)
	e.Log = slog.New(notice(started))
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			repo := repository(map[string]string{"site.cue": fmt.Sprintf("package bomb%d\n", i) + disjunctions(30)})
			r, err := e.Evaluate(t.Context(), repo, "")
			if err != nil || len(r.Findings) != 1 || r.Findings[0].Code != "too-slow" {
				t.Errorf("the bomb: %v, %v; want it to be too slow", err, r.Findings)
			}
		})
	}
	<-started
	if r := evaluateIn(t, e, small); r.Site == nil {
		t.Errorf("the site that waited: %v", r.Findings)
	}
	all.Wait()
}

// notice is a log that tells of the workers that are started.
type notice chan struct{}

func (n notice) Enabled(context.Context, slog.Level) bool { return true }
func (n notice) WithAttrs([]slog.Attr) slog.Handler       { return n }
func (n notice) WithGroup(string) slog.Handler            { return n }
func (n notice) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "worker started" {
		select {
		case n <- struct{}{}:
		default:
		}
	}
	return nil
}
