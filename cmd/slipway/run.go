package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
	"github.com/slipway-gitops/slipway/sinks/commit"
	"github.com/slipway-gitops/slipway/sinks/netboot"
	"github.com/slipway-gitops/slipway/sources/dir"
	"github.com/slipway-gitops/slipway/sources/git"
)

type runFlags struct {
	repo, branch, dir, site, state, credentials string
	knownHosts, repoCA, repoCredential          string
	repoCredentialGiven                         bool
	siteKey, identity, socketGroup, agents      string
	programs, vault                             string
	allowRewrite, observe, verbose              bool
	seen                                        seenFlags
	pulls                                       pullFlags
	artifacts                                   artifactFlags
	netboot                                     netbootFlags
	listens                                     agentFlags
	api                                         apiFlags
	etcd                                        etcdFlags
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use: "run", Short: "manage a site from its repository", Args: exactly(0),
		Long: "Follows a branch, evaluates each new commit, applies it to the machines and writes the\n" +
			"status to the branch slipway/status/SITE of the same repository. After a broken commit,\n" +
			"or while the repository cannot be reached, the last good design stays in force.\n\n" +
			"With --github it plans each pull request as if it were merged, comments with the plan,\n" +
			"and reports what comes of it. With --listen it serves metrics and readiness; with\n" +
			"--notify-command or --notify-webhook it notifies people when action is needed. With\n" +
			"--netboot it serves DHCP and network boot in networks of the design. With --api other\n" +
			"hosts can ask and order what the commands here can, as far as --api-access allows. With\n" +
			"--web browsers can do the same on a page. With --etcd several hosts can run a daemon for\n" +
			"the site: one leads, and another takes over when it is lost.\n" + exitHelp,
		Example: "  slipway run --repo ssh://git@git.example.org/site.git --known-hosts /etc/slipway/known_hosts \\\n" +
			"      --state /var/lib/slipway --credentials /etc/slipway/credentials\n" +
			"  slipway run --dir ./site --state ./state --credentials ./credentials --observe\n" +
			"  slipway run --repo https://github.com/acme/site --github acme/site --credentials /etc/slipway/credentials\n" +
			"  slipway run --repo /srv/site.git --credentials ./credentials --listen 127.0.0.1:9469 --notify-command /usr/local/bin/page",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.repoCredentialGiven = cmd.Flags().Changed("repo-credential")
			return a.run(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.repo, "repo", "", "repository: a path, file://, ssh:// or https://")
	flags.StringVar(&f.branch, "branch", "main", "branch to follow")
	flags.StringVar(&f.dir, "dir", "", "follow a folder instead of a repository; no status is committed")
	flags.StringVar(&f.site, "site", "", "the site's name, when the repository has several")
	flags.StringVar(&f.knownHosts, "known-hosts", "", "OpenSSH known_hosts file with the repository's host")
	flags.StringVar(&f.repoCA, "repo-ca", "", "PEM file with the certificate authority of an https:// repository, instead of the system's")
	flags.StringVar(&f.repoCredential, "repo-credential", "git", "name of the credential with the repository's SSH key or token")
	flags.StringVar(&f.socketGroup, "socket-group", "", "`GROUP` whose members may use the daemon's socket, for status and for commands such as approve; without it only root and the daemon's user")
	flags.StringVar(&f.agents, "agents", helperFolder(), "`FOLDER` with the helpers that configure installed systems (SLIPWAY_AGENTS); with an empty one Slipway only observes systems")
	flags.BoolVar(&f.allowRewrite, "allow-rewrite", false, "follow the branch also when its history was rewritten")
	flags.BoolVar(&f.observe, "observe", false, "write to no machine")
	flags.BoolVar(&f.verbose, "verbose", false, "log more")
	f.seen.add(flags)
	f.pulls.add(flags)
	f.artifacts.add(flags)
	f.netboot.add(flags)
	f.listens.add(flags)
	f.api.add(flags)
	f.etcd.add(flags)
	addState(cmd, &f.state)
	addCredentials(cmd, &f.credentials)
	addSiteKey(cmd, &f.siteKey)
	addIdentity(cmd, &f.identity)
	flags.StringVar(&f.programs, "programs", programsFolder, "folder with one file for each credential that a program prints")
	flags.StringVar(&f.vault, "vault", vaultFile, "file that says where the server of OpenBao or HashiCorp Vault is")
	return cmd
}

func (a *app) run(ctx context.Context, f runFlags) error {
	if (f.repo == "") == (f.dir == "") {
		return usage("run follows either --repo or --dir")
	}
	if err := cmp.Or(f.seen.check(), f.pulls.check(f.repo), f.artifacts.check(), f.netboot.check(f.observe), f.listens.check(f.observe, f.artifacts), f.api.check(), f.etcd.check(&f), checkHelpers(f.agents)); err != nil {
		return err
	}
	log := a.logger(f.verbose)
	dropAmbient(log)
	if err := hideMemory(); err != nil {
		log.Warn("memory is not hidden", "err", err)
	}
	secrets, err := secret.Open(f.credentials)
	if err != nil {
		return err
	}
	var made func(path, recipient string) // nil where nothing is written
	if !f.observe {
		made = func(path, recipient string) {
			log.Info("identity made", "file", path, "recipient", recipient, "copy", "run `slipway secret identity --export FILE`, and keep the file away from this host")
		}
	}
	secrets.Unseal(identityAt(f.identity, f.credentials), made)
	secrets.Programs(f.programs)
	secrets.Vault(f.vault)
	out, err := f.seen.open(ctx)
	if err != nil {
		return err
	}
	defer out.close()
	answers, err := f.api.open(ctx)
	if err != nil {
		return err
	}
	defer answers.close()
	pulls, err := f.pulls.open(ctx, f.branch, secrets, log)
	if err != nil {
		return err
	}
	defer pulls.close()
	cluster, err := f.etcd.cluster()
	if err != nil {
		return err
	}
	store, err := record.Open(ctx, filepath.Join(f.state, "records"), record.Options{Log: log, Cluster: cluster})
	if err != nil {
		return fmt.Errorf("state directory %s: %w", f.state, err)
	}
	defer store.Close()
	source, remote, err := follow(f, pulls, secrets, log)
	if err != nil {
		return err
	}
	name, err := siteName(ctx, f, source)
	if err != nil {
		return err
	}
	ready := &readiness{}
	ready.set(starting)
	pages, hide := out.begin(ctx, ready.unready, log)
	defer hide()
	if f.etcd.used() {
		follows := &follower{site: name}
		ready.set(follows.unready)
		if err := follows.lead(ctx, store, control.Socket(f.state), f.socketGroup, log); isStopped(ctx, err) {
			return nil
		} else if err != nil {
			return err
		}
		ready.set(starting)
	}
	if err := recall(ctx, secrets, store.Site(name)); err != nil {
		return err
	}
	evaluator, err := newEvaluator(log)
	if err != nil {
		return err
	}
	collectBySize()
	defer evaluator.Close()
	keyFile := siteKeyAt(f.siteKey, f.credentials)
	key, noKey := openSiteKey(ctx, keyFile, store.Site(name), f.observe, log)
	var e *engine.Engine
	var boots *netboot.Service // nil without --netboot
	c := engine.Config{
		Site: name, Source: timedSource{pulls.source(source), out.metrics}, Drivers: out.metrics.Drivers(drivers(agent.Options{Folder: f.agents, ObserveOnly: f.observe})),
		Secrets: secrets, Records: store.Site(name), ObserveOnly: f.observe, Log: log,
		Host: ownHost(), Key: key, Notes: func() []string { return slices.Concat(keyNotes(keyFile, key)(), secrets.Notes(), f.etcd.notes()) },
		Surroundings: f.surroundings,
		Served:       func() []site.Served { return boots.Status() },
		Meter:        out.metrics.Site(name, func() site.Report { return e.Report() }),
		Evaluate:     evaluate(evaluator, name, serves(drivers(agent.Options{Folder: f.agents}), f.listens.medium != ""), out.metrics),
	}
	var files *artifact.Service // nil while nothing is written to machines
	if !f.observe {
		files, err = f.artifacts.open(f.state, func() (map[string]bool, error) { return namedFiles(e, pulls.reviews) },
			func(err error) { e.Problem("images", err) }, log)
		if err != nil {
			return err
		}
		defer files.Close()
		c.Artifacts = files
	}
	listener, err := f.listens.open(ctx, name, f.state, files, func(err error) { e.Problem("agents", err) }, log)
	if err != nil {
		return err
	}
	var starts *agentBoots // nil where no agent starts over the network
	if listener != nil {
		c.Agents = listener
		if f.netboot.text != "" {
			starts = &agentBoots{}
			starts.image, starts.none = f.listens.startsFrom(f.state)
			c.NetBoots = starts
		}
	}
	if c.Reporters, err = out.reporters(f, name, secrets, log); err != nil {
		return err
	}
	if remote != nil {
		branch, err := commit.New(*remote, name, log)
		if err != nil {
			return err
		}
		c.Anchor, c.Branch = branch, timedReporter{branch, out.metrics}
		proposer, end, err := pulls.proposer(*remote, f.branch, name, log)
		if err != nil {
			return err
		}
		defer end()
		c.Proposer = proposer
	}
	e = engine.New(c)
	ready.set(e.Unready)
	boots = f.netboot.open(e, c.Records, log)
	if starts != nil {
		starts.Service = boots
	}
	e.Problem("site key", noKey)
	secrets.Watch(func(err error) { e.Problem("credentials", err) })
	parts, err := pulls.join(e, remote, f.state, c.Records, out)
	if err != nil {
		return err
	}
	if files != nil {
		out.metrics.Artifacts(name, artifactNumbers(files))
		parts = append(parts, whenReady(e, files.Run))
	}
	if listener != nil {
		parts = append(parts, whenReady(e, listener.Run))
	}
	if boots != nil {
		parts = append(parts, boots.Run)
	}
	if answers != nil {
		answers.Problem = func(err error) { e.Problem("access file", err) }
		parts = append(parts, func(ctx context.Context) error { return answers.run(ctx, keeper{e, files}, log) })
	}
	log.Info("slipway runs", "site", name, "from", f.repo+f.dir, "state", f.state, "observe", f.observe)
	return runAll(ctx, log, append(parts, e.Run,
		func(ctx context.Context) error {
			return control.Serve(ctx, control.Socket(f.state), f.socketGroup, keeper{e, files}, log)
		},
		pages, untilLost(store, name), out.tell)...)
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

func (a *app) logger(verbose bool) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	options := &slog.HandlerOptions{Level: level}
	if a.output == "json" {
		return slog.New(slog.NewJSONHandler(a.err.LinesOfJSON(), options))
	}
	if a.err.Journal() {
		return slog.New(newJournal(a.err.Lines(), level))
	}
	return slog.New(slog.NewTextHandler(a.err.Lines(), options))
}

// follow makes the source, and the remote that the status goes to.
func follow(f runFlags, p *pulls, secrets *secret.Store, log *slog.Logger) (engine.Source, *repo.Remote, error) {
	if f.dir != "" {
		return dir.New(f.dir, log), nil, nil
	}
	remote, err := openRemote(f, p, secrets)
	if err != nil {
		return nil, nil, err
	}
	s, err := git.New(git.Config{
		Remote: remote, Branch: f.branch, Dir: filepath.Join(f.state, "repository"), AllowRewrite: f.allowRewrite, Log: log,
	})
	return s, &remote, err
}

func openRemote(f runFlags, p *pulls, secrets *secret.Store) (repo.Remote, error) {
	u, err := url.Parse(f.repo)
	if err != nil || u.Scheme != "ssh" && u.Scheme != "https" {
		return repo.New(f.repo, secret.Value{}, "")
	}
	if p.github != nil && p.github.Is(u) && !f.repoCredentialGiven {
		return repo.NewHTTPS(f.repo, p.github.Login(u), cmp.Or(f.repoCA, f.pulls.ca))
	}
	ask, err := secret.For(f.repoCredential, secret.Git, u)
	if err != nil {
		return repo.Remote{}, fmt.Errorf("repository: %w", err)
	}
	value, err := secrets.Get(ask)
	switch {
	case err != nil:
		return repo.Remote{}, fmt.Errorf("repository: %w", err)
	case u.Scheme == "ssh":
		return repo.New(f.repo, value, f.knownHosts)
	}
	// A token expires: the next one is a file put in the place of its own.
	login := func(context.Context) (secret.Value, error) { return secrets.Get(ask) }
	return repo.NewHTTPS(f.repo, login, f.repoCA)
}

// siteName is the site to keep: the named one, or the repository's only one.
// It is remembered, for a start while the repository is away.
func siteName(ctx context.Context, f runFlags, s engine.Source) (string, error) {
	memo := filepath.Join(f.state, "site")
	text, err := os.ReadFile(memo)
	last := strings.TrimSpace(string(text))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if f.site != "" {
		return f.site, remember(memo, last, f.site)
	}
	rev, err := s.Fetch(ctx)
	if err != nil {
		if last != "" {
			return last, nil
		}
		return "", fmt.Errorf("%w; pass --site to start without the repository", err)
	}
	names, err := design.Sites(rev.Files)
	switch {
	case err != nil:
		return "", err
	case len(names) == 0:
		return "", errors.New("the repository holds no site: put one at its root or under sites/ (slipway check says more)")
	case len(names) > 1:
		return "", fmt.Errorf("the repository holds several sites: choose one with --site: %s", strings.Join(names, ", "))
	}
	if last != "" && last != names[0] {
		return "", fmt.Errorf("the repository holds site %s, and the records in %s are of site %s: a renamed site has no records; pass --site with the one that you want", names[0], f.state, last)
	}
	return names[0], remember(memo, last, names[0])
}

// remember has the memo say a name, as a whole: a daemon that is killed over it
// starts again.
func remember(memo, last, name string) error {
	if name == last {
		return nil
	}
	return replaceFile(memo, []byte(name+"\n"), 0o600)
}

// runAll runs what a daemon consists of until the context ends, which is how it
// is meant to end, or until a part of it fails.
func runAll(ctx context.Context, log *slog.Logger, parts ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, len(parts))
	for i, run := range parts {
		wg.Go(func() {
			if errs[i] = run(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	log.Info("slipway ends")
	return errors.Join(errs...)
}
