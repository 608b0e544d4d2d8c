package artifact

import (
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Limits on clients. Installations read for an hour, so only a reader without
// progress is disconnected.
const (
	maxConnections = 2048
	maxOfAddress   = 128
	maxHeader      = 8 << 10 // bytes
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	// writeTimeout is how long a reader may take for chunk bytes.
	writeTimeout = time.Minute
	chunk        = 256 << 10
)

// limits are what clients may take.
type limits struct {
	all, each     int           // connections in total and per address
	header, write time.Duration // times for a request's header, and for a chunk of the answer
}

var usualLimits = limits{all: maxConnections, each: maxOfAddress, header: headerTimeout, write: writeTimeout}

// copyLimits are for the other daemons of a site, of which there are few.
var copyLimits = limits{all: 64, each: 16, header: headerTimeout, write: writeTimeout}

// ForDaemons returns a server and a listener that bound what other daemons may take, and what those may that are
// none.
func ForDaemons(h http.Handler, l net.Listener) (*http.Server, net.Listener) {
	return httpServer(h, copyLimits), bound(l, copyLimits)
}

// bounded is a listener that closes excess connections at once.
type bounded struct {
	net.Listener
	limits

	mu   sync.Mutex
	open map[netip.Addr]int
	sum  int
}

func bound(l net.Listener, m limits) *bounded {
	return &bounded{Listener: l, limits: m, open: map[netip.Addr]int{}}
}

func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := addressOf(c)
		if b.enter(from) {
			return &progressing{Conn: c, within: b.write, leave: sync.OnceFunc(func() { b.exit(from) })}, nil
		}
		if t, ok := c.(*net.TCPConn); ok {
			t.SetLinger(0)
		}
		c.Close()
	}
}

func addressOf(c net.Conn) netip.Addr {
	a, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	at := a.Addr().Unmap().WithZone("")
	if at.Is6() { // a host may have a whole /64
		if p, err := at.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return at
}

func (b *bounded) enter(from netip.Addr) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sum >= b.all || b.open[from] >= b.each {
		return false
	}
	b.sum++
	b.open[from]++
	return true
}

func (b *bounded) exit(from netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sum--
	if b.open[from]--; b.open[from] == 0 {
		delete(b.open, from)
	}
}

// progressing is a connection whose writes must make progress: each chunk has
// its own deadline.
type progressing struct {
	net.Conn
	within time.Duration
	leave  func()
}

func (c *progressing) Close() error {
	c.leave()
	return c.Conn.Close()
}

func (c *progressing) Write(p []byte) (n int, err error) {
	for n < len(p) || n == 0 {
		if err := c.SetWriteDeadline(time.Now().Add(c.within)); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(p[n:min(len(p), n+chunk)])
		n += m
		if err != nil || n == len(p) {
			return n, err
		}
	}
	return n, nil
}

// ReadFrom lets the kernel copy a file, one chunk at a time.
func (c *progressing) ReadFrom(r io.Reader) (n int64, err error) {
	whole, ok := r.(*io.LimitedReader) // as package net/http passes it
	if !ok {
		whole = &io.LimitedReader{R: r, N: math.MaxInt64}
	}
	for whole.N > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(c.within)); err != nil {
			return n, err
		}
		// The kernel copies only from a file inside a single LimitedReader.
		next := min(chunk, whole.N)
		m, err := io.Copy(c.Conn, &io.LimitedReader{R: whole.R, N: next})
		n += m
		whole.N -= m
		if err != nil || m < next {
			return n, err
		}
	}
	return n, nil
}

// httpServer returns a server for limited connections.
func httpServer(h http.Handler, m limits) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: m.header, ReadTimeout: m.header, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		// Firmware uses HTTP/1.1; nothing needs the larger attack surface of HTTP/2.
		TLSNextProto:                 map[string]func(*http.Server, *tls.Conn, http.Handler){},
		DisableGeneralOptionsHandler: true,
	}
}

// Towards returns this host's address for reaching another host. It sends no packet.
func Towards(host string) (string, error) {
	a, err := towards(host)
	return a.WithZone("").String(), err
}

// towards returns this host's address for reaching another host. It sends no
// packet.
func towards(host string) (netip.Addr, error) {
	c, err := net.Dial("udp", net.JoinHostPort(host, "9"))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the address towards %s: %w", host, err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}
