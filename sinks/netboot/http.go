package netboot

import (
	"context"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"path"
	"sync"
	"time"
)

// httpPort is where machines read boot files by HTTP.
const httpPort = 9482

// These are the bounds on HTTP clients.
const (
	maxConnections = 1024
	headerTimeout  = 10 * time.Second
	chunkTimeout   = time.Minute // for one chunk
	chunk          = 1 << 20
)

// files serves boot files by HTTP: HEAD for the size, then GET for everything or for ranges.
type files struct {
	arms *arms
	log  *slog.Logger
}

func (h files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "files are read only", http.StatusMethodNotAllowed)
		return
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		http.Error(w, "no address", http.StatusBadRequest)
		return
	}
	client := from.Addr().Unmap()
	it, f, err := h.arms.open(r.URL.Path, client, time.Now())
	if err != nil {
		http.Error(w, errNoFile.Error(), http.StatusNotFound)
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		http.Error(w, "the file cannot be read", http.StatusInternalServerError)
		return
	}
	kind := "application/octet-stream"
	if path.Ext(r.URL.Path) == ".efi" {
		kind = "application/efi" // UEFI 2.10, section 24.7.3.4
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	c := &counted{ResponseWriter: w, control: http.NewResponseController(w)}
	http.ServeContent(c, r, "", info.ModTime(), f)
	if r.Method == http.MethodGet && c.sent > 0 {
		it.sentTo(client, path.Base(r.URL.Path), c.sent, info.Size(), time.Now())
		h.log.Info("boot file was read", "node", it.Node, "file", f.Name(), "by", client.String(), "over", "http", "bytes", c.sent, "size", info.Size())
	}
}

// counted counts the bytes sent, and drops a reader that makes no progress.
type counted struct {
	http.ResponseWriter
	control *http.ResponseController
	sent    int64
	failed  bool // the answer is not a file
}

func (c *counted) WriteHeader(code int) {
	c.failed = code >= http.StatusMultipleChoices
	c.ResponseWriter.WriteHeader(code)
}

func (c *counted) Write(b []byte) (int, error) {
	c.control.SetWriteDeadline(time.Now().Add(chunkTimeout))
	n, err := c.ResponseWriter.Write(b)
	if !c.failed {
		c.sent += int64(n)
	}
	return n, err
}

// ReadFrom lets the kernel copy the file, one chunk at a time.
func (c *counted) ReadFrom(r io.Reader) (total int64, err error) {
	whole, ok := r.(*io.LimitedReader) // the type that package net/http passes
	if !ok {
		whole = &io.LimitedReader{R: r, N: math.MaxInt64}
	}
	for whole.N > 0 {
		c.control.SetWriteDeadline(time.Now().Add(chunkTimeout))
		// The kernel copies only from a file inside a single LimitedReader.
		n, err := io.CopyN(c.ResponseWriter, whole.R, min(chunk, whole.N))
		total += n
		whole.N -= n
		c.sent += n
		switch {
		case err == io.EOF:
			return total, nil
		case err != nil:
			return total, err
		}
	}
	return total, nil
}

// serveHTTP serves until the context ends.
func serveHTTP(ctx context.Context, l net.Listener, a *arms, log *slog.Logger) {
	srv := &http.Server{Handler: files{a, log}, ReadHeaderTimeout: headerTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	srv.Serve(&limited{Listener: l, places: make(chan struct{}, maxConnections)})
}

// limited is a listener that bounds the number of open connections. With netutil.LimitListener, the program would
// copy what the kernel can.
type limited struct {
	net.Listener
	places chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	l.places <- struct{}{} // closing the server closes its connections, which frees places
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &placed{Conn: c, leave: sync.OnceFunc(func() { <-l.places })}, nil
}

// placed is a connection that holds a place until it is closed.
type placed struct {
	net.Conn
	leave func()
}

func (c *placed) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// ReadFrom lets the kernel copy a file.
func (c *placed) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }
