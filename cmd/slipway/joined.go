package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/member"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/retry"
	"github.com/slipway-gitops/slipway/engine/say"
)

// memberFolder is where a host's own member's folder is unless a flag says otherwise.
const memberFolder = "/etc/slipway/member"

// joins returns the records of a daemon that is a member itself.
func joins(dir string) (*record.Cluster, error) {
	f, err := member.Open(dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--join: %w", err)
	case f.Witness:
		return nil, fmt.Errorf("--join: the folder %s is a witness's: start `slipway witness` with it, or get a folder of a daemon by `slipway member add`", dir)
	}
	return &record.Cluster{Prefix: etcdPrefix, Peer: f.Peer()}, nil
}

// openMember serves the socket on which people see and change who the members are.
func (d *daemon) openMember(ctx context.Context) error {
	if d.etcd.join == "" {
		return nil
	}
	end, err := serveMember(ctx, d.state, d.store, d.log)
	if err != nil {
		return err
	}
	d.onClose(end)
	return nil
}

// serveMember answers on a state directory's socket of its member until end is called.
func serveMember(ctx context.Context, state string, store *record.Store, log *slog.Logger) (end func(), err error) {
	l, err := control.Listen(ctx, member.Socket(state))
	if err != nil {
		return nil, fmt.Errorf("serve the member's socket: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := member.Serve(ctx, l, store, log); err != nil {
			log.Error("the member's socket is not served", "err", err)
		}
	})
	return func() { cancel(); serving.Wait() }, nil
}

// watchEvery is how often the daemon asks how the members are.
const watchEvery = 30 * time.Second

// watchMembers reports members that do not take part, and another cluster, as a problem of the site.
func (d *daemon) watchMembers(ctx context.Context) error {
	for ok := true; ok; ok = retry.Sleep(ctx, watchEvery) {
		all, err := d.store.Members(ctx)
		if err == nil {
			err = membersProblem(all, d.store.OtherClusters(ctx))
		}
		d.engine.Problem("members", err)
	}
	return nil
}

// membersProblem is what is wrong with the members: first another cluster, because two that act for one
// site do most harm.
func membersProblem(all []record.Member, others []string) error {
	if len(others) > 0 {
		return fmt.Errorf("a second cluster of members runs for this site, at %s, because `slipway member init` was run twice. Make sure which has the records of today (`slipway status` on both), stop all daemons and witnesses of the other, "+
			"and have their hosts replaced in the right one by `slipway member replace` (docs/members.md)", strings.Join(others, ", "))
	}
	var why []string
	for _, m := range all {
		if m.Started && m.Trouble != "" {
			why = append(why, fmt.Sprintf("%s: %s", m.Address, m.Trouble))
		}
	}
	if len(why) == 0 {
		return nil
	}
	return fmt.Errorf("%s. %s", membersVerdict(all), strings.Join(why, "; "))
}

// endsSoon is how long before their end certificates of members are reported: a new authority takes planning.
const endsSoon = 180 * 24 * time.Hour

// memberNotes says when the loss of a single member would stop the site, and when the certificates end.
func memberNotes(store *record.Store, folder string, now time.Time) (notes []string) {
	n := store.Voters()
	if n == 0 {
		return nil
	}
	if end, err := member.Ends(folder); err == nil && end.Sub(now) < endsSoon {
		notes = append(notes, fmt.Sprintf("the certificates of all members end on %s, and no member reaches another after that: begin with a new authority before (docs/members.md)", end.UTC().Format(time.DateOnly)))
	}
	if n >= record.MinVoters {
		return notes
	}
	return append(notes, fmt.Sprintf("the records are on %s that may vote; until there are %d, the loss of any stops this site: run `slipway member add` (docs/members.md)", say.Count(n, "member"), record.MinVoters))
}

func (a *app) witnessCommand() *cobra.Command {
	var state, join string
	var verbose bool
	cmd := &cobra.Command{
		Use: "witness", Short: "keep a copy of the records, without a daemon", Args: exactly(0),
		Long: "Runs only a member of the etcd that the daemons of a site form (slipway run --join). Two\n" +
			"daemons and a witness survive the loss of one of the three. A witness follows no\n" +
			"repository, has no credentials of machines, and never leads; it holds all records.\n" + exitHelp,
		Example: "  slipway witness --join /etc/slipway/member --state /var/lib/slipway",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.witness(cmd.Context(), state, join, verbose) },
	}
	cmd.Flags().StringVar(&join, "join", memberFolder, "the `FOLDER` of this member, which `slipway member add --witness` made")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "log more")
	addState(cmd, &state)
	return cmd
}

func (a *app) witness(ctx context.Context, state, join string, verbose bool) error {
	f, err := member.Open(join)
	switch {
	case err != nil:
		return fmt.Errorf("--join: %w", err)
	case !f.Witness:
		return fmt.Errorf("--join: the folder %s is a daemon's: start `slipway run` with it, or get a folder of a witness by `slipway member add --witness`", join)
	}
	log := a.logger(verbose)
	if err := hideMemory(); err != nil {
		log.Warn("memory is not hidden", "err", err)
	}
	store, err := record.Open(ctx, filepath.Join(state, "records"), record.Options{Log: log, Cluster: &record.Cluster{Prefix: etcdPrefix, Peer: f.Peer()}})
	if err != nil {
		return fmt.Errorf("state directory %s: %w", state, err)
	}
	defer store.Close()
	end, err := serveMember(ctx, state, store, log)
	if err != nil {
		return err
	}
	defer end()
	log.Info("slipway is a witness", "member", f.Address, "state", state)
	if err := store.UntilStopped(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
