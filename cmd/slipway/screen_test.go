package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// hostile is text that forges a line, erases the screen, turns text round and hides some of it.
const hostile = "up\n\x1b[2J\r\u202eok\u200b\u009b8m"

// shownHostile is hostile as people see it, in one line.
const shownHostile = `up \u001b[2J \u202eok\u200b\u009b8m`

type named struct{ name string }

func (n named) String() string { return n.name }

func TestScreenShowsWhatATerminalWouldObey(t *testing.T) {
	type name string
	rendered := func() laid {
		table := newTable("a", "b")
		table.AppendRow([]any{hostile, lines(hostile, "below")})
		return table.Render()
	}
	for what, c := range map[string]struct {
		write func(*screen)
		want  string
	}{
		"text":       {func(s *screen) { s.Printf("%s|%d\n", hostile, 7) }, shownHostile + "|7\n"},
		"named type": {func(s *screen) { s.Printf("%-1s\n", name(hostile)) }, shownHostile + "\n"},
		"error":      {func(s *screen) { s.Println(errors.New(hostile)) }, shownHostile + "\n"},
		"stringer":   {func(s *screen) { s.Println(named{hostile}, &named{hostile}) }, shownHostile + " " + shownHostile + "\n"},
		"list":       {func(s *screen) { s.Println([]string{hostile}) }, "[" + shownHostile + "]\n"},
		"bytes":      {func(s *screen) { s.Printf("%s\n", json.RawMessage(`"x"`)) }, "\"x\"\n"},
		"lines":      {func(s *screen) { s.Lay("one\n\ttwo \x1b]0;x\a\n") }, "one\n\ttwo \\u001b]0;x\\u0007\n"},
		"failure":    {func(s *screen) { s.Fail(errors.New("a\x1bc\nb")) }, "slipway: a\\u001bc\nb\n"},
		"forged key": {func(s *screen) { s.Println("\x1b[1;31mred\x1b[0m") }, `\u001b[1;31mred\u001b[0m` + "\n"},
		"table": {func(s *screen) { s.Println(rendered()) },
			" A" + strings.Repeat(" ", 36) + "B\n" +
				" up \\u001b[2J \\u202eok\\u200b\\u009b8m  up \\u001b[2J \\u202eok\\u200b\\u009b8m\n" +
				strings.Repeat(" ", 38) + "below\n"},
		"own colours": {func(s *screen) { s.Println(painted("red\x1b[8m", text.FgRed, text.Bold) + hostile) },
			"\x1b[31;1mred\\u001b[8m\x1b[0m" + shownHostile + "\n"},
		"own cursor": {func(s *screen) { s.Clear(); s.Restart("50 %" + hostile) }, "\x1b[H\x1b[2J\x1b[G\x1b[K50 %" + shownHostile},
	} {
		var b bytes.Buffer
		c.write(&screen{&b})
		if b.String() != c.want {
			t.Errorf("%s: got %q, want %q", what, b.String(), c.want)
		}
	}
}

// A terminal's table colours cells and wraps them; the layout does not count the sequences.
func TestColouredTables(t *testing.T) {
	grid := newTable("state", "why")
	grid.AppendRow([]any{painted("stalled", text.FgRed), "the BMC does not answer"})
	grid.AppendRow([]any{"in-sync", painted("a machine that is as the design says", text.FgGreen)})
	grid.SetColumnConfigs([]table.ColumnConfig{{Number: 2, WidthMax: 20, WidthMaxEnforcer: text.WrapSoft}})
	var b bytes.Buffer
	(&screen{&b}).Println(grid.Render())
	const want = " STATE    WHY\n" +
		" \x1b[31mstalled\x1b[0m  the BMC does not\n" +
		"          answer\n" +
		" in-sync  \x1b[32ma machine that is as\x1b[0m\n" +
		"          \x1b[32mthe design says\x1b[0m\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestScreenJSONIsPrintableAndTheSameValue(t *testing.T) {
	var b bytes.Buffer
	if err := (&screen{&b}).JSON(map[string]string{"reason": hostile}); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got["reason"] != hostile {
		t.Errorf("got %q, %v", got, err)
	}
	for _, r := range strings.ReplaceAll(b.String(), "\n", "") {
		if !unicode.IsPrint(r) {
			t.Errorf("%q has %U", b.String(), r)
		}
	}
}

func TestDataIsLeftAsItIs(t *testing.T) {
	var b bytes.Buffer
	if _, err := io.WriteString((&screen{&b}).Data(), hostile); err != nil || b.String() != hostile {
		t.Errorf("got %q, %v", b.String(), err)
	}
}

// Everything is written through a screen: no file uses the standard streams but to make one, only exports go out as they
// are, no file but the screen's own makes laid text, and no format comes from elsewhere.
func TestNothingIsWrittenPastTheScreen(t *testing.T) {
	allowed := map[string][]string{
		"os.Stdout": {"main.go", "editsecret.go", "ssh.go"},                                       // for the screen and for the worker's frames; a person's editor and ssh
		"os.Stderr": {"main.go", "editsecret.go", "ssh.go", "manysites.go"},                       // the process of a site has screens of its own
		".Data":     {"logs.go", "migrate.go", "racks.go", "render.go", "rollout.go", "state.go"}, // of racks and rollouts pictures
		".Whole":    {"status.go"},
		"screen{}":  {"main.go"},
		".to":       {"screen.go"},
		"laid()":    {"screen.go"},
		"format":    {"screen.go"},
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, use := range writes(f) {
			if !slices.Contains(allowed[use.what], file) {
				t.Errorf("%s: %s; write through a.out or a.err", fset.Position(use.at), use.what)
			}
		}
	}
}

type use struct {
	what string
	at   token.Pos
}

// writes are the ways of a file to write, or to have text taken as safe, other than a screen's methods.
func writes(f *ast.File) (all []use) {
	add := func(what string, at ast.Node) { all = append(all, use{what, at.Pos()}) }
	for _, i := range f.Imports {
		if i.Path.Value == `"log"` {
			add("import "+i.Path.Value, i)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.SelectorExpr:
			from, _ := x.X.(*ast.Ident)
			switch name := x.Sel.Name; {
			case from != nil && from.Name == "os" && (name == "Stdout" || name == "Stderr" || name == "NewFile"):
				add("os."+name, x)
			case from != nil && from.Name == "fmt" && strings.HasPrefix(name, "Print"):
				add("fmt."+name, x)
			case (name == "Data" || name == "Whole" || name == "to") && isStream(x.X):
				add("."+name, x)
			}
		case *ast.CompositeLit:
			if isNamed(x.Type, "screen") {
				add("screen{}", x)
			}
		case *ast.CallExpr:
			switch fun := x.Fun.(type) {
			case *ast.Ident:
				if fun.Name == "print" || fun.Name == "println" || fun.Name == "laid" {
					add(fun.Name+"()", x)
				}
			case *ast.SelectorExpr:
				if fun.Sel.Name == "Println" && slices.ContainsFunc(x.Args, hasLines) {
					add("Println of several lines", x) // of which a screen would make one
				}
				if fun.Sel.Name == "Printf" {
					if _, constant := x.Args[0].(*ast.BasicLit); !constant {
						add("format", x)
					}
				}
			}
		}
		return true
	})
	return all
}

// isStream says whether an expression may be a screen: a.out, a.err, w, p.w or s.
func isStream(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "w" || x.Name == "s"
	case *ast.SelectorExpr:
		return slices.Contains([]string{"out", "err", "w"}, x.Sel.Name)
	}
	return false
}

func isNamed(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}

func hasLines(x ast.Expr) bool {
	text, ok := x.(*ast.BasicLit)
	return ok && strings.Contains(text.Value, `\n`)
}

// No row of a table is padded to the length of the longest.
func TestTablesHaveNoTrailingSpaces(t *testing.T) {
	table := newTable("node", "reason")
	table.AppendRow([]any{"n1", strings.Repeat("long ", 100)})
	table.AppendRow([]any{"n2", "short"})
	for line := range strings.Lines(string(table.Render())) {
		if strings.HasSuffix(strings.TrimSuffix(line, "\n"), " ") {
			t.Errorf("padded: %q", line)
		}
	}
}
