package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/discovery"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

type discoverFlags struct {
	surveyFlags
	site, state string
}

func (a *app) discoverCommand() *cobra.Command {
	var f discoverFlags
	cmd := &cobra.Command{
		Use: "discover [DIR] --range CIDR", Short: "find machines by their management controllers", Args: atMost(1),
		Long: "Asks every address of the ranges whether a management controller answers there, without\n" +
			"a credential, and connects to no other address. With --credential it logs in to those\n" +
			"that answered and proved their identity, and looks at them; it writes to none. It\n" +
			"compares what it finds with the design in DIR: for a machine that has moved it prints\n" +
			"the line to change, for an unknown one the lines to add. At most 65,536 addresses.\n\n" +
			"A controller proves its identity by --ca, by --fingerprint, or by an authority that this\n" +
			"host trusts. With --trust-first-use the password goes to whoever answers now.\n" + exitHelp,
		Example: "  slipway discover --range 10.9.0.0/24\n" +
			"  slipway discover --range 10.9.0.0/24 --credential bmc --credentials /etc/slipway/credentials --ca bmc-ca.pem site-example",
		RunE: func(cmd *cobra.Command, args []string) error { return a.discover(cmd.Context(), args, f) },
	}
	f.surveyFlags.add(cmd)
	cmd.Flags().StringVar(&f.site, "site", "", "the site's name, when the repository has several")
	addState(cmd, &f.state)
	return cmd
}

// discovered is what discover prints as JSON.
type discovered struct {
	Addresses int        `json:"addresses"`
	Answered  int        `json:"answered"`
	Met       []site.Met `json:"met"`
}

func (a *app) discover(ctx context.Context, args []string, f discoverFlags) error {
	survey, secrets, err := a.openSurvey(f.surveyFlags)
	if err != nil {
		return err
	}
	d, known, err := a.designToMatch(ctx, args, f)
	if err != nil {
		return err
	}
	secrets.InForce(d)
	met, answered, err := a.runSurvey(ctx, survey)
	if err != nil {
		return err
	}
	discovery.Recognize(d, known, met)
	done := discovered{survey.Addresses(), answered, append([]site.Met{}, met...)}
	if a.output == "json" {
		return a.out.JSON(done)
	}
	printDiscovered(a.out, done)
	return nil
}

// designToMatch is the design that what is met is compared with, and what a
// daemon knows of its machines; an empty one where there is none.
func (a *app) designToMatch(ctx context.Context, args []string, f discoverFlags) (*site.Site, map[string]site.Memory, error) {
	if len(args) == 0 && !hasDesign(".") {
		return &site.Site{}, nil, nil
	}
	rev, r, err := evaluateDir(ctx, folder(args), f.site)
	if err != nil {
		return nil, nil, err
	}
	if r.Site == nil {
		return nil, nil, a.refuse(rev.Files, r)
	}
	known, err := daemonAt(f.state).Known(ctx, r.Site.Name)
	if err != nil && !errors.Is(err, control.ErrNoDaemon) && !errors.Is(err, site.ErrNotFound) {
		return nil, nil, err
	}
	return r.Site, known.Nodes, nil
}

func printDiscovered(w *screen, d discovered) {
	w.Printf("%d addresses asked, %s\n", d.Addresses, say.Count(d.Answered, "management controller"))
	printMet(w, d.Met)
}

// printMet lists machines, and then what is to be done about them.
func printMet(w *screen, met []site.Met) {
	if len(met) == 0 {
		return
	}
	t := newTable("address", "vendor", "model", "serial number", "UUID", "is")
	for _, m := range met {
		id := m.Observed.Identity
		t.AppendRow(table.Row{m.Address, orDash(vendorOf(m)), orDash(modelOf(m)), orDash(strings.TrimSpace(id.Serial + " " + id.Slot)), orDash(id.UUID), standingColour(w, m)(standing(m))})
	}
	w.Printf("\n%s\n", t.Render())
	printUnread(w, met)
	for _, m := range met {
		printProposal(w, m)
	}
}

// printUnread says why controllers were not looked into, each reason once.
func printUnread(w *screen, met []site.Met) {
	unread := slices.DeleteFunc(slices.Clone(met), func(m site.Met) bool { return m.Standing.Kind != site.StandingUnread })
	for _, r := range byReason(unread) {
		w.Printf("\n%s  not looked into: %s\n", paint(w, text.Bold)(r.where), r.why)
	}
}

// reason is why something was not done with controllers, and at which addresses.
type reason struct{ why, where string }

// mostAddresses is how many addresses of one reason are told.
const mostAddresses = 8

// byReason are the reasons of some controllers, in the order in which they come.
func byReason(met []site.Met) (all []reason) {
	at := map[string][]string{}
	for _, m := range met {
		if at[m.Why] == nil {
			all = append(all, reason{why: m.Why})
		}
		at[m.Why] = append(at[m.Why], m.Address)
	}
	for i, r := range all {
		where := at[r.why]
		shown := where[:min(len(where), mostAddresses)]
		if all[i].where = strings.Join(shown, ", "); len(shown) < len(where) {
			all[i].where += fmt.Sprintf(" and %d more", len(where)-len(shown))
		}
	}
	return all
}

// printProposal says what somebody may do about a machine that was met.
func printProposal(w *screen, m site.Met) {
	s := m.Standing
	if s.Text == "" {
		return
	}
	w.Printf("\n%s  %s\n", paint(w, text.Bold)(m.Address), s.Text)
	switch {
	case s.Want != "" && s.Have != "":
		w.Printf("  %s  %s → %s\n", s.Place, s.Have, s.Want)
	case s.Want != "":
		w.Printf("  %s  add %s\n", s.Place, s.Want)
	}
	for line := range strings.Lines(s.CUE) {
		w.Lay("  " + line)
	}
}

func vendorOf(m site.Met) string {
	if i := m.Observed.Inventory; i != nil && i.Manufacturer != "" {
		return i.Manufacturer
	}
	return m.Vendor
}

func modelOf(m site.Met) string {
	if i := m.Observed.Inventory; i != nil && i.Model != "" {
		return i.Model
	}
	return m.Product
}

// standing is a machine's standing in a few words.
func standing(m site.Met) string {
	switch s := m.Standing; s.Kind {
	case site.StandingKnown:
		return "node " + s.Node
	case site.StandingMoved:
		return "node " + s.Node + ", moved"
	case site.StandingOther:
		return "not node " + s.Node
	case site.StandingUnread:
		return "not looked into"
	default:
		return string(s.Kind)
	}
}

func standingColour(w *screen, m site.Met) func(string) string {
	switch m.Standing.Kind {
	case site.StandingKnown:
		return paint(w, text.FgGreen)
	case site.StandingDoubt, site.StandingOther:
		return paint(w, text.FgRed)
	}
	return paint(w, text.FgYellow)
}
