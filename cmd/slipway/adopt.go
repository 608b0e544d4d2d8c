package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/design/author"
	"github.com/slipway-gitops/slipway/engine/discovery"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// What the site that adopt writes says beside what init's says.
var (
	//go:embed adopted/site.txt
	adoptedSite string
	//go:embed adopted/README.md
	adoptedReadme string
)

type adoptFlags struct {
	surveyFlags
	insideFlags
	out, name string
}

func (a *app) adoptCommand() *cobra.Command {
	var f adoptFlags
	cmd := &cobra.Command{
		Use: "adopt --range CIDR --credential NAME --out DIR | adopt --inside [DIR]", Short: "generate a site from running machines", Args: atMost(1),
		Long: "Finds the machines in the ranges as discover does, looks at them, and writes a complete\n" +
			"site for them: their identities, their pinned certificates, and for each model a profile\n" +
			"with what its machines have in common. Writes to no machine. Slipway checks and plans\n" +
			"the new site first, and writes it to DIR only if its plan is empty. DIR must be new or\n" +
			"empty.\n\n" +
			"With --inside it looks into the systems of the nodes of the design in DIR that have\n" +
			"endpoints.os, and writes accounts, packages that somebody asked for, units, kernel\n" +
			"settings and the network to " + insideFile + " there: to a profile if all of its nodes have\n" +
			"the same, or else to the node. The plan changes none of it. What it does not take over\n" +
			"is listed with the reason. Exits 5 when a system was not looked into.\n" + exitHelp,
		Example: "  slipway adopt --range 10.9.0.0/24 --credential bmc --credentials /etc/slipway/credentials --ca bmc-ca.pem --out my-site\n" +
			"  slipway adopt --inside --agents /usr/lib/slipway/agents --credentials /etc/slipway/credentials my-site",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.inside:
				return a.adoptInside(cmd.Context(), folder(args), f)
			case len(args) > 0:
				return usage("adopt takes a folder only with --inside; without it the new site goes to --out DIR")
			}
			return a.adopt(cmd.Context(), f)
		},
	}
	f.surveyFlags.add(cmd)
	cmd.Flags().StringVar(&f.out, "out", "", "new or empty `DIR` for the site")
	cmd.Flags().StringVar(&f.name, "name", "", "the site's name; the default is the folder's name")
	f.insideFlags.add(cmd)
	return cmd
}

// adopted is what adopt prints as JSON.
type adopted struct {
	Site     string   `json:"site"`
	Dir      string   `json:"dir"`
	Files    []string `json:"files"`
	Machines int      `json:"machines"`
	// Left are those that were met and are not in the site, with the reasons.
	Left []site.Met `json:"left,omitempty"`
	// Notes are what somebody should know of those that are.
	Notes []string `json:"notes,omitempty"`
	Next  []string `json:"next"`
}

func (a *app) adopt(ctx context.Context, f adoptFlags) error {
	switch {
	case f.out == "":
		return usage("--out DIR is needed: the new folder for the site")
	case f.credential == "":
		return usage("--credential NAME is needed: Slipway logs in to the controllers to see what it adopts")
	}
	name, err := newSiteName(f.out, f.name)
	if err != nil {
		return err
	}
	if err := vacant(f.out); err != nil {
		return err
	}
	survey, secrets, err := a.openSurvey(f.surveyFlags)
	if err != nil {
		return err
	}
	met, _, err := a.runSurvey(ctx, survey)
	if err != nil {
		return err
	}
	done := adopted{Site: name, Dir: f.out}
	met, done.Left, done.Notes = adoptable(met)
	if len(met) == 0 {
		printLeft(a.err, done.Left)
		return errors.New("none of the machines that were found can be adopted; nothing was written")
	}
	adoption := author.Adoption{Package: name, Ranges: survey.Ranges, Met: met, Silent: map[string][]site.Facet{}}
	done.Machines = len(met)
	if done.Files, err = a.settle(ctx, f, adoption, secrets, &done); err != nil {
		return err
	}
	return a.printAdopted(done, f)
}

// vacant says what is in the way of a new folder.
func vacant(dir string) error {
	there, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%w: name a new folder", err)
	case len(there) > 0:
		return fmt.Errorf("%s holds %s and was not changed: name a new or an empty folder", dir, there[0].Name())
	}
	return nil
}

// adoptable are the machines that were looked into, each once and with the least
// identity that tells it from the others, and those that are left out.
func adoptable(met []site.Met) (all, left []site.Met, notes []string) {
	first := map[site.Identity]string{}
	for _, m := range met {
		id := m.Observed.Identity.Own()
		switch other := first[id]; {
		case m.Why != "":
			left = append(left, m)
			continue
		case id.Known() && other != "":
			m.Why = "it is the same machine as at " + other
			left = append(left, m)
			continue
		case !id.Known():
			notes = append(notes, where(met, m)+" reports no identity of its own: Slipway only observes it until the design names one")
		}
		first[id] = m.Address
		all = append(all, m)
	}
	ids, shared := discovery.Distinct(all)
	for i := range all {
		all[i].Observed.Identity = ids[i]
	}
	return all, left, append(notes, shared...)
}

// where is the address of a machine, or its endpoint where others are behind the
// same controller.
func where(met []site.Met, m site.Met) string {
	for _, other := range met {
		if other.Address == m.Address && other.Endpoint.URL != m.Endpoint.URL {
			return m.Endpoint.URL
		}
	}
	return m.Address
}

// rounds bounds how often a site is written anew for what its plan would do.
const rounds = 3

// settle writes the site beside its place, makes it say less where its plan is
// not empty, and puts it in its place when it is.
func (a *app) settle(ctx context.Context, f adoptFlags, x author.Adoption, secrets *secret.Store, done *adopted) ([]string, error) {
	out, err := filepath.Abs(f.out)
	if err != nil {
		return nil, err
	}
	draft, err := os.MkdirTemp(filepath.Dir(out), ".slipway-adopt-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(draft)
	var names []string
	for range rounds {
		dir, err := os.MkdirTemp(draft, "")
		if err != nil {
			return nil, err
		}
		files, err := adoptedFiles(x, f.credential)
		if err != nil {
			return nil, err
		}
		if err := writeNew(dir, files); err != nil {
			return nil, err
		}
		steps, err := a.stepsOf(ctx, dir, secrets)
		if err != nil {
			return nil, err
		}
		if len(steps) > 0 {
			silence(x.Silent, steps, done)
			continue
		}
		for _, file := range files {
			names = append(names, file.name)
		}
		return names, errors.Join(os.Chmod(dir, 0o755), os.Rename(dir, out))
	}
	return nil, errors.New("the machines keep changing while Slipway looks at them, so the plan never becomes empty; nothing was written, try again")
}

// silence leaves out of the nodes' designs what would be done to them.
func silence(silent map[string][]site.Facet, steps []site.Step, done *adopted) {
	for _, s := range steps {
		if !slices.Contains(silent[s.Node], s.Facet) {
			silent[s.Node] = append(silent[s.Node], s.Facet)
			done.Notes = append(done.Notes, fmt.Sprintf("the new design does not set the %s of %s, which would change: %s", s.Facet, s.Node, s.Summary()))
		}
	}
}

// stepsOf is what would be done to machines by the site in a folder.
func (a *app) stepsOf(ctx context.Context, dir string, secrets *secret.Store) ([]site.Step, error) {
	rev, r, err := evaluateDir(ctx, dir, "")
	if err != nil {
		return nil, err
	}
	if r.Site == nil || site.HasErrors(r.Findings) {
		return nil, a.refuse(rev.Files, r)
	}
	known := neverSeen()
	secrets.InForce(r.Site)
	known.Nodes, _ = a.lookAtAll(ctx, r.Site, nil, secrets)
	var steps []site.Step
	p := plan.Site(r.Site, rev.ID, known)
	for _, n := range p.Nodes {
		steps = append(steps, n.Steps...)
	}
	return steps, ctx.Err()
}

// adoptedFiles are the files of the site.
func adoptedFiles(x author.Adoption, credential string) ([]newFile, error) {
	begun, err := newSite(x.Package)
	if err != nil {
		return nil, err
	}
	texts := x.CUE()
	for _, f := range begun {
		switch f.name {
		case "site.cue":
			bindings, _, _ := strings.Cut(string(f.text), "\nsite: {")
			texts[f.name] = []byte(bindings + "\n" + strings.ReplaceAll(adoptedSite, "CREDENTIAL", credential))
		case "README.md":
			texts[f.name] = []byte(strings.ReplaceAll(adoptedReadme, templateSite, x.Package))
		case ".gitignore", "cue.mod/module.cue":
			texts[f.name] = f.text
		}
	}
	var files []newFile
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		text := texts[name]
		if filepath.Ext(name) == ".cue" {
			var findings []site.Finding
			if text, findings = design.FormatHere(name, text); len(findings) > 0 {
				return nil, errors.New(cmp.Or(findings[0].Message, name))
			}
		}
		files = append(files, newFile{name, text})
	}
	return files, nil
}

// printLeft says which machines were met and are not in the site, and why.
func printLeft(w *screen, left []site.Met) {
	for _, r := range byReason(left) {
		w.Printf("left out  %s: %s\n", r.where, r.why)
	}
}

func (a *app) printAdopted(done adopted, f adoptFlags) error {
	dir := shellWord(done.Dir)
	done.Next = []string{
		"slipway check " + dir, "slipway plan --observe --credentials " + shellWord(f.credentials) + " " + dir,
		"cd " + dir, "git init", "git add .", "git commit -m \"the site as it is\"",
	}
	if a.output == "json" {
		return a.out.JSON(done)
	}
	a.out.Printf("%s: the site %s of %s; its plan is empty, and no machine was written to\n", done.Dir, done.Site, say.Count(done.Machines, "machine"))
	for _, name := range done.Files {
		a.out.Printf("  %s\n", name)
	}
	printLeft(a.out, done.Left)
	for _, n := range done.Notes {
		a.out.Printf("note      %s\n", n)
	}
	a.out.Printf("\nNext steps, besides those in README.md:\n")
	for _, c := range done.Next {
		a.out.Printf("  %s\n", c)
	}
	return nil
}
