package lab

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
)

// Lines is what becomes of the connections to two BMCs whose addresses are
// swapped.
type Lines string

const (
	// LinesStay leaves each connection with the BMC to which it was made.
	LinesStay Lines = "stay"
	// LinesClose has the BMCs close their connections, each after the answer
	// that it is at.
	LinesClose Lines = "close"
	// LinesCut breaks the connections; the request that comes at that moment is
	// not carried out.
	LinesCut Lines = "cut"
	// LinesLost breaks the connections; the request that comes at that moment
	// is carried out, and its answer is lost.
	LinesLost Lines = "lost"
)

// AllLines are what can become of connections.
var AllLines = []Lines{LinesStay, LinesClose, LinesCut, LinesLost}

// Swap exchanges the addresses of two BMCs, as a new lease does, or somebody
// who plugs them in the wrong way round. Connections break.
func (f *Fleet) Swap(a, b string) { f.exchange(a, b, LinesCut, nil) }

// SwapBefore exchanges the addresses of two BMCs before the nth request from
// now on, the first being 1, counted over all BMCs. Of several such exchanges
// each counts from its own call.
//
// With LinesStay and LinesClose that is when the request before it has been
// received; where there is none, at once. With LinesCut and LinesLost it is
// when the nth itself has been received, which is the last over its connection.
func (f *Fleet) SwapBefore(n int, a, b string, l Lines) {
	if n <= 1 && (l == LinesStay || l == LinesClose) {
		f.exchange(a, b, l, nil)
		return
	}
	if l == LinesStay || l == LinesClose {
		n--
	}
	f.swaps.mu.Lock()
	defer f.swaps.mu.Unlock()
	f.swaps.due = append(f.swaps.due, swapDue{f.swaps.received + n, a, b, l})
}

// swaps are the exchanges that are still to come.
type swaps struct {
	mu       sync.Mutex
	received int // requests, by all BMCs
	due      []swapDue
}

type swapDue struct {
	at   int
	a, b string
	l    Lines
}

// swap makes the exchanges that are due when a request has been received, and
// gives what is to be done once it has been carried out. A request that is not
// to be carried out it ends.
func (f *Fleet) swap(w http.ResponseWriter, r *http.Request) (carriedOut func()) {
	var lost []swapDue
	for _, s := range f.swaps.next() {
		switch s.l {
		case LinesLost:
			lost = append(lost, s)
			continue
		case LinesClose:
			w.Header().Set("Connection", "close")
		}
		f.exchange(s.a, s.b, s.l, of(r))
		if s.l == LinesCut {
			panic(http.ErrAbortHandler)
		}
	}
	return func() {
		for _, s := range lost {
			f.exchange(s.a, s.b, s.l, nil)
		}
		if len(lost) > 0 {
			panic(http.ErrAbortHandler)
		}
	}
}

// next counts a request, and takes the exchanges that are due with it.
func (s *swaps) next() (due []swapDue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received++
	s.due = slices.DeleteFunc(s.due, func(d swapDue) bool {
		if d.at == s.received {
			due = append(due, d)
		}
		return d.at == s.received
	})
	return due
}

// exchange swaps two addresses. With LinesClose the current line is left to be
// closed after its answer.
func (f *Fleet) exchange(a, b string, l Lines, current *line) {
	f.moves.Lock()
	defer f.moves.Unlock()
	one, other := f.machines[a].head, f.machines[b].head
	at, otherAt := f.bmcs[one.address()], f.bmcs[other.address()]
	at.there.Store(other)
	otherAt.there.Store(one)
	one.move(otherAt.config.BMCAddr)
	other.move(at.config.BMCAddr)
	if l == LinesStay {
		return
	}
	var spared []*line
	if l == LinesClose {
		spared = append(spared, current)
	}
	// Whoever loses a connection makes a new one, which lives.
	open := append(one.bmcSide.held(spared...), other.bmcSide.held(spared...)...)
	for _, c := range open {
		c.Conn.Close()
	}
}

// address is where a machine's BMC is.
func (m *Machine) address() string {
	return locked(m, func() string { return or(m.moved, m.config.BMCAddr) })
}

func (m *Machine) move(to string) {
	locked(m, func() any { m.moved, m.tls = to, nil; return nil })
}

// Share has all BMCs show one certificate, as those do whose certificate is the
// factory's or a wildcard.
func (f *Fleet) Share(c *tls.Certificate) {
	f.shared = c
	for _, m := range f.machines {
		locked(m, func() any { m.tls = nil; return nil })
	}
}

// Within has the BMCs answer connections that are made within the process, and
// gives what makes them: to a BMC's address, with any port. A test in a synctest
// bubble can make no others.
func (f *Fleet) Within() func(ctx context.Context, network, address string) (net.Conn, error) {
	f.within = true
	l := &pipes{calls: make(chan net.Conn), ended: make(chan struct{})}
	f.answer(l)
	return l.dial
}

// pipes is a listener on connections within the process.
type pipes struct {
	calls chan net.Conn
	ended chan struct{}

	mu   sync.Mutex
	over bool
	made []net.Conn
}

// pipe is one end of a connection, at an address.
type pipe struct {
	net.Conn
	at net.Addr
}

func (p pipe) LocalAddr() net.Addr { return p.at }

func (p *pipes) dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	if !p.keep(theirs) {
		return nil, net.ErrClosed
	}
	select {
	case p.calls <- pipe{theirs, &net.TCPAddr{IP: net.ParseIP(host), Port: n}}:
		return ours, nil
	case <-p.ended:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// keep notes a connection, which ends with the listener.
func (p *pipes) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made = append(p.made, c)
	return !p.over
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.calls:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It breaks the connections too: nothing takes what
// is written to a pipe that nobody reads, and a server that ends says goodbye over
// each, with a lock for which its other goroutines wait.
func (p *pipes) Close() error {
	close(p.ended)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	for _, c := range p.made {
		c.Close()
	}
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "within", Net: "pipe"} }

// Certificate is what the machine's BMC shows.
func (m *Machine) Certificate() *tls.Certificate {
	return locked(m, func() *tls.Certificate { return m.certificateLocked() })
}
