package netboot

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// watched is a listener whose connections count the bytes of files that the system is left to
// copy.
type watched struct {
	net.Listener
	copied *atomic.Int64
}

func (l watched) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{c.(*net.TCPConn), l.copied}, nil
}

type watchedConn struct {
	*net.TCPConn
	copied *atomic.Int64
}

func (c *watchedConn) ReadFrom(r io.Reader) (int64, error) {
	part, ok := r.(*io.LimitedReader) // package net copies by the system from a file in one of these
	file := false
	if ok {
		_, file = part.R.(*os.File)
	}
	n, err := c.TCPConn.ReadFrom(r)
	if file {
		c.copied.Add(n)
	}
	return n, err
}

// startHTTP serves a file of some bytes on loopback.
func startHTTP(t *testing.T, size int) (url string, content []byte, copied *atomic.Int64) {
	t.Helper()
	content = bytes.Repeat([]byte("0123456789abcdef"), size/16)
	file := filepath.Join(t.TempDir(), "boot")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	all := newArms()
	if err := all.arm(Boot{Node: "n1", MACs: []string{macN1}, Files: map[Firmware]string{UEFIAMD64: file}}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	copied = &atomic.Int64{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		serveHTTP(ctx, watched{l, copied}, all, slog.New(slog.DiscardHandler))
		close(done)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return "http://" + l.Addr().String() + "/" + all.byNode["n1"].path(UEFIAMD64), content, copied
}

// The system copies what machines read by HTTP, the whole file and ranges of it, but for the
// first bytes, which package net/http looks at.
func TestFilesAreCopiedByTheSystem(t *testing.T) {
	const size = 3<<20 + 4096
	url, content, copied := startHTTP(t, size)
	transport := &http.Transport{MaxConnsPerHost: 1}
	defer transport.CloseIdleConnections()
	ask := func(method, ranges string) []byte {
		t.Helper()
		r, err := http.NewRequest(method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if ranges != "" {
			r.Header.Set("Range", ranges)
		}
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	for ranges, want := range map[string][]byte{"": content, "bytes=1000-2000999": content[1000:2001000]} {
		before := copied.Load()
		got := ask(http.MethodGet, ranges)
		ask(http.MethodHead, "") // is answered when the request before it has ended
		if n := copied.Load() - before; !bytes.Equal(got, want) || n < int64(len(want))-1024 {
			t.Errorf("%q: of %d bytes %d came, and the system copied %d", ranges, len(want), len(got), n)
		}
	}
}

// A connection has a place until it is closed, and no more are accepted than there are places.
func TestConnectionsHavePlaces(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	few := &limited{Listener: l, places: make(chan struct{}, 2)}
	accept := func() net.Conn {
		c, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			t.Error(err)
			return nil
		}
		t.Cleanup(func() { c.Close() })
		is, err := few.Accept()
		if err != nil {
			t.Error(err)
		}
		return is
	}
	first, second := accept(), accept()
	if len(few.places) != cap(few.places) {
		t.Errorf("two connections have %d places", len(few.places))
	}
	third := make(chan net.Conn)
	go func() { third <- accept() }()
	first.Close()
	(<-third).Close()
	second.Close()
	second.Close()
	if len(few.places) != 0 {
		t.Errorf("%d places are taken, and no connection is open", len(few.places))
	}
	l.Close()
	if _, err := few.Accept(); err == nil || len(few.places) != 0 {
		t.Errorf("a closed listener: %v, and %d places are taken", err, len(few.places))
	}
}
