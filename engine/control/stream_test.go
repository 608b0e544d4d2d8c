package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

const eventsPath = "/api/v1/sites/berlin/events"

// follower is a client that follows events.
type follower struct {
	lines *bufio.Scanner
	close func() error
}

func (o *onNetwork) follow(c *http.Client, token, after string) *follower {
	o.t.Helper()
	req, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, o.url+eventsPath, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		text, _ := io.ReadAll(resp.Body)
		o.t.Fatalf("%s %s: %s", resp.Status, resp.Header.Get("Content-Type"), text)
	}
	o.t.Cleanup(func() { resp.Body.Close() })
	return &follower{bufio.NewScanner(resp.Body), resp.Body.Close}
}

// next gives the next line that is no comment and not empty; false when the stream has ended.
func (f *follower) next() (string, bool) {
	for f.lines.Scan() {
		if line := f.lines.Text(); line != "" && line[0] != ':' {
			return line, true
		}
	}
	return "", false
}

// expect reads an event: its type, and a part of its data.
func (f *follower) expect(t *testing.T, kind, part string) (id string) {
	t.Helper()
	line, ok := f.next()
	if strings.HasPrefix(line, "id: ") {
		id = strings.TrimPrefix(line, "id: ")
		line, ok = f.next()
	}
	data, _ := f.next()
	if !ok || line != "event: "+kind || !strings.Contains(data, part) {
		t.Errorf("got %q %q, want %s with %s", line, data, kind, part)
	}
	return id
}

func TestStreamOfEvents(t *testing.T) {
	f := &fake{}
	o := listening(t, f, nil)
	ana := o.as(o.people.client(t, mail("ana@example.org")))
	f.happens("long ago")
	s := o.follow(ana, "", "")
	f.happens("first\nid: 99\n\nevent: forged")
	f.happens("second")
	if id := s.expect(t, "state", `"text":"first\nid: 99\n\nevent: forged"`); id != "2" {
		t.Errorf("id %q", id)
	}
	last := s.expect(t, "state", `"text":"second"`)
	s.close()
	f.happens("third")
	s = o.follow(ana, "", last)
	s.expect(t, "state", `"text":"third"`)
	f.happens("fourth")
	s.expect(t, "state", `"text":"fourth"`)
	s = o.follow(ana, "", "777")
	s.expect(t, "gap", `{"after":777}`)
	if status, answer := o.ask(ana, http.MethodGet, eventsPath, "", "", "Accept", "text/event-stream", "Last-Event-ID", "soon"); status != 400 {
		t.Errorf("%d %s", status, answer)
	}
}

// Who may read a rack sees what happens there, and not what happens elsewhere or to the site.
func TestStreamOfARack(t *testing.T) {
	f := &fake{}
	o := listening(t, f, nil)
	s := o.follow(o.as(o.people.client(t, mail("carol@example.org"))), "", "")
	f.add(site.Event{Node: "n2", Text: "elsewhere", Kind: site.EventState})
	f.add(site.Event{Text: "of the site", Kind: site.EventState})
	f.add(site.Event{Node: "gone", Text: "of a node that is not known", Kind: site.EventState})
	f.add(site.Event{Node: "n1", Text: "here", Kind: site.EventState})
	s.expect(t, "state", `"text":"here"`)
}

// A client that does not read keeps nobody waiting and nothing in memory for itself. Once it reads again, it is told
// that it has missed something, and goes on.
func TestSlowStreamIsToldOfAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		h := &hub{api: &api{daemon: f}}
		slow, quick := h.follow("berlin"), h.follow("berlin")
		got := 0
		for range streamLag/100 + 1 {
			for range 100 { // at once
				f.happens("x")
			}
			<-quick.wake
			some, lagged := h.take("berlin", quick)
			if got += len(some); lagged {
				t.Error("one that reads is told that it lags")
			}
		}
		kept, lagged := h.take("berlin", slow)
		if len(kept) != streamLag || !lagged || got != (streamLag/100+1)*100 || kept[len(kept)-1].seq != uint64(got) {
			t.Errorf("the slow one has %d events, lagged %t; the quick one %d", len(kept), lagged, got)
		}
		f.happens("y")
		<-quick.wake
		h.take("berlin", quick)
		if some, lagged := h.take("berlin", slow); len(some) != 1 || lagged {
			t.Errorf("then %d events, lagged %t", len(some), lagged)
		}
		f.mu.Lock()
		f.events = []site.Event{{Seq: 10_000, Node: "n1"}} // more happened than the daemon keeps
		f.mu.Unlock()
		<-quick.wake
		if some, _ := h.take("berlin", quick); len(some) != 2 || some[0].seq != 0 || !strings.Contains(string(some[0].text), "event: gap") || some[1].seq != 10_000 {
			t.Errorf("after a gap %d events", len(some))
		}
		h.leave("berlin", quick)
		h.leave("berlin", slow)
		time.Sleep(2 * lookEvery) // until the hub has ended
	})
}

// All streams end with the daemon, and when their caller has no right any more.
func TestStreamsEnd(t *testing.T) {
	f := &fake{}
	o := listening(t, f, nil)
	s := o.follow(o.as(o.people.client(t, mail("ana@example.org"))), "", "")
	began := time.Now()
	if err := o.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if _, more := s.next(); more || time.Since(began) > 4*time.Second {
		t.Errorf("the stream ended after %v, more %v", time.Since(began), more)
	}
}

// A stream whose caller has lost its right ends with the next heartbeat.
func TestStreamEndsWithTheRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &call{api: newAPI(&fake{}, nil, Limits{}, 0, nil), route: &route{scope: ofSite, verb: "read"}, site: "berlin"} // of nobody
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		c.r, _ = http.NewRequestWithContext(ctx, http.MethodGet, eventsPath, nil)
		began := time.Now()
		c.forward(&eventWriter{}, &stream{wake: make(chan struct{})}, 0, &sight{c: c, shown: func(string) bool { return true }, looked: began})
		if took := time.Since(began); took != heartbeat {
			t.Errorf("it ended after %v", took)
		}
	})
}

// A thousand clients follow at once, and nothing is left of them.
func TestThousandStreams(t *testing.T) {
	before := runtime.NumGoroutine()
	f := &fake{}
	o := listening(t, f, func(n *Network) { n.Limits = Limits{Streams: 1000} })
	token := o.token("grafana", time.Now(), time.Hour)
	const all = 1000
	var ready, heard sync.WaitGroup
	var wrong atomic.Int32
	ready.Add(all)
	client := o.as(nil)
	connecting := make(chan struct{}, 32) // at once: a handshake has a time limit
	for range all {
		connecting <- struct{}{}
		heard.Go(func() {
			connected := sync.OnceFunc(func() {
				ready.Done()
				<-connecting
			})
			defer connected()
			if err := o.hearOne(t.Context(), client, token, connected); err != nil {
				wrong.Add(1)
				t.Log(err)
			}
		})
	}
	ready.Wait()
	f.happens("now")
	heard.Wait()
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d of %d streams heard nothing", n, all)
	}
	client.CloseIdleConnections()
	if err := o.stop(); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+10 && time.Now().Before(end); {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before+10 {
		t.Errorf("%d goroutines, %d before", n, before)
	}
}

// hearOne follows until an event comes.
func (o *onNetwork) hearOne(ctx context.Context, c *http.Client, token string, connected func()) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.url+eventsPath, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	connected()
	if resp.StatusCode != 200 {
		return errors.New(resp.Status)
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") {
			return nil
		}
	}
	return fmt.Errorf("ended without an event")
}
