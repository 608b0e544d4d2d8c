package artifact

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// shelf is a folder whose files are fetched by file URLs, in virtual time.
type shelf struct {
	*Fetcher
	t       *testing.T
	folder  string
	changes atomic.Int64
}

func inBubble(t *testing.T, f func(*testing.T, *shelf)) {
	folder, dir := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		src, err := newSource(SourceOptions{Files: folder})
		if err != nil {
			t.Fatal(err)
		}
		defer src.files.Close()
		h := &shelf{t: t, folder: folder}
		h.Fetcher = newFetcher(s, src, slog.New(slog.DiscardHandler), func() { h.changes.Add(1) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			h.run(ctx)
		}()
		f(t, h)
		cancel()
		<-done
	})
}

func (h *shelf) put(name string, content []byte) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.folder, name), content, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *shelf) file(name string, content []byte) File {
	return File{SHA256: digestOf(content), URL: "file://" + h.folder + "/" + name, For: "image " + name}
}

// after lets virtual time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestWhatIsWantedComes(t *testing.T) {
	inBubble(t, func(t *testing.T, h *shelf) {
		a, b := image(1000), image(1001)
		h.put("a", a)
		if s := h.State(digestOf(a)); s != (State{}) {
			t.Errorf("before it is wanted: %+v", s)
		}
		h.Want([]File{h.file("a", a), h.file("b", b), {SHA256: "no digest", URL: "file:///x"}})
		synctest.Wait()
		if s := h.State(digestOf(a)); !s.Ready || s.Size != 1000 {
			t.Errorf("what is there: %+v", s)
		}
		s := h.State(digestOf(b))
		if s.Ready || s.Fetching || !s.Person || !strings.Contains(s.Why, "cannot be read") || time.Until(s.Retry) != firstPersonWait {
			t.Errorf("what is not there: %+v", s)
		}
		if h.changes.Load() != 2 || len(h.States()) != 2 {
			t.Errorf("%d changes of %v", h.changes.Load(), h.States())
		}
		h.put("b", b)
		after(firstPersonWait - time.Second)
		if s := h.State(digestOf(b)); s.Ready {
			t.Error("it was fetched again too soon")
		}
		after(2 * time.Second)
		if s := h.State(digestOf(b)); !s.Ready {
			t.Errorf("after its time: %+v", s)
		}
	})
}

// A file with another digest is fetched again now and then, when a person asks,
// and when the design has another URL for it.
func TestAMismatchIsNotFetchedAgainAndAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, h *shelf) {
		want := image(1000)
		h.put("a", image(999))
		h.Want([]File{h.file("a", want)})
		synctest.Wait()
		if s := h.State(digestOf(want)); !strings.Contains(s.Why, digestOf(image(999))) || !s.Person {
			t.Fatalf("it says %+v", s)
		}
		after(24 * time.Hour)
		if n := h.changes.Load(); n < 20 || n > 30 {
			t.Errorf("in a day it was tried %d times, want about one an hour", n)
		}
		before := h.changes.Load()
		h.Want([]File{h.file("a", want)}) // nothing is new
		synctest.Wait()
		if h.changes.Load() != before {
			t.Error("it was tried again though nothing has changed")
		}
		h.Retry()
		synctest.Wait()
		if h.changes.Load() != before+1 {
			t.Errorf("asked to, it was tried %d times", h.changes.Load()-before)
		}
		h.put("b", want)
		h.Want([]File{h.file("b", want)})
		synctest.Wait()
		if !h.State(digestOf(want)).Ready {
			t.Errorf("from elsewhere: %+v", h.State(digestOf(want)))
		}
	})
}

// A file that is at two URLs is tried at each in turn.
func TestAnotherURLIsTried(t *testing.T) {
	inBubble(t, func(t *testing.T, h *shelf) {
		want := image(1000)
		h.put("b", want)
		h.Want([]File{h.file("a", want), h.file("b", want)})
		after(firstPersonWait + time.Second)
		if !h.State(digestOf(want)).Ready {
			t.Errorf("%+v", h.State(digestOf(want)))
		}
	})
}

func TestWaitsOfAWantedFile(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *shelf) {
		w := &wanted{}
		wait := func(err error, have int64) time.Duration {
			w.state.Have = have
			w.ended(err)
			return time.Until(w.state.Retry)
		}
		cut := fmt.Errorf("cut")
		for n, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second} {
			if got := wait(cut, 0); got != want {
				t.Errorf("after %d failures it waits %s, want %s", n+1, got, want)
			}
		}
		for range 100 {
			wait(cut, 0)
		}
		if got := wait(cut, 0); got != longestWait {
			t.Errorf("at last it waits %s", got)
		}
		if got := wait(cut, 2<<20); got != firstWait || w.state.Person {
			t.Errorf("after progress it waits %s", got)
		}
		for range 100 {
			wait(ErrMismatch, 0)
		}
		if got := wait(ErrMismatch, 0); got != longestPersonWait || !w.state.Person {
			t.Errorf("for a person it waits %s", got)
		}
	})
}

// Of many files a few are fetched at once, in the order in which they were asked
// for; what is not wanted any more ends.
func TestAFewAtOnce(t *testing.T) {
	var mu sync.Mutex
	var order []string
	started, cancelled := make(chan string, 10), make(chan string, 10)
	o := serveScript(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		order = append(order, r.URL.Path)
		mu.Unlock()
		started <- r.URL.Path
		<-r.Context().Done()
		cancelled <- r.URL.Path
	})
	s := openStore(t, t.TempDir(), Options{})
	f := newFetcher(s, newTestSource(t, SourceOptions{}), slog.New(slog.DiscardHandler), func() {})
	var files []File
	for n := range 6 {
		files = append(files, File{SHA256: digestOf([]byte{byte(n)}), URL: fmt.Sprintf("%s/%d", o.URL, n)})
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.run(ctx)
	}()
	f.Want(files)
	for range maxFetches {
		<-started
	}
	if s := f.State(files[5].SHA256); s.Fetching || s.Ready {
		t.Errorf("the last one: %+v", s)
	}
	f.Want(files[2:])
	if got := []string{<-cancelled, <-cancelled}; !slices.Contains(got, "/0") || !slices.Contains(got, "/1") {
		t.Errorf("given up were %v", got)
	}
	if got := []string{<-started, <-started}; !slices.Contains(got, "/3") || !slices.Contains(got, "/4") {
		t.Errorf("next came %v", got)
	}
	if s := f.State(files[0].SHA256); s != (State{}) {
		t.Errorf("what is not wanted any more: %+v", s)
	}
	cancel()
	<-done
	if len(order) != 5 {
		t.Errorf("asked for were %v", order)
	}
}
