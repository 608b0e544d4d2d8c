package netboot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Operations and error codes of TFTP (RFC 1350, section 5; RFC 2347).
const (
	opRead, opWrite, opData, opAck, opError, opOptions = 1, 2, 3, 4, 5, 6

	errUndefined, errNotFound, errAccess, errOperation = 0, 1, 2, 4
)

// These are the bounds of TFTP. All transfers use one port, so that they pass firewalls that do not know TFTP, and
// reach controllers that accept answers from no other port.
const (
	tftpPort       = 69
	maxAsk         = 512 // bytes of a request (RFC 2347)
	maxTransfers   = 256
	maxOfClient    = 4
	maxBlock       = 1468 // a frame's 1500 bytes without the headers of IP, UDP and TFTP
	maxBlock6      = 1448 // the same in IPv6
	maxWindow      = 64
	tftpTimeout    = time.Second
	tftpTries      = 6
	longestTFTP    = 30 * time.Minute
	leastBlock     = 8 // RFC 2348
	standardBlock  = 512
	longestTimeout = 10 // seconds
)

// ask is a read request.
type ask struct {
	file    string
	block   int
	window  int
	timeout time.Duration
	// options are those that the answer names, in the order of the request. The answer fills in a size.
	options []setting
}

type setting struct{ name, value string }

var errAsk = errors.New("not a request that can be answered")

// askOf reads a request for blocks of at most some bytes (RFC 1350; options of RFC 2347, 2348, 2349 and 7440). It ignores unknown options, as RFC
// 2347 says.
func askOf(b []byte, most int) (ask, error) {
	a := ask{block: standardBlock, window: 1, timeout: tftpTimeout}
	if len(b) < 4 || len(b) > maxAsk || binary.BigEndian.Uint16(b) != opRead || b[len(b)-1] != 0 {
		return a, errAsk
	}
	words := bytes.Split(b[2:len(b)-1], []byte{0})
	if len(words) < 2 || len(words[0]) == 0 || !strings.EqualFold(string(words[1]), "octet") {
		return a, fmt.Errorf("%w: files are read in mode octet", errAsk)
	}
	a.file = string(words[0])
	for rest := words[2:]; len(rest) >= 2; rest = rest[2:] {
		name := strings.ToLower(string(rest[0]))
		n, err := strconv.Atoi(string(rest[1]))
		if err != nil || n < 0 {
			continue
		}
		switch {
		case name == "blksize" && n >= leastBlock:
			a.block = min(n, most)
			a.options = append(a.options, setting{name, strconv.Itoa(a.block)})
		case name == "windowsize" && n >= 1:
			a.window = min(n, maxWindow)
			a.options = append(a.options, setting{name, strconv.Itoa(a.window)})
		case name == "timeout" && n >= 1 && n <= longestTimeout:
			a.timeout = time.Duration(n) * time.Second
			a.options = append(a.options, setting{name, strconv.Itoa(n)})
		case name == "tsize":
			a.options = append(a.options, setting{name, ""})
		}
		if len(a.options) > 8 {
			return a, errAsk
		}
	}
	return a, nil
}

// acceptance lists the accepted options, and the size of the file.
func (a ask) acceptance(size int64) []byte {
	b := []byte{0, opOptions}
	for _, o := range a.options {
		if o.name == "tsize" {
			o.value = strconv.FormatInt(size, 10)
		}
		b = append(append(append(append(b, o.name...), 0), o.value...), 0)
	}
	return b
}

// tftp serves files to machines that boot.
type tftp struct {
	conn *net.UDPConn
	arms *arms
	log  *slog.Logger

	asks *rate.Limiter
	mu   sync.Mutex
	// sessions are the transfers by client.
	sessions map[netip.AddrPort]*session
}

// session is a transfer.
type session struct {
	server *tftp
	client netip.AddrPort
	in     chan []byte
	cancel context.CancelFunc
}

func newTFTP(conn *net.UDPConn, a *arms, log *slog.Logger) *tftp {
	return &tftp{conn: conn, arms: a, log: log, asks: rate.NewLimiter(200, 1000), sessions: map[netip.AddrPort]*session{}}
}

// run answers until the context ends.
func (t *tftp) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { t.conn.Close() })
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	buf := make([]byte, 2048)
	for {
		n, from, err := t.conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			continue // for example, a client's port is closed
		}
		if n < 2 {
			continue
		}
		packet := bytes.Clone(buf[:n])
		switch binary.BigEndian.Uint16(packet) {
		case opAck, opError:
			t.mu.Lock()
			s := t.sessions[from]
			t.mu.Unlock()
			if s != nil {
				select {
				case s.in <- packet:
				default: // it has more than it can read
				}
			}
		case opRead:
			if t.asks.Allow() {
				t.begin(ctx, &running, from, packet)
			}
		case opWrite:
			if t.asks.Allow() {
				t.refuse(from, errAccess, "files are read only")
			}
		}
	}
}

func (t *tftp) refuse(client netip.AddrPort, code byte, text string) {
	t.conn.WriteToUDPAddrPort(append(append([]byte{0, opError, 0, code}, text...), 0), client)
}

// begin starts a transfer. If the client already had one, that ends.
func (t *tftp) begin(ctx context.Context, running *sync.WaitGroup, client netip.AddrPort, packet []byte) {
	most := maxBlock
	if client.Addr().Unmap().Is6() {
		most = maxBlock6
	}
	a, err := askOf(packet, most)
	if err != nil {
		t.refuse(client, errOperation, err.Error())
		return
	}
	it, f, err := t.arms.open(a.file, client.Addr().Unmap(), time.Now())
	if err != nil {
		t.refuse(client, errNotFound, errNoFile.Error())
		return
	}
	ctx, cancel := context.WithTimeout(ctx, longestTFTP)
	s := &session{server: t, client: client, in: make(chan []byte, maxWindow), cancel: cancel}
	if !t.enter(s) {
		cancel()
		f.Close()
		t.refuse(client, errUndefined, "too many transfers: try again")
		return
	}
	running.Go(func() {
		defer f.Close()
		defer t.leave(s)
		err := s.send(ctx, a, f)
		if err == nil {
			it.done(client.Addr().Unmap(), time.Now())
			t.log.Info("boot file was read", "node", it.Node, "file", f.Name(), "by", client.Addr().String(), "over", "tftp")
		} else {
			t.log.Debug("boot file was not read", "node", it.Node, "by", client.Addr().String(), "over", "tftp", "err", err)
		}
	})
}

func (t *tftp) enter(s *session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before := t.sessions[s.client]; before != nil {
		before.cancel()
		delete(t.sessions, s.client)
	}
	same := 0
	for c := range t.sessions {
		if c.Addr() == s.client.Addr() {
			same++
		}
	}
	if len(t.sessions) >= maxTransfers || same >= maxOfClient {
		return false
	}
	t.sessions[s.client] = s
	return true
}

func (t *tftp) leave(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.cancel()
	if t.sessions[s.client] == s {
		delete(t.sessions, s.client)
	}
}

var errSilent = errors.New("the client does not answer")

// send sends a file in windows of blocks (RFC 7440; one block without the option).
func (s *session) send(ctx context.Context, a ask, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		s.server.refuse(s.client, errUndefined, "the file cannot be read")
		return err
	}
	size := info.Size()
	if len(a.options) > 0 {
		if err := s.exchange(ctx, a, 0, 1, func() error { return s.write(a.acceptance(size)) }, new(int64)); err != nil {
			return err
		}
	}
	last := size/int64(a.block) + 1 // a short block ends the file
	buf := make([]byte, 4+a.block)
	for acked := int64(0); acked < last; {
		until := min(acked+int64(a.window), last)
		window := func() error {
			for block := acked + 1; block <= until; block++ {
				n, err := f.ReadAt(buf[4:], (block-1)*int64(a.block))
				if err != nil && err != io.EOF {
					s.server.refuse(s.client, errUndefined, "the file cannot be read")
					return err
				}
				binary.BigEndian.PutUint16(buf, opData)
				binary.BigEndian.PutUint16(buf[2:], uint16(block))
				if err := s.write(buf[:4+n]); err != nil {
					return err
				}
			}
			return nil
		}
		var got int64
		if err := s.exchange(ctx, a, acked+1, until-acked, window, &got); err != nil {
			return err
		}
		acked += got
	}
	return nil
}

func (s *session) write(b []byte) error {
	_, err := s.server.conn.WriteToUDPAddrPort(b, s.client)
	return err
}

// exchange sends some blocks until the client has at least the first, and returns how many it has. It ignores
// repeated acknowledgements (RFC 1123, section 4.2.3.1).
func (s *session) exchange(ctx context.Context, a ask, first, blocks int64, send func() error, got *int64) error {
	for range tftpTries {
		if err := send(); err != nil {
			return err
		}
		t := time.NewTimer(a.timeout)
		for waits := true; waits; {
			select {
			case <-ctx.Done():
				t.Stop()
				return context.Cause(ctx)
			case <-t.C:
				waits = false
			case packet := <-s.in:
				if binary.BigEndian.Uint16(packet) == opError {
					t.Stop()
					return errors.New("the client ended the transfer") // for example, after asking for the size
				}
				if len(packet) < 4 {
					continue
				}
				have := int64(binary.BigEndian.Uint16(packet[2:]) - uint16(first) + 1) // of these blocks
				if have >= 1 && have <= blocks {
					*got = have
					t.Stop()
					return nil
				}
			}
		}
	}
	return errSilent
}
