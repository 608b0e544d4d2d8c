package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type runFlags struct {
	repo, branch, dir, site, state, credentials string
	knownHosts, repoCA, repoCredential          string
	repoCredentialGiven                         bool
	sites                                       []string // as given; site is the only one, or the one of this process
	allSites                                    bool
	siteFiles                                   string // folder with what is different for one site of several
	behind                                      string // socket of this process of one site of several
	siteKey, identity, socketGroup, agents      string
	intermediate                                string
	programs, vault                             string
	allowRewrite, observe, verbose              bool
	aliveEvery                                  time.Duration
	seen                                        seenFlags
	pulls                                       pullFlags
	artifacts                                   artifactFlags
	netboot                                     netbootFlags
	listens                                     agentFlags
	api                                         apiFlags
	traces                                      traceFlags
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
			"--web browsers can do the same on a page. With --traces it sends traces of rollouts to a\n" +
			"collector of OpenTelemetry. With --etcd several hosts can run a daemon for the site: one\n" +
			"leads, and another takes over when it is lost. With --site several times, or with\n" +
			"--all-sites, it keeps several sites side by side.\n" + exitHelp,
		Example: "  slipway run --repo ssh://git@git.example.org/site.git --known-hosts /etc/slipway/known_hosts \\\n" +
			"      --state /var/lib/slipway --credentials /etc/slipway/credentials\n" +
			"  slipway run --dir ./site --state ./state --credentials ./credentials --observe\n" +
			"  slipway run --repo https://github.com/acme/site --github acme/site --credentials /etc/slipway/credentials\n" +
			"  slipway run --repo /srv/site.git --credentials ./credentials --listen 127.0.0.1:9469 --notify-command /usr/local/bin/page",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.repoCredentialGiven = cmd.Flags().Changed("repo-credential")
			if err := f.checkSites(); err != nil {
				return err
			}
			if f.isOfSeveral() {
				return a.runSites(cmd.Context(), f, cmd.Flags())
			}
			if len(f.sites) == 1 {
				f.site = f.sites[0]
			}
			if f.behind != "" {
				return a.runBehind(cmd.Context(), f)
			}
			return a.run(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	addRepository(flags, &f)
	flags.StringVar(&f.dir, "dir", "", "follow a folder instead of a repository; no status is committed")
	flags.StringArrayVar(&f.sites, "site", nil, "the `NAME` of the site, when the repository has several; given several times, each site gets a process of its own")
	flags.BoolVar(&f.allSites, "all-sites", false, "manage all sites of the repository, also those that are added later, each in a process of its own (docs/sites.md)")
	flags.StringVar(&f.siteFiles, "site-files", siteFolder, "`FOLDER` with a file SITE.conf for each of several sites that needs flags of its own; files must belong to root")
	flags.StringVar(&f.behind, "behind", "", "answer the process that keeps several sites on this socket")
	flags.MarkHidden("behind")
	flags.StringVar(&f.socketGroup, "socket-group", "", "`GROUP` whose members may use the daemon's socket, for status and for commands such as approve; without it only root and the daemon's user")
	flags.StringVar(&f.agents, "agents", helperFolder(), "`FOLDER` with the helpers that configure installed systems (SLIPWAY_AGENTS); with an empty one Slipway only observes systems")
	flags.BoolVar(&f.allowRewrite, "allow-rewrite", false, "follow the branch also when its history was rewritten")
	flags.BoolVar(&f.observe, "observe", false, "write to no machine")
	flags.BoolVar(&f.verbose, "verbose", false, "log more")
	flags.DurationVar(&f.aliveEvery, "alive-every", 0, "leave a sign of life in the repository at this `INTERVAL`, such as 10m, for `slipway sites` elsewhere; none without it")
	f.seen.add(flags)
	f.pulls.add(flags)
	f.artifacts.add(flags)
	f.netboot.add(flags)
	f.listens.add(flags)
	f.api.add(flags)
	f.traces.add(flags)
	f.etcd.add(flags)
	addState(cmd, &f.state)
	addCredentials(cmd, &f.credentials)
	addSiteKey(cmd, &f.siteKey)
	addIdentity(cmd, &f.identity)
	flags.StringVar(&f.intermediate, "tls-intermediate", os.Getenv("SLIPWAY_TLS_INTERMEDIATE"), "file with the key and certificate of the authority for TLS whose root is kept elsewhere (SLIPWAY_TLS_INTERMEDIATE); without it the site key's signs")
	flags.StringVar(&f.programs, "programs", programsFolder, "folder with one file for each credential that a program prints")
	flags.StringVar(&f.vault, "vault", vaultFile, "file that says where the server of OpenBao or HashiCorp Vault is")
	return cmd
}

// addRepository adds the flags that say which branch of which repository is read, and how it is reached.
func addRepository(flags *pflag.FlagSet, f *runFlags) {
	flags.StringVar(&f.repo, "repo", "", "repository: a path, file://, ssh:// or https://")
	flags.StringVar(&f.branch, "branch", "main", "branch to follow")
	flags.StringVar(&f.knownHosts, "known-hosts", "", "OpenSSH known_hosts file with the repository's host")
	flags.StringVar(&f.repoCA, "repo-ca", "", "PEM file with the certificate authority of an https:// repository, instead of the system's")
	flags.StringVar(&f.repoCredential, "repo-credential", "git", "name of the credential with the repository's SSH key or token")
}

func (a *app) run(ctx context.Context, f runFlags) error {
	if err := cmp.Or(f.check(), f.checkAlone()); err != nil {
		return err
	}
	log := a.logger(f.verbose)
	if f.behind != "" {
		log = log.With("process", f.site) // lines of all sites are in one log
	}
	dropAmbient(log)
	if err := hideMemory(); err != nil {
		log.Warn("memory is not hidden", "err", err)
	}
	d := &daemon{runFlags: f, log: log, made: make(chan struct{})}
	defer d.close()
	for _, open := range []func(context.Context) error{
		d.openSecrets, d.openListeners, d.openRecords, d.openSource, d.openFiles, d.lead, d.openEvaluator, d.openEngine,
	} {
		if err := open(ctx); isStopped(ctx, err) {
			return nil
		} else if err != nil {
			return err
		}
	}
	parts, err := d.parts()
	if err != nil {
		return err
	}
	log.Info("slipway runs", "site", d.name, "from", f.repo+f.dir, "state", f.state, "observe", f.observe)
	return runAll(ctx, log, parts...)
}

// How often a sign of life may be left.
const leastAlive, mostAlive = time.Minute, 24 * time.Hour

// check finds flags that make no sense together.
func (f *runFlags) check() error {
	if (f.repo == "") == (f.dir == "") {
		return usage("run follows either --repo or --dir")
	}
	switch {
	case f.aliveEvery != 0 && f.repo == "":
		return usage("--alive-every leaves signs of life in the repository: pass --repo")
	case f.aliveEvery != 0 && (f.aliveEvery < leastAlive || f.aliveEvery > mostAlive):
		return usage("--alive-every is from %s to %s, not %s: each sign of life is a push", leastAlive, mostAlive, f.aliveEvery)
	}
	return cmp.Or(f.seen.check(), f.pulls.check(f.repo), f.artifacts.check(), f.netboot.check(f.observe), f.listens.check(f.observe, f.artifacts), f.api.check(), f.traces.check(), f.etcd.check(f), checkHelpers(f.agents))
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
