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
	"github.com/slipway-gitops/slipway/engine/say"
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
	r, err := daemon.Report(siteName)
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
	why.Release = release(r, why)
	return why, found
}

// release says what would let the node go on.
func release(r site.Report, w reasons) string {
	if w.Status.Release != "" {
		return w.Status.Release
	}
	switch w.Status.State {
	case site.InSync, site.Unknown:
		return ""
	case site.Progressing:
		return "nothing: it is in progress"
	case site.Retrying:
		if w.Status.Retry.Before(time.Now()) {
			return "an answer of the machine; Slipway is trying again now"
		}
		return fmt.Sprintf("an answer of the machine; Slipway tries again at %s, or now with `slipway retry %s`", w.Status.Retry.Local().Format(time.TimeOnly), w.Status.Name)
	}
	return fmt.Sprintf("a commit that changes the node, or `slipway retry %s` once the cause is gone", w.Status.Name)
}

// machine is all that is known of who a machine is, nothing for nothing.
func machine(i site.Identity) string {
	switch {
	case !i.Known():
		return ""
	case i.UUID != "" && i.Serial != "":
		return fmt.Sprintf("%s, serial %s", i, i.Serial)
	}
	return i.String()
}

// systemOf is which system was seen last, and whether it answers.
func systemOf(s site.NodeStatus) string {
	switch s.Service {
	case site.ServiceSilent:
		return strings.TrimPrefix(s.OS+"; ", "; ") + "it does not answer although the machine is on: look at its console, and at the endpoint os in the design"
	case site.ServiceUnknown:
		return strings.TrimPrefix(s.OS+"; ", "; ") + "Slipway does not know whether it answers now"
	}
	return s.OS
}

// loginOf says how Slipway logged in last.
func loginOf(l *site.Login) string {
	if l == nil {
		return ""
	}
	text := map[string]string{
		site.ByCertificate: "by a certificate of the site's authority", site.ByKey: "by the key of the credential", site.ByPassword: "by the password of the credential",
	}[l.By]
	if l.Account != "" {
		text += ", account " + l.Account
	}
	if l.Refused == "" {
		return text
	}
	text += "; no certificate: " + l.Refused
	if off := time.Duration(l.Clock).Abs(); off >= time.Minute {
		text += fmt.Sprintf(". The system's clock is off by %s, which may be the cause", say.Rough(off))
	}
	return text
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
	line("machine", machine(s.Machine))
	line("on", s.Hypervisor)
	line("power", s.Power)
	line("health", s.Health)
	line("system", systemOf(s))
	line("login", loginOf(s.Login))
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
	switch ages := facetAges(why.Seen); {
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
