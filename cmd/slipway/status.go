package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/watch"
	"github.com/slipway-gitops/slipway/sinks/commit"
)

type statusFlags struct {
	site, state string
	watch, all  bool
}

func (a *app) statusCommand() *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use: "status", Short: "show the state of a site", Args: exactly(0),
		Long: "Shows what the daemon knows: the revision in force, how many nodes are in which state,\n" +
			"and every node that is not in-sync or whose system does not answer, with the reason.\n" +
			"With --watch, a terminal shows a full-screen view that follows the daemon: overview,\n" +
			"nodes, approvals, rollout, findings and events, with the commands on nodes; ? explains\n" +
			"the keys. Elsewhere --watch writes a line for each change, or JSON with --output json.\n\n" +
			"Of a daemon that manages several sites it shows each in a line, unless --site names one.\n" +
			"A site whose process does not answer is unknown; the exit code is 5 then.\n" + exitHelp,
		Example: "  slipway status\n  slipway status --watch",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context(), f) },
	}
	cmd.Flags().StringVar(&f.site, "site", "", "the site's name, when the daemon keeps several")
	cmd.Flags().BoolVar(&f.watch, "watch", false, "follow the site until interrupted, in a terminal as a full-screen view")
	cmd.Flags().BoolVar(&f.all, "all", false, "list nodes that are in-sync too")
	addDaemon(cmd, &f.state)
	return cmd
}

func (a *app) status(ctx context.Context, f statusFlags) error {
	daemon := daemonAt(f.state)
	defer daemon.Close()
	if !f.watch {
		r, err := daemon.Report(ctx, f.site)
		switch {
		case errors.Is(err, control.ErrWhichSite):
			return a.statusOfSites(ctx, daemon)
		case err != nil:
			return err
		}
		return a.showStatus(r, f)
	}
	if names, err := daemon.Sites(ctx); err == nil && f.site == "" && len(names) > 1 {
		return usage("--watch follows one site: name it with --site; this daemon manages %s", strings.Join(names, ", "))
	}
	if a.out.Terminal() && a.output == "text" && isTerminal(os.Stdin) && os.Getenv("TERM") != "dumb" {
		return watch.Run(ctx, daemon, watch.Options{Site: f.site, In: os.Stdin, Out: a.out.Whole(), Colour: os.Getenv("NO_COLOR") == ""})
	}
	return a.watchLines(ctx, daemon, f)
}

// siteWait is how long a list of sites waits for one that does not answer.
const siteWait = 10 * time.Second

// statusOfSites shows each site of a daemon in a line, as it is now.
func (a *app) statusOfSites(ctx context.Context, daemon *control.Client) error {
	names, err := daemon.Sites(ctx)
	if err != nil {
		return err
	}
	all := make([]siteNews, len(names))
	daemon.EachSite(names, func(i int, name string) {
		ctx, cancel := context.WithTimeout(ctx, siteWait)
		defer cancel()
		n := siteNews{Site: name}
		switch r, err := daemon.Report(ctx, name); {
		case ctx.Err() != nil:
			n.Trouble = "its process runs and has not answered for " + siteWait.String()
		case err != nil:
			n.Trouble = err.Error()
		default:
			now := time.Now()
			n.take(commit.Standing{Status: r.Status, News: site.News{Changed: now, Alive: now}, Losses: len(r.Status.Waiting)})
			n.Head = n.Attempted
		}
		all[i] = n
	})
	return a.showSites(all, time.Now())
}

// watchLines writes a line, or JSON, for each change, until the context ends. A terminal without a keyboard gets the
// page again and again.
func (a *app) watchLines(ctx context.Context, daemon *control.Client, f statusFlags) error {
	live := a.out.Terminal() && a.output == "text"
	var shown error
	last := ""
	err := daemon.Watch(ctx, f.site, func(r site.Report) {
		switch {
		case live:
			a.out.Clear()
			shown = a.showStatus(r, f)
		case a.output == "json":
			shown = a.out.JSON(r.Status)
		default:
			if line := counts(a.out, &r.Status); line != last {
				a.out.Println(line)
				last = line
			}
		}
	}, func(err error) {
		last = ""
		a.err.Println(err.Error() + "; waiting for it")
	})
	if ctx.Err() != nil {
		return nil // an interrupt is how watching ends
	}
	return errors.Join(err, shown)
}

func (a *app) showStatus(r site.Report, f statusFlags) error {
	if a.output == "json" {
		return a.out.JSON(r.Status)
	}
	printStatus(a.out, &r.Status, f.all)
	return nil
}

// printStatus writes a status for people.
func printStatus(w *screen, s *site.Status, all bool) {
	bold, red, yellow := paint(w, text.Bold), paint(w, text.FgRed), paint(w, text.FgYellow)
	if s.Leader != "" {
		w.Printf("%s  this daemon follows; run commands on the leader's host\n", bold("site "+s.Site))
		w.Println("leader     " + s.Leader)
		for _, p := range s.Problems {
			w.Println(red("problem    ") + p.What + " (since " + age(p.Since) + " ago)")
		}
		return
	}
	w.Printf("%s  %s\n", bold("site "+s.Site), counts(w, s))
	w.Println(bar(w, s))
	w.Printf("in force   %s\n", present.RevisionLine(s.Applied))
	if s.Attempted.ID != s.Applied.ID && s.Attempted.ID != "" {
		w.Printf("attempted  %s\n", red(present.RevisionLine(s.Attempted)))
	}
	if s.ObserveOnly != "" {
		w.Println(yellow("acting     no: " + s.ObserveOnly))
	}
	if s.Paused != nil {
		w.Println(yellow("paused     " + present.HoldLine(*s.Paused, time.Now())))
	}
	printRollout(w, s.Rollout, s.Nodes)
	for _, p := range s.Problems {
		w.Println(red("problem    ") + p.What + " (since " + age(p.Since) + " ago)")
	}
	for _, n := range s.Notes {
		w.Println("note       " + n)
	}
	for _, d := range s.Served {
		w.Println("dhcp       " + d.Detail())
		if len(d.Armed) > 0 {
			w.Println("           boots over the network next: " + strings.Join(d.Armed, ", "))
		}
	}
	printMachines(w, s)
	for _, u := range s.NotActedOn() {
		w.Println(yellow("not acted on ") + "although designed: " + u.String())
	}
	printWaiting(w, s)
	printNodes(w, s, all)
	printSwept(w, s.Swept)
}

// printSwept says which machines the last sweep has met where the design does
// not have them.
func printSwept(w *screen, s *site.Swept) {
	if s == nil {
		return
	}
	w.Printf("\nswept      %d addresses %s ago: %s, %d of them where the design has them\n", s.Addresses, age(s.When), say.Count(s.Answered, "management controller"), s.Known)
	printMet(w, s.Met)
}

// printRollout says how the rollout goes, or that it was halted.
func printRollout(w *screen, r *site.RolloutStatus, nodes []site.NodeStatus) {
	if r == nil || !r.Ended.IsZero() && len(r.Failed) == 0 {
		return
	}
	red, yellow := paint(w, text.FgRed), paint(w, text.FgYellow)
	line := present.RolloutLine(r, time.Now())
	if len(r.Failed) > 0 {
		line += red(fmt.Sprintf(", %d failed", len(r.Failed)))
	}
	w.Println("rollout    " + line)
	if r.Ended.IsZero() && r.Halted != "" {
		w.Println(red("halted     " + r.Halted + "; to continue, commit a change or run `slipway retry`"))
	}
	if canaries := present.CanariesLine(r, nodes, time.Now()); canaries != "" && r.Ended.IsZero() {
		w.Println("canaries   " + canaries)
	}
	if r.Queued != nil {
		w.Println(yellow("queued     " + present.RevisionLine(*r.Queued) + ", until the rollout has ended or is halted"))
	}
}

// counts is the nodes by state in one line.
func counts(w *screen, s *site.Status) string {
	var parts []string
	for _, c := range s.Verdict() {
		parts = append(parts, paint(w, stateColour(c.State))(c.Text))
	}
	return strings.Join(parts, ", ") + s.Caveat()
}

// bar is the nodes by state as a picture.
func bar(w *screen, s *site.Status) string {
	const width = 60
	n, all, drawn := s.Counts(), len(s.Nodes), 0
	var b strings.Builder
	glyphs := map[site.State]string{site.InSync: "█", site.Progressing: "▓", site.Retrying: "▒", site.Blocked: "▒", site.Stalled: "×", site.Foreign: "×", site.Paused: "▒", site.Unknown: "░"}
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
func printWaiting(w *screen, s *site.Status) {
	if len(s.Waiting) == 0 {
		return
	}
	red := paint(w, text.FgRed, text.Bold)
	w.Println(red("waits for approval:"))
	for _, l := range s.Waiting {
		w.Println("  " + present.LossLine(l))
	}
	w.Printf("  to approve all of it: slipway approve %s\n", s.Approve)
}

func printNodes(w *screen, s *site.Status, all bool) {
	t := newTable("node", "state", "since", "power", "reason")
	var shown []site.NodeStatus
	for _, n := range s.Nodes {
		if all || present.NeedsALook(n) {
			shown = append(shown, n)
		}
	}
	for _, g := range present.Grouped(shown, all) {
		n, name, reason := g[0], g[0].Name, present.ReasonOf(g[0], time.Now())
		if len(g) > 1 {
			name, reason = say.Count(len(g), "node"), present.GroupReason(g, time.Now())+": "+someOf(present.NamesOf(g))
		}
		t.AppendRow(table.Row{name, paint(w, stateColour(n.State))(string(n.State)) + withFindings(g), age(n.Since), present.PowersOf(g, time.Now()), reason})
	}
	if t.Length() == 0 {
		return
	}
	if width := w.Columns(); width > 60 {
		t.SetColumnConfigs([]table.ColumnConfig{{Number: 5, WidthMax: width - 50, WidthMaxEnforcer: text.WrapSoft}})
	}
	w.Printf("\n%s\n", t.Render())
}

// withFindings says how many findings a node has, or how many nodes of a group have any, behind their state.
func withFindings(group []site.NodeStatus) string {
	if found := len(group[0].Findings); len(group) == 1 && found > 0 {
		return ", " + say.Count(found, "finding")
	}
	having := 0
	for _, n := range group {
		if len(n.Findings) > 0 {
			having++
		}
	}
	if having == 0 {
		return ""
	}
	return fmt.Sprintf(", %d with findings", having)
}

// printMachines names the nodes whose machines are not well, and those that are not
// made of what the design expects, or have parts that are not well.
func printMachines(w *screen, s *site.Status) {
	var names, unwell []string
	for _, n := range s.Nodes {
		if len(n.Findings) > 0 {
			names = append(names, n.Name)
		}
		if n.IsHardwareUnwell() {
			unwell = append(unwell, n.Name+" "+present.HealthOf(&n, time.Now()))
		}
	}
	if len(unwell) > 0 {
		w.Println(paint(w, text.FgYellow)("health     ") + someOf(unwell) + " (slipway why NODE)")
	}
	for _, state := range []site.HealthState{site.Unhealthy, site.HealthUnknown} {
		var those []string
		for _, n := range s.Unfit() {
			if n.SystemHealth.State == state {
				those = append(those, n.Name)
			}
		}
		if len(those) > 0 {
			w.Println(paint(w, text.FgYellow)("service    ") + string(state) + ": " + someOf(those) + " (slipway why NODE)")
		}
	}
	for _, state := range []site.LinksState{site.LinksDiffer, site.LinksUnknown} {
		if those := s.Unlinked(state); len(those) > 0 {
			w.Println(paint(w, text.FgYellow)("links      ") + string(state) + ": " + someOf(present.NamesOf(those)) + " (slipway why NODE)")
		}
	}
	if len(names) == 0 {
		return
	}
	w.Println(paint(w, text.FgYellow)("findings   ") + "about the machines of " + someOf(names) + " (slipway why NODE)")
}
