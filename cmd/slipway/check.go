package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sources/dir"
)

func (a *app) checkCommand() *cobra.Command {
	var name string
	var watch bool
	cmd := &cobra.Command{
		Use: "check [DIR]", Short: "say what is wrong with a design", Args: atMost(1),
		Long:    "Evaluates the design in a folder and says what is wrong with it, with the place\nof each mistake. Touches no machine and needs no daemon.\n" + exitHelp,
		Example: "  slipway check site-example\n  slipway check --watch .",
		RunE: func(cmd *cobra.Command, args []string) error {
			if watch {
				return a.watchDesign(cmd.Context(), folder(args), name)
			}
			return a.check(cmd.Context(), folder(args), name)
		},
	}
	cmd.Flags().StringVar(&name, "site", "", "the site's name, when the repository has several")
	cmd.Flags().BoolVar(&watch, "watch", false, "check again after every change")
	return cmd
}

// checked is what check prints as JSON.
type checked struct {
	Site     string         `json:"site"`
	Nodes    int            `json:"nodes"`
	Findings []site.Finding `json:"findings"`
}

func (a *app) check(ctx context.Context, path, name string) error {
	rev, r, err := evaluateDir(ctx, path, name)
	if err != nil {
		return err
	}
	c := checked{Site: name, Findings: r.Findings}
	if c.Findings == nil {
		c.Findings = []site.Finding{}
	}
	if r.Site != nil {
		c.Site, c.Nodes = r.Site.Name, len(r.Site.Nodes)
	}
	if a.output == "json" {
		err = printJSON(a.out, c)
	} else {
		printFindings(a.out, rev.Files, c.Findings)
		fmt.Fprintln(a.out, verdict(c))
	}
	if err == nil && site.HasErrors(r.Findings) {
		err = errFindings
	}
	return err
}

// watchDesign checks after every change until it is interrupted.
func (a *app) watchDesign(ctx context.Context, path, name string) error {
	if _, err := readDir(ctx, path); err != nil {
		return err
	}
	changes := dir.New(path, slog.New(slog.DiscardHandler)).Changes(ctx)
	for {
		if err := a.check(ctx, path, name); err != nil && err != errFindings {
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

// printFindings writes findings as a good compiler does.
func printFindings(w io.Writer, files fs.FS, findings []site.Finding) {
	bold, dim := paint(w, text.Bold), paint(w, text.Faint)
	for _, f := range findings {
		place := ""
		if p := f.Place(); p != "" {
			place = bold(p) + ": "
		}
		fmt.Fprintf(w, "%s%s: %s %s\n", place, severity(w, f.Severity), f.Message, dim("["+f.Code+"]"))
		printLine(w, excerpt(files, f), f.Col)
		if f.Why != "" {
			fmt.Fprintf(w, "    why: %s\n", f.Why)
		}
		if f.Fix != "" {
			fmt.Fprintf(w, "    do:  %s\n", f.Fix)
		}
		for _, r := range f.Related {
			fmt.Fprintf(w, "    see: %s\n", r)
		}
		fmt.Fprintln(w)
	}
}

// refuse says why a command does nothing with a broken design.
func (a *app) refuse(files fs.FS, r design.Result) error {
	printFindings(a.err, files, r.Findings)
	fmt.Fprintln(a.err, verdict(checked{Findings: r.Findings}))
	return errFindings
}

func severity(w io.Writer, s site.Severity) string {
	switch s {
	case site.SeverityError:
		return paint(w, text.FgRed, text.Bold)("error")
	case site.SeverityWarning:
		return paint(w, text.FgYellow)("warning")
	}
	return string(s)
}

// maxExcerpt is how much of a line is shown, in columns; what stands before a
// mistake is shown for half of it at most.
const maxExcerpt = 120

// printLine shows a line of source, or the part of a long one around a column
// counted in bytes from 1, and points at it.
func printLine(w io.Writer, line []byte, col int) {
	col = min(max(col-1, 0), len(line))
	before, after := []rune(expand(string(line[:col]))), []rune(expand(string(line[col:])))
	if len(strings.TrimSpace(string(before)+string(after))) == 0 {
		return
	}
	if len(before)+len(after) > maxExcerpt && len(before) > maxExcerpt/2 {
		before = append([]rune("…"), before[len(before)-maxExcerpt/2:]...)
	}
	if room := maxExcerpt - len(before); len(after) > room {
		after = append(after[:room:room], '…')
	}
	fmt.Fprintf(w, "    %s%s\n    %s%s\n", string(before), string(after), strings.Repeat(" ", len(before)), paint(w, text.FgGreen)("^"))
}

// expand makes tabs two spaces and drops what a terminal would obey.
func expand(line string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ReplaceAll(line, "\t", "  "))
}

func verdict(c checked) string {
	counts := map[site.Severity]int{}
	for _, f := range c.Findings {
		counts[f.Severity]++
	}
	said := "no findings"
	if len(c.Findings) > 0 {
		var parts []string
		for _, s := range []site.Severity{site.SeverityError, site.SeverityWarning, site.SeverityNote} {
			if n := counts[s]; n > 0 {
				parts = append(parts, plural(n, string(s)))
			}
		}
		said = strings.Join(parts, ", ")
	}
	if c.Nodes == 0 {
		return said
	}
	return fmt.Sprintf("%s of site %s checked, %s", plural(c.Nodes, "node"), c.Site, said)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
