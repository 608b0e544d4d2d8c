package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"go/ast"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// variable is what tells the mutated program which mutant it is; without it, it
// is the program as it is.
const variable = "SLIPWAY_MUTANT"

// helpers is the file that each mutated package has besides its own. Its
// variables are set before those of the package that need them.
const helpers = `package %s

import (
	"os"
	"strconv"
)

var mutantID, _ = strconv.Atoi(os.Getenv("` + variable + `"))

var ` + never + ` = mutantID < 0

func ` + zero + `[T any](T) (zero T) { return zero }

func ` + drop + `(error) error { return nil }

var (
	_ = ` + never + `
	_ = ` + zero + `[int]
	_ = ` + drop + `
)
`

// program is the module with all of its mutants in it. Each function that has
// any begins with a choice of one of its copies, each with one mistake. So all
// mutants of a package are compiled once.
type program struct {
	root    string // of the module
	dir     string // where the mutated files are
	overlay string
	mutants []*mutant
	sources []*source
	// lines are which mutant each line of a mutated file belongs to.
	lines map[string][]span
}

type span struct {
	from, to int
	m        *mutant
}

// load finds the mutants of some files, in order. The program is written to dir.
func load(root, dir string, files []string) (*program, error) {
	p := &program{root: root, dir: dir}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		s, err := parse(file, text)
		if err != nil {
			return nil, err
		}
		p.sources = append(p.sources, s)
		p.mutants = append(p.mutants, s.mutants()...)
	}
	return p, nil
}

// keep keeps only some of the mutants.
func (p *program) keep(these func(*mutant) bool) {
	p.mutants = slices.DeleteFunc(slices.Clone(p.mutants), func(m *mutant) bool { return !these(m) })
}

// draw keeps some of the mutants, by chance.
func (p *program) draw(most int, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(p.mutants), func(i, j int) { p.mutants[i], p.mutants[j] = p.mutants[j], p.mutants[i] })
	p.mutants = p.mutants[:min(most, len(p.mutants))]
}

// write writes the mutated files, with the overlay that puts them in the place of
// the module's own.
func (p *program) write() error {
	p.lines = map[string][]span{}
	replace := map[string]string{}
	of := map[string][]*mutant{}
	for i, m := range p.mutants {
		m.id = i + 1
		of[m.File] = append(of[m.File], m)
	}
	for _, s := range p.sources {
		if len(of[s.file]) == 0 {
			continue
		}
		to := filepath.Join(p.dir, strings.ReplaceAll(s.file, "/", "__"))
		text, lines := s.withMutants(of[s.file])
		p.lines[s.file] = lines
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return err
		}
		replace[filepath.Join(p.root, s.file)] = to
		folder := filepath.Dir(s.file)
		help := filepath.Join(p.dir, strings.ReplaceAll(folder, "/", "__")+"__mutant.go")
		if err := os.WriteFile(help, fmt.Appendf(nil, helpers, s.pkg), 0o600); err != nil {
			return err
		}
		replace[filepath.Join(p.root, folder, "mutant.go")] = help
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	p.overlay = filepath.Join(p.dir, "overlay.json")
	return os.WriteFile(p.overlay, data, 0o600)
}

// withMutants is the text of a file with its mutants in it.
func (s *source) withMutants(all []*mutant) ([]byte, []span) {
	var b bytes.Buffer
	var lines []span
	at := 0
	for _, d := range s.tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		var own []*mutant
		for _, m := range all {
			if m.decl.decl == f {
				own = append(own, m)
			}
		}
		if len(own) == 0 {
			continue
		}
		head, call := s.named(f)
		b.Write(s.text[at:s.at(f.Pos())])
		b.WriteString(head)
		b.WriteString(choice(f, own, call))
		b.Write(s.text[s.at(f.Body.Lbrace)+1 : s.at(f.End())])
		at = s.at(f.End())
		for _, m := range own {
			b.WriteString("\n\n")
			from := bytes.Count(b.Bytes(), []byte{'\n'}) + 1
			b.WriteString(m.decl.mutated(m, m.name()))
			lines = append(lines, span{from, bytes.Count(b.Bytes(), []byte{'\n'}) + 1, m})
		}
	}
	b.Write(s.text[at:])
	return b.Bytes(), lines
}

func (m *mutant) name() string { return m.decl.decl.Name.Name + "_mutant" + strconv.Itoa(m.id) }

// choice is what a function with mutants begins with.
func choice(f *ast.FuncDecl, own []*mutant, call func(name string) string) string {
	var b strings.Builder
	b.WriteString("{ if mutantID != 0 { switch mutantID {")
	for _, m := range own {
		if f.Type.Results == nil {
			fmt.Fprintf(&b, " case %d: %s; return;", m.id, call(m.name()))
		} else {
			fmt.Fprintf(&b, " case %d: return %s;", m.id, call(m.name()))
		}
	}
	b.WriteString(" } };")
	return b.String()
}

// named is the head of a function up to its body, with a name for its receiver
// and for each parameter, and how to call another one with the same.
func (s *source) named(f *ast.FuncDecl) (head string, call func(name string) string) {
	var b strings.Builder
	at := s.at(f.Pos())
	upTo := func(to int) {
		b.Write(s.text[at:to])
		at = to
	}
	n := 0
	names := func(list *ast.FieldList) []string {
		var all []string
		for _, field := range list.List {
			dots := ""
			if _, ok := field.Type.(*ast.Ellipsis); ok {
				dots = "..."
			}
			if len(field.Names) == 0 {
				n++
				name := "mutantArg" + strconv.Itoa(n)
				upTo(s.at(field.Type.Pos()))
				b.WriteString(name + " ")
				all = append(all, name+dots)
			}
			for _, id := range field.Names {
				name := id.Name
				if name == "_" {
					n++
					name = "mutantArg" + strconv.Itoa(n)
					upTo(s.at(id.Pos()))
					b.WriteString(name)
					at = s.at(id.End())
				}
				all = append(all, name+dots)
			}
		}
		return all
	}
	receiver, types := "", ""
	if f.Recv != nil {
		receiver = names(f.Recv)[0] + "."
	}
	if f.Type.TypeParams != nil {
		types = "[" + strings.Join(names(f.Type.TypeParams), ", ") + "]"
	}
	args := names(f.Type.Params)
	upTo(s.at(f.Body.Lbrace))
	return b.String(), func(name string) string { return receiver + name + types + "(" + strings.Join(args, ", ") + ")" }
}

var complaint = regexp.MustCompile(`(?m)^(?:\./)?(\S+\.go):(\d+):\d+: (.*)$`)

// settle writes the program, and leaves out the mutants that do not compile until
// the rest does. It gives how many it left out.
func (p *program) settle(ctx context.Context, packages []string) (left int, err error) {
	for {
		if err := p.write(); err != nil {
			return left, err
		}
		args := slices.Concat([]string{"build", "-overlay=" + p.overlay}, p.flags(), packages)
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = p.root
		out, err := cmd.CombinedOutput()
		if err == nil {
			return left, nil
		}
		bad := map[*mutant]bool{}
		for _, found := range complaint.FindAllStringSubmatch(string(out), -1) {
			line, _ := strconv.Atoi(found[2])
			m := p.mutantAt(found[1], line)
			if m == nil {
				return left, fmt.Errorf("the program with its mutants does not compile: %s", found[0])
			}
			bad[m] = true
		}
		if len(bad) == 0 {
			return left, fmt.Errorf("go build: %w: %s", err, out)
		}
		left += len(bad)
		p.mutants = slices.DeleteFunc(p.mutants, func(m *mutant) bool { return bad[m] })
	}
}

// flags have the compiler name all mistakes of the mutated packages, and not only
// the first ten.
func (p *program) flags() []string {
	var all []string
	for _, s := range p.sources {
		if flag := "-gcflags=" + module + "/" + path.Dir(s.file) + "=-e"; !slices.Contains(all, flag) {
			all = append(all, flag)
		}
	}
	return all
}

// mutantAt is the mutant of a line of a mutated file, which the compiler calls by
// its own path or by that of the file in whose place it is.
func (p *program) mutantAt(file string, line int) *mutant {
	if base := filepath.Base(file); strings.Contains(base, "__") {
		file = strings.ReplaceAll(base, "__", "/")
	}
	for _, s := range p.lines[file] {
		if s.from <= line && line <= s.to {
			return s.m
		}
	}
	return nil
}

// compile compiles the tests of a package, with its mutants or, for the coverage
// of some packages, as it is. It gives the path of the binary and a digest of it.
func (p *program) compile(ctx context.Context, pkg string, cover []string) (binary, sum string, err error) {
	binary = filepath.Join(p.dir, strings.ReplaceAll(pkg, "/", "__")+".test")
	args := []string{"test", "-c", "-o", binary}
	if cover != nil {
		binary = strings.TrimSuffix(binary, ".test") + ".cover.test"
		args = []string{"test", "-c", "-trimpath", "-o", binary, "-cover", "-covermode=set", "-coverpkg=" + strings.Join(cover, ",")}
	} else {
		args = slices.Concat(args, []string{"-overlay=" + p.overlay}, p.flags())
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = p.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("compile the tests of %s: %w: %s", pkg, err, out)
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return "", "", err
	}
	digest := sha256.Sum256(data)
	return binary, hex.EncodeToString(digest[:]), nil
}
