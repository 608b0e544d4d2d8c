// Package traces sends the work on revisions to a collector of OpenTelemetry, as spans over OTLP/HTTP. One trace has
// the work on one revision of a site: docs/traces.md describes it.
//
// Spans are sent once they have ended. Nothing waits for the collector: while it is away, the newest spans are kept
// within bounds and older ones are dropped.
package traces

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// These are the times of delivery.
const (
	gather     = time.Second // from the first span until a batch is sent, to collect more
	firstWait  = 5 * time.Second
	longWait   = 5 * time.Minute
	lastChance = 3 * time.Second // to send what is left when the daemon ends
)

// Config configures an Exporter.
type Config struct {
	Site, Version string
	// URL is the collector's: https://, or http:// on this host. Without a path it gets OTLP's usual one.
	URL string
	// Credential names what is sent with each request; empty for nothing. It is read for each request.
	Credential string
	Secrets    secret.Source
	// Roots are the authorities of the collector's certificate; nil for those of this host.
	Roots *x509.CertPool
	// Problem is called when the collector does not take spans, and with nil when it takes them again.
	Problem func(error)
	Log     *slog.Logger
}

// Exporter sends spans. It implements engine.Tracer.
type Exporter struct {
	Config
	url    *url.URL
	client *http.Client
	queue  queue
	wake   chan struct{}
	about  *resourcepb.Resource

	// Only the goroutine of Run uses these.
	failures int // in a row
}

// New makes an Exporter. It refuses an address that exposes spans on the way, and a credential that is not there.
func New(c Config) (*Exporter, error) {
	u, err := Address(c.URL)
	if err != nil {
		return nil, err
	}
	x := &Exporter{Config: c, url: u, wake: make(chan struct{}, 1), about: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
		text("service.name", "slipway"), text("service.version", c.Version), text("slipway.site", c.Site)}}}
	x.client = &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Roots},
			MaxResponseHeaderBytes: maxAnswer,
			MaxConnsPerHost:        1,
			IdleConnTimeout:        time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if _, err := x.login(); err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	return x, nil
}

// usualPath is OTLP's path for traces (OTLP specification 1.3, OTLP/HTTP request).
const usualPath = "/v1/traces"

// Address parses the URL of a collector.
func Address(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return nil, errors.New("traces: the address is not a URL such as https://collector.example.org:4318")
	case u.User != nil:
		return nil, errors.New("traces: the address has a password in it, which anybody on this host can read from the command line: use --traces-credential")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("traces: the address has a query or a fragment, which no collector of OTLP has")
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return nil, fmt.Errorf("traces: %s:// to %s can be read and changed on the way: use https:// (http:// is for this host itself)", u.Scheme, u.Hostname())
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = usualPath
	}
	return u, nil
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// Trace takes a part of the work on a revision, to be sent as a span. It returns at once.
func (x *Exporter) Trace(p site.TracePart) {
	if p.Kind == site.TraceRevision {
		x.Log.Info("revision traced", "site", x.Site, "revision", p.Revision.Short(), "trace", fmt.Sprintf("%x", traceOf(x.Site, p.Revision.ID)))
	}
	x.queue.add(&p)
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// Numbers are counts of spans since the daemon started, and how many wait to be sent.
type Numbers struct {
	// Sent were taken by the collector, Refused were not, and Dropped had no room while it was away.
	Sent, Refused, Dropped int64
	Waiting                int
}

// Numbers returns the present numbers.
func (x *Exporter) Numbers() Numbers { return x.queue.numbers() }

// Run sends spans until the context ends. What is left then gets a last chance.
func (x *Exporter) Run(ctx context.Context) {
	for x.awaitSpans(ctx) {
		x.deliver(ctx, x.queue.take())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastChance)
	defer cancel()
	for batch := x.queue.take(); len(batch) > 0 && ctx.Err() == nil; batch = x.queue.take() {
		if rejected, err := x.post(ctx, spansOf(x.Site, batch)); err == nil || rejected > 0 {
			x.queue.settled(len(batch)-rejected, rejected)
		} else {
			x.queue.putBack(batch)
			break
		}
	}
	if left := x.Numbers().Waiting; left > 0 {
		x.Log.Warn("spans are lost: the collector did not take them before the daemon ended", "site", x.Site, "spans", left)
	}
}

// awaitSpans waits until there are spans to send, and reports whether to continue.
func (x *Exporter) awaitSpans(ctx context.Context) bool {
	for x.Numbers().Waiting == 0 {
		select {
		case <-ctx.Done():
			return false
		case <-x.wake:
		}
	}
	return sleep(ctx, gather)
}

// deliver sends a batch until the collector takes or refuses it, and puts it back if the context ends before.
func (x *Exporter) deliver(ctx context.Context, batch []*site.TracePart) {
	for spans := spansOf(x.Site, batch); ; {
		rejected, err := x.post(ctx, spans)
		if ctx.Err() != nil && err != nil && rejected == 0 {
			x.queue.putBack(batch)
			return
		}
		wait := x.judge(len(batch), rejected, err)
		if wait == 0 {
			return
		}
		if !sleep(ctx, wait) {
			if !isFinal(err) {
				x.queue.putBack(batch)
			}
			return
		}
		if isFinal(err) {
			return
		}
	}
}

// judge notes what became of a batch and tells people. It returns how long to send nothing; 0 for no wait.
func (x *Exporter) judge(sent int, rejected int, err error) time.Duration {
	switch {
	case err == nil:
		x.failures = 0
		x.queue.settled(sent, 0)
		x.Problem(nil)
		return 0
	case rejected > 0: // the collector has decided: the same spans again would be refused again
		x.failures = 0
		x.queue.settled(sent-rejected, rejected)
		x.Problem(err)
		return 0
	}
	x.failures++
	if isFinal(err) {
		x.queue.settled(0, sent)
	}
	if isFinal(err) || x.failures > 1 { // one hiccup is not worth a word
		x.Problem(err)
	}
	return max(min(firstWait<<min(x.failures-1, 10), longWait), waitOf(err))
}

// sleep waits. It returns false if the context ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
