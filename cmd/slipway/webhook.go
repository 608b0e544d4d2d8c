package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/net/netutil"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/serve"
	"github.com/slipway-gitops/slipway/sinks/github"
)

// hookFlags say where webhooks come in.
type hookFlags struct{ listen, cert, key, credential string }

func (f *hookFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "webhook-listen", "", "take GitHub's webhooks at `HOST:PORT`, to look sooner")
	flags.StringVar(&f.cert, "webhook-cert", "", "PEM `FILE` with the certificate that --webhook-listen shows, and its chain")
	flags.StringVar(&f.key, "webhook-key", "", "PEM `FILE` with the key of --webhook-cert")
	flags.StringVar(&f.credential, "webhook-credential", "webhook", "`NAME` of the credential with the webhooks' secret")
}

func (f *hookFlags) check() error {
	switch {
	case (f.cert == "") != (f.key == ""):
		return usage("--webhook-cert and --webhook-key go together")
	case f.cert != "" && f.listen == "":
		return usage("--webhook-cert needs --webhook-listen")
	}
	return nil
}

// Bounds on those who come with webhooks, or say so.
const (
	maxConnections  = 64
	hookHeader      = 16 << 10 // bytes
	hookReadHeader  = 5 * time.Second
	hookTimeout     = 15 * time.Second
	hookIdle        = time.Minute
	rememberTimeout = 500 * time.Millisecond
	forgetEvery     = time.Hour
	sweepEvery      = 30 * time.Minute
)

// webhook is where webhooks come in.
type webhook struct {
	listener net.Listener
	secret   func() (secret.Value, error)
	hints    *forge.Hints
	taken    *deliveries
	handler  http.Handler
	log      *slog.Logger
}

// open listens. What comes in is signed and not secret to who signs it, and is
// read along by nobody else: without a certificate it comes from this host.
func (f *hookFlags) open(ctx context.Context, api string, secrets *secret.Store) (*webhook, error) {
	u, err := url.Parse(api)
	if err != nil {
		return nil, err
	}
	ask, err := secret.For(f.credential, secret.Webhook, u)
	if err != nil {
		return nil, err
	}
	w := &webhook{
		hints:  forge.NewHints(),
		secret: func() (secret.Value, error) { return secrets.Get(ask) },
	}
	if _, err := w.secret(); err != nil {
		return nil, fmt.Errorf("webhooks: %w", err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w; --webhook-listen takes HOST:PORT, an address of this host and a port that nobody else has", f.listen, err)
	}
	if w.listener, err = f.secure(netutil.LimitListener(l, maxConnections)); err != nil {
		l.Close()
		return nil, err
	}
	return w, nil
}

// secure puts TLS over a listener.
func (f *hookFlags) secure(l net.Listener) (net.Listener, error) {
	if a, ok := l.Addr().(*net.TCPAddr); f.cert == "" && ok && !a.IP.IsLoopback() {
		return nil, fmt.Errorf("listen at %s: anyone on the way could read what GitHub reports about the repository: "+
			"pass --webhook-cert and --webhook-key, or listen at 127.0.0.1 behind a server of this host that has a certificate", f.listen)
	}
	if f.cert == "" {
		return l, nil
	}
	c := &serve.Certificate{Cert: f.cert, Key: f.key}
	if _, err := c.Get(nil); err != nil {
		return nil, fmt.Errorf("certificate of --webhook-listen: %w: pass PEM files that belong together", err)
	}
	return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.Get}), nil
}

// expect says what webhooks are about, and where it is remembered which were
// taken.
func (w *webhook) expect(repository string, records *record.Site, log *slog.Logger) {
	w.taken = &deliveries{records: records}
	w.handler = github.NewHook(repository, w.secret, w.taken, w.hints, log)
	w.log = log
}

// answer takes webhooks until the context ends.
func (w *webhook) answer(ctx context.Context) error {
	if err := w.taken.refresh(ctx); err != nil {
		return err
	}
	srv := &http.Server{
		Handler:           w.handler,
		ReadHeaderTimeout: hookReadHeader, ReadTimeout: hookTimeout, WriteTimeout: hookTimeout, IdleTimeout: hookIdle,
		MaxHeaderBytes: hookHeader,
		ErrorLog:       slog.NewLogLogger(w.log.Handler(), slog.LevelDebug), // anybody can make it speak
	}
	w.log.Info("slipway takes webhooks", "address", w.listener.Addr().String())
	if err := serve.Until(ctx, srv, w.listener); err != nil {
		return fmt.Errorf("take webhooks: %w", err)
	}
	return nil
}

// sweep has GitHub deliver again what did not arrive, every so often.
func (w *webhook) sweep(r *github.Repository) func(context.Context) error {
	return func(ctx context.Context) error {
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for {
			n, err := r.Sweep(ctx, time.Now().Add(-github.KeepDeliveries))
			switch {
			case errors.Is(err, errors.ErrUnsupported), ctx.Err() != nil:
				return nil
			case err != nil:
				w.log.Warn("missed webhook deliveries could not be asked for again", "err", err)
			case n > 0:
				w.log.Info("asked GitHub for missed webhook deliveries again", "count", n)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// deliveries remembers in the records which deliveries were taken. It is a
// github.Deliveries.
type deliveries struct {
	records *record.Site

	mu    sync.Mutex
	taken map[string]time.Time
	read  time.Time // when they were last read from the records
}

// refresh reads the records, which forget what is old.
func (d *deliveries) refresh(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.refreshLocked(ctx)
}

func (d *deliveries) refreshLocked(ctx context.Context) error {
	taken, err := d.records.Deliveries(ctx, time.Now().Add(-github.KeepDeliveries))
	if err != nil {
		return fmt.Errorf("read which webhook deliveries were received: %w", err)
	}
	d.taken, d.read = taken, time.Now()
	return nil
}

// Taken says whether a delivery was taken.
func (d *deliveries) Taken(guid string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.taken[guid].IsZero()
}

// Take remembers a delivery.
func (d *deliveries) Take(guid string) error {
	ctx, cancel := context.WithTimeout(context.Background(), rememberTimeout)
	defer cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if err := d.records.TakeDelivery(ctx, guid, now); err != nil {
		return err
	}
	d.taken[guid] = now
	if now.Sub(d.read) > forgetEvery {
		return d.refreshLocked(ctx)
	}
	return nil
}
