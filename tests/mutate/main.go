// Mutate measures how well the tests hold the code that decides what Slipway
// destroys. It makes small mistakes in that code, one at a time, and runs the
// tests that reach each mistake. A mistake that no test notices is a survivor.
//
// The survivors are printed, and the last line is the ratio of caught mutants:
//
//	bench: mutate/caught 0.97 ratio
//
// Mutants that change nothing anybody could notice are listed with the reason in
// equivalent.txt and are not counted.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := mutate(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// options are what the command line asks for.
type options struct {
	only                    *regexp.Regexp
	list, survivors, update bool
	least                   float64
	files, tests            []string
	budget                  time.Duration
	parallel                int
	sample                  int
	seed                    uint64
}

func readOptions() (o options, err error) {
	only := flag.String("only", "", "take only the mutants whose key matches this regular expression")
	flag.BoolVar(&o.list, "list", false, "list the mutants and stop")
	flag.BoolVar(&o.survivors, "survivors", false, "try only the mutants that no test has caught so far")
	flag.BoolVar(&o.update, "update", false, "write hints.txt, which tests catch the mutants of each function, and survivors.txt, those that none does")
	flag.IntVar(&o.sample, "sample", 0, "draw so many of the mutants that compile, and try no others; 0 tries all")
	flag.Uint64Var(&o.seed, "seed", 1, "the seed by which a sample is drawn; the same one draws the same until the code changes")
	flag.Float64Var(&o.least, "least", 0, "fail if a smaller ratio is caught")
	of := flag.String("files", strings.Join(files, ","), "make mistakes in these files")
	in := flag.String("tests", strings.Join(testedBy, ","), "run only the tests of these packages")
	run := flag.String("run", "", "run only the tests whose names match this regular expression")
	flag.DurationVar(&o.budget, "budget", 0, "give up on a mutant, and count it as a survivor, after tests that take as much time; 0 runs all")
	flag.IntVar(&o.parallel, "p", runtime.NumCPU(), "how many tests run at a time")
	flag.Parse()
	o.files, o.tests = strings.Split(*of, ","), strings.Split(*in, ",")
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	if *run != "" {
		if wanted, err = regexp.Compile(*run); err != nil {
			return o, fmt.Errorf("-run: %w", err)
		}
	}
	return o, nil
}

// knowledge is what earlier runs and people have found out about mutants, by their keys.
type knowledge struct {
	cache      string // the folder with the verdicts
	verdicts   map[string]verdict
	equivalent map[string]string   // with the reasons
	hints      map[string][]string // of a function: the tests that catch its mutants
}

func readKnowledge(root string) (k knowledge, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return k, err
	}
	k.cache = filepath.Join(cache, "slipway-mutate")
	if err := os.MkdirAll(k.cache, 0o700); err != nil {
		return k, err
	}
	if k.verdicts, err = readVerdicts(k.cache); err != nil {
		return k, err
	}
	if k.equivalent, err = readEquivalents(root); err != nil {
		return k, err
	}
	k.hints, err = readHints(root)
	return k, err
}

func mutate(ctx context.Context) error {
	o, err := readOptions()
	if err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	known, err := readKnowledge(root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := load(root, dir, o.files)
	if err != nil {
		return err
	}
	all := p.mutants
	counts := func(m *mutant) bool { return o.only.MatchString(m.Key) && known.equivalent[m.Key] == "" }
	p.keep(func(m *mutant) bool { return counts(m) && !(o.survivors && known.verdicts[m.Key].caughtAs(m)) })
	if o.list {
		for _, m := range p.mutants {
			fmt.Println(m.Key)
		}
		return nil
	}
	found, err := p.verdicts(ctx, o, known)
	if err != nil {
		return err
	}
	if o.survivors { // what was not tried now counts as it was found before
		for _, m := range all {
			isTried := slices.ContainsFunc(found, func(v verdict) bool { return v.Key == m.Key })
			if v := known.verdicts[m.Key]; counts(m) && v.caughtAs(m) && !isTried {
				found = append(found, v)
			}
		}
	}
	if o.update {
		if err := errors.Join(writeHints(root, all, known.verdicts), writeSurvivors(root, all, known.verdicts, known.equivalent)); err != nil {
			return err
		}
	}
	return report(all, found, o.least)
}

// verdicts runs the tests against the mutants that compile, and keeps each verdict.
func (p *program) verdicts(ctx context.Context, o options, known knowledge) ([]verdict, error) {
	left, err := p.settle(ctx, p.packages())
	if err != nil {
		return nil, err
	}
	if o.sample > 0 {
		p.draw(o.sample, o.seed)
		if err := p.write(); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(os.Stderr, "%d mutants to try, %d do not compile, %d are listed as equivalent\n", len(p.mutants), left, len(known.equivalent))
	suites, err := p.suites(ctx, known.cache, o.tests, o.parallel)
	if err != nil {
		return nil, err
	}
	n := 0
	found, err := p.tryAll(ctx, suites, known.hints, o.parallel, o.budget, func(v verdict) error {
		known.verdicts[v.Key] = v
		if n++; n%20 != 0 {
			return nil
		}
		return writeVerdicts(known.cache, known.verdicts) // so that a run that is stopped was not in vain
	})
	return found, errors.Join(err, writeVerdicts(known.cache, known.verdicts))
}

// report prints the survivors and the ratio.
func report(all []*mutant, found []verdict, least float64) error {
	of := map[string]*mutant{}
	for _, m := range all {
		of[m.Key] = m
	}
	slices.SortFunc(found, func(a, b verdict) int {
		x, y := of[a.Key], of[b.Key]
		return cmp.Or(strings.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line), strings.Compare(a.Key, b.Key))
	})
	type tally struct{ caught, all int }
	files, sum := map[string]*tally{}, tally{}
	for _, v := range found {
		m := of[v.Key]
		if files[m.File] == nil {
			files[m.File] = &tally{}
		}
		files[m.File].all++
		sum.all++
		if v.caught() {
			files[m.File].caught++
			sum.caught++
			continue
		}
		fmt.Printf("survived %d tests: %s:%d\n\t%s\n%s\n", v.Tests, m.File, m.Line, m.Key, indent(m.diff()))
	}
	for _, file := range sortedKeys(files) {
		fmt.Printf("%5d of %5d caught\t%s\n", files[file].caught, files[file].all, file)
	}
	if sum.all == 0 {
		return errors.New("no mutant was tried")
	}
	ratio := float64(sum.caught) / float64(sum.all)
	fmt.Printf("%5d of %5d caught\n", sum.caught, sum.all)
	fmt.Printf("bench: mutate/caught %.4f ratio\n", ratio)
	if ratio < least {
		return fmt.Errorf("%.4f of the mutants are caught, and %.4f is the least", ratio, least)
	}
	return nil
}

func indent(s string) string { return "\t" + strings.ReplaceAll(s, "\n", "\n\t") }

// suites are the tests of the packages that may catch mutants, measured and
// compiled.
func (p *program) suites(ctx context.Context, cache string, packages []string, parallel int) ([]*suite, error) {
	var all []*suite
	for _, pkg := range packages {
		s, err := p.measure(ctx, cache, pkg, parallel)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(p.mutants, func(m *mutant) bool {
			return slices.ContainsFunc(s.tests, func(t *test) bool { return t.runs(m) })
		}) {
			continue
		}
		if s.binary, _, err = p.compile(ctx, pkg, nil); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// tryAll tries the mutants, some at a time, and calls done after each, one at a time.
func (p *program) tryAll(ctx context.Context, suites []*suite, hints map[string][]string, parallel int, budget time.Duration, done func(verdict) error) ([]verdict, error) {
	t := &trial{of: len(p.mutants), hints: hints, began: time.Now(), done: done}
	err := each(ctx, parallel, p.mutants, func(ctx context.Context, m *mutant) error {
		v, err := p.try(ctx, m, t.candidates(m, suites), budget)
		if err != nil {
			return err
		}
		return t.note(m, v)
	})
	fmt.Fprintln(os.Stderr)
	return t.all, err
}

// trial is what came of the mutants that were tried so far.
type trial struct {
	of    int // all of them
	began time.Time
	done  func(verdict) error

	mu     sync.Mutex
	hints  map[string][]string
	all    []verdict
	caught int
}

// candidates are the tests that are asked about a mutant, those that are hinted at first.
func (t *trial) candidates(m *mutant, suites []*suite) []tests {
	t.mu.Lock()
	defer t.mu.Unlock()
	return candidates(m, suites, slices.Concat(t.hints[m.function()], t.hints[m.File]))
}

// note notes what came of a mutant, and tells how far the trial is.
func (t *trial) note(m *mutant, v verdict) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, v)
	if v.caught() {
		t.caught++
		// The test that caught this one is the first to be asked about the next
		// mutant of the function and of the file.
		for _, of := range []string{m.function(), m.File} {
			t.hints[of] = append([]string{v.By}, slices.DeleteFunc(slices.Clone(t.hints[of]), func(by string) bool { return by == v.By })...)
		}
	}
	fmt.Fprintf(os.Stderr, "\r\033[K%d of %d tried, %d survive, %s", len(t.all), t.of, len(t.all)-t.caught, time.Since(t.began).Round(time.Second))
	return t.done(v)
}

// each calls f for all items, some at a time, until one fails.
func each[T any](ctx context.Context, parallel int, items []T, f func(context.Context, T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan T)
	var wg sync.WaitGroup
	for range max(parallel, 1) {
		wg.Go(func() {
			for item := range next {
				if err := f(ctx, item); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	for _, item := range items {
		select {
		case next <- item:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

func readVerdicts(cache string) (map[string]verdict, error) {
	all := map[string]verdict{}
	data, err := os.ReadFile(filepath.Join(cache, "verdicts.json"))
	if errors.Is(err, os.ErrNotExist) {
		return all, nil
	} else if err != nil {
		return nil, err
	}
	return all, json.Unmarshal(data, &all)
}

func writeVerdicts(cache string, all map[string]verdict) error {
	data, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(cache, "verdicts.json"), data, 0o600)
}
