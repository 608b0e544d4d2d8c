package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/slipway-gitops/slipway/engine/site"
)

type statusFlags struct {
	site, state string
	watch, all  bool
}

func (a *app) statusCommand() *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use: "status", Short: "show how a site is", Args: exactly(0),
		Long:    "Shows what the daemon knows: the revision in force, how many nodes are in which\nstate, and every node that is not in-sync with the reason.\n" + exitHelp,
		Example: "  slipway status\n  slipway status --watch",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context(), f) },
	}
	cmd.Flags().StringVar(&f.site, "site", "", "the site's name, when the daemon keeps several")
	cmd.Flags().BoolVar(&f.watch, "watch", false, "show every change until interrupted")
	cmd.Flags().BoolVar(&f.all, "all", false, "list nodes that are in-sync too")
	addState(cmd, &f.state)
	return cmd
}

func (a *app) status(ctx context.Context, f statusFlags) error {
	daemon := daemonAt(f.state)
	defer daemon.Close()
	if !f.watch {
		r, err := daemon.Report(f.site)
		if err != nil {
			return err
		}
		return a.showStatus(r, f)
	}
	live := isTerminal(a.out) && a.output == "text"
	var shown error
	last := ""
	err := daemon.Watch(ctx, f.site, func(r site.Report) {
		switch {
		case live:
			fmt.Fprint(a.out, "\x1b[H\x1b[2J") // home, and clear what is below
			shown = a.showStatus(r, f)
		case a.output == "json":
			shown = printJSON(a.out, r.Status)
		default:
			if line := counts(a.out, &r.Status); line != last {
				fmt.Fprintln(a.out, line)
				last = line
			}
		}
	})
	if ctx.Err() != nil {
		return nil // an interrupt is how watching ends
	}
	return errors.Join(err, shown)
}

func (a *app) showStatus(r site.Report, f statusFlags) error {
	if a.output == "json" {
		return printJSON(a.out, r.Status)
	}
	printStatus(a.out, &r.Status, f.all)
	return nil
}

// printStatus writes a status for people.
func printStatus(w io.Writer, s *site.Status, all bool) {
	bold, red, yellow := paint(w, text.Bold), paint(w, text.FgRed), paint(w, text.FgYellow)
	fmt.Fprintf(w, "%s  %s\n", bold("site "+s.Site), counts(w, s))
	fmt.Fprintln(w, bar(w, s))
	fmt.Fprintf(w, "in force   %s\n", revisionLine(s.Applied))
	if s.Attempted.ID != s.Applied.ID && s.Attempted.ID != "" {
		fmt.Fprintf(w, "attempted  %s\n", red(revisionLine(s.Attempted)))
	}
	if s.ObserveOnly != "" {
		fmt.Fprintln(w, yellow("observing  "+s.ObserveOnly))
	}
	if s.Paused != nil {
		fmt.Fprintln(w, yellow("paused     "+pauseLine(*s.Paused)))
	}
	printRollout(w, s.Rollout)
	for _, p := range s.Problems {
		fmt.Fprintln(w, red("problem    ")+p.What+" (since "+age(p.Since)+" ago)")
	}
	printMachines(w, s)
	printWaiting(w, s)
	printNodes(w, s, all)
	printSwept(w, s.Swept)
}

// printSwept says which machines the last sweep has met where the design does
// not have them.
func printSwept(w io.Writer, s *site.Swept) {
	if s == nil {
		return
	}
	fmt.Fprintf(w, "\nswept      %d addresses %s ago: %s, %d of them where the design has them\n", s.Addresses, age(s.When), plural(s.Answered, "management controller"), s.Known)
	printMet(w, s.Met)
}

// pauseLine is who paused a site, for how long, and why.
func pauseLine(h site.Hold) string {
	until := ""
	if !h.Until.IsZero() {
		until = ", until " + h.Until.Local().Format(time.DateTime)
	}
	return fmt.Sprintf("by %s, %s ago%s: %s", h.By, age(h.Since), until, h.Reason)
}

// printRollout says how the rollout goes, or that it was halted.
func printRollout(w io.Writer, r *site.RolloutStatus) {
	if r == nil || !r.Ended.IsZero() && len(r.Failed) == 0 {
		return
	}
	red, yellow := paint(w, text.FgRed), paint(w, text.FgYellow)
	line := fmt.Sprintf("%d of %d nodes of %s", r.Done, len(r.Nodes), r.Revision.Short())
	if r.Ended.IsZero() {
		line += ", for " + age(r.Since)
	} else {
		line += ", ended " + age(r.Ended) + " ago"
	}
	if len(r.Failed) > 0 {
		line += red(fmt.Sprintf(", %d failed", len(r.Failed)))
	}
	fmt.Fprintln(w, "rollout    "+line)
	if r.Ended.IsZero() && r.Halted != "" {
		fmt.Fprintln(w, red("halted     "+r.Halted+"; a commit, or slipway retry, goes on"))
	}
	if r.Ended.IsZero() && len(r.Canaries) > 0 {
		proven := ": awaited"
		if !r.Proven.IsZero() {
			proven = ": in-sync for " + age(r.Proven)
		}
		fmt.Fprintln(w, "canaries   "+strings.Join(r.Canaries, ", ")+proven)
	}
	if r.Queued != nil {
		fmt.Fprintln(w, yellow("queued     "+revisionLine(*r.Queued)+", until the rollout has ended or is at rest"))
	}
}

func revisionLine(r site.Revision) string {
	if r.ID == "" {
		return "nothing yet"
	}
	return strings.TrimSpace(r.Short() + "  " + r.Subject)
}

// counts is the nodes by state in one line.
func counts(w io.Writer, s *site.Status) string {
	n := s.Counts()
	parts := []string{paint(w, stateColour(site.InSync))(fmt.Sprintf("%d/%d in-sync", n[site.InSync], len(s.Nodes)))}
	for _, state := range site.States[1:] {
		if n[state] > 0 {
			parts = append(parts, paint(w, stateColour(state))(fmt.Sprintf("%d %s", n[state], state)))
		}
	}
	return strings.Join(parts, ", ")
}

// bar is the nodes by state as a picture.
func bar(w io.Writer, s *site.Status) string {
	const width = 60
	n, all, drawn := s.Counts(), len(s.Nodes), 0
	var b strings.Builder
	glyphs := map[site.State]string{site.InSync: "█", site.Progressing: "▓", site.Retrying: "▒", site.Blocked: "▒", site.Stalled: "×", site.Paused: "▒", site.Unknown: "░"}
	for i, sum := 0, 0; i < len(site.States) && all > 0; i++ {
		state := site.States[i]
		sum += n[state]
		cells := sum*width/all - drawn
		drawn += cells
		b.WriteString(paint(w, stateColour(state))(strings.Repeat(glyphs[state], cells)))
	}
	return b.String()
}

// printWaiting says what waits for a person's yes, and how to give it.
func printWaiting(w io.Writer, s *site.Status) {
	if len(s.Waiting) == 0 {
		return
	}
	red := paint(w, text.FgRed, text.Bold)
	fmt.Fprintln(w, red("waits for approval:"))
	for _, l := range s.Waiting {
		fmt.Fprintf(w, "  %s (%s): %s loses %s\n", l.Node, l.Machine, l.Action, l.Lost)
	}
	fmt.Fprintf(w, "  to approve all of it: slipway approve %s\n", s.Approve)
}

func printNodes(w io.Writer, s *site.Status, all bool) {
	t := newTable("node", "state", "since", "power", "reason")
	for _, n := range s.Nodes {
		if n.State == site.InSync && !all {
			continue
		}
		t.AppendRow(table.Row{n.Name, paint(w, stateColour(n.State))(string(n.State)) + withFindings(n), age(n.Since), n.Power, reasonOf(n)})
	}
	if t.Length() == 0 {
		return
	}
	if width := columns(w); width > 60 {
		t.SetColumnConfigs([]table.ColumnConfig{{Number: 5, WidthMax: width - 50, WidthMaxEnforcer: text.WrapSoft}})
	}
	fmt.Fprintf(w, "\n%s\n", t.Render())
}

// newTable is a table without lines, with these columns.
func newTable(columns ...any) table.Writer {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatUpper
	t.SetStyle(style)
	t.AppendHeader(columns)
	return t
}

// withFindings says how many findings a node has, behind its state.
func withFindings(n site.NodeStatus) string {
	switch len(n.Findings) {
	case 0:
		return ""
	case 1:
		return ", 1 finding"
	}
	return fmt.Sprintf(", %d findings", len(n.Findings))
}

// printMachines names the nodes whose machines are not made of what the design
// expects, or have parts that are not well.
func printMachines(w io.Writer, s *site.Status) {
	const most = 8
	var names []string
	for _, n := range s.Nodes {
		if len(n.Findings) > 0 {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	line := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		line += fmt.Sprintf(" and %d more", more)
	}
	fmt.Fprintln(w, paint(w, text.FgYellow)("findings   ")+"about the machines of "+line+" (slipway why NODE)")
}

func reasonOf(n site.NodeStatus) string {
	if f := facetAges(n.Stale); f != "" {
		n.Stale = nil
		return strings.TrimSpace(reasonOf(n) + " (seen: " + f + ")")
	}
	if !n.Retry.IsZero() {
		return n.Reason + " (again at " + n.Retry.Local().Format(time.TimeOnly) + ")"
	}
	if n.Detail != "" {
		return n.Reason + ": " + n.Detail
	}
	return n.Reason
}

// columns is a terminal's width, 0 for anything else.
func columns(w io.Writer) int {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}
