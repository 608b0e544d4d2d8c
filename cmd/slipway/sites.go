package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/commit"
)

type sitesFlags struct {
	run   runFlags // how the repository is reached
	watch bool
	every time.Duration
}

func (a *app) sitesCommand() *cobra.Command {
	var f sitesFlags
	cmd := &cobra.Command{
		Use: "sites", Short: "show the sites of a repository, by what their daemons have written there", Args: exactly(0),
		Long: "Reads the status branches of all sites of a repository, and shows each site's state and how\n" +
			"old that news is. It needs the repository alone: no daemon has to be reachable, and none is\n" +
			"asked. A daemon that is started with --alive-every leaves signs of life, by which a site\n" +
			"where nothing changes can be told from one that is cut off.\n" + exitHelp,
		Example: "  slipway sites --repo https://git.example.org/sites --credentials /etc/slipway/credentials\n" +
			"  slipway sites --repo /srv/sites.git --watch",
		RunE: func(cmd *cobra.Command, _ []string) error { return a.sites(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	addRepository(flags, &f.run)
	flags.BoolVar(&f.watch, "watch", false, "show the sites again and again until interrupted")
	flags.DurationVar(&f.every, "every", time.Minute, "how often --watch looks, as an `INTERVAL`")
	addCredentials(cmd, &f.run.credentials)
	return cmd
}

func (a *app) sites(ctx context.Context, f sitesFlags) error {
	switch {
	case f.run.repo == "":
		return usage("sites needs --repo, the repository whose sites it shows")
	case f.every < time.Second:
		return usage("--every is at least 1s, not %s", f.every)
	}
	secrets, err := secret.Open(f.run.credentials)
	if err != nil {
		return err
	}
	remote, err := openRemote(f.run, &pulls{}, secrets)
	if err != nil {
		return err
	}
	o := &onlooker{remote: remote, branch: f.run.branch, written: commit.NewSites(remote)}
	for {
		all, err := o.look(ctx)
		switch {
		case !f.watch && err != nil:
			return err
		case ctx.Err() != nil:
			return nil // an interrupt is how watching ends
		case err != nil:
			a.err.Println(err.Error() + "; what is shown is of the last look")
		default:
			if a.out.Terminal() && a.output == "text" && f.watch {
				a.out.Clear()
			}
			if err := a.showSites(all); !f.watch || err != nil && !errors.Is(err, errUnknown) {
				return err
			}
		}
		if !retry.Sleep(ctx, f.every) {
			return nil
		}
	}
}

// onlooker looks at the sites of a repository from elsewhere.
type onlooker struct {
	remote  repo.Remote
	branch  string
	written *commit.Sites

	head     string   // of the branch
	designed []string // the sites of that commit
}

// siteNews is a site as it is seen from elsewhere.
type siteNews struct {
	Site string `json:"site"`
	// Verdict is the state of its nodes in a line, and Counts how many are in which state. Both are as of News.
	Verdict string             `json:"verdict,omitempty"`
	Counts  map[site.State]int `json:"counts,omitempty"`
	// Head is the newest commit of the branch. Attempted is the newest commit that the site's daemon had looked at, Applied the
	// one in force.
	Head      string `json:"head"`
	Attempted string `json:"attempted,omitempty"`
	Applied   string `json:"applied,omitempty"`
	// Persons is how many nodes wait for a person, Losses on how many machines data is lost after approval.
	Persons  int            `json:"persons"`
	Losses   int            `json:"losses"`
	Problems []site.Problem `json:"problems,omitempty"`
	News     *site.News     `json:"news,omitempty"`
	// Trouble is why the state is not known, or may be of long ago.
	Trouble string `json:"trouble,omitempty"`

	status site.Status
}

// look reads what is new. Sites are those of the design and those with a status branch, by name.
func (o *onlooker) look(ctx context.Context) ([]siteNews, error) {
	written, err := o.written.Look(ctx)
	if err != nil {
		return nil, err
	}
	if err := o.lookAtDesign(ctx); err != nil {
		return nil, err
	}
	names := slices.Clone(o.designed)
	for name := range written {
		names = append(names, name)
	}
	slices.Sort(names)
	now := time.Now()
	all := []siteNews{}
	for _, name := range slices.Compact(names) {
		n := siteNews{Site: name, Head: o.head}
		is, there := written[name]
		switch {
		case !there:
			n.Trouble = "no daemon has written a status of it"
		default:
			n.take(is, now)
			if n.Trouble == "" && !slices.Contains(o.designed, name) {
				n.Trouble = "branch " + o.branch + " has no such site: if it is gone, end its daemon and delete its status branch"
			}
		}
		all = append(all, n)
	}
	return all, nil
}

// lookAtDesign finds the sites that the branch has.
func (o *onlooker) lookAtDesign(ctx context.Context) error {
	head, err := o.remote.Head(ctx, o.branch)
	if err != nil || head == o.head {
		return err
	}
	store, err := repo.OpenStore("")
	if err != nil {
		return err
	}
	if head, err = o.remote.Fetch(ctx, store, o.branch, ""); err != nil {
		return err
	}
	files, err := store.Files(head)
	if err != nil {
		return err
	}
	designed, err := design.Sites(files)
	if err != nil {
		return fmt.Errorf("branch %s: %w", o.branch, err)
	}
	o.head, o.designed = head, designed
	return nil
}

// mostAhead is by how much clocks of hosts may differ.
const mostAhead = time.Minute

// take takes what a site's daemon has written.
func (n *siteNews) take(is commit.Standing, now time.Time) {
	if is.Err != nil {
		n.Trouble = is.Err.Error()
	}
	if is.News.Changed.IsZero() {
		return // nothing could be read
	}
	s := is.Status
	n.status, n.News = s, &is.News
	n.Verdict, n.Counts = s.InWords(), s.Counts()
	n.Applied, n.Attempted, n.Problems, n.Losses = s.Applied.ID, s.Attempted.ID, s.Problems, len(s.Waiting)
	for i := range s.Nodes {
		if s.Nodes[i].NeedsPerson() {
			n.Persons++
		}
	}
	if ahead := is.News.Ahead(now); n.Trouble == "" && ahead > mostAhead {
		n.Trouble = fmt.Sprintf("the clock of its daemon's host is %s ahead of this host's, so it is not known how old its news is", ahead.Round(time.Second))
	}
	if n.Trouble == "" && is.News.IsLate(now) {
		n.Trouble = fmt.Sprintf("no sign of life for %s, and one is due every %s: its host, its daemon, or its way to the repository has failed", age(is.News.At(now)), time.Duration(is.News.Every))
	}
}

func (a *app) showSites(all []siteNews) error {
	troubled := slices.ContainsFunc(all, func(n siteNews) bool { return n.Trouble != "" })
	if a.output == "json" {
		if err := a.out.JSON(all); err != nil {
			return err
		}
	} else {
		printSites(a.out, all)
	}
	if troubled {
		return errUnknown
	}
	return nil
}

func printSites(w *screen, all []siteNews) {
	red, yellow := paint(w, text.FgRed), paint(w, text.FgYellow)
	if len(all) == 0 {
		w.Println("The repository has no site.")
		return
	}
	t := newTable("site", "state", "waits for a person", "commit", "news")
	for i := range all {
		n := &all[i]
		state := "unknown"
		if n.Verdict != "" {
			state = counts(w, &n.status)
		}
		t.AppendRow(table.Row{n.Site, state, yellow(n.waits()), n.commit(), n.news()})
	}
	w.Println(t.Render())
	for _, n := range all {
		if n.Trouble != "" {
			w.Println(red(n.Site+": ") + n.Trouble)
		}
		for _, p := range n.Problems {
			w.Println(red(n.Site+": ") + p.What + " (since " + age(p.Since) + " ago)")
		}
	}
}

// waits says what waits for a person.
func (n *siteNews) waits() string {
	var parts []string
	if n.Persons > 0 {
		parts = append(parts, say.Count(n.Persons, "node"))
	}
	if n.Losses > 0 {
		parts = append(parts, "approval of data loss on "+say.Count(n.Losses, "machine"))
	}
	return strings.Join(parts, ", ")
}

// commit says which commit is in force, and whether the daemon has seen the newest one.
func (n *siteNews) commit() string {
	short := site.Revision{ID: n.Applied}.Short()
	switch {
	case n.News == nil:
		return ""
	case n.Applied == "":
		return "none in force"
	case n.Attempted != n.Head:
		return short + ", newest not seen yet"
	case n.Applied != n.Attempted:
		return short + ", newest not in force"
	}
	return short
}

// news says how old what is shown is.
func (n *siteNews) news() string {
	switch {
	case n.News == nil:
		return "none"
	case n.News.Alive.IsZero():
		return "changed " + age(n.News.Changed) + " ago, no signs of life"
	}
	return age(n.News.At(time.Now())) + " old"
}
