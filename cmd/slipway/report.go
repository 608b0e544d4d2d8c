package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitereport"
)

// reportForms are the forms of a report, the first without --format.
var reportForms = []struct {
	name  string
	write func(io.Writer, sitereport.Facts) error
}{{"html", sitereport.HTML}, {"markdown", sitereport.Markdown}}

func (a *app) reportCommand() *cobra.Command {
	var f orderFlags
	var out, form string
	cmd := &cobra.Command{
		Use: "report [--out FILE]", Short: "write the state of a site as one page, for a ticket or an audit", Args: exactly(0),
		Long: "Writes what the daemon knows as one page: the verdict, every node with its state and reason,\n" +
			"the rollout, what waits for approval and what was approved, findings, parts of the design\n" +
			"that are not acted on, and the latest events. HTML is one file without scripts that prints\n" +
			"well; Markdown is for tickets. A page is bounded and says what it leaves out; for\n" +
			"everything use `slipway status --output json`.\n" + exitHelp,
		Example: "  slipway report --out berlin.html\n  slipway report --format markdown",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.report(cmd.Context(), f, out, form) },
	}
	cmd.Flags().StringVar(&out, "out", "", "`FILE` to write, which is replaced; without it the page is printed")
	cmd.Flags().StringVar(&form, "format", reportForms[0].name, "html or markdown")
	f.add(cmd)
	return cmd
}

func (a *app) report(ctx context.Context, f orderFlags, out, form string) error {
	var write func(io.Writer, sitereport.Facts) error
	for _, known := range reportForms {
		if known.name == form {
			write = known.write
		}
	}
	if write == nil {
		return usage("--format is html or markdown, not %q", form)
	}
	daemon := daemonAt(f.state)
	defer daemon.Close()
	r, err := daemon.Report(ctx, f.site)
	if err != nil {
		return err
	}
	events, err := daemon.Events(ctx, f.site, 0)
	if err != nil {
		return err
	}
	if a.output == "json" {
		return a.out.JSON(r)
	}
	chart, err := daemon.Chart(ctx, f.site)
	if err != nil {
		return err
	}
	design, err := daemon.Design(ctx, f.site)
	if err != nil && !errors.Is(err, site.ErrNotFound) { // before the first design
		return err
	}
	var page bytes.Buffer
	if err := write(&page, sitereport.Facts{Report: r, Events: events, Chart: chart, Racks: design.Racks, Version: thisVersion().Version, Made: time.Now()}); err != nil {
		return err
	}
	if out == "" {
		return a.out.Lay(page.String())
	}
	if err := replaceFile(out, page.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}
