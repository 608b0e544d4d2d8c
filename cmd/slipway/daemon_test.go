package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/sinks/metrics"
)

// A scrape that comes before there is an engine waits for it: the page is answered from the start.
func TestScrapeBeforeTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{name: "berlin", log: slog.New(slog.DiscardHandler), made: make(chan struct{})}
		m := metrics.New("test")
		m.Site(d.name, d.report)
		answered := make(chan *httptest.ResponseRecorder, 1)
		go func() {
			w := httptest.NewRecorder()
			m.Pages(starting).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			answered <- w
		}()
		synctest.Wait()
		select {
		case w := <-answered:
			t.Fatalf("answered without an engine: %d %s", w.Code, w.Body)
		default:
		}
		d.engine = engine.New(engine.Config{Site: d.name, Served: d.served})
		close(d.made)
		if w := <-answered; w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `site="berlin"`) {
			t.Errorf("with the engine: %d %s", w.Code, w.Body)
		}
	})
}
