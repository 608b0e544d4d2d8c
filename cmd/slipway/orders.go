package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// orderFlags say to whom an order goes.
type orderFlags struct{ site, state string }

func (f *orderFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.site, "site", "", "the site's name, when the daemon keeps several")
	addDaemon(cmd, &f.state)
}

// order sends one order and prints what was done.
func (a *app) order(ctx context.Context, f orderFlags, o site.Order) error {
	daemon := daemonAt(f.state)
	defer daemon.Close()
	done, err := daemon.Do(ctx, f.site, o)
	if err != nil {
		return err
	}
	if a.output == "json" {
		return a.out.JSON(map[string]string{"done": done})
	}
	if o.DryRun { // several lines
		return a.out.Lay(done + "\n")
	}
	return a.out.Println(done)
}

func (a *app) approveCommand() *cobra.Command {
	var f orderFlags
	var note, shown string
	cmd := &cobra.Command{
		Use: "approve [DIGEST | NODE]", Short: "approve destructive steps", Args: atMost(1),
		Long: "Without an argument, shows what waits for approval and what is approved. With the digest\n" +
			"of a set, approves what still waits in it; each approval is used once. With a node,\n" +
			"approves its first disruption or its removal from the design, or accepts the system that\n" +
			"answers on its machine: it shows what waits there, and asks. Where nobody can be asked, or\n" +
			"with --shown, it approves what has the digest that slipway approve has shown, and is refused\n" +
			"when something else waits now.\n" + exitHelp,
		Example: "  slipway approve\n  slipway approve 37dbd137b9121c1c97fc6229b18c21a2 --note \"seen with Ana\"\n  slipway approve compute-6",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.showWaiting(cmd.Context(), f)
			}
			o := site.Order{Verb: site.VerbApprove, Reason: note, Shown: shown}
			if site.IsDigest(args[0]) {
				o.Digest = args[0]
			} else {
				o.Node = args[0]
			}
			err := a.showNode(cmd.Context(), f, &o)
			if err == nil {
				err = a.order(cmd.Context(), f, o)
			}
			if o.Node != "" && errors.Is(err, site.ErrNotFound) {
				return fmt.Errorf("%w, and a digest has 32 digits; slipway approve alone shows what waits", err)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "a note for the record")
	cmd.Flags().StringVar(&shown, "shown", "", "the `DIGEST` that slipway approve has shown with the node")
	f.add(cmd)
	return cmd
}

// showNode has an order that names a node approve what a person was shown: what --shown names, or what is
// shown here and answered with yes.
func (a *app) showNode(ctx context.Context, f orderFlags, o *site.Order) error {
	switch {
	case o.Node == "" && o.Shown != "":
		return usage("--shown belongs to a node: a set is named by its own digest")
	case o.Shown != "" && !site.IsDigest(o.Shown):
		return usage("--shown takes the digest of %d digits that slipway approve shows with the node", site.DigestDigits)
	case o.Node == "" || o.Shown != "":
		return nil
	}
	daemon := daemonAt(f.state)
	defer daemon.Close()
	d, err := daemon.Node(ctx, f.site, o.Node)
	if err != nil {
		return err
	}
	if d.Status.Approval == "" {
		return site.NothingToApprove(o.Node)
	}
	a.err.Printf("%s: %s\n", o.Node, d.Status.Approve)
	if d.Plan != nil {
		present.Nodes(a.err.Lines(), []site.NodePlan{*d.Plan}, time.Now(), planPaint(a.err))
	}
	if !a.err.Terminal() || !isTerminal(os.Stdin) {
		return usage("there is no terminal to ask at: read what waits, and name it: slipway approve %s --shown %s", o.Node, d.Status.Approval)
	}
	o.Shown = d.Status.Approval
	return a.asks("Approve this? Type yes: ", "nothing was approved")
}

// asks asks a person at the terminal, and fails with what was not done unless the answer is yes.
func (a *app) asks(question, otherwise string) error {
	a.err.Printf("%s", question)
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if strings.TrimSpace(answer) != "yes" {
		return errors.Join(errors.New(otherwise), err)
	}
	return nil
}

func (a *app) showWaiting(ctx context.Context, f orderFlags) error {
	daemon := daemonAt(f.state)
	defer daemon.Close()
	r, err := daemon.Report(ctx, f.site)
	if err != nil {
		return err
	}
	if a.output == "json" {
		return a.out.JSON(map[string]any{"digest": r.Status.Approve, "waiting": append(site.Losses{}, r.Status.Waiting...), "nodes": approvable(&r.Status), "shown": approvals(&r.Status),
			"ledger": append([]site.LedgerEntry{}, r.Status.Ledger...)})
	}
	each := approvable(&r.Status)
	if len(r.Status.Waiting) == 0 && len(each) == 0 {
		a.out.Println("nothing waits for approval")
	}
	printWaiting(a.out, &r.Status)
	if len(each) > 0 {
		a.out.Println("waits for approval of single nodes:")
	}
	digests := approvals(&r.Status)
	for _, name := range slices.Sorted(maps.Keys(each)) {
		a.out.Printf("  %s: %s\n    slipway approve %s --shown %s\n", name, each[name], name, digests[name])
	}
	printApproved(a.out, &r.Status)
	return nil
}

// approvable is what would happen to each node that a person can approve by its
// name.
func approvable(s *site.Status) map[string]string {
	all := map[string]string{}
	for _, n := range s.Nodes {
		if n.Approve != "" {
			all[n.Name] = n.Approve
		}
	}
	return all
}

// approvals are the digests of what approvable says, by node.
func approvals(s *site.Status) map[string]string {
	all := map[string]string{}
	for _, n := range s.Nodes {
		if n.Approve != "" {
			all[n.Name] = n.Approval
		}
	}
	return all
}

// printApproved shows what is approved and was not used yet.
func printApproved(w *screen, s *site.Status) {
	t := newTable("node", "approved", "by", "expires", "set")
	for _, e := range s.Ledger {
		if e.IsOpen() {
			t.AppendRow(table.Row{e.Loss.Node, e.Loss.Action, e.Source.String(), e.Expires.Local().Format(time.DateTime), e.Set})
		}
	}
	if t.Length() > 0 {
		w.Printf("\napproved and not used yet; slipway disapprove DIGEST or NODE takes it back:\n%s\n", t.Render())
	}
}

func (a *app) disapproveCommand() *cobra.Command {
	var f orderFlags
	var reason string
	cmd := &cobra.Command{
		Use: "disapprove DIGEST | NODE", Short: "take back an approval that was not used yet", Args: exactly(1),
		Long: "Ends the approval of a set, or all approvals for a node. This does not restore what is\n" +
			"being erased already: slipway pause stops what is running.\n" + exitHelp,
		Example: "  slipway disapprove compute-3 --reason \"wrong rack\"\n  slipway disapprove 37dbd137b9121c1c97fc6229b18c21a2",
		RunE: func(cmd *cobra.Command, args []string) error {
			o := site.Order{Verb: site.VerbDisapprove, Reason: reason}
			if site.IsDigest(args[0]) {
				o.Digest = args[0]
			} else {
				o.Node = args[0]
			}
			return a.order(cmd.Context(), f, o)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	f.add(cmd)
	return cmd
}

func (a *app) takeOverCommand() *cobra.Command {
	var f orderFlags
	var reason string
	cmd := &cobra.Command{
		Use: "take-over --reason TEXT", Short: "take over a site from a daemon that is gone", Args: exactly(0),
		Long: "The status branch says which daemon acts for a site. A daemon whose records are a copy,\n" +
			"or were restored from a backup, stops when it finds that another one acted later. If\n" +
			"that other one is gone forever, this command makes the present one continue. All earlier\n" +
			"approvals end.\n" + exitHelp,
		Example: "  slipway take-over --reason \"the old host is scrapped, records restored from Friday\"",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reason == "" {
				return usage("take-over needs --reason: two daemons for one site harm its machines")
			}
			return a.order(cmd.Context(), f, site.Order{Verb: site.VerbTakeOver, Reason: reason})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why the other daemon is gone")
	f.add(cmd)
	return cmd
}

// nodeOrder makes a command of an order for one node or for all of them. What
// more an order says, and what keeps it from being given, is for more to say.
func (a *app) nodeOrder(v site.Verb, all string, cmd *cobra.Command, more func(*site.Order) error) *cobra.Command {
	var f orderFlags
	var every bool
	cmd.Args = atMost(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := target(v, args, every)
		if err == nil {
			err = more(&o)
		}
		if err != nil {
			return err
		}
		return a.order(cmd.Context(), f, o)
	}
	cmd.Flags().BoolVar(&every, "all", false, all)
	f.add(cmd)
	return cmd
}

func nothingMore(*site.Order) error { return nil }

func (a *app) pauseCommand() *cobra.Command {
	var reason string
	var span time.Duration
	cmd := &cobra.Command{
		Use: "pause (NODE | --all) --reason TEXT", Short: "stop changing a node, or the whole site",
		Long: "Slipway observes a paused node and does not write to it. What is in progress on its\n" +
			"machine stops before the next request, and continues when the pause ends.\n" + exitHelp,
		Example: "  slipway pause compute-3 --reason \"disk is being replaced\" --for 2h\n  slipway pause --all --reason \"power works in row A\"",
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	cmd.Flags().DurationVar(&span, "for", 0, "end the pause after this time, such as 2h")
	return a.nodeOrder(site.VerbPause, "the whole site", cmd, func(o *site.Order) error {
		if reason == "" {
			return usage("pause needs --reason: those who find the node paused will want to know")
		}
		if cmd.Flags().Changed("for") {
			if span <= 0 {
				return usage("--for takes a time such as 2h, not %s; without it the pause lasts until slipway resume", span)
			}
			o.Until = time.Now().Add(span)
		}
		o.Reason = reason
		return nil
	})
}

func (a *app) resumeCommand() *cobra.Command {
	return a.nodeOrder(site.VerbResume, "the whole site", &cobra.Command{
		Use: "resume (NODE | --all)", Short: "end a pause",
		Long: "Ends a pause that was made with slipway pause. A commit ends a pause that is in the\n" +
			"design.\n" + exitHelp,
		Example: "  slipway resume compute-3",
	}, nothingMore)
}

func (a *app) quarantineCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "quarantine (NODE | --all) --reason TEXT", Short: "switch a machine off at once and keep it off",
		Long: "Stops what is in progress on the machine before its next request, switches the machine\n" +
			"off without asking its operating system, and verifies that it is off. Overrides windows,\n" +
			"limits, needs and the design, and works while the repository cannot be reached. The\n" +
			"machine stays off until slipway release.\n" + exitHelp,
		Example: "  slipway quarantine compute-3 --reason \"found a shell that nobody opened\"",
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return a.nodeOrder(site.VerbQuarantine, "every machine of the site", cmd, func(o *site.Order) error {
		if reason == "" {
			return usage("quarantine needs --reason: those who find the machine off will want to know")
		}
		o.Reason = reason
		return nil
	})
}

func (a *app) releaseCommand() *cobra.Command {
	var incident string
	cmd := &cobra.Command{
		Use: "release (NODE | --all)", Short: "end a quarantine",
		Long: "After this Slipway keeps the machine as designed: it powers the machine on if the design\n" +
			"says on. A node that is part of an incident takes the incident's name: Slipway has not\n" +
			"replaced its secrets, and has not erased it.\n" + exitHelp,
		Example: "  slipway release compute-3\n  slipway release compute-3 --incident shell-in-rack-2",
	}
	cmd.Flags().StringVar(&incident, "incident", "", "the incident that the node is part of")
	return a.nodeOrder(site.VerbRelease, "every machine of the site", cmd, func(o *site.Order) error {
		o.Incident = incident
		return nil
	})
}

func (a *app) retryCommand() *cobra.Command {
	var f orderFlags
	cmd := &cobra.Command{
		Use: "retry [NODE]", Short: "try a node, or all of them, again now", Args: atMost(1),
		Long: "Retries now instead of waiting, tries a refused credential once more, and looks at the\n" +
			"repository. Without a node it also continues a halted rollout.\n" + exitHelp,
		Example: "  slipway retry compute-3",
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := target(site.VerbRetry, args, len(args) == 0)
			if err != nil {
				return err
			}
			return a.order(cmd.Context(), f, o)
		},
	}
	f.add(cmd)
	return cmd
}

// target makes an order for a node or, if all is said, for the whole site.
func target(v site.Verb, args []string, all bool) (site.Order, error) {
	if (len(args) == 1) == all {
		return site.Order{}, usage("%s takes either a node or --all", v)
	}
	o := site.Order{Verb: v}
	if len(args) == 1 {
		o.Node = args[0]
	}
	return o, nil
}
