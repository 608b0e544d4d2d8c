package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

func (a *app) whyCommand() *cobra.Command {
	var name, state string
	cmd := &cobra.Command{
		Use: "why NODE", Short: "explain the state of a node", Args: exactly(1),
		Long: "Says in which state a node is and since when, what it waits for and what would release\n" +
			"it, what Slipway will do to its machine, and which line of the design asks for it.\n" + exitHelp,
		Example: "  slipway why compute-5",
		RunE:    func(cmd *cobra.Command, args []string) error { return a.why(cmd.Context(), state, name, args[0]) },
	}
	cmd.Flags().StringVar(&name, "site", "", "the site's name, when the daemon keeps several")
	addDaemon(cmd, &state)
	return cmd
}

// reasons is what why prints as JSON.
type reasons struct {
	Status  site.NodeStatus `json:"status"`
	Plan    site.NodePlan   `json:"plan,omitzero"`
	Release string          `json:"release,omitempty"`
	// Seen is when each facet was last seen.
	Seen map[site.Facet]time.Time `json:"seen,omitempty"`

	sensors site.Values // that are not well
}

func (a *app) why(ctx context.Context, state, siteName, node string) error {
	daemon := daemonAt(state)
	defer daemon.Close()
	siteName, err := daemon.SiteOf(ctx, siteName, node)
	if err != nil {
		return err
	}
	r, err := daemon.Report(ctx, siteName)
	if err != nil {
		return err
	}
	why, ok := reasonsFor(r, node)
	if !ok {
		return fmt.Errorf("site %s has no node %q: see slipway status --all", r.Status.Site, node)
	}
	if c, err := daemon.Closeup(ctx, siteName, node); err == nil {
		why.Seen = map[site.Facet]time.Time{}
		for f, state := range c.Observed.Facets {
			why.Seen[f] = state.Seen
		}
		why.sensors = c.Observed.Facets[site.FacetSensors].Have
	}
	if a.output == "json" {
		return a.out.JSON(why)
	}
	printReasons(a.out, why)
	return nil
}

func reasonsFor(r site.Report, node string) (why reasons, found bool) {
	for _, n := range r.Status.Nodes {
		if n.Name == node {
			why.Status, found = n, true
		}
	}
	for _, p := range r.Plan.Nodes {
		if p.Node == node {
			why.Plan = p
		}
	}
	why.Release = present.ReleaseOf(why.Status, time.Now())
	return why, found
}

func printReasons(w *screen, why reasons) {
	s := why.Status
	line := func(what, said string) {
		if said != "" {
			w.Printf("%-9s %s\n", what, said)
		}
	}
	w.Printf("%s is %s since %s (%s ago)\n", paint(w, text.Bold)(s.Name), paint(w, stateColour(s.State))(string(s.State)),
		s.Since.Local().Format(time.DateTime), age(s.Since))
	line("reason", s.Reason)
	line("cause", s.Cause)
	line("now", s.Detail)
	line("phase", s.Phase)
	line("releases", why.Release)
	line("machine", present.MachineOf(s.Machine))
	line("on", s.Hypervisor)
	line("power", present.PowerOf(&s, time.Now()))
	line("health", present.HealthOf(&s, time.Now()))
	line("system", present.SystemOf(s))
	line("login", present.LoginOf(s.Login))
	for _, password := range present.PasswordsOf(s.Passwords) {
		line("password", password)
	}
	if id := s.HostCertificates; id != nil {
		line("host keys", fmt.Sprintf("certified for %s, until %s", strings.Join(id.Names, ", "), id.Until.UTC().Format(time.DateOnly)))
	}
	for _, c := range s.Certificates {
		if c.IsInUse() {
			line("TLS", certificateLine(c))
		}
	}
	if s.SystemHealth.State != "" {
		line("service", s.SystemHealth.String())
	}
	if s.Links.State != "" {
		line("links", s.Links.String())
	}
	if s.Generation > 0 {
		line("installed", fmt.Sprintf("generation %d", s.Generation))
	}
	for _, name := range slices.Sorted(maps.Keys(why.sensors)) {
		line("sensor", name+" is "+why.sensors[name])
	}
	switch ages := present.FacetAges(why.Seen, time.Now()); {
	case s.Seen.IsZero():
		line("seen", "never")
	case ages != "":
		line("seen", ages)
	default:
		line("seen", age(s.Seen)+" ago")
	}
	for _, f := range s.Findings {
		line("finding", f.String())
	}
	if len(s.NotActedOn) > 0 {
		line("designed", "and not acted on: "+strings.Join(s.NotActedOn, ", "))
	}
	why.Plan.Findings = nil // are above
	if len(why.Plan.Steps)+len(why.Plan.Blocked)+len(why.Plan.Notes) == 0 {
		return
	}
	w.Println()
	present.Nodes(w.Lines(), []site.NodePlan{why.Plan}, time.Now(), planPaint(w))
}
