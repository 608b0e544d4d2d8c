package copies

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/serve"
	"github.com/slipway-gitops/slipway/engine/site"
)

// listenEvery is how often an address is tried again that cannot be listened on.
const listenEvery = 15 * time.Second

// listening is where the others get copies.
type listening struct {
	mu  sync.Mutex
	at  string // as the others reach it; empty while they do not
	why error  // then
}

func (l *listening) set(at string, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at, l.why = at, why
}

func (l *listening) now() (at string, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at, l.why
}

// serve gives copies until the context ends.
func (s *Service) serve(ctx context.Context) {
	if s.Listen == "" {
		return
	}
	for ctx.Err() == nil {
		err := s.serveOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		s.door.set("", fmt.Errorf("other daemons cannot copy artifacts from this one at %s: %w; free the port, or choose another address with --copy-listen",
			s.Listen, cmp.Or(err, errors.New("the server has stopped"))))
		s.Poke()
		if !wait(ctx, listenEvery, nil) {
			return
		}
	}
}

func (s *Service) serveOnce(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Listen)
	if err != nil {
		return err
	}
	defer l.Close()
	at, err := s.reached(l.Addr())
	if err != nil {
		return err
	}
	s.door.set(at, nil)
	s.Poke()
	s.Log.Info("artifacts are given to the other daemons of the site", "address", at)
	srv, limited := artifact.ForDaemons(http.HandlerFunc(s.give), l)
	srv.ErrorLog = slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug) // anybody can cause its messages
	return serve.Until(ctx, srv, tls.NewListener(limited, s.identity.tls(func(key string) bool { return s.admits(ctx, key) })))
}

// reached is how the others reach a listener.
func (s *Service) reached(a net.Addr) (string, error) {
	at, ok := a.(*net.TCPAddr)
	if !ok || !at.IP.IsUnspecified() {
		return a.String(), nil
	}
	host, err := s.Reach()
	return net.JoinHostPort(host, strconv.Itoa(at.Port)), err
}

// admits reports whether a key is that of another running daemon. For an unknown one the records are read again, at
// most once a second: a daemon that has just started has just written it.
func (s *Service) admits(ctx context.Context, key string) bool {
	if s.trusts(key) {
		return true
	}
	if !s.again.Allow() {
		return false
	}
	s.refresh(ctx)
	return s.trusts(key)
}

// refresh reads the records outside the order of sync.
func (s *Service) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout/2)
	defer cancel()
	s.turn.Lock()
	defer s.turn.Unlock()
	if shelves, err := s.Records.Read(ctx); err == nil {
		s.view.take(shelves, time.Now())
	}
}

// trusts reports whether a key is another running daemon's.
func (s *Service) trusts(key string) bool {
	_, ok := s.view.keys()[key]
	return ok
}

// give answers GET /SHA256 with a whole file of the store, or with the rest of it. What was collected, and what is
// made for one machine, is not given: the store has no such files.
func (s *Service) give(w http.ResponseWriter, r *http.Request) {
	key := shown(r.TLS)
	digest := strings.TrimPrefix(r.URL.Path, "/")
	shelves, known, _ := s.view.now()
	info, has := s.Files.Originals()[digest]
	if r.Method != http.MethodGet || !known || !has || !shelves.Artifacts[digest].Removed.IsZero() {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	f, _, err := s.Files.Reader(digest)
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	defer f.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("ETag", strconv.Quote(digest))
	out := &sending{ReadSeeker: f, sum: sha256.New(), ok: func() bool { return s.trusts(key) }}
	s.Log.Info("artifact is copied by another daemon", "sha256", digest, "by", r.RemoteAddr, "range", site.Printable(r.Header.Get("Range")))
	http.ServeContent(w, r, "", info.Added, out)
	if got := hex.EncodeToString(out.sum.Sum(nil)); out.n == info.Size && r.Header.Get("Range") == "" && got != digest {
		s.damaged(digest, got)
	}
}

// damaged removes a file that was read whole and has another digest. A good copy takes its place.
func (s *Service) damaged(digest, got string) {
	s.Log.Error("artifact removed: it is damaged; the disk may be failing", "sha256", digest, "is", got)
	if err := s.Files.Remove(digest); err != nil {
		s.Log.Error("damaged artifact not removed", "sha256", digest, "err", err)
	}
	s.Poke()
}

// sending is a file that is given for as long as the other end may have it.
type sending struct {
	io.ReadSeeker // not the whole file: its WriteTo would pass Read by
	sum           hash.Hash
	n             int64
	ok            func() bool // asked before each stretch
	due           int64       // from which byte on it is asked again
}

// stretch is how much is given before it is asked again whether the other end may have it.
const stretch = 1 << 20

var errNoMore = errors.New("the daemon that copies is no longer one of this site")

func (f *sending) Read(p []byte) (int, error) {
	if f.n >= f.due {
		if !f.ok() {
			return 0, errNoMore
		}
		f.due = f.n + stretch
	}
	n, err := f.ReadSeeker.Read(p)
	f.sum.Write(p[:n])
	f.n += int64(n)
	return n, err
}
