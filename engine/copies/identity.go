package copies

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"time"

	"golang.org/x/time/rate"
)

// identity is what a daemon shows to the others for as long as it runs.
type identity struct {
	pair tls.Certificate
	key  string // as in record.Holder
}

func newIdentity() (identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return identity{}, err
	}
	// TLS wants a certificate. Nobody looks at more of it than the key: clocks may differ, and names say nothing.
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(100, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		return identity{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return identity{}, err
	}
	return identity{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, keyOf(leaf)}, nil
}

func keyOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// shown is the key that the other end of a connection shows, and has proven to have once the handshake is over; empty
// for none.
func shown(c *tls.ConnectionState) string {
	if c == nil || len(c.PeerCertificates) == 0 {
		return ""
	}
	return keyOf(c.PeerCertificates[0])
}

var errStranger = errors.New("its key is not one that a running daemon of this site has recorded")

// tls is how a daemon talks to another one, whose key must be one of those that ok accepts.
func (i identity) tls(ok func(key string) bool) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.pair},
		ClientAuth: tls.RequireAnyClientCert,
		// These certificates have no authority to be verified by. VerifyConnection compares the key with the records
		// instead, on both sides and in every handshake, also in one that would resume a session. The handshake
		// succeeds only if the other end has also signed it with that key.
		InsecureSkipVerify: true,
		VerifyConnection: func(c tls.ConnectionState) error {
			if key := shown(&c); key == "" || !ok(key) {
				return errStranger
			}
			return nil
		},
		SessionTicketsDisabled: true,
	}
}

const (
	// mostBytes is how many bytes a second a daemon takes from others, so that the records have room on the same line.
	mostBytes   = 50e6
	burst       = 1 << 20
	dialTimeout = 10 * time.Second
	mostHeader  = 8 << 10
)

// client reaches the other daemons. Each request has a connection of its own, whose other end must show the key that
// is recorded for its address at that moment.
func (s *Service) client() *http.Client {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		is := func(key string) bool { at, ok := s.view.keys()[key]; return ok && at == address }
		return (&tls.Dialer{Config: s.identity.tls(is)}).DialContext(ctx, network, address)
	}
	return &http.Client{
		Transport: &slowed{limit: rate.NewLimiter(mostBytes, burst), RoundTripper: &http.Transport{
			DialTLSContext: dial, DisableKeepAlives: true, DisableCompression: true,
			ResponseHeaderTimeout: time.Minute, MaxResponseHeaderBytes: mostHeader,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// slowed limits the rate at which answers arrive, all together.
type slowed struct {
	http.RoundTripper
	limit *rate.Limiter
}

func (s *slowed) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = &slowBody{answer.Body, r.Context(), s.limit}
	}
	return answer, err
}

type slowBody struct {
	io.ReadCloser
	ctx   context.Context
	limit *rate.Limiter
}

func (b *slowBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), burst)])
	if werr := b.limit.WaitN(b.ctx, n); werr != nil && err == nil {
		err = werr
	}
	return n, err
}
