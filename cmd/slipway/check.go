package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
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
		Long: "Evaluates the design in a folder and says what is wrong with it, with the place of each\n" +
			"mistake: in all sites of the repository, or in the one that --site names. Touches no\n" +
			"machine and needs no daemon. Where a daemon runs for the site, new virtual machines are\n" +
			"placed beside those that it has. --output sarif is for code scanning, --output github\n" +
			"for workflows of GitHub Actions.\n" + exitHelp,
		Example:     "  slipway check site-example\n  slipway check --watch .\n  slipway check --output sarif > slipway.sarif",
		Annotations: map[string]string{outputs: "text json sarif github"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if watch {
				return a.watchDesign(cmd.Context(), folder(args), name, state)
			}
			return a.check(cmd.Context(), folder(args), name, state)
		},
	}
	cmd.Flags().StringVar(&name, "site", "", "only this site of the repository")
	cmd.Flags().BoolVar(&watch, "watch", false, "check again after every change")
	addState(cmd, &state)
	return cmd
}

// checked is what check prints of a site as JSON.
type checked struct {
	Site     string         `json:"site"`
	Nodes    int            `json:"nodes"`
	Findings []site.Finding `json:"findings"`
	// Suppressed are those that the site's suppressions silence.
	Suppressed []site.Finding `json:"suppressed,omitempty"`
	// Drivers say which nodes each driver concerns, as far as the design knows it.
	Drivers []site.DriverNodes `json:"drivers,omitempty"`
}

// check checks the named site, or all sites of the repository.
func (a *app) check(ctx context.Context, path, name, state string) error {
	if err := checkHelpers(helperFolder()); err != nil {
		return err
	}
	path, name = located(path, name)
	rev, err := readDir(ctx, path)
	if err != nil {
		return err
	}
	names := []string{name}
	if name == "" {
		if names, err = design.Sites(rev.Files); err != nil {
			return fmt.Errorf("find the sites in %s: %w", path, err)
		}
	}
	if len(names) == 0 {
		names = []string{""} // a finding says why
	}
	e, err := newEvaluator(nil)
	if err != nil {
		return err
	}
	defer e.Close()
	var all []checked
	for _, name := range names {
		r, err := e.Evaluate(ctx, rev.Files, name)
		if err != nil {
			return fmt.Errorf("evaluate %s: %w", path, err)
		}
		place(&r, a.placedBy(ctx, state, r.Site))
		c := checked{Site: name, Findings: r.Findings, Suppressed: r.Suppressed}
		if c.Findings == nil {
			c.Findings = []site.Finding{}
		}
		if r.Site != nil {
			c.Site, c.Nodes = r.Site.Name, len(r.Site.Nodes)
			acts := serves(drivers(helpers()), true)
			c.Findings = slices.Concat(c.Findings, design.IdleNeeds(r.Site, acts), design.NotActedOn(r.Site, acts), design.UnseenHealth(r.Site, acts))
			site.SortFindings(c.Findings)
			c.Drivers = r.Site.DriversOfNodes()
		}
		all = append(all, c)
	}
	if err := a.printChecked(path, rev.Files, all); err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(c checked) bool { return site.HasErrors(c.Findings) }) {
		return errFindings
	}
	return nil
}

// printChecked prints what was found in one site or several. What is wrong with a
// file that they share is printed once.
func (a *app) printChecked(path string, files fs.FS, all []checked) error {
	switch a.output {
	case "json":
		if len(all) > 1 {
			return a.out.JSON(all)
		}
		return a.out.JSON(all[0])
	case "sarif":
		var findings, suppressed []site.Finding
		for _, c := range once(all) {
			findings, suppressed = append(findings, c.Findings...), append(suppressed, c.Suppressed...)
		}
		return printSARIF(a.out, newSources(files), inRepository(path), findings, suppressed)
	case "github":
		for i, c := range once(all) {
			printAnnotations(a.out, newSources(files), inRepository(path), c.Findings)
			a.out.Println(verdict(all[i]))
		}
	default:
		for i, c := range once(all) {
			printFindings(a.out, files, c.Findings)
			if len(all) > 1 && c.Nodes == 0 {
				a.out.Printf("site %s: ", c.Site)
			}
			for _, d := range c.Drivers {
				a.out.Println(d.String())
			}
			printSummary(a.out, all[i])
		}
		printLeftOut(a.out, files)
	}
	return nil
}

// once leaves out of each site's findings those that a site before it has, too.
func once(all []checked) []checked {
	said := map[string]bool{}
	again := func(f site.Finding) bool {
		key := fmt.Sprint(f.Code, f.File, f.Line, f.Col, f.Message)
		known := said[key]
		said[key] = true
		return known
	}
	left := slices.Clone(all)
	for i, c := range all {
		left[i].Findings = slices.DeleteFunc(slices.Clone(c.Findings), again)
	}
	return left
}

// printLeftOut names the folders under sites/ that hold a design nobody reads.
func printLeftOut(w *screen, files fs.FS) {
	unread, err := design.Unread(files)
	if err != nil {
		w.Println("not read:", err)
	}
	for _, name := range unread {
		w.Printf("not read: %s: a name that begins with _ or . is not a site\n", name)
	}
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
	path, name = located(path, name)
	if _, err := readDir(ctx, path); err != nil {
		return err
	}
	changes := dir.New(path, slog.New(slog.DiscardHandler)).Changes(ctx)
	for {
		if err := a.check(ctx, path, name, state); err != nil && err != errFindings {
			a.err.Println("slipway:", err)
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
			a.out.Printf("── %s ──\n", time.Now().Format("15:04:05"))
		}
	}
}

// refuse says why a command does nothing with a broken design.
func (a *app) refuse(files fs.FS, r design.Result) error {
	printFindings(a.err, files, r.Findings)
	printSummary(a.err, checked{Findings: r.Findings})
	return errFindings
}
