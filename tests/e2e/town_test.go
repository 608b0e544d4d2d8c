// Package e2e runs the built daemon against simulated machines: killed at any
// moment, cut off from its repository, and searched for secrets.
package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// patience bounds every wait.
const patience = 90 * time.Second

// program builds the daemon once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "slipway-e2e-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "slipway")
	cmd := exec.Command("go", "build", "-o", path, "../../cmd/slipway")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// The secrets of every town, found nowhere but in its credentials.
const (
	bmcPassword = "canary-bmc-5f1d0c2a"
	seed        = "e2e"
)

// town is four machines, two of them blank and to be installed, with the
// repository of their site and a daemon.
type town struct {
	t       *testing.T
	dir     string
	fleet   *lab.Fleet
	hostKey string // private, of the os credential
	daemon  *exec.Cmd
	ask     *control.Client
}

var names = []string{"old-1", "old-2", "new-1", "new-2"}

// quick is a model in which a rollout takes a few seconds and each request
// long enough to be killed in.
var quick = lab.Latency{GET: 8 * time.Millisecond, Write: 25 * time.Millisecond, PowerOn: 300 * time.Millisecond,
	PowerOff: 150 * time.Millisecond, Boot: 300 * time.Millisecond, Install: 600 * time.Millisecond}

func newTown(t *testing.T) *town {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	check(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	check(t, err)
	w := &town{t: t, dir: t.TempDir(), hostKey: string(pem.EncodeToMemory(block))}
	config := lab.Config{Seed: seed, Latency: quick}
	for i, name := range names {
		config.Machines = append(config.Machines, lab.MachineConfig{
			Name: name, BMCAddr: fmt.Sprintf("127.95.1.%d", i+1), OSAddr: fmt.Sprintf("127.95.2.%d", i+1), Identity: identity(i),
			Username: "admin", Password: bmcPassword, AuthorizedKeys: []string{string(ssh.MarshalAuthorizedKey(signer.PublicKey()))},
			Power: "off", Blank: strings.HasPrefix(name, "new"), BootOrder: []string{"Hdd", "Pxe"},
		})
	}
	w.fleet, err = lab.Start(config)
	check(t, err)
	t.Cleanup(func() { check(t, w.fleet.Close()) })
	w.write("cred/bmc", "hosts: 127.95.1.0/24\nusername: admin\n\n"+bmcPassword+"\n")
	w.write("cred/os", "hosts: 127.95.2.0/24\nusername: admin\n\n"+w.hostKey)
	w.write("site/cue.mod/module.cue", "module: \"e2e.example/site\"\nlanguage: version: \"v0.17.0\"\n")
	w.write("site/site.cue", w.design())
	w.git("init", "-q", "-b", "main", "site")
	w.git("-C", "site", "add", "-A")
	w.git("-C", "site", "commit", "-q", "-m", "the site")
	w.git("clone", "-q", "--bare", "site", "site.git")
	w.git("-C", "site", "remote", "add", "origin", "../site.git")
	w.ask = control.Dial(control.Socket(w.path("state")))
	t.Cleanup(w.ask.Close)
	t.Cleanup(func() {
		if w.daemon != nil {
			w.kill()
		}
	})
	return w
}

func identity(i int) site.Identity {
	return site.Identity{UUID: fmt.Sprintf("5e1d0000-0000-4000-8000-%012d", i+1), Serial: fmt.Sprintf("E2E%d", i+1)}
}

// design is the site's only CUE file.
func (w *town) design() string {
	var b strings.Builder
	fmt.Fprintf(&b, `package town

import "github.com/slipway-gitops/slipway/schema"

site: schema.#Site & {rollout: {maxUnavailable: "100%%", pollEvery: "200ms", observeEvery: "500ms", reportEvery: "300ms"}}
roles: worker: {}
racks: r1: {}
credentials: {bmc: {}, os: {}}
images: debian12: {url: %q, sha256: %q}
profiles: worker: {
	role: "worker"
	rack: "r1"
	power: "on"
	boot: order: ["Hdd", "Pxe"]
	image: "debian12"
	endpoints: bmc: trust: ca: """
		%s
		"""
}
`, w.fleet.ImageURL("debian12"), w.fleet.ImageSHA256("debian12"), strings.ReplaceAll(strings.TrimSpace(string(w.fleet.CA())), "\n", "\n\t\t"))
	for i, name := range names {
		id := identity(i)
		fmt.Fprintf(&b, "nodes: %q: {\n\tprofiles: [\"worker\"]\n\tidentity: {uuid: %q, serial: %q}\n\tendpoints: bmc: url: %q\n\tendpoints: os: {url: %q, trust: hostKeys: [%q]}\n",
			name, id.UUID, id.Serial, w.fleet.BMCURL(name), w.fleet.OSURL(name), w.fleet.HostKey(name))
		if strings.HasPrefix(name, "new") {
			b.WriteString("\tgeneration: 1\n")
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *town) path(name string) string { return filepath.Join(w.dir, name) }

func (w *town) write(name, text string) {
	w.t.Helper()
	check(w.t, os.MkdirAll(filepath.Dir(w.path(name)), 0o700))
	check(w.t, os.WriteFile(w.path(name), []byte(text), 0o600))
}

// git runs git in the town's folder and gives what it prints.
func (w *town) git(args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=E2E", "-c", "user.email=e2e@example.org"}, args...)...)
	cmd.Dir = w.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// commit pushes another design.
func (w *town) commit(text, message string) {
	w.t.Helper()
	w.write("site/site.cue", text)
	w.git("-C", "site", "commit", "-qam", message)
	w.git("-C", "site", "push", "-q", "origin", "main")
}

// start starts the daemon.
func (w *town) start() {
	w.t.Helper()
	path, err := program()
	check(w.t, err)
	log, err := os.OpenFile(w.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	check(w.t, err)
	defer log.Close()
	w.daemon = exec.Command(path, "run", "--verbose", "--site", "town", "--repo", w.path("site.git"), "--state", w.path("state"), "--credentials", w.path("cred"))
	w.daemon.Stdout, w.daemon.Stderr = log, log
	w.daemon.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(w.t, w.daemon.Start())
}

// kill ends the daemon as a power cut would.
func (w *town) kill() {
	w.daemon.Process.Kill()
	w.daemon.Wait()
	w.daemon = nil
}

// stop ends the daemon as systemd would, within its patience.
func (w *town) stop() {
	w.t.Helper()
	check(w.t, w.daemon.Process.Signal(syscall.SIGTERM))
	done := make(chan error, 1)
	go func() { done <- w.daemon.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			w.t.Errorf("daemon ended with %v\n%s", err, w.log())
		}
	case <-time.After(25 * time.Second):
		w.t.Error("the daemon does not end")
		w.daemon.Process.Kill()
	}
	w.daemon = nil
}

func (w *town) log() string {
	text, err := os.ReadFile(w.path("log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}

// until waits for a condition.
func (w *town) until(what string, ok func() bool) {
	w.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			r, err := w.ask.Report("")
			w.t.Fatalf("never: %s\n%+v %v\n%s", what, r.Status.Nodes, err, w.log())
		}
	}
}

// approve approves the installations once all of them wait. It says false when
// the daemon went away meanwhile.
func (w *town) approve() bool {
	r, err := w.ask.Report("")
	if err != nil || len(r.Status.Waiting) != 2 {
		return false
	}
	_, err = w.ask.Do(context.Background(), "", site.Order{Verb: site.VerbApprove, Digest: r.Status.Approve, By: "e2e"})
	return err == nil
}

// inSync says whether all nodes are.
func (w *town) inSync() bool {
	r, err := w.ask.Report("")
	return err == nil && r.Status.Counts()[site.InSync] == len(names)
}

// converge approves what waits and waits for all nodes.
func (w *town) converge() {
	w.t.Helper()
	w.until("all in-sync", func() bool {
		w.approve()
		return w.inSync()
	})
}

// intact fails the test unless each machine was reset and installed exactly as
// often as the design asks.
func (w *town) intact() {
	w.t.Helper()
	for _, name := range names {
		m := w.fleet.Machine(name)
		resets, installs, digest := 1, 0, "factory"
		if strings.HasPrefix(name, "new") {
			resets, installs, digest = 2, 1, w.fleet.ImageSHA256("debian12")
		}
		s := m.State()
		if s.Counts.Resets != resets || s.Counts.Installs != installs || s.Power != "On" || s.Media != "" {
			w.t.Errorf("%s: %+v, want %d resets, %d installs", name, s, resets, installs)
		}
		if installs == 1 && (s.DiskDigest != digest || s.Marker == nil || s.Marker.Generation != 1 || s.Marker.Node != name) {
			w.t.Errorf("%s: disk %s with marker %+v", name, s.DiskDigest, s.Marker)
		}
	}
}
