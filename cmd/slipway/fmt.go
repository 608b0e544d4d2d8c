package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/site"
)

func (a *app) fmtCommand() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "fmt [PATH…]", Short: "format CUE files in place, as cue fmt does",
		Long: "Formats CUE files, and those in folders and below, as cue fmt does, and names those that\n" +
			"it changed. It leaves alone packages of others (cue.mod/pkg), hidden files, and files\n" +
			"that cannot be read as CUE; it says why.\n" + exitHelp,
		Example: "  slipway fmt\n  slipway fmt --check site-example",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			return a.format(cmd.Context(), args, check)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "change nothing; name the files that are not formatted, and exit 2 when there are any")
	return cmd
}

// formatted is what fmt prints as JSON.
type formatted struct {
	// Files are those that were changed or, with --check, would be.
	Files    []string       `json:"files"`
	Findings []site.Finding `json:"findings"`
}

func (a *app) format(ctx context.Context, paths []string, check bool) error {
	e, err := newEvaluator(nil)
	if err != nil {
		return err
	}
	defer e.Close()
	done := formatted{Files: []string{}, Findings: []site.Finding{}}
	for _, p := range paths {
		names, err := cueFilesAt(p)
		if err != nil {
			return err
		}
		for _, name := range names {
			changed, findings, err := formatFile(ctx, e, name, check)
			if err != nil {
				return err
			}
			done.Findings = append(done.Findings, findings...)
			if changed {
				done.Files = append(done.Files, name)
			}
		}
	}
	return a.printFormatted(done, check)
}

func (a *app) printFormatted(done formatted, check bool) error {
	if a.output == "json" {
		if err := a.out.JSON(done); err != nil {
			return err
		}
	} else {
		for _, name := range done.Files {
			a.out.Println(name)
		}
		printFindings(a.err, here{}, done.Findings)
	}
	switch {
	case len(done.Findings) > 0:
		return errFindings
	case check && len(done.Files) > 0:
		return errChanges
	}
	return nil
}

// cueFilesAt lists the CUE files of a site below a folder, or the one file that
// a path names.
func cueFilesAt(path string) ([]string, error) {
	switch info, err := os.Stat(path); {
	case err != nil:
		return nil, fmt.Errorf("%s: there is no such file or folder", path)
	case !info.IsDir() && (!info.Mode().IsRegular() || filepath.Ext(path) != ".cue"):
		return nil, fmt.Errorf("%s is not a CUE file: name folders, or files that end in .cue", path)
	}
	if whole, err := filepath.Abs(path); err != nil || ofOthers.MatchString(filepath.ToSlash(whole)) {
		return nil, fmt.Errorf("%s is a copy of somebody else's package and stays unchanged: name a folder of the site", path)
	}
	var names []string
	err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == path && !d.IsDir():
			names = append(names, name)
		case name != path && notOurs(name) && d.IsDir():
			return fs.SkipDir
		case d.Type().IsRegular() && filepath.Ext(name) == ".cue" && !notOurs(name):
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// ofOthers is a path in a module's copies of packages of others.
var ofOthers = regexp.MustCompile(`/cue\.mod/(pkg|usr|gen)(/|$)`)

// notOurs says whether a file or folder is hidden, as CUE has it, or one of
// cue.mod's packages of others.
func notOurs(name string) bool {
	base := filepath.Base(name)
	return strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") ||
		filepath.Base(filepath.Dir(name)) == "cue.mod" && filepath.Ext(name) != ".cue"
}

// formatFile formats a file in place, and says whether that changes it.
func formatFile(ctx context.Context, e *design.Evaluator, name string, check bool) (bool, []site.Finding, error) {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return false, nil, err
	}
	text, mode, err := readBounded(name)
	if err != nil {
		return false, nil, err
	}
	want, findings, err := e.Format(ctx, name, text)
	if err != nil || len(findings) > 0 || bytes.Equal(want, text) {
		return false, findings, err
	}
	if check {
		return true, nil, nil
	}
	return true, nil, replaceFile(name, want, mode)
}
