package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// ServiceOptions configure how a daemon listens for agents.
type ServiceOptions struct {
	Site string
	// Listen is the address to listen at, HOST:PORT or :PORT.
	Listen string
	// Address is the address that machines call, HOST:PORT, if it is not an address of this host.
	Address string
	// Authority signs the daemon's certificate.
	Authority *Authority
	// Medium is the SHA-256 of the ramdisk's medium. On puts the words of a boot onto it.
	Medium string
	On     func(medium io.ReaderAt, size int64, words ...string) (*io.SectionReader, error)
	// Problem receives the listener's problem, and nil when it is over. It may be nil.
	Problem func(error)
	Log     *slog.Logger
}

// Service is a Listener that also tells machines how to call it. It implements driver.Agents for a daemon.
type Service struct {
	o       ServiceOptions
	l       *Listener
	changes chan struct{}

	mu    sync.Mutex
	port  uint16 // it listens on; 0 while it does not, and why is the reason
	why   error
	words map[string]*words // by node, of the boots whose tokens this process made
	hear  func(node, text string)
}

// words are the words of one boot.
type words struct {
	all []string
	put func(medium io.ReaderAt, size int64, words ...string) (*io.SectionReader, error)
}

// On implements driver.Words.
func (w *words) On(medium io.ReaderAt, size int64) (io.ReadSeeker, error) {
	return w.put(medium, size, w.all...)
}

// NewService makes a service that expects nobody. Run listens.
func NewService(o ServiceOptions) *Service {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Problem == nil {
		o.Problem = func(error) {}
	}
	s := &Service{o: o, changes: make(chan struct{}, 1), words: map[string]*words{}, why: errors.New("the listener for agents does not listen yet")}
	if host, _, err := net.SplitHostPort(o.Address); err == nil {
		o.Authority.Names(host)
	}
	s.l = NewListener(ListenerOptions{
		Site: o.Site, GetCertificate: o.Authority.Certificate,
		Changed: s.changed,
		Tell: func(node, text string) {
			o.Log.Info("agent", "node", node, "says", text)
			s.heard(node, text)
		},
		Say: s.heard,
	})
	return s
}

// Hear implements driver.Agents.
func (s *Service) Hear(hear func(node, text string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hear = hear
}

func (s *Service) heard(node, text string) {
	s.mu.Lock()
	hear := s.hear
	s.mu.Unlock()
	if hear != nil && node != "" {
		hear(node, site.Printable(text))
	}
}

func (s *Service) changed() {
	select {
	case s.changes <- struct{}{}:
	default:
	}
}

// listenEvery is how often Run retries an unavailable address.
const listenEvery = 15 * time.Second

// Run listens for agents until the context ends.
func (s *Service) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		on, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.o.Listen)
		if err == nil {
			s.listens(on.Addr(), nil)
			s.o.Log.Info("agents are listened to", "address", on.Addr().String())
			err = s.l.Serve(ctx, on)
		}
		if ctx.Err() != nil {
			return nil
		}
		s.listens(nil, fmt.Errorf("agents cannot call at %s: %w; free the port, or choose another address with --agent-listen", s.o.Listen, cmp.Or(err, errors.New("the listener has stopped"))))
		select {
		case <-ctx.Done():
		case <-time.After(listenEvery):
		}
	}
	return nil
}

func (s *Service) listens(at net.Addr, why error) {
	s.mu.Lock()
	s.port, s.why = 0, why
	if a, ok := at.(*net.TCPAddr); ok {
		s.port = a.AddrPort().Port()
	}
	s.mu.Unlock()
	s.o.Problem(why)
	s.changed()
}

// Serving implements driver.Agents.
func (s *Service) Serving() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// Medium implements driver.Agents.
func (s *Service) Medium() string { return s.o.Medium }

// Changes implements driver.Agents.
func (s *Service) Changes() <-chan struct{} { return s.changes }

// Expect implements driver.Agents.
func (s *Service) Expect(b driver.Boot) (string, error) {
	if err := s.Serving(); err != nil {
		return "", err
	}
	address, err := s.address(b)
	if err != nil {
		return "", err
	}
	token, err := s.l.Expect(b)
	if err != nil {
		return "", err
	}
	all := []string{"slipway.daemon=" + address, "slipway.ca=" + s.o.Authority.Digest(), "slipway.token=" + token}
	if a := b.Address; a.Prefix.IsValid() {
		all = append(all, "slipway.ip="+a.Prefix.String())
		if a.Gateway.IsValid() {
			all = append(all, "slipway.gateway="+a.Gateway.String())
		}
		if len(a.DNS) > 0 {
			var servers []string
			for _, d := range a.DNS {
				servers = append(servers, d.String())
			}
			all = append(all, "slipway.dns="+strings.Join(servers, ","))
		}
		if a.MAC != "" {
			all = append(all, "slipway.mac="+a.MAC)
		} else if a.PCI != "" {
			all = append(all, "slipway.pci="+a.PCI)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.words[b.Node] = &words{all, s.o.On}
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:]), nil
}

// address is the address that a machine calls.
func (s *Service) address(b driver.Boot) (string, error) {
	if s.o.Address != "" {
		return s.o.Address, nil
	}
	host, _, _ := net.SplitHostPort(s.o.Listen)
	if a, err := netip.ParseAddr(host); err != nil || a.IsUnspecified() {
		host = cmp.Or(nameOf(host, err), b.Daemon)
	}
	if host == "" {
		return "", fmt.Errorf("start an agent on %s: Slipway does not know at which address of this host the machine reaches it; pass --agent-address HOST:PORT", b.Node)
	}
	s.o.Authority.Names(host)
	s.mu.Lock()
	defer s.mu.Unlock()
	return net.JoinHostPort(host, strconv.Itoa(int(s.port))), nil
}

// nameOf returns a host that is a name; empty for an unspecified address.
func nameOf(host string, notAnAddress error) string {
	if notAnAddress == nil {
		return ""
	}
	return host
}

// Recall implements driver.Agents.
func (s *Service) Recall(b driver.Boot, token, key string) {
	var digest, of [sha256.Size]byte
	if len(token) != 2*len(digest) {
		return // not the digest of a token
	}
	if _, err := hex.Decode(digest[:], []byte(token)); err != nil {
		return
	}
	if len(key) == 2*len(of) {
		if _, err := hex.Decode(of[:], []byte(key)); err != nil {
			return
		}
	}
	s.o.Authority.Names(b.Daemon)
	s.l.Recall(b, digest, of)
}

// Words implements driver.Agents.
func (s *Service) Words(node string) driver.Words {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.words[node]; w != nil {
		return w
	}
	return nil
}

// Directions implements driver.Agents.
func (s *Service) Directions(b driver.Boot) (string, error) {
	address, err := s.address(b)
	if err != nil {
		return "", err
	}
	return "slipway.daemon=" + address + " slipway.ca=" + s.o.Authority.Digest(), nil
}

// Refused implements driver.Agents.
func (s *Service) Refused(node string) string { return s.l.Refused(node) }

// Forget implements driver.Agents.
func (s *Service) Forget(node string) {
	s.mu.Lock()
	delete(s.words, node)
	s.mu.Unlock()
	s.l.Forget(node)
}

// Agent implements driver.Agents.
func (s *Service) Agent(node string) driver.Agent { return s.l.Connected(node) }
