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

// connection is one connection to a libvirt daemon. Several may ask at once.
type connection struct {
	rpc      *golibvirt.Libvirt
	wire     *wire
	patience time.Duration
	calls    *atomic.Int64 // how many were made
}

// connectTimeout bounds how long a connection may take until libvirt has opened
// its driver.
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

// alive says whether the connection was not lost yet.
func (c *connection) alive() bool {
	select {
	case <-c.wire.gone:
		return false
	default:
		return true
	}
}

// drop cuts the connection off: whoever waits for an answer has none.
func (c *connection) drop() { c.wire.Close() }

// close takes leave and drops the connection.
func (c *connection) close() {
	leave := time.AfterFunc(time.Second, c.drop)
	defer leave.Stop()
	_ = c.rpc.Disconnect() // the daemon notices in any case
	c.drop()
}

// within is the connection with another patience for its answers.
func (c *connection) within(patience time.Duration) *connection {
	other := *c
	other.patience = patience
	return &other
}

// ask makes one call. The context's end returns at once and leaves the answer
// to nobody; an answer that does not come in time ends the connection, for
// everybody on it.
func ask[T any](ctx context.Context, c *connection, call func(*golibvirt.Libvirt) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
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

// tell makes a call that answers nothing.
func tell(ctx context.Context, c *connection, call func(*golibvirt.Libvirt) error) error {
	_, err := ask(ctx, c, func(rpc *golibvirt.Libvirt) (struct{}, error) { return struct{}{}, call(rpc) })
	return err
}

// wire is the connection as go-libvirt has it. It knows when it is gone, and
// ends at a packet that no daemon sends: go-libvirt would make room for
// whatever length is claimed.
type wire struct {
	net.Conn
	gone   chan struct{}
	once   sync.Once
	left   int    // bytes of the packet that are to come
	length []byte // of the next one, as far as it was read
}

// The bounds of a packet (VIR_NET_MESSAGE_MAX, and the header alone).
const (
	maxPacket = 32<<20 + 4
	minPacket = 28
)

var errPacket = errors.New("its answer is not a libvirt packet")

// Dial gives the connection to go-libvirt, once.
func (w *wire) Dial() (net.Conn, error) { return w, nil }

// Read reads no further than to the end of a packet or of a length.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.read(p)
	if err != nil {
		w.Close()
		return n, io.EOF // no error of the net's own, at some of which go-libvirt tries again for ever
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
		_ = w.Conn.Close() // there is nothing left to lose
	})
	return nil
}
