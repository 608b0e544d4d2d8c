package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

func (a *app) diffCommand() *cobra.Command {
	var name string
	var detailed bool
	cmd := &cobra.Command{
		Use: "diff A B", Short: "show how two effective designs differ", Args: exactly(2),
		Long: "Says which values of which nodes differ between two designs once every layer is merged,\n" +
			"and which line causes each difference. A and B are folders, or commits of the repository\n" +
			"that the current folder is in (by branch, tag or id; the git program resolves them).\n" +
			"Touches no machine and needs no daemon.\n" + exitHelp,
		Example: "  slipway diff main .\n  slipway diff --detailed-exitcode HEAD~1 HEAD",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.diff(cmd.Context(), name, args[0], args[1], detailed)
		},
	}
	cmd.Flags().StringVar(&name, "site", "", "the site's name, when the repository has several")
	cmd.Flags().BoolVar(&detailed, "detailed-exitcode", false, "exit 0 when nothing differs, 2 when something does")
	return cmd
}

func (a *app) diff(ctx context.Context, siteName, from, to string, detailed bool) error {
	e, err := newEvaluator(nil)
	if err != nil {
		return err
	}
	defer e.Close()
	have, err := a.effective(ctx, e, siteName, from)
	if err != nil {
		return err
	}
	want, err := a.effective(ctx, e, siteName, to)
	if err != nil {
		return err
	}
	d, err := design.Compare(have, want)
	if err != nil {
		return fmt.Errorf("compare %s with %s: %w", from, to, err)
	}
	if a.output == "json" {
		err = a.out.JSON(d)
	} else {
		printDiff(a.out, d)
	}
	if err == nil && detailed && !d.Empty() {
		return errChanges
	}
	return err
}

// effective is the effective design of a folder or a commit.
func (a *app) effective(ctx context.Context, e *design.Evaluator, siteName, of string) (*site.Site, error) {
	rev, err := readFolderOrCommit(ctx, of)
	if err != nil {
		return nil, err
	}
	r, err := e.Evaluate(ctx, rev.Files, siteName)
	if err != nil {
		return nil, fmt.Errorf("evaluate %s: %w", of, err)
	}
	if r.Site == nil {
		a.err.Printf("The design of %s is broken.\n\n", of)
		return nil, a.refuse(rev.Files, r)
	}
	return r.Site, nil
}

// readFolderOrCommit takes a folder where there is one, and otherwise a commit
// of the repository here.
func readFolderOrCommit(ctx context.Context, name string) (site.Revision, error) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return readDir(ctx, name)
	}
	id, files, err := repo.Local(ctx, ".", name)
	if err != nil {
		return site.Revision{}, fmt.Errorf("%s: there is no such folder; %w", name, err)
	}
	return site.Revision{ID: id, Files: files}, nil
}

// mostAlike is how many differences of one path are shown of a group.
const mostAlike = 3

func printDiff(w *screen, d design.Diff) {
	if d.Empty() {
		w.Println("nothing differs")
		return
	}
	for _, g := range d.Groups {
		w.Println(paint(w, text.Bold)(heading(g)))
		printGroup(w, g)
		w.Println()
	}
	changed := map[string]bool{}
	for _, g := range d.Groups {
		for _, n := range g.Nodes {
			changed[n] = true
		}
	}
	said := say.Count(len(changed), "node") + " changed"
	if len(d.Added) > 0 {
		said += fmt.Sprintf(", %d added: %s", len(d.Added), say.Some(d.Added, 8))
	}
	if len(d.Removed) > 0 {
		said += fmt.Sprintf(", %d removed: %s", len(d.Removed), say.Some(d.Removed, 8))
	}
	w.Println(said)
}

// heading says what a group brings about.
func heading(g design.Group) string {
	differences := say.Count(len(g.Differences), "difference")
	nodes := say.Count(len(g.Nodes), "node")
	profile, isProfile := strings.CutPrefix(g.Layer, "profile/")
	switch {
	case len(g.Nodes) == 0:
		return "the site itself changes, " + differences
	case isProfile:
		return fmt.Sprintf("profile %s changes %s, %s", profile, nodes, differences)
	case g.Layer == "node":
		return fmt.Sprintf("lines of the nodes themselves change %s, %s", nodes, differences)
	}
	return fmt.Sprintf("the %s changes %s, %s", g.Layer, nodes, differences)
}

func printGroup(w *screen, g design.Group) {
	dim := paint(w, text.Faint)
	alike := map[string]int{}
	for i, d := range g.Differences {
		if alike[d.Path]++; alike[d.Path] <= mostAlike {
			have, want := sides(d)
			w.Printf("  %s: %s → %s  %s\n", expand(d.Path), have, want, dim(places(d)))
			if len(d.Nodes) > 0 && len(d.Nodes) < len(g.Nodes) || g.Layer == "node" {
				w.Printf("      %s\n", say.Some(d.Nodes, 8))
			}
		}
		last := i+1 == len(g.Differences) || g.Differences[i+1].Path != d.Path
		if more := alike[d.Path] - mostAlike; last && more > 0 {
			w.Printf("      and %d more of %s\n", more, expand(d.Path))
		}
	}
}

// sides are the values of a difference as they fit a line: from where they
// differ, when they would look the same.
func sides(d design.Difference) (have, want string) {
	have, want = orNone(d.Have), orNone(d.Want)
	if have != want {
		return have, want
	}
	a, b := []rune(string(d.Have)), []rune(string(d.Want))
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	return "…" + orNone([]byte(string(a[i:]))), "…" + orNone([]byte(string(b[i:])))
}

func orNone(value json.RawMessage) string {
	if value == nil {
		return "not set"
	}
	return expand(brief(value))
}

// places says where the new value is set, or where the old one was.
func places(d design.Difference) string {
	if len(d.Origins) == 0 {
		return ""
	}
	said := d.Origins[0].String()
	if d.Want == nil {
		said = "was " + said
	}
	if more := len(d.Origins) - 1; more > 0 {
		said += fmt.Sprintf(" and %s", say.Count(more, "more place"))
	}
	return expand(said)
}
