package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/tests/bench/rig"
)

// load is what servers are asked for.
type load struct {
	clients, times int
	bytes          int64 // of the file
	rounds         int
}

// serve has the artifact server and nginx give one file to many clients, in turn. It is the
// same file: nginx reads it in the store.
func serve(quick bool) ([]string, error) {
	l := load{clients: 64, times: 1, bytes: 256 << 20, rounds: 3}
	if quick {
		l = load{clients: 8, times: 4, bytes: 64 << 20, rounds: 1}
	}
	dir, err := os.MkdirTemp("", "bench-install-serve-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	roots, err := newCertificate(dir)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "image")
	if err := writeNoise(file, l.bytes); err != nil {
		return nil, err
	}
	plain, err := l.beside(dir, file, nil)
	if err != nil {
		return nil, err
	}
	secure, err := l.beside(dir, file, roots)
	if err != nil {
		return nil, err
	}
	return []string{rig.Figure("install/serve-ratio", plain, "ratio"), rig.Figure("install/serve-tls-ratio", secure, "ratio")}, nil
}

// beside gives what Slipway sends in a second of CPU time over what nginx does; by TLS where
// authorities are given that the server is verified by.
func (l load) beside(dir, file string, roots *x509.CertPool) (ratio float64, err error) {
	store := filepath.Join(dir, "plain")
	cert, key := "", ""
	if roots != nil {
		store, cert, key = filepath.Join(dir, "tls"), filepath.Join(dir, certFile), filepath.Join(dir, keyFile)
	}
	ours, err := begin(own("artifacts", store, file, cert, key))
	if err != nil {
		return 0, err
	}
	defer ours.end()
	var at struct{ URL, File string }
	if err := ours.result(&at); err != nil {
		return 0, err
	}
	theirs, url, err := beginNginx(dir, at.File, cert, key)
	if err != nil {
		return 0, err
	}
	defer theirs.end()
	var sent [2][]float64
	for range l.rounds {
		for i, server := range []struct {
			name, url string
			pid       int
		}{{"slipway", at.URL, ours.pid()}, {"nginx", url, theirs.pid()}} {
			perSecond, err := l.measure(server.name, server.url, server.pid, roots)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", server.name, err)
			}
			sent[i] = append(sent[i], perSecond)
		}
	}
	return rig.Median(sent[0]) / rig.Median(sent[1]), nil
}

// measure is how many bytes a server sends in a second of its CPU time.
func (l load) measure(name, url string, pid int, roots *x509.CertPool) (float64, error) {
	before, _, err := rig.Usage(pid)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	suite, err := l.read(url, roots)
	if err != nil {
		return 0, err
	}
	took := time.Since(begun)
	after, _, err := rig.Usage(pid)
	if err != nil {
		return 0, err
	}
	cpu, total := after-before, float64(l.bytes)*float64(l.clients*l.times)
	rig.Progress("serve: %s %s: %.0f MB in %.2f s, %.2f s of CPU, %.0f MB a second of CPU", name, suite, total/1e6, took.Seconds(), cpu.Seconds(), total/1e6/cpu.Seconds())
	if cpu <= 0 {
		return 0, errors.New("it took too little CPU time to be measured")
	}
	return total / cpu.Seconds(), nil
}

// read has all clients read the file at once, each over a connection of its own.
func (l load) read(url string, roots *x509.CertPool) (suite string, err error) {
	var all sync.WaitGroup
	failed := make([]error, l.clients)
	suites := make([]string, l.clients)
	for i := range l.clients {
		all.Go(func() {
			t := &http.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}
			defer t.CloseIdleConnections()
			for range l.times {
				if suites[i], failed[i] = readWhole(&http.Client{Transport: t}, url, l.bytes); failed[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return suites[0], errors.Join(failed...)
}

func readWhole(c *http.Client, url string, size int64) (suite string, err error) {
	resp, err := c.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ContentLength != size {
		return "", fmt.Errorf("answered %s, %d bytes", resp.Status, resp.ContentLength)
	}
	suite = "plain"
	if resp.TLS != nil {
		suite = tls.CipherSuiteName(resp.TLS.CipherSuite)
	}
	n, err := skip(resp.Body, size, make([]byte, 256<<10))
	if err == nil && n != size {
		err = fmt.Errorf("%d bytes of %d came", n, size)
	}
	return suite, err
}

// skip reads up to some bytes.
func skip(from io.Reader, most int64, buffer []byte) (n int64, err error) {
	for n < most {
		m, err := from.Read(buffer[:min(int64(len(buffer)), most-n)])
		n += int64(m)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// serveArtifacts is the artifact server of the daemon with one file, which is granted.
func serveArtifacts(args []string) error {
	if len(args) != 4 {
		return errors.New("store, file, certificate and key are needed")
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s, err := artifact.OpenService(artifact.Config{Dir: args[0], Listen: "127.0.0.1:0", Cert: args[2], Key: args[3], Log: log})
	if err != nil {
		return err
	}
	defer s.Close()
	f, err := os.Open(args[1])
	if err != nil {
		return err
	}
	defer f.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	info, err := s.AddFile(ctx, f, 0, "", "image.img", nil)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	for s.Serving() != nil {
		select {
		case <-s.Changes():
		case <-time.After(time.Minute):
			return s.Serving()
		}
	}
	url, err := s.URL("127.0.0.1", info.SHA256)
	if err != nil {
		return err
	}
	s.Grant(artifact.Grant{Node: "bench", SHA256: info.SHA256, URL: url})
	stored := filepath.Join(args[0], "files", info.SHA256)
	if err := tell(struct{ URL, File string }{url, stored}); err != nil {
		return err
	}
	untilClosed()
	cancel()
	return <-ended
}

// The names of the certificate's files.
const certFile, keyFile = "cert.pem", "key.pem"

// newCertificate makes one for loopback, and what it is verified by.
func newCertificate(dir string) (*x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(public)
	return pool, rig.Write(dir, map[string]string{
		certFile: string(public), keyFile: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	})
}

// writeNoise makes a file that does not get smaller.
func writeNoise(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.Reader, size)
	return errors.Join(err, f.Close())
}
