package libvirt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// server is an image server that does what it should not.
type server struct {
	*httptest.Server
	content []byte
	cut     int  // bytes after which each answer breaks off; 0 for never
	quiet   bool // it goes quiet instead
	noRange bool
	status  int
	claim   int // the length that it claims, if any
	etag    string
	asked   []string // the ranges
}

func serve(t *testing.T, content []byte) *server {
	s := &server{content: content, etag: `"one"`}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r.Header.Get("Range"))
	if s.status != 0 {
		w.WriteHeader(s.status)
		return
	}
	rest, from := s.content, 0
	w.Header().Set("ETag", s.etag)
	if rg := r.Header.Get("Range"); rg != "" && !s.noRange && r.Header.Get("If-Range") == s.etag {
		from, _ = strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(rg, "bytes="), "-"))
		rest = s.content[from:]
		w.Header().Set("Content-Range", "bytes "+strconv.Itoa(from)+"-"+strconv.Itoa(len(s.content)-1)+"/"+strconv.Itoa(len(s.content)))
	}
	w.Header().Set("Content-Length", strconv.Itoa(max(len(rest), s.claim)))
	if from > 0 {
		w.WriteHeader(http.StatusPartialContent)
	}
	if s.cut > 0 && s.cut < len(rest) {
		w.Write(rest[:s.cut])
		w.(http.Flusher).Flush()
		if s.quiet {
			<-r.Context().Done()
		}
		panic(http.ErrAbortHandler)
	}
	w.Write(rest)
}

func (s *server) download() *download {
	return &download{client: s.Client(), url: s.URL + "/image?token=s3cret", quiet: 300 * time.Millisecond}
}

// next takes one try and says what came.
func next(t *testing.T, d *download) ([]byte, error) {
	t.Helper()
	b, err := d.open(t.Context())
	if err != nil {
		return nil, err
	}
	defer b.stop()
	got, err := io.ReadAll(b)
	d.offset += int64(len(got))
	return got, err
}

var digits = bytes.Repeat([]byte("0123456789abcdef"), 1<<16)

func TestDownloadGoesOn(t *testing.T) {
	s := serve(t, digits)
	s.cut = 300000
	d := s.download()
	first, err := next(t, d)
	if !errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), "broke off in the middle of "+s.URL+"/image") || strings.Contains(err.Error(), "s3cret") {
		t.Fatalf("got %v", err)
	}
	s.cut = 0
	rest, err := next(t, d)
	if err != nil || !bytes.Equal(append(first, rest...), digits) {
		t.Errorf("got %d and %d bytes, %v", len(first), len(rest), err)
	}
	if want := "bytes=" + strconv.Itoa(len(first)) + "-"; s.asked[1] != want || len(first) == 0 {
		t.Errorf("asked for %q, want %q", s.asked[1], want)
	}
}

func TestDownloadStartsOver(t *testing.T) {
	for name, change := range map[string]func(*server){
		"no ranges":     func(s *server) { s.noRange = true },
		"another image": func(s *server) { s.etag = `"two"` },
		"no version":    func(s *server) {},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, digits)
			s.cut = 300000
			if name == "no version" {
				s.etag = ""
			}
			d := s.download()
			if _, err := next(t, d); err == nil {
				t.Fatal("it was not cut")
			}
			s.cut = 0
			change(s)
			if got, err := next(t, d); err != nil || !bytes.Equal(got, digits) {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
		})
	}
}

func TestDownloadFaults(t *testing.T) {
	for name, c := range map[string]struct {
		with  func(*server)
		class error
		says  string
	}{
		"quiet":   {func(s *server) { s.cut, s.quiet = 1000, true }, driver.ErrUnreachable, "sent no byte of http://127.0.0.1"},
		"down":    {func(s *server) { s.status = 503 }, driver.ErrUnreachable, "answers 503 Service Unavailable"},
		"missing": {func(s *server) { s.status = 404 }, driver.ErrRefused, "answers 404 Not Found"},
		"empty":   {func(s *server) { s.content = nil }, driver.ErrRefused, "does not say how large"},
		"gone":    {func(s *server) { s.Close() }, driver.ErrUnreachable, "cannot be fetched"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, digits)
			c.with(s)
			_, err := next(t, s.download())
			if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestDownloadURL(t *testing.T) {
	for _, u := range []string{"", "file:///etc/passwd", "ftp://h/x", "http:", "\x00"} {
		d := &download{client: http.DefaultClient, url: u, quiet: time.Second}
		if _, err := d.open(t.Context()); !errors.Is(err, driver.ErrRefused) {
			t.Errorf("%q: got %v", u, err)
		}
	}
}

// qcow is the header of an image.
func qcow(with func([]byte)) []byte {
	h := make([]byte, headerSize)
	copy(h, qcowMagic)
	binary.BigEndian.PutUint32(h[4:], 3)
	binary.BigEndian.PutUint64(h[qcowSize:], 1<<30)
	if with != nil {
		with(h)
	}
	return h
}

func TestCheckImage(t *testing.T) {
	set := func(at int, v uint64) []byte { return qcow(func(h []byte) { binary.BigEndian.PutUint64(h[at:], v) }) }
	for name, c := range map[string]struct {
		format string
		header []byte
		says   string
	}{
		"good":             {"qcow2", qcow(nil), ""},
		"compressed":       {"qcow2", set(qcowIncompatible, qcowCompression), ""},
		"raw":              {"raw", make([]byte, headerSize), ""},
		"iso":              {"iso", make([]byte, headerSize), "cannot be put on the disk"},
		"none":             {"", make([]byte, headerSize), "cannot be put on the disk"},
		"raw in name only": {"raw", qcow(nil), "the design says raw"},
		"not qcow2":        {"qcow2", make([]byte, headerSize), "not a qcow2"},
		"short":            {"qcow2", qcow(nil)[:100], "not a qcow2"},
		"backing file":     {"qcow2", set(qcowBackingFile, 4096), "backing file"},
		"external data":    {"qcow2", set(qcowIncompatible, qcowExternalData), "in another file"},
		"corrupt":          {"qcow2", set(qcowIncompatible, qcowCorrupt), "damaged"},
		"unknown feature":  {"qcow2", set(qcowIncompatible, 1<<40), "not known here"},
		"no size":          {"qcow2", set(qcowSize, 0), "0 bytes"},
		"version 4":        {"qcow2", qcow(func(h []byte) { h[7] = 4 }), "version 4"},
		"encrypted":        {"qcow2", qcow(func(h []byte) { h[qcowEncryption+3] = 2 }), "encrypted"},
	} {
		err := checkImage(c.format, c.header)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
}

func FuzzCheckImage(f *testing.F) {
	f.Add("qcow2", qcow(nil))
	f.Add("raw", []byte{})
	f.Fuzz(func(t *testing.T, format string, header []byte) {
		if err := checkImage(format, header); err != nil && !errors.Is(err, driver.ErrRefused) {
			t.Error(err)
		}
	})
}
