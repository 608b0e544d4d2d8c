// Package qemu runs emulated computers: one process of QEMU each, without KVM. The process is
// spoken to by QMP, QEMU's protocol of JSON messages, over a connection that it inherits; its
// first serial port is the caller's; and media are read by it over NBD, QEMU's network block
// devices, from whoever has their bytes.
package qemu

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Program is the one that emulates.
const Program = "qemu-system-x86_64"

// patience is how long the program may take to begin, and to answer.
const patience = time.Minute

// Options are a computer that is to be switched on.
type Options struct {
	// Folder is where the process runs: names of files in Args are seen from there.
	Folder string
	// Args describe the computer, without what this package says itself: no display, no
	// devices but those that are named, the first serial port, and how it is spoken to.
	Args []string
	// Serial gets what the computer writes to its first serial port.
	Serial io.Writer
	// Files are open in the process, as number FirstFile and on. They are closed here.
	Files []*os.File
	// Before is called with the computer stopped before its first instruction.
	Before func(*Process) error
	// After is called when the process has ended, before that is told, and where it does not
	// begin. It may be nil.
	After func()
}

// FirstFile is the number that the first of Options.Files has in the process.
const FirstFile = 4

// Process is a computer that is switched on.
type Process struct {
	*Monitor
	cmd    *exec.Cmd
	stderr bytes.Buffer
	after  func()
	done   chan struct{}

	mu  sync.Mutex
	why string
}

// Start switches a computer on. The process ends with the one that started it, however that
// ends.
func Start(o Options) (*Process, error) {
	p, err := launch(o)
	if err != nil && o.After != nil {
		o.After()
	}
	if err != nil {
		return nil, fmt.Errorf("start QEMU: %w", err)
	}
	go p.wait()
	if err := p.begin(o.Before); err != nil {
		p.Kill()
		return nil, fmt.Errorf("start QEMU: %w: %s", err, p.Errors())
	}
	return p, nil
}

// launch starts the process.
func launch(o Options) (*Process, error) {
	defer func() {
		for _, f := range o.Files {
			f.Close()
		}
	}()
	ours, theirs, err := Pair()
	if err != nil {
		return nil, err
	}
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		theirs.Close()
		return nil, err
	}
	p := &Process{after: o.After, done: make(chan struct{})}
	// The inherited connection is the first file after the three of every process.
	p.cmd = exec.Command(Program, slices.Concat([]string{"-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-S",
		"-chardev", "socket,id=control,fd=3", "-mon", "chardev=control,mode=control"}, o.Args)...)
	p.cmd.Dir, p.cmd.ExtraFiles, p.cmd.Stdout, p.cmd.Stderr = o.Folder, append([]*os.File{theirs}, o.Files...), o.Serial, &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = p.cmd.Start()
	theirs.Close()
	if err != nil {
		conn.Close()
		return nil, err
	}
	p.Monitor = newMonitor(conn, p.hear)
	return p, nil
}

// Pair gives the two ends of a connection, of which a process may inherit one.
func Pair() (a, b *os.File, err error) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(ends[0]), "one end"), os.NewFile(uintptr(ends[1]), "the other end"), nil
}

// begin has the computer run.
func (p *Process) begin(before func(*Process) error) error {
	if err := p.Do("qmp_capabilities", nil, nil); err != nil {
		return err
	}
	if before != nil {
		if err := before(p); err != nil {
			return err
		}
	}
	return p.Do("cont", nil, nil)
}

// hear notes why the computer ends: the last that is said of it counts.
func (p *Process) hear(e Event) {
	if e.Name == "SHUTDOWN" {
		p.mu.Lock()
		p.why = e.Data.Reason
		p.mu.Unlock()
	}
}

// wait waits for the end of the process, and of what it says before.
func (p *Process) wait() {
	<-p.Monitor.ended
	_ = p.cmd.Wait() // why it ended is told by its last event, and of one that is killed by none
	if p.after != nil {
		p.after()
	}
	close(p.done)
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// The ends of a computer, as QEMU's event SHUTDOWN gives its reason.
const (
	GuestShutdown = "guest-shutdown" // by its system
	GuestReset    = "guest-reset"    // to begin anew, by its system or firmware
)

// Why is why the process has ended: empty for one that was killed, or failed.
func (p *Process) Why() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why
}

// Errors are what the process wrote to its standard error. It is read after its end.
func (p *Process) Errors() string { return strings.TrimSpace(p.stderr.String()) }

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process as the loss of power ends a computer, and waits until it is gone. What
// the computer's drives had taken is in their files.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	p.Monitor.conn.Close()   // QEMU's children, if it had any, do not keep it
	<-p.done
}
