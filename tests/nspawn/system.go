// Package nspawn builds the packages and runs a clean Debian with systemd, in
// which tests install them.
package nspawn

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

//go:embed system.sh
var recipe []byte

// bootTime is how long a system may take until it runs.
const bootTime = 3 * time.Minute

// System is a Debian that runs systemd in namespaces of its own.
type System struct {
	Root    string // its file system
	t       testing.TB
	network Network
	name    string
	leader  string // the process id of its first process
	cmd     *exec.Cmd
	said    bytes.Buffer
}

// systems counts those of this program, whose names must differ.
var systems atomic.Int64

// Require skips the test where a program or root's rights are missing. Under CI
// the test fails instead.
func Require(t testing.TB, programs ...string) {
	t.Helper()
	var missing []string
	for _, p := range append(programs, "systemd-nspawn", "mmdebstrap", "nsenter", "tar", "bash") {
		if _, err := exec.LookPath(p); err != nil {
			missing = append(missing, p)
		}
	}
	why := ""
	switch {
	case len(missing) > 0:
		why = strings.Join(missing, ", ") + " not installed: run make setup"
	case os.Geteuid() != 0:
		why = "only root may have namespaces"
	default:
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// built is what make packages builds for this host's architecture, once for all
// tests.
var built struct {
	sync.Once
	folder string
	err    error
}

// Main runs the tests of a package, and then removes what Packages has built.
func Main(m *testing.M) (code int) {
	code = m.Run()
	if err := os.RemoveAll(built.folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Packages are what make packages builds, in a folder.
func Packages(t testing.TB) (folder string) {
	t.Helper()
	built.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "packages-"); built.err == nil {
			built.err = Build(built.folder, "022")
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.folder
}

// Build builds the packages with a umask and variables of the environment.
func Build(folder, umask string, env ...string) error {
	cmd := exec.Command("sh", "-ec", `umask "$0"; cd "$(go list -m -f '{{.Dir}}')/packaging"; exec go run . --out "$1" --arch "$2"`, umask, folder, runtime.GOARCH)
	cmd.Env = append(append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make packages: %w\n%s", err, out)
	}
	return nil
}

// Only is the one file of a folder with an ending.
func Only(t testing.TB, folder, ending string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "*"+ending))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d files *%s, %v", len(found), ending, err)
	}
	return found[0]
}

// archive is a tar of a system with further packages, made at its first use and kept in
// the user's cache.
func archive(t testing.TB, of Suite, packages []string) string {
	t.Helper()
	user, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if of.Codename == ownCodename() {
		of.Codename = "" // one archive for both
	}
	more := strings.Join(packages, ",")
	sum := sha256.Sum256(slices.Concat(recipe, []byte(of.Codename+"\n"+more)))
	file := filepath.Join(user, "slipway", "install", hex.EncodeToString(sum[:8])+".tar")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return file
	}
	program := filepath.Join(t.TempDir(), "system.sh")
	if err := os.WriteFile(program, recipe, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", program, file+".new", of.Codename, more)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a system of %s: %v\n%s", cmp.Or(of.Name, "this host's release"), err, out)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	return file
}

// ownCodename is that of this host's release.
func ownCodename() string {
	text, _ := os.ReadFile("/etc/os-release") // without it nothing has its codename
	_, rest, _ := strings.Cut(string(text), "\nVERSION_CODENAME=")
	name, _, _ := strings.Cut(rest, "\n")
	return name
}

// Network is what a system reaches: arguments of systemd-nspawn.
type Network string

// The networks.
const (
	Loopback Network = "--private-network" // nothing but its own loopback
	Shared   Network = ""                  // what the test itself reaches
)

// Unpack gives the folder of a system that does not run.
func Unpack(t testing.TB) (root string) {
	t.Helper()
	root = t.TempDir()
	UnpackTo(t, root, Suite{})
	return root
}

// UnpackTo puts a system that does not run into a folder, with further packages of its
// release.
func UnpackTo(t testing.TB, root string, of Suite, packages ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xf", archive(t, of, packages), "-C", root).CombinedOutput(); err != nil {
		t.Fatalf("unpack the system: %v\n%s", err, out)
	}
}

// Layer gives a file system over that of a system that does not run: what is written to
// it is in memory, and away after the test.
func Layer(t testing.TB, base string) (root string) {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("layer", dir, "tmpfs", 0, "mode=0755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unmount(t, dir) })
	root = filepath.Join(dir, "root")
	for _, name := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount("layer", root, "overlay", 0, fmt.Sprintf("lowerdir=%[1]s,upperdir=%[2]s/upper,workdir=%[2]s/work", base, dir)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unmount(t, root) })
	return root
}

func unmount(t testing.TB, at string) {
	if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
		t.Errorf("unmount %s: %v", at, err)
	}
}

// Boot starts a system that ends with the test.
func Boot(t testing.TB, network Network) *System {
	t.Helper()
	return Start(t, Unpack(t), network)
}

// Start starts the system in a folder. It ends with the test.
func Start(t testing.TB, root string, network Network) *System {
	t.Helper()
	s := &System{t: t, Root: root, network: network, name: fmt.Sprintf("slipway-test-%d-%d", os.Getpid(), systems.Add(1))}
	t.Cleanup(func() {
		if s.cmd != nil {
			if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil { // it powers the system off
				t.Error(err)
			}
			s.ended()
		}
		if t.Failed() {
			t.Logf("the system's console:\n%s", s.said.String())
		}
	})
	s.Start()
	return s
}

// Cut ends a system as a power cut does.
func (s *System) Cut() {
	s.t.Helper()
	pid, err := strconv.Atoi(s.leader)
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.ended()
}

func (s *System) ended() {
	_ = s.cmd.Wait() // its code is that of the signal
	s.cmd, s.leader = nil, ""
	if err := os.RemoveAll("/run/systemd/nspawn/propagate/" + s.name); err != nil { // systemd-nspawn does so only in a tmpfs
		s.t.Error(err)
	}
}

// Leader is the process id of the system's first process.
func (s *System) Leader() string { return s.leader }

// Start starts a system again that was cut.
func (s *System) Start() {
	t := s.t
	t.Helper()
	// systemd-nspawn tells here what runs (sd_notify(3)).
	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.SetReadDeadline(time.Now().Add(bootTime)); err != nil {
		t.Fatal(err)
	}
	args := []string{"--quiet", "--directory=" + s.Root, "--boot", "--register=no", "--keep-unit", "--notify-ready=yes", "--console=pipe", "--machine=" + s.name}
	if s.network != Shared {
		args = append(args, strings.Fields(string(s.network))...)
	}
	cmd := exec.Command("systemd-nspawn", args...)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket)
	if strings.Contains(string(s.network), "--network-namespace-path=") {
		cmd.Env = append(cmd.Env, "SYSTEMD_NSPAWN_API_VFS_WRITABLE=network") // parameters of that network
	}
	if systemdVersion(s.Root) >= 258 { // which has no other hierarchy of control groups, whatever this host has
		cmd.Env = append(cmd.Env, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1")
	}
	cmd.Stdout, cmd.Stderr = &s.said, &s.said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	runtime.LockOSThread() // the signal comes when the thread ends
	t.Cleanup(runtime.UnlockOSThread)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.cmd = cmd
	for message := make([]byte, 4096); ; {
		n, err := l.Read(message)
		if err != nil {
			t.Fatalf("the system does not start: %v", err)
		}
		for line := range strings.Lines(string(message[:n])) {
			if pid, ok := strings.CutPrefix(strings.TrimSpace(line), "X_NSPAWN_LEADER_PID="); ok {
				s.leader = pid
			}
			if strings.TrimSpace(line) == "READY=1" && s.leader != "" {
				return
			}
		}
	}
}

// systemdVersion is that of a system that does not run, by the name of its library; 0
// where that is not found.
func systemdVersion(root string) int {
	libraries, _ := filepath.Glob(filepath.Join(root, "usr/lib/*/systemd/libsystemd-shared-*.so"))
	for _, library := range libraries {
		_, version, _ := strings.Cut(strings.TrimSuffix(filepath.Base(library), ".so"), "shared-")
		if n, err := strconv.Atoi(version); err == nil {
			return n
		}
	}
	return 0
}

// Run runs a shell's words inside, as root, and gives what it prints.
func (s *System) Run(words string) (out string, err error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "--target="+s.leader, "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd", "--",
		"env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive", "sh", "-ec", words)
	b, err := cmd.CombinedOutput()
	return strings.TrimRight(string(b), " \n"), err
}

// Does fails the test where a command fails.
func (s *System) Does(words string) string {
	s.t.Helper()
	out, err := s.Run(words)
	if err != nil {
		s.t.Fatalf("%s: %v\n%s\n%s", words, err, out, s.Log())
	}
	return out
}

// Says holds what a command prints.
func (s *System) Says(words, want string) {
	s.t.Helper()
	if got := s.Does(words); got != want {
		s.t.Errorf("%s says %q, want %q", words, got, want)
	}
}

// Refuses holds that a command fails, and what it prints.
func (s *System) Refuses(words, want string) {
	s.t.Helper()
	if out, err := s.Run(words); err == nil || !strings.Contains(out, want) {
		s.t.Errorf("%s: %v, %q, want an error with %q", words, err, out, want)
	}
}

// BringSelf puts the test's own program into the system, as /root/program.
func (s *System) BringSelf() {
	s.t.Helper()
	program, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Root, "root/program"), text, 0o700); err != nil {
		s.t.Fatal(err)
	}
}

// Comes waits until a command prints what is wanted.
func (s *System) Comes(words, want string) {
	s.t.Helper()
	end := time.After(2 * time.Minute) // more than the time between two looks
	for out := ""; ; {
		var err error
		if out, err = s.Run(words); strings.Contains(out, want) {
			return
		}
		select {
		case <-end:
			s.t.Fatalf("%s: %v, %q, want %q\n%s", words, err, out, want, s.Log())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Log is what the daemon has logged.
func (s *System) Log() string {
	out, _ := s.Run("journalctl --no-pager -o cat -u slipway -u slipway-backup | tail -n 40") // for a failure that is told already
	return out
}
