package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sources/dir"
)

func (a *app) checkCommand() *cobra.Command {
	var name, state string
	var watch bool
	cmd := &cobra.Command{
		Use: "check [DIR]", Short: "say what is wrong with a design", Args: atMost(1),
		Long: "Evaluates the design in a folder and says what is wrong with it, with the place\n" +
			"of each mistake. Touches no machine and needs no daemon; where one runs that keeps the\n" +
			"site, new virtual machines are placed beside those that it has. --output sarif is for\n" +
			"code scanning, --output github for workflows of GitHub Actions.\n" + exitHelp,
		Example:     "  slipway check site-example\n  slipway check --watch .\n  slipway check --output sarif > slipway.sarif",
		Annotations: map[string]string{outputs: "text json sarif github"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if watch {
				return a.watchDesign(cmd.Context(), folder(args), name, state)
			}
			return a.check(cmd.Context(), folder(args), name, state)
		},
	}
	cmd.Flags().StringVar(&name, "site", "", "the site's name, when the repository has several")
	cmd.Flags().BoolVar(&watch, "watch", false, "check again after every change")
	addState(cmd, &state)
	return cmd
}

// checked is what check prints as JSON.
type checked struct {
	Site     string         `json:"site"`
	Nodes    int            `json:"nodes"`
	Findings []site.Finding `json:"findings"`
	// Suppressed are those that the site's suppressions silence.
	Suppressed []site.Finding `json:"suppressed,omitempty"`
}

func (a *app) check(ctx context.Context, path, name, state string) error {
	rev, r, err := evaluateDir(ctx, path, name)
	if err != nil {
		return err
	}
	place(&r, a.placedBy(state, r.Site))
	c := checked{Site: name, Findings: r.Findings, Suppressed: r.Suppressed}
	if c.Findings == nil {
		c.Findings = []site.Finding{}
	}
	if r.Site != nil {
		c.Site, c.Nodes = r.Site.Name, len(r.Site.Nodes)
	}
	err = a.printChecked(path, rev.Files, c)
	if err == nil && site.HasErrors(r.Findings) {
		err = errFindings
	}
	return err
}

func (a *app) printChecked(path string, files fs.FS, c checked) error {
	switch a.output {
	case "json":
		return printJSON(a.out, c)
	case "sarif":
		return printSARIF(a.out, newSources(files), inRepository(path), c.Findings, c.Suppressed)
	case "github":
		printAnnotations(a.out, newSources(files), inRepository(path), c.Findings)
		fmt.Fprintln(a.out, verdict(c))
	default:
		printFindings(a.out, files, c.Findings)
		printSummary(a.out, c)
	}
	return nil
}

// inRepository is where a folder is in the Git repository around it; the root
// where there is none.
func inRepository(folder string) string {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "."
	}
	for root := folder; ; root = filepath.Dir(root) {
		if _, err := os.Lstat(filepath.Join(root, ".git")); err == nil {
			below, _ := filepath.Rel(root, folder) // a folder and one that holds it
			return filepath.ToSlash(below)
		}
		if root == filepath.Dir(root) {
			return "."
		}
	}
}

// watchDesign checks after every change until it is interrupted.
func (a *app) watchDesign(ctx context.Context, path, name, state string) error {
	if _, err := readDir(ctx, path); err != nil {
		return err
	}
	changes := dir.New(path, slog.New(slog.DiscardHandler)).Changes(ctx)
	for {
		if err := a.check(ctx, path, name, state); err != nil && err != errFindings {
			fmt.Fprintln(a.err, "slipway:", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-changes:
			if !ok {
				return nil
			}
		}
		if a.output == "text" {
			fmt.Fprintf(a.out, "── %s ──\n", time.Now().Format("15:04:05"))
		}
	}
}

// refuse says why a command does nothing with a broken design.
func (a *app) refuse(files fs.FS, r design.Result) error {
	printFindings(a.err, files, r.Findings)
	printSummary(a.err, checked{Findings: r.Findings})
	return errFindings
}
