package libvirt

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// These are constants for a transfer in libvirt's RPC protocol (https://libvirt.org/kbase/internals/rpc.html).
const (
	rpcProgram = 0x20008086
	rpcVersion = 1

	procOpen       = 1
	procAuthList   = 66
	procAuthPolkit = 70
	procUpload     = 208
	procDownload   = 209

	typeCall   = 0
	typeReply  = 1
	typeStream = 3

	authPolkit = 2

	statusOK       = 0
	statusError    = 1
	statusContinue = 2

	rpcHeader  = 28
	mostPacket = 32 << 20
	// mostPiece is the most that libvirt's own client sends in one packet.
	mostPiece = 262120
)

// quiet and quietRead bound how long the other side of a transfer may move no byte. A short read that libvirt
// forgot should be retried soon.
const (
	quiet     = 30 * time.Second
	quietRead = 10 * time.Second
)

// errSilent reports that the other side moved no byte for too long.
var errSilent = errors.New("the hypervisor moved no byte of a volume")

// transfer moves the content of one volume over its own connection. If it fails, it closes that connection and
// affects no other call. go-libvirt's own streams wait forever once the daemon refuses the data.
type transfer struct {
	conn   net.Conn
	in     *bufio.Reader
	ctx    context.Context
	stop   func() bool
	quiet  time.Duration
	watch  *time.Timer
	silent atomic.Bool // the watch has expired
	serial uint32
}

// packet is one message of the protocol.
type packet struct {
	procedure, kind, status uint32
	payload                 []byte
}

// transfer connects for one transfer, which ends if no byte moves for quiet.
func (h *hypervisor) transfer(ctx context.Context, quiet time.Duration) (*transfer, error) {
	conn, err := h.dial(ctx)
	if err != nil {
		return nil, err
	}
	t := &transfer{conn: conn, in: bufio.NewReader(conn), ctx: ctx, quiet: quiet}
	t.stop = context.AfterFunc(ctx, func() { conn.Close() })
	t.watch = time.AfterFunc(quiet, func() {
		t.silent.Store(true)
		conn.Close()
	})
	if err := t.open(h.address.driver); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *transfer) close() {
	t.stop()
	t.watch.Stop()
	t.conn.Close()
}

// open does the handshake of every client.
func (t *transfer) open(uri string) error {
	answer, err := t.call(procAuthList, nil)
	if err != nil {
		return err
	}
	if ways := uints(answer); len(ways) > 1 && slices.Contains(ways[1:], authPolkit) {
		if _, err := t.call(procAuthPolkit, nil); err != nil {
			return err
		}
	}
	_, err = t.call(procOpen, xdr{}.uint(1).string(uri).uint(0))
	return err
}

// upload writes the reader's bytes to a volume from an offset, and returns how many the daemon confirmed. An error
// of the reader is returned separately, and what came before it is written.
func (t *transfer) upload(v golibvirt.StorageVol, from io.Reader, offset, length int64) (written int64, broken, err error) {
	if _, err := t.call(procUpload, ofVolume(v).long(offset).long(length).uint(0)); err != nil {
		return 0, nil, err
	}
	answer := make(chan error, 1)
	go func() {
		_, err := t.receive(typeStream)
		answer <- err
	}()
	buf := make([]byte, mostPiece)
	for broken == nil {
		var n int
		t.watch.Stop() // the reader has its own watch
		n, broken = io.ReadFull(from, buf)
		t.watch.Reset(t.quiet)
		select {
		case err := <-answer:
			return written, nil, orEnded(err)
		default:
		}
		if n > 0 {
			if err := t.send(packet{procUpload, typeStream, statusContinue, buf[:n]}); err != nil {
				return written, nil, t.told(answer, err)
			}
			written += int64(n)
		}
	}
	if errors.Is(broken, io.EOF) || errors.Is(broken, io.ErrUnexpectedEOF) {
		broken = nil
	}
	if err := t.send(packet{procUpload, typeStream, statusOK, nil}); err != nil {
		return written, broken, t.told(answer, err)
	}
	t.watch.Reset(2 * t.quiet) // data is written before it is confirmed
	return written, broken, <-answer
}

// told prefers the daemon's error to that of the connection that it then closed.
func (t *transfer) told(answer <-chan error, sending error) error {
	t.watch.Reset(time.Second)
	var said golibvirt.Error
	if err := <-answer; errors.As(err, &said) {
		return err
	}
	return sending
}

func orEnded(err error) error {
	if err == nil {
		return fmt.Errorf("the hypervisor ended the transfer by itself: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// download reads at most length bytes of a volume from an offset.
func (t *transfer) download(v golibvirt.StorageVol, offset, length int64) ([]byte, error) {
	if _, err := t.call(procDownload, ofVolume(v).long(offset).long(length).uint(0)); err != nil {
		return nil, err
	}
	var content []byte
	for int64(len(content)) < length { // libvirt does not always mark the end
		p, err := t.receive(typeStream)
		if err != nil {
			return nil, err
		}
		if p.status == statusOK || len(p.payload) == 0 {
			break
		}
		content = append(content, p.payload...)
	}
	if int64(len(content)) < length {
		return nil, fmt.Errorf("read %s: libvirt sent %d of %d bytes: %w", v.Name, len(content), length, io.ErrUnexpectedEOF)
	}
	return content[:length], nil
}

// call sends a request and waits for its answer.
func (t *transfer) call(procedure uint32, args xdr) ([]byte, error) {
	t.serial++
	if err := t.send(packet{procedure, typeCall, statusOK, args}); err != nil {
		return nil, err
	}
	p, err := t.receive(typeReply)
	return p.payload, err
}

// send sends a packet, unless nothing more may be written: a transfer takes longer than a lease lasts.
func (t *transfer) send(p packet) error {
	if err := driver.MayWrite(t.ctx); err != nil {
		t.conn.Close() // so that nobody waits for an answer
		return err
	}
	head := xdr{}.uint(uint32(rpcHeader + len(p.payload))).uint(rpcProgram).uint(rpcVersion).
		uint(p.procedure).uint(p.kind).uint(t.serial).uint(p.status)
	_, err := t.conn.Write(append(head, p.payload...))
	t.watch.Reset(t.quiet)
	return t.why(err)
}

// receive waits for the next packet of a kind that belongs to the last call.
func (t *transfer) receive(kind uint32) (packet, error) {
	for {
		var head [rpcHeader]byte
		if _, err := io.ReadFull(t.in, head[:]); err != nil {
			return packet{}, t.why(err)
		}
		h := uints(head[:])
		size := int(h[0]) - rpcHeader
		if size < 0 || size > mostPacket {
			return packet{}, fmt.Errorf("the hypervisor sent a packet of %d bytes, which libvirt does not do", h[0])
		}
		p := packet{procedure: h[3], kind: h[4], status: h[6], payload: make([]byte, size)}
		if _, err := io.ReadFull(t.in, p.payload); err != nil {
			return packet{}, t.why(err)
		}
		t.watch.Reset(t.quiet)
		switch {
		case h[1] != rpcProgram || h[5] != t.serial:
		case p.status == statusError:
			return p, remoteError(p.payload)
		case p.kind == kind:
			return p, nil
		}
	}
}

// why says what ended a connection.
func (t *transfer) why(err error) error {
	switch {
	case err == nil:
		return nil
	case t.ctx.Err() != nil:
		return t.ctx.Err()
	case t.silent.Load():
		return fmt.Errorf("%w for %s", errSilent, t.quiet)
	}
	return fmt.Errorf("the connection to the hypervisor broke off in the middle of a volume: %w", err)
}

// xdr builds XDR data (RFC 4506).
type xdr []byte

func (x xdr) uint(n uint32) xdr { return binary.BigEndian.AppendUint32(x, n) }
func (x xdr) long(n int64) xdr  { return binary.BigEndian.AppendUint64(x, uint64(n)) }
func (x xdr) string(s string) xdr {
	x = append(x.uint(uint32(len(s))), s...)
	return append(x, make([]byte, -len(s)&3)...)
}

func ofVolume(v golibvirt.StorageVol) xdr { return xdr{}.string(v.Pool).string(v.Name).string(v.Key) }

// uints reads the numbers at the beginning of a payload.
func uints(b []byte) []uint32 {
	var all []uint32
	for ; len(b) >= 4; b = b[4:] {
		all = append(all, binary.BigEndian.Uint32(b))
	}
	return all
}

// remoteError reads an error of libvirt: its code, its domain, and a text that may be missing.
func remoteError(b []byte) error {
	n := uints(b[:min(len(b), 16)])
	if len(n) < 4 || n[2] == 0 || int64(n[3]) > int64(len(b)-16) {
		return golibvirt.Error{Code: uint32(golibvirt.ErrInternalError), Message: "the hypervisor gives no reason"}
	}
	return golibvirt.Error{Code: n[0], Message: string(b[16 : 16+n[3]])}
}
