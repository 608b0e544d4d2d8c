package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
)

// etcdFlags say that several controllers share the records of the site in an existing etcd.
type etcdFlags struct {
	urls, cert, key, ca, prefix string
	join                        string // the folder of a member, in place of an existing etcd
	copies                      string // where other daemons get artifacts
}

const etcdPrefix = "/slipway/sites/"

func (f *etcdFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.urls, "etcd", "", "keep the records in an existing etcd, which several controllers share: the `URLS` of its members, separated by commas; one controller leads, the others follow (docs/controllers.md)")
	flags.StringVar(&f.cert, "etcd-cert", "", "PEM `FILE` with the certificate that is shown to etcd, and its chain")
	flags.StringVar(&f.key, "etcd-key", "", "PEM `FILE` with the key of --etcd-cert")
	flags.StringVar(&f.ca, "etcd-ca", "", "PEM `FILE` with the certificate authority of etcd's members")
	flags.StringVar(&f.prefix, "etcd-prefix", etcdPrefix, "what the keys in etcd begin with, before the site's name")
	flags.StringVar(&f.copies, "copy-listen", copyListen, "with --etcd or --join, give artifacts to the site's other daemons at `ADDRESS`, HOST:PORT or :PORT; \"off\" gives none")
	flags.StringVar(&f.join, "join", "", "be a member of an etcd that the daemons of the site form, by the `FOLDER` that `slipway member` made (docs/members.md)")
}

func (f *etcdFlags) used() bool { return f.urls != "" || f.join != "" }

// flag is the one by which the records are shared.
func (f *etcdFlags) flag() string {
	if f.join != "" {
		return "--join"
	}
	return "--etcd"
}

// check finds what makes no sense together, and what several controllers cannot do yet. What they
// cannot do is refused and not left out: nobody would notice before the leader is lost.
func (f *etcdFlags) check(r *runFlags) error {
	switch {
	case f.urls != "" && f.join != "":
		return usage("--etcd is for an existing etcd, and --join for one that the daemons form: remove one of them")
	case f.urls == "" && (f.cert != "" || f.key != "" || f.ca != "" || f.prefix != etcdPrefix):
		return usage("--etcd-cert, --etcd-key, --etcd-ca and --etcd-prefix need --etcd")
	case !f.used() && f.copies != copyListen:
		return usage("--copy-listen is for the other daemons of a site, and needs --etcd or --join")
	case !f.used():
		return nil
	case f.checkCopies() != nil:
		return f.checkCopies()
	case r.dir != "":
		return usage("%s needs --repo: each controller would follow a folder of its own host", f.flag())
	case r.observe:
		return usage("--observe writes to no machine, and with %s it could be the one that leads: remove one of them", f.flag())
	case r.netboot.text != "":
		return usage("--netboot does not follow the leader yet: with %s, serve DHCP and network boot elsewhere", f.flag())
	case r.listens.medium != "":
		return usage("--ramdisk does not follow the leader yet: agents would call the host that was lost; remove --ramdisk or %s", f.flag())
	case r.seen.command != "" || r.seen.webhook != "":
		return usage("--notify-command and --notify-webhook keep on each host what people were told, so after a takeover they would be told again: with %s, alert by --listen (docs/metrics.md)", f.flag())
	case f.join != "":
		return nil
	case !strings.HasPrefix(f.prefix, "/") || !strings.HasSuffix(f.prefix, "/"):
		return usage("--etcd-prefix %q does not begin and end with /", f.prefix)
	}
	return f.checkURLs()
}

func (f *etcdFlags) checkURLs() error {
	for _, text := range f.endpoints() {
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Host == "" || u.Port() == "" || u.Path != "" || u.User != nil:
			return usage("--etcd: %q is not https://HOST:PORT", text)
		case u.Scheme == "https" && (f.cert == "" || f.key == "" || f.ca == ""):
			return usage("--etcd needs --etcd-cert, --etcd-key and --etcd-ca: etcd and the controllers prove to each other who they are")
		case u.Scheme == "http" && !isLoopback(u.Hostname()):
			return usage("--etcd: %s is not encrypted: use https://, or an address of this host such as 127.0.0.1", text)
		case u.Scheme == "http" && (f.cert != "" || f.key != "" || f.ca != ""):
			return usage("--etcd: %s is not encrypted, and --etcd-cert, --etcd-key and --etcd-ca are for https://", text)
		case u.Scheme != "https" && u.Scheme != "http":
			return usage("--etcd: %q is not https://HOST:PORT", text)
		}
	}
	return nil
}

func (f *etcdFlags) endpoints() []string { return strings.Split(f.urls, ",") }

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// cluster returns the etcd to use, nil for records of the daemon's own.
func (f *etcdFlags) cluster() (*record.Cluster, error) {
	if f.join != "" {
		return joins(f.join)
	}
	if !f.used() {
		return nil, nil
	}
	c := &record.Cluster{Endpoints: f.endpoints(), Prefix: f.prefix}
	if f.cert == "" {
		return c, nil
	}
	text, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, fmt.Errorf("--etcd-ca: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--etcd-ca: %s holds no certificate in PEM", f.ca)
	}
	if _, err := tls.LoadX509KeyPair(f.cert, f.key); err != nil {
		return nil, fmt.Errorf("--etcd-cert and --etcd-key: %w", err)
	}
	c.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12,
		// Read for each connection, so that a renewed certificate needs no restart.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(f.cert, f.key)
			return &pair, err
		}}
	return c, nil
}

// copier copies artifacts from the other daemons, also while another one leads.
type copier interface {
	// Problem is what keeps artifacts from being copied; nil for nothing.
	Problem() error
	// Keeper is the artifact store as people work with it.
	Keeper() artifact.Keeper
}

// follower is a controller while another one leads. It looks at no machine and evaluates nothing.
type follower struct {
	site   string
	copies copier

	mu     sync.Mutex
	leader record.Leader
	since  time.Time // of the trouble
	copied []site.Problem
	leads  bool // this controller does
}

// lead waits until this controller leads the site. Meanwhile the socket says who does.
func (w *follower) lead(ctx context.Context, store *record.Store, socket, group string, log *slog.Logger) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	log.Info("slipway follows until it leads the site", "site", w.site)
	var serving sync.WaitGroup
	var failed error
	serving.Go(func() {
		if failed = control.Serve(ctx, socket, group, w, log); failed != nil {
			stop()
		}
	})
	err := store.Lead(ctx, w.site, engine.Holder(), func(l record.Leader) { w.note(l, log) })
	stop()
	serving.Wait()
	if failed != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return failed
	}
	if err == nil {
		w.mu.Lock()
		w.leads = true
		w.mu.Unlock()
		log.Info("slipway leads the site", "site", w.site)
	}
	return err
}

// note takes what the last look showed.
func (w *follower) note(l record.Leader, log *slog.Logger) {
	w.mu.Lock()
	before := w.leader
	if w.leader = l; l.Trouble != nil && before.Trouble == nil {
		w.since = time.Now()
	}
	w.mu.Unlock()
	switch {
	case l.Trouble != nil && (before.Trouble == nil || before.Trouble.Error() != l.Trouble.Error()):
		log.Warn("who leads the site is not known, or this daemon cannot lead it", "site", w.site, "err", l.Trouble)
	case l.Trouble == nil && l.Term != 0 && (l.Term != before.Term || before.Trouble != nil):
		log.Info("another controller leads the site", "site", w.site, "leader", l.Holder, "term", l.Term, "released", l.Released)
	}
}

func (w *follower) now() (l record.Leader, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leader, w.since
}

// leads names who leads the site.
func leads(l record.Leader) string {
	switch {
	case l.Term == 0:
		return "nobody yet"
	case l.Released:
		return fmt.Sprintf("nobody: %s has ended term %d", site.Printable(l.Holder), l.Term)
	}
	return fmt.Sprintf("%s (term %d)", site.Printable(l.Holder), l.Term)
}

// unready says why the site is not kept by this daemon.
func (w *follower) unready() []string {
	l, _ := w.now()
	why := []string{fmt.Sprintf("this daemon follows; site %s is led by: %s", w.site, leads(l))}
	if l.Trouble != nil {
		why = append(why, site.Printable(l.Trouble.Error()))
	}
	return why
}

// copyProblems is what keeps artifacts from being copied, with the time since when people could read it here.
func (w *follower) copyProblems(why error, now time.Time) []site.Problem {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case why == nil:
		w.copied = nil
	case len(w.copied) == 0:
		w.copied = []site.Problem{{About: "copies", What: why.Error(), Since: now}}
	default:
		w.copied = []site.Problem{{About: "copies", What: why.Error(), Since: w.copied[0].Since}}
	}
	return w.copied
}

func (w *follower) Sites() []string { return []string{w.site} }

// Report implements control.Daemon. A follower knows of no machine.
func (w *follower) Report(name string) (site.Report, error) {
	if name != "" && name != w.site {
		return site.Report{}, fmt.Errorf("%w: this daemon manages site %s, not %s", site.ErrNotFound, w.site, name)
	}
	l, since := w.now()
	s := site.Status{Site: w.site, Leader: leads(l), Nodes: []site.NodeStatus{}}
	if l.Trouble != nil {
		s.Problems = []site.Problem{{About: "records", What: site.Printable(l.Trouble.Error()), Since: since}}
	}
	if l.Trouble == nil {
		s.Problems = w.copyProblems(w.copies.Problem(), time.Now())
	}
	return site.Report{Status: s}, nil
}

// Access implements control.Daemon. The design in force, which may grant something, is the leader's.
func (w *follower) Access(string) (approved site.GrantedState, inForce site.Granted, err error) {
	return approved, inForce, w.elsewhere()
}

// AccessReport implements control.Daemon.
func (w *follower) AccessReport(string) (site.AccessReport, error) {
	return site.AccessReport{}, w.elsewhere()
}

// elsewhere is the answer to everything else.
func (w *follower) elsewhere() error {
	w.mu.Lock()
	l, isLeader := w.leader, w.leads
	w.mu.Unlock()
	if isLeader {
		return fmt.Errorf("%w no longer: it leads site %s from now on, and loads the records", control.ErrFollows, w.site)
	}
	led := leads(l)
	if l.Trouble != nil {
		led += ", as far as is known: " + site.Printable(l.Trouble.Error())
	}
	return fmt.Errorf("%w and does nothing for site %s; it is led by: %s. Run the command, or open the page, on the leader's host", control.ErrFollows, w.site, led)
}

// readiness answers /readyz, for whatever the daemon is at the moment.
type readiness struct {
	mu  sync.Mutex
	why func() []string
}

func (r *readiness) set(why func() []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.why = why
}

func (r *readiness) unready() []string {
	r.mu.Lock()
	why := r.why
	r.mu.Unlock()
	return why()
}

// starting is why a daemon is not ready before it has an engine.
func starting() []string { return []string{"the records are not loaded yet"} }

// untilLost fails when another controller leads the site. The daemon ends with that, and follows when
// it is started again: nothing that it knew of the site lives on in its memory.
func untilLost(store *record.Store, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-store.Lost():
			return fmt.Errorf("another controller leads site %s, and this daemon has stopped writing to machines and records: it ends, and follows when it is started again", name)
		}
	}
}

// isStopped reports whether following ended because the daemon was asked to end.
func isStopped(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Canceled)
}
