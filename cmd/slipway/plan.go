package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/incident"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/say"
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
		Long: "Plans the design in a folder against what the daemon last saw of the machines, or, with\n" +
			"--observe, against what it sees of them now. Writes to no machine. Without a daemon and\n" +
			"without --observe the machines count as never seen. Without a daemon Slipway does not\n" +
			"know what was installed before. To plan a branch that was pushed, use slipway commits.\n" + exitHelp,
		Example:     "  slipway plan site-example\n  slipway plan --observe --credentials /etc/slipway/credentials site-example\n  slipway plan --output markdown site-example",
		Annotations: map[string]string{outputs: "text json markdown"},
		RunE:        func(cmd *cobra.Command, args []string) error { return a.plan(cmd.Context(), folder(args), f) },
	}
	cmd.Flags().StringVar(&f.site, "site", "", "the site's name, when the repository has several")
	cmd.Flags().BoolVar(&f.observe, "observe", false, "look at the machines now")
	cmd.Flags().BoolVar(&f.detailed, "detailed-exitcode", false, "exit 0 when there is nothing to do, 2 when there is, 5 when machines were not seen")
	addDaemon(cmd, &f.state)
	addCredentials(cmd, &f.credentials)
	return cmd
}

func (a *app) plan(ctx context.Context, path string, f planFlags) error {
	if err := checkHelpers(helperFolder()); err != nil {
		return err
	}
	path, f.site = located(path, f.site)
	rev, r, err := evaluateDir(ctx, path, f.site)
	if err != nil {
		return err
	}
	if r.Site == nil {
		return a.refuse(rev.Files, r)
	}
	known, noDaemon := daemonAt(f.state).Known(ctx, r.Site.Name)
	if !place(&r, known.Placed) {
		return a.refuse(rev.Files, r)
	}
	basis, err := a.basis(ctx, r.Site, f, known, noDaemon)
	if err != nil {
		return err
	}
	now := time.Now()
	p := plan.Site(r.Site, rev.ID, basis.known)
	var rights []string
	if basis.recorded {
		daemon := daemonAt(f.state)
		defer daemon.Close()
		if in, err := daemon.Access(ctx, r.Site.Name); err == nil { // an older daemon knows of none
			more, less := access.Changes(in.Design, r.Site.Granted())
			rights = slices.Concat(more, less)
		}
		addContents(&p, r.Site, basis.known, func(node, key string) (item.Content, error) { return daemon.File(ctx, r.Site.Name, node, key) })
		addDrives(&p, basis.known, func(node string) (site.Closeup, error) { return daemon.Closeup(ctx, r.Site.Name, node) })
	}
	p.Forecast = rollout.Forecast(r.Site, &p, basis.known, now)
	if !basis.recorded {
		plan.Doubt(&p, basis.known)
	}
	unseen := unseen(r.Site, &p, basis.failures)
	view := present.View{Site: r.Site, Known: basis.known, Now: now, Paint: planPaint(a.out), Width: a.out.Columns()}
	switch a.output {
	case "json":
		err = a.out.JSON(planned{p, set(&p, basis.known), present.Destroyed(&p, basis.known), present.Differences(&p, view), unseen})
	case "markdown":
		present.Comment(a.out.Lines(), &site.Review{Site: r.Site.Name, Plan: p, Findings: r.Findings, Incidents: incident.New(nil, r.Site, basis.known.Delivered)}, view)
	default:
		if len(unseen) > 0 {
			a.out.Printf("Unknown: %d of %d machines were not seen (%s). Slipway does not know what would change on them.\n", len(unseen), len(r.Site.Nodes), say.Some(unseen, 8))
		}
		a.out.Printf("Plan for site %s at %s, %s\n\n", r.Site.Name, path, basis.text)
		present.Text(a.out.Lines(), &p, view)
		a.listed("Who may do more or less than by the design in force. More counts once `slipway grant` has approved it:", rights)
		a.listed("Incidents in this design (slipway incident shows what was done about them):", incident.New(nil, r.Site, basis.known.Delivered))
	}
	switch {
	case err != nil || !f.detailed:
		return err
	case changesWhatWasSeen(&p, unseen):
		return errChanges
	case len(unseen) > 0:
		return errUnknown
	}
	return nil
}

// listed shows lines below a sentence, and nothing where there are none.
func (a *app) listed(sentence string, lines []string) {
	if len(lines) == 0 {
		return
	}
	a.out.Println()
	a.out.Println(sentence)
	for _, line := range lines {
		a.out.Println("-", line)
	}
}

// changesWhatWasSeen says whether there is something to do that does not rest on a
// guess.
func changesWhatWasSeen(p *site.Plan, unseen []string) bool {
	return len(p.Removes) > 0 || slices.ContainsFunc(p.Nodes, func(n site.NodePlan) bool {
		return len(n.Steps) > 0 && !slices.Contains(unseen, n.Node)
	})
}

// unseen are the nodes on whose machines the plan says nothing: they were never
// seen, or could not be seen now. Those that nothing is done to are left out.
func unseen(s *site.Site, p *site.Plan, failures map[string]error) []string {
	var names []string
	for _, n := range p.Nodes {
		of := s.Nodes[n.Node]
		if _, failed := failures[n.Node]; (failed || n.Seen.IsZero()) && s.Unused(of) == "" && of.Away == "" {
			names = append(names, n.Node)
		}
	}
	return names
}

// planned is a plan as JSON, with the set of what it destroys, and the nodes whose
// machines were not seen.
type planned struct {
	site.Plan
	Set      string                `json:"set,omitempty"`
	Destroys []present.Destruction `json:"destroys,omitempty"`
	// Differences are those of files.
	Differences []present.Difference `json:"differences,omitempty"`
	Unseen      []string             `json:"unseen,omitempty"`
}

// addContents puts what is in the files that a plan changes into what is known: a
// daemon tells of them one at a time. Of nodes that change alike it is asked of one.
func addContents(p *site.Plan, s *site.Site, known site.Known, ask func(node, key string) (item.Content, error)) {
	for _, d := range present.Differences(p, present.View{Site: s, Known: known}) {
		node, key := d.Nodes[0], item.KindFiles+"."+d.Path
		m := known.Nodes[node]
		seen, ok := m.Observed.Facets[site.FacetConfig]
		if _, told := seen.Contents[key]; !ok || told || d.Text != "" {
			continue
		}
		c, err := ask(node, key)
		if err != nil {
			continue // the plan says that it was not read
		}
		seen.Contents = maps.Clone(seen.Contents)
		if seen.Contents == nil {
			seen.Contents = map[string]item.Content{}
		}
		seen.Contents[key] = c
		m.Observed.Facets[site.FacetConfig] = seen
	}
}

func set(p *site.Plan, k site.Known) string {
	if waiting := plan.Unapproved(p.Destroys(), k); len(waiting) > 0 {
		return waiting.Digest()
	}
	return ""
}

// basis is what a plan rests on, and a phrase that says so. Without records
// nobody knows what was installed before.
type basis struct {
	known    site.Known
	text     string
	recorded bool
	failures map[string]error // of machines that were looked at now
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
	return basis{known: known, text: "as last observed by the daemon" + oldest(known.Nodes), recorded: true}, nil
}

// noRecords says why no daemon tells of a site.
func noRecords(f planFlags, err error) string {
	switch {
	case errors.Is(err, control.ErrNoDaemon):
		return "no daemon answers in " + f.state
	case errors.Is(err, site.ErrNotFound):
		return "the daemon in " + f.state + " manages another site"
	}
	return err.Error()
}

// neverSeen is what is known without a daemon and without a look.
func neverSeen() site.Known { return site.Known{Serves: serves(drivers(helpers()), true)} }

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
	secrets, err := a.openCredentials(f.credentials)
	if err != nil {
		return basis{}, err
	}
	secrets.InForce(s)
	seen, failures := a.lookAtAll(ctx, s, known.Nodes, secrets)
	if err := ctx.Err(); err != nil {
		return basis{}, err
	}
	text := fmt.Sprintf("as observed now (%d of %d machines seen)", len(s.Nodes)-len(failures), len(s.Nodes))
	if noDaemon != nil {
		known = neverSeen()
		known.Nodes = withProofs(s, seen)
		return basis{known: known, text: text + ", without records: " + noRecords(f, noDaemon) + placedAnew(s), failures: failures}, nil
	}
	return basis{known: over(known, seen), text: text + ", with the daemon's records", recorded: true, failures: failures}, nil
}

// withProofs adds the installations that the systems on the machines prove by
// the site's signature, as a daemon without records would.
func withProofs(s *site.Site, seen map[string]site.Memory) map[string]site.Memory {
	for name, m := range seen {
		m.Recorded.Installed = engine.ProvenInstallation(s.Keys, s.Name, s.Nodes[name], m.Observed)
		seen[name] = m
	}
	return seen
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
			a.err.Printf("slipway: %s was not seen: %s\n", name, whyNotSeen(err))
		}
	}
	return seen, failures
}

// whyNotSeen is what an error of a driver means, with its own text after that: no daemon keeps it for `slipway why`.
func whyNotSeen(err error) string {
	if plain := driver.PlainOf(err); plain != "" && !strings.HasSuffix(err.Error(), plain) {
		return plain + " (" + err.Error() + ")"
	}
	return err.Error()
}
