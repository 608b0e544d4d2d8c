package main

import (
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

func (a *app) historyCommand() *cobra.Command {
	var f orderFlags
	var search string
	cmd := &cobra.Command{
		Use: "history [NODE]", Short: "show what happened to a node, or to the site", Args: atMost(1),
		Long: "Shows the last events of a node, oldest first: its states and their reasons, each step\n" +
			"with how long it took, and who gave which command. Without a node, shows those of the\n" +
			"site: revisions, rollouts, and all commands. The daemon keeps 32 events of a node and\n" +
			"256 of the site, also over restarts.\n" + exitHelp,
		Example: "  slipway history compute-5\n  slipway history --search \"rollout halted\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			node := ""
			if len(args) == 1 {
				node = args[0]
			}
			daemon := daemonAt(f.state)
			defer daemon.Close()
			events, err := daemon.FindHistory(cmd.Context(), f.site, node, search)
			if err != nil {
				return err
			}
			if len(events) == 0 && search != "" && a.output != "json" {
				return a.out.Println("no event that is kept has this text")
			}
			return a.printEvents(events)
		},
	}
	addSearch(cmd, &search)
	f.add(cmd)
	return cmd
}

// addSearch adds the flag that every list has which can be searched.
func addSearch(cmd *cobra.Command, search *string) {
	cmd.Flags().StringVar(search, "search", "", "only entries with this text, in upper or lower case")
}

func (a *app) printEvents(events []site.Event) error {
	if a.output == "json" {
		return a.out.JSON(append([]site.Event{}, events...))
	}
	if len(events) == 0 {
		a.out.Println("nothing has happened yet")
		return nil
	}
	columns := []any{"when", "what", "", "took"}
	t := newTable(columns...)
	for _, e := range events {
		t.AppendRow(table.Row{e.When.Local().Format(time.DateTime), kindOf(a.out, e), present.EventLine(e), took(e)})
	}
	a.out.Println(t.Render())
	return nil
}

func (a *app) eventsCommand() *cobra.Command {
	var f orderFlags
	var follow bool
	cmd := &cobra.Command{
		Use: "events", Short: "show what happens at a site", Args: exactly(0),
		Long: "Shows the latest events of all nodes since the daemon started, oldest first; with\n" +
			"--follow also every new one, until interrupted. One event is one line.\n" + exitHelp,
		Example: "  slipway events --follow",
		RunE: func(cmd *cobra.Command, _ []string) error {
			daemon := daemonAt(f.state)
			defer daemon.Close()
			events, err := daemon.Events(cmd.Context(), f.site, 0)
			if err != nil {
				return err
			}
			last := uint64(0)
			for _, e := range events {
				a.printEvent(e)
				last = e.Seq
			}
			if !follow {
				return nil
			}
			return daemon.Follow(cmd.Context(), f.site, last, a.printEvent)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show every further event until interrupted")
	f.add(cmd)
	return cmd
}

func (a *app) printEvent(e site.Event) {
	if a.output == "json" {
		a.out.JSON(e)
		return
	}
	who := e.Node
	if who == "" {
		who = "site"
	}
	line := fmt.Sprintf("%s  %-16s %s  %s", e.When.Local().Format(time.DateTime), who, kindOf(a.out, e), present.EventLine(e))
	if t := took(e); t != "" {
		line += " (" + t + ")"
	}
	a.out.Println(line)
}

var eventColours = map[site.EventKind]text.Color{
	site.EventFailed: text.FgRed, site.EventDone: text.FgGreen, site.EventOrder: text.FgMagenta,
	site.EventRollout: text.FgCyan, site.EventDesign: text.FgCyan,
}

func kindOf(w *screen, e site.Event) string {
	padded := fmt.Sprintf("%-7s", e.Kind)
	if c, ok := eventColours[e.Kind]; ok {
		return paint(w, c)(padded)
	}
	return padded
}

func took(e site.Event) string {
	switch {
	case e.Took == 0:
		return ""
	case time.Duration(e.Took) < time.Second:
		return "<1s"
	}
	return time.Duration(e.Took).Round(time.Second).String()
}
