package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

type verifyFlags struct {
	site, state, role string
	all               bool
}

func (a *app) verifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use: "verify [NODE...]", Short: "look at a site now: endpoints, credentials, images, services", Args: cobra.ArbitraryArgs,
		Long: "Has the daemon look at all nodes now, or at some, and shows what is wrong or unknown:\n" +
			"whether each endpoint answers, accepts its credential and leads to the designed machine,\n" +
			"and, without nodes, what holds of the site: problems, the repository, images, artifacts\n" +
			"and services. It sends no password that was denied before, and shortens no wait after a\n" +
			"failure. A node that was not looked at within 3 minutes is unknown.\n\n" +
			"The exit code is 0 if all is well, 1 if something is wrong, and 5 if nothing is wrong and\n" +
			"something is unknown or nothing was checked.\n" + exitHelp,
		Example: "  slipway verify\n  slipway verify compute-3 compute-4\n  slipway verify --role storage --output json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.role != "" && len(args) > 0 {
				return usage("verify takes either nodes or --role")
			}
			return a.verify(cmd.Context(), f, args)
		},
	}
	cmd.Flags().StringVar(&f.site, "site", "", "the site's name, when the daemon keeps several")
	cmd.Flags().StringVar(&f.role, "role", "", "the nodes of this role only")
	cmd.Flags().BoolVar(&f.all, "all", false, "list what is well too")
	addDaemon(cmd, &f.state)
	return cmd
}

func (a *app) verify(ctx context.Context, f verifyFlags, nodes []string) error {
	daemon := daemonAt(f.state)
	defer daemon.Close()
	run, err := daemon.Verify(ctx, f.site, nodes, f.role)
	if err != nil {
		return err
	}
	v, err := a.awaitRun(ctx, daemon, f.site, run)
	if err != nil {
		return err
	}
	v.Checks = slices.DeleteFunc(v.Checks, func(c site.Check) bool {
		return f.role != "" && c.Role != f.role || len(nodes) > 0 && !slices.Contains(nodes, c.Node)
	})
	if a.output == "json" {
		err = a.out.JSON(v)
	} else {
		printVerification(a.out, v, f.all)
	}
	return cmp.Or(err, verdictOf(v.Checks))
}

// verdictOf is the error with which a command ends that shows checks; nil if all are well.
func verdictOf(checks []site.Check) error {
	count := countChecks(checks)
	switch wrong := count[site.CheckWrong]; {
	case wrong == 1:
		return fmt.Errorf("1 of %s is wrong", say.Count(len(checks), "check"))
	case wrong > 0:
		return fmt.Errorf("%d of %s are wrong", wrong, say.Count(len(checks), "check"))
	case count[site.CheckUnknown] > 0, len(checks) == 0: // nothing was checked
		return errUnknown
	}
	return nil
}

// verifyEvery is how often a run is asked for, and verifyRest the least pause as a multiple of how long an answer took: the
// checks of a large site are many.
const (
	verifyEvery = time.Second
	verifyRest  = 10
)

// awaitRun waits until a run is over, or the daemon no longer knows of it, and returns what is
// known then. It does not wait for the looks that others ask for meanwhile beyond its own time.
func (a *app) awaitRun(ctx context.Context, daemon *control.Client, siteName string, run site.VerificationRun) (site.Verification, error) {
	told, ended := a.progress()
	defer ended()
	for {
		asked := time.Now()
		v, err := daemon.Verification(ctx, siteName)
		if err != nil || v.Run == nil || !v.Run.Since.Equal(run.Since) || v.Run.IsOver(v.When) || !v.When.Before(run.Until) {
			return v, err
		}
		told("nodes looked at", v.Run.Looked, v.Run.Nodes)
		select {
		case <-ctx.Done():
			return v, ctx.Err()
		case <-time.After(max(verifyEvery, verifyRest*time.Since(asked))):
		}
	}
}

func countChecks(checks []site.Check) map[site.Outcome]int {
	count := map[site.Outcome]int{}
	for _, c := range checks {
		count[c.Outcome]++
	}
	return count
}

// outcomes are in the order in which checks are shown.
var outcomes = []site.Outcome{site.CheckWrong, site.CheckUnknown, site.CheckOK}

// printVerification writes checks for people, what is wrong first.
func printVerification(w *screen, v site.Verification, all bool) {
	colour := map[site.Outcome]text.Color{site.CheckWrong: text.FgRed, site.CheckUnknown: text.FgYellow, site.CheckOK: text.FgGreen}
	checks := slices.DeleteFunc(slices.Clone(v.Checks), func(c site.Check) bool { return c.Outcome == site.CheckOK && !all })
	slices.SortStableFunc(checks, func(a, b site.Check) int {
		return slices.Index(outcomes, a.Outcome) - slices.Index(outcomes, b.Outcome)
	})
	t := newTable("outcome", "node", "check", "of", "what was seen")
	for _, c := range checks {
		what := c.Sentence
		if c.Release != "" {
			what += "; " + c.Release
		}
		t.AppendRow(table.Row{paint(w, colour[c.Outcome])(string(c.Outcome)), cmp.Or(c.Node, "-"), c.Kind, c.Subject, what})
	}
	if width := w.Columns(); width > 90 {
		t.SetColumnConfigs([]table.ColumnConfig{{Number: 5, WidthMax: width - 60, WidthMaxEnforcer: text.WrapSoft}})
	}
	if t.Length() > 0 {
		w.Println(t.Render())
	}
	count := countChecks(v.Checks)
	w.Printf("%s of %s ok, %d wrong, %d unknown\n", fmt.Sprint(count[site.CheckOK]), say.Count(len(v.Checks), "check"), count[site.CheckWrong], count[site.CheckUnknown])
}
