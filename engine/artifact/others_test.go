package artifact

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// acquaintance knows one other daemon.
type acquaintance struct {
	url    string // empty if it does not run
	silent []string
}

func (a acquaintance) With(f File) []File {
	if a.url == "" {
		return nil
	}
	f.URL, f.Copy = a.url+"/"+f.SHA256, Copy{From: "host two", Size: f.Copy.Size}
	return []File{f}
}

func (a acquaintance) Silent(string) []string { return a.silent }

// A wanted file is fetched from another daemon first. While it is, people read from which, and how far it is.
func TestAnotherDaemonIsAskedFirst(t *testing.T) {
	t.Parallel()
	content := image(500_000)
	reached, more := make(chan struct{}), make(chan struct{})
	two := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "500000")
		w.Write(content[:200_000])
		w.(http.Flusher).Flush()
		close(reached)
		<-more
		w.Write(content[200_000:])
	}))
	defer two.Close()
	s, err := OpenService(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.CopyFrom(two.Client(), acquaintance{url: two.URL})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	digest := digestOf(content)
	s.Want([]File{{SHA256: digest, URL: "http://127.0.0.1:1/debian12.iso", For: "image debian12"}})
	<-reached
	for {
		if state := s.State(digest); state.Have > 0 {
			if !state.Fetching || state.From != "the daemon host two" || state.Have > 200_000 || state.Size != 500_000 {
				t.Errorf("it says %+v", state)
			}
			break
		}
	}
	close(more)
	for range s.Changes() {
		if s.State(digest).Ready {
			break
		}
	}
	if i, _ := s.Get(digest); i.Name != "debian12.iso" || i.Source != "http://127.0.0.1:1/debian12.iso" {
		t.Errorf("stored as %+v", i)
	}
	cancel()
	<-done
}

// If the other daemon fails, the file comes from the URL of the design. If that fails too, people read who else has it.
func TestWhereElseAFileIs(t *testing.T) {
	t.Parallel()
	content := image(1000)
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked = append(asked, r.URL.Path); r.URL.Path == "/x.iso" {
			w.Write(content)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	s, err := OpenService(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f := File{SHA256: digestOf(content), URL: server.URL + "/gone.iso", For: "image x"}
	s.CopyFrom(server.Client(), acquaintance{silent: []string{"host three"}})
	w := &wanted{files: []File{f}}
	if _, err := s.bring(t.Context(), w, f); err == nil || !strings.HasSuffix(err.Error(), "; a whole copy is at host three, which does not answer: start the daemon there") {
		t.Errorf("it says %v", err)
	}
	s.CopyFrom(server.Client(), acquaintance{url: server.URL})
	f.URL = server.URL + "/x.iso"
	if _, err := s.bring(t.Context(), w, f); err != nil {
		t.Error(err)
	}
	if !slices.Equal(asked, []string{"/gone.iso", "/" + f.SHA256, "/x.iso"}) {
		t.Errorf("asked for %q", asked)
	}
}

// A daemon that sends too slowly holds nothing up: the file comes from the design's URL.
func TestASlowDaemon(t *testing.T) {
	t.Parallel()
	content := image(1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/x.iso" {
			w.Write(content)
			return
		}
		w.Header().Set("Content-Length", "1000")
		w.Write(content[:10])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	s, err := OpenService(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.CopyFrom(server.Client(), acquaintance{url: server.URL})
	s.Fetcher.others.src.grace = 100 * time.Millisecond
	f := File{SHA256: digestOf(content), URL: server.URL + "/x.iso", For: "image x"}
	if _, err := s.Copy(t.Context(), acquaintance{url: server.URL}.With(f)[0], nil); err == nil || err.Error() != "the daemon host two sends less than 1 MB a second" {
		t.Errorf("it says %v", err)
	}
	if _, err := s.bring(t.Context(), &wanted{files: []File{f}}, f); err != nil {
		t.Error(err)
	}
}

// What one daemon has sent is not lost if it breaks off, whoever is asked next: the file may be nowhere else, and the
// line may never hold for all of it.
func TestWhatArrivedIsKeptForTheNextDaemon(t *testing.T) {
	t.Parallel()
	content := image(300_000)
	digest := digestOf(content)
	daemon := func(give int) (url string, asked func() []string) {
		var ranges []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ranges = append(ranges, r.Header.Get("Range"))
			w.Header().Set("ETag", strconv.Quote(digest))
			if give < len(content) {
				w.Header().Set("Content-Length", strconv.Itoa(len(content)))
				w.Write(content[:give])
				return
			}
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		}))
		t.Cleanup(server.Close)
		return server.URL, func() []string { return ranges }
	}
	first, _ := daemon(200_000)
	second, asked := daemon(len(content))
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	for i, url := range []string{gone.URL + "/x.iso", "http://127.0.0.1:1/x.iso", "file:///x.iso", "oci://x"} {
		s, err := OpenService(Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		f := File{SHA256: digest, URL: url, For: "image x"}
		s.CopyFrom(http.DefaultClient, acquaintance{url: first})
		w := &wanted{files: []File{f}}
		if _, err := s.bring(t.Context(), w, f); err == nil {
			t.Error("half a file is a file")
		}
		s.CopyFrom(http.DefaultClient, acquaintance{url: second})
		if _, err := s.bring(t.Context(), w, f); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(s.path("partial")); err != nil || len(left) > 0 {
			t.Errorf("left: %v %v", left, err)
		}
		if got := asked(); got[i] != "bytes=200000-" {
			t.Errorf("after %s failed too, the second daemon was asked for %q", url, got[i])
		}
	}
}
