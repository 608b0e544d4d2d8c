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

// Grant lets one machine read one file.
type Grant struct {
	// Node is who reads it, for logs and people.
	Node string
	// SHA256 is the file.
	SHA256 string
	// URL is what the machine was given; its last two parts are the token and the
	// file's name.
	URL string
	// Words are put into the file as it is read, which keeps its size; nil for none.
	Words interface {
		On(file io.ReaderAt, size int64) (io.ReadSeeker, error)
	}
}

// Reads is what a machine has read.
type Reads struct {
	// Bytes may be more than the file has: machines read parts of it again.
	Bytes    int64     `json:"bytes"`
	Requests int       `json:"requests"`
	From     string    `json:"from,omitempty"` // the address of the last request
	Last     time.Time `json:"last,omitzero"`
}

// Totals count what a server has answered since it began.
type Totals struct {
	Bytes, Answered, Refused int64
}

// Server serves files of a store, each at the path that one installation was
// given and only while that is granted. To anything else it says that nothing is
// there.
type Server struct {
	store *Store
	log   *slog.Logger

	mu     sync.Mutex
	byNode map[string]*granted
	// byToken has the same by the digest of their token, so that finding one takes
	// as long for a good guess as for a bad one.
	byToken map[[sha256.Size]byte]*granted
	totals  Totals
}

type granted struct {
	Grant
	token [sha256.Size]byte
	path  string // of the URL, as it is asked for
	since time.Time
	reads Reads
}

func newServer(s *Store, log *slog.Logger) *Server {
	return &Server{store: s, log: log, byNode: map[string]*granted{}, byToken: map[[sha256.Size]byte]*granted{}}
}

// NewPath is the end of a URL at which nobody else finds a file: a random token,
// and the file's name with its extension, which some firmware goes by.
func NewPath(name string) string { return rand.Text() + "/" + fileName(name) }

// split takes the end of a URL apart. A query would be a part of the name, which
// no name has.
func split(of string) (token [sha256.Size]byte, end string, ok bool) {
	dir, name := path.Split(of)
	text := path.Base(dir)
	if len(text) < 26 || name == "" || !strings.HasSuffix(of, "/"+text+"/"+name) {
		return token, "", false
	}
	return sha256.Sum256([]byte(text)), "/" + text + "/" + name, true
}

// Grant gives a node its file, in the place of what it was given before.
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

// Revoke takes back what a node was given.
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

// Reads says what a node has read of what it was given; false if it was given
// nothing.
func (s *Server) Reads(node string) (Reads, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.byNode[node]
	if g == nil {
		return Reads{}, false
	}
	return g.reads, true
}

// Totals are what was answered so far.
func (s *Server) Totals() Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.totals
}

// ServeHTTP answers GET and HEAD of what is granted, whole or one range of it.
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
		tag += "-" + hex.EncodeToString(g.token[:8]) // its content is that of this grant alone
	}
	h := w.Header()
	h.Set("Content-Type", contentType(g.path))
	h.Set("ETag", strconv.Quote(tag))
	h.Set("Cache-Control", "no-store")
	if !oneRange.MatchString(r.Header.Get("Range")) {
		r.Header.Del("Range") // a server may answer any other with the whole file (RFC 9110, section 14.2)
	}
	c := &counter{ResponseWriter: w}
	s.first(g, r)
	http.ServeContent(c, r, "", info.Added, content)
	s.mu.Lock()
	defer s.mu.Unlock()
	g.reads.Bytes += c.n
	s.totals.Bytes += c.n
}

// oneRange is a range from a byte, up to one or the end, or of the last bytes.
var oneRange = regexp.MustCompile(`^bytes=([0-9]+-[0-9]*|-0*[1-9][0-9]*)$`)

// first counts a request before it is answered, and logs the first one of an address.
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

// find is the grant that a request is for, nil for none. The path must be the
// granted one to the letter.
func (s *Server) find(r *http.Request) *granted {
	asked := r.URL.EscapedPath()
	token, _, ok := split(asked)
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead || r.URL.RawQuery != "" || r.URL.ForceQuery {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// A proxy may leave the path of --artifact-url before it, or take it off.
	if g := s.byToken[token]; g != nil && (asked == g.path || strings.HasSuffix(g.URL, asked) && strings.HasSuffix(asked, g.path)) {
		return g
	}
	return nil
}

// nothing says that nothing is there, and ends the connection: whoever guesses
// opens one for each guess.
func nothing(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	w.WriteHeader(http.StatusNotFound)
}

// contentType is that by which UEFI firmware tells how to boot a file (UEFI 2.10,
// section 24.7; EDK2 knows these names). BMCs do not look at it.
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

// counter counts what is written, and leaves it to the kernel to copy files.
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
