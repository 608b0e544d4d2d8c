package control

import (
	"net"
	"net/netip"
	"sync"
)

// boundedListener closes connections that are too many, of all addresses or of one. Accept never waits
// for one to end: somebody who holds many open keeps nobody else from trying.
type boundedListener struct {
	net.Listener
	most, mostOfOne int

	mu   sync.Mutex
	all  int
	each map[netip.Prefix]int
}

func bounded(l net.Listener, limits Limits) net.Listener {
	return &boundedListener{Listener: l, most: limits.Connections, mostOfOne: limits.ConnectionsOfOne, each: map[netip.Prefix]int{}}
}

func (b *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, _ := netip.ParseAddrPort(c.RemoteAddr().String())
		network := networkOf(from.Addr())
		if b.enter(network) {
			return &boundedConn{Conn: c, leave: sync.OnceFunc(func() { b.leave(network) })}, nil
		}
		c.Close()
	}
}

func (b *boundedListener) enter(from netip.Prefix) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.most > 0 && b.all >= b.most || b.mostOfOne > 0 && b.each[from] >= b.mostOfOne {
		return false
	}
	b.all++
	b.each[from]++
	return true
}

func (b *boundedListener) leave(from netip.Prefix) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all--
	if b.each[from]--; b.each[from] <= 0 {
		delete(b.each, from)
	}
}

// boundedConn leaves when it is closed.
type boundedConn struct {
	net.Conn
	leave func()
}

func (c *boundedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
