package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A sample of the mutants is caught, the same one until the code changes, or another
// one by SLIPWAY_MUTATE_SEED. `make mutate` tries all of them.
func TestSampleIsCaught(t *testing.T) {
	const (
		most   = 12
		atMost = 40 * time.Second // for trying; compiling comes on top
	)
	seed := uint64(1)
	if text := os.Getenv("SLIPWAY_MUTATE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal("SLIPWAY_MUTATE_SEED: ", err)
		}
	}
	t.Logf("SLIPWAY_MUTATE_SEED=%d repeats this sample", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	p, err := load(root(t), t.TempDir(), files)
	if err != nil {
		t.Fatal(err)
	}
	equivalent, err := readEquivalents(p.root)
	if err != nil {
		t.Fatal(err)
	}
	hints, err := readHints(p.root)
	if err != nil {
		t.Fatal(err)
	}
	survivors, err := readSurvivors(p.root)
	if err != nil {
		t.Fatal(err)
	}
	// One package is compiled, and those whose tests have caught its mutants.
	pkg := filepath.Dir(p.mutants[r.IntN(len(p.mutants))].File)
	p.keep(func(m *mutant) bool {
		return filepath.Dir(m.File) == pkg && equivalent[m.Key] == "" && !survivors[m.Key]
	})
	p.draw(most, seed)
	if _, err := p.settle(t.Context(), []string{"./" + pkg}); err != nil {
		t.Fatal(err)
	}
	packages := []string{pkg}
	for _, m := range p.mutants {
		// Four tests catch most mutants of a function. Any other test of the packages may too.
		f := m.function()
		hints[f] = hints[f][:min(4, len(hints[f]))]
		for _, h := range hints[f] {
			if by, _, _ := strings.Cut(h, "."); !slices.Contains(packages, by) {
				packages = append(packages, by)
			}
		}
	}
	var suites []*suite
	for _, pkg := range packages {
		s := &suite{pkg: pkg}
		if s.binary, _, err = p.compile(t.Context(), pkg, nil); err != nil {
			t.Fatal(err)
		}
		names, err := p.list(t.Context(), pkg, s.binary)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			s.tests = append(s.tests, &test{Name: name, Took: batchTime / 2})
		}
		suites = append(suites, s)
	}
	tried := 0
	for began := time.Now(); tried < len(p.mutants) && time.Since(began) < atMost; tried++ {
		m := p.mutants[tried]
		v, err := p.try(t.Context(), m, candidates(m, suites, hints[m.function()]), 0)
		if err != nil {
			t.Fatal(err)
		}
		if !v.caught() {
			t.Errorf("no test notices this mistake in %s:%d. Write a test that does, or if nobody could, list it in equivalent.txt with the reason:\n%s\n%s",
				m.File, m.Line, m.Key, m.diff())
		}
	}
	if tried == 0 {
		t.Fatal("no mutant was tried")
	}
	t.Logf("%d mutants of %s tried", tried, pkg)
}

// Each line of equivalent.txt names a mutant that there is, so that none covers a
// mutant of code that has changed since.
func TestEquivalentsAreMutants(t *testing.T) {
	p, err := load(root(t), t.TempDir(), files)
	if err != nil {
		t.Fatal(err)
	}
	equivalent, err := readEquivalents(p.root)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range p.mutants {
		delete(equivalent, m.Key)
	}
	for _, key := range sortedKeys(equivalent) {
		t.Errorf("equivalent.txt lists a mutant that does not exist: delete the line, or correct its key:\n%s", key)
	}
}

// Every kind of mistake is made where it can be.
func TestMutantsOfAFunction(t *testing.T) {
	const text = `package x

func f(a, b int, err error) (bool, error) {
	if a < b && b > 0 {
		g(a)
		a = 1
	}
	if err != nil {
		return false, err
	}
	for _, x := range list {
		if x == a {
			continue
		}
		h(T{Name: name, N: a - b})
	}
	return a == b, h()
}
`
	s, err := parse("x.go", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, m := range s.mutants() {
		have = append(have, strings.TrimPrefix(m.Key, "x.go f: "))
	}
	for _, want := range []string{
		"`a < b && b > 0` -> `(a < b && b > 0) && false`",
		"`a < b && b > 0` -> `(a < b && b > 0) || true`",
		"`a < b` -> `((a < b) || true)`",
		"`<` -> `<=`",
		"`>` -> `>=`",
		"`0` -> `1`",
		"`g(a)` -> `if mutantNever { g(a) }`",
		"`a = 1` -> `if mutantNever { a = 1 }`",
		"`err != nil` -> `(err != nil) && false`",
		"`false` -> `true`",
		"`continue` -> `break`",
		"`Name: name` -> `Name: mutantZero(name)`",
		"`-` -> `+`",
		"`a == b` -> `(a == b) || true`",
		"`h()` -> `mutantDrop(h())`",
	} {
		if !slices.Contains(have, want) {
			t.Errorf("there is no mutant %s; there are\n%s", want, strings.Join(have, "\n"))
		}
	}
}
