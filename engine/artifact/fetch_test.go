package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// origin is an image server that answers one request after another as its script
// says; the last answer is repeated.
type origin struct {
	*httptest.Server
	mu     sync.Mutex
	script []http.HandlerFunc
	asked  []string // the Range of each request
}

func serveScript(t *testing.T, script ...http.HandlerFunc) *origin {
	o := &origin{script: script}
	o.Server = httptest.NewServer(o)
	t.Cleanup(o.Close)
	return o
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.asked = append(o.asked, r.Header.Get("Range"))
	h := o.script[min(len(o.asked), len(o.script))-1]
	o.mu.Unlock()
	h(w, r)
}

// whole serves content as a good server does.
func whole(content []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", strconv.Quote(digestOf(content)[:8]))
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(content)))
	}
}

// cut breaks off after some bytes of what a handler answers.
func cut(after int, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h(&cutter{ResponseWriter: w, left: after}, r)
		panic(http.ErrAbortHandler)
	}
}

type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.left -= n
	c.ResponseWriter.Write(p[:n])
	if n < len(p) {
		http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

// says answers with a status, headers and a body.
func says(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// raw answers with bytes as they are, and closes the connection.
func raw(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		io.WriteString(c, answer)
		c.Close()
	}
}

func newTestSource(t *testing.T, o SourceOptions) *source {
	t.Helper()
	src, err := newSource(o)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func fetchFrom(t *testing.T, s *Store, at, digest string) (Info, error) {
	t.Helper()
	return s.fetch(t.Context(), newTestSource(t, SourceOptions{Quiet: 5 * time.Second}), File{SHA256: digest, URL: at, For: "image test"}, nil)
}

// However a server cuts, the file is whole in the end, and what came is not
// fetched twice where the server can go on.
func TestFetch(t *testing.T) {
	want := image(300_000)
	half := cut(150_000, whole(want))
	other := image(300_001)[1:] // as long
	weak := func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Range")
		w.Header().Set("ETag", `W/"x"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(want)))
	}
	for _, c := range []struct {
		name   string
		script []http.HandlerFunc
		ranges []string // of all requests
	}{
		{"at once", []http.HandlerFunc{whole(want)}, []string{""}},
		{"cut", []http.HandlerFunc{half, whole(want)}, []string{"", "bytes=150000-"}},
		{"cut twice", []http.HandlerFunc{half, cut(50_000, whole(want)), whole(want)}, []string{"", "bytes=150000-", "bytes=200000-"}},
		{"cut before the header", []http.HandlerFunc{cut(0, func(http.ResponseWriter, *http.Request) {}), whole(want)}, []string{"", ""}},
		{"no length", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			w.Write(want[:100])
			http.NewResponseController(w).Flush()
			w.Write(want[100:])
		}}, []string{""}},
		{"ranges are ignored", []http.HandlerFunc{half, func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Range")
			whole(want)(w, r)
		}}, []string{"", "bytes=150000-"}},
		{"a version that is no proof", []http.HandlerFunc{cut(150_000, weak), weak}, []string{"", ""}},
		{"another file meanwhile", []http.HandlerFunc{cut(150_000, whole(other)), whole(want)}, []string{"", "bytes=150000-"}},
		{"another file meanwhile, with the same version", []http.HandlerFunc{
			cut(150_000, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("ETag", strconv.Quote(digestOf(want)[:8]))
				http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(other)))
			}), whole(want), whole(want)}, []string{"", "bytes=150000-", ""}},
		{"a shorter file meanwhile", []http.HandlerFunc{half, says(416, ""), whole(want)}, []string{"", "bytes=150000-", ""}},
		{"another part than asked for", []http.HandlerFunc{half, says(206, "x", "Content-Range", "bytes 0-0/300000"), whole(want)}, []string{"", "bytes=150000-", ""}},
		{"a part of another size", []http.HandlerFunc{half, says(206, "x", "Content-Range", "bytes 150000-150000/150001"), whole(want)}, []string{"", "bytes=150000-", ""}},
		{"a part without its place", []http.HandlerFunc{half, says(206, "x"), whole(want)}, []string{"", "bytes=150000-", ""}},
		{"down for a while", []http.HandlerFunc{says(503, ""), whole(want)}, []string{"", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := serveScript(t, c.script...)
			dir := t.TempDir()
			for tries := 0; ; tries++ {
				s, err := Open(dir, Options{}) // each try is another process's
				if err != nil {
					t.Fatal(err)
				}
				i, err := fetchFrom(t, s, o.URL+"/x.iso?token=secret", digestOf(want))
				if err == nil {
					if content(t, s, digestOf(want)) != string(want) || i.Size != int64(len(want)) || i.Source != o.URL+"/x.iso" || len(left(t, s)) > 0 {
						t.Errorf("fetched %+v, and left %v", i, left(t, s))
					}
					s.Close()
					break
				}
				if strings.Contains(err.Error(), "secret") {
					t.Errorf("the query is told: %v", err)
				}
				if len(s.List()) > 0 || s.claimed != 0 {
					t.Errorf("after a failure there is %+v, and %d bytes are claimed", s.List(), s.claimed)
				}
				s.Close()
				if tries == 5 || errors.Is(err, ErrMismatch) {
					t.Fatalf("try %d: %v", tries, err)
				}
			}
			if !slices.Equal(o.asked, c.ranges) {
				t.Errorf("it asked for %q, want %q", o.asked, c.ranges)
			}
		})
	}
}

// A file that cannot be had is said so, with nothing left, and without filling
// anything first.
func TestFetchRefuses(t *testing.T) {
	want := image(1000)
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "secret"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := serveScript(t, whole(want))
	redirect := func(to string) http.HandlerFunc { return says(http.StatusFound, "", "Location", to) }
	var loop atomic.Pointer[origin]
	loop.Store(serveScript(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, loop.Load().URL+r.URL.Path+"x", http.StatusFound)
	}))
	for _, c := range []struct {
		name  string
		h     http.HandlerFunc
		is    error
		words []string
	}{
		{"another digest", whole(image(999)), ErrMismatch, []string{digestOf(image(999)), digestOf(want), "999 B", "sha256sum"}},
		{"not there", says(404, "nothing"), ErrRefused, []string{"404 Not Found"}},
		{"not for us", says(403, "no"), ErrRefused, []string{"403"}},
		{"100 GB", says(200, "x", "Content-Length", "100000000000"), ErrNoRoom, []string{"100 GB", "--artifact-space"}},
		{"9 EB", says(200, "x", "Content-Length", "9223372036854775807"), ErrNoRoom, nil},
		{"without an end", func(w http.ResponseWriter, r *http.Request) {
			for b := make([]byte, 1<<16); ; {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
		}, ErrNoRoom, nil},
		{"a file of this host", redirect("file://" + folder + "/secret"), ErrRefused, []string{"only http and https"}},
		{"another protocol", redirect("ftp://h/x"), ErrRefused, nil},
		{"no host", redirect("http:///x"), ErrRefused, nil},
		{"an account", redirect("http://u:p@127.0.0.1/x"), ErrRefused, []string{"account"}},
		{"a loop", redirect(loop.Load().URL), ErrRefused, []string{"more than 5 times"}},
		{"encoded", says(200, "x", "Content-Encoding", "gzip"), ErrRefused, []string{"gzip"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t, t.TempDir(), Options{Space: 10 << 20})
			_, err := fetchFrom(t, s, serveScript(t, c.h).URL+"/x.iso", digestOf(want))
			if !errors.Is(err, c.is) {
				t.Fatalf("got %v, want %v", err, c.is)
			}
			for _, w := range c.words {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "u:p") {
				t.Errorf("the account is told: %v", err)
			}
			if len(s.List())+len(left(t, s)) > 0 || s.claimed != 0 {
				t.Errorf("there is %v, left %v, %d bytes claimed", s.List(), left(t, s), s.claimed)
			}
		})
	}
	t.Run("from https to http", func(t *testing.T) {
		safe := httptest.NewTLSServer(redirect(plain.URL))
		t.Cleanup(safe.Close)
		s := openStore(t, t.TempDir(), Options{})
		src := newTestSource(t, SourceOptions{Roots: safe.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs})
		_, err := s.fetch(t.Context(), src, File{SHA256: digestOf(want), URL: safe.URL}, nil)
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "from https to http") || len(plain.asked) > 0 {
			t.Errorf("got %v, and the http server was asked %d times", err, len(plain.asked))
		}
		if _, err := fetchFrom(t, s, safe.URL, digestOf(want)); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("a server of an unknown authority: %v", err)
		}
	})
}

func TestRedirectsAreFollowed(t *testing.T) {
	want := image(1000)
	end := serveScript(t, cut(500, whole(want)), whole(want))
	o := serveScript(t, says(http.StatusFound, "", "Location", end.URL+"/y.iso"))
	s := openStore(t, t.TempDir(), Options{})
	if _, err := fetchFrom(t, s, o.URL+"/x.iso", digestOf(want)); err == nil {
		t.Fatal("a cut is no error")
	}
	if i, err := fetchFrom(t, s, o.URL+"/x.iso", digestOf(want)); err != nil || i.Name != "x.iso" {
		t.Errorf("%+v, %v", i, err)
	}
	if want := []string{"", "bytes=500-"}; !slices.Equal(end.asked, want) {
		t.Errorf("it asked for %q, want %q", end.asked, want)
	}
}

// A server that stays silent, or nearly, ends the try and no more than that.
func TestStallsEnd(t *testing.T) {
	want := image(300_000)
	says := map[string]string{"before the header": "timeout awaiting response headers", "in the middle": "the server sent less than", "drop by drop": "the server sent less than"}
	for name, h := range map[string]http.HandlerFunc{
		"before the header": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"in the middle": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(want)))
			w.Write(want[:100_000])
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"drop by drop": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(want)))
			for i := range want {
				select {
				case <-r.Context().Done():
					return
				case <-time.After(10 * time.Millisecond):
				}
				w.Write(want[i : i+1])
				if http.NewResponseController(w).Flush() != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := serveScript(t, h)
			s := openStore(t, t.TempDir(), Options{})
			src := newTestSource(t, SourceOptions{Quiet: 300 * time.Millisecond})
			_, err := s.fetch(t.Context(), src, File{SHA256: digestOf(want), URL: o.URL}, nil)
			if err == nil || errors.Is(err, ErrRefused) || errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), says[name]) {
				t.Errorf("got %v, want something to try again that says %q", err, says[name])
			}
			if len(s.List()) > 0 {
				t.Errorf("there is %v", s.List())
			}
		})
	}
	t.Run("nobody accepts", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		s := openStore(t, t.TempDir(), Options{})
		if _, err := fetchFrom(t, s, "http://"+l.Addr().String(), digestOf(want)); err == nil || !strings.Contains(err.Error(), "refused") || errors.Is(err, ErrRefused) {
			t.Errorf("got %v", err)
		}
	})
}

// Answers that are no HTTP, or lie about their length, are errors to try again.
func TestLyingServers(t *testing.T) {
	want := image(1000)
	for name, answer := range map[string]string{
		"no HTTP":              "hello\r\n\r\n",
		"nothing":              "",
		"longer than it says":  "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + string(want),
		"shorter than it says": "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + string(want),
		"endless header":       "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 200_000),
		"no length at all":     "HTTP/1.0 200 OK\r\n\r\n" + string(want[:500]),
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, t.TempDir(), Options{})
			if i, err := fetchFrom(t, s, serveScript(t, raw(answer)).URL, digestOf(want)); err == nil {
				t.Errorf("got %+v", i)
			}
			if len(s.List()) > 0 {
				t.Errorf("there is %v", s.List())
			}
		})
	}
}

// What an earlier process has left is gone on with only if it is of the same file
// at the same place, and is what it was.
func TestPartsOfAnotherProcess(t *testing.T) {
	want := image(100_000)
	digest := digestOf(want)
	good := whole(want)
	bad := slices.Clone(want[:50_000])
	clear(bad[40_000:]) // as a power cut leaves it
	for _, c := range []struct {
		name   string
		part   []byte
		note   string
		tries  int
		ranges []string
	}{
		{"the same", want[:50_000], `{"url":"URL","version":"\"ETAG\"","size":100000}`, 1, []string{"bytes=50000-"}},
		{"torn", bad, `{"url":"URL","version":"\"ETAG\"","size":100000}`, 2, []string{"bytes=50000-", ""}},
		{"of another URL", want[:50_000], `{"url":"http://h/x","version":"\"ETAG\"","size":100000}`, 1, []string{""}},
		{"of an older version", want[:50_000], `{"url":"URL","version":"\"old\"","size":100000}`, 1, []string{"bytes=50000-"}},
		{"without a version", want[:50_000], `{"url":"URL","size":100000}`, 1, []string{""}},
		{"without a note", want[:50_000], "", 1, []string{""}},
		{"with a broken note", want[:50_000], "{", 1, []string{""}},
		{"longer than the file", append(slices.Clone(want), 1), `{"url":"URL","version":"\"ETAG\"","size":100000}`, 1, []string{""}},
		{"empty", nil, `{"url":"URL","version":"\"ETAG\"","size":100000}`, 1, []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := serveScript(t, good)
			s := openStore(t, t.TempDir(), Options{})
			part := s.path("partial", digest)
			note := strings.NewReplacer("URL", o.URL, "ETAG", digest[:8]).Replace(c.note)
			err := os.WriteFile(part, c.part, 0o600)
			if c.note != "" {
				err = errors.Join(err, os.WriteFile(part+".json", []byte(note), 0o600))
			}
			if err != nil {
				t.Fatal(err)
			}
			for n := range c.tries {
				_, err = fetchFrom(t, s, o.URL, digest)
				if (err == nil) != (n == c.tries-1) || errors.Is(err, ErrMismatch) {
					t.Fatalf("try %d: %v", n, err)
				}
			}
			if !slices.Equal(o.asked, c.ranges) || len(left(t, s)) > 0 {
				t.Errorf("it asked for %q, want %q; left %v", o.asked, c.ranges, left(t, s))
			}
		})
	}
}

func TestFilesOfThisHost(t *testing.T) {
	folder := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside.iso")
	want := image(1000)
	err := errors.Join(
		os.WriteFile(filepath.Join(folder, "x.iso"), want, 0o600),
		os.WriteFile(outside, want, 0o600),
		os.Symlink(outside, filepath.Join(folder, "link.iso")),
		syscall.Mkfifo(filepath.Join(folder, "fifo.iso"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	open := newTestSource(t, SourceOptions{Files: folder})
	for _, c := range []struct {
		name, url string
		src       *source
		ok        bool
	}{
		{"a file", "file://" + folder + "/x.iso", open, true},
		{"a way round to it", "file://" + folder + "/a/../x.iso", open, true},
		{"outside", "file://" + outside, open, false},
		{"up", "file://" + folder + "/../" + filepath.Base(filepath.Dir(outside)) + "/outside.iso", open, false},
		{"a link to outside", "file://" + folder + "/link.iso", open, false},
		{"a FIFO", "file://" + folder + "/fifo.iso", open, false},
		{"a folder", "file://" + folder, open, false},
		{"a host", "file://host" + folder + "/x.iso", open, false},
		{"not open", "file://" + folder + "/x.iso", newTestSource(t, SourceOptions{}), false},
	} {
		s := openStore(t, t.TempDir(), Options{})
		_, err := s.fetch(t.Context(), c.src, File{SHA256: digestOf(want), URL: c.url}, nil)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Of several that want one file one fetches it.
func TestOneFetchOfADigest(t *testing.T) {
	want := image(1 << 20)
	o := serveScript(t, whole(want))
	s := openStore(t, t.TempDir(), Options{})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if i, err := fetchFrom(t, s, o.URL, digestOf(want)); err != nil || i.Size != 1<<20 {
				t.Errorf("%+v, %v", i, err)
			}
		})
	}
	group.Wait()
	if len(o.asked) != 1 {
		t.Errorf("it was asked for %d times", len(o.asked))
	}
}

func TestFetchIsCancelled(t *testing.T) {
	want := image(300_000)
	ctx, cancel := context.WithCancel(t.Context())
	o := serveScript(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"x"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(want)))
		w.Write(want[:100_000])
		http.NewResponseController(w).Flush()
		cancel()
		<-r.Context().Done()
	})
	s := openStore(t, t.TempDir(), Options{})
	_, err := s.fetch(ctx, newTestSource(t, SourceOptions{}), File{SHA256: digestOf(want), URL: o.URL}, nil)
	if !errors.Is(err, context.Canceled) || len(s.List()) > 0 {
		t.Errorf("got %v, and there is %v", err, s.List())
	}
}

// A file that somebody adds by its URL alone is told by its digest.
func TestFetchWithoutADigest(t *testing.T) {
	want := image(1000)
	o := serveScript(t, whole(want))
	s := openStore(t, t.TempDir(), Options{})
	for range 2 {
		i, err := fetchFrom(t, s, o.URL+"/x.iso", "")
		if err != nil || i.SHA256 != digestOf(want) || len(left(t, s)) > 0 {
			t.Errorf("%+v, %v, left %v", i, err, left(t, s))
		}
	}
}

func TestFullDiskWhileFetching(t *testing.T) {
	want := image(300_000)
	s := openStore(t, t.TempDir(), Options{disk: &fullDisk{room: 100_000, claim: 1 << 40}})
	_, err := fetchFrom(t, s, serveScript(t, whole(want)).URL, digestOf(want))
	if !errors.Is(err, ErrNoRoom) || len(left(t, s))+len(s.List()) > 0 || s.claimed != 0 {
		t.Errorf("got %v; there is %v, left %v, %d bytes claimed", err, s.List(), left(t, s), s.claimed)
	}
}
