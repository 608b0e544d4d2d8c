package libvirt

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// download is the progress of fetching an image from its server. It survives a failed try: the next try continues
// where it ended, if the server supports that.
type download struct {
	client *http.Client
	url    string
	// quiet bounds the wait for a byte from the server.
	quiet time.Duration

	size   int64 // total size; 0 until the server reported it
	offset int64 // bytes stored so far
	sum    hash.Hash
	// version is the strong ETag, or the date, that shows whether the image is still the same.
	version string
}

// restart discards the progress.
func (d *download) restart() { d.size, d.offset, d.sum, d.version = 0, 0, sha256.New(), "" }

// body is a server's answer with image data. Each byte read extends its deadline.
type body struct {
	io.ReadCloser
	from   string
	quiet  time.Duration
	watch  *time.Timer
	cancel context.CancelCauseFunc
	ctx    context.Context
}

var errQuiet = errors.New("the server stopped sending")

// open requests the rest of the image. It starts over if the server cannot continue, or has another image now.
func (d *download) open(ctx context.Context) (*body, error) {
	if d.sum == nil || d.version == "" {
		d.restart()
	}
	u, err := url.Parse(d.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, refused("the image's URL %q is not one of http or https", printable(d.url))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	b := &body{from: (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), quiet: d.quiet, ctx: ctx, cancel: cancel}
	b.watch = time.AfterFunc(d.quiet, func() { cancel(errQuiet) })
	if err := d.request(b); err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

func (d *download) request(b *body) error {
	r, err := http.NewRequestWithContext(b.ctx, http.MethodGet, d.url, nil)
	if err != nil {
		return refused("the image's URL cannot be requested")
	}
	r.Header.Set("Accept-Encoding", "identity")
	if d.offset > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.offset))
		r.Header.Set("If-Range", d.version)
	}
	answer, err := d.client.Do(r)
	if err != nil {
		return b.why(err)
	}
	b.ReadCloser = answer.Body
	switch answer.StatusCode {
	case http.StatusPartialContent:
		return d.goOn(b, answer)
	case http.StatusOK:
		return d.begin(b, answer)
	case http.StatusRequestedRangeNotSatisfiable:
		d.restart()
		return fmt.Errorf("%w: the image at %s became shorter while it was fetched; the next try starts over", driver.ErrUnreachable, b.from)
	}
	return answered(b.from, answer.StatusCode)
}

func answered(from string, status int) error {
	class, what := driver.ErrRefused, "check whether the image is there and whether everybody may read it"
	if status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout {
		class, what = driver.ErrUnreachable, "its log says why"
	}
	return fmt.Errorf("%w: the image server answers %d %s for %s; %s", class, status, http.StatusText(status), from, what)
}

func (d *download) begin(b *body, answer *http.Response) error {
	d.restart()
	if answer.ContentLength <= 0 {
		return refused("the image server does not say how large %s is (Content-Length), so Slipway cannot tell whether it fits", b.from)
	}
	d.size, d.version = answer.ContentLength, version(answer.Header)
	return nil
}

func (d *download) goOn(b *body, answer *http.Response) error {
	want := fmt.Sprintf("bytes %d-%d/%d", d.offset, d.size-1, d.size)
	if got := answer.Header.Get("Content-Range"); got != want || d.offset == 0 {
		d.restart()
		return fmt.Errorf("%w: the image server sent another part of %s (%q) than was asked for; the next try starts over", driver.ErrUnreachable, b.from, printable(got))
	}
	return nil
}

// version identifies the server's version of an image, if the server does.
func version(h http.Header) string {
	if tag := h.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return h.Get("Last-Modified")
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.watch.Reset(b.quiet)
	}
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, b.why(err)
}

func (b *body) stop() {
	b.watch.Stop()
	b.cancel(context.Canceled)
	if b.ReadCloser != nil {
		b.ReadCloser.Close()
	}
}

// why says what ended a body, or kept it from starting.
func (b *body) why(err error) error {
	switch cause := context.Cause(b.ctx); {
	case cause == errQuiet:
		return fmt.Errorf("%w: the image server sent no byte of %s for %s", driver.ErrUnreachable, b.from, b.quiet)
	case cause != nil:
		return cause
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the image server broke off in the middle of %s", driver.ErrUnreachable, b.from)
	}
	var ofURL *url.Error // it contains the whole URL, which may contain a secret
	if errors.As(err, &ofURL) {
		err = ofURL.Err
	}
	return fmt.Errorf("%w: the image %s cannot be fetched: %w", driver.ErrUnreachable, b.from, err)
}
