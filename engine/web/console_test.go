package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// An open page about a console shows what the machine writes, with one reader for all who have it open, and none afterwards.
// No other site has one opened.
func TestConsoleIsFollowed(t *testing.T) {
	f := &fleet{said: "\x1b[32mgreen\x1b[0m <b>"}
	srv := httptest.NewServer(opened(t, f))
	t.Cleanup(srv.Close)
	const page = "/sites/berlin/nodes/web-1/console"
	first, second := opens(t, srv.URL, page), opens(t, srv.URL, page)
	for _, viewer := range []<-chan map[string]string{first, second} {
		if whole := <-viewer; !strings.Contains(whole["log"], "booting green &lt;b&gt;\n") {
			t.Fatalf("parts %q", whole)
		}
	}
	f.mu.Lock()
	f.wrote = "login: "
	before := f.consoles
	f.mu.Unlock()
	began := time.Now()
	for _, viewer := range []<-chan map[string]string{first, second} {
		if change := <-viewer; !strings.Contains(change["log"], "login: ") {
			t.Errorf("change %q", change)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if most := 1 + int(time.Since(began)/readEvery); f.consoles-before > most {
		t.Errorf("%d reads in %v", f.consoles-before, time.Since(began))
	}
}

func TestConsoleIsNotOpenedByOtherSites(t *testing.T) {
	f := &fleet{}
	h := opened(t, f)
	const page = "/sites/berlin/nodes/web-1/console"
	_, text := asked(h, "GET", page, "", "Sec-Fetch-Site", "cross-site")
	status, _ := asked(h, "GET", "/sites/berlin/live?"+url.Values{"page": {page}}.Encode(), "", "Sec-Fetch-Site", "cross-site")
	if f.consoles > 0 || strings.Contains(text, "booting") || strings.Contains(text, "data-live") || !strings.Contains(text, "Read the console") || status != http.StatusNotFound {
		t.Errorf("read %d times, stream %d: %s", f.consoles, status, text)
	}
}

// A long console is shown from the beginning of a line on, and says that there is more.
func TestLongConsoleIsCut(t *testing.T) {
	f := &fleet{said: "quiet", wrote: strings.Repeat("naïve line\n", 10_000) + "the end"}
	_, text := asked(opened(t, f), "GET", "/sites/berlin/nodes/web-1/console", "")
	if len(text) > 80_000 || !strings.Contains(text, `tabindex="0">naïve line`) || !strings.Contains(text, "the end</pre>") || !strings.Contains(text, "The end of what the machine wrote") {
		t.Errorf("%d bytes: %s", len(text), text[:min(len(text), 3000)])
	}
}
