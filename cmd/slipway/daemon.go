package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/copies"
	"github.com/slipway-gitops/slipway/engine/derived"
	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/garbage"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/review"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
	"github.com/slipway-gitops/slipway/sinks/commit"
	"github.com/slipway-gitops/slipway/sinks/netboot"
	"github.com/slipway-gitops/slipway/sinks/traces"
	"github.com/slipway-gitops/slipway/sources/git"
)

// daemon is what `slipway run` consists of. It is opened in the order of its fields, and closed in
// the opposite one.
type daemon struct {
	runFlags
	log     *slog.Logger
	closing []func()

	secrets   *secret.Store
	out       *outside
	answers   *apiListener // nil without --api
	pulls     *pulls
	store     *record.Store
	source    engine.Source
	remote    *repo.Remote // nil with --dir
	name      string       // of the site
	records   *record.Site
	evaluator *design.Evaluator
	files     *artifact.Service // nil with --observe
	copies    *copies.Service   // nil where no other daemon shares the records
	listener  *agent.Service    // nil without --ramdisk
	starts    *agentBoots       // nil where no agent starts over the network
	spans     *traces.Exporter  // nil without --traces
	engine    *engine.Engine
	boots     *netboot.Service // nil without --netboot
	made      chan struct{}    // closed when engine, boots and starts are set
	ready     readiness
	pages     func(context.Context) error // of --listen
}

// onClose has a part closed with the daemon.
func (d *daemon) onClose(end func()) { d.closing = append(d.closing, end) }

func (d *daemon) close() {
	for _, end := range slices.Backward(d.closing) {
		end()
	}
}

// openSecrets opens the credentials, and makes an identity when the first encrypted one is asked for.
func (d *daemon) openSecrets(context.Context) (err error) {
	if d.secrets, err = secret.Open(d.credentials); err != nil {
		return err
	}
	var made func(path, recipient string) // nil where nothing is written
	if !d.observe {
		made = func(path, recipient string) {
			d.log.Info("identity made", "file", path, "recipient", recipient, "copy", "run `slipway secret identity --export FILE`, and keep the file away from this host")
		}
	}
	d.secrets.Unseal(identityAt(d.identity, d.credentials), made)
	d.secrets.Programs(d.programs)
	d.secrets.Vault(d.vault)
	return nil
}

// openListeners listens before anything is begun: an address that cannot be had ends the start.
func (d *daemon) openListeners(ctx context.Context) (err error) {
	if d.out, err = d.seen.open(ctx); err != nil {
		return err
	}
	d.onClose(d.out.close)
	if d.answers, err = d.api.open(ctx); err != nil {
		return err
	}
	d.onClose(d.answers.close)
	if d.pulls, err = d.runFlags.pulls.open(ctx, d.branch, d.secrets, d.log); err != nil {
		return err
	}
	d.onClose(d.pulls.close)
	return nil
}

func (d *daemon) openRecords(ctx context.Context) (err error) {
	cluster, err := d.etcd.cluster()
	if err != nil {
		return err
	}
	if d.store, err = record.Open(ctx, filepath.Join(d.state, "records"), record.Options{Log: d.log, Cluster: cluster}); err != nil {
		return fmt.Errorf("state directory %s: %w", d.state, err)
	}
	d.onClose(func() { d.store.Close() })
	return d.openMember(ctx)
}

// openSource finds the site, and its records.
func (d *daemon) openSource(ctx context.Context) (err error) {
	if d.source, d.remote, err = follow(d.runFlags, d.pulls, d.secrets, d.log); err != nil {
		return err
	}
	if d.name, err = siteName(ctx, d.runFlags, d.source); err != nil {
		return err
	}
	d.records = d.store.Site(d.name)
	return nil
}

// lead says from here on what the daemon does, and with --etcd waits until it leads the site.
func (d *daemon) lead(ctx context.Context) error {
	d.ready.set(starting)
	pages, hide := d.out.begin(ctx, d.ready.unready, d.log)
	d.pages = pages
	d.onClose(hide)
	if d.etcd.used() {
		follows := &follower{site: d.name, copies: d.copies}
		d.ready.set(follows.unready)
		d.answers.follow(ctx, follows.elsewhere, d.log)
		if err := follows.lead(ctx, d.store, control.Socket(d.state), d.socketGroup, d.log); err != nil {
			return err
		}
		d.ready.set(starting)
	}
	return recall(ctx, d.secrets, d.records)
}

func (d *daemon) openEvaluator(context.Context) (err error) {
	if d.evaluator, err = newEvaluator(d.log); err != nil {
		return err
	}
	d.onClose(func() { d.evaluator.Close() })
	garbage.CollectBySize()
	return nil
}

// openEngine makes the engine, and what serves machines for it.
func (d *daemon) openEngine(ctx context.Context) error {
	keyFile := siteKeyAt(d.siteKey, d.credentials)
	key, noKey := openSiteKey(ctx, keyFile, d.records, d.observe, d.log)
	if key != nil {
		d.secrets.Derives(derived.Passwords(key, d.name))
	}
	intermediate, err := openIntermediate(d.intermediate)
	if err != nil {
		return err
	}
	serving := serves(drivers(agent.Options{Folder: d.agents}), d.listens.medium != "")
	c := engine.Config{
		Site: d.name, Source: timedSource{d.pulls.source(d.source), d.out.metrics}, Drivers: d.out.metrics.Drivers(drivers(agent.Options{Folder: d.agents, ObserveOnly: d.observe})),
		Secrets: d.secrets, Records: d.records, ObserveOnly: d.observe, Log: d.log,
		Host: ownHost(), Cluster: d.store.ClusterID(), Key: key, TLSIntermediate: intermediate, Notes: func() []string {
			return slices.Concat(keyNotes(keyFile, key)(), d.secrets.Notes(), d.copyNotes(), memberNotes(d.store, d.etcd.join, time.Now()))
		},
		Files:        d.pulls.files(),
		Surroundings: d.surroundings,
		Served:       d.served,
		Meter:        d.out.metrics.Site(d.name, d.report),
		Evaluate:     evaluate(d.evaluator, d.name, serving, d.out.metrics),
	}
	if err := d.openInstalls(ctx, &c); err != nil {
		return err
	}
	if err := d.openReports(&c); err != nil {
		return err
	}
	d.engine = engine.New(c)
	d.ready.set(d.engine.Unready)
	d.boots = d.runFlags.netboot.open(d.engine, d.records, d.log)
	if d.starts != nil {
		d.starts.Service = d.boots
	}
	close(d.made)
	d.engine.Problem("site key", noKey)
	d.secrets.Watch(func(err error) { d.engine.Problem("credentials", err) })
	return nil
}

// report waits for the engine: --listen answers /metrics before there is one.
func (d *daemon) report() site.Report {
	<-d.made
	return d.engine.Report()
}

// served waits as report does.
func (d *daemon) served() []site.Served {
	<-d.made
	return d.boots.Status()
}

// openFiles opens the store of what machines are installed from, where they are written to. It is filled also while
// another daemon leads.
func (d *daemon) openFiles(ctx context.Context) (err error) {
	if d.observe {
		return nil
	}
	c := artifact.Config{Named: d.namedFiles, Problem: func(err error) { d.engine.Problem("images", err) }, Log: d.log}
	if d.etcd.used() {
		c.Forget = func(ctx context.Context, files []artifact.Info) error { return d.copies.Forget(ctx, files) }
	}
	if d.files, err = d.artifacts.open(d.state, c); err != nil {
		return err
	}
	d.onClose(func() { d.files.Close() })
	return d.openCopies(ctx)
}

// namedFiles are the digests that are needed.
func (d *daemon) namedFiles() (map[string]bool, error) {
	if d.copies != nil {
		return d.copies.Named()
	}
	return namedFiles(d.engine, d.pulls.reviews)
}

// openInstalls opens what machines are installed from.
func (d *daemon) openInstalls(ctx context.Context, c *engine.Config) (err error) {
	if d.files != nil {
		c.Artifacts = d.files
	}
	d.listener, err = d.listens.open(ctx, d.name, d.state, d.files, func(err error) { d.engine.Problem("agents", err) }, d.log)
	if err != nil || d.listener == nil {
		return err
	}
	c.Agents = d.listener
	if d.runFlags.netboot.text != "" {
		d.starts = &agentBoots{}
		d.starts.image, d.starts.none = d.listens.startsFrom(d.state)
		c.NetBoots = d.starts
	}
	return nil
}

// openReports opens what is told of the site: a collector of traces, people, the status branch, and branches that propose drift.
func (d *daemon) openReports(c *engine.Config) (err error) {
	if d.spans, err = d.traces.open(d.name, d.secrets, func(err error) { d.engine.Problem("traces", err) }, d.out.metrics, d.log); err != nil {
		return err
	}
	c.Tracer = tracer(d.spans)
	if c.Reporters, err = d.out.reporters(d.runFlags, d.name, d.secrets, d.log); err != nil || d.remote == nil {
		return err
	}
	branch, err := commit.New(*d.remote, d.name, d.log)
	if err != nil {
		return err
	}
	c.Anchor, c.Branch = branch, timedReporter{branch, d.out.metrics}
	if d.aliveEvery > 0 {
		c.Alive, c.AliveEvery = branch, d.aliveEvery
	}
	proposer, end, err := d.pulls.proposer(*d.remote, d.branch, d.name, d.log)
	if err != nil {
		return err
	}
	d.onClose(func() { end() })
	c.Proposer = proposer
	return nil
}

// parts are what runs for as long as the daemon does.
func (d *daemon) parts() ([]func(context.Context) error, error) {
	parts, err := d.pulls.join(d.engine, d.remote, d.state, d.records, d.out)
	if err != nil {
		return nil, err
	}
	if d.remote != nil {
		run, err := d.planCommits()
		if err != nil {
			return nil, err
		}
		parts = append(parts, run)
	}
	if d.files != nil {
		d.out.metrics.Artifacts(d.name, artifactNumbers(d.files, d.copies))
		parts = append(parts, whenReady(d.engine, d.files.Run))
	}
	if d.listener != nil {
		parts = append(parts, whenReady(d.engine, d.listener.Run))
	}
	if d.boots != nil {
		parts = append(parts, d.boots.Run)
	}
	commands := keeper{d.engine, d.shelf()}
	if d.answers != nil {
		d.answers.Problem = func(err error) { d.engine.Problem("access file", err) }
		parts = append(parts, func(ctx context.Context) error { return d.answers.run(ctx, commands, d.log) })
	}
	if d.behind != "" {
		parts = append(parts, func(ctx context.Context) error {
			file := &access.File{Path: d.api.access}
			return control.ServeBehind(ctx, d.behind, commands, file, func(err error) { d.engine.Problem("access file", err) }, d.out.metrics.Pages(d.ready.unready), d.log)
		})
	}
	if d.copies != nil {
		parts = append(parts, d.watchCopies)
	}
	if d.etcd.join != "" {
		parts = append(parts, d.store.UntilStopped, d.watchMembers)
	}
	return append(parts, traced(d.spans, d.engine.Run), d.secrets.Attend,
		func(ctx context.Context) error {
			return control.Serve(ctx, control.Socket(d.state), d.socketGroup, commands, d.log)
		},
		d.pages, untilLost(d.store, d.name), d.out.tell), nil
}

// planCommits plans commits without a pull request for those who ask. Whoever may push makes branches, so they are evaluated
// apart from the site, and by one process at a time: people can ask for many.
func (d *daemon) planCommits() (run func(context.Context) error, err error) {
	heads, err := git.NewHeads(git.HeadsConfig{Remote: *d.remote, Branch: d.branch, Dir: filepath.Join(d.state, "branches")})
	if err != nil {
		return nil, err
	}
	e, err := newEvaluator(d.log)
	if err != nil {
		return nil, err
	}
	e.Workers = 1
	d.onClose(func() { e.Close() })
	return d.engine.PlanCommits(review.CommitsConfig{Heads: heads, Evaluate: evaluate(e, d.name, d.engine.Serves(), d.out.metrics),
		Judge: judge(e, d.name, d.out.metrics), Pages: d.pulls.files()}).Run, nil
}

// recall has the secrets that are opened compared with those that were opened before.
func recall(ctx context.Context, secrets *secret.Store, records *record.Site) error {
	known, err := records.Opened(ctx)
	if err != nil {
		return fmt.Errorf("read which secrets were opened: %w", err)
	}
	secrets.Remember(known, func(name string, changed time.Time) error { return records.PutOpened(ctx, name, changed) })
	return nil
}
