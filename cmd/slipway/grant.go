package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/site"
)

func (a *app) grantCommand() *cobra.Command {
	var f orderFlags
	var reason string
	cmd := &cobra.Command{
		Use: "grant [DIGEST]", Short: "approve who may do what by the design", Args: atMost(1),
		Long: "Shows who may do more by the design in force (site.access) than was approved, with a digest.\n" +
			"With that digest it approves this. Only what was approved counts, and only as far as a line\n" +
			"\"design:\" in the access file of the daemon's host lets the design grant it. Rights that a\n" +
			"commit removes need no approval: they are gone once the commit has passed, also while it waits\n" +
			"for a rollout.\n" + exitHelp,
		Example: "  slipway grant\n  slipway grant 3f0c91d2ab5e4f60718293a4b5c6d7e8 --reason \"ana is on call for rack r1\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.showAccess(cmd.Context(), f)
			}
			return a.order(cmd.Context(), f, site.Order{Verb: site.VerbGrant, Digest: args[0], Reason: reason})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record and for others")
	f.add(cmd)
	return cmd
}

// showAccess shows what of the design's access waits for approval.
func (a *app) showAccess(ctx context.Context, f orderFlags) error {
	daemon := daemonAt(f.state)
	defer daemon.Close()
	r, err := daemon.Access(ctx, f.site)
	switch {
	case err != nil:
		return err
	case a.output == "json":
		return a.out.JSON(r)
	}
	if r.Waiting == "" {
		a.out.Println("Nothing waits: the design in force grants nothing that was not approved.")
	} else {
		a.out.Println("Not approved:")
		for _, line := range r.Changes {
			a.out.Println("-", line)
		}
		a.out.Printf("\nTo approve exactly this: slipway grant %s\n", r.Waiting)
	}
	if r.By != "" {
		a.out.Printf("Last approved by %s on %s.\n", r.By, r.When.Local().Format(time.DateTime))
	}
	return nil
}
