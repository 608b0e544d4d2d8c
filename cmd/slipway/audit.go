package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/site"
)

func (a *app) auditCommand() *cobra.Command {
	var f orderFlags
	var all bool
	var search string
	cmd := &cobra.Command{
		Use: "audit", Short: "show who tried to do what", Args: exactly(0),
		Long: "Shows the latest attempts to have the daemon do something, oldest first: who tried, how the\n" +
			"daemon knew them, from where, what they asked and what came of it. Denied attempts are\n" +
			"included. The daemon keeps some thousand attempts, also over restarts: docs/api-access.md\n" +
			"says how many of each kind.\n" + exitHelp,
		Example: "  slipway audit\n  slipway audit --search ana@example.org\n  slipway audit --all --output json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			daemon := daemonAt(f.state)
			defer daemon.Close()
			entries, err := daemon.Audit(cmd.Context(), f.site, 0, search)
			if err != nil {
				return err
			}
			if !all {
				entries = entries[max(0, len(entries)-auditShown):]
			}
			if len(entries) == 0 && search != "" && a.output != "json" {
				return a.out.Println("no entry that is kept has this text")
			}
			return a.printAudit(entries)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, fmt.Sprintf("show all that is kept, not the last %d", auditShown))
	addSearch(cmd, &search)
	f.add(cmd)
	return cmd
}

// auditShown is how many attempts are shown unless all are asked for.
const auditShown = 50

func (a *app) printAudit(entries []site.AuditEntry) error {
	if a.output == "json" {
		return a.out.JSON(append([]site.AuditEntry{}, entries...))
	}
	if len(entries) == 0 {
		return a.out.Println("nobody has tried anything yet")
	}
	t := newTable("when", "who", "from", "what", "outcome", "")
	for _, e := range entries {
		who := e.Kind
		if e.By != "" {
			who = e.By + " (" + strings.TrimSpace(e.Kind+" "+e.Issuer) + ")"
		}
		what := e.Verb
		for _, more := range []string{e.Node, e.Digest} {
			if more != "" {
				what += " " + more
			}
		}
		outcome := string(e.Outcome)
		if e.Times > 1 {
			outcome = fmt.Sprintf("%s %d times", outcome, e.Times)
		}
		from := e.From
		if from == "" {
			from = "socket"
		}
		t.AppendRow(table.Row{e.When.Local().Format(time.DateTime), who, from, what, outcome, e.Text})
	}
	return a.out.Println(t.Render())
}
