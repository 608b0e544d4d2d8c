package install_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/install"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// computed are the programs of commands whose names are not written beside them, by function.
// A command that is in neither way known fails the test of the list.
var computed = map[string][]string{
	"boot.mount": {"mount", "umount"},
	"disk.mkfs":  {"mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "mkfs.vfat", "mkswap"},
}

// The list of programs that a ramdisk is built with is that of the programs that the code of an
// installation runs in memory. What runs in the new system is the image's own.
func TestProgramsAreListed(t *testing.T) {
	runs := map[string]bool{"chroot": true} // by inside.Host, for each program in the new system
	for _, folder := range []string{"../disk", "../boot", "../image", "."} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				if d, ok := d.(*ast.FuncDecl); ok {
					for _, name := range commands(d) {
						if name != "" {
							runs[name] = true
							continue
						}
						names, known := computed[f.Name.Name+"."+d.Name.Name]
						if !known {
							t.Errorf("%s: %s runs a program whose name this test does not know: add it to computed", file, d.Name.Name)
						}
						for _, n := range names {
							runs[n] = true
						}
					}
				}
			}
		}
	}
	for _, p := range wire.Programs {
		if !runs[p.Name] {
			t.Errorf("the list has %s, and no installation runs it", p.Name)
		}
		delete(runs, p.Name)
	}
	for name := range runs {
		t.Errorf("an installation runs %s, and the list of wire.Programs lacks it", name)
	}
}

// commands are the programs of a function that it runs outside of the new system; empty for one
// whose name is computed.
func commands(f *ast.FuncDecl) (names []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Exec" {
				if of, ok := s.X.(*ast.SelectorExpr); ok && of.Sel.Name == "target" {
					return false
				}
			}
		case *ast.CompositeLit:
			s, ok := n.Type.(*ast.SelectorExpr)
			if !ok || s.Sel.Name != "Command" {
				break
			}
			name := ""
			for _, e := range n.Elts {
				if e, ok := e.(*ast.KeyValueExpr); ok && e.Key.(*ast.Ident).Name == "Path" {
					if text, ok := e.Value.(*ast.BasicLit); ok {
						name, _ = strconv.Unquote(text.Value)
					}
				}
			}
			names = append(names, name)
		}
		return true
	})
	return names
}

// A program that the system in memory lacks is brought, after the machine was found to be the
// right one and before anything is written.
func TestProgramsAreBrought(t *testing.T) {
	for name, c := range map[string]struct {
		brings func(m *machine) error
		wrong  func(r *wire.Request)
		asked  bool
		says   string
	}{
		"brought": {func(m *machine) error { m.put("usr/sbin/mkfs.ext4", "#!/bin/sh\n", 0o755); return nil }, nil, true, "is not a block device; nothing was written"},
		"not all": {func(m *machine) error { return nil }, nil, true, "lacks mkfs.ext4, which the design of the disks needs"},
		"no medium": {func(m *machine) error {
			return &wire.Error{Class: wire.Refused, Text: "no medium; nothing was written"}
		}, nil, true, "no medium; nothing was written"},
		"another machine": {func(m *machine) error { return errors.New("asked for") }, func(r *wire.Request) { r.Install.Serial = "OTHER" }, false, "it is another machine"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			r := m.approved("S1")
			if c.wrong != nil {
				c.wrong(&r)
			}
			if err := os.Remove(filepath.Join(m.root, "usr/sbin/mkfs.ext4")); err != nil {
				t.Fatal(err)
			}
			asked := false
			m.programs = func(context.Context, *inside.Host) error { asked = true; return c.brings(m) }
			_, got := m.ask(r)
			if got.Error == nil || !strings.Contains(got.Error.Text, c.says) || asked != c.asked || len(m.ran) > 0 {
				t.Errorf("got %+v, asked %v, ran %q", got.Error, asked, m.ran)
			}
		})
	}
	m := newMachine(t) // where all are there nothing is asked for
	m.programs = func(context.Context, *inside.Host) error { return errors.New("asked for") }
	if _, got := m.ask(m.approved("S1")); got.Error == nil || !strings.Contains(got.Error.Text, "is not a block device") {
		t.Errorf("got %+v", got.Error)
	}
}

// How much memory is free is read of the kernel; what cannot be read is not known.
func TestAvailable(t *testing.T) {
	m := newMachine(t)
	if is := install.Available(m.host()); is != 0 {
		t.Errorf("without the kernel's answer: %d", is)
	}
	m.put("proc/meminfo", fmt.Sprintf("MemTotal: 4000 kB\nMemAvailable:   %d kB\n", 3000), 0o644)
	if is := install.Available(m.host()); is != 3000<<10 {
		t.Errorf("got %d", is)
	}
}
