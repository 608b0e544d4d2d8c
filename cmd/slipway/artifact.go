package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// artifactsIn is where a daemon's artifacts are in its state directory.
func artifactsIn(state string) string { return filepath.Join(state, "artifacts") }

func (a *app) artifactCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "artifact", Short: "look at and fill the store of images", Args: knownCommand,
		Long: "A daemon fetches the images of the design into its artifact store, verifies their\n" +
			"digests, and serves them to the machines that are installed. These commands show the\n" +
			"store and add files by hand, also while no daemon runs; see docs/artifacts.md.\n" + exitHelp,
		Example: "  slipway artifact list\n  slipway artifact add debian12.iso\n  slipway artifact gc --dry-run",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.artifactListCommand(), a.artifactAddCommand(), a.artifactVerifyCommand(), a.artifactGCCommand())
	return cmd
}

// withArtifacts works with the artifacts of the daemon, or with the store itself
// while no daemon runs.
func withArtifacts(ctx context.Context, f orderFlags, work func(artifact.Keeper) error) error {
	daemon := daemonAt(f.state).ForSite(f.site)
	defer daemon.Close()
	_, err := daemon.Artifacts().Listing(ctx)
	if !errors.Is(err, control.ErrNoDaemon) {
		if err != nil {
			return err
		}
		return work(daemon.Artifacts())
	}
	state, serr := stateOfSite(f.state, f.site)
	if serr != nil {
		return serr
	}
	if _, serr := os.Stat(state); serr != nil {
		return fmt.Errorf("%w; and there is no directory %s", err, state)
	}
	s, err := artifact.OpenService(artifact.Config{Dir: artifactsIn(state), Named: func() (map[string]bool, error) {
		return nil, errors.New("only a daemon that runs knows which images are needed: start it with `slipway run`")
	}})
	if err != nil {
		return err
	}
	defer s.Close()
	return work(s)
}

func (a *app) artifactListCommand() *cobra.Command {
	var f orderFlags
	cmd := &cobra.Command{
		Use: "list", Short: "show what is in the store, and what is being fetched", Args: exactly(0),
		Long: "Shows each file with its size and digest, and whether the design in force, an\n" +
			"installation or an open proposal needs it; and the images that are still being fetched.\n" +
			"With several daemons it shows on how many of them each file is whole. A daemon that\n" +
			"follows lists its own store.\n" + exitHelp,
		Example: "  slipway artifact list\n  slipway artifact list --output json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withArtifacts(cmd.Context(), f, func(k artifact.Keeper) error {
				l, err := k.Listing(cmd.Context())
				if err != nil {
					return err
				}
				if a.output == "json" {
					return a.out.JSON(l)
				}
				printArtifacts(a.out, l)
				return nil
			})
		},
	}
	f.add(cmd)
	return cmd
}

func printArtifacts(w *screen, l artifact.Listing) {
	if len(l.Files) > 0 {
		columns := []any{"name", "size", "sha256", "needed", "used"}
		shared := slices.ContainsFunc(l.Files, func(e artifact.Entry) bool { return e.Copies != nil })
		if shared {
			columns = append(columns, "on")
		}
		t := newTable(columns...)
		for _, e := range l.Files {
			needed := "?"
			if e.Needed != nil {
				needed = map[bool]string{true: "yes", false: "no"}[*e.Needed]
			}
			row := table.Row{e.Name, artifact.Bytes(e.Size), shortDigest(e.SHA256), needed, age(e.Used) + " ago"}
			if shared {
				row = append(row, copiesCell(e.Copies))
			}
			t.AppendRow(row)
		}
		w.Printf("%s\n\n", t.Render())
	}
	for _, digest := range slices.Sorted(maps.Keys(l.Wanted)) {
		line := wantedLine(l.Wanted[digest])
		if s := l.Wanted[digest]; s.Copies != nil {
			line = fmt.Sprintf("%s %s; on %s", s.Name, line, copiesCell(s.Copies))
		}
		w.Printf("%s  %s\n", shortDigest(digest), line)
	}
	for _, e := range l.Files {
		if c := e.Copies; c != nil && c.Kept && len(c.On) == 1 && c.Of > 1 {
			w.Printf("%s is on %s only: the loss of that host would lose the only copy\n", e.Name, c.On[0])
		}
	}
	w.Printf("%s, %s of at most %s\n", say.Count(len(l.Files), "file"), artifact.Bytes(l.Used), artifact.Bytes(l.Space))
}

// copiesCell says on how many daemons a file is.
func copiesCell(c *artifact.Copies) string {
	switch {
	case c == nil:
		return "this host, made here"
	case !c.Kept:
		return fmt.Sprintf("%d of %d, not copied", len(c.On), c.Of)
	}
	return fmt.Sprintf("%d of %d", len(c.On), c.Of)
}

// shortDigest is enough of a digest to tell it from others.
func shortDigest(digest string) string { return digest[:min(len(digest), 16)] }

func wantedLine(s artifact.State) string {
	switch {
	case s.Framing:
		return fmt.Sprintf("is being prepared for writing: %s", artifact.Bytes(s.Have))
	case s.Fetching && s.Size > 0:
		return fmt.Sprintf("is being fetched: %d %%, %s of %s, from %s", s.Have*100/s.Size, artifact.Bytes(s.Have), artifact.Bytes(s.Size), s.From)
	case s.Fetching:
		return fmt.Sprintf("is being fetched: %s, from %s", artifact.Bytes(s.Have), s.From)
	case s.Why != "" && s.Retry.IsZero():
		return "cannot be fetched now: " + s.Why
	case s.Why != "":
		return fmt.Sprintf("could not be fetched: %s; next try at %s", s.Why, s.Retry.Format(time.TimeOnly))
	}
	return "waits for other downloads"
}

func (a *app) artifactAddCommand() *cobra.Command {
	var f orderFlags
	var digest, name string
	cmd := &cobra.Command{
		Use: "add FILE|URL", Short: "put a file into the store", Args: exactly(1),
		Long: "Puts a file of this computer into the store, or fetches one, and prints its digest for\n" +
			"the design. With --sha256 the file must have that digest. Slipway does not fetch a file\n" +
			"again that is in the store, whatever URL the design gives: use this for a site without a\n" +
			"connection to its image server. \"-\" reads standard input.\n" + exitHelp,
		Example: "  slipway artifact add debian12.iso\n" +
			"  slipway artifact add https://images.example.org/debian12.iso --sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		RunE: func(cmd *cobra.Command, args []string) error {
			given := digest
			if digest = site.HexDigest(given); given != "" && !artifact.IsDigest(digest) {
				return usage("--sha256 %q is not a SHA-256 digest: 64 hex digits, with or without \"sha256:\" before them", given)
			}
			var i artifact.Info
			err := withArtifacts(cmd.Context(), f, func(k artifact.Keeper) (err error) {
				i, err = a.addArtifact(cmd.Context(), k, args[0], digest, name)
				return err
			})
			switch {
			case err != nil:
				return err
			case a.output == "json":
				return a.out.JSON(i)
			}
			a.out.Printf("%s  %s  %s\n", i.SHA256, artifact.Bytes(i.Size), i.Name)
			return nil
		},
	}
	cmd.Flags().StringVar(&digest, "sha256", "", "the `DIGEST` that the file must have")
	cmd.Flags().StringVar(&name, "name", "", "the `NAME` of the file in the store (default: its own name)")
	f.add(cmd)
	return cmd
}

// addArtifact adds a file, or what a URL gives.
func (a *app) addArtifact(ctx context.Context, k artifact.Keeper, from, digest, name string) (artifact.Info, error) {
	show, done := a.byteProgress()
	defer done()
	if strings.Contains(from, "://") {
		return k.AddURL(ctx, artifact.File{URL: from, SHA256: digest, For: "the file"}, show)
	}
	f, size, err := openInput(from)
	if err != nil {
		return artifact.Info{}, err
	}
	defer f.Close()
	if name == "" {
		name = filepath.Base(from)
	}
	return k.AddFile(ctx, f, size, digest, name, func(have int64) { show(have, size) })
}

// openInput opens a file, or standard input, whose size nobody knows.
func openInput(name string) (io.ReadCloser, int64, error) {
	if name == "-" {
		return io.NopCloser(os.Stdin), 0, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory: name a file", name)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// byteProgress shows on a terminal how far bytes are, until it is done.
func (a *app) byteProgress() (show func(have, of int64), done func()) {
	if !a.err.Terminal() {
		return func(int64, int64) {}, func() {}
	}
	const width = 30
	var last time.Time
	show = func(have, of int64) {
		if now := time.Now(); now.Sub(last) > 100*time.Millisecond {
			last = now
			whole := ""
			if of > 0 {
				full := int(have * width / of)
				whole = strings.Repeat("█", full) + strings.Repeat("░", width-full) + fmt.Sprintf(" %d %% of %s, ", have*100/of, artifact.Bytes(of))
			}
			a.err.Restart(whole + artifact.Bytes(have))
		}
	}
	return show, func() { a.err.Restart("") }
}

// verified is what verify prints as JSON.
type verified struct {
	Files   []artifact.Checked `json:"files"`
	Damaged int                `json:"damaged"`
}

func (a *app) artifactVerifyCommand() *cobra.Command {
	var f orderFlags
	cmd := &cobra.Command{
		Use: "verify", Short: "read all files again and compare their digests", Args: exactly(0),
		Long: "Reads every file in the store and compares its digest. Removes damaged files, which are\n" +
			"fetched again where they are needed, and then ends with exit code 1.\n" + exitHelp,
		Example: "  slipway artifact verify",
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := verified{Files: []artifact.Checked{}}
			err := withArtifacts(cmd.Context(), f, func(k artifact.Keeper) error {
				show, done := a.byteProgress()
				defer done()
				return k.Verify(cmd.Context(), show, func(c artifact.Checked) {
					v.Files = append(v.Files, c)
					if c.Got != c.SHA256 {
						v.Damaged++
					}
				})
			})
			if err != nil {
				return err
			}
			return a.tellVerified(v)
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) tellVerified(v verified) error {
	if a.output == "json" {
		if err := a.out.JSON(v); err != nil {
			return err
		}
	} else {
		for _, c := range v.Files {
			switch {
			case c.Got == c.SHA256:
				a.out.Printf("%s  ok       %s\n", shortDigest(c.SHA256), c.Name)
			case c.Err != "":
				a.out.Printf("%s  removed  %s: %s\n", shortDigest(c.SHA256), c.Name, c.Err)
			default:
				a.out.Printf("%s  removed  %s: its digest is %s now\n", shortDigest(c.SHA256), c.Name, shortDigest(c.Got))
			}
		}
	}
	if v.Damaged > 0 {
		return fmt.Errorf("%s of %d damaged; the disk may be failing", say.Count(v.Damaged, "file"), len(v.Files))
	}
	return nil
}

// collected is what gc prints as JSON.
type collected struct {
	Removed []artifact.Info `json:"removed"`
	Bytes   int64           `json:"bytes"`
	DryRun  bool            `json:"dryRun,omitempty"`
}

func (a *app) artifactGCCommand() *cobra.Command {
	var f orderFlags
	var unused time.Duration
	var dry bool
	cmd := &cobra.Command{
		Use: "gc", Short: "remove the files that nothing needs", Args: exactly(0),
		Long: "Removes the files that were not used for some time and that neither the design in force,\n" +
			"nor a running installation, nor an open proposal names. Only a running daemon knows what\n" +
			"is named. A daemon also makes room by itself when an image does not fit.\n" + exitHelp,
		Example: "  slipway artifact gc --dry-run\n  slipway artifact gc --unused 0s",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := collected{Removed: []artifact.Info{}, DryRun: dry}
			err := withArtifacts(cmd.Context(), f, func(k artifact.Keeper) error {
				gone, err := k.Collect(cmd.Context(), unused, dry)
				c.Removed = append(c.Removed, gone...)
				return err
			})
			if err != nil {
				return err
			}
			for _, i := range c.Removed {
				c.Bytes += i.Size
			}
			if a.output == "json" {
				return a.out.JSON(c)
			}
			for _, i := range c.Removed {
				a.out.Printf("%s  %s  %s\n", shortDigest(i.SHA256), artifact.Bytes(i.Size), i.Name)
			}
			did := map[bool]string{true: "would remove", false: "removed"}[dry]
			a.out.Printf("%s %s, %s\n", did, say.Count(len(c.Removed), "file"), artifact.Bytes(c.Bytes))
			return nil
		},
	}
	cmd.Flags().DurationVar(&unused, "unused", 24*time.Hour, "keep what was added or used within this `TIME`")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be removed")
	f.add(cmd)
	return cmd
}
