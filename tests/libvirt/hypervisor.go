package libvirt

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

//go:embed hypervisor.sh
var script string

// Hypervisor is a running libvirtd with its guests.
type Hypervisor struct {
	Folder string // holds its /etc, /run and /var; the rest of the file system it shares with this host
	Socket string // libvirt's, for qemu:///system and test:///default alike
	TLS    TLS    // the same over TLS, at 10.77.0.1:16514 of the guests' network

	t      Test
	script *exec.Cmd
	words  io.Writer
	lines  chan string // what the script answers
}

// Start has a hypervisor for as long as the test runs. Where CI runs, what it
// needs must be there.
func Start(t Test) *Hypervisor {
	t.Helper()
	require(t, "libvirtd", "virtlogd", "qemu-system-x86_64", "ip", "bash")
	folder, err := os.MkdirTemp("", "libvirt-") // not of the test: the path of a socket has no more than 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	h := &Hypervisor{Folder: folder, Socket: filepath.Join(folder, "run/libvirt/libvirt-sock"), t: t}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	h.configure()
	h.begin()
	h.say("start")
	return h
}

// Restart ends libvirtd and starts it again, while its guests go on.
func (h *Hypervisor) Restart() {
	h.Stop()
	h.Continue()
}

// Stop ends libvirtd, and Kill gives it no time for it; the guests go on.
// Continue starts it again.
func (h *Hypervisor) Stop()     { h.say("stop") }
func (h *Hypervisor) Kill()     { h.say("kill") }
func (h *Hypervisor) Continue() { h.say("start") }

// Reboot takes the power away and gives it back: no guest runs then but those
// that start by themselves.
func (h *Hypervisor) Reboot() { h.say("reboot") }

// require leaves the test out when it cannot have what it needs.
func require(t Test, programs ...string) {
	t.Helper()
	var missing []string
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			missing = append(missing, p)
		}
	}
	why := ""
	switch {
	case len(missing) > 0:
		why = strings.Join(missing, ", ") + " not installed: run make setup"
	case os.Geteuid() != 0:
		why = "only root may have namespaces and bridges"
	default:
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// begin runs the script, the first process in namespaces of its own. Its input
// ends with this process, and the script with its input.
func (h *Hypervisor) begin() {
	h.t.Helper()
	h.script = exec.Command("bash", "-c", script, "hypervisor", h.Folder, cache(h.t, "capabilities"))
	h.script.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC}
	h.script.Stderr = os.Stderr
	words, err := h.script.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	answers, err := h.script.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.script.Start(); err != nil {
		h.t.Fatalf("start a hypervisor: %v", err)
	}
	h.words, h.lines = words, make(chan string)
	go func() {
		defer close(h.lines)
		for s := bufio.NewScanner(answers); s.Scan(); {
			h.lines <- s.Text()
		}
	}()
	h.t.Cleanup(h.end)
	h.hear("begin")
}

// end kills the script and with it everything that it started.
func (h *Hypervisor) end() {
	if err := h.script.Process.Kill(); err != nil {
		h.t.Errorf("end the hypervisor: %v", err)
	}
	for range h.lines { // until its pipe is closed
	}
	_ = h.script.Wait() // it was killed
	if h.t.Failed() {
		h.t.Logf("libvirt's errors:\n%s", h.errors())
	}
}

func (h *Hypervisor) say(word string) {
	h.t.Helper()
	if _, err := fmt.Fprintln(h.words, word); err != nil {
		h.t.Fatalf("hypervisor, %s: %v", word, err)
	}
	h.hear(word)
}

func (h *Hypervisor) hear(word string) {
	h.t.Helper()
	select {
	case line, open := <-h.lines:
		if line != "ok" || !open {
			h.t.Fatalf("hypervisor, %s: %s\n%s", word, line, h.errors())
		}
	case <-time.After(time.Minute):
		h.t.Fatalf("hypervisor, %s: no answer in a minute", word)
	}
}

// cache is a folder for what is kept from one run to the next.
func cache(t Test, name string) string {
	t.Helper()
	user, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(user, "slipway", "libvirt", name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}
