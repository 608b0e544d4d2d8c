package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
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

// proposalNodes is how many machines of a pull request are shown without --all.
const proposalNodes = 40

type proposalsFlags struct {
	orderFlags
	only string // the state of pull requests
	all  bool
}

func (a *app) proposalsCommand() *cobra.Command {
	var f proposalsFlags
	cmd := &cobra.Command{
		Use: "proposals [NUMBER]", Short: "show the pull requests, and what merging one does", Args: cobra.MaximumNArgs(1),
		Long: "Lists the pull requests that the daemon has looked at since it started, with what merging each\n" +
			"does in one line, and what it waits for. With a number it shows the comment that Slipway has\n" +
			"written on that pull request, and then by rack what merging does to each machine.\n" + exitHelp,
		Example: "  slipway proposals\n  slipway proposals --only open\n  slipway proposals 7\n  slipway proposals 7 --output json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.proposals(cmd.Context(), f)
			}
			if f.only != "" {
				return usage("--only chooses pull requests of the list: leave it out with a number")
			}
			number, err := strconv.Atoi(strings.TrimPrefix(args[0], "#"))
			if err != nil || number < 1 {
				return usage("%q is not the number of a pull request, such as 7", args[0])
			}
			return a.proposal(cmd.Context(), f, number)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.only, "only", "", "list only pull requests in the `STATE` open, merged or closed")
	cmd.Flags().BoolVar(&f.all, "all", false, "show all machines, not only the first 40")
	return cmd
}

func (a *app) proposals(ctx context.Context, f proposalsFlags) error {
	states := []site.ProposalState{"", site.ProposalOpen, site.ProposalMerged, site.ProposalClosed}
	if !slices.Contains(states, site.ProposalState(f.only)) {
		return usage("--only is open, merged or closed, not %q", f.only)
	}
	daemon := daemonAt(f.orderFlags.state)
	defer daemon.Close()
	all, err := daemon.Proposals(ctx, f.site)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(p site.ProposalBrief) bool { return f.only != "" && string(p.Proposal.State) != f.only })
	if a.output == "json" {
		return a.out.JSON(all)
	}
	if len(all) == 0 {
		a.out.Println("No pull request to show. Slipway lists those that it has looked at since the daemon started.")
		return nil
	}
	t := newTable("number", "title", "state", "what merging does", "waits for", "planned")
	for _, p := range all {
		verdict := present.VerdictOf(p)
		if p.Erases > 0 {
			verdict = paint(a.out, text.FgRed, text.Bold)(verdict)
		}
		planned := "not known"
		if !p.Planned.IsZero() {
			planned = say.Rough(time.Since(p.Planned)) + " ago"
		}
		t.AppendRow(table.Row{p.Proposal.Number, site.Shorten(p.Proposal.Title, 60), p.Proposal.State, verdict, cmp.Or(p.Waits, "nothing"), planned})
	}
	a.out.Printf("%s\n", t.Render())
	return nil
}

func (a *app) proposal(ctx context.Context, f proposalsFlags, number int) error {
	daemon := daemonAt(f.orderFlags.state)
	defer daemon.Close()
	v, err := daemon.Proposal(ctx, f.site, number)
	if err != nil {
		return err
	}
	if a.output == "json" {
		return a.out.JSON(v)
	}
	bold := paint(a.out, text.Bold)
	a.out.Println(bold(fmt.Sprintf("Pull request %d: %s", v.Proposal.Number, v.Proposal.Title)))
	for _, line := range aboutProposal(&v) {
		a.out.Println("  " + line)
	}
	a.out.Println("")
	if v.Review.Comment == "" {
		a.out.Println("Slipway has not commented yet.")
	} else if err := a.out.Lay(present.CommentText(v.Review.Comment)); err != nil {
		return err
	}
	a.out.Println("")
	a.printRacks(&v.ByRack, present.Unlisted(&v.ProposalDetail), "what merging does", f.all)
	return nil
}

// aboutProposal says what a pull request is and waits for.
func aboutProposal(v *control.ProposalView) []string {
	lines := []string{fmt.Sprintf("%s, by %s, commit %s", v.Proposal.State, cmp.Or(v.Proposal.Author, "an unknown author"), site.Revision{ID: v.Proposal.Head}.Short())}
	if v.Proposal.URL != "" {
		lines = append(lines, v.Proposal.URL)
	}
	if planning := present.PlanningOf(&v.ProposalBrief); planning != "" {
		lines = append(lines, planning)
	}
	return append(lines, "Waits for "+cmp.Or(v.Waits, "nothing"), "Approved: "+present.ApprovalOf(&v.ProposalDetail))
}

// printRacks writes what a plan does to each machine, by rack, or why that is not known.
func (a *app) printRacks(v *control.ByRack, unlisted, does string, all bool) {
	bold := paint(a.out, text.Bold)
	if unlisted != "" {
		a.out.Println(unlisted)
		return
	}
	rows, left := 0, 0
	write := func(head string, nodes []site.NodeConsequence) {
		t := newTable("node", does, "how", "what is lost", "out of service", "units")
		for _, n := range nodes {
			switch {
			case n.What == site.MergeLeaves:
			case rows == proposalNodes && !all:
				left++
			default:
				rows++
				t.AppendRow(consequenceRow(a.out, n))
			}
		}
		if t.Length() > 0 {
			a.out.Println(bold(head))
			a.out.Printf("%s\n", t.Render())
		}
	}
	for _, r := range v.Affected {
		write("rack "+r.Name+"  "+present.SummaryOfMerging(r.All, r.Counts), r.Nodes)
	}
	write("in no rack", v.Outside)
	if left > 0 {
		a.out.Printf("%s: pass --all\n", say.Count(left, "more machine"))
	}
	if v.Untouched > 0 {
		a.out.Printf("In %s all machines stay as they are.\n", say.Count(v.Untouched, "other rack"))
	}
}

func consequenceRow(w *screen, n site.NodeConsequence) table.Row {
	what := present.ConsequenceMark(n.What)
	switch n.What {
	case site.MergeErases:
		what = paint(w, text.FgRed, text.Bold)(what)
	case site.MergeStops, site.MergeRemoves:
		what = paint(w, text.FgYellow)(what)
	}
	if n.New {
		what += ", new in the design"
	}
	where := ""
	switch {
	case n.Hypervisor != "":
		where = "on " + n.Hypervisor
	case n.Position.Unit > 0:
		where = span(n.Position.Unit, n.Position.Top())
	}
	return table.Row{n.Node, what, strings.Join(slices.DeleteFunc([]string{n.Does, n.Why}, func(s string) bool { return s == "" }), "; "), n.Loses, n.Away, where}
}
