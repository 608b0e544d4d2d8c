package netboot

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// startTFTP serves a file of some bytes on loopback, and gives its path there.
func startTFTP(t *testing.T, size int) (at netip.AddrPort, all *arms, path string, content []byte) {
	t.Helper()
	content = make([]byte, size)
	for i := range content {
		content[i] = byte(i * 7 >> 3)
	}
	file := filepath.Join(t.TempDir(), "boot")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	all = newArms()
	if err := all.arm(Boot{Node: "n1", MACs: []string{macN1}, Files: map[Firmware]string{UEFIAMD64: file}}); err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		newTFTP(conn, all, slog.New(slog.DiscardHandler)).run(ctx)
		close(done)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return conn.LocalAddr().(*net.UDPAddr).AddrPort(), all, all.byNode["n1"].path(UEFIAMD64), content
}

// reader is a client of TFTP that loses what it is told to lose.
type reader struct {
	t    *testing.T
	conn *net.UDPConn
	to   netip.AddrPort
}

func newReader(t *testing.T, to netip.AddrPort) *reader {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &reader{t, conn, to}
}

func (r *reader) send(b ...byte) {
	r.t.Helper()
	if _, err := r.conn.WriteToUDPAddrPort(b, r.to); err != nil {
		r.t.Fatal(err)
	}
}

// ask asks for a file, with words that are options.
func (r *reader) ask(path string, options ...string) {
	b := append([]byte{0, opRead}, path...)
	for _, word := range append([]string{"", "octet"}, options...) {
		if word != "" {
			b = append(append(b, 0), word...)
		}
	}
	r.send(append(b, 0)...)
}

// next is what comes next, from the port that was asked.
func (r *reader) next() []byte {
	r.t.Helper()
	r.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	buf := make([]byte, 2048)
	n, from, err := r.conn.ReadFromUDPAddrPort(buf)
	if err != nil {
		r.t.Fatal(err)
	}
	if from != r.to {
		r.t.Errorf("an answer comes from %s, and %s was asked", from, r.to)
	}
	return buf[:n]
}

func (r *reader) ack(block int) { r.send(0, opAck, byte(block>>8), byte(block)) }

// read reads a file in windows, losing each block that lose says once.
func (r *reader) read(block, window int, lose func(int) bool) []byte {
	r.t.Helper()
	var got []byte
	lost := map[int]bool{}
	for want, inWindow := 1, 0; ; {
		b := r.next()
		if binary.BigEndian.Uint16(b) != opData {
			r.t.Fatalf("got %q", b)
		}
		n := int(binary.BigEndian.Uint16(b[2:]))
		if lose != nil && lose(want) && !lost[want] && n == want&0xffff {
			lost[want] = true
			continue
		}
		if n != want&0xffff {
			continue // of a window with a hole; the server sends it again
		}
		got = append(got, b[4:]...)
		inWindow++
		if last := len(b)-4 < block; last || inWindow == window {
			r.ack(want)
			inWindow = 0
			if last {
				return got
			}
		}
		want++
	}
}

// Files are read whole whatever the options are, also when packets are lost, and
// when the numbers of blocks begin anew.
func TestTFTPReads(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size, block, window int
		options             []string
		accepts             string
		lose                func(int) bool
	}{
		"as of 1981":         {size: 1300, block: 512, window: 1},
		"an even number":     {size: 1024, block: 512, window: 1},
		"nothing":            {size: 0, block: 512, window: 1},
		"large blocks":       {size: 5000, block: 1428, window: 1, options: []string{"tsize", "0", "blksize", "1428"}, accepts: "tsize\x005000\x00blksize\x001428\x00"},
		"too large blocks":   {size: 5000, block: 1468, window: 1, options: []string{"blksize", "65464"}, accepts: "blksize\x001468\x00"},
		"windows":            {size: 100000, block: 1000, window: 16, options: []string{"blksize", "1000", "windowsize", "16"}, accepts: "blksize\x001000\x00windowsize\x0016\x00"},
		"unknown options":    {size: 600, block: 512, window: 1, options: []string{"multicast", "", "x", "y"}},
		"lost blocks":        {size: 20000, block: 1000, window: 4, options: []string{"blksize", "1000", "windowsize", "4"}, accepts: "blksize\x001000\x00windowsize\x004\x00", lose: func(n int) bool { return n == 3 || n == 8 }},
		"more than 2^16":     {size: 70000 * 8, block: 8, window: 64, options: []string{"blksize", "8", "windowsize", "64"}, accepts: "blksize\x008\x00windowsize\x0064\x00"},
		"the last ones lost": {size: 3000, block: 512, window: 1, lose: func(n int) bool { return n == 6 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, all, path, content := startTFTP(t, c.size)
			r := newReader(t, at)
			r.ask("//"+path, c.options...)
			if c.accepts != "" {
				if got := r.next(); !bytes.Equal(got, append([]byte{0, opOptions}, c.accepts...)) {
					t.Fatalf("it accepts %q", got)
				}
				r.ack(0)
			}
			if got := r.read(c.block, c.window, c.lose); !bytes.Equal(got, content) {
				t.Errorf("%d bytes of %d were read, or others", len(got), len(content))
			}
			for all.of(identity{mac: macN1}, time.Now()) != nil { // until its goroutine has noted it
				r.ack(0)
			}
		})
	}
}

// The size is asked for first, and that is no reading; nor is half of it.
func TestTFTPSizeProbe(t *testing.T) {
	t.Parallel()
	at, all, path, _ := startTFTP(t, 5000)
	r := newReader(t, at)
	for range 3 {
		r.ask(path, "tsize", "0", "blksize", "1428")
		if got := r.next(); !bytes.Contains(got, []byte("tsize\x005000\x00")) {
			t.Fatalf("got %q", got)
		}
		r.send(append([]byte{0, opError, 0, 0}, "aborted\x00"...)...)
	}
	r.ask(path)
	r.next()
	r.ack(1)
	r.next()
	r.send(0, opError, 0, 3, 0)
	if all.of(identity{mac: macN1}, time.Now()) == nil {
		t.Error("the machine is not armed any more, and has read nothing")
	}
}

// What is not armed is not there, nothing is written, and a client has few transfers
// at once.
func TestTFTPRefuses(t *testing.T) {
	t.Parallel()
	at, _, path, _ := startTFTP(t, 5000)
	r := newReader(t, at)
	for _, asked := range []string{"grub.cfg", "../" + path + "/x", "/etc/passwd", path + ".old", "autoexec.ipxe", "revocations_sku.efi"} {
		r.ask(asked)
		if got := r.next(); !bytes.HasPrefix(got, []byte{0, opError, 0, errNotFound}) {
			t.Errorf("%s gives %q", asked, got)
		}
	}
	r.send(append([]byte{0, opWrite}, path+"\x00octet\x00"...)...)
	if got := r.next(); !bytes.HasPrefix(got, []byte{0, opError, 0, errAccess}) {
		t.Errorf("writing gives %q", got)
	}
	r.send(append([]byte{0, opRead}, path+"\x00netascii\x00"...)...)
	if got := r.next(); !bytes.HasPrefix(got, []byte{0, opError, 0, errOperation}) {
		t.Errorf("reading text gives %q", got)
	}
	for i := range maxOfClient + 1 {
		other := newReader(t, at)
		other.ask(path, "tsize", "0")
		got := other.next()
		if want := i < maxOfClient; (binary.BigEndian.Uint16(got) == opOptions) != want {
			t.Errorf("transfer %s gives %q", strconv.Itoa(i+1), got)
		}
	}
}
