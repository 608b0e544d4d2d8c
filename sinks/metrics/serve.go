package metrics

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/slipway-gitops/slipway/engine/serve"
	"github.com/slipway-gitops/slipway/engine/site"
)

// These are the bounds of requests.
const (
	maxHeader    = 16 << 10 // bytes
	maxScrapes   = 4        // at once
	readTimeout  = 5 * time.Second
	pageTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second
	idleTimeout  = 2 * time.Minute
)

// Listen listens at an address, host:port. It refuses all addresses of the host (no host, 0.0.0.0 or [::]) unless
// everywhere is set: the pages require no password, and show what the site consists of.
func Listen(ctx context.Context, address string, everywhere bool) (net.Listener, error) {
	a, err := net.ResolveTCPAddr("tcp", address)
	if err == nil && (a.IP == nil || a.IP.IsUnspecified()) && !everywhere {
		return nil, fmt.Errorf("listen at %s: that is every address of this host, and the pages ask for no password: "+
			"name one, such as 127.0.0.1:%d or that of the monitoring network, or pass --listen-everywhere if all of them are meant", address, a.Port)
	}
	var l net.Listener
	if err == nil {
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", a.String())
	}
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w; --listen takes HOST:PORT, an address of this host and a port that nobody else has", address, err)
	}
	return l, nil
}

// Serve answers on a listener until the context ends.
func Serve(ctx context.Context, l net.Listener, pages http.Handler, log *slog.Logger) error {
	srv := &http.Server{
		Handler:           pages,
		ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug), // anybody can cause these messages
	}
	if err := serve.Until(ctx, srv, l); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

// Pages serves /metrics, /readyz (200 if unready returns no reason, otherwise 503 with the reasons), /healthz
// (200 while the process answers at all) and /sites/SITE/revoked.pem, the lists of revoked TLS certificates.
func (m *Metrics) Pages(unready func() []string) http.Handler {
	mux := pages(m.registry, unready)
	mux.Handle("GET /sites/{site}/revoked.pem", http.TimeoutHandler(http.HandlerFunc(m.revoked), pageTimeout, "the engine does not answer\n"))
	return mux
}

func pages(gatherer prometheus.Gatherer, unready func() []string) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, Timeout: pageTimeout, EnableOpenMetrics: true,
	}))
	mux.Handle("GET /readyz", http.TimeoutHandler(ready(unready), pageTimeout, "the engine does not answer: restart slipway, and keep its log\n"))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}

// revoked serves the lists of revoked TLS certificates of a site. They are public, and signed.
func (m *Metrics) revoked(w http.ResponseWriter, r *http.Request) {
	report, known := m.reports.Load(r.PathValue("site"))
	if !known {
		http.NotFound(w, r)
		return
	}
	lists := report.(func() site.Report)().RevocationLists
	if len(lists) == 0 {
		http.Error(w, "no list of revoked certificates was signed", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/x-pem-file")
	w.Header().Set("Cache-Control", "no-cache")
	for _, l := range lists {
		io.WriteString(w, l.PEM)
	}
}

// readiness is the JSON form of /readyz.
type readiness struct {
	Ready bool     `json:"ready"`
	Why   []string `json:"why,omitempty"`
}

func ready(unready func() []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		why := unready()
		status := http.StatusOK
		if len(why) > 0 {
			status = http.StatusServiceUnavailable
		}
		w.Header().Set("Cache-Control", "no-store")
		if wantsJSON(r) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			json.NewEncoder(w).Encode(readiness{Ready: len(why) == 0, Why: why})
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		if len(why) == 0 {
			why = []string{"ready"}
		}
		fmt.Fprintln(w, strings.Join(why, "\n"))
	})
}

func wantsJSON(r *http.Request) bool {
	return r.URL.Query().Get("output") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json")
}
