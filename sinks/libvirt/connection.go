package libvirt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// connection is one connection to a libvirt daemon. It allows concurrent calls.
type connection struct {
	rpc      *golibvirt.Libvirt
	wire     *wire
	patience time.Duration
	calls    *atomic.Int64 // number of calls made
}

// connectTimeout bounds connecting, until libvirt has opened its driver.
const connectTimeout = 20 * time.Second

// connect makes a connection.
func (h *hypervisor) connect(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := h.dial(ctx)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: conn, gone: make(chan struct{})}
	c := &connection{rpc: golibvirt.NewWithDialer(w), wire: w, patience: h.opts.Answer, calls: new(atomic.Int64)}
	err = tell(ctx, c, func(rpc *golibvirt.Libvirt) error {
		return rpc.ConnectToURI(golibvirt.ConnectURI(h.address.driver))
	})
	if err != nil {
		c.drop()
		return nil, err
	}
	return c, nil
}

// alive reports whether the connection has not been lost.
func (c *connection) alive() bool {
	select {
	case <-c.wire.gone:
		return false
	default:
		return true
	}
}

// drop closes the connection. Pending calls get no answer.
func (c *connection) drop() { c.wire.Close() }

// close disconnects properly and drops the connection.
func (c *connection) close() {
	leave := time.AfterFunc(time.Second, c.drop)
	defer leave.Stop()
	_ = c.rpc.Disconnect() // the daemon notices in any case
	c.drop()
}

// within is the connection with another time limit for answers.
func (c *connection) within(patience time.Duration) *connection {
	other := *c
	other.patience = patience
	return &other
}

// ask makes one call. If the context ends, it returns at once and discards the answer. If an answer is late, it
// closes the connection, also for its other users.
func ask[T any](ctx context.Context, c *connection, call func(*golibvirt.Libvirt) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	if err := driver.MayWrite(ctx); err != nil { // a read of a step is not worth telling apart
		return none, err
	}
	c.calls.Add(1)
	answered := make(chan answer, 1)
	go func() {
		silence := time.AfterFunc(c.patience, c.drop)
		defer silence.Stop()
		value, err := call(c.rpc)
		answered <- answer{value, err}
	}()
	select {
	case a := <-answered:
		return a.value, classify(a.err)
	case <-ctx.Done():
		return none, fmt.Errorf("%w: %w", driver.ErrUnreachable, ctx.Err())
	}
}

// tell makes a call without a result.
func tell(ctx context.Context, c *connection, call func(*golibvirt.Libvirt) error) error {
	_, err := ask(ctx, c, func(rpc *golibvirt.Libvirt) (struct{}, error) { return struct{}{}, call(rpc) })
	return err
}

// wire is the connection for go-libvirt. It reports when it is gone. It ends at a packet that no daemon sends,
// because go-libvirt would allocate any claimed length.
type wire struct {
	net.Conn
	gone   chan struct{}
	once   sync.Once
	left   int    // bytes left of the current packet
	length []byte // of the next packet, as far as it was read
}

// These are the bounds of a packet (VIR_NET_MESSAGE_MAX, and only the header).
const (
	maxPacket = 32<<20 + 4
	minPacket = 28
)

var errPacket = errors.New("its answer is not a libvirt packet")

// Dial passes the connection to go-libvirt.
func (w *wire) Dial() (net.Conn, error) { return w, nil }

// Read reads at most to the end of a packet or of a length.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.read(p)
	if err != nil {
		w.Close()
		return n, io.EOF // not a network error, because go-libvirt retries some of them forever
	}
	return n, nil
}

func (w *wire) read(p []byte) (int, error) {
	if w.left > 0 {
		n, err := w.Conn.Read(p[:min(len(p), w.left)])
		w.left -= n
		return n, err
	}
	n, err := w.Conn.Read(p[:min(len(p), 4-len(w.length))])
	w.length = append(w.length, p[:n]...)
	if len(w.length) < 4 {
		return n, err
	}
	size := binary.BigEndian.Uint32(w.length)
	w.left, w.length = int(size)-4, w.length[:0]
	if size < minPacket || size > maxPacket {
		return 0, errPacket
	}
	return n, err
}

// Close ends the connection, once.
func (w *wire) Close() error {
	w.once.Do(func() {
		close(w.gone)
		_ = w.Conn.Close() // nothing is left to lose
	})
	return nil
}
