package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

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
			"Without a daemon and without --observe the machines count as never seen; without a\n" +
			"daemon nobody knows what was installed before.\n" + exitHelp,
		Example:     "  slipway plan site-example\n  slipway plan --observe --credentials /etc/slipway/credentials site-example\n  slipway plan --output markdown site-example",
		Annotations: map[string]string{outputs: "text json markdown"},
		RunE:        func(cmd *cobra.Command, args []string) error { return a.plan(cmd.Context(), folder(args), f) },
	}
	cmd.Flags().StringVar(&f.site, "site", "", "the site's name, when the repository has several")
	cmd.Flags().BoolVar(&f.observe, "observe", false, "look at the machines now")
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
	known, noDaemon := daemonAt(f.state).Known(r.Site.Name)
	if !place(&r, known.Placed) {
		return a.refuse(rev.Files, r)
	}
	basis, err := a.basis(ctx, r.Site, f, known, noDaemon)
	if err != nil {
		return err
	}
	now := time.Now()
	p := plan.Site(r.Site, rev.ID, basis.known)
	if basis.recorded {
		daemon := daemonAt(f.state)
		defer daemon.Close()
		addDrives(&p, basis.known, func(node string) (site.Closeup, error) { return daemon.Closeup(ctx, r.Site.Name, node) })
	}
	p.Forecast = plan.Forecast(r.Site, &p, basis.known, now)
	if !basis.recorded {
		plan.Doubt(&p, basis.known)
	}
	view := plan.View{Site: r.Site, Known: basis.known, Now: now, Paint: planPaint(a.out), Width: columns(a.out)}
	switch a.output {
	case "json":
		err = printJSON(a.out, planned{p, set(&p), plan.Destroyed(&p, basis.known)})
	case "markdown":
		plan.Comment(a.out, &site.Review{Site: r.Site.Name, Plan: p, Findings: r.Findings}, view)
	default:
		fmt.Fprintf(a.out, "Plan for site %s at %s, %s\n\n", r.Site.Name, path, basis.text)
		plan.Text(a.out, &p, view)
	}
	if err == nil && f.detailed && !p.Empty() {
		return errChanges
	}
	return err
}

// planned is a plan as JSON, with the set of what it destroys.
type planned struct {
	site.Plan
	Set      string             `json:"set,omitempty"`
	Destroys []plan.Destruction `json:"destroys,omitempty"`
}

func set(p *site.Plan) string {
	if all := p.Destroys(); len(all) > 0 {
		return all.Digest()
	}
	return ""
}

// basis is what a plan rests on, and a phrase that says so. Without records
// nobody knows what was installed before.
type basis struct {
	known    site.Known
	text     string
	recorded bool
}

// basis is made of what a daemon knows, or of nothing where noDaemon says why
// none tells.
func (a *app) basis(ctx context.Context, s *site.Site, f planFlags, known site.Known, noDaemon error) (basis, error) {
	if f.observe {
		return a.observed(ctx, s, f, known, noDaemon)
	}
	switch {
	case isNoDaemon(noDaemon):
		return basis{known: neverSeen(), text: fmt.Sprintf("against machines never seen: %s (--observe looks at them)%s", noRecords(f, noDaemon), placedAnew(s))}, nil
	case noDaemon != nil:
		return basis{}, noDaemon
	}
	return basis{known, "as last observed by the daemon" + oldest(known.Nodes), true}, nil
}

// noRecords says why no daemon tells of a site.
func noRecords(f planFlags, err error) string {
	switch {
	case errors.Is(err, control.ErrNoDaemon):
		return "no daemon answers in " + f.state
	case errors.Is(err, site.ErrNotFound):
		return "the daemon in " + f.state + " keeps another site"
	}
	return err.Error()
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

// observed looks at the machines, and puts what is seen over what a daemon
// knows, if one does.
func (a *app) observed(ctx context.Context, s *site.Site, f planFlags, known site.Known, noDaemon error) (basis, error) {
	if f.credentials == "" {
		return basis{}, usage("--observe needs --credentials: the folder with the accounts to look with")
	}
	secrets, err := secret.Open(f.credentials)
	if err != nil {
		return basis{}, err
	}
	seen, failures := a.lookAtAll(ctx, s, known.Nodes, secrets)
	if err := ctx.Err(); err != nil {
		return basis{}, err
	}
	text := fmt.Sprintf("as observed now (%d of %d machines seen)", len(s.Nodes)-len(failures), len(s.Nodes))
	if noDaemon != nil {
		known = neverSeen()
		known.Nodes = seen
		return basis{known: known, text: text + ", without records: " + noRecords(f, noDaemon) + placedAnew(s)}, nil
	}
	return basis{over(known, seen), text + ", with the daemon's records", true}, nil
}

// over is what is known, with what was seen now put over it.
func over(known site.Known, seen map[string]site.Memory) site.Known {
	nodes := maps.Clone(known.Nodes)
	if nodes == nil {
		nodes = map[string]site.Memory{}
	}
	for name, m := range seen {
		node := nodes[name]
		node.Observed = node.Observed.Merge(m.Observed)
		nodes[name] = node
	}
	known.Nodes = nodes
	return known
}

// lookAtAll looks at all machines, shows how far it is, and says which it could
// not see.
func (a *app) lookAtAll(ctx context.Context, s *site.Site, memory map[string]site.Memory, secrets *secret.Store) (map[string]site.Memory, map[string]error) {
	told, ended := a.progress()
	seen, failures := look(ctx, s, memory, secrets, func(done, all int) { told("looking at machines", done, all) })
	ended()
	for _, name := range s.NodeNames() {
		if err := failures[name]; err != nil {
			fmt.Fprintf(a.err, "slipway: %s was not seen: %v\n", name, err)
		}
	}
	return seen, failures
}
