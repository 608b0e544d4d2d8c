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
