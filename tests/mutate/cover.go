package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// suite are the tests of one package, each with what it runs of the mutated
// files.
type suite struct {
	pkg    string
	binary string // with the mutants
	tests  []*test
}

// test is one test function.
type test struct {
	Name string
	// Took is the processor time of the test alone, with the start of its process.
	Took time.Duration
	// Runs are the blocks that it runs of each file; nil where nobody measured.
	Runs map[string][]block
}

// block is a stretch of a file, from a line and column up to another.
type block struct{ FromLine, FromCol, ToLine, ToCol int }

func (b block) has(line, col int) bool {
	return (line > b.FromLine || line == b.FromLine && col >= b.FromCol) && (line < b.ToLine || line == b.ToLine && col < b.ToCol)
}

// runs says whether the test may run the place of a mutant.
func (t *test) runs(m *mutant) bool {
	if t.Runs == nil {
		return true
	}
	at := m.decl.src.fset.Position(m.decl.src.fset.File(m.decl.src.tree.FileStart).Pos(m.seen))
	return slices.ContainsFunc(t.Runs[m.File], func(b block) bool { return b.has(at.Line, at.Column) })
}

// proves are the tests that make prove runs at length. In an ordinary run they are
// short versions of themselves, with a new seed each time.
var proves = regexp.MustCompile(`^TestProve`)

// wanted are the only tests that are run; nil for all.
var wanted *regexp.Regexp

// measure runs each test of a package by itself and notes what it runs of the
// mutated files. What was measured of them with the same binary before is read instead.
func (p *program) measure(ctx context.Context, cache, pkg string, parallel int) (*suite, error) {
	binary, sum, err := p.compile(ctx, pkg, p.packages())
	if err != nil {
		return nil, err
	}
	s := &suite{pkg: pkg}
	known := filepath.Join(cache, fmt.Sprintf("cover-%s-%x.json", sum[:32], p.measured()))
	if data, err := os.ReadFile(known); err == nil && json.Unmarshal(data, &s.tests) == nil {
		return s, nil
	}
	names, err := p.list(ctx, pkg, binary)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	err = each(ctx, parallel, names, func(ctx context.Context, name string) error {
		t, err := p.measureOne(ctx, pkg, binary, name)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		s.tests = append(s.tests, t)
		fmt.Fprintf(os.Stderr, "\r\033[K%s: %d of %d tests measured", pkg, len(s.tests), len(names))
		return nil
	})
	fmt.Fprintln(os.Stderr)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(s.tests, func(a, b *test) int { return strings.Compare(a.Name, b.Name) })
	data, err := json.Marshal(s.tests)
	if err != nil {
		return nil, err
	}
	return s, os.WriteFile(known, data, 0o600)
}

// measured is a digest of what is measured of a binary: the files, and the tests that are wanted.
func (p *program) measured() []byte {
	of := sha256.New()
	for _, s := range p.sources {
		fmt.Fprintln(of, s.file)
	}
	if wanted != nil {
		fmt.Fprintln(of, wanted)
	}
	return of.Sum(nil)[:8]
}

// list are the names of the ordinary tests in a binary.
func (p *program) list(ctx context.Context, pkg, binary string) ([]string, error) {
	out, err := p.command(ctx, pkg, binary, "-test.list", "^Test").Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w", pkg, err)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool {
		return proves.MatchString(name) || wanted != nil && !wanted.MatchString(name)
	}), nil
}

func (p *program) measureOne(ctx context.Context, pkg, binary, name string) (*test, error) {
	profile := filepath.Join(p.dir, "profile-"+name)
	defer os.Remove(profile)
	cmd := p.command(ctx, pkg, binary, "-test.run", "^"+name+"$", "-test.timeout", "20m", "-test.coverprofile", profile)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s of %s fails without any mutant: %w\n%s", name, pkg, err, tail(out))
	}
	t := &test{Name: name, Took: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	var err error
	t.Runs, err = p.readProfile(profile)
	return t, err
}

// readProfile reads the blocks of the mutated files that a profile has as run.
func (p *program) readProfile(name string) (map[string][]block, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	runs := map[string][]block{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		file, rest, ok := strings.Cut(strings.TrimPrefix(lines.Text(), module+"/"), ":")
		var b block
		var statements, count int
		if n, _ := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.FromLine, &b.FromCol, &b.ToLine, &b.ToCol, &statements, &count); !ok || n < 6 {
			continue
		}
		if count > 0 && slices.ContainsFunc(p.sources, func(s *source) bool { return s.file == file }) {
			runs[file] = append(runs[file], b)
		}
	}
	return runs, nil
}

// packages are those with mutated files.
func (p *program) packages() []string {
	var all []string
	for _, s := range p.sources {
		if pkg := "./" + filepath.Dir(s.file); !slices.Contains(all, pkg) {
			all = append(all, pkg)
		}
	}
	return all
}

// command runs a test binary where go test does, with a folder for temporary
// files of its own.
func (p *program) command(ctx context.Context, pkg, binary string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = filepath.Join(p.root, pkg)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "SLIPWAY_") || strings.HasPrefix(v, "CI=") || strings.HasPrefix(v, "GOCOVERDIR=")
	})
	return cmd
}

func (p *program) asMutant(cmd *exec.Cmd, m *mutant, temp string) {
	cmd.Env = append(cmd.Env, variable+"="+strconv.Itoa(m.id), "TMPDIR="+temp)
}

// tail is the end of what a test said.
func tail(out []byte) string {
	const most = 3000
	return string(out[max(0, len(out)-most):])
}
