package netboot

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path"
	"time"

	"golang.org/x/net/netutil"
)

// HTTPPort is where machines read what they boot by HTTP.
const HTTPPort = 9482

// Bounds on clients of HTTP.
const (
	maxConnections = 1024
	headerTimeout  = 10 * time.Second
	chunkTimeout   = time.Minute // for chunk bytes
	chunk          = 1 << 20
)

// files answers what machines read by HTTP: a HEAD for the size, then all of it or
// ranges.
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

// counted counts what is sent, and ends a reader that does not get on.
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

// ReadFrom lets the system copy the file.
func (c *counted) ReadFrom(r io.Reader) (total int64, err error) {
	for {
		c.control.SetWriteDeadline(time.Now().Add(chunkTimeout))
		n, err := io.CopyN(c.ResponseWriter, r, chunk)
		total += n
		c.sent += n
		switch {
		case err == io.EOF:
			return total, nil
		case err != nil:
			return total, err
		}
	}
}

// serveHTTP answers until the context ends.
func serveHTTP(ctx context.Context, l net.Listener, a *arms, log *slog.Logger) {
	srv := &http.Server{Handler: files{a, log}, ReadHeaderTimeout: headerTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	srv.Serve(netutil.LimitListener(l, maxConnections))
}
