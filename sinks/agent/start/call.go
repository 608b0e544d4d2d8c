package start

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside/run"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// These are the times of a call.
const (
	callTimeout = 20 * time.Second // until the daemon has answered
	alive       = 15 * time.Second // between TCP keep-alives
)

// Caller calls the daemon.
type Caller struct {
	Settings Settings
	// Machine describes the machine.
	Machine func() wire.Machine
	// Program answers the daemon's requests.
	Program *run.Program
	// Said returns the last console lines that the daemon has not received. It may be nil.
	Said func() []string
	// Welcomed is called when the daemon has accepted the machine.
	Welcomed func(w wire.Welcome)
	key      tls.Certificate
}

// RefusedError reports that the daemon refuses this machine.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return e.Text }

// NewKey makes the key of this boot, which is never stored. After a lost connection the daemon recognizes the
// machine by it.
func (c *Caller) NewKey() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	// The clock may be wrong, and nobody checks these times.
	own := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "slipway-agent"}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, own, own, key.Public(), key)
	c.key = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return err
}

// Call talks to the daemon over a link until the connection ends. An empty link means any.
func (c *Caller) Call(ctx context.Context, link string) error {
	conn, err := c.dial(ctx, link)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := conn.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return err
	}
	hello := wire.Hello{Version: wire.Version, Token: c.Settings.Token, Machine: c.Machine()}
	if c.Said != nil {
		hello.Said = c.Said()
	}
	if err := wire.Write(conn, hello); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	var w wire.Welcome
	if err := wire.ReadAtMost(in, &w, wire.MaxHello); err != nil {
		return fmt.Errorf("the daemon did not answer: %w", err)
	}
	if w.Refused != "" {
		return &RefusedError{w.Refused}
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	c.Welcomed(w)
	for {
		if _, err := in.Peek(1); err != nil {
			return fmt.Errorf("the daemon closed the connection: %w", err)
		}
		if err := c.Program.Answer(ctx, in, conn); err != nil {
			return err
		}
	}
}

func (c *Caller) dial(ctx context.Context, link string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: alive, Interval: alive, Count: 4}}
	if link != "" {
		d.Control = func(_, _ string, raw syscall.RawConn) (err error) {
			return errors.Join(raw.Control(func(fd uintptr) { err = syscall.BindToDevice(int(fd), link) }), err)
		}
	}
	host, _, err := net.SplitHostPort(c.Settings.Daemon)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: host, Certificates: []tls.Certificate{c.key},
		InsecureSkipVerify: true, // VerifyConnection does this, without the machine's clock
		VerifyConnection:   func(s tls.ConnectionState) error { return verify(s.PeerCertificates, c.Settings.CA, host, time.Now()) },
	}
	return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", c.Settings.Daemon)
}

// verify checks the daemon's certificates against the digest of one of them. A machine's clock may be years behind,
// so a certificate that is not valid yet is accepted.
func verify(shown []*x509.Certificate, ca []byte, host string, now time.Time) error {
	i := slices.IndexFunc(shown, func(c *x509.Certificate) bool {
		digest := sha256.Sum256(c.Raw)
		return string(digest[:]) == string(ca)
	})
	if i < 0 {
		return fmt.Errorf("the program that answers as the daemon does not have its certificate: none of the %d that it shows has the digest sha256:%x of slipway.ca. "+
			"Nothing was sent to it", len(shown), ca)
	}
	leaf := shown[0]
	if now.Before(leaf.NotBefore) {
		now = leaf.NotBefore
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(shown[i])
	for _, c := range shown[1:] {
		between.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, DNSName: host, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err
}
