package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// A mutant is the program with one small mistake in it. A test that fails
// because of it has caught it.
type mutant struct {
	// Key names the mutant by what it changes, free of line numbers: the file,
	// the function, the text before and after, and the how manieth such place of
	// the function it is.
	Key  string
	File string // relative to the module
	Func string // "(*Engine).gate"
	Line int
	// Sum is a digest of the function with the mistake in it.
	Sum string

	id       int
	decl     *function
	from, to int // offsets in the file
	with     string
	// seen is the offset in the file at which coverage says whether it is run.
	seen int
}

// function names the function that the mutant is of.
func (m *mutant) function() string { return m.File + " " + m.Func }

// function is a function of a source file that has mutants.
type function struct {
	src  *source
	decl *ast.FuncDecl
	name string
}

// source is a parsed file.
type source struct {
	file string
	pkg  string
	text []byte
	fset *token.FileSet
	tree *ast.File
}

func parse(file string, text []byte) (*source, error) {
	s := &source{file: file, text: text, fset: token.NewFileSet()}
	var err error
	s.tree, err = parser.ParseFile(s.fset, file, text, parser.SkipObjectResolution)
	if err == nil {
		s.pkg = s.tree.Name.Name
	}
	return s, err
}

func (s *source) at(p token.Pos) int { return s.fset.Position(p).Offset }

func (s *source) of(n ast.Node) string { return string(s.text[s.at(n.Pos()):s.at(n.End())]) }

// Names that the mutated program has besides its own.
const (
	never = "mutantNever" // a variable that is false
	zero  = "mutantZero"  // gives the zero value of what it is given
	drop  = "mutantDrop"  // takes an error and gives none
)

// mutants are those of the functions of a file, in the order of the text.
func (s *source) mutants() []*mutant {
	var all []*mutant
	for _, d := range s.tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || f.Recv == nil && (f.Name.Name == "init" || f.Name.Name == "main") {
			continue
		}
		fn := &function{src: s, decl: f, name: nameOf(s, f)}
		c := &collector{fn: fn, src: s, results: [][]string{resultsOf(f.Type)}}
		c.block(f.Body.List)
		all = append(all, c.all...)
	}
	count := map[string]int{}
	for _, m := range all {
		count[m.Key]++
		if n := count[m.Key]; n > 1 {
			m.Key += " #" + strconv.Itoa(n)
		}
		sum := sha256.Sum256([]byte(m.decl.mutated(m, m.decl.decl.Name.Name)))
		m.Sum = hex.EncodeToString(sum[:8])
	}
	return all
}

func nameOf(s *source, f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	t := s.of(f.Recv.List[0].Type)
	if strings.HasPrefix(t, "*") {
		t = "(" + t + ")"
	}
	return t + "." + f.Name.Name
}

// resultsOf are the types of a function's results, one for each.
func resultsOf(t *ast.FuncType) []string {
	var all []string
	if t.Results == nil {
		return nil
	}
	for _, f := range t.Results.List {
		name := ""
		if id, ok := f.Type.(*ast.Ident); ok {
			name = id.Name
		}
		for range max(1, len(f.Names)) {
			all = append(all, name)
		}
	}
	return all
}

// collector walks a function and collects its mutants.
type collector struct {
	fn  *function
	src *source
	all []*mutant
	// results are those of the functions around, innermost last.
	results [][]string
	// guard is set within a statement that an error alone leads to.
	guard bool
	seen  token.Pos // where coverage is asked for; none for the mutant's own place
}

// add adds the mutant that has a text in the place of a node.
func (c *collector) add(n ast.Node, with string) { c.replace(n.Pos(), n.End(), with) }

func (c *collector) replace(from, to token.Pos, with string) {
	seen := from
	if c.seen.IsValid() {
		seen = c.seen
	}
	old := string(c.src.text[c.src.at(from):c.src.at(to)])
	c.all = append(c.all, &mutant{
		Key:  fmt.Sprintf("%s %s: `%s` -> `%s`", c.src.file, c.fn.name, oneLine(old), oneLine(with)),
		File: c.src.file, Func: c.fn.name, Line: c.src.fset.Position(from).Line,
		decl: c.fn, from: c.src.at(from), to: c.src.at(to), with: with, seen: c.src.at(seen),
	})
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func (c *collector) block(list []ast.Stmt) {
	for _, s := range list {
		c.stmt(s)
	}
}

// mutated is the text of the function with the mistake in it, under another name.
func (f *function) mutated(m *mutant, name string) string {
	s := f.src
	begin, end := s.at(f.decl.Pos()), s.at(f.decl.End())
	nameFrom, nameTo := s.at(f.decl.Name.Pos()), s.at(f.decl.Name.End())
	var b strings.Builder
	b.Write(s.text[begin:nameFrom])
	b.WriteString(name)
	b.Write(s.text[nameTo:m.from])
	b.WriteString(m.with)
	b.Write(s.text[m.to:end])
	return b.String()
}

// diff shows what the mutant changes.
func (m *mutant) diff() string {
	s := m.decl.src
	begin := bytes.LastIndexByte(s.text[:m.from], '\n') + 1
	end := m.to
	if i := bytes.IndexByte(s.text[m.to:], '\n'); i >= 0 {
		end += i
	}
	was := strings.TrimSpace(string(s.text[begin:end]))
	is := strings.TrimSpace(string(s.text[begin:m.from]) + m.with + string(s.text[m.to:end]))
	if text, err := format.Source([]byte(is)); err == nil {
		is = string(text)
	}
	return "- " + strings.ReplaceAll(was, "\n", "\n- ") + "\n+ " + strings.ReplaceAll(is, "\n", "\n+ ")
}
