package web

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// opens follows a page as a browser does, and gives the parts that change.
func opens(t *testing.T, address, page string) <-chan map[string]string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/sites/berlin/live?"+url.Values{"page": {page}}.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", resp, err)
	}
	all := make(chan map[string]string, 100)
	go func() {
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if text, is := strings.CutPrefix(lines.Text(), "data: "); is {
				parts := map[string]string{}
				if json.Unmarshal([]byte(text), &parts) == nil {
					all <- parts
				}
			}
		}
	}()
	return all
}

// Everybody who has a page open is shown a change, and of the page only what is different.
func TestChangesAreShown(t *testing.T) {
	f := &fleet{said: "quiet"}
	srv := httptest.NewServer(opened(t, f))
	t.Cleanup(srv.Close) // after the viewers have left
	first := opens(t, srv.URL, "/sites/berlin/nodes/web-1")
	if whole := <-first; whole["now"] == "" || whole["events"] == "" {
		t.Fatalf("parts %v", whole)
	}
	second := opens(t, srv.URL, "/sites/berlin/nodes/web-1") // shares the rendering, and begins with the whole
	if whole := <-second; whole["now"] == "" {
		t.Fatalf("parts %v", whole)
	}
	began := time.Now()
	f.happens("Boots <from> disk")
	for _, viewer := range []<-chan map[string]string{first, second} {
		change := <-viewer
		if !strings.Contains(change["now"], "Boots &lt;from&gt; disk") || len(change) != 1 {
			t.Errorf("change %v", change)
		}
	}
	t.Logf("shown after %v", time.Since(began))
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("shown after %v", took)
	}
}

// No stream is opened of what is no page, or of a page that asks machines.
func TestOnlyPagesAreFollowed(t *testing.T) {
	h := opened(t, &fleet{})
	for _, page := range []string{"", "/", "/sites/berlin/nodes/web-1/console", "/sites/paris", "https://evil.example.org/sites/berlin", "//evil/sites/berlin", "/sites/berlin/do/pause", "/sites/berlin/live"} {
		if status, _ := asked(h, "GET", "/sites/berlin/live?"+url.Values{"page": {page}}.Encode(), ""); status == 200 {
			t.Errorf("%q is followed", page)
		}
	}
}
