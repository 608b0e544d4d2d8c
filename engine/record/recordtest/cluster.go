package recordtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/slipway-gitops/slipway/tests/port"
)

// memberEnv has the settings of a member, in the environment of its process.
const memberEnv = "SLIPWAY_TEST_ETCD"

// settings are those of one member.
type settings struct {
	Name, Dir, Client, Peer, Cluster string
	CA, Cert, Key                    string
	Quota                            int64
}

// RunMember runs a member of a Cluster if that is what this process is for, and never returns then.
// A test that starts clusters calls it first in TestMain.
func RunMember() {
	text := os.Getenv(memberEnv)
	if text == "" {
		return
	}
	var s settings
	c := embed.NewConfig()
	must(json.Unmarshal([]byte(text), &s))
	c.Name, c.Dir, c.InitialCluster = s.Name, s.Dir, s.Cluster
	c.ListenClientUrls, c.AdvertiseClientUrls = urls("https://"+s.Client), urls("https://"+s.Client)
	c.ListenPeerUrls, c.AdvertisePeerUrls = urls("http://"+s.Peer), urls("http://"+s.Peer)
	c.ClientTLSInfo.CertFile, c.ClientTLSInfo.KeyFile, c.ClientTLSInfo.TrustedCAFile, c.ClientTLSInfo.ClientCertAuth = s.Cert, s.Key, s.CA, true
	c.UnsafeNoFsync, c.QuotaBackendBytes = true, s.Quota
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	_, err := embed.StartEtcd(c)
	must(err)
	select {}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd of a test:", err)
		os.Exit(1)
	}
}

func urls(text string) []url.URL {
	u, err := url.Parse(text)
	must(err)
	return []url.URL{*u}
}

// Cluster is an etcd of real processes on loopback that asks clients for certificates.
type Cluster struct {
	// CA, Cert and Key are files: the authority, and what a client shows.
	CA, Cert, Key string
	t             testing.TB
	members       []*settings
	running       []*exec.Cmd
}

// StartCluster starts an etcd of some members. A quota of 0 is etcd's own.
func StartCluster(t testing.TB, members int, quota int64) *Cluster {
	t.Helper()
	dir := t.TempDir()
	c := &Cluster{t: t, CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), running: make([]*exec.Cmd, members)}
	c.certify()
	var all []string
	for i := range members {
		m := &settings{Name: fmt.Sprint("m", i), Dir: filepath.Join(dir, fmt.Sprint("m", i)), Client: Free(t), Peer: Free(t), CA: c.CA, Cert: c.Cert, Key: c.Key, Quota: quota}
		c.members = append(c.members, m)
		all = append(all, m.Name+"=http://"+m.Peer)
	}
	for i, m := range c.members {
		m.Cluster = strings.Join(all, ",")
		c.Start(i)
	}
	t.Cleanup(func() {
		for i := range c.members {
			c.Kill(i)
		}
	})
	client := c.Client()
	defer client.Close()
	for range 300 {
		if _, err := client.Get(t.Context(), "ready"); err == nil {
			return c
		}
		time.Sleep(100 * time.Millisecond) // of another process
	}
	t.Fatal("the etcd of the test does not become ready")
	return nil
}

// Start starts a member.
func (c *Cluster) Start(i int) {
	c.t.Helper()
	text, err := json.Marshal(c.members[i])
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), memberEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.running[i] = cmd
}

// Kill ends a member as a power cut would.
func (c *Cluster) Kill(i int) {
	if cmd := c.running[i]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		c.running[i] = nil
	}
}

// Stop has a member stand still, all of its threads when it returns, and Continue ends that.
func (c *Cluster) Stop(i int) {
	p := c.running[i].Process
	_ = p.Signal(syscall.SIGSTOP)
	for {
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(p.Pid, &status, syscall.WUNTRACED, nil); err != syscall.EINTR {
			return
		}
	}
}

func (c *Cluster) Continue(i int) { _ = c.running[i].Process.Signal(syscall.SIGCONT) }

// Endpoints are the client URLs of the members.
func (c *Cluster) Endpoints() (all []string) {
	for _, m := range c.members {
		all = append(all, "https://"+m.Client)
	}
	return all
}

// TLS is what a client needs.
func (c *Cluster) TLS() *tls.Config {
	cert, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		c.t.Fatal(err)
	}
	text, err := os.ReadFile(c.CA)
	if err != nil {
		c.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// Client is a client of all members.
func (c *Cluster) Client() *clientv3.Client {
	c.t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), TLS: c.TLS(), DialTimeout: 2 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// Line is a network between one client and the members, which a test can cut.
type Line struct {
	// Endpoints are what the client connects to.
	Endpoints []string

	mu    sync.Mutex
	down  bool
	delay time.Duration
	conns map[net.Conn]bool
}

// Line returns a network of its own to the members.
func (c *Cluster) Line() *Line {
	c.t.Helper()
	l := &Line{conns: map[net.Conn]bool{}}
	for _, m := range c.members {
		from, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { from.Close(); l.Cut() })
		l.Endpoints = append(l.Endpoints, "https://"+from.Addr().String())
		go l.serve(from, m.Client)
	}
	return l
}

// Cut ends all connections and lets no other through until Mend is called.
func (l *Line) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for c := range l.conns {
		c.Close()
	}
	clear(l.conns)
}

// Mend ends a Cut.
func (l *Line) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

// Slow delays what members answer.
func (l *Line) Slow(by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = by
}

func (l *Line) lag() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delay
}

// open notes a connection, unless the line is cut.
func (l *Line) open(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		c.Close()
		return false
	}
	l.conns[c] = true
	return true
}

func (l *Line) serve(from net.Listener, to string) {
	for {
		near, err := from.Accept()
		if err != nil {
			return
		}
		if !l.open(near) {
			continue
		}
		far, err := net.Dial("tcp", to)
		if err != nil {
			near.Close()
			continue
		}
		if !l.open(far) {
			near.Close()
			continue
		}
		go func() { _, _ = io.Copy(far, near); far.Close() }()
		go func() { l.back(near, far); near.Close() }()
	}
}

// back copies what a member answers.
func (l *Line) back(near, far net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := far.Read(buf)
		if lag := l.lag(); lag > 0 {
			time.Sleep(lag)
		}
		if _, werr := near.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// certify writes an authority, and one certificate for members and clients.
func (c *Cluster) certify() {
	now := time.Now()
	caKey, key := c.key(), c.key()
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	cert := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "slipway"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	c.write(c.CA, "CERTIFICATE", c.sign(ca, ca, caKey, caKey))
	c.write(c.Cert, "CERTIFICATE", c.sign(cert, ca, key, caKey))
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(c.Key, "EC PRIVATE KEY", der)
}

func (c *Cluster) key() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	return key
}

func (c *Cluster) sign(cert, by *x509.Certificate, key, byKey *ecdsa.PrivateKey) []byte {
	der, err := x509.CreateCertificate(rand.Reader, cert, by, &key.PublicKey, byKey)
	if err != nil {
		c.t.Fatal(err)
	}
	return der
}

func (c *Cluster) write(path, kind string, der []byte) {
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// Certificates writes an authority and one certificate for all members on loopback, and returns the
// files.
func Certificates(t testing.TB) (ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	c := &Cluster{t: t, CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	c.certify()
	return c.CA, c.Cert, c.Key
}

// Free returns an address on loopback that nobody listens on.
func Free(t testing.TB) string {
	t.Helper()
	address, err := port.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
