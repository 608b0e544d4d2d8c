package github

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Delivery is an event on its way to a hook. A repeated one is a Delivery of
// its own, with the same GUID.
type Delivery struct {
	hook       *Hook
	id         int64
	guid       string
	event      string
	action     string
	repo       *Repository
	install    *Installation
	payload    []byte
	at         time.Time // zero before it is sent
	redelivery bool
	took       time.Duration
	code       int
	status     string
	sent, got  http.Header
	answer     string
}

// Event is the kind of event, with its action, as in pull_request.opened.
func (d *Delivery) Event() string {
	if d.action == "" {
		return d.event
	}
	return d.event + "." + d.action
}

// GUID is what X-GitHub-Delivery says.
func (d *Delivery) GUID() string { return d.guid }

// Payload is the body.
func (d *Delivery) Payload() []byte { return bytes.Clone(d.payload) }

// Code is what the receiver answered: 502 when it was not there, 504 when it
// took too long, zero before the delivery.
func (d *Delivery) Code() int {
	d.hook.s.mu.Lock()
	defer d.hook.s.mu.Unlock()
	return d.code
}

// Send sends the delivery now, be it the first time or again, and returns what
// the receiver answered. What is passed may change the request after it was
// signed, as who forges one would.
func (d *Delivery) Send(change ...func(*http.Request)) int {
	r, err := http.NewRequestWithContext(d.hook.s.ctx, http.MethodPost, d.hook.url, bytes.NewReader(d.payload))
	if err != nil {
		panic("github double: " + err.Error())
	}
	r.Header = d.headers(d.hook.secret)
	for _, c := range change {
		c(r)
	}
	began := time.Now()
	resp, err := d.hook.s.hooker.Do(r)
	return d.record(r, resp, err, began)
}

// Lose has the delivery fail, as if the receiver had not been there.
func (d *Delivery) Lose() {
	d.record(&http.Request{Header: d.headers(d.hook.secret)}, nil, io.ErrUnexpectedEOF, time.Now())
}

// Forge changes a request so that its signature is by another secret.
func Forge(d *Delivery, secret string) func(*http.Request) {
	return func(r *http.Request) { r.Header = d.headers(secret) }
}

// Replace changes a request's body, and signs it with the secret, as whoever
// knows it could.
func Replace(body, secret string) func(*http.Request) {
	return func(r *http.Request) {
		r.Body, r.ContentLength = readCloser([]byte(body)), int64(len(body))
		r.Header.Set("X-Hub-Signature-256", "sha256="+Sign(secret, []byte(body)))
	}
}

// record keeps what became of the first try.
func (d *Delivery) record(r *http.Request, resp *http.Response, err error, began time.Time) int {
	code, status, body, got := http.StatusBadGateway, "failed to connect to host", "", http.Header{}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		code, status = http.StatusGatewayTimeout, "timed out"
	}
	if err == nil {
		some, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
		resp.Body.Close()
		code, status, body, got = resp.StatusCode, cmp.Or(http.StatusText(resp.StatusCode), "OK"), string(some), resp.Header
	}
	d.hook.s.mu.Lock()
	defer d.hook.s.mu.Unlock()
	if d.at.IsZero() {
		d.at, d.took, d.code, d.status, d.answer, d.sent, d.got = d.hook.s.now(), time.Since(began), code, status, body, r.Header, got
	}
	return code
}

// headers are those of a delivery, signed.
func (d *Delivery) headers(secret string) http.Header {
	h := http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"GitHub-Hookshot/0double"}, "Accept": {"*/*"},
		"X-Hub-Signature-256": {"sha256=" + Sign(secret, d.payload)},
	}
	h.Set("X-GitHub-Event", d.event)
	h.Set("X-GitHub-Delivery", d.guid)
	h.Set("X-GitHub-Hook-ID", fmt.Sprint(d.hook.id))
	kind, id := "repository", d.repo.id
	if d.hook.app != nil {
		kind, id = "integration", d.hook.app.id
	}
	h.Set("X-GitHub-Hook-Installation-Target-Type", kind)
	h.Set("X-GitHub-Hook-Installation-Target-ID", fmt.Sprint(id))
	return h
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
