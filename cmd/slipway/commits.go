package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

type commitsFlags struct {
	orderFlags
	all bool
}

func (a *app) commitsCommand() *cobra.Command {
	var f commitsFlags
	cmd := &cobra.Command{
		Use: "commits [NAME]", Short: "show the branches, and what putting one in force does", Args: atMost(1),
		Long: "Lists the commits that the daemon can plan without a pull request: those of the followed branch\n" +
			"that are newer than the design in force, and the heads of other branches. With the name of a\n" +
			"branch, or a commit, the daemon plans it as if it were in force. Then this shows the plan as the\n" +
			"comment on a pull request does, and by rack what happens to each machine. Nothing can be\n" +
			"approved by such a plan.\n" + exitHelp,
		Example: "  slipway commits\n  slipway commits new-rack\n  slipway commits 4f2a51c09d3e\n  slipway commits new-rack --output json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.commits(cmd.Context(), f)
			}
			return a.commit(cmd.Context(), f, args[0])
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.all, "all", false, "show all machines, not only the first 40")
	return cmd
}

func (a *app) commits(ctx context.Context, f commitsFlags) error {
	daemon := daemonAt(f.orderFlags.state)
	defer daemon.Close()
	list, err := daemon.Commits(ctx, f.site, "")
	if err != nil {
		return err
	}
	if a.output == "json" {
		return a.out.JSON(list)
	}
	if len(list.Commits) > 0 {
		t := newTable("commit", "branch", "subject", "author", "committed", "beside the design in force")
		for _, c := range list.Commits {
			committed := "not known"
			if !c.When.IsZero() {
				committed = say.Rough(time.Since(c.When)) + " ago"
			}
			t.AppendRow(table.Row{c.Short(), site.Shorten(strings.Join(c.Branches, ", "), 60), site.Shorten(c.Subject, 60), c.Author, committed, besideInForce(c)})
		}
		a.out.Printf("%s\n", t.Render())
	}
	switch {
	case list.Looked.IsZero() && list.Problem == "":
		a.out.Println("Slipway is listing the branches of the repository. Run this again in some seconds.")
	case len(list.Commits) == 0 && list.Problem == "":
		a.out.Println("No commit to plan: everything on all branches is in force.")
	}
	if list.Problem != "" {
		a.out.Println("The repository cannot be listed: " + list.Problem)
	}
	if n := list.BranchesLeftOut; n > 0 {
		a.out.Printf("Branches left out: %d, the last by name\n", n)
	}
	if n := list.NewerLeftOut; n > 0 {
		a.out.Printf("Older commits of %s left out: %d\n", list.Branch, n)
	}
	return nil
}

// besideInForce says what a commit is beside the design in force.
func besideInForce(c site.Commit) string {
	switch {
	case c.Problem != "":
		return "not planned: " + site.Shorten(c.Problem, 80)
	case c.Lacks:
		return "lacks the revision in force"
	}
	return "newer"
}

var digits = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

// namedCommit is the one commit of a name.
func (a *app) namedCommit(ctx context.Context, daemon *control.Client, siteName, name string) (string, error) {
	page, err := daemon.Commits(ctx, siteName, name)
	switch {
	case err != nil:
		return "", err
	case len(page.Commits) == 1:
		return page.Commits[0].ID, nil
	case len(page.Commits) > 1:
		return "", fmt.Errorf("%w: %d commits have the name %q: name one by its commit, as `slipway commits` lists it", site.ErrNotFound, len(page.Commits), name)
	case digits.MatchString(name): // the daemon says why it does not plan it
		return name, nil
	case page.Looked.IsZero() && page.Problem != "":
		return "", fmt.Errorf("%w: Slipway cannot list the branches of the repository: %s. Run this again when it answers", site.ErrNotFound, page.Problem)
	case page.Looked.IsZero():
		return "", fmt.Errorf("%w: Slipway has not listed the branches of the repository yet: run this again in some seconds", site.ErrNotFound)
	}
	return "", fmt.Errorf("%w: Slipway plans no %q. At %s the repository had no branch of this name, or all of it was in force. "+
		"Push the branch, or choose one of those that `slipway commits` lists", site.ErrNotFound, name, page.Looked.UTC().Format("15:04:05 MST"))
}

func (a *app) commit(ctx context.Context, f commitsFlags, name string) error {
	daemon := daemonAt(f.orderFlags.state)
	defer daemon.Close()
	id, err := a.namedCommit(ctx, daemon, f.site, name)
	if err != nil {
		return err
	}
	v, err := daemon.Commit(ctx, f.site, id)
	if err != nil {
		return err
	}
	if a.output == "json" {
		return a.out.JSON(v)
	}
	bold := paint(a.out, text.Bold)
	a.out.Println(bold(fmt.Sprintf("Commit %s: %s", v.Commit.Short(), v.Commit.Subject)))
	a.out.Println("  by " + cmp.Or(v.Commit.Author, "an unknown author"))
	if len(v.Commit.Branches) > 0 {
		a.out.Println("  head of " + strings.Join(v.Commit.Branches, ", "))
	}
	a.out.Println("")
	if v.Review.Comment != "" {
		if err := a.out.Lay(present.CommentText(v.Review.Comment)); err != nil {
			return err
		}
		a.out.Println("")
	}
	a.printRacks(&v.ByRack, present.UnlistedOfCommit(&v.CommitDetail), "what the commit does", f.all)
	return nil
}
