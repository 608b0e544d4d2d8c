package web

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/control"
)

// pipes is a listener in memory, which virtual time goes on beside.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// watches opens the stream of changes of a page.
func watches(t *testing.T, c *http.Client, page string) io.Reader {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", "https://127.0.0.1/sites/berlin/live?"+url.Values{"page": {page}}.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(r)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %v %v", page, resp, err)
	}
	t.Cleanup(func() {
		cancel()
		resp.Body.Close()
	})
	return resp.Body
}

// All of 10,000 nodes change ten times a second, and more happens than anybody keeps. Everybody who looks is shown at
// most four changes a second, at least one, and the last one within a second. A viewer who reads slowly is shown less,
// and what is so by then; one who reads nothing costs nothing, and is dropped.
func TestStormOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Second) }) // until all that follows events has ended
		f, l := &fleet{said: "there", size: 9_994}, newPipes()
		as := serves(t, f, t.TempDir(), people, l, l.dial)
		type viewer struct {
			page    string
			changes int
			longest time.Duration // without a change
			shown   string        // the newest events
		}
		var mu sync.Mutex
		began := time.Now()
		watch := func(v *viewer, c *http.Client, pause time.Duration) {
			stream := watches(t, c, v.page)
			go func() {
				last := time.Now()
				reads(stream, func(parts map[string]string) {
					mu.Lock()
					v.changes++
					v.longest, last = max(v.longest, time.Since(last)), time.Now()
					v.shown = parts["events"] + parts["now"]
					mu.Unlock()
					time.Sleep(pause)
				})
			}()
		}
		var quick []*viewer
		for i := range 24 {
			v := &viewer{page: []string{"/sites/berlin", "/sites/berlin/nodes/web-1"}[i%2]}
			watch(v, as([]string{"ana@example.org", "bob@example.org", "dora@example.org"}[i%3]), 0)
			quick = append(quick, v)
		}
		slow := &viewer{page: "/sites/berlin"}
		watch(slow, as("ana@example.org"), 3*time.Second)
		stuck := watches(t, as("ana@example.org"), "/sites/berlin")

		const rounds = 60
		for i := range rounds {
			f.storms(fmt.Sprintf("round %d.", i))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		mu.Lock()
		for _, v := range quick {
			if v.changes < 7 || v.changes > 4*7+1 || v.longest > time.Second {
				t.Errorf("%s: %d changes in %s, none for %s", v.page, v.changes, time.Since(began), v.longest)
			}
			if !strings.Contains(v.shown, "round 59.") {
				t.Errorf("%s does not show the last change", v.page)
			}
		}
		seen := *slow
		mu.Unlock()
		if seen.changes < 2 || seen.changes > 4 {
			t.Errorf("the slow viewer was shown %d changes", seen.changes)
		}
		time.Sleep(sendWithin)
		synctest.Wait()
		mu.Lock()
		if !strings.Contains(slow.shown, "round 59.") || slow.changes > seen.changes+2 {
			t.Errorf("the slow viewer was shown %d changes, not the last one", slow.changes)
		}
		mu.Unlock()
		// The server has given up on the viewer that reads nothing, and its connection has what was sent at first.
		if text, err := io.ReadAll(stuck); err == nil || len(text) > 64<<10 {
			t.Errorf("the viewer that reads nothing had %d bytes in wait, %v", len(text), err)
		}
	})
}

// Who may do the same sees the same rendering, and nobody sees more than he may: what somebody is shown ends when his
// role does, and that of others goes on.
func TestViewersWithEqualRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Second) }) // until all that follows events has ended
		f, l, dir := &fleet{said: "there"}, newPipes(), t.TempDir()
		as := serves(t, f, dir, people, l, l.dial)
		var mu sync.Mutex
		shown, ended := map[string]string{}, map[string]bool{}
		for _, who := range []string{"dora", "ana", "bob"} { // the rendering begins as dora
			stream := watches(t, as(who+"@example.org"), "/sites/berlin")
			go func() {
				reads(stream, func(parts map[string]string) {
					mu.Lock()
					defer mu.Unlock()
					for _, text := range parts {
						shown[who] += text
					}
				})
				mu.Lock()
				defer mu.Unlock()
				ended[who] = true
			}()
		}
		happens := func(text string) map[string]string {
			f.happens(text)
			time.Sleep(time.Second)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			got := shown
			shown = map[string]string{}
			return got
		}
		got := happens("first news")
		for who, text := range got {
			if strings.Contains(text, "Review and approve") != (who != "bob") || !strings.Contains(text, "first news") {
				t.Errorf("%s is shown %s", who, text)
			}
		}
		if len(got) != 3 {
			t.Errorf("%d are shown something", len(got))
		}
		less := strings.Replace(people, "person dora@example.org: all", "person dora@example.org: viewer", 1)
		if err := os.WriteFile(filepath.Join(dir, "access.conf"), []byte(less), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookAnyway + time.Second)
		got = happens("second news")
		if !ended["dora"] || ended["ana"] || ended["bob"] || strings.Contains(got["dora"], "second") || !strings.Contains(got["ana"], "second") || !strings.Contains(got["bob"], "second") {
			t.Errorf("ended: %v, shown: %v", ended, got)
		}
	})
}

// seen is what is sent of an open page: all of it so far, and whether the stream has ended.
type seen struct {
	mu    sync.Mutex
	text  string
	ended bool
}

func (s *seen) follow(stream io.Reader) {
	text := make([]byte, 64<<10)
	for {
		n, err := stream.Read(text)
		s.mu.Lock()
		s.text += string(text[:n])
		s.ended = err != nil
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Write has a log seen.
func (s *seen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text += string(text)
	return len(text), nil
}

func (s *seen) get() (text string, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text, s.ended
}

// The site can be called "-" in the address of a page, of its changes, or of both: what somebody sees is his own all the same.
func TestUnnamedSiteHasOwnViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Second) }) // until all that follows events has ended
		f, l := &fleet{said: "there"}, newPipes()
		as := serves(t, f, t.TempDir(), people+"person eve@example.org: viewer rack=r9\n", l, l.dial)
		for _, at := range []string{"/sites/-/live?page=/sites/-", "/sites/berlin/live?page=/sites/-", "/sites/-/live?page=/sites/berlin"} {
			for _, page := range []string{"/audit", ""} {
				ana, eve := &seen{}, &seen{}
				go ana.follow(asks(t, as("ana@example.org"), at+page))
				synctest.Wait()
				time.Sleep(time.Second)
				go eve.follow(asks(t, as("eve@example.org"), at+page))
				time.Sleep(time.Second)
				synctest.Wait()
				if text, ended := ana.get(); ended || !strings.Contains(text, "ana@example.org") && !strings.Contains(text, "Review and approve") {
					t.Errorf("%s%s: ana is shown %.300s", at, page, text)
				}
				if text, _ := eve.get(); strings.Contains(text, "ana@example.org") || strings.Contains(text, "Review and approve") || strings.Contains(text, "web-1") {
					t.Errorf("%s%s: eve, of another rack, is shown what ana sees", at, page)
				}
			}
		}
	})
}

// asks opens a stream.
func asks(t *testing.T, c *http.Client, at string) io.Reader {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "https://127.0.0.1"+at, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(r)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%s: %v %v", at, resp, err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp.Body
}

// Who may do more from now on is not the one who asks for those who may not, from the first change on.
func TestMoreRightsAreOfOneViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Second) }) // until all that follows events has ended
		const viewers = people + "person fay@example.org: viewer\n"
		f, l, dir := &fleet{said: "there"}, newPipes(), t.TempDir()
		as := serves(t, f, dir, viewers, l, l.dial)
		fay, bob := &seen{}, &seen{}
		go fay.follow(asks(t, as("fay@example.org"), "/sites/berlin/live?page=/sites/berlin"))
		time.Sleep(time.Second)
		go bob.follow(asks(t, as("bob@example.org"), "/sites/berlin/live?page=/sites/berlin"))
		time.Sleep(time.Second)
		if err := os.WriteFile(filepath.Join(dir, "access.conf"), []byte(strings.Replace(viewers, "fay@example.org: viewer", "fay@example.org: all", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		for i := range 20 { // whoever of the two is asked
			f.happens(fmt.Sprintf("turn %d.", i))
			time.Sleep(500 * time.Millisecond)
		}
		synctest.Wait()
		if text, ended := bob.get(); ended || !strings.Contains(text, "turn 19.") || strings.Contains(text, "Review and approve") {
			t.Errorf("bob, ended: %v, is shown what fay may do: %v", ended, strings.Contains(text, "Review and approve"))
		}
		if _, ended := fay.get(); !ended {
			t.Error("fay does not come again as who she is now")
		}
	})
}

// Who has asked for too much loses her own page, and says so; those who have the same page open keep theirs.
func TestTooManyRequestsEndOnePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Second) }) // until all that follows events has ended
		f, l := &fleet{said: "there", limits: control.Limits{Rate: 4, Burst: 60}}, newPipes()
		as := serves(t, f, t.TempDir(), people, l, l.dial)
		const page = "/sites/berlin/live?page=/sites/berlin"
		ana, dora, greedy := &seen{}, &seen{}, as("ana@example.org")
		go ana.follow(asks(t, as("ana@example.org"), page))
		go dora.follow(asks(t, as("dora@example.org"), page))
		time.Sleep(time.Second)
		for i := range 20 { // whoever of the two is asked
			for status := 200; status != http.StatusTooManyRequests; {
				status, _, _ = sends(t, greedy, "GET", "https://127.0.0.1/api/v1/sites", "")
			}
			f.happens(fmt.Sprintf("turn %d.", i))
			time.Sleep(3 * time.Second)
		}
		synctest.Wait()
		if text, ended := dora.get(); ended || !strings.Contains(text, "turn 19.") {
			t.Errorf("dora's page, ended: %v\n%.300s", ended, text[max(0, len(text)-300):])
		}
		if text, ended := ana.get(); !ended || !strings.Contains(text, "event: over\ndata: \"too many requests: more than 4 requests a second: slow down\"") {
			t.Errorf("ana's page, ended: %v\n%s", ended, text[max(0, len(text)-300):])
		}
	})
}
