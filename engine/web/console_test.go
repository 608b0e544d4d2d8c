package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An open page about a console shows what the machine writes, with one reader for all who have it open.
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

// A page of another site opens no console.
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

// Who may no longer read consoles is shown nothing of one within 15 seconds, also on an open page, and nobody reads it for the
// page once nobody has it open.
func TestConsoleEndsWithTheRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Second) }) // until all that follows events has ended
		f, l, dir := &fleet{said: "there"}, newPipes(), t.TempDir()
		as := serves(t, f, dir, people, l, l.dial)
		const page = "/sites/berlin/nodes/web-1/console"
		shown, streams := map[string]*seen{}, map[string]io.Reader{}
		for _, who := range []string{"dora", "ana"} {
			streams[who], shown[who] = watches(t, as(who+"@example.org"), page), &seen{}
			go shown[who].follow(streams[who])
		}
		write := func(text string) {
			f.mu.Lock()
			f.wrote = text
			f.mu.Unlock()
			time.Sleep(2*readEvery + time.Second)
			synctest.Wait()
		}
		shows := func(who, text string, want bool) {
			t.Helper()
			if all, _ := shown[who].get(); strings.Contains(all, text) != want {
				t.Errorf("%s is shown %q: %t", who, text, !want)
			}
		}
		write("booting\n")
		shows("dora", "booting", true)
		less := strings.Replace(people, "person dora@example.org: all", "person dora@example.org: viewer", 1)
		if err := os.WriteFile(filepath.Join(dir, "access.conf"), []byte(less), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookAnyway + time.Second)
		write("password: hunter2\n")
		shows("dora", "hunter2", false)
		shows("ana", "hunter2", true)
		if _, ended := shown["dora"].get(); !ended {
			t.Error("the page of who may not read it stays open")
		}
		if err := streams["ana"].(io.Closer).Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		f.mu.Lock()
		before := f.consoles
		f.mu.Unlock()
		write("nobody is there\n")
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.consoles > before {
			t.Errorf("%d reads although nobody has it open", f.consoles-before)
		}
	})
}
