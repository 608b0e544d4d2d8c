package redfish

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// The bounds of one request. A BMC may take long and must not take for ever.
const (
	dialTimeout   = 10 * time.Second
	headerTimeout = 45 * time.Second
	callTimeout   = 60 * time.Second
	// idleTimeout keeps a connection for the requests of one burst; BMCs have
	// few, and thousands of machines are polled.
	idleTimeout = 5 * time.Second
	maxBody     = 8 << 20
)

// newTransport makes the connections of one BMC. Nothing is shared with
// another BMC or with the process's default transport, and no proxy is asked.
func newTransport(t *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: -1}).DialContext,
		TLSClientConfig:       t,
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: headerTimeout,
		IdleConnTimeout:       idleTimeout,
		MaxIdleConnsPerHost:   1,
		MaxConnsPerHost:       maxReads + 1,
		DisableCompression:    true,
	}
}

// wire carries requests to one BMC. Every answer that is not a success comes
// back as an error of a class that the engine knows; gofish would drop its
// headers, and Retry-After with them.
type wire struct {
	host    string
	next    *http.Transport
	answer  time.Duration // for a write whose context ends after it was sent
	habits  *habits
	lanes   lanes
	breaker *breaker
	// writes counts those to the BMC, when each begins and when it ends: what
	// was read before or meanwhile may be no more.
	writes *atomic.Int64
	// note is told of each answer, and whether its connection had carried one
	// before.
	note func(r *http.Response, reused bool)
}

// over is the wire with other connections.
func (w *wire) over(next *http.Transport, note func(*http.Response, bool)) *wire {
	other := *w
	other.next, other.note = next, note
	return &other
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host != w.host || r.URL.Scheme != "https" {
		// A link or redirect of a BMC must not have a session token sent elsewhere.
		return nil, refused("the BMC at %s leads to %s://%s; requests go to the designed host only, over TLS", w.host, r.URL.Scheme, printable(r.URL.Host))
	}
	if err := w.ownOnly(r); err != nil {
		return nil, err
	}
	leave, err := w.lanes.enter(r.Context(), r.Method)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := cmp.Or(r.Context().Err(), w.breaker.allow()); err != nil {
		return nil, err
	}
	if r.Method != http.MethodGet {
		w.writes.Add(1)
		defer w.writes.Add(1)
	}
	resp, err := w.exchange(r, "identity")
	if r.Method == http.MethodGet && hasStatus(err, http.StatusNotAcceptable) {
		w.habits.met(compressedOnly)
		resp, err = w.exchange(r, "gzip")
	}
	if other, ok := w.slashed(r, err); ok {
		return w.exchange(other, "identity")
	}
	return resp, err
}

// exchange sends a request and reads the answer. Several BMCs spoil their ETags
// when they compress, and are asked not to; some have registries only
// compressed.
func (w *wire) exchange(r *http.Request, encoding string) (*http.Response, error) {
	r, cancel := w.bound(r)
	defer cancel() // the body has been read by then
	r.Header.Set("User-Agent", "slipway")
	r.Header.Set("OData-Version", "4.0")
	r.Header.Set("Accept-Encoding", encoding)
	resp, body, err := w.call(r)
	if err != nil {
		return nil, err
	}
	if err := check(resp, body); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// call is one request on the network.
func (w *wire) call(r *http.Request) (resp *http.Response, body []byte, err error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if err := driver.MayWrite(r.Context()); err != nil {
			return nil, nil, err
		}
	}
	defer func() {
		if errors.Is(err, errGone) {
			return // which says nothing of the BMC
		}
		if r.Context().Err() == nil || errors.Is(r.Context().Err(), context.DeadlineExceeded) {
			w.breaker.note(silence(err))
		}
	}()
	reused := false
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }}
	if resp, err = w.next.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace))); err != nil {
		return nil, nil, untrusted(w.host, err)
	}
	if body, err = readAll(resp); err == nil {
		w.note(resp, reused)
	}
	return resp, body, err
}

// silence is an error of the connection; an answer that is refused is an
// answer.
func silence(err error) error {
	if hasClass(err) {
		return nil
	}
	return err
}

// slashed is a request for the same with a slash at the end, or without, when
// that is what the BMC wants: it says so by a redirect, for a write too, or
// knows the one and not the other (MAAS found both). A redirected write has not
// been carried out. What is not there with either is not asked for twice again.
func (w *wire) slashed(r *http.Request, err error) (*http.Request, bool) {
	var e *answerError
	if !errors.As(err, &e) {
		return nil, false
	}
	path := strings.TrimSuffix(r.URL.Path, "/")
	if path == r.URL.Path {
		path += "/"
	}
	moved := e.status >= 300 && e.status < 400 && e.location == path
	if !moved && (r.Method != http.MethodGet || e.status != http.StatusNotFound || !strings.HasSuffix(r.URL.Path, "/")) {
		return nil, false
	}
	w.habits.met(slashes)
	again := r.Clone(r.Context())
	again.URL.Path, again.URL.RawPath = path, ""
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, false
		}
		again.Body = body
	}
	return again, true
}

// bound gives a request its time. A read ends with its context, and so does a
// write that was not sent yet. One that was sent is carried out by the BMC
// whether or not anybody waits (nothing in DSP0266 has it stop), and would take
// effect in the middle of what is done to the machine next; its answer is
// waited for, for a while.
func (w *wire) bound(r *http.Request) (*http.Request, context.CancelFunc) {
	if r.Body == nil {
		ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
		return r.Clone(ctx), cancel
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), callTimeout)
	d := departure{until: r.Context()}
	stop := context.AfterFunc(r.Context(), func() {
		if d.stop() {
			cancel()
			return
		}
		time.AfterFunc(w.answer, cancel)
	})
	r, again := r.Clone(ctx), r.GetBody
	r.Body = leaving{r.Body, &d}
	r.GetBody = func() (io.ReadCloser, error) { // when a connection turns out to be closed
		b, err := again()
		return leaving{b, &d}, err
	}
	return r, func() { stop(); cancel() }
}

// departure decides once whether a write is sent or called off.
type departure struct {
	until context.Context // the caller's; a write leaves only while it lives
	state atomic.Int32
}

const (
	waiting = iota
	sent
	calledOff
)

func (d *departure) stop() bool { return d.state.CompareAndSwap(waiting, calledOff) }
func (d *departure) send() bool {
	if d.until.Err() != nil || driver.MayWrite(d.until) != nil {
		d.stop()
	}
	return d.state.CompareAndSwap(waiting, sent) || d.state.Load() == sent
}

// leaving is the body of a write, which is sent from the moment at which its
// body is asked for.
type leaving struct {
	io.ReadCloser
	d *departure
}

func (b leaving) Read(p []byte) (int, error) {
	if !b.d.send() {
		return 0, cmp.Or(driver.MayWrite(b.d.until), context.Canceled)
	}
	return b.ReadCloser.Read(p)
}

// CloseIdleConnections lets http.Client close them through the wire.
func (w *wire) CloseIdleConnections() { w.next.CloseIdleConnections() }

func readAll(r *http.Response) ([]byte, error) {
	defer r.Body.Close()
	var from io.Reader = io.LimitReader(r.Body, maxBody+1)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(from)
		if err != nil {
			return nil, refused("the answer claims to be compressed and is not: %w", err)
		}
		from = io.LimitReader(z, maxBody+1)
	}
	b, err := io.ReadAll(from)
	if err == nil && len(b) > maxBody {
		err = refused("the answer is larger than %d MiB", maxBody>>20)
	}
	return b, err
}

// check says what is wrong with an answer. Redirects of reads are followed by
// http.Client; a write is never sent a second time.
func check(r *http.Response, body []byte) error {
	switch {
	case r.StatusCode >= 300 && r.StatusCode < 400 && r.Request.Method == http.MethodGet:
		return nil
	case r.StatusCode < 200 || r.StatusCode > 204 || r.StatusCode == http.StatusNonAuthoritativeInfo:
		return newAnswerError(r, body)
	case r.Request.Method == http.MethodGet && !looksLikeJSON(body):
		return driver.Say(fmt.Sprintf("what answers at %s is not a BMC: it sends %s; check whether the address is that of a proxy or a login page", r.Request.URL.Host, kind(r)),
			refused("GET %s answered %s where Redfish is expected", r.Request.URL.Path, kind(r)))
	}
	return nil
}

func looksLikeJSON(body []byte) bool {
	b := bytes.TrimLeft(body, " \t\r\n")
	return len(b) > 0 && b[0] == '{'
}

func kind(r *http.Response) string {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || strings.HasSuffix(t, "json") {
		return "something else"
	}
	return printable(t)
}

// classify gives an error of the connection its class, and takes what http.Client
// and gofish put around an error that has one.
func classify(err error) error {
	var outer *url.Error
	if errors.As(err, &outer) && hasClass(outer.Err) {
		return outer.Err
	}
	if err == nil || hasClass(err) {
		return err
	}
	if outer != nil && outer.Op == "parse" {
		return refused("the BMC links to %s, which is not a path on it: %s; a restart or an update of the BMC may fix it", printable(outer.URL), printableError(outer.Err))
	}
	return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
}

func hasClass(err error) bool {
	for _, class := range []error{driver.ErrUnreachable, driver.ErrBusy, driver.ErrDenied, driver.ErrRefused, driver.ErrInterrupted, driver.ErrOutranked, errors.ErrUnsupported} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}
