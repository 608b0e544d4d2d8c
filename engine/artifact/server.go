package artifact

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Grant permits one machine to read one file.
type Grant struct {
	// Node is the reader, for logs and people.
	Node string
	// SHA256 is the digest of the file.
	SHA256 string
	// URL is what the machine was given. Its last two parts are the token and the
	// file's name.
	URL string
	// Words are written into the file as it is read, without changing its size; nil for none.
	Words interface {
		On(file io.ReaderAt, size int64) (io.ReadSeeker, error)
	}
}

// Reads is how much a machine has read.
type Reads struct {
	// Bytes may exceed the file's size: machines read parts of it again.
	Bytes    int64     `json:"bytes"`
	Requests int       `json:"requests"`
	From     string    `json:"from,omitempty"` // the address of the last request
	Last     time.Time `json:"last,omitzero"`
}

// Totals count what a server has answered since its start.
type Totals struct {
	Bytes, Answered, Refused int64
}

// Server serves files of a store, each only at the path that one installation
// was given and only while that is granted. It answers anything else with 404.
type Server struct {
	store *Store
	log   *slog.Logger

	mu     sync.Mutex
	byNode map[string]*granted
	// byToken has the same grants by the digest of their token, so that a lookup
	// takes equally long for good and bad guesses.
	byToken map[[sha256.Size]byte]*granted
	totals  Totals
}

type granted struct {
	Grant
	token [sha256.Size]byte
	path  string // of the URL, as requested
	since time.Time
	reads Reads
}

func newServer(s *Store, log *slog.Logger) *Server {
	return &Server{store: s, log: log, byNode: map[string]*granted{}, byToken: map[[sha256.Size]byte]*granted{}}
}

// newPath returns the end of a URL that nobody else can guess: a random token,
// and the file's name with its extension, which some firmware needs.
func newPath(name string) string { return rand.Text() + "/" + fileName(name) }

// split parses the end of a URL. A query would become part of the name, and no
// name contains one.
func split(of string) (token [sha256.Size]byte, end string, ok bool) {
	dir, name := path.Split(of)
	text := path.Base(dir)
	if len(text) < 26 || name == "" || !strings.HasSuffix(of, "/"+text+"/"+name) {
		return token, "", false
	}
	return sha256.Sum256([]byte(text)), "/" + text + "/" + name, true
}

// Grant gives a node its file, in place of its earlier one.
func (s *Server) Grant(g Grant) {
	token, end, ok := split(g.URL)
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.byNode[g.Node]; was != nil {
		if was.Grant == g {
			return
		}
		s.revokeLocked(was)
	}
	if !ok {
		return
	}
	its := &granted{Grant: g, token: token, path: end, since: time.Now()}
	s.byNode[g.Node], s.byToken[token] = its, its
	s.log.Info("artifact is served", "node", g.Node, "sha256", g.SHA256)
}

// Revoke revokes a node's grant.
func (s *Server) Revoke(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.byNode[node]; was != nil {
		s.revokeLocked(was)
	}
}

func (s *Server) revokeLocked(g *granted) {
	delete(s.byNode, g.Node)
	delete(s.byToken, g.token)
	s.log.Info("artifact is served no more", "node", g.Node, "sha256", g.SHA256, "bytes", g.reads.Bytes, "requests", g.reads.Requests, "to", g.reads.From)
}

// Reads returns what a node has read of its file; false if it has no grant.
func (s *Server) Reads(node string) (Reads, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.byNode[node]
	if g == nil {
		return Reads{}, false
	}
	return g.reads, true
}

// Totals returns the totals so far.
func (s *Server) Totals() Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.totals
}

// ServeHTTP answers GET and HEAD for granted files, whole or one range.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g := s.find(r)
	if g == nil {
		s.count(func(t *Totals) { t.Refused++ })
		nothing(w)
		return
	}
	f, info, err := s.store.Reader(g.SHA256)
	if err != nil {
		s.log.Error("artifact not served", "node", g.Node, "sha256", g.SHA256, "err", err)
		s.count(func(t *Totals) { t.Refused++ })
		nothing(w)
		return
	}
	defer f.Close()
	content, tag := io.ReadSeeker(f), info.SHA256
	if g.Words != nil {
		if content, err = g.Words.On(f, info.Size); err != nil {
			s.log.Error("artifact not served", "node", g.Node, "sha256", g.SHA256, "err", err)
			s.count(func(t *Totals) { t.Refused++ })
			nothing(w)
			return
		}
		tag += "-" + hex.EncodeToString(g.token[:8]) // the content belongs to this grant only
	}
	h := w.Header()
	h.Set("Content-Type", contentType(g.path))
	h.Set("ETag", strconv.Quote(tag))
	h.Set("Cache-Control", "no-store")
	if !oneRange.MatchString(r.Header.Get("Range")) {
		r.Header.Del("Range") // the whole file is a valid answer to any other range (RFC 9110, section 14.2)
	}
	c := &counter{ResponseWriter: w}
	s.first(g, r)
	http.ServeContent(c, r, "", info.Added, content)
	s.mu.Lock()
	defer s.mu.Unlock()
	g.reads.Bytes += c.n
	s.totals.Bytes += c.n
}

// oneRange matches a range from a byte to another or to the end, or of the last bytes.
var oneRange = regexp.MustCompile(`^bytes=([0-9]+-[0-9]*|-0*[1-9][0-9]*)$`)

// first counts a request before it is answered, and logs the first one from an address.
func (s *Server) first(g *granted, r *http.Request) {
	from, _, _ := net.SplitHostPort(r.RemoteAddr)
	s.mu.Lock()
	another := g.reads.From != from
	g.reads.From, g.reads.Last = from, time.Now()
	g.reads.Requests++
	s.totals.Answered++
	s.mu.Unlock()
	if another {
		s.log.Info("artifact is read", "node", g.Node, "by", from, "client", printable(cmp.Or(r.UserAgent(), "none")))
	}
}

func (s *Server) count(change func(*Totals)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.totals)
}

// find returns the grant for a request, nil for none. The path must match the
// granted one exactly.
func (s *Server) find(r *http.Request) *granted {
	asked := r.URL.EscapedPath()
	token, _, ok := split(asked)
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead || r.URL.RawQuery != "" || r.URL.ForceQuery {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// A proxy may keep the path of --artifact-url, or strip it.
	if g := s.byToken[token]; g != nil && (asked == g.path || strings.HasSuffix(g.URL, asked) && strings.HasSuffix(asked, g.path)) {
		return g
	}
	return nil
}

// nothing answers 404 and closes the connection, so that each guess costs a
// connection.
func nothing(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	w.WriteHeader(http.StatusNotFound)
}

// contentType is how UEFI firmware decides how to boot a file (UEFI 2.10, section
// 24.7; EDK2 knows these names). BMCs ignore it.
func contentType(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".iso":
		return "application/vnd.efi-iso"
	case ".img":
		return "application/vnd.efi-img"
	case ".efi":
		return "application/efi"
	}
	return "application/octet-stream"
}

// counter counts what is written, and lets the kernel copy files.
type counter struct {
	http.ResponseWriter
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n += int64(n)
	return n, err
}

func (c *counter) ReadFrom(r io.Reader) (int64, error) {
	n, err := c.ResponseWriter.(io.ReaderFrom).ReadFrom(r)
	c.n += n
	return n, err
}
