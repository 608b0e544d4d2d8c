package systemd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// These are message constants of the D-Bus specification 1.0 ("Message Protocol").
const (
	callType     = 1
	replyType    = 2
	errorType    = 3
	headLength   = 16
	fieldPath    = 1
	fieldFace    = 2
	fieldMember  = 3
	fieldFault   = 4
	fieldReplies = 5
	fieldTo      = 6
	fieldSig     = 8
)

// maxCalls bounds the calls that wait for answers. A bus lets a connection have 128 (dbus-daemon(1),
// max_replies_per_connection).
const maxCalls = 100

// maxMessage bounds an answer, in bytes. Many units may have failed.
const maxMessage = 16 << 20

// message is a call or an answer.
type message struct {
	kind               byte
	to                 string // a name on the bus; empty where nobody else answers
	path, face, member string
	fault              string // the name of the error that answers
	signature          string
	body               []byte
	replies            uint32 // to which call
	order              binary.ByteOrder
}

// conversation is a connection to systemd or to the bus.
type conversation struct {
	f     *os.File
	ctx   context.Context
	close func()
	in    *bufio.Reader
	calls uint32
}

// dial connects to systemd or to the bus. It returns fs.ErrNotExist if nothing answers there. The connection ends by
// itself after a time.
func dial(ctx context.Context, path string, within time.Duration) (*conversation, error) {
	// A blocking connect would wait without end where as many wait as the other side lets wait (unix(7), EAGAIN).
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	if len(path) > 107 { // struct sockaddr_un
		syscall.Close(fd)
		return nil, fs.ErrNotExist
	}
	err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})
	if err == nil {
		err = syscall.SetNonblock(fd, false)
	}
	if err != nil {
		syscall.Close(fd)
		if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
			return nil, fs.ErrNotExist
		}
		return nil, fmt.Errorf("connect to systemd at %s: %w", path, err)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	c := &conversation{f: os.NewFile(uintptr(fd), path), ctx: ctx}
	late := context.AfterFunc(ctx, func() {
		if raw, err := c.f.SyscallConn(); err == nil {
			raw.Control(func(fd uintptr) { syscall.Shutdown(int(fd), syscall.SHUT_RDWR) }) // ends pending reads and writes
		}
	})
	c.close = func() {
		late()
		cancel()
		c.f.Close()
	}
	c.in = bufio.NewReader(c.f)
	if err := c.enter(); err != nil {
		c.close()
		return nil, fmt.Errorf("log in to systemd: %w", c.why(err))
	}
	return c, nil
}

// exchange makes calls, many at once, and returns the answers in their order.
func (c *conversation) exchange(calls []message) (answers []message, err error) {
	for some := range slices.Chunk(calls, maxCalls) {
		next, err := c.some(some)
		if err != nil {
			return nil, fmt.Errorf("ask systemd: %w", c.why(err))
		}
		answers = append(answers, next...)
	}
	return answers, nil
}

// some makes calls at once and returns the answers in their order.
func (c *conversation) some(calls []message) ([]message, error) {
	var out bytes.Buffer
	first := c.calls + 1
	for _, m := range calls {
		c.calls++
		m.kind = callType
		out.Write(m.encode(c.calls))
	}
	if _, err := out.WriteTo(c.f); err != nil {
		return nil, err
	}
	answers := make([]message, len(calls))
	for missing := len(calls); missing > 0; {
		m, err := read(c.in)
		if err != nil {
			return nil, err
		}
		if m.kind != replyType && m.kind != errorType { // signals
			continue
		}
		if m.replies >= first && m.replies <= c.calls && answers[m.replies-first].kind == 0 {
			answers[m.replies-first] = m
			missing--
		}
	}
	return answers, nil
}

// why explains an error of the socket.
func (c *conversation) why(err error) error {
	if c.ctx.Err() != nil {
		return errors.New("it did not answer in time")
	}
	return err
}

// enter logs in and waits for the answer: systemd ignores calls that arrive with the login.
func (c *conversation) enter() error {
	uid := fmt.Sprintf("%x", strconv.Itoa(os.Geteuid()))
	if _, err := c.f.WriteString("\x00AUTH EXTERNAL " + uid + "\r\nBEGIN\r\n"); err != nil {
		return err
	}
	line, err := c.in.ReadSlice('\n')
	if err == nil && !bytes.HasPrefix(line, []byte("OK ")) {
		err = fmt.Errorf("it answered %q", line)
	}
	return err
}

// encode is a call in wire format, with its number.
func (m message) encode(serial uint32) []byte {
	var fields []byte
	field := func(code byte, signature, value string) {
		for len(fields)%8 != 0 {
			fields = append(fields, 0)
		}
		fields = append(fields, code, byte(len(signature)))
		fields = append(append(fields, signature...), 0)
		if signature == "g" {
			fields = append(fields, byte(len(value)))
		} else {
			for len(fields)%4 != 0 {
				fields = append(fields, 0)
			}
			fields = binary.LittleEndian.AppendUint32(fields, uint32(len(value)))
		}
		fields = append(append(fields, value...), 0)
	}
	field(fieldPath, "o", m.path)
	field(fieldFace, "s", m.face)
	field(fieldMember, "s", m.member)
	if m.to != "" {
		field(fieldTo, "s", m.to)
	}
	if m.signature != "" {
		field(fieldSig, "g", m.signature)
	}
	b := []byte{'l', m.kind, 0, 1}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.body)))
	b = binary.LittleEndian.AppendUint32(b, serial)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(fields)))
	b = append(b, fields...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return append(b, m.body...)
}

// texts encodes strings for a message body.
func texts(all ...string) (b []byte) {
	for _, s := range all {
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
		b = append(append(b, s...), 0)
	}
	return b
}

// list encodes an array of strings for a message body.
func list(all ...string) []byte {
	items := texts(all...)
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(items))), items...)
}

// read reads one message.
func read(r io.Reader) (m message, err error) {
	var head [headLength]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return m, err
	}
	switch head[0] {
	case 'l':
		m.order = binary.LittleEndian
	case 'B':
		m.order = binary.BigEndian
	default:
		return m, errOdd
	}
	m.kind = head[1]
	body, fields := m.order.Uint32(head[4:]), m.order.Uint32(head[12:])
	if body > maxMessage || fields > maxMessage {
		return m, fmt.Errorf("it answered with more than %d bytes", maxMessage)
	}
	rest := make([]byte, (int(fields)+7)&^7+int(body))
	if _, err := io.ReadFull(r, rest); err != nil {
		return m, err
	}
	m.body = rest[len(rest)-int(body):]
	return m, m.readFields(rest[:fields])
}

var errOdd = errors.New("its answer is not a message of D-Bus")

// readFields reads the header fields that matter for an answer.
func (m *message) readFields(b []byte) error {
	d := decoder{b: b, order: m.order}
	for d.at < len(b) && d.err == nil {
		d.align(8)
		code := d.byte()
		switch signature := d.signature(); {
		case code == fieldReplies && signature == "u":
			m.replies = d.uint32()
		case signature == "g":
			if s := d.signature(); code == fieldSig {
				m.signature = s
			}
		case signature == "s" || signature == "o":
			if s := d.text(); code == fieldFault {
				m.fault = s
			}
		case signature == "u":
			d.uint32()
		default:
			return errOdd
		}
	}
	return d.err
}

// value is a property as text, a list joined by spaces. ok is false if there is no such property, or if its type is
// not supported here.
func (m message) value() (_ string, ok bool) {
	if m.kind != replyType || m.signature != "v" {
		return "", false
	}
	d := decoder{b: m.body, order: m.order}
	switch d.signature() {
	case "s", "o":
		text := d.text()
		return text, d.err == nil
	case "b":
		is := d.uint32() != 0
		return map[bool]string{true: "yes", false: "no"}[is], d.err == nil
	case "as":
		var all []string
		size := int(d.uint32())
		for end := d.at + size; d.at < end && d.err == nil; {
			all = append(all, d.text())
		}
		return strings.Join(all, " "), d.err == nil
	}
	return "", false
}

// units are the names in a list of units, a(ssssssouso).
func (m message) units() ([]string, error) {
	if m.kind != replyType || m.signature != "a(ssssssouso)" {
		return nil, fmt.Errorf("it does not list its units: %w", errOdd)
	}
	d := decoder{b: m.body, order: m.order}
	size := int(d.uint32())
	d.align(8)
	end := d.at + size
	if size > len(m.body) {
		return nil, errOdd
	}
	var names []string
	for d.at < end && d.err == nil {
		d.align(8)
		names = append(names, d.text())
		for range 6 {
			d.text()
		}
		d.uint32()
		d.text()
		d.text()
	}
	return names, d.err
}

// decoder reads values in sequence. After the first invalid value it returns empty ones.
type decoder struct {
	b     []byte
	at    int
	order binary.ByteOrder
	err   error
}

func (d *decoder) take(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.b)-d.at {
		d.err = errOdd
		return nil
	}
	d.at += n
	return d.b[d.at-n : d.at]
}

func (d *decoder) align(n int) { d.take((n - d.at%n) % n) }

func (d *decoder) byte() byte {
	if b := d.take(1); d.err == nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uint32() uint32 {
	d.align(4)
	if b := d.take(4); d.err == nil {
		return d.order.Uint32(b)
	}
	return 0
}

func (d *decoder) text() string {
	s := d.take(int(d.uint32()))
	d.take(1)
	return string(s)
}

func (d *decoder) signature() string {
	s := d.take(int(d.byte()))
	d.take(1)
	return string(s)
}
