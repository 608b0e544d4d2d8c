package main

import (
	"cmp"
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
	"github.com/slipway-gitops/slipway/engine/present"
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
	if !f.watch {
		all, err := o.look(ctx)
		if all == nil {
			return err
		}
		shown := a.showSites(all, time.Now())
		return cmp.Or(err, shown)
	}
	return a.watchSites(ctx, o, f.every)
}

// watchSites shows the sites again and again until the context ends: an interrupt is how watching ends.
func (a *app) watchSites(ctx context.Context, o *onlooker, every time.Duration) error {
	for last := (time.Time{}); ; {
		all, err := o.look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if all != nil {
			last = time.Now()
			if a.out.Terminal() && a.output == "text" {
				a.out.Clear()
			}
			if err := a.showSites(all, last); err != nil && !errors.Is(err, errUnknown) {
				return err
			}
		}
		switch {
		case err == nil:
		case all == nil && !last.IsZero():
			a.err.Println(err.Error() + "; the sites were last read " + age(last) + " ago, and their ages are as of then")
		default:
			a.err.Println(err.Error())
		}
		if !retry.Sleep(ctx, every) {
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
	// Head is the newest commit of the branch, empty if the branch could not be read. Attempted is the newest commit that the
	// site's daemon had looked at, Applied the one in force.
	Head      string `json:"head,omitempty"`
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

// look reads what is new. Sites are those of the design and those with a status branch, by name. With an error it may return
// sites too: a design that cannot be read hides no status.
func (o *onlooker) look(ctx context.Context) ([]siteNews, error) {
	written, err := o.written.Look(ctx)
	if err != nil {
		return nil, err
	}
	head, err := o.lookAtDesign(ctx)
	names := slices.Clone(o.designed)
	for name := range written {
		names = append(names, name)
	}
	slices.Sort(names)
	now := time.Now()
	all := []siteNews{}
	for _, name := range slices.Compact(names) {
		n := siteNews{Site: name, Head: head, Trouble: "no daemon has written a status of it"}
		if is, there := written[name]; there {
			n.take(is)
			n.Trouble = troubleOf(&is, now)
			if is.Err == nil && head != "" && !slices.Contains(o.designed, name) { // it is late too
				n.Trouble = "branch " + o.branch + " has no such site: if it is gone, end its daemon, and delete its status branch and its sign of life"
			}
		}
		all = append(all, n)
	}
	if err != nil && len(all) == 0 {
		return nil, err // whether it has sites is not known
	}
	return all, err
}

// lookAtDesign finds the sites that the branch has, and returns its newest commit.
func (o *onlooker) lookAtDesign(ctx context.Context) (string, error) {
	head, err := o.remote.Head(ctx, o.branch)
	if err != nil || head == o.head {
		return head, err
	}
	store, err := repo.OpenStore("")
	if err != nil {
		return "", err
	}
	if head, err = o.remote.Fetch(ctx, store, o.branch, ""); err != nil {
		return "", err
	}
	files, err := store.Files(head)
	if err != nil {
		return "", err
	}
	designed, err := design.Sites(files)
	if err != nil {
		return "", fmt.Errorf("branch %s: %w", o.branch, err)
	}
	o.head, o.designed = head, designed
	return head, nil
}

// mostAhead is by how much clocks of hosts may differ.
const mostAhead = time.Minute

// What people read of a site's text is bounded: anybody who can push may have written it.
const (
	mostProblems = 5
	mostText     = 500 // characters
)

// take takes what a site's daemon has written.
func (n *siteNews) take(is commit.Standing) {
	if is.News.Changed.IsZero() {
		return // nothing could be read
	}
	s := is.Status
	n.status, n.News = s, &is.News
	n.Verdict, n.Counts = s.InWords(), s.Counts()
	n.Applied, n.Attempted, n.Problems, n.Losses = s.Applied.ID, s.Attempted.ID, s.Problems, is.Losses
	for i := range s.Nodes {
		if s.Nodes[i].NeedsPerson() {
			n.Persons++
		}
	}
}

// troubleOf says why a site's state is not known, or may be of long ago; empty if it is known.
func troubleOf(is *commit.Standing, now time.Time) string {
	ahead := is.News.Ahead(now)
	switch {
	case is.Err != nil:
		return site.Shorten(is.Err.Error(), mostText)
	case ahead > mostAhead:
		return fmt.Sprintf("the clock of its daemon's host is %s ahead of this host's, so it is not known how old its news is", ahead.Round(time.Second))
	case is.News.IsLate(now):
		return fmt.Sprintf("no sign of life for %s, and one is due every %s: its host, its daemon, or its way to the repository has failed", present.Age(is.News.At(now), now), time.Duration(is.News.Every))
	}
	return ""
}

func (a *app) showSites(all []siteNews, now time.Time) error {
	troubled := slices.ContainsFunc(all, func(n siteNews) bool { return n.Trouble != "" })
	if a.output == "json" {
		if err := a.out.JSON(all); err != nil {
			return err
		}
	} else {
		printSites(a.out, all, now)
	}
	if troubled {
		return errUnknown
	}
	return nil
}

func printSites(w *screen, all []siteNews, now time.Time) {
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
		t.AppendRow(table.Row{n.Site, state, yellow(n.waits()), n.commit(), n.news(now)})
	}
	w.Println(t.Render())
	for _, n := range all {
		if n.Trouble != "" {
			w.Println(red(n.Site+": ") + n.Trouble)
		}
		for i, p := range n.Problems {
			if i == mostProblems {
				w.Println(red(n.Site+": ") + "and " + say.Count(len(n.Problems)-i, "more problem"))
				break
			}
			line := red(n.Site+": ") + site.Shorten(p.What, mostText)
			if p.Since.Before(now) { // else its clock is ahead
				line += " (since " + present.Age(p.Since, now) + " ago)"
			}
			w.Println(line)
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
	case n.Head == "":
		return short // what is newest is not known
	case n.Attempted != n.Head:
		return short + ", newest not seen yet"
	case n.Applied != n.Attempted:
		return short + ", newest not in force"
	}
	return short
}

// news says how old what is shown is.
func (n *siteNews) news(now time.Time) string {
	switch {
	case n.News == nil:
		return "none"
	case n.News.Ahead(now) > mostAhead:
		return "of unknown age"
	case n.News.Alive.IsZero():
		return "changed " + present.Age(n.News.At(now), now) + " ago, no signs of life"
	}
	return present.Age(n.News.At(now), now) + " old"
}
