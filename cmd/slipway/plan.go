package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

type planFlags struct {
	site, state, credentials string
	observe, detailed        bool
}

func (a *app) planCommand() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use: "plan [DIR]", Short: "show what would be done to which machine", Args: atMost(1),
		Long: "Plans the design in a folder against what the daemon last saw of the machines, or,\n" +
			"with --observe, against what is seen of them now. Nothing is written to a machine.\n" +
			"Without a daemon and without --observe the machines count as never seen.\n" + exitHelp,
		Example: "  slipway plan site-example\n  slipway plan --observe --credentials /etc/slipway/credentials site-example",
		RunE:    func(cmd *cobra.Command, args []string) error { return a.plan(cmd.Context(), folder(args), f) },
	}
	cmd.Flags().StringVar(&f.site, "site", "", "the site's name, when the repository has several")
	cmd.Flags().BoolVar(&f.observe, "observe", false, "look at the machines now, without a daemon")
	cmd.Flags().BoolVar(&f.detailed, "detailed-exitcode", false, "exit 0 when there is nothing to do, 2 when there is")
	addState(cmd, &f.state)
	addCredentials(cmd, &f.credentials)
	return cmd
}

func (a *app) plan(ctx context.Context, path string, f planFlags) error {
	rev, r, err := evaluateDir(ctx, path, f.site)
	if err != nil {
		return err
	}
	if r.Site == nil {
		return a.refuse(rev.Files, r)
	}
	known, basis, err := a.known(ctx, r.Site, f)
	if err != nil {
		return err
	}
	p := plan.Site(r.Site, rev.ID, known)
	if a.output == "json" {
		err = printJSON(a.out, p)
	} else {
		fmt.Fprintf(a.out, "Plan for site %s at %s, %s\n\n", r.Site.Name, path, basis)
		plan.Text(a.out, &p, plan.View{Site: r.Site, Known: known, Now: time.Now(), Paint: planPaint(a.out)})
	}
	if err == nil && f.detailed && !p.Empty() {
		return errChanges
	}
	return err
}

// known is what the plan rests on, and a phrase that says so.
func (a *app) known(ctx context.Context, s *site.Site, f planFlags) (site.Known, string, error) {
	if f.observe {
		return a.observed(ctx, s, f)
	}
	known, err := daemonAt(f.state).Known(s.Name)
	switch {
	case errors.Is(err, control.ErrNoDaemon):
		return neverSeen(), fmt.Sprintf("against machines never seen: no daemon answers in %s (--observe looks at them)", f.state), nil
	case errors.Is(err, site.ErrNotFound):
		return neverSeen(), fmt.Sprintf("against machines never seen: the daemon in %s keeps another site", f.state), nil
	case err != nil:
		return site.Known{}, "", err
	}
	return known, "as last observed by the daemon" + oldest(known.Nodes), nil
}

// neverSeen is what is known without a daemon and without a look.
func neverSeen() site.Known { return site.Known{Serves: driver.Serves(drivers())} }

// oldest says how old the oldest of the observations is.
func oldest(known map[string]site.Memory) string {
	var t time.Time
	for _, m := range known {
		if seen := m.Observed.Seen(); !seen.IsZero() && (t.IsZero() || seen.Before(t)) {
			t = seen
		}
	}
	if t.IsZero() {
		return ""
	}
	return ", at most " + age(t) + " ago"
}

// observed looks at the machines.
func (a *app) observed(ctx context.Context, s *site.Site, f planFlags) (site.Known, string, error) {
	if f.credentials == "" {
		return site.Known{}, "", usage("--observe needs --credentials: the folder with the accounts to look with")
	}
	secrets, err := secret.Open(f.credentials)
	if err != nil {
		return site.Known{}, "", err
	}
	show := isTerminal(a.err)
	known := neverSeen()
	var failures map[string]error
	known.Nodes, failures = look(ctx, s, secrets, func(done, all int) {
		if show {
			fmt.Fprintf(a.err, "\rlooking at machines %d/%d", done, all)
		}
	})
	if show {
		fmt.Fprint(a.err, "\r"+text.EraseLine.Sprint()+"\r")
	}
	for _, name := range s.NodeNames() {
		if err := failures[name]; err != nil {
			fmt.Fprintf(a.err, "slipway: %s was not seen: %v\n", name, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return site.Known{}, "", err
	}
	return known, fmt.Sprintf("as observed now (%d of %d machines seen)", len(s.Nodes)-len(failures), len(s.Nodes)), nil
}
