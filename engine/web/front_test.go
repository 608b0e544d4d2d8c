package web

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/control"
)

// inFront serves a fleet behind what it returns.
func inFront(t testing.TB, f *fleet, file *access.File) *control.Front {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "behind")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- control.ServeBehind(ctx, socket, f, file, nil, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	front := &control.Front{Log: slog.New(slog.DiscardHandler), Processes: func() []control.Process { return []control.Process{{Site: "berlin", Socket: socket}} }}
	for { // until it listens
		resp, err := front.Get(ctx, "berlin", "/granted")
		if err == nil {
			resp.Body.Close()
			return front
		}
		select {
		case err := <-ended:
			t.Fatalf("it has ended: %v", err)
		default:
		}
	}
}

// Pages show a site whose process is another one, as far as its caller may see it, and what changes there.
func TestPagesOfASiteBehind(t *testing.T) {
	f := &fleet{said: "quiet", behind: true}
	address, as := onNetwork(t, f)
	ana, bob := as("ana@example.org"), as("bob@example.org")
	for page, want := range map[string]string{"/sites/berlin": "in-sync", "/sites/berlin/nodes": "web-1", "/sites/berlin/nodes/web-1": "web-1", "/sites/berlin/audit": "Audit log"} {
		if status, text, _ := sends(t, ana, http.MethodGet, address+page, ""); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d without %s", page, status, want)
		}
	}
	if status, _, _ := sends(t, bob, http.MethodGet, address+"/sites/berlin/audit", ""); status != http.StatusForbidden {
		t.Errorf("bob sees the audit log: %d", status)
	}
	if status, _, _ := sends(t, as("eve@example.org"), http.MethodGet, address+"/sites/berlin", ""); status != http.StatusForbidden {
		t.Errorf("eve sees the site: %d", status)
	}

	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/sites/berlin/live?"+url.Values{"page": {"/sites/berlin/nodes/web-1"}}.Encode(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := ana.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", resp, err)
	}
	defer resp.Body.Close()
	all := make(chan map[string]string, 100)
	go reads(resp.Body, func(parts map[string]string) { all <- parts })
	if whole := <-all; whole["now"] == "" {
		t.Fatalf("parts %v", whole)
	}
	f.happens("Boots from disk")
	if change := <-all; !strings.Contains(change["now"], "Boots from disk") {
		t.Errorf("change %v", change)
	}
}
