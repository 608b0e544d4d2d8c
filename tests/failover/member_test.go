package main

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/record/recordtest"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/failover/judge"
)

// member is a host: a daemon or a witness, with a network and a state directory of its own.
type member struct {
	w       *world
	name    string
	host    string
	witness bool
	ask     *control.Client

	cmd    *exec.Cmd
	ended  chan struct{}
	paused atomic.Bool
	held   bool // it stays down until it is started by the test
}

func (w *world) newMember(name string, number byte, witness bool) *member {
	m := &member{w: w, name: name, host: netip.AddrFrom4([4]byte{10, 90, 0, number}).String(), witness: witness}
	check(w.t, os.Mkdir(m.state(), 0o700))
	m.plug(w.t)
	m.ask = control.Dial(control.Socket(m.state()))
	w.t.Cleanup(m.ask.Close)
	return m
}

func (m *member) state() string   { return m.w.path(m.name) }
func (m *member) folder() string  { return m.w.path("folder-" + m.name) }
func (m *member) address() string { return m.host + ":2380" }

// within is a command in the member's network. It is the process itself, and not a child of it.
func (m *member) within(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--net=/run/netns/" + m.name, "--", m.w.program}, args...)...)
}

// tool runs a command of slipway on the member's host.
func (m *member) tool(args ...string) {
	m.w.t.Helper()
	if out, err := m.within(append(args, "--state", m.state())...).CombinedOutput(); err != nil {
		m.w.t.Fatalf("%s: slipway %q: %v\n%s", m.name, args, err, out)
	}
}

func (m *member) start() {
	m.w.t.Helper()
	w := m.w
	log, err := os.OpenFile(w.path(m.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check(w.t, err)
	defer log.Close()
	if m.witness {
		m.cmd = m.within("witness", "--verbose", "--join", m.folder(), "--state", m.state())
	} else {
		m.cmd = m.within("run", "--verbose", "--repo", w.path("site.git"), "--state", m.state(), "--credentials", w.path("cred"), "--site-key", w.path("site.key"),
			"--join", m.folder(), "--artifact-listen", m.host+":9480")
	}
	m.cmd.Stdout, m.cmd.Stderr = log, log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	at := time.Now()
	check(w.t, m.cmd.Start())
	w.note(judge.Event{At: at, Kind: judge.Started, Address: m.host, PID: m.cmd.Process.Pid})
	m.held, m.ended = false, make(chan struct{})
	cmd, ended := m.cmd, m.ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
}

func (m *member) dead() bool {
	select {
	case <-m.ended:
		return true
	default:
		return false
	}
}

// restart starts the member if it has ended, as systemd would. What its database has of the history is kept.
func (m *member) restart() {
	m.w.t.Helper()
	if !m.held && m.dead() {
		m.w.t.Logf("%s ended: %s", m.name, m.lastWords())
		m.collect()
		m.start()
	}
}

// collect keeps the history that the stopped member has: members forget what is older than ten minutes.
func (m *member) collect() {
	m.w.t.Helper()
	all, err := recordtest.History(m.state())
	check(m.w.t, err)
	for _, x := range all {
		at := place{x.Revision, x.Sub}
		now := judge.Write(x)
		if before, known := m.w.writes[at]; known && before != now {
			m.w.t.Errorf("revision %d: a member has %+v, and %s has %+v", x.Revision, before, m.name, now)
		}
		m.w.writes[at] = now
	}
}

// signal sends the daemon a signal.
func (m *member) signal(s syscall.Signal) error {
	m.paused.Store(s == syscall.SIGSTOP)
	return m.cmd.Process.Signal(s)
}

// stop ends the member in order.
func (m *member) stop() {
	m.w.t.Helper()
	m.held = true
	check(m.w.t, m.signal(syscall.SIGTERM))
	check(m.w.t, m.signal(syscall.SIGCONT))
	select {
	case <-m.ended:
	case <-time.After(30 * time.Second):
		m.w.t.Errorf("%s does not end", m.name)
		check(m.w.t, m.cmd.Process.Kill())
		<-m.ended
	}
}

// status is what the daemon says, if it leads.
func (m *member) status() (s site.Status, leads bool) {
	if m.witness || m.paused.Load() || m.dead() {
		return s, false
	}
	r, err := m.ask.Report(context.Background(), "")
	return r.Status, err == nil && r.Status.Leader == "" && len(r.Status.Nodes) > 0
}

// approves is a person who approves all that a daemon asks for, until the context ends. What the daemon
// confirms is noted for the judge.
func (m *member) approves(ctx context.Context) {
	for every := time.NewTicker(100 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			every.Stop()
			return
		case <-every.C:
		}
		if m.paused.Load() {
			continue
		}
		r, err := m.ask.Report(context.Background(), "")
		if err != nil || len(r.Status.Waiting) == 0 {
			continue
		}
		asked, cancel := context.WithTimeout(ctx, 5*time.Second)
		answer, err := m.ask.Do(asked, "", site.Order{Verb: site.VerbApprove, Digest: r.Status.Approve, By: "a person"})
		cancel()
		if err == nil {
			var nodes []string
			for _, l := range r.Status.Waiting {
				if strings.Contains(answer, l.Node+" (") { // the set may have become smaller meanwhile
					nodes = append(nodes, l.Node)
				}
			}
			m.w.note(judge.Event{At: time.Now(), Kind: judge.Approved, Set: r.Status.Approve, Nodes: nodes})
		}
	}
}

// logEnd is the end of what the member has printed.
func (m *member) logEnd() string {
	text, _ := os.ReadFile(m.w.path(m.name + ".log"))
	return fmt.Sprintf("%s ends:\n%s", m.name, text[max(0, len(text)-2500):])
}

// lastWords is the last line that the member has printed.
func (m *member) lastWords() string {
	text, _ := os.ReadFile(m.w.path(m.name + ".log"))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// fill takes all room of the member's disk, which is a small one; free gives it back.
func (m *member) fill() error {
	f, err := os.Create(filepath.Join(m.state(), "full"))
	if err != nil {
		return err
	}
	block := bytes.Repeat([]byte{1}, 1<<16)
	for len(block) > 0 {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	return f.Close()
}

func (m *member) free() error { return os.Remove(filepath.Join(m.state(), "full")) }
