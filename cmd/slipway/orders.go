package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/site"
)

// orderFlags say to whom an order goes.
type orderFlags struct{ site, state string }

func (f *orderFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.site, "site", "", "the site's name, when the daemon keeps several")
	addState(cmd, &f.state)
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
		return printJSON(a.out, map[string]string{"done": done})
	}
	_, err = fmt.Fprintln(a.out, done)
	return err
}

// digest is how a set of destruction is named.
var digest = regexp.MustCompile(`^[0-9a-f]{16}$`)

func (a *app) approveCommand() *cobra.Command {
	var f orderFlags
	var note string
	cmd := &cobra.Command{
		Use: "approve [DIGEST | NODE]", Short: "approve what is to be destroyed", Args: atMost(1),
		Long: "Without an argument, shows what waits for approval. With the digest of a set,\n" +
			"approves exactly what it names. With a node, lets its first disruption, or its held\n" +
			"removal from the design, go on.\n" + exitHelp,
		Example: "  slipway approve\n  slipway approve 6df7f58f529ec1a0 --note \"seen with Ana\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.showWaiting(f)
			}
			o := site.Order{Verb: site.VerbApprove, Reason: note}
			if digest.MatchString(args[0]) {
				o.Digest = args[0]
			} else {
				o.Node = args[0]
			}
			err := a.order(cmd.Context(), f, o)
			if o.Node != "" && errors.Is(err, site.ErrNotFound) {
				return fmt.Errorf("%w, and a digest has 16 digits; slipway approve alone shows what waits", err)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "a note for the record")
	f.add(cmd)
	return cmd
}

func (a *app) showWaiting(f orderFlags) error {
	daemon := daemonAt(f.state)
	defer daemon.Close()
	r, err := daemon.Report(f.site)
	if err != nil {
		return err
	}
	if a.output == "json" {
		return printJSON(a.out, map[string]any{"digest": r.Status.Approve, "waiting": append(site.Losses{}, r.Status.Waiting...)})
	}
	if len(r.Status.Waiting) == 0 {
		fmt.Fprintln(a.out, "nothing waits for approval")
		return nil
	}
	printWaiting(a.out, &r.Status)
	return nil
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
		Use: "pause (NODE | --all) --reason TEXT", Short: "keep every hand off a node, or the whole site",
		Long:    "A paused node is observed and not written to. What is under way on its machine ends\nbefore the next request, and is joined when the pause ends.\n" + exitHelp,
		Example: "  slipway pause compute-3 --reason \"disk is being replaced\" --for 2h\n  slipway pause --all --reason \"power works in row A\"",
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	cmd.Flags().DurationVar(&span, "for", 0, "ends by itself after this time, such as 2h")
	return a.nodeOrder(site.VerbPause, "the whole site", cmd, func(o *site.Order) error {
		if reason == "" {
			return usage("pause needs --reason: those who find the node paused will want to know")
		}
		if cmd.Flags().Changed("for") {
			if span <= 0 {
				return usage("--for is a time to come, such as 2h, not %s; without it the pause lasts until slipway resume", span)
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
		Long:    "Ends a pause that was made with slipway pause; one in the design ends by a commit.\n" + exitHelp,
		Example: "  slipway resume compute-3",
	}, nothingMore)
}

func (a *app) quarantineCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "quarantine (NODE | --all) --reason TEXT", Short: "switch a machine off at once and keep it off",
		Long: "Ends what is under way on the machine before its next request, switches it off\n" +
			"without asking its operating system, and verifies that it is off. No window, bound,\n" +
			"need or design keeps it from that, nor does a repository that is away. It stays off\n" +
			"until slipway release.\n" + exitHelp,
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
	return a.nodeOrder(site.VerbRelease, "every machine of the site", &cobra.Command{
		Use: "release (NODE | --all)", Short: "end a quarantine",
		Long:    "From then on the machine is kept as its design says, so it is powered on where that\nwants it on.\n" + exitHelp,
		Example: "  slipway release compute-3",
	}, nothingMore)
}

func (a *app) retryCommand() *cobra.Command {
	var f orderFlags
	cmd := &cobra.Command{
		Use: "retry [NODE]", Short: "try a node, or all of them, again now", Args: atMost(1),
		Long:    "Ends every wait between tries, tries a refused credential once more, and looks at\nthe repository. Without a node it lets a halted rollout go on.\n" + exitHelp,
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
