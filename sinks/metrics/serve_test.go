package metrics

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// served is the pages of a daemon that is not ready for these reasons.
func served(t *testing.T, why ...string) *httptest.Server {
	m := New("v1")
	m.Site("example", func() site.Report { return full(time.Now()) })
	s := httptest.NewServer(m.Pages(func() []string { return why }))
	t.Cleanup(s.Close)
	return s
}

// ask makes one request, and gives the answer's status and body.
func ask(t *testing.T, method, url, accept string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestPages(t *testing.T) {
	m := New("v1")
	m.Site("none", func() site.Report { return site.Report{} })
	none := httptest.NewServer(m.Pages(func() []string { return nil }))
	t.Cleanup(none.Close)
	fine, sick := served(t), served(t, "no design is in force", "the records cannot be written")
	for _, c := range []struct {
		what, method, url, accept string
		status                    int
		body                      string
	}{
		{"ready", "GET", fine.URL + "/readyz", "", 200, "ready\n"},
		{"ready as JSON", "GET", fine.URL + "/readyz?output=json", "", 200, `{"ready":true}` + "\n"},
		{"unready", "GET", sick.URL + "/readyz", "*/*", 503, "no design is in force\nthe records cannot be written\n"},
		{"unready as JSON", "GET", sick.URL + "/readyz", "application/json", 503, `{"ready":false,"why":["no design is in force","the records cannot be written"]}` + "\n"},
		{"alive though unready", "GET", sick.URL + "/healthz", "", 200, "ok\n"},
		{"no other method", "POST", fine.URL + "/readyz", "", 405, "Method Not Allowed\n"},
		{"no other method for metrics", "DELETE", fine.URL + "/metrics", "", 405, "Method Not Allowed\n"},
		{"the lists of revoked certificates", "GET", fine.URL + "/sites/example/revoked.pem", "", 200, "first\nsecond\n"},
		{"those of another site", "GET", fine.URL + "/sites/other/revoked.pem", "", 404, "404 page not found\n"},
		{"no list", "GET", none.URL + "/sites/none/revoked.pem", "", 404, "no list of revoked certificates was signed\n"},
		{"no other page", "GET", fine.URL + "/", "", 404, "404 page not found\n"},
	} {
		if status, body := ask(t, c.method, c.url, c.accept); status != c.status || body != c.body {
			t.Errorf("%s: %d %q, want %d %q", c.what, status, body, c.status, c.body)
		}
	}
	status, body := ask(t, "GET", sick.URL+"/metrics", "")
	for _, want := range []string{`slipway_nodes{site="example",state="stalled"} 2`, `slipway_build_info{goversion="go`, "go_goroutines", "process_open_fds"} {
		if status != 200 || !strings.Contains(body, "\n"+want) {
			t.Errorf("/metrics answers %d without %s", status, want)
		}
	}
}

// An engine whose lock nobody gives back is not ready either.
func TestEngineThatDoesNotAnswerIsUnready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := New("v1").Pages(func() []string { <-t.Context().Done(); return nil })
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/readyz", nil))
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "restart slipway") {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	})
}

func TestListenRefusesWhatIsNotMeant(t *testing.T) {
	taken, err := Listen(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for address, want := range map[string]string{
		":0":        "every address of this host",
		"0.0.0.0:0": "every address of this host",
		"[::]:0":    "every address of this host",
		// also where the port is somebody's
		fmt.Sprintf(":%d", taken.Addr().(*net.TCPAddr).Port): "every address of this host",
		taken.Addr().String():                                "address already in use",
		"127.0.0.1":                                          "missing port",
		"127.0.0.1:nothing":                                  "HOST:PORT",
		"192.0.2.1:0":                                        "HOST:PORT", // not of this host
	} {
		l, err := Listen(t.Context(), address, false)
		if err == nil {
			l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), address) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
	l, err := Listen(t.Context(), "127.0.0.1:0", true)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestServeEndsCleanly(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, l, New("v1").Pages(func() []string { return nil }), slog.New(slog.DiscardHandler))
	}()
	if status, _ := ask(t, "GET", "http://"+l.Addr().String()+"/healthz", ""); status != 200 {
		t.Errorf("answers %d", status)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("it still listens")
	}
}

func TestLongHeadersAreRefused(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var log bytes.Buffer
	go func() {
		ended <- Serve(ctx, l, New("v1").Pages(func() []string { return nil }), slog.New(slog.NewTextHandler(&log, nil)))
	}()
	if status, _ := ask(t, "GET", "http://"+l.Addr().String()+"/healthz", strings.Repeat("x", 2*maxHeader)); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("answers %d", status)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if log.Len() > 0 {
		t.Errorf("a client makes the log speak: %s", log.String())
	}
}
