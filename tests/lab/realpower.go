package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/tests/qemu"
)

// guest is what runs on a real machine, as far as its BMC can tell.
const guest = "guest"

// runLocked starts the computer. If it does not start, the machine is off, and the event log says why.
func (m *Machine) runLocked(t firmwareTries) {
	h := m.computer
	h.again = false
	err := m.tryLocked(t)
	if err == nil {
		m.running = guest
		return
	}
	m.logLocked("Critical", "Power: the machine does not start: "+err.Error())
	m.breakLocked()
	m.arriveLocked(off)
}

func (m *Machine) tryLocked(t firmwareTries) error {
	h := m.computer
	args, err := m.arguments(t)
	if err != nil {
		return err
	}
	var after func()
	var files []*os.File
	if h.TPM {
		var tpm *os.File
		if tpm, after, err = h.startTPM(); err != nil {
			return err
		}
		files = append(files, tpm)
	}
	fmt.Fprintf(h.console, "\n[lab: power on at %s]\n", time.Now().UTC().Format(time.RFC3339))
	h.shown = ""
	p, err := qemu.Start(qemu.Options{Folder: h.folder, Args: args, Serial: h.console, Before: func(p *qemu.Process) error {
		m.showLocked(p, t.medium)
		return nil
	}, After: after, Files: files})
	if err != nil {
		return err
	}
	h.process = p
	m.fleet.work.Go(func() { m.follow(p) })
	return nil
}

// follow waits until the computer ends by itself: its system shuts down or restarts it, or the
// process is killed, which is a loss of power.
func (m *Machine) follow(p *qemu.Process) {
	<-p.Done()
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.computer
	if h.process != p || m.fleet.ctx.Err() != nil {
		return
	}
	h.process = nil
	if p.Why() == qemu.GuestReset || p.Why() == qemu.GuestShutdown && h.again {
		m.bootLocked(time.Now())
		return
	}
	says := map[string]string{qemu.GuestShutdown: "off by its system", "": "lost"}[p.Why()]
	m.logLocked("OK", "Power: "+or(says, p.Why())+". "+p.Errors())
	m.breakLocked()
	m.arriveLocked(off)
}

// cutLocked takes the computer's power, and returns when it is gone.
func (m *Machine) cutLocked() {
	if m.computer == nil || m.computer.process == nil {
		return
	}
	p := m.computer.process
	m.computer.process = nil
	p.Kill()
}

// pressLocked presses the power button of a computer that is on: ACPI asks its system to shut down,
// which may ignore it. If again is set, the computer starts again afterwards.
func (m *Machine) pressLocked(again bool) {
	m.counts.Resets++
	m.reset = time.Now()
	m.logLocked("OK", "Power: the system is asked to shut down.")
	h := m.computer
	h.again = again
	if m.fault.Kind == FaultNoShutdown || h.process == nil {
		return
	}
	if err := h.process.Do("system_powerdown", nil, nil); err != nil {
		m.logLocked("Warning", "Power: "+err.Error())
	}
}

// interruptGuestLocked sends a computer an NMI. What that does is up to its system.
func (m *Machine) interruptGuestLocked() {
	if m.computer.process == nil {
		return
	}
	if err := m.computer.process.Do("inject-nmi", nil, nil); err != nil {
		m.logLocked("Warning", "NMI: "+err.Error())
	}
}

// mediaLocked puts what the BMC has inserted into the drive of a computer that is on.
func (m *Machine) mediaLocked() {
	if m.computer != nil && m.computer.process != nil {
		m.showLocked(m.computer.process, m.insertedLocked())
	}
}

// showLocked puts the medium at a URL into a computer's drive, or empties it. A medium that cannot be
// read stays out, and the event log says why.
func (m *Machine) showLocked(p *qemu.Process, url string) {
	h := m.computer
	if url == h.shown {
		return
	}
	var err error
	if h.shown != "" {
		err = h.media.Eject(p, cdDrive)
	}
	h.shown = url
	if url != "" && err == nil {
		err = h.media.Insert(p, cdDrive, newRemote(m.fleet.ctx, url))
	}
	if err != nil {
		m.logLocked("Warning", "Virtual media: "+err.Error())
	}
}

// startTPM runs a TPM, and gives the end of the connection over which QEMU speaks to it, and what
// ends it.
func (h *computer) startTPM() (speaks *os.File, stop func(), err error) {
	if err := os.MkdirAll(filepath.Join(h.folder, "tpm"), 0o755); err != nil {
		return nil, nil, err
	}
	speaks, hears, err := qemu.Pair()
	if err != nil {
		return nil, nil, err
	}
	defer hears.Close()
	// The inherited connection is the first file after the three of every process.
	cmd := exec.Command("swtpm", "socket", "--tpm2", "--tpmstate", "dir=tpm", "--ctrl", "type=unixio,clientfd=3", "--terminate")
	cmd.Dir, cmd.ExtraFiles = h.folder, []*os.File{hears}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		speaks.Close()
		return nil, nil, fmt.Errorf("start swtpm: %w", err)
	}
	return speaks, func() {
		_ = cmd.Process.Kill() // it may have ended with the connection of QEMU
		_ = cmd.Wait()         // its code is that of the signal
	}, nil
}

// forward forwards a connection to the SSH of a computer's system.
func (m *Machine) forward(c net.Conn) {
	defer c.Close()
	at := locked(m, func() string { return m.computer.ssh })
	to, err := net.Dial("tcp4", at)
	if err != nil {
		return
	}
	defer to.Close()
	defer context.AfterFunc(m.fleet.ctx, func() { to.Close() })()
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(to, c)
		if t, ok := to.(*net.TCPConn); ok {
			t.CloseWrite()
		}
	}()
	io.Copy(c, to)
	c.Close()
	<-done
}

// Console is the last of what a real machine wrote to its serial port, up to 1 MiB. A line of the
// lab's own begins each time that it comes on.
func (m *Machine) Console() (string, error) {
	if m.computer == nil {
		return "", fmt.Errorf("machine %q is simulated, and has no console", m.config.Name)
	}
	return m.computer.console.tail(mostConsole)
}

// mostConsole is how much of a console is given, in bytes.
const mostConsole = 1 << 20

// AwaitConsole waits until a real machine has written a text to its serial port, from an offset of
// its console in bytes on, and returns the offset behind the text. A test that cuts the power at
// that moment calls SetPower("off") then.
func (m *Machine) AwaitConsole(ctx context.Context, text string, from int64) (int64, error) {
	if m.computer == nil {
		return 0, fmt.Errorf("machine %q is simulated, and has no console", m.config.Name)
	}
	return m.computer.console.await(ctx, text, from)
}

// Folder is where the files of a real machine are, empty for one that is simulated.
func (m *Machine) Folder() string {
	if m.computer == nil {
		return ""
	}
	return m.computer.folder
}

// DriveFile is the file with the bytes of a real machine's nth drive, from 1.
func (m *Machine) DriveFile(n int) string { return m.computer.drivePath(n) }

// PID is the process that is a real machine, 0 while it is off.
func (m *Machine) PID() int {
	return locked(m, func() int {
		if m.computer == nil || m.computer.process == nil {
			return 0
		}
		return m.computer.process.PID()
	})
}
