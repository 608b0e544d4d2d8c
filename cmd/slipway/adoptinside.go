package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/design/author"
	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
)

// insideFile is the file of a design that `adopt --inside` writes.
const insideFile = "inside.cue"

// insideAtOnce is how many systems are looked into together.
const insideAtOnce = 32

// insideFlags are those of adopt --inside.
type insideFlags struct {
	inside, pin         bool
	agents, state, site string
	choose              []string
}

func (f *insideFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.inside, "inside", false, "take over the settings inside the systems of the design in DIR")
	flags.BoolVar(&f.pin, "pin", false, "with --inside: write the versions of packages too")
	flags.StringArrayVar(&f.choose, "select", nil, "with --inside: only these nodes, a name such as \"compute-*\", role=`NAME`, rack=NAME or tag=NAME; may be given several times")
	flags.StringVar(&f.agents, "agents", helperFolder(), "with --inside: folder of the helpers that look inside (SLIPWAY_AGENTS)")
	flags.StringVar(&f.site, "site", "", "with --inside: the site's name, when the repository has several")
	addState(cmd, &f.state)
}

// takenOver is what adopt --inside prints as JSON.
type takenOver struct {
	Site string `json:"site"`
	// File is empty where there was nothing to write.
	File string `json:"file,omitempty"`
	// Nodes are how many items each node was given that was looked into.
	Nodes map[string]int `json:"nodes"`
	// Left is what is there and not in the design.
	Left []author.NotTaken `json:"left,omitempty"`
	// Failed says of nodes why they were not looked into.
	Failed map[string]string `json:"failed,omitempty"`
}

// adoptInside writes what is set inside the systems of a design's nodes into the design.
func (a *app) adoptInside(ctx context.Context, path string, f adoptFlags) error {
	switch {
	case f.agents == "":
		return usage("--inside needs --agents DIR: the folder of the helpers that look inside, such as /usr/lib/slipway/agents")
	case len(f.ranges) > 0 || f.out != "" || f.name != "" || f.credential != "":
		return usage("--inside works on an existing design: --range, --credential, --out and --name are for a new one")
	}
	secrets, err := a.openCredentials(f.credentials)
	if err != nil {
		return err
	}
	path, f.site = located(path, f.site)
	rev, r, err := evaluateDir(ctx, path, f.site)
	if err != nil {
		return err
	}
	if r.Site == nil || site.HasErrors(r.Findings) {
		return a.refuse(rev.Files, r)
	}
	secrets.InForce(r.Site)
	nodes, err := chosen(r.Site, f.choose)
	if err != nil {
		return err
	}
	e, err := newEvaluator(nil)
	if err != nil {
		return err
	}
	defer e.Close()
	folder, name, err := e.Package(rev.Files, r.Site.Name)
	if err != nil {
		return err
	}
	file := filepath.Join(path, filepath.FromSlash(folder), insideFile)
	switch _, err := os.Lstat(file); {
	case err == nil:
		return fmt.Errorf("%s exists already and was not changed: rename it, and run adopt --inside again for what it does not contain", file)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	known, _ := daemonAt(f.state).Known(ctx, r.Site.Name) // without a daemon nobody knows more than the design
	l := insideLook{drivers: drivers(agent.Options{Folder: f.agents}), secrets: secrets, known: known.Nodes, site: r.Site.Name, app: a}
	found, failed := l.survey(ctx, r.Site, nodes)
	if err := ctx.Err(); err != nil {
		return err
	}
	done := takenOver{Site: r.Site.Name, Nodes: map[string]int{}, Failed: map[string]string{}}
	for node, err := range failed {
		done.Failed[node] = err.Error()
	}
	if len(found) > 0 {
		t := author.Takeover{Package: name, Site: r.Site, Found: found, Pin: f.pin, Drop: map[string]map[site.Facet]map[string]string{}}
		draft, err := l.settle(ctx, t, rev.Files, filepath.Join(filepath.FromSlash(folder), insideFile))
		if err != nil {
			return err
		}
		done.Nodes, done.Left = draft.Taken, draft.Left
		if draft.Text != nil {
			done.File = file
			if err := replaceFile(file, draft.Text, 0o644); err != nil {
				return err
			}
		}
	}
	return a.printTakenOver(done)
}

// chosen are the nodes with an installed system that one of the selections names.
func chosen(s *site.Site, choose []string) (nodes []string, err error) {
	meant := site.Selector{}
	for _, text := range choose {
		one, err := selection(text)
		if err != nil {
			return nil, err
		}
		meant.Any = append(meant.Any, one)
	}
	for _, name := range s.NodeNames() {
		n := s.Nodes[name]
		if _, ok := n.Endpoints[site.OS]; ok && n.InUse() && n.Away == "" && meant.Selects(n) {
			nodes = append(nodes, name)
		}
	}
	if len(nodes) == 0 {
		return nil, errors.New("there is no node to look into: a node needs endpoints.os and has to be in use, and --select has to match it")
	}
	return nodes, nil
}

// selection reads "compute-*", "role=NAME", "rack=NAME" or "tag=NAME".
func selection(text string) (s site.Selector, err error) {
	kind, value, ok := strings.Cut(text, "=")
	if !ok {
		kind, value = "name", text
	}
	if _, err := filepath.Match(value, ""); value == "" || err != nil {
		return s, usage("--select %q names no nodes", text)
	}
	switch kind {
	case "name":
		s.Names = []string{value}
	case "role":
		s.Roles = []string{value}
	case "rack":
		s.Racks = []string{value}
	case "tag":
		s.Tags = []string{value}
	default:
		return s, usage("--select %q: it is a name such as \"compute-*\", role=NAME, rack=NAME or tag=NAME", text)
	}
	return s, nil
}

// insideLook looks into systems.
type insideLook struct {
	app     *app
	drivers map[string]driver.Driver
	secrets *secret.Store
	known   map[string]site.Memory
	site    string
}

// survey lists what is set in the systems of nodes. One that cannot be looked into keeps
// none from being.
func (l insideLook) survey(ctx context.Context, s *site.Site, nodes []string) (map[string]map[site.Facet]item.Found, map[string]error) {
	found, failed := map[string]map[site.Facet]item.Found{}, map[string]error{}
	var mu sync.Mutex
	l.each(s, nodes, "looking inside", func(n *site.Node, open func() (driver.Machine, error)) {
		told, err := surveyed(ctx, n, open)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed[n.Name] = err
		} else {
			found[n.Name] = told
		}
	})
	return found, failed
}

func surveyed(ctx context.Context, n *site.Node, open func() (driver.Machine, error)) (map[site.Facet]item.Found, error) {
	m, err := open()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	lists, ok := driver.As[driver.Surveyor](m)
	if !ok {
		return nil, fmt.Errorf("the settings behind %s cannot be listed", n.Endpoints[site.OS].URL)
	}
	return lists.Survey(ctx, n)
}

// each does something for nodes, several at once.
func (l insideLook) each(s *site.Site, nodes []string, what string, do func(n *site.Node, open func() (driver.Machine, error))) {
	told, ended := l.app.progress()
	defer ended()
	var done atomic.Int64
	var shown sync.Mutex
	var g errgroup.Group
	g.SetLimit(insideAtOnce)
	for _, name := range nodes {
		g.Go(func() error {
			n := s.Nodes[name]
			do(n, func() (driver.Machine, error) { return l.open(n) })
			shown.Lock()
			defer shown.Unlock()
			told(what, int(done.Add(1)), len(nodes))
			return nil
		})
	}
	g.Wait()
}

// open opens the system of a node.
func (l insideLook) open(n *site.Node) (driver.Machine, error) {
	e := engine.Trusted(n, site.OS, l.known[n.Name].Recorded)
	m, err := driver.Open(context.Background(), l.drivers, l.secrets, e)
	if named, ok := driver.As[driver.Namer](m); ok && err == nil {
		named.Name(l.site, 0) // so that the system of another site is known by its marker
	}
	return m, err
}

// insideRounds bounds how often a takeover is written anew for what its evaluation or
// its plan says.
const insideRounds = 8

// settle leaves out what the design cannot have and what its plan would change, until
// the plan changes nothing of what was taken over.
func (l insideLook) settle(ctx context.Context, t author.Takeover, files fs.FS, file string) (author.Draft, error) {
	folder, err := os.MkdirTemp("", "slipway-adopt-")
	if err != nil {
		return author.Draft{}, err
	}
	defer os.RemoveAll(folder)
	if err := os.CopyFS(folder, files); err != nil {
		return author.Draft{}, err
	}
	for range insideRounds {
		draft := t.CUE()
		if draft.Text == nil {
			return draft, nil
		}
		if err := os.WriteFile(filepath.Join(folder, file), draft.Text, 0o644); err != nil {
			return draft, err
		}
		rev, r, err := evaluateDir(ctx, folder, t.Site.Name)
		if err != nil {
			return draft, err
		}
		again := false
		if r.Site == nil || site.HasErrors(r.Findings) {
			if again = leaveErrors(t, draft, r.Findings); !again {
				return draft, l.app.refuse(rev.Files, r)
			}
			continue
		}
		if again, err = l.leaveChanges(ctx, t, draft, r.Site); err != nil {
			return draft, err
		}
		if !again {
			return draft, nil
		}
	}
	return author.Draft{}, errors.New("the systems keep changing while Slipway looks at them, so the plan never becomes empty; nothing was written, try again")
}

// leaveErrors leaves out what findings are about, and says whether that is anything.
func leaveErrors(t author.Takeover, draft author.Draft, findings []site.Finding) (some bool) {
	for _, f := range findings {
		if f.Severity != site.SeverityError {
			continue
		}
		node, path := f.Node, f.Path
		for _, layer := range []string{"profiles.", "nodes."} {
			if rest, ok := strings.CutPrefix(path, layer); ok {
				_, path, _ = strings.Cut(rest, ".")
			}
		}
		if f.More > 0 {
			node = ""
		}
		for _, ref := range draft.Refer(node, path) {
			t.Leave(ref, "a design cannot contain it: "+f.Message)
			some = true
		}
	}
	return some
}

// leaveChanges looks at the systems again, and leaves out what the plan would change.
func (l insideLook) leaveChanges(ctx context.Context, t author.Takeover, draft author.Draft, s *site.Site) (some bool, err error) {
	known := site.Known{Serves: driver.Serves(l.drivers), Nodes: map[string]site.Memory{}}
	var mu sync.Mutex
	l.each(s, slices.Sorted(maps.Keys(t.Found)), "comparing", func(n *site.Node, open func() (driver.Machine, error)) {
		m, err := open()
		if err != nil {
			return
		}
		defer m.Close()
		if seen, err := m.Observe(ctx, n, append([]site.Facet{site.FacetOS}, site.InsideFacets...)); err == nil {
			mu.Lock()
			defer mu.Unlock()
			known.Nodes[n.Name] = site.Memory{Observed: seen}
		}
	})
	if err := ctx.Err(); err != nil {
		return false, err
	}
	for _, name := range slices.Sorted(maps.Keys(t.Found)) {
		for _, f := range site.InsideFacets {
			for key, why := range plan.Differs(s.Nodes[name], f, known.Nodes[name].Observed.Facets[f]) {
				ref := author.Ref{Node: name, Facet: f, Key: key}
				if f == site.FacetNetwork {
					ref.Key = author.NetworkKey
					why = key + ": " + why
				}
				if draft.Has(ref) {
					t.Leave(ref, why)
					some = true
				}
			}
		}
	}
	return some, nil
}

func (a *app) printTakenOver(done takenOver) error {
	missing := len(done.Failed) > 0
	if a.output == "json" {
		if err := a.out.JSON(done); err != nil || !missing {
			return err
		}
		return errUnknown
	}
	for _, node := range slices.Sorted(maps.Keys(done.Failed)) {
		a.err.Printf("slipway: %s was not looked into: %s\n", node, done.Failed[node])
	}
	items := 0
	for _, n := range done.Nodes {
		items += n
	}
	switch {
	case done.File != "":
		a.out.Printf("%s: %s of %s; nothing was changed there, and the plan changes none of them\n", done.File, say.Count(items, "item"), say.Count(len(done.Nodes), "system"))
	case len(done.Nodes) > 0:
		a.out.Printf("Nothing was found in %s that the design does not have already, and nothing was written\n", say.Count(len(done.Nodes), "system"))
	}
	for i, l := range done.Left {
		if i == 0 {
			a.out.Printf("\nNot taken over:\n")
		}
		a.out.Printf("  %s  %s: %s\n", l.Node, l.What, l.Why)
	}
	if missing {
		if len(done.Nodes) == 0 {
			a.err.Printf("slipway: no system was looked into, and nothing was written\n")
		}
		return errUnknown
	}
	return nil
}
