package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/incident"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// compromise are the flags of the command of that name.
type compromise struct {
	orderFlags
	name, reason, since, write, confirm, end string
	dryRun                                   bool
}

func (a *app) compromiseCommand() *cobra.Command {
	var f compromise
	cmd := &cobra.Command{
		Use: "compromise (NODE… --reason TEXT | --confirm NAME|ID | --end NAME|ID --reason TEXT)", Short: "switch compromised machines off, and list what to replace",
		Long: "Puts the nodes under quarantine at once: their machines are switched off without asking\n" +
			"their operating systems, and stay off. Windows, pauses, limits and an unreachable repository\n" +
			"do not delay it. Then shows every secret that they were given or that the design names for\n" +
			"them, who else has it, and how to replace it. You give each its new value. The command prints the\n" +
			"lines for the design; commit them, so that the repository has the incident. More than\n" +
			"5 nodes and 5 % of the site, a controller, a hypervisor with virtual machines or the\n" +
			"bootstrap host wait for --confirm. So does every incident that came by a commit. --confirm\n" +
			"with a name shows the incident, and asks. Where nobody can be asked, it takes the ID that\n" +
			"slipway incident shows. --end ends an incident whose nodes are all released, although not all\n" +
			"secrets are known to be replaced.\n" + exitHelp,
		Example: "  slipway compromise compute-3 --reason \"found a shell that nobody opened\"\n  slipway compromise compute-3 compute-4 --reason \"same key\" --dry-run\n  slipway compromise --confirm shell-in-rack-2",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.end != "" {
				if len(args) > 0 || f.name != "" || f.since != "" || f.write != "" || f.dryRun || f.confirm != "" || f.reason == "" {
					return usage("--end takes the name or ID of the incident, and --reason: why it can end although not all of its secrets are known to be replaced")
				}
				return a.endIncident(cmd.Context(), f)
			}
			if f.confirm != "" {
				if len(args) > 0 || f.reason != "" || f.name != "" || f.since != "" || f.write != "" || f.dryRun {
					return usage("--confirm stands alone: the incident has its nodes and its reason already")
				}
				return a.confirmIncident(cmd.Context(), f)
			}
			if len(args) == 0 || f.reason == "" {
				return usage("compromise needs the nodes and --reason: those who find the machines off will want to know")
			}
			return a.compromise(cmd.Context(), f, args)
		},
	}
	cmd.Flags().StringVar(&f.reason, "reason", "", "what is known")
	cmd.Flags().StringVar(&f.name, "name", "", "the incident's name (default: incident- and the time)")
	cmd.Flags().StringVar(&f.since, "since", "", "when the machines may have been compromised first, such as 2026-03-01T18:00:00Z (default: now)")
	cmd.Flags().StringVar(&f.write, "write", "", "write the lines into a new file in this folder of a checkout, which has the site's package, and raise the epoch of each listed derived credential there")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "change nothing; show what would be switched off and replaced")
	cmd.Flags().StringVar(&f.confirm, "confirm", "", "act on the incident of this name or `ID`, which waits")
	cmd.Flags().StringVar(&f.end, "end", "", "end the incident of this name or `ID`, although secrets are not known to be replaced")
	f.add(cmd)
	return cmd
}

// compromise orders an incident, and gives its lines for the design. The file is prepared first: a mistake
// in its place is said before machines are switched off. It is written last.
func (a *app) compromise(ctx context.Context, f compromise, nodes []string) error {
	now := time.Now().UTC().Truncate(time.Second)
	o := site.Order{Verb: site.VerbIncident, Incident: f.name, Nodes: nodes, CompromisedSince: now, Reason: site.Printable(f.reason), DryRun: f.dryRun}
	if o.Incident == "" {
		o.Incident = "incident-" + now.Format("20060102-150405")
	}
	if !site.IsIncidentName(o.Incident) {
		return usage("--name takes up to 63 lower case letters, digits and hyphens")
	}
	if f.since != "" {
		since, err := time.Parse(time.RFC3339, f.since)
		if err != nil {
			return usage("--since takes a time such as 2026-03-01T18:00:00Z, not %q", f.since)
		}
		o.CompromisedSince = since.UTC()
	}
	lines := linesOf(o)
	path, text, fileErr := "", []byte(nil), error(nil)
	if f.write != "" {
		path, text, fileErr = incidentFile(f.write, o.Incident, lines)
		if f.dryRun && fileErr != nil {
			return fileErr
		}
	}
	if err := a.order(ctx, f.orderFlags, o); err != nil {
		return err
	}
	if f.dryRun || a.output == "json" && f.write == "" {
		return nil
	}
	if fileErr == nil && path != "" {
		if fileErr = replaceFile(path, text, 0o644); fileErr == nil {
			if err := a.out.Println("wrote", path+": commit it"); err != nil {
				return err
			}
			return a.raiseEpochs(ctx, f, o.Incident)
		}
	}
	a.out.Lay("\nCommit this in the site's design, so that the repository has the incident:\n\n" + lines)
	if fileErr != nil {
		return fmt.Errorf("the order was given, but the file was not written: %w", fileErr)
	}
	return nil
}

// linesOf are the lines of an incident as CUE. A text in JSON is one in CUE.
func linesOf(o site.Order) string {
	quoted := func(v any) string {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(v) // texts alone
		return string(bytes.TrimSpace(b.Bytes()))
	}
	return fmt.Sprintf("incidents: %s: {\n\tnodes: %s\n\tsince:  %s\n\treason: %s\n}\n",
		quoted(o.Incident), quoted(o.Nodes), quoted(o.CompromisedSince.UTC().Format(time.RFC3339Nano)), quoted(o.Reason))
}

// packageClause matches the package clause of a CUE file, also after a byte order mark.
var packageClause = regexp.MustCompile(`(?m)^\x{feff}?(package [A-Za-z_][A-Za-z0-9_]*)[ \t\r]*(?://.*)?$`)

// incidentFile is the file to write for an incident, in the package of the other files there.
func incidentFile(folder, name, lines string) (path string, text []byte, err error) {
	path = filepath.Join(folder, "incident-"+name+".cue")
	if _, err := os.Lstat(path); err == nil {
		return "", nil, fmt.Errorf("%s is there already", path)
	}
	others, err := filepath.Glob(filepath.Join(folder, "*.cue"))
	if err != nil {
		return "", nil, err
	}
	for _, other := range others {
		data, err := os.ReadFile(other)
		if clause := packageClause.FindSubmatch(data); err == nil && clause != nil {
			return path, fmt.Appendf(nil, "%s\n\n%s", clause[1], lines), nil
		}
	}
	return "", nil, fmt.Errorf("%s has no file of a CUE package: --write takes the folder of the site's package in a checkout", folder)
}

// confirmIncident confirms the incident of an ID, or of a name once a person has read it here.
func (a *app) confirmIncident(ctx context.Context, f compromise) error {
	id := f.confirm
	if !site.IsDigest(id) {
		all, err := a.incidents(ctx, f.orderFlags, f.confirm)
		if err != nil {
			return err
		}
		i, err := awaited(all, f.confirm)
		if err == nil {
			err = a.askIncident(&i)
		}
		if err != nil {
			return err
		}
		id = i.ID
	}
	return a.order(ctx, f.orderFlags, site.Order{Verb: site.VerbIncident, Digest: id})
}

// endIncident ends the only incident of a name that is not over, or that of an ID.
func (a *app) endIncident(ctx context.Context, f compromise) error {
	all, err := a.incidents(ctx, f.orderFlags, f.end)
	if err != nil {
		return err
	}
	if open := slices.DeleteFunc(slices.Clone(all), func(i site.IncidentState) bool { return i.IsOver() }); len(open) > 0 {
		all = open
	}
	if len(all) > 1 {
		return fmt.Errorf("%s of the name %s are not over: name one by its ID, which `slipway incident %[2]s` shows", say.Count(len(all), "incident"), f.end)
	}
	return a.order(ctx, f.orderFlags, site.Order{Verb: site.VerbIncident, Digest: all[0].ID, End: true, Reason: site.Printable(f.reason)})
}

// awaited is the only incident of a name that waits. Another one can have come by a commit since a person read of it.
func awaited(all []site.IncidentState, name string) (site.IncidentState, error) {
	all = slices.DeleteFunc(slices.Clone(all), func(i site.IncidentState) bool { return !i.Acted.IsZero() })
	switch len(all) {
	case 0:
		return site.IncidentState{}, fmt.Errorf("incident %s waits for nothing: Slipway has acted on it", name)
	case 1:
		return all[0], nil
	}
	var each []string
	for _, i := range all {
		each = append(each, fmt.Sprintf("`%s` for %s", i.Confirm(), say.Some(i.Incident.Nodes, 10)))
	}
	return site.IncidentState{}, fmt.Errorf("%d incidents of the name %s wait, so nothing was confirmed. Read them with `slipway incident %[2]s`, then run one of: %s", len(all), name, strings.Join(each, "; "))
}

// askIncident shows an incident, and asks whether to act on it.
func (a *app) askIncident(i *site.IncidentState) error {
	a.err.Lay(incident.Text(i) + "\n")
	if !a.err.Terminal() || !isTerminal(os.Stdin) {
		return usage("there is no terminal to ask at: read what is switched off, and name the incident by its ID: %s", i.Confirm())
	}
	return a.asks("Switch these machines off? Type yes: ", "nothing was confirmed")
}

// incidents are those of the site that have a name or an ID, or all without one.
func (a *app) incidents(ctx context.Context, f orderFlags, name string) ([]site.IncidentState, error) {
	daemon := daemonAt(f.state)
	defer daemon.Close()
	r, err := daemon.Report(ctx, f.site)
	if err != nil {
		return nil, err
	}
	all := append([]site.IncidentState{}, r.Status.Incidents...)
	if name == "" {
		return all, nil
	}
	all = slices.DeleteFunc(all, func(i site.IncidentState) bool { return i.Name != name && i.ID != name })
	if len(all) == 0 {
		return nil, errors.New("there is no incident " + site.Printable(name) + ": slipway incident lists them")
	}
	return all, nil
}

func (a *app) incidentCommand() *cobra.Command {
	var f orderFlags
	var search string
	cmd := &cobra.Command{
		Use: "incident [NAME|ID]", Short: "show what was done about a compromise, and what people have to do", Args: atMost(1),
		Long: "Without a name, lists the incidents that the daemon knows. With one, shows which machines\n" +
			"are proven off, which secrets people have to replace, and what Slipway did not do.\n" + exitHelp,
		Example: "  slipway incident\n  slipway incident shell-in-rack-2",
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			if search != "" {
				if name != "" {
					return usage("--search is for the list of incidents, without a name")
				}
				return a.searchIncidents(cmd.Context(), f, search)
			}
			all, err := a.incidents(cmd.Context(), f, name)
			if err != nil {
				return err
			}
			return a.printIncidents(all, name != "")
		},
	}
	addSearch(cmd, &search)
	f.add(cmd)
	return cmd
}

// searchIncidents lists the incidents that have a text.
func (a *app) searchIncidents(ctx context.Context, f orderFlags, text string) error {
	daemon := daemonAt(f.state)
	defer daemon.Close()
	all, err := daemon.Incidents(ctx, f.site, text)
	if err != nil {
		return err
	}
	if len(all) == 0 && a.output != "json" {
		return a.out.Println("no incident that is known has this text")
	}
	return a.printIncidents(all, false)
}

func (a *app) printIncidents(all []site.IncidentState, whole bool) error {
	if a.output == "json" {
		return a.out.JSON(all)
	}
	if whole {
		for i := range all {
			if err := a.out.Lay(incident.Text(&all[i])); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		return a.out.Println("no incidents")
	}
	t := newTable("incident", "found", "nodes", "state", "reason")
	for _, i := range all {
		t.AppendRow(table.Row{i.Name, i.Found.Local().Format(time.DateTime), len(i.Incident.Nodes), i.Verdict(), i.Incident.Reason})
	}
	return a.out.Println(t.Render())
}
