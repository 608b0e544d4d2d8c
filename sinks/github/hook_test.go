package github

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/secret"
)

const hookSecret = "It's a Secret to Everybody"

// memory remembers deliveries.
type memory struct {
	mu    sync.Mutex
	taken map[string]bool
	full  error
}

func (m *memory) Taken(guid string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.taken[guid]
}

func (m *memory) Take(guid string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full == nil {
		m.taken[guid] = true
	}
	return m.full
}

// post is a handler and who delivers to it.
type post struct {
	*Hook
	memory *memory
	hints  *forge.Hints
	key    string
}

func newPost() *post {
	p := &post{memory: &memory{taken: map[string]bool{}}, hints: forge.NewHints(), key: hookSecret}
	p.Hook = NewHook("acme/site", func() (secret.Value, error) { return secret.New("", p.key), nil }, p.memory, p.hints, slog.New(slog.DiscardHandler))
	return p
}

func signature(body string) string {
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func signed(id, event, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Delivery", id)
	r.Header.Set("X-GitHub-Event", event)
	r.Header.Set("X-Hub-Signature-256", signature(body))
	return r
}

func (p *post) deliver(r *http.Request) int {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Code
}

// waiting are the hints that are there.
func (p *post) waiting() []forge.Hint {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var all []forge.Hint
	for {
		h, err := p.hints.Next(ctx)
		if err != nil {
			return all
		}
		all = append(all, h)
	}
}

// The example of GitHub's documentation, "Validating webhook deliveries".
func TestSignature(t *testing.T) {
	const want = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	const key = hookSecret
	if !authentic(want, []byte("Hello, World!"), key) {
		t.Error("GitHub's own example is refused")
	}
	for _, s := range []string{"", "sha256=", want[7:], "sha1=" + want[7:], want[:70] + "8", want + "00", want + "x", strings.ToUpper(want)} {
		if authentic(s, []byte("Hello, World!"), key) {
			t.Errorf("%q is accepted", s)
		}
	}
}

func TestHints(t *testing.T) {
	const repository = `"repository": {"full_name": "Acme/Site"}`
	about := func(a forge.About) []forge.Hint { return []forge.Hint{{About: a}} }
	for _, c := range []struct {
		name, event, body string
		want              []forge.Hint
	}{
		{"push", "push", `{"ref": "refs/heads/main", ` + repository + `}`, []forge.Hint{{About: forge.AboutBranch, Branch: "main"}}},
		{"push of a tag", "push", `{"ref": "refs/tags/v1", ` + repository + `}`, nil},
		{"pull request", "pull_request", `{"action": "synchronize", "number": 3, "pull_request": {"number": 3}, ` + repository + `}`,
			[]forge.Hint{{About: forge.AboutProposal, Number: 3}}},
		{"review", "pull_request_review", `{"action": "submitted", "pull_request": {"number": 3}, ` + repository + `}`, []forge.Hint{{About: forge.AboutProposal, Number: 3}}},
		{"comment", "issue_comment", `{"action": "created", "issue": {"number": 3, "pull_request": {"url": "x"}}, "comment": {"id": 5000000000}, ` + repository + `}`,
			[]forge.Hint{{About: forge.AboutComment, Number: 3, Comment: 5_000_000_000}}},
		{"comment that was edited", "issue_comment", `{"action": "edited", "issue": {"number": 3, "pull_request": {}}, "comment": {"id": 5}, ` + repository + `}`, nil},
		{"comment on an issue", "issue_comment", `{"action": "created", "issue": {"number": 3}, "comment": {"id": 5}, ` + repository + `}`, nil},
		{"check again", "check_run", `{"action": "rerequested", "check_run": {"name": "slipway/s", "head_sha": "` + sha + `"}, ` + repository + `}`,
			[]forge.Hint{{About: forge.AboutCheck, Check: "slipway/s", Commit: sha}}},
		{"check of our own", "check_run", `{"action": "completed", "check_run": {"name": "slipway/s"}, ` + repository + `}`, nil},
		{"checks again", "check_suite", `{"action": "rerequested", "check_suite": {"head_sha": "` + sha + `"}, ` + repository + `}`,
			[]forge.Hint{{About: forge.AboutCheck, Commit: sha}}},
		{"another repository", "push", `{"ref": "refs/heads/main", "repository": {"full_name": "acme/other"}}`, nil},
		{"of nobody's interest", "star", `{"action": "created", ` + repository + `}`, nil},
		{"ping", "ping", `{"zen": "Keep it logically awesome."}`, nil},
		{"not JSON", "push", `<xml/>`, about(forge.AboutAnything)},
		{"nothing", "push", ``, about(forge.AboutAnything)},
		{"other types", "pull_request", `{"pull_request": "three", ` + repository + `}`, about(forge.AboutAnything)},
		{"without a number", "pull_request", `{` + repository + `}`, about(forge.AboutAnything)},
		{"deep", "push", strings.Repeat("[", 100_000), about(forge.AboutAnything)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPost()
			if code := p.deliver(signed("1", c.event, c.body)); code != http.StatusAccepted {
				t.Errorf("answered %d", code)
			}
			if got := p.waiting(); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

const pushed = `{"ref": "refs/heads/main", "repository": {"full_name": "acme/site"}}`

func TestReplayIsTakenOnce(t *testing.T) {
	p := newPost()
	for i := range 3 {
		if code := p.deliver(signed("72d3162e-cc78-11e3-81ab-4c9367dc0958", "push", pushed)); code != http.StatusAccepted {
			t.Errorf("delivery %d is answered with %d", i, code)
		}
		if n := len(p.waiting()); (n == 1) != (i == 0) {
			t.Errorf("delivery %d gives %d hints", i, n)
		}
	}
}

// A delivery that cannot be remembered is taken all the same.
func TestForgetfulMemory(t *testing.T) {
	p := newPost()
	p.memory.full = errors.New("no room")
	if code := p.deliver(signed("1", "push", pushed)); code != http.StatusAccepted || len(p.waiting()) != 1 {
		t.Errorf("answered %d", code)
	}
}

func TestRefusedDeliveries(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*post, *http.Request)
		want   int
	}{
		"forged":          {func(_ *post, r *http.Request) { r.Header.Set("X-Hub-Signature-256", signature("other")) }, http.StatusUnauthorized},
		"not signed":      {func(_ *post, r *http.Request) { r.Header.Del("X-Hub-Signature-256") }, http.StatusUnauthorized},
		"changed":         {func(_ *post, r *http.Request) { r.Body = io.NopCloser(strings.NewReader(pushed + " ")) }, http.StatusUnauthorized},
		"no secret here":  {func(p *post, _ *http.Request) { p.key = "" }, http.StatusInternalServerError},
		"looked at":       {func(_ *post, r *http.Request) { r.Method = http.MethodGet }, http.StatusMethodNotAllowed},
		"a form":          {func(_ *post, r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, http.StatusUnsupportedMediaType},
		"without an id":   {func(_ *post, r *http.Request) { r.Header.Del("X-GitHub-Delivery") }, http.StatusBadRequest},
		"an id of a path": {func(_ *post, r *http.Request) { r.Header.Set("X-GitHub-Delivery", "../../etc") }, http.StatusBadRequest},
		"too large":       {func(_ *post, r *http.Request) { r.Body = io.NopCloser(io.LimitReader(zeros{}, maxDelivery+1)) }, http.StatusRequestEntityTooLarge},
		"cut off": {func(_ *post, r *http.Request) {
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), cutOff{}))
		}, http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPost()
			r := signed("1", "push", pushed)
			c.change(p, r)
			if code := p.deliver(r); code != c.want {
				t.Errorf("answered %d, want %d", code, c.want)
			}
			if n := len(p.waiting()); n != 0 || p.memory.Taken("1") {
				t.Errorf("it gave %d hints", n)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

type cutOff struct{}

func (cutOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Whoever opens many deliveries and sends nothing is turned away, and in the end
// the others are heard again.
func TestSlowDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost()
		hang := make(chan struct{})
		var slow sync.WaitGroup
		for n := range maxDeliveries {
			slow.Go(func() {
				r := signed(fmt.Sprint(n), "push", pushed)
				r.Body = io.NopCloser(waits{hang})
				if code := p.deliver(r); code != http.StatusBadRequest {
					t.Errorf("a delivery that did not arrive is answered with %d", code)
				}
			})
		}
		synctest.Wait()
		if code := p.deliver(signed("late", "push", pushed)); code != http.StatusServiceUnavailable {
			t.Errorf("one more is answered with %d", code)
		}
		close(hang)
		slow.Wait()
		if code := p.deliver(signed("late", "push", pushed)); code != http.StatusAccepted {
			t.Errorf("delivered again it is answered with %d", code)
		}
	})
}

type waits struct{ on chan struct{} }

func (w waits) Read([]byte) (int, error) {
	<-w.on
	return 0, io.ErrUnexpectedEOF
}

// A body that does not come is not waited for.
func TestBodyThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost()
		here, there := net.Pipe()
		server := &http.Server{Handler: p}
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(&oneConn{conn: here, closed: make(chan struct{})}) })
		begun := time.Now()
		r := signed("1", "push", pushed)
		r.ContentLength = 100
		go func() {
			_, _ = fmt.Fprintf(there, "POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n")
			_ = r.Header.Write(there)
			_, _ = io.WriteString(there, "\r\n{")
		}()
		resp, err := http.ReadResponse(bufio.NewReader(there), r)
		if err != nil || resp.StatusCode != http.StatusBadRequest || time.Since(begun) != bodyTimeout {
			t.Errorf("got %v, %v after %s", resp, err, time.Since(begun))
		}
		_ = there.Close()
		_ = server.Close()
		serving.Wait()
	})
}

// oneConn is a listener to which one connection comes.
type oneConn struct {
	net.Listener
	conn   net.Conn
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error {
	close(l.closed)
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// A push a second after another is one hint, as long as nobody has looked.
func TestManyPushesAreOneHint(t *testing.T) {
	p := newPost()
	for n := range 40 {
		p.deliver(signed(fmt.Sprint(n), "push", pushed))
	}
	if got := p.waiting(); len(got) != 1 {
		t.Errorf("got %d hints, want 1", len(got))
	}
}

func FuzzHook(f *testing.F) {
	for _, body := range []string{
		pushed, `{"action":"created","issue":{"number":3,"pull_request":{}},"comment":{"id":5},"repository":{"full_name":"acme/site"}}`,
		`{"number":-1,"pull_request":{"number":-1},"repository":{"full_name":"acme/site"}}`, `{"repository":null}`, `{"issue":null}`, "\x00", `{"ref":"refs/heads/"}`,
		`{"check_run":{"name":"x"},"action":"rerequested","repository":{"full_name":"acme/site"}}`, `{"comment":{"id":1e999}}`,
	} {
		for _, event := range []string{"push", "pull_request", "issue_comment", "check_run", "check_suite", "ping"} {
			f.Add(event, body)
		}
	}
	f.Fuzz(func(t *testing.T, event, body string) {
		p := newPost()
		r := signed("1", "", body)
		r.Header["X-Github-Event"] = []string{event}
		if code := p.deliver(r); code != http.StatusAccepted {
			t.Errorf("answered %d", code)
		}
		for _, h := range p.waiting() {
			if h.Number < 0 || (h.About == forge.AboutProposal || h.About == forge.AboutComment) && h.Number == 0 {
				t.Errorf("a hint of %v", h)
			}
			if h.About != forge.AboutAnything && !bytes.Contains(bytes.ToLower([]byte(decoded(body))), []byte("acme/site")) {
				t.Errorf("%q is about this repository: %v", body, h)
			}
		}
		r.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))
		r.Body = io.NopCloser(strings.NewReader(body))
		if code := p.deliver(r); code != http.StatusUnauthorized {
			t.Errorf("forged, it is answered with %d", code)
		}
	})
}

// decoded is JSON with its escapes resolved.
func decoded(body string) string {
	var v any
	if json.Unmarshal([]byte(body), &v) != nil {
		return body
	}
	return fmt.Sprint(v)
}
