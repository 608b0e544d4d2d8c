package traces

import (
	"crypto/x509"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/collector"
)

func oneSpan(p site.TracePart) []*tracepb.Span { return spansOf("lab", []*site.TracePart{&p}) }

// A collector that this host does not trust gets nothing.
func TestTheCertificateIsVerified(t *testing.T) {
	sink := &collector.Collector{}
	server := httptest.NewTLSServer(sink)
	defer server.Close()
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for _, c := range []struct {
		roots *x509.CertPool
		err   string
	}{{nil, "certificate"}, {x509.NewCertPool(), "certificate"}, {roots, ""}} {
		x, err := New(Config{Site: "lab", URL: server.URL, Roots: c.roots, Problem: func(error) {}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = x.post(t.Context(), oneSpan(step(1)))
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("got %v, want %q", err, c.err)
		}
	}
	if got := len(sink.Requests()); got != 1 {
		t.Errorf("%d requests", got)
	}
}

// Over a real connection, a cut and a slow answer are errors as in virtual time.
func TestARealConnectionIsCut(t *testing.T) {
	sink := &collector.Collector{}
	server := httptest.NewServer(sink)
	defer server.Close()
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	x, err := New(Config{Site: "lab", URL: server.URL, Problem: func(error) {}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	sink.Next(collector.Away, collector.Cut, collector.Answer(429, "later", "Retry-After", "7"))
	for range 2 {
		if _, err := x.post(t.Context(), oneSpan(step(1))); err == nil || isFinal(err) || strings.Contains(err.Error(), "/v1/traces") {
			t.Errorf("got %v", err)
		}
	}
	if _, err := x.post(t.Context(), oneSpan(step(1))); err == nil || waitOf(err).Seconds() != 7 {
		t.Errorf("got %v", err)
	}
	if _, err := x.post(t.Context(), oneSpan(step(1))); err != nil {
		t.Error(err)
	}
	if wrong := sink.Wrong(); len(wrong) > 0 {
		t.Error(wrong)
	}
}
