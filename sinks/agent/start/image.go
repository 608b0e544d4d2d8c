package start

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside/image"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// imageIdle bounds the wait for more bytes of an image.
const imageIdle = time.Minute

// served is an image that the daemon serves at its own URL.
type served struct {
	url    string
	client *http.Client
}

// openImage opens an image at the daemon's URL. The reader compares the bytes with the digest, so http is safe
// against modification.
func openImage(i wire.Image) (image.Source, error) {
	wrong := func(why string) (image.Source, error) {
		return nil, &wire.Error{Class: wire.Refused, Text: "the URL of the image " + why + "; nothing was written"}
	}
	u, err := url.Parse(i.URL)
	if err != nil || u.Host == "" {
		return wrong("cannot be read")
	}
	transport := &http.Transport{
		ResponseHeaderTimeout: imageIdle, TLSHandshakeTimeout: callTimeout, DisableCompression: true, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{Timeout: callTimeout}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &impatient{conn}, nil
		},
	}
	switch u.Scheme {
	case "http":
	case "https":
		digest, ok := strings.CutPrefix(i.CA, "sha256:")
		ca, err := hex.DecodeString(digest)
		if err != nil || !ok || len(ca) != 32 {
			return wrong("is https, and no certificate is named by which the server is known (sha256: and 64 hex digits)")
		}
		transport.TLSClientConfig = &tls.Config{
			MinVersion: tls.VersionTLS13, ServerName: u.Hostname(),
			InsecureSkipVerify: true, // VerifyConnection does this, without the machine's clock
			VerifyConnection: func(s tls.ConnectionState) error {
				return verify(s.PeerCertificates, ca, u.Hostname(), time.Now())
			},
		}
	default:
		return wrong("is neither http nor https")
	}
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &served{i.URL, &http.Client{Transport: transport, CheckRedirect: refuse}}, nil
}

// impatient is a connection whose reads have a time limit.
type impatient struct{ net.Conn }

func (c *impatient) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(imageIdle)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// Open implements image.Source.
func (s *served) Open(ctx context.Context, from int64) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: its URL cannot be asked for", image.ErrGone)
	}
	r.Header.Set("User-Agent", "slipway-agent")
	if from > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	a, err := s.client.Do(r)
	if err != nil {
		if u, ok := err.(*url.Error); ok {
			err = u.Err // the URL contains a token
		}
		return nil, fmt.Errorf("the daemon's image server: %w", err)
	}
	switch begins := fmt.Sprintf("bytes %d-", from); {
	case a.StatusCode == http.StatusOK && from == 0, a.StatusCode == http.StatusPartialContent && strings.HasPrefix(a.Header.Get("Content-Range"), begins):
		return a.Body, nil
	case a.StatusCode >= 500 || a.StatusCode == http.StatusTooManyRequests:
		err = fmt.Errorf("the daemon's image server answers %d", a.StatusCode)
	case a.StatusCode == http.StatusNotFound:
		err = fmt.Errorf("%w: the URL is no longer in use (404)", image.ErrGone)
	default:
		err = fmt.Errorf("%w: the server answers %d where byte %d was asked for", image.ErrGone, a.StatusCode, from)
	}
	a.Body.Close()
	return nil, err
}
