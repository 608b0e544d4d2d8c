package artifact

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/serve"
)

// Config says how a daemon keeps and serves artifacts.
type Config struct {
	// Dir is the folder of the store.
	Dir string
	// Space is the maximum size of the store in bytes; 0 means DefaultSpace.
	Space int64
	// Files is the folder that file URLs may name files below; empty for none.
	Files string
	// Roots are the certificate authorities for https servers; nil means the
	// system's.
	Roots *x509.CertPool
	// Listen is the address that machines fetch from, host:port; empty to serve
	// nothing.
	Listen string
	// URL is the address under which machines reach Listen, if that differs.
	URL string
	// Cert and Key are PEM files; with them the server speaks TLS.
	Cert, Key string
	// Named and Forget are as in Options.
	Named  func() (map[string]bool, error)
	Forget func(ctx context.Context, files []Info) error
	// Framer is the command that converts whole-disk images to frames.
	Framer Framer
	// Problem is called with what is wrong with the server, and with nil when that is over.
	Problem func(error)
	Log     *slog.Logger
}

// Service is a daemon's artifacts: the store, what is fetched into it, and what
// is served from it.
type Service struct {
	*Store
	*Fetcher
	*Server
	config  Config
	cert    *serve.Certificate // nil without TLS
	changes chan struct{}

	mu sync.Mutex
	// at is the address that the server listens on. While it does not listen, at
	// is zero and why is the reason.
	at  netip.AddrPort
	why error
}

// ErrOff is wrapped if the daemon serves no artifacts.
var ErrOff = errors.New("the daemon serves no images to machines (--artifact-listen is off)")

// OpenService opens the store of a daemon. Run fetches and serves.
func OpenService(c Config) (*Service, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Problem == nil {
		c.Problem = func(error) {}
	}
	var cert *serve.Certificate
	if c.Cert != "" {
		cert = &serve.Certificate{Cert: c.Cert, Key: c.Key, Log: c.Log}
		if _, err := cert.Get(nil); err != nil {
			return nil, fmt.Errorf("certificate of the artifact server: %w", err)
		}
	}
	src, err := newSource(SourceOptions{Roots: c.Roots, Files: c.Files})
	if err != nil {
		return nil, err
	}
	store, err := Open(c.Dir, Options{Space: c.Space, Named: c.Named, Forget: c.Forget, Framer: c.Framer, Log: c.Log})
	if err != nil {
		return nil, err
	}
	s := &Service{Store: store, Server: newServer(store, c.Log), config: c, cert: cert, changes: make(chan struct{}, 1), why: errors.New("the artifact server does not listen yet")}
	if c.Listen == "" {
		s.why = ErrOff
	}
	s.Fetcher = newFetcher(store, src, c.Log, s.changed)
	return s, nil
}

func (s *Service) changed() {
	select {
	case s.changes <- struct{}{}:
	default:
	}
}

// Changes delivers a value when a file has arrived or failed, or when the
// server began or stopped listening.
func (s *Service) Changes() <-chan struct{} { return s.changes }

// Run fetches what is wanted and serves what is granted until the context ends.
func (s *Service) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	parts.Go(func() { s.Fetcher.run(ctx) })
	parts.Go(func() { s.serve(ctx) })
	parts.Wait()
	return nil
}

// listenEvery is how often the server retries an address that it cannot listen on.
const listenEvery = 15 * time.Second

// serve answers machines. Other work continues while it cannot.
func (s *Service) serve(ctx context.Context) {
	if s.config.Listen == "" {
		return
	}
	srv := httpServer(s.Server, usualLimits)
	srv.ErrorLog = slog.NewLogLogger(s.config.Log.Handler(), slog.LevelDebug) // anybody can cause its messages
	for ctx.Err() == nil {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.config.Listen)
		if err == nil {
			s.listens(l.Addr(), nil)
			s.config.Log.Info("artifacts are served", "address", l.Addr().String())
			err = serve.Until(ctx, srv, s.secure(bound(l, usualLimits)))
		}
		if ctx.Err() != nil {
			return
		}
		s.listens(nil, fmt.Errorf("images cannot be served to machines at %s: %w; free the port, or choose another address with --artifact-listen",
			s.config.Listen, cmp.Or(err, errors.New("the server has stopped"))))
		select {
		case <-ctx.Done():
		case <-time.After(listenEvery):
		}
	}
}

func (s *Service) listens(at net.Addr, why error) {
	s.mu.Lock()
	s.at, s.why = netip.AddrPort{}, why
	if a, ok := at.(*net.TCPAddr); ok {
		s.at = a.AddrPort()
	}
	s.mu.Unlock()
	s.config.Problem(why)
	s.changed()
}

func (s *Service) secure(l net.Listener) net.Listener {
	if s.cert == nil {
		return l
	}
	return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.cert.Get})
}

func (s *Service) scheme() string {
	if s.cert != nil {
		return "https"
	}
	return "http"
}

// Towards returns this host's address for reaching another host. It sends no packet.
func (s *Service) Towards(host string) (string, error) { return Towards(host) }

// Authority returns the SHA-256 of the server's certificate, as "sha256:" and hex digits;
// empty if it speaks http.
func (s *Service) Authority() string {
	if s.cert == nil {
		return ""
	}
	pair, err := s.cert.Get(nil)
	if err != nil || len(pair.Certificate) == 0 {
		return ""
	}
	sum := sha256.Sum256(pair.Certificate[0])
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Serving returns nil while the server answers machines, or why it does not.
func (s *Service) Serving() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// URL returns a new URL for a file. Once the URL is granted, the machine whose
// controller is at host finds the file there.
func (s *Service) URL(host, digest string) (string, error) {
	if err := s.Serving(); err != nil {
		return "", err
	}
	i, ok := s.Get(digest)
	if !ok {
		return "", fmt.Errorf("%w: %s", ErrNotFound, digest)
	}
	if s.config.URL != "" {
		return strings.TrimSuffix(s.config.URL, "/") + "/" + newPath(i.Name), nil
	}
	s.mu.Lock()
	at := s.at
	s.mu.Unlock()
	address := at.Addr().Unmap()
	if address.IsUnspecified() {
		var err error
		if address, err = towards(host); err != nil {
			return "", err
		}
	}
	u := url.URL{Scheme: s.scheme(), Host: net.JoinHostPort(address.WithZone("").String(), strconv.Itoa(int(at.Port())))}
	return u.String() + "/" + newPath(i.Name), nil
}

// Reaches reports whether a URL that was made earlier, perhaps by an earlier
// process, still leads here.
func (s *Service) Reaches(of string) bool {
	if base := s.config.URL; base != "" {
		return strings.HasPrefix(of, strings.TrimSuffix(base, "/")+"/")
	}
	u, err := url.Parse(of)
	if err != nil || u.Scheme != s.scheme() {
		return false
	}
	to, err := netip.ParseAddrPort(u.Host)
	s.mu.Lock()
	at := s.at
	s.mu.Unlock()
	if err != nil || to.Port() != at.Port() {
		return false
	}
	if !at.Addr().Unmap().IsUnspecified() {
		return to.Addr() == at.Addr().Unmap()
	}
	return isLocal(to.Addr())
}

func isLocal(a netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	for _, one := range all {
		if p, perr := netip.ParsePrefix(one.String()); err == nil && perr == nil && (p.Addr().Unmap() == a || a.IsLoopback() && p.Addr().IsLoopback()) {
			return true
		}
	}
	return false
}

// Close closes the store.
func (s *Service) Close() error { return s.Store.Close() }
