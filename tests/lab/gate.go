package lab

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// listen opens a port for all loopback addresses at once: the socket is bound
// to the loopback interface, so nothing can come from outside. In a network of its own
// it is open to all of that.
func (f *Fleet) listen(port int) (net.Listener, int, error) {
	lc := net.ListenConfig{}
	if !f.config.OwnNetwork {
		lc.Control = toLoopback
	}
	l, err := lc.Listen(f.ctx, "tcp4", fmt.Sprintf("0.0.0.0:%d", port))
	if err != nil {
		return nil, 0, err
	}
	return l, l.Addr().(*net.TCPAddr).Port, nil
}

// toLoopback binds a socket to the loopback interface.
func toLoopback(_, _ string, c syscall.RawConn) error {
	var err error
	if cerr := c.Control(func(fd uintptr) { err = unix.SetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "lo") }); cerr != nil {
		return cerr
	}
	if err != nil {
		return fmt.Errorf("bind to the loopback interface: %w", err)
	}
	return nil
}

// gate is the listener behind which the machines' BMCs are, or their systems:
// it drops connections to addresses that are no machine's and to machines
// that take none.
type gate struct {
	net.Listener
	machines map[string]*Machine
	lines    func(*Machine) *lines // of the machine, nil when it takes none
}

func (g gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if m := at(g.machines, c.LocalAddr()); m != nil {
			if held := g.lines(m).hold(c); held != nil {
				return held, nil
			}
		}
		c.Close()
	}
}

// redirecting is a listener for TLS that tells who speaks plain HTTP where
// HTTPS is: at the same port (DSP0266, HTTP redirect).
type redirecting struct{ net.Listener }

func (l redirecting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &greeted{Conn: c}, nil
}

// greeted is a connection that may turn out to speak plain HTTP.
type greeted struct {
	net.Conn
	begun bool
}

// Read reads what is TLS; a request over plain HTTP it answers, as the end of
// the connection.
func (c *greeted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.begun || n == 0 || err != nil {
		return n, err
	}
	c.begun = true
	if p[0] == tlsHandshake {
		return n, nil
	}
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(p[:n])))
	if err != nil {
		return n, nil
	}
	fmt.Fprintf(c.Conn, "HTTP/1.1 308 Permanent Redirect\r\nLocation: https://%s%s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		or(r.Host, c.LocalAddr().String()), r.URL.EscapedPath())
	c.SetReadDeadline(time.Now().Add(time.Second)) // for a body that is on its way
	io.Copy(io.Discard, io.LimitReader(c.Conn, maxRequest))
	return 0, io.EOF
}

// tlsHandshake is how a TLS connection begins (RFC 8446 5.1).
const tlsHandshake = 22

// at finds whose address a connection came to.
func at(machines map[string]*Machine, a net.Addr) *Machine {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return nil
	}
	return machines[host]
}

// lines are the open connections to one side of a machine.
type lines struct {
	machine *Machine // whose they are
	mu      sync.Mutex
	open    map[*line]struct{}
	ended   bool
}

// line is a connection that is forgotten when it is closed.
type line struct {
	net.Conn
	of *lines
}

// hold keeps a connection among the lines; nil lines, and those that have
// ended, hold none.
func (l *lines) hold(c net.Conn) net.Conn {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil
	}
	if l.open == nil {
		l.open = map[*line]struct{}{}
	}
	held := &line{c, l}
	l.open[held] = struct{}{}
	return held
}

// Close closes the connection and forgets it.
func (c *line) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// held are the connections that are open now, but some.
func (l *lines) held(but ...*line) (all []*line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		if !slices.Contains(but, c) {
			all = append(all, c)
		}
	}
	return all
}

// cut breaks all connections; those that are made later live.
func (l *lines) cut() {
	for _, c := range l.held() {
		c.Conn.Close()
	}
}

// lineOf is the line that a connection is made over, nil for none.
func lineOf(c net.Conn) *line {
	for {
		switch of := c.(type) {
		case *line:
			return of
		case *greeted:
			c = of.Conn
		case interface{ NetConn() net.Conn }:
			c = of.NetConn()
		default:
			return nil
		}
	}
}

// lineKey is where a request's context has its line.
type lineKey struct{}

// remember has the requests of a connection know their line.
func remember(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, lineKey{}, lineOf(c))
}

// of is the line of a request, nil where it came over none.
func of(r *http.Request) *line {
	l, _ := r.Context().Value(lineKey{}).(*line)
	return l
}

// end breaks all connections, and takes no more.
func (l *lines) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.cut()
}
