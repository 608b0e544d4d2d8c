package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/bench/rig"
)

// host runs a daemon, or a witness.
type host struct {
	dir     string // its own
	site    string // the folder with the site's repository and credentials
	address string // of its member; empty for a daemon with records of its own
	witness bool
	ask     *control.Client
	cmd     *exec.Cmd
}

func newHost(siteDir, name string) (*host, error) {
	h := &host{dir: filepath.Join(siteDir, name), site: siteDir}
	h.ask = control.Dial(control.Socket(h.state()))
	return h, os.Mkdir(h.dir, 0o700)
}

// newMember is a host whose member has a loopback address of its own.
func newMember(siteDir, name string, number int) (*host, error) {
	l, err := net.Listen("tcp4", fmt.Sprintf("127.91.0.%d:0", number))
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	h, err := newHost(siteDir, name)
	if err == nil {
		h.address = address
	}
	return h, err
}

func (h *host) state() string  { return filepath.Join(h.dir, "state") }
func (h *host) folder() string { return filepath.Join(h.dir, "member") }

// tool runs a command of slipway on the host.
func (h *host) tool(args ...string) ([]byte, error) {
	out, err := exec.Command(rig.Binary(), append(args, "--state", h.state())...).Output()
	if bad, is := errors.AsType[*exec.ExitError](err); is {
		return nil, fmt.Errorf("slipway %q: %w: %s", args, err, bad.Stderr)
	}
	return out, err
}

func (h *host) start() error {
	args := []string{"run", "--repo", "file://" + rig.Repo(h.site), "--branch", "main", "--credentials", filepath.Join(h.site, "credentials"), "--artifact-listen", "127.0.0.1:0"}
	switch {
	case h.witness:
		args = []string{"witness", "--join", h.folder()}
	case h.address != "":
		args = append(args, "--join", h.folder(), "--copy-listen", "127.0.0.1:0")
	}
	log, err := os.OpenFile(filepath.Join(h.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	h.cmd = exec.Command(rig.Binary(), append(args, "--state", h.state())...)
	h.cmd.Stdout, h.cmd.Stderr = log, log
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return h.cmd.Start()
}

// end ends the host's process with a signal.
func (h *host) end(s syscall.Signal) error {
	if err := h.cmd.Process.Signal(s); err != nil {
		return err
	}
	_ = h.cmd.Wait() // a signal is its end
	return nil
}

// close ends the host, and shows its log's end after an error.
func (h *host) close(failed error) {
	if h.cmd != nil && h.cmd.ProcessState == nil {
		_ = h.end(syscall.SIGTERM)
	}
	h.ask.Close()
	if failed != nil {
		text, _ := os.ReadFile(filepath.Join(h.dir, "log"))
		fmt.Fprintf(os.Stderr, "the log of %s ends:\n%s\n", h.dir, text[max(0, len(text)-1500):])
	}
}

// leads reports whether the host's daemon leads, and its status.
func (h *host) leads() (site.Status, bool) {
	if h.witness {
		return site.Status{}, false
	}
	r, err := h.ask.Report(context.Background(), "")
	return r.Status, err == nil && r.Status.Leader == "" && len(r.Status.Nodes) > 0
}

// isMember reports whether all of three members vote and answer this host's.
func (h *host) isMember() bool {
	out, err := h.tool("member", "list", "-o", "json")
	var all []struct {
		Votes   bool   `json:"votes"`
		Trouble string `json:"trouble"`
	}
	if err != nil || json.Unmarshal(out, &all) != nil || len(all) != 3 {
		return false
	}
	for _, m := range all {
		if !m.Votes || m.Trouble != "" {
			return false
		}
	}
	return true
}

// until waits for a condition, which asks seldom: asking takes the processors' time too.
func until(ctx context.Context, what string, every time.Duration, ok func() bool) error {
	for !ok() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("never: %s: %w", what, ctx.Err())
		case <-time.After(every):
		}
	}
	return nil
}
