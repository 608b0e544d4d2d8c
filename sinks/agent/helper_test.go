package agent_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient/sshdtest"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// helperFolder has the helper of a package under the name that the driver looks for.
func helperFolder(t *testing.T, pkg string) string {
	t.Helper()
	folder, err := built(pkg)
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

var folders sync.Map

func built(pkg string) (string, error) {
	once, _ := folders.LoadOrStore(pkg, sync.OnceValues(func() (string, error) {
		folder, err := os.MkdirTemp("", "helpers-")
		if err != nil {
			return "", err
		}
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(folder, "slipway-helper-linux-"+runtime.GOARCH), pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, said)
		}
		return folder, nil
	}))
	return once.(func() (string, error))()
}

func TestMain(m *testing.M) {
	// The tests wait more than they work; an argument overrides it.
	if err := flag.Set("test.parallel", "3"); err != nil {
		panic(err)
	}
	code := m.Run()
	folders.Range(func(_, once any) bool {
		if folder, err := once.(func() (string, error))(); err == nil {
			os.RemoveAll(folder)
		}
		return true
	})
	os.Exit(code)
}

const (
	testHelper = "./testdata/helper"
	realHelper = "../../cmd/slipway-helper"
)

// host is a system behind a real sshd and a real shell whose file system is under a
// folder.
type host struct {
	dir, root string
	sub       drivertest.Subject
	driver    *agent.Driver
}

// system is what every host tells of itself.
var system = map[string]string{
	"/proc/sys/kernel/random/boot_id": "8f1a6a1e-0000-4000-8000-000000000001\n", "/proc/sys/kernel/osrelease": "6.1.0-test\n",
	"/etc/os-release": "PRETTY_NAME=\"A test\"\nID=debian\n",
}

func startHost(t *testing.T, helpers string) *host {
	t.Helper()
	h := &host{dir: t.TempDir(), driver: agent.New(agent.Options{Folder: helpers})}
	h.root = filepath.Join(h.dir, "root")
	t.Cleanup(func() { // a command whose connection was lost may still write
		for end := time.Now().Add(10 * time.Second); os.RemoveAll(h.root) != nil && time.Now().Before(end); {
			<-time.After(20 * time.Millisecond)
		}
	})
	for name, text := range system {
		if err := os.MkdirAll(filepath.Join(h.root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		sshdtest.Write(t, filepath.Join(h.root, name), text)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(h.root, "var/lib"), 0o755), os.MkdirAll(filepath.Join(h.root, "etc/slipway"), 0o755)); err != nil {
		t.Fatal(err)
	}
	hostKey := sshdtest.Key(t, filepath.Join(h.dir, "host"), "ed25519")
	sshdtest.Write(t, filepath.Join(h.dir, "authorized"), sshdtest.Key(t, filepath.Join(h.dir, "user"), "ed25519"))
	address := sshdtest.Serve(t, fmt.Sprintf(`
HostKey %[1]s/host
AuthorizedKeysFile %[1]s/authorized
ForceCommand echo $PPID >> %[1]s/commands; PATH=%[1]s/bin:$PATH sh -c "$(printf %%s "$SSH_ORIGINAL_COMMAND" | sed -e s,/etc/slipway/,%[1]s/root/etc/slipway/,g -e s,D=/var/lib,D=%[1]s/root/var/lib,g -e s,/dev/shm,%[1]s,g -e 's,--checksum,--root %[1]s/root --checksum,g')"
`, h.dir))
	h.sub = drivertest.Subject{
		Endpoint: site.Endpoint{URL: "ssh://" + address, Trust: site.Trust{HostKeys: []string{hostKey}}},
		Secret:   secret.New(sshdtest.Account(t), sshdtest.Read(t, filepath.Join(h.dir, "user"))), Node: &site.Node{Name: "n1"},
		Counts: func() drivertest.Counts { return drivertest.Counts{Writes: len(h.files(t))} },
	}
	return h
}

// files are all files under the root.
func (h *host) files(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir(h.root, func(path string, d os.DirEntry, err error) error {
		name := strings.TrimPrefix(path, h.root)
		if _, always := system[name]; err == nil && !always && !d.IsDir() && d.Name() != "marker.json" { // which the test put there
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// commands are how many commands were run over how many connections, since it was
// asked before.
func (h *host) commands(t *testing.T) (commands, connections int) {
	t.Helper()
	path := filepath.Join(h.dir, "commands")
	all := strings.Fields(sshdtest.Read(t, path))
	os.Remove(path)
	commands = len(all)
	slices.Sort(all)
	return commands, len(slices.Compact(all))
}

func (h *host) open(t *testing.T, term uint64) driver.Machine {
	t.Helper()
	m, err := h.driver.Open(t.Context(), h.sub.Endpoint, h.sub.Secret)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	m.(driver.Namer).Name("s1", term)
	return m
}

func (h *host) see(t *testing.T, m driver.Machine, n *site.Node) site.FacetState {
	t.Helper()
	seen, err := m.Observe(t.Context(), n, h.driver.Facets())
	if err != nil {
		t.Fatal(err)
	}
	if seen.Facets[site.FacetOS].Have["bootID"] == "" {
		t.Errorf("the system told nothing of itself: %+v", seen)
	}
	return seen.Facets[site.FacetConfig]
}

// files is a node with files of these contents.
func nodeWith(contents map[string]string) *site.Node {
	n := &site.Node{Name: "n1", System: site.System{Files: map[string]site.File{}}}
	for path, text := range contents {
		n.System.Files[path] = site.File{Content: &text, Mode: "0644", Owner: "root", Group: "root"}
	}
	return n
}

var configure = site.Step{Node: "n1", Facet: site.FacetConfig, Action: site.ActionConfig}

func TestConformanceWithAHelper(t *testing.T) {
	t.Parallel()
	for _, helper := range []string{testHelper, realHelper} {
		t.Run(filepath.Base(helper), func(t *testing.T) {
			folder := helperFolder(t, helper)
			drivertest.Run(t, drivertest.Suite{Driver: agent.New(agent.Options{Folder: folder}), Fresh: func(t *testing.T) drivertest.Subject {
				return startHost(t, folder).sub
			}})
		})
	}
}

// What is designed is set and seen, and what leaves the design is removed. A look at
// what has not changed is one command.
func TestFollowsADesign(t *testing.T) {
	t.Parallel()
	h := startHost(t, helperFolder(t, testHelper))
	m := h.open(t, 1)
	n := nodeWith(map[string]string{"/one": "1", "/two": "2"})
	if s := h.see(t, m, n); len(s.Have) > 0 || len(s.Cannot) > 0 || len(s.Owned) > 0 || s.OwnedDigest != "" {
		t.Fatalf("at first: got %+v", s)
	}
	if err := m.Apply(t.Context(), configure, n, nil); err != nil {
		t.Fatal(err)
	}
	h.commands(t)
	s := h.see(t, m, n)
	if diff := cmp.Diff(item.Values(n.Items(site.FacetConfig)), map[string]string(s.Have)); diff != "" {
		t.Error(diff)
	}
	if commands, connections := h.commands(t); commands != 1 || connections != 1 {
		t.Errorf("a look took %d commands over %d connections", commands, connections)
	}
	if want := []string{"files./one", "files./two"}; !slices.Equal(s.Owned, want) || s.OwnedDigest == "" {
		t.Errorf("got %+v", s)
	}

	fewer := nodeWith(map[string]string{"/one": "1"})
	h.see(t, m, fewer)
	step := configure
	step.Owned, step.Remove = "0a", []string{"files./two"}
	if err := m.Apply(t.Context(), step, fewer, nil); !errors.Is(err, driver.ErrRefused) || !strings.Contains(fmt.Sprint(err), "nothing was removed of files./two") {
		t.Errorf("with the digest of another list: got %v", err)
	}
	if !slices.Contains(h.files(t), "/two") {
		t.Fatal("the file was removed")
	}
	step.Owned = s.OwnedDigest
	if err := m.Apply(t.Context(), step, fewer, nil); err != nil {
		t.Fatal(err)
	}
	if files := h.files(t); slices.Contains(files, "/two") || !slices.Contains(files, "/one") {
		t.Errorf("got %v", files)
	}
}

// A system of which nothing is asked gets no helper, and is not written to.
func TestBringsNothingThatIsNotNeeded(t *testing.T) {
	t.Parallel()
	h := startHost(t, helperFolder(t, testHelper))
	m := h.open(t, 1)
	s := h.see(t, m, h.sub.Node)
	if files := h.files(t); len(files) > 0 || len(s.Cannot) > 0 || s.Seen.IsZero() {
		t.Errorf("got %v, %+v", files, s)
	}
	if commands, _ := h.commands(t); commands != 1 {
		t.Errorf("a look took %d commands", commands)
	}
}

// A daemon that only observes lends the helper to a machine for the time of a look, in
// memory, and leaves nothing there.
func TestObserveOnlyBringsNothing(t *testing.T) {
	t.Parallel()
	folder := helperFolder(t, testHelper)
	h := startHost(t, folder)
	n := nodeWith(map[string]string{"/one": "1"})
	acts := h.driver
	h.driver = agent.New(agent.Options{Folder: folder, ObserveOnly: true})
	for range 2 {
		if s := h.see(t, h.open(t, 1), n); len(s.Cannot) > 0 || s.Seen.IsZero() {
			t.Errorf("got %+v", s)
		}
		if files := h.files(t); len(files) > 0 {
			t.Fatalf("a look brought %v", files)
		}
	}
	if left, err := filepath.Glob(filepath.Join(h.dir, "slipway-*")); err != nil || len(left) > 0 {
		t.Errorf("a look left %v, %v", left, err)
	}
	observes := h.driver
	h.driver = acts
	h.see(t, h.open(t, 1), n)
	h.driver = observes
	if s := h.see(t, h.open(t, 1), n); len(s.Cannot) > 0 || s.Seen.IsZero() {
		t.Errorf("with the helper there: got %+v", s)
	}
}

// A helper that is damaged or older is replaced.
func TestReplacesHelpers(t *testing.T) {
	t.Parallel()
	h := startHost(t, helperFolder(t, testHelper))
	n := nodeWith(map[string]string{"/one": "1"})
	h.see(t, h.open(t, 1), n)
	folder := filepath.Join(h.root, inside.Folder)
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got %v, %v", info, err)
	}
	helper := filepath.Join(h.root, h.files(t)[0])
	whole := sshdtest.Read(t, helper)
	if err := os.Remove(helper); err != nil { // it may run still
		t.Fatal(err)
	}
	if err := os.WriteFile(helper, []byte(whole[:100_000]), 0o700); err != nil {
		t.Fatal(err)
	}
	sshdtest.Write(t, filepath.Join(folder, "helper-older"), "x")
	if s := h.see(t, h.open(t, 1), n); len(s.Cannot) > 0 {
		t.Errorf("got %+v", s)
	}
	if files := h.files(t); len(files) != 1 {
		t.Errorf("got %v", files)
	}
}

func TestWhatTheHelperSays(t *testing.T) {
	t.Parallel()
	h := startHost(t, helperFolder(t, testHelper))
	for content, c := range map[string]struct {
		class error
		says  string
	}{
		"panic":  {nil, "this is a fault of Slipway, report it: as asked, at "},
		"refuse": {driver.ErrRefused, `this system cannot have it[2J`},
		"fail":   {nil, "permission denied"},
		"forget": {nil, `files./one.content is "" and not "sha256:`},
		"die":    {driver.ErrUnreachable, ""},
	} {
		t.Run(content, func(t *testing.T) {
			m := h.open(t, 1)
			n := nodeWith(map[string]string{"/one": content})
			h.see(t, m, n)
			err := m.Apply(t.Context(), configure, n, nil)
			if err == nil || c.class != nil && !errors.Is(err, c.class) && content != "die" || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %v that says %q", err, c.class, c.says)
			}
			for _, class := range []error{driver.ErrRefused, driver.ErrBusy, driver.ErrDenied} {
				if class != c.class && errors.Is(err, class) {
					t.Errorf("%v is %v", err, class)
				}
			}
		})
	}
	// Whatever was left half done, the next run does it.
	if err := h.open(t, 1).Apply(t.Context(), configure, nodeWith(map[string]string{"/one": "die"}), nil); err == nil {
		t.Error("a helper that died had done it")
	}
	n := nodeWith(map[string]string{"/one": "at last"})
	var told []string
	ctx := driver.ShowWaits(t.Context(), func(w *driver.Wait) {
		if w != nil {
			told = append(told, w.For)
		}
	})
	if err := h.open(t, 1).Apply(ctx, configure, n, nil); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(told, "\n"); !strings.Contains(text, "the system: an earlier run ") || !strings.Contains(text, "the system: writing files./one") {
		t.Errorf("it told %q", told)
	}
}

func TestOlderTermIsRefused(t *testing.T) {
	t.Parallel()
	h := startHost(t, helperFolder(t, testHelper))
	n := nodeWith(map[string]string{"/one": "1"})
	if err := h.open(t, 7).Apply(t.Context(), configure, n, nil); err != nil {
		t.Fatal(err)
	}
	older, n := h.open(t, 6), nodeWith(map[string]string{"/one": "2"})
	err := older.Apply(t.Context(), configure, n, nil)
	if !errors.Is(err, driver.ErrOutranked) || !strings.Contains(err.Error(), "term 7") || !strings.Contains(err.Error(), "term 6") {
		t.Errorf("got %v", err)
	}
	h.see(t, older, n)
	if err := older.(driver.Namer).Outranked(t.Context()); !errors.Is(err, driver.ErrOutranked) {
		t.Errorf("after a look: got %v", err)
	}
	if got := sshdtest.Read(t, filepath.Join(h.root, "one")); got != "1" {
		t.Errorf("the file has %q", got)
	}
}

// Another system than that of the node is not written to, nor is the helper brought
// there.
func TestMarkerOfAnother(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ marker, says string }{
		"another node":          {`{"site":"s1","node":"n2","generation":1}`, "that of node n2"},
		"another site":          {`{"site":"s2","node":"n1","generation":1}`, "belongs to site s2"},
		"it cannot be read":     {`{"node":`, "Slipway does not know whether it is n1"},
		"it names nothing":      {`{}`, "Slipway does not know whether it is n1"},
		"a node without a site": {`{"node":"n2"}`, "that of node n2"},
		"escapes in its names":  {`{"node":"n2\u001b[2J"}`, "that of node n2"},
	} {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, helperFolder(t, testHelper))
			n := nodeWith(map[string]string{"/one": "1"})
			sshdtest.Write(t, filepath.Join(h.root, "etc/slipway/marker.json"), c.marker)
			m := h.open(t, 1)
			refused := func(err string) {
				t.Helper()
				if !strings.Contains(err, c.says) || strings.Contains(err, "\x1b") {
					t.Errorf("got %q, want %q", err, c.says)
				}
			}
			refused(h.see(t, m, n).Cannot["files./one"])
			if files := h.files(t); len(files) > 0 {
				t.Errorf("a look brought %v", files)
			}
			err := m.Apply(t.Context(), configure, n, nil)
			if !errors.Is(err, driver.ErrRefused) {
				t.Errorf("got %v", err)
			}
			refused(fmt.Sprint(err))
			if files := h.files(t); len(files) > 0 {
				t.Errorf("a step brought %v", files)
			}
		})
	}
}

// superseded is a guard of a step whose design has changed since.
type superseded struct{}

func (superseded) Login(_ context.Context, send func() error) error { return send() }

func (superseded) Interrupt(context.Context, func() error) error { return driver.ErrInterrupted }

// What the design says by now is asked for after the connection was made, right before the system is changed.
func TestStepOfAnEarlierDesign(t *testing.T) {
	t.Parallel()
	h := startHost(t, helperFolder(t, testHelper))
	n := nodeWith(map[string]string{"/one": "1"})
	m := h.open(t, 1)
	h.see(t, m, n)
	if err := m.Apply(driver.Guarded(t.Context(), superseded{}), configure, n, nil); !errors.Is(err, driver.ErrInterrupted) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(h.root, "one")); err == nil {
		t.Error("the file was written")
	}
	if err := m.Apply(t.Context(), configure, n, nil); err != nil {
		t.Error(err)
	}
}

// The helper that may have to set the network back stays as long as that is so.
func TestHelperThatSetsTheNetworkBackStays(t *testing.T) {
	t.Parallel()
	h := startHost(t, helperFolder(t, testHelper))
	older := filepath.Join(h.root, inside.Folder, "helper-older")
	if err := os.MkdirAll(filepath.Dir(older), 0o700); err != nil {
		t.Fatal(err)
	}
	sshdtest.Write(t, older, "x")
	unconfirmed := filepath.Join(h.root, inside.Folder, "network-unconfirmed")
	sshdtest.Write(t, unconfirmed, "{}")
	n := nodeWith(map[string]string{"/one": "1"})
	h.see(t, h.open(t, 1), n)
	if files := h.files(t); len(files) != 3 {
		t.Errorf("got %v, want the new helper beside the old one", files)
	}
}

// Without a folder of helpers nothing inside systems is looked at or set.
func TestNoHelpersMeanTheOSAlone(t *testing.T) {
	if f := agent.New(agent.Options{}).Facets(); !slices.Equal(f, []site.Facet{site.FacetOS}) {
		t.Errorf("got %v", f)
	}
}

// What keeps the helper from a machine costs what it would tell, and is said.
func TestWithoutAHelper(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		folder func(t *testing.T) string
		make   func(t *testing.T, h *host)
		says   string
	}{
		"no file": {func(t *testing.T) string { return t.TempDir() }, nil, "there is no helper for " + runtime.GOARCH},
		"no sudo": {func(t *testing.T) string { return helperFolder(t, testHelper) }, func(t *testing.T, h *host) {
			program(t, h, "id", "echo 1000")
			program(t, h, "sudo", "echo sudo: a password is required >&2; exit 1")
		}, "ALL=(root) NOPASSWD: ALL` into /etc/sudoers.d/slipway there (sudo says: sudo: a password is required)"},
		"a full disk": {func(t *testing.T) string { return helperFolder(t, testHelper) }, func(t *testing.T, h *host) {
			program(t, h, "mkdir", "echo mkdir: no space left on device >&2; exit 1")
		}, "no space left on device"},
		"cut off on its way": {func(t *testing.T) string { return helperFolder(t, testHelper) }, func(t *testing.T, h *host) {
			program(t, h, "sha256sum", "head -c 1000 | /usr/bin/sha256sum")
		}, "the digest of what arrived is "},
		"another processor": {func(t *testing.T) string { return helperFolder(t, testHelper) }, func(t *testing.T, h *host) {
			program(t, h, "uname", "echo riscv64")
		}, `there is no helper for "riscv64" machines`},
	} {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, c.folder(t))
			if c.make != nil {
				c.make(t, h)
			}
			m, n := h.open(t, 1), nodeWith(map[string]string{"/one": "1"})
			s := h.see(t, m, n)
			if why := s.Cannot["files./one"]; !strings.Contains(why, c.says) || !s.Seen.IsZero() {
				t.Errorf("got %+v, want %q", s, c.says)
			}
			if err := m.Apply(t.Context(), configure, n, nil); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if files := h.files(t); len(files) > 0 {
				t.Errorf("left behind: %v", files)
			}
		})
	}
}

// program puts a program of the host's before the real one.
func program(t *testing.T, h *host, name, script string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(h.dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(h.dir, "bin", name)
	sshdtest.Write(t, path, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

// An account with sudo is as good as root.
func TestSudo(t *testing.T) {
	t.Parallel()
	h := startHost(t, helperFolder(t, testHelper))
	program(t, h, "id", "echo 1000")
	program(t, h, "sudo", `[ "$1" = -n ] && shift && exec "$@"`)
	m, n := h.open(t, 1), nodeWith(map[string]string{"/one": "1"})
	if err := m.Apply(t.Context(), configure, n, nil); err != nil {
		t.Fatal(err)
	}
	if s := h.see(t, m, n); len(s.Have) == 0 {
		t.Errorf("got %+v", s)
	}
}

// Whatever answers in the place of a helper, it is said in a sentence, within bounds,
// and what the shell told is kept.
func TestHostileHelper(t *testing.T) {
	agent.ShortenLooks(t, 10*time.Second)
	frame := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + string(text)
	}
	for name, c := range map[string]struct {
		answer func(io.Writer)
		says   string
	}{
		"garbage":         {prints("\x7fELF\x1b[2J"), "did not answer: "},
		"nothing":         {prints(""), "did not answer: nothing"},
		"half a frame":    {prints("\x00\x00\x10\x00{"), "did not answer to the end: unexpected EOF"},
		"no JSON":         {prints("\x00\x00\x00\x02{]"), "did not answer to the end: invalid character"},
		"a frame too big": {prints("\x04\x00\x00\x01{"), "larger than the limit of"},
		"endless text":    {endless("yes\n"), "did not answer: yes yes"},
		"endless frames":  {endless(frame(wire.Frame{Progress: &wire.Progress{Text: strings.Repeat("x", 1<<20)}})), ""}, // ended by its size or by the time
		"another version": {prints(frame(wire.Frame{Result: &wire.Result{Error: &wire.Error{Class: wire.Refused, Text: "the daemon speaks version 1\x1b[2J"}}})), "the daemon speaks version 1"},
		"silence":         {func(io.Writer) { <-time.After(12 * time.Second) }, "unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, func(w io.Writer) {
				io.WriteString(w, answer+"\n--helper\n")
				c.answer(w)
			})
			m, err := agent.New(agent.Options{}).Open(t.Context(), s.endpoint(), password)
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			n := nodeWith(map[string]string{"/one": "1"})
			seen, err := m.Observe(t.Context(), n, []site.Facet{site.FacetOS, site.FacetConfig})
			if err != nil {
				t.Fatal(err)
			}
			why := seen.Facets[site.FacetConfig].Cannot["files./one"]
			if seen.Facets[site.FacetOS].Have["bootID"] != "b1" || !strings.Contains(why, c.says) || len(why) > 3000 || why != site.PrintableLines(why) {
				t.Errorf("got %q, want %q, of %+v", why, c.says, seen)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func endless(text string) func(io.Writer) {
	return func(w io.Writer) {
		for {
			if _, err := io.WriteString(w, text); err != nil {
				return
			}
		}
	}
}

// A change of the network is confirmed over a new connection, also where the old one
// was cut by it; where none comes about it is said when the machine sets it back.
func TestConfirmsTheNetwork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mtu  int
		says string
	}{
		"reachable":           {1500, ""},
		"the connection ends": {602, ""},
		"the answer is lost":  {605, ""},
		"never confirmed":     {601, "the machine sets it back by itself at "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHost(t, helperFolder(t, testHelper))
			n := &site.Node{Name: "n1", References: site.References{Links: map[string]item.Link{
				"eth0": {Kind: "ethernet", MTU: c.mtu, Addresses: []string{"127.0.0.1/8", "fe80::1/64"}},
			}}}
			m := h.open(t, 1)
			if s := h.see(t, m, n); s.Seen.IsZero() {
				t.Fatalf("got %+v", s)
			}
			h.commands(t)
			err := m.Apply(t.Context(), site.Step{Node: "n1", Facet: site.FacetNetwork, Action: site.ActionNetwork}, n, nil)
			if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), c.says)) {
				t.Fatalf("got %v, want %q", err, c.says)
			}
			if _, connections := h.commands(t); connections < 2 && c.says == "" {
				t.Error("no new connection was made")
			}
			if waits := slices.Contains(h.files(t), "/unconfirmed"); waits != (c.says != "") {
				t.Errorf("the change waits to be confirmed: %v", waits)
			}
		})
	}
}

// A daemon that ends before it has tried to confirm a change says so.
func TestConfirmingIsCancelled(t *testing.T) {
	t.Parallel()
	h := startHost(t, helperFolder(t, testHelper))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := agent.Confirm(ctx, h.open(t, 1), &site.Node{Name: "n1"})
	if !errors.Is(err, driver.ErrUnreachable) || !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "%!") {
		t.Errorf("got %v", err)
	}
}

// A machine whose network changes is told which others are on its networks, to see by itself that it
// still reaches them.
func TestChangesOfTheNetworkNameOthers(t *testing.T) {
	t.Parallel()
	h := startHost(t, helperFolder(t, testHelper))
	n := &site.Node{Name: "n1", References: site.References{Links: map[string]item.Link{"eth0": {Kind: "ethernet", Addresses: []string{"127.0.0.1/8"}}}}}
	m := h.open(t, 1)
	m.(driver.Linked).Targets(func(n *site.Node) []item.Target {
		return []item.Target{{Network: "storage", Node: "n2", Address: "10.2.0.12"}}
	})
	h.see(t, m, n)
	record := filepath.Join(h.root, "record")
	sshdtest.Write(t, record, "")
	if err := m.Apply(t.Context(), site.Step{Node: "n1", Facet: site.FacetNetwork, Action: site.ActionNetwork}, n, nil); err != nil {
		t.Fatal(err)
	}
	if asked := sshdtest.Read(t, record); !strings.Contains(asked, `"targets":[{"network":"storage","node":"n2","address":"10.2.0.12"}]`) {
		t.Errorf("it was asked %.500q", asked)
	}
}

// Only the endpoint's address proves that the way in is left, as long as the design or the system
// has it: of another network of the node an answer proves nothing about that. Where it was moved,
// the address in its place does.
func TestConfirmsOverTheEndpoint(t *testing.T) {
	t.Parallel()
	const confirmed = ""
	for name, c := range map[string]struct {
		designed []string
		answers  string // beside the endpoint, until that has been moved or cut off
		has      string // what ip(8) tells of the system
		says     string
	}{
		"it is cut off and still designed":     {[]string{"127.0.0.1/24", "127.1.0.2/24"}, "127.1.0.2", "", "no new connection to 127.0.0.1:PORT succeeded"},
		"it is cut off and nobody designed it": {[]string{"127.1.0.2/24"}, "127.1.0.2", "1: eth0 inet 127.0.0.1/24 scope global", "but Slipway logs in at 127.0.0.1, which the system still has"},
		"it was moved in its network":          {[]string{"127.0.0.3/24", "127.1.0.2/24"}, "127.0.0.3", "1: eth0 inet 127.0.0.3/24 scope global", confirmed},
		"it was moved there to no use":         {[]string{"127.0.0.3/24", "127.1.0.2/24"}, "127.1.0.2", "", "no new connection to 127.0.0.1:PORT or 127.0.0.3:PORT succeeded"},
		"it was moved to another network":      {[]string{"127.1.0.2/24"}, "127.1.0.2", "1: eth0 inet 127.1.0.2/24 scope global", confirmed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHost(t, helperFolder(t, testHelper))
			program(t, h, "ip", fmt.Sprintf("echo %q", c.has))
			port := h.cutOff(t, c.answers)
			is := item.Link{Kind: "ethernet", Addresses: c.designed}
			if c.says != confirmed {
				is.MTU = 604 // waits for a short time
			}
			n := &site.Node{Name: "n1", References: site.References{Links: map[string]item.Link{"eth0": is}}}
			m := h.open(t, 1)
			h.see(t, m, n)
			err := m.Apply(t.Context(), site.Step{Node: "n1", Facet: site.FacetNetwork, Action: site.ActionNetwork}, n, nil)
			if says := strings.ReplaceAll(c.says, "PORT", port); c.says == confirmed && err != nil || c.says != confirmed && (!errors.Is(err, driver.ErrUnreachable) || !strings.Contains(err.Error(), says)) {
				t.Errorf("got %v, want %q", err, says)
			}
			if waits := slices.Contains(h.files(t), "/unconfirmed"); waits != (c.says != confirmed) {
				t.Errorf("the change waits to be confirmed: %v", waits)
			}
		})
	}
}

// cutOff gives the host an endpoint at 127.0.0.1 that lets nobody in as soon as a change waits to
// be confirmed, and another address with the same port that does. It returns the port.
func (h *host) cutOff(t *testing.T, other string) (port string) {
	t.Helper()
	server := strings.TrimPrefix(h.sub.Endpoint.URL, "ssh://")
	listen := func(address string, open func() bool) string {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go between(conn, server, open())
			}
		}()
		return l.Addr().String()
	}
	endpoint := listen("127.0.0.1:0", func() bool {
		_, err := os.Stat(filepath.Join(h.root, "unconfirmed"))
		return err != nil
	})
	_, port, _ = net.SplitHostPort(endpoint)
	listen(net.JoinHostPort(other, port), func() bool { return true })
	h.sub.Endpoint.URL = "ssh://" + endpoint
	return port
}

// between passes on what is said between a connection and a server.
func between(conn net.Conn, server string, open bool) {
	defer conn.Close()
	if !open {
		return
	}
	to, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		io.Copy(to, conn)
		to.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(conn, to)
}

// A connection from before the network was set back may hang for good, as one does whose
// packets are too large for a switch: what has become of the change is asked over another one.
func TestAsksBesideAConnectionThatHangs(t *testing.T) {
	t.Parallel()
	h := startHost(t, helperFolder(t, testHelper))
	n := &site.Node{Name: "n1", References: site.References{Links: map[string]item.Link{"eth0": {Kind: "ethernet", MTU: 603, Addresses: []string{"127.0.0.1/8"}}}}}
	m := h.open(t, 1)
	h.see(t, m, n)
	began := time.Now()
	err := m.Apply(t.Context(), site.Step{Node: "n1", Facet: site.FacetNetwork, Action: site.ActionNetwork}, n, nil)
	if err == nil || !strings.Contains(err.Error(), "no change of the network waits to be confirmed") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s", took)
	}
}

// The content of a public file that differs is told with the look, and of another only
// why not.
func TestTellsContents(t *testing.T) {
	t.Parallel()
	h := startHost(t, helperFolder(t, realHelper))
	m := h.open(t, 1)
	for name, mode := range map[string]os.FileMode{"public": 0o644, "private": 0o600} {
		if err := os.WriteFile(filepath.Join(h.root, name), []byte("there\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(h.root, 0o755); err != nil {
		t.Fatal(err)
	}
	n := nodeWith(map[string]string{"/public": "designed\n", "/private": "designed\n", "/designed-private": "x"})
	f := n.System.Files["/designed-private"]
	f.Mode = "0600"
	n.System.Files["/designed-private"] = f
	want := map[string]item.Content{"files./public": {Text: "there\n", Bytes: 6}, "files./private": {Bytes: 6, Withheld: item.NotPublic}}
	if got := h.see(t, m, n).Contents; !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for _, path := range []string{"/public", "/private"} {
		content := "there\n"
		n.System.Files[path] = site.File{Content: &content}
	}
	if got := h.see(t, m, n).Contents; len(got) > 0 {
		t.Errorf("of files that are as designed: got %v", got)
	}
}
