package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/say"
)

// stateOfSite is the state directory of a site: the daemon's own, or that of the site in it where the daemon keeps several. An
// empty directory becomes what the name says, so that several sites can be restored on a new host.
func stateOfSite(state, name string) (string, error) {
	_, noSites := os.Stat(sitesIn(state))
	_, noRecords := os.Stat(recordsIn(state))
	switch {
	case name != "" && noRecords == nil:
		return "", usage("%s is the state of one site: leave out --site", state)
	case name == "" && noSites != nil:
		return state, nil
	case !siteOfHost.MatchString(name):
		return "", usage("%s is the state of several sites: name one with --site", state)
	}
	return filepath.Join(sitesIn(state), name), nil
}

// recordsIn is where a daemon's records are in its state directory.
func recordsIn(state string) string { return filepath.Join(state, "records") }

func (a *app) stateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "state", Short: "back up and restore what a daemon has recorded", Args: knownCommand,
		Long: "A daemon records what it did to machines and cannot see from outside. An export copies\n" +
			"all of it to one file of JSON lines; see docs/records.md.\n" + exitHelp,
		Example: "  slipway state export backup.jsonl\n  slipway state import backup.jsonl",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.exportCommand(), a.importCommand())
	return cmd
}

func (a *app) exportCommand() *cobra.Command {
	var state, siteName string
	var survivor bool
	cmd := &cobra.Command{
		Use: "export FILE|-", Short: "copy the records into a file", Args: exactly(1),
		Long: "Copies everything that is recorded about the site, also while the daemon runs. The file\n" +
			"holds designs and names of credentials, but no credentials. Of a daemon that keeps several\n" +
			"sites each has a file of its own.\n\n" +
			"With --survivor it copies what the stopped member of this host has, when most other\n" +
			"members are lost for good: the last writes may be missing; see docs/members.md.\n" + exitHelp,
		Example: "  slipway state export backup.jsonl\n  slipway state export - | zstd > backup.jsonl.zst\n  slipway state export --site berlin berlin.jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			from := exportFrom
			if survivor {
				from = exportSurvivor
			}
			of, err := stateOfSite(state, siteName)
			if err != nil {
				return err
			}
			return a.exportState(cmd.Context(), from, of, args[0])
		},
	}
	addSiteOfState(cmd, &siteName)
	cmd.Flags().BoolVar(&survivor, "survivor", false, "copy what the stopped member of this host has, without the others")
	addState(cmd, &state)
	return cmd
}

func (a *app) importCommand() *cobra.Command {
	var state, siteName string
	var replace bool
	cmd := &cobra.Command{
		Use: "import FILE|-", Short: "restore a state directory from an export", Args: exactly(1),
		Long: "Reads the whole export before it changes anything, and refuses an incomplete one. The\n" +
			"daemon must not run. Existing records stay unless you pass --replace.\n" + exitHelp,
		Example: "  slipway state import backup.jsonl --state /var/lib/slipway\n  slipway state import berlin.jsonl --site berlin",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, err := stateOfSite(state, siteName)
			if err != nil {
				return err
			}
			return a.importState(cmd.Context(), of, siteName, args[0], replace)
		},
	}
	addSiteOfState(cmd, &siteName)
	cmd.Flags().BoolVar(&replace, "replace", false, "replace the records that are there")
	addState(cmd, &state)
	return cmd
}

func addSiteOfState(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "site", "", "the `NAME` of the site, where the daemon keeps several")
}

// moved is what export and import print as JSON.
type moved struct {
	record.Summary
	File string `json:"file"`
}

func (a *app) exportState(ctx context.Context, from exporter, state, file string) error {
	if file == "-" {
		sum, err := copyState(ctx, from, state, a.out.Data())
		if err != nil {
			return err
		}
		return a.tellMoved(a.err, "exported", moved{sum, file})
	}
	sum, err := saveState(ctx, from, state, file)
	if err != nil {
		return err
	}
	return a.tellMoved(a.out, "exported", moved{sum, file})
}

// saveState copies the records of a state directory into a file, which exists only once it is complete.
func saveState(ctx context.Context, from exporter, state, file string) (record.Summary, error) {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return record.Summary{}, fmt.Errorf("export: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	sum, err := copyState(ctx, from, state, f)
	if err != nil {
		return sum, err
	}
	if err := errors.Join(f.Sync(), f.Close(), os.Rename(f.Name(), file)); err != nil {
		return sum, fmt.Errorf("export: %w", err)
	}
	return sum, nil
}

// copyState copies the records of the daemon, or of its directory when none
// runs, and checks the copy on the way.
func copyState(ctx context.Context, from exporter, state string, w io.Writer) (record.Summary, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, pipe := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := from(ctx, state, pipe)
		pipe.CloseWithError(err)
		ended <- err
	}()
	sum, err := record.Verify(io.TeeReader(r, w))
	r.CloseWithError(err)
	if cause := <-ended; cause != nil {
		return record.Summary{}, cause
	}
	return sum, err
}

// exporter writes an export of the records in a state directory.
type exporter func(ctx context.Context, state string, w io.Writer) error

// exportSurvivor writes what the stopped member in a state directory has.
func exportSurvivor(ctx context.Context, state string, w io.Writer) error {
	_, err := record.ExportSurvivor(ctx, recordsIn(state), record.Cluster{Prefix: etcdPrefix, Peer: &record.Peer{}}, w, record.Options{})
	return err
}

func exportFrom(ctx context.Context, state string, w io.Writer) error {
	daemon := daemonAt(state)
	defer daemon.Close()
	if err := daemon.Export(ctx, w); !errors.Is(err, control.ErrNoDaemon) {
		return err
	}
	if _, err := os.Stat(recordsIn(state)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there are no records in %s: name the daemon's state directory with --state", state)
	}
	store, err := record.Open(ctx, recordsIn(state), record.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	_, err = store.Export(ctx, w)
	return err
}

func (a *app) importState(ctx context.Context, state, siteName, file string, replace bool) error {
	var r io.Reader = os.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("import: %w", err)
		}
		defer f.Close()
		r = f
	}
	sum, err := record.Import(ctx, recordsIn(state), r, replace, record.Options{Of: siteName})
	if err != nil {
		return err
	}
	return a.tellMoved(a.out, "imported", moved{sum, file})
}

func (a *app) tellMoved(w *screen, done string, m moved) error {
	if a.output == "json" {
		return w.JSON(m)
	}
	return w.Printf("%s %s of %s (version %d)\n", done, say.Count(m.Records, "record"), nameSites(m.Sites), m.Version)
}

func nameSites(names []string) string {
	switch len(names) {
	case 0:
		return "no site"
	case 1:
		return "site " + names[0]
	}
	return fmt.Sprintf("%d sites: %s", len(names), strings.Join(names, ", "))
}

// Export implements control.Exporter, with what was observed last.
func (k keeper) Export(ctx context.Context, w io.Writer) error {
	if err := k.engine.Records.Flush(ctx); err != nil {
		return err
	}
	_, err := k.engine.Records.Store().Export(ctx, w)
	return err
}
