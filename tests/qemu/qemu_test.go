package qemu

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv(asStarter) != "" {
		startAndWait()
		return
	}
	os.Exit(m.Run())
}

// asStarter has this program start a computer, tell its number, and wait.
const asStarter = "SLIPWAY_TEST_STARTER"

func startAndWait() {
	p, err := Start(none)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.PID())
	select {}
}

// none is a computer without anything.
var none = Options{Folder: os.TempDir(), Args: []string{"-machine", "none"}, Serial: io.Discard}

func needsQEMU(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath(Program); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal(Program + " is not installed: run make setup")
	}
	t.Skip(Program + " is not installed: run make setup")
}

// gone waits until a process is no more.
func gone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; <-time.After(5 * time.Millisecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(text, []byte(") Z ")) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d is still there: %s", pid, text)
		}
	}
}

func TestComputerIsAskedAndKilled(t *testing.T) {
	needsQEMU(t)
	ended := false
	o := none
	o.Before = func(p *Process) error {
		var status struct{ Status string }
		if err := p.Do("query-status", nil, &status); err != nil || status.Status != "prelaunch" {
			t.Errorf("before it runs it is %q, %v", status.Status, err)
		}
		return nil
	}
	o.After = func() { ended = true }
	p, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	var status struct{ Status string }
	if err := p.Do("query-status", nil, &status); err != nil || status.Status != "running" {
		t.Errorf("it is %q, %v", status.Status, err)
	}
	if err := p.Do("make-coffee", nil, nil); err == nil || !strings.Contains(err.Error(), "CommandNotFound") {
		t.Errorf("a command that is none: %v", err)
	}
	p.Kill()
	if !ended || p.Why() != "" {
		t.Errorf("it was killed: the end is told %v, its reason is %q", ended, p.Why())
	}
	gone(t, p.PID())
	if err := p.Do("query-status", nil, nil); !errors.Is(err, ErrEnded) {
		t.Errorf("after its end: %v", err)
	}
}

// What is wrong with the arguments is said, and nothing stays.
func TestComputerThatCannotBe(t *testing.T) {
	needsQEMU(t)
	ended := 0
	_, err := Start(Options{Folder: t.TempDir(), Args: []string{"-machine", "toaster"}, Serial: io.Discard, After: func() { ended++ }})
	if err == nil || !strings.Contains(err.Error(), "unsupported machine type") || ended != 1 {
		t.Errorf("got %v, and the end was told %d times", err, ended)
	}
	if _, err := Start(Options{Folder: "/nothing/here", Serial: io.Discard, After: func() { ended++ }}); err == nil || ended != 2 {
		t.Errorf("got %v, and the end was told %d times", err, ended)
	}
}

// A computer does not outlive who has started it.
func TestComputerEndsWithItsStarter(t *testing.T) {
	needsQEMU(t)
	starter := exec.Command(os.Args[0])
	starter.Env = append(os.Environ(), asStarter+"=1")
	out, err := starter.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := starter.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 200)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("process %d is not there: %v", pid, err)
	}
	if err := starter.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = starter.Wait() // it was killed
	gone(t, pid)
}

// text is a medium.
type text string

func (m text) Size(context.Context) (int64, error) { return int64(len(m)), nil }

func (m text) ReadAt(_ context.Context, p []byte, at int64) error {
	if copy(p, m[at:]) < len(p) {
		return errors.New("that is beyond the end")
	}
	if strings.Contains(string(p), "BAD") {
		return errors.New("a sector is bad")
	}
	return nil
}

// client speaks NBD by hand.
type client struct {
	net.Conn
	t *testing.T
}

func serving(t *testing.T, m Medium) *client {
	t.Helper()
	s, err := Serve(filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	s.in = m
	t.Cleanup(func() { s.Close() })
	c, err := net.Dial("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &client{c, t}
}

func (c *client) send(values ...any) {
	c.t.Helper()
	for _, v := range values {
		if err := binary.Write(c, binary.BigEndian, v); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *client) get(n int) string {
	c.t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		c.t.Fatal(err)
	}
	return string(b)
}

func (c *client) begin() {
	c.t.Helper()
	if got := c.get(18); got != "NBDMAGICIHAVEOPT\x00\x03" {
		c.t.Fatalf("it begins with %q", got)
	}
	c.send(uint32(3))
}

func (c *client) asks(kind uint16, at uint64, n uint32) {
	c.send(uint32(0x25609513), uint16(0), kind, uint64(7), at, n)
}

func (c *client) answer() (code uint32) {
	c.t.Helper()
	b := []byte(c.get(16))
	if magic, handle := binary.BigEndian.Uint32(b), binary.BigEndian.Uint64(b[8:]); magic != 0x67446698 || handle != 7 {
		c.t.Fatalf("the answer is %x", b)
	}
	return binary.BigEndian.Uint32(b[4:])
}

func (c *client) ends() {
	c.t.Helper()
	if n, err := c.Read(make([]byte, 1)); err != io.EOF {
		c.t.Errorf("%d bytes more, and %v", n, err)
	}
}

func TestMediumIsRead(t *testing.T) {
	c := serving(t, text(strings.Repeat("x", 3000)+"BAD"+strings.Repeat("y", 1500)))
	c.begin()
	c.send([]byte("IHAVEOPT"), uint32(8), uint32(0)) // structured replies, which it does not have
	if got := c.get(20); got != "\x00\x03\xe8\x89\x04\x55\x65\xa9\x00\x00\x00\x08\x80\x00\x00\x01\x00\x00\x00\x00" {
		t.Errorf("an option that it does not know: %x", got)
	}
	c.send([]byte("IHAVEOPT"), uint32(7), uint32(6), uint32(0), uint16(0))
	// 4503 bytes are three sectors of a CD.
	if got := c.get(32); got[16:] != "\x00\x00\x00\x0c"+"\x00\x00"+"\x00\x00\x00\x00\x00\x00\x18\x00"+"\x00\x03" {
		t.Errorf("the export is %x", got)
	}
	c.get(20)
	c.asks(0, 2998, 2)
	if code := c.answer(); code != 0 || c.get(2) != "xx" {
		t.Errorf("a read: %d", code)
	}
	c.asks(0, 4500, 1000)
	if code := c.answer(); code != 0 || c.get(1000) != "yyy"+strings.Repeat("\x00", 997) {
		t.Errorf("a read up to the end: %d", code)
	}
	c.asks(0, 2999, 10)
	if code := c.answer(); code != 5 {
		t.Errorf("a bad sector: %d", code)
	}
	for _, beyond := range []struct {
		at uint64
		n  uint32
	}{{6144, 1}, {6143, 2}, {1 << 63, 1}, {1<<64 - 1, 2}, {0, 1 << 31}} {
		c.asks(0, beyond.at, beyond.n)
		if code := c.answer(); code != 22 {
			t.Errorf("%d bytes at %d: %d", beyond.n, beyond.at, code)
		}
	}
	c.asks(1, 0, 1) // a write
	c.ends()
}

// What is no client of NBD is not served, nor is a drive that is empty.
func TestWhoIsNotServed(t *testing.T) {
	c := serving(t, text("x"))
	c.begin()
	c.send([]byte("IHAVECAT"), uint32(7), uint32(6))
	c.ends()
	c = serving(t, text("x"))
	c.begin()
	c.send([]byte("IHAVEOPT"), uint32(7), uint32(1<<31))
	c.ends()
	c = serving(t, nil)
	c.ends()
}
