package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/schema"
)

func (a *app) schemaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "schema [NAME]", Short: "print the schema of designs", Args: atMost(1),
		Long: "Prints the definitions that a site is written against, with their comments; with a name\n" +
			"only that definition, or that field at the top of a site. They are the definitions of\n" +
			"this program, which check uses for every site.\n" + exitHelp,
		Example: "  slipway schema Network\n  slipway schema nodes\n  slipway schema vendor my-site",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.printSchema(design.Definitions())
			}
			d, err := definition(args[0])
			if err != nil {
				return err
			}
			return a.printSchema([]design.Definition{d})
		},
	}
	cmd.AddCommand(a.vendorCommand())
	return cmd
}

// definition is the one of a name, with or without "#", or the one that a field
// at the top of a site holds.
func definition(name string) (design.Definition, error) {
	want := "#" + strings.TrimPrefix(name, "#")
	var names []string
	for _, s := range design.Sections() {
		if s.Name == name {
			want = s.Definition
		}
		names = append(names, s.Name)
	}
	for _, d := range design.Definitions() {
		if d.Name == want {
			return d, nil
		}
		names = append(names, strings.TrimPrefix(d.Name, "#"))
	}
	return design.Definition{}, fmt.Errorf("the schema has no definition %q%s (slipway schema prints them all)", name, rule.DidYouMean(name, names))
}

func (a *app) printSchema(all []design.Definition) error {
	if a.output == "json" {
		return a.out.JSON(all)
	}
	dim := paint(a.out, text.Faint)
	for i, d := range all {
		if i > 0 {
			a.out.Println()
		}
		for line := range strings.Lines(d.Text) {
			line = strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(strings.TrimSpace(line), "//") {
				line = dim(line)
			}
			a.out.Lay(line + "\n")
		}
	}
	return nil
}

func (a *app) vendorCommand() *cobra.Command {
	return &cobra.Command{
		Use: "vendor [DIR]", Short: "write the schema where editors and cue vet look for it", Args: atMost(1),
		Long: "Writes the schema to cue.mod/pkg in the folder of a site, where the cue command and\n" +
			"editors find it. Slipway itself always uses the schema of its own program. Write it\n" +
			"again after an upgrade.\n" + exitHelp,
		Example: "  slipway schema vendor\n  slipway schema vendor my-site && cd my-site && cue vet ./...",
		RunE:    func(_ *cobra.Command, args []string) error { return a.vendor(folder(args)) },
	}
}

// vendored is what schema vendor prints as JSON.
type vendored struct {
	Dir string `json:"dir"`
	// Written are files that are new or other than before, Removed those that
	// the schema no longer has.
	Written []string `json:"written"`
	Removed []string `json:"removed"`
}

func (a *app) vendor(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "cue.mod")); err != nil {
		return fmt.Errorf("%s has no cue.mod, so it is not a site: name the folder that has one (slipway init makes a new site)", dir)
	}
	done, err := vendorSchema(filepath.Join(dir, "cue.mod", "pkg", filepath.FromSlash(schema.Path)))
	if err != nil {
		return err
	}
	if a.output == "json" {
		return a.out.JSON(done)
	}
	if len(done.Written)+len(done.Removed) == 0 {
		a.out.Printf("%s is current\n", done.Dir)
		return nil
	}
	a.out.Printf("%s: %s written", done.Dir, say.Count(len(done.Written), "file"))
	if len(done.Removed) > 0 {
		a.out.Printf(", %d removed", len(done.Removed))
	}
	a.out.Println()
	return nil
}

// vendorSchema makes a folder hold the CUE files of the schema and no others.
func vendorSchema(dir string) (vendored, error) {
	done := vendored{Dir: dir, Written: []string{}, Removed: []string{}}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return done, err
	}
	names, err := fs.Glob(schema.Files, "*.cue")
	if err != nil {
		return done, err
	}
	ours := map[string]bool{}
	for _, name := range names {
		ours[name] = true
		want, err := fs.ReadFile(schema.Files, name)
		if err != nil {
			return done, err
		}
		file := filepath.Join(dir, name)
		if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, want) {
			continue
		}
		if err := replaceFile(file, want, 0o644); err != nil {
			return done, err
		}
		done.Written = append(done.Written, name)
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		return done, err
	}
	for _, d := range there {
		if name := d.Name(); path.Ext(name) == ".cue" && !ours[name] {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return done, err
			}
			done.Removed = append(done.Removed, name)
		}
	}
	return done, nil
}

// schemaHead is the beginning of docs/schema.md.
const schemaHead = `# Schema

This page lists what a design may contain: every definition with all of its fields. ` + "`slipway schema NAME`" + ` prints one in CUE. How the
parts work together is in [the model](model.md), what is checked beyond types in [the rules](rules.md).

*Read by* says what uses a field: a rule that checks it, a facet of a machine that it becomes a part of, the engine, or only people.
` + "`NAME`" + ` in a path stands for any key of a map. **Required** fields must be there; fields of layers must be there after all layers are
merged.

This page is made from the schema by ` + "`go test ./cmd/slipway -run TestSchemaPage -update`" + `.

## A site

| field | holds |
|---|---|
`

// schemaMarkdown is docs/schema.md.
func schemaMarkdown() string {
	var b strings.Builder
	b.WriteString(schemaHead)
	for _, s := range design.Sections() {
		holds := linked(s.Definition)
		if s.Many {
			holds += ", by name"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", s.Name, holds)
	}
	for _, d := range design.Definitions() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", d.Name, d.Doc)
		if len(d.Embeds) > 0 {
			fmt.Fprintf(&b, "\nIt has the fields of %s too.\n", linked(strings.Join(d.Embeds, " and ")))
		}
		if len(d.Fields) == 0 {
			fmt.Fprintf(&b, "\n```cue\n%s```\n", withoutDoc(d.Text))
			continue
		}
		b.WriteString("\n| field | type | meaning | read by |\n|---|---|---|---|\n")
		for _, f := range d.Fields {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Path, typeCell(f), cell(f.Doc), readersCell(f.Readers))
		}
	}
	return b.String()
}

// typeCell says what fits a field, and what it is where nothing is said.
func typeCell(f design.Field) string {
	said := linked(cell(f.Type))
	if f.Required {
		said += ", **required**"
	}
	if f.Default != "" {
		said += "; `" + strings.ReplaceAll(f.Default, "|", `\|`) + "` without it"
	}
	return said
}

func readersCell(readers []string) string {
	var all []string
	for _, r := range readers {
		if code, isRule := strings.CutPrefix(r, "rule "); isRule {
			r = fmt.Sprintf("[%s](rules.md#%s)", code, code)
		}
		all = append(all, r)
	}
	return strings.Join(all, ", ")
}

// cell is a text as a cell of a table has it.
func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}

// linked is a text in which each definition's name leads to it.
func linked(s string) string {
	words := strings.Split(s, " ")
	for i, w := range words {
		if name, ok := strings.CutPrefix(w, "#"); ok {
			words[i] = fmt.Sprintf("[%s](#%s)", w, strings.ToLower(name))
		}
	}
	return strings.Join(words, " ")
}

// withoutDoc is CUE without the comment above it.
func withoutDoc(text string) string {
	for strings.HasPrefix(text, "//") {
		_, text, _ = strings.Cut(text, "\n")
	}
	return text
}
