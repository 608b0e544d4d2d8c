package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/metrics"
	"github.com/slipway-gitops/slipway/sinks/notify"
)

// seenFlags say who may look at a daemon, and whom it tells. They are never in
// the design: whoever may merge a line of it must not be able to run a program
// on this host, or to have it send what it knows elsewhere.
type seenFlags struct {
	listen           string
	everywhere       bool
	command, webhook string
	credential, form string
}

func (f *seenFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "listen", "", "answer /metrics, /readyz and /healthz at `HOST:PORT`, such as 127.0.0.1:9469")
	flags.BoolVar(&f.everywhere, "listen-everywhere", false, "allow --listen on all addresses of this host")
	flags.StringVar(&f.command, "notify-command", "", "`PROGRAM` that is run when a person is needed")
	flags.StringVar(&f.webhook, "notify-webhook", "", "https:// `URL` that is posted to when a person is needed")
	flags.StringVar(&f.credential, "notify-credential", "", "`NAME` of the credential that signs what is posted, or that the service of --notify-form asks for")
	flags.StringVar(&f.form, "notify-form", notify.Own, "`FORM` of what is posted: "+strings.Join(notify.Forms(), ", "))
}

func (f *seenFlags) check() error {
	switch {
	case f.everywhere && f.listen == "":
		return usage("--listen-everywhere needs --listen")
	case f.credential != "" && f.webhook == "":
		return usage("--notify-credential needs --notify-webhook")
	case f.form != notify.Own && f.webhook == "":
		return usage("--notify-form needs --notify-webhook")
	}
	return nil
}

// outside is how a daemon is seen from outside.
type outside struct {
	metrics  *metrics.Metrics
	listener net.Listener     // nil for none
	notifier *notify.Notifier // nil for none
}

// open listens first of all, if that is asked for: an address that cannot be
// had is found out before anything is begun.
func (f *seenFlags) open(ctx context.Context) (*outside, error) {
	o := &outside{metrics: metrics.New(thisVersion().Version)}
	if f.listen == "" {
		return o, nil
	}
	var err error
	o.listener, err = metrics.Listen(ctx, f.listen, f.everywhere)
	return o, err
}

func (o *outside) close() {
	if o.listener != nil {
		o.listener.Close()
	}
}

// answer serves the pages until the context ends.
func (o *outside) answer(ctx context.Context, pages http.Handler, log *slog.Logger) error {
	if o.listener == nil {
		return nil
	}
	log.Info("slipway listens", "address", o.listener.Addr().String())
	return metrics.Serve(ctx, o.listener, pages, log)
}

// begin serves the pages from now on. What is returned waits for an error of that, and ends it.
func (o *outside) begin(ctx context.Context, unready func() []string, log *slog.Logger) (wait func(context.Context) error, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- o.answer(ctx, o.metrics.Pages(unready), log) }()
	wait = func(ctx context.Context) error {
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return nil
		}
	}
	return wait, cancel
}

// tell tells people until the context ends.
func (o *outside) tell(ctx context.Context) error {
	if o.notifier != nil {
		o.notifier.Run(ctx)
	}
	return nil
}

// reporters are those who are told of the site's status, besides its branch. The
// one that only takes note comes first: the others may take their time.
func (o *outside) reporters(f runFlags, name string, secrets *secret.Store, log *slog.Logger) ([]engine.Reporter, error) {
	var all []engine.Reporter
	channels, err := f.seen.channels(secrets, o.metrics, log)
	if err != nil {
		return nil, err
	}
	if len(channels) > 0 {
		if o.notifier, err = notify.New(notify.Config{Site: name, Dir: f.state, Channels: channels, Log: log}); err != nil {
			return nil, err
		}
		all = append(all, o.notifier)
	}
	return all, nil
}

// channels are those by which people are told.
func (f *seenFlags) channels(secrets *secret.Store, m *metrics.Metrics, log *slog.Logger) (map[string]notify.Channel, error) {
	channels := map[string]notify.Channel{}
	if f.command != "" {
		c, err := notify.NewCommand(f.command, log)
		if err != nil {
			return nil, err
		}
		channels["command"] = timedChannel{c, m}
	}
	if f.webhook != "" {
		w, err := notify.NewWebhook(f.webhook, f.credential, f.form, secrets)
		if err != nil {
			return nil, err
		}
		channels["webhook"] = timedChannel{w, m}
	}
	return channels, nil
}

// evaluate is the engine's way to a site's design, measured. The drivers' part in
// what is wrong with it is found here.
func evaluate(e *design.Evaluator, name string, serves map[site.Facet]bool, m *metrics.Metrics) func(context.Context, site.Revision) (*site.Site, []site.Finding, error) {
	return func(ctx context.Context, r site.Revision) (*site.Site, []site.Finding, error) {
		var got design.Result
		err := m.Time("evaluate", func() (err error) {
			got, err = e.Evaluate(ctx, r.Files, name)
			return err
		})
		if got.Site != nil {
			got.Findings = slices.Concat(got.Findings, design.IdleNeeds(got.Site, serves), design.UnseenHealth(got.Site, serves))
		}
		return got.Site, got.Findings, err
	}
}

type timedChannel struct {
	notify.Channel
	m *metrics.Metrics
}

func (c timedChannel) Send(ctx context.Context, message notify.Message) error {
	return c.m.Time("notify", func() error { return c.Channel.Send(ctx, message) })
}

// Pace is that of the channel itself.
func (c timedChannel) Pace() notify.Pace {
	if p, ok := c.Channel.(notify.Paced); ok {
		return p.Pace()
	}
	return notify.Pace{}
}

type timedReporter struct {
	engine.Reporter
	m *metrics.Metrics
}

func (r timedReporter) Report(ctx context.Context, report site.Report) error {
	return r.m.Time("report", func() error { return r.Reporter.Report(ctx, report) })
}

type timedSource struct {
	engine.Source
	m *metrics.Metrics
}

func (s timedSource) Fetch(ctx context.Context) (rev site.Revision, err error) {
	err = s.m.Time("fetch", func() error {
		rev, err = s.Source.Fetch(ctx)
		return err
	})
	return rev, err
}

// Changes is nil, which never gives a value, for a source that does not know
// by itself.
func (s timedSource) Changes(ctx context.Context) <-chan struct{} {
	if n, ok := s.Source.(engine.Notifier); ok {
		return n.Changes(ctx)
	}
	return nil
}
