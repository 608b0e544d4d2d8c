package libvirt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/site"
)

// cutAtEach takes a step with a new handle again and again, cut off when it has
// called one more of libvirt's functions each time, as if the daemon had been killed then,
// until it gets through. It gives how often it was cut.
func (b *bench) cutAtEach(step site.Step) (cuts int) {
	b.t.Helper()
	for ; ; cuts++ {
		ctx, cancel := context.WithCancel(b.t.Context())
		d := New(impatient) // what the daemon knew is lost
		m := b.open(b.t, d, "vm-1").(*machine)
		m.hypervisor.dial = tapped(m.hypervisor.dial, &tap{left: cuts + 1, dry: cancel})
		m.Seed(seedOf("#cloud-config\n"))
		err := m.Apply(ctx, step, b.n, drivertest.Permitted)
		cancel()
		if err == nil {
			return cuts
		}
		if !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), context.Canceled.Error()) {
			b.t.Fatalf("after %d cuts: %v", cuts, err)
		}
		step.Resumed = true
	}
}

// tap counts the calls that go to libvirt, and says when there were enough.
type tap struct {
	mu   sync.Mutex
	left int
	dry  func()
}

func (t *tap) call() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left--; t.left == 0 {
		t.dry()
	}
}

// tapped is a way to libvirt whose calls are counted.
func tapped(dial dialFunc, t *tap) dialFunc {
	return func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		return &tappedConn{Conn: c, tap: t}, nil
	}
}

// tappedConn is a connection of which the packets that are sent are told apart:
// libvirt's protocol has 28 octets before each, of which the first word is the
// length of all and the fifth the kind, 0 for a call
// (libvirt, src/rpc/virnetprotocol.x).
type tappedConn struct {
	net.Conn
	tap    *tap
	header []byte
	body   int // what is to come of the packet
}

const packetHeader = 28

func (c *tappedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	for rest := p[:n]; len(rest) > 0; {
		if c.body > 0 {
			skip := min(c.body, len(rest))
			c.body, rest = c.body-skip, rest[skip:]
			continue
		}
		more := min(packetHeader-len(c.header), len(rest))
		c.header, rest = append(c.header, rest[:more]...), rest[more:]
		if len(c.header) == packetHeader {
			c.body = int(binary.BigEndian.Uint32(c.header)) - packetHeader
			if binary.BigEndian.Uint32(c.header[16:]) == 0 {
				c.tap.call()
			}
			c.header = c.header[:0]
		}
	}
	return n, err
}

func TestInstallCutAtEachCall(t *testing.T) {
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("again %t", again), func(t *testing.T) {
			b := newBench(t, "qcow2")
			boots := 1
			if again {
				b.mustInstall()
				boots, b.step.Generation = 2, 2
				b.mayErase()
			}
			cuts := b.cutAtEach(b.step)
			if cuts < 10 {
				t.Errorf("it was cut %d times", cuts)
			}
			b.installed()
			if got := b.boots(); got != boots {
				t.Errorf("the machine was started %d times, want %d", got, boots)
			}
		})
	}
}

// installed fails unless the machine runs from its newest generation.
func (b *bench) installed() {
	b.t.Helper()
	m := b.machine()
	settled(b.t, m, b.n, site.FacetDefinition, site.FacetDisks)
	d, err := m.existing(b.t.Context(), b.conn())
	if err != nil || d.owner.Generation != b.step.Generation || d.owner.Installing != 0 || !d.active() {
		b.t.Errorf("noted: %+v, %v", d, err)
	}
	if !b.has("data.qcow2") {
		b.t.Errorf("the disk of data is gone: %v", b.volumes())
	}
}

// TestInstallCutAnywhere kills the daemon, or the hypervisor's, at moments all
// over an installation.
func TestInstallCutAnywhere(t *testing.T) {
	const cuts = 5
	for _, kill := range []string{"daemon", "libvirtd"} {
		t.Run(kill, func(t *testing.T) {
			b := newBench(t, "qcow2")
			began := time.Now()
			b.mustInstall()
			took := time.Since(began)
			for i := range cuts {
				b.step.Generation, b.step.Resumed = i+2, false
				b.mayErase()
				b.cutAt(kill, took*time.Duration(i)/cuts)
				b.installed()
			}
		})
	}
}

// cutAt begins an installation, ends it after a time, and takes it up again.
func (b *bench) cutAt(kill string, after time.Duration) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	done := make(chan error, 1)
	m := b.machine()
	m.Seed(seedOf("#cloud-config\n"))
	go func() { done <- m.Apply(ctx, b.step, b.n, drivertest.Permitted) }()
	<-time.After(after)
	if kill == "libvirtd" {
		b.Kill()
		b.Continue()
		b.dial(b.t)
	}
	cancel()
	if err := <-done; err == nil {
		return
	}
	b.step.Resumed = true
	b.d = New(impatient)
	b.mustInstall()
}

// A start that was cut off with its libvirtd, and whose QEMU does not answer, stays
// "starting" for libvirt. It is ended, and the machine is started.
func TestStartThatNeverEnds(t *testing.T) {
	b := newBench(t, "qcow2")
	b.mustInstall()
	b.d = New(Options{Grace: time.Second, Start: 5 * time.Second, Poll: 50 * time.Millisecond, Share: time.Millisecond})
	for range 50 {
		m := b.machine()
		must(t, m, b.n, site.FacetPower, site.ActionPowerOff)
		d, err := m.existing(t.Context(), b.conn())
		if err != nil {
			t.Fatal(err)
		}
		b.dial(t)
		creator := b.rpc
		go func() { _ = creator.DomainCreate(d.ref) }()
		for is := "off"; is != "on" && is != "starting"; {
			if is, err = state(t.Context(), b.conn(), d.ref); err != nil {
				t.Fatal(err)
			}
		}
		pids := qemus(t, b.n.Name)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGSTOP) // it is ours, and may be gone
		}
		b.Kill()
		b.Continue()
		b.dial(t)
		m = b.machine()
		is, err := state(t.Context(), b.conn(), d.ref)
		must(t, m, b.n, site.FacetPower, site.ActionPowerOn)
		settled(t, m, b.n, site.FacetPower)
		if err == nil && is == "starting" {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	t.Error("no start was met in its middle")
}

// qemus are the processes of a machine.
func qemus(t *testing.T, name string) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		text, _ := os.ReadFile(file) // a process that has ended has none
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && strings.Contains(string(text), "guest="+name+",") && isOurs(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isOurs says whether a process came from this test.
func isOurs(pid int) bool {
	for ; pid > 1; pid = parentOf(pid) {
		if pid == os.Getpid() {
			return true
		}
	}
	return false
}

func parentOf(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, behind, _ := strings.Cut(string(text), ") ") // the state, and the parent
	var state string
	var parent int
	_, _ = fmt.Sscan(behind, &state, &parent)
	return parent
}

func TestZeroizeCutAtEachCall(t *testing.T) {
	b := newBench(t, "qcow2")
	b.mustInstall()
	if cuts := b.cutAtEach(approved(t, b.machine(), b.n, stepOf(b.n, site.FacetDefinition, site.ActionZeroize))); cuts < 10 {
		t.Errorf("it was cut %d times", cuts)
	}
	if b.has("slipway-vm-1") {
		t.Errorf("left: %v", b.volumes())
	}
}
