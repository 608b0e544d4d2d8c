package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	termtext "github.com/jedib0t/go-pretty/v6/text"
	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

func (a *app) migrateCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "migrate [DIR]", Short: "upgrade a site to the current schema", Args: atMost(1),
		Long: "Upgrades the CUE files of a repository from the previous version of the schema to the\n" +
			"current one, keeps comments and layout, and says what it changed. Where it cannot know\n" +
			"what you mean it says so, and changes nothing. It leaves alone what has the current\n" +
			"version already.\n" + exitHelp,
		Example: "  slipway migrate --check\n  slipway migrate my-site",
		RunE:    func(cmd *cobra.Command, args []string) error { return a.migrate(cmd.Context(), folder(args), check) },
	}
	cmd.Flags().BoolVar(&check, "check", false, "change nothing; show the difference, and exit 2 when there is any")
	return cmd
}

// migrated is what migrate prints as JSON.
type migrated struct {
	Schema   string          `json:"schema"`
	Files    []string        `json:"files"`
	Changes  []design.Change `json:"changes"`
	Findings []site.Finding  `json:"findings"`
}

func (a *app) migrate(ctx context.Context, dir string, check bool) error {
	rev, err := readDir(ctx, dir)
	if err != nil {
		return err
	}
	e, err := newEvaluator(nil)
	if err != nil {
		return err
	}
	defer e.Close()
	m, err := e.Migrate(ctx, rev.Files)
	if err != nil {
		return fmt.Errorf("migrate %s: %w", dir, err)
	}
	if !check {
		if err := writeMigrated(dir, m.Files); err != nil {
			return err
		}
	}
	if err := a.printMigrated(rev.Files, m, check); err != nil {
		return err
	}
	switch {
	case len(m.Findings) > 0:
		return errFindings
	case check && len(m.Files) > 0:
		return errChanges
	}
	return nil
}

// writeMigrated writes the files in their order: see design.Migration.
func writeMigrated(dir string, files []design.Rewritten) error {
	for _, f := range files {
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		info, err := os.Stat(name)
		if err == nil {
			err = replaceFile(name, f.Text, info.Mode())
		}
		if err != nil {
			return fmt.Errorf("%w (run migrate again to finish)", err)
		}
	}
	return nil
}

func (a *app) printMigrated(before fs.FS, m design.Migration, check bool) error {
	if a.output == "json" {
		done := migrated{Schema: site.SchemaVersion, Files: []string{}, Changes: append([]design.Change{}, m.Changes...), Findings: append([]site.Finding{}, m.Findings...)}
		for _, f := range m.Files {
			done.Files = append(done.Files, f.Name)
		}
		return a.out.JSON(done)
	}
	switch {
	case len(m.Findings) > 0:
		printFindings(a.err, before, m.Findings)
		a.err.Printf("%s for a person to do first; nothing was changed\n", say.Count(len(m.Findings), "thing"))
	case len(m.Files) == 0:
		a.out.Printf("nothing to do: this is written for the schema %s\n", site.SchemaVersion)
	case check:
		return a.printRewriting(before, m.Files)
	default:
		for _, c := range m.Changes {
			a.out.Println(changeLine(c))
		}
		a.out.Printf("\n%s written for the schema %s; run slipway check next\n", say.Count(len(m.Files), "file"), site.SchemaVersion)
	}
	return nil
}

// changeLine says what became of a place.
func changeLine(c design.Change) string {
	have := c.Have
	if have == "" {
		have = "(new)"
	}
	return fmt.Sprintf("%s:%d: %s → %s", c.File, c.Line, have, c.Want)
}

// printRewriting shows what files become, as diff -u does.
func (a *app) printRewriting(before fs.FS, files []design.Rewritten) error {
	for _, f := range files {
		old, err := fs.ReadFile(before, f.Name)
		if err != nil {
			return err
		}
		text := diff.Diff(path.Join("a", f.Name), old, path.Join("b", f.Name), f.Text)
		if a.out.Terminal() {
			a.paintDiff(string(text))
		} else if _, err := a.out.Data().Write(text); err != nil { // for patch
			return err
		}
	}
	return nil
}

func (a *app) paintDiff(text string) {
	colours := map[byte]func(string) string{'-': paint(a.out, termtext.FgRed), '+': paint(a.out, termtext.FgGreen)}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if colour := colours[(line + " ")[0]]; colour != nil {
			a.out.Println(colour(expand(line)))
		} else {
			a.out.Println(expand(line))
		}
	}
}
