package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/present"
)

// rolloutRows is how many nodes are shown without --all.
const rolloutRows = 40

func (a *app) rolloutCommand() *cobra.Command {
	var f orderFlags
	var all bool
	cmd := &cobra.Command{
		Use: "rollout", Short: "show a rollout over time, with its forecast", Args: exactly(0),
		Long: "Shows the rollout under way, or the last one: a bar for each node with when it began and\n" +
			"ended, what it does or waits for, whom it waits for and what would release it, and when\n" +
			"the rest is expected. The forecast asks the same rules that let the daemon begin a step.\n" +
			"What is not known is a question mark. All times are UTC.\n" + exitHelp,
		Example:     "  slipway rollout\n  slipway rollout --output svg > rollout.svg",
		Annotations: map[string]string{outputs: "text json svg"},
		RunE:        func(cmd *cobra.Command, _ []string) error { return a.rollout(cmd.Context(), f, all) },
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "show all nodes, not only the first 40")
	return cmd
}

func (a *app) rollout(ctx context.Context, f orderFlags, all bool) error {
	daemon := daemonAt(f.state)
	defer daemon.Close()
	chart, err := daemon.Chart(ctx, f.site)
	if err != nil {
		return err
	}
	switch a.output {
	case "json":
		return a.out.JSON(chart)
	case "svg":
		if chart.Since.IsZero() {
			return fmt.Errorf("site %s has had no rollout yet, so there is nothing to draw: the first one begins with a change of a machine", chart.Site)
		}
		present.Gantt(a.out.Data(), &chart, present.GanttView{StandAlone: true})
		return nil
	}
	view := present.RolloutView{Paint: planPaint(a.out), Width: a.out.Columns()}
	if !all {
		view.Rows = rolloutRows
	}
	present.RolloutText(a.out.Lines(), &chart, view)
	return nil
}
