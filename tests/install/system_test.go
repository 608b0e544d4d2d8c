// Package install holds that the packages install, run, upgrade and go as
// docs/install.md says, under a real systemd.
package install

import (
	"bytes"
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
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

//go:embed system.sh
var recipe []byte

// bootTime is how long a system may take until it runs.
const bootTime = time.Minute

// system is a Debian that runs systemd in namespaces of its own, without any
// network but its loopback.
type system struct {
	t      *testing.T
	root   string // its file system
	leader string // the process id of its first process
}

// require leaves the test out when it cannot have what it needs.
func require(t *testing.T, programs ...string) {
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

func TestMain(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(built.folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// packages are what make packages builds, in a folder.
func packages(t *testing.T) (folder string) {
	t.Helper()
	built.Do(func() {
		if built.folder, built.err = os.MkdirTemp("", "packages-"); built.err == nil {
			built.err = build(built.folder, "022")
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.folder
}

// build builds the packages with a umask and variables of the environment.
func build(folder, umask string, env ...string) error {
	cmd := exec.Command("sh", "-c", `umask "$0" && exec go run . --out "$1" --arch "$2"`, umask, folder, runtime.GOARCH)
	cmd.Dir, cmd.Env = "../../packaging", append(append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make packages: %w\n%s", err, out)
	}
	return nil
}

// only is the one file of a folder with an ending.
func only(t *testing.T, folder, ending string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "*"+ending))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d files *%s, %v", len(found), ending, err)
	}
	return found[0]
}

// debian is a tar of the system, made at its first use and kept in the user's
// cache.
func debian(t *testing.T) string {
	t.Helper()
	user, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(recipe)
	file := filepath.Join(user, "slipway", "install", hex.EncodeToString(sum[:8])+".tar")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return file
	}
	script := filepath.Join(t.TempDir(), "system.sh")
	if err := os.WriteFile(script, recipe, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", script, file+".new")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a Debian: %v\n%s", err, out)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	return file
}

// boot starts a system that ends with the test.
func boot(t *testing.T) *system {
	t.Helper()
	s := &system{t: t, root: t.TempDir()}
	if out, err := exec.CommandContext(t.Context(), "tar", "-xf", debian(t), "-C", s.root).CombinedOutput(); err != nil {
		t.Fatalf("unpack the Debian: %v\n%s", err, out)
	}
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
	var said bytes.Buffer
	name := fmt.Sprintf("slipway-install-%d", os.Getpid())
	cmd := exec.Command("systemd-nspawn", "--quiet", "--directory="+s.root, "--boot", "--register=no", "--keep-unit", "--private-network",
		"--notify-ready=yes", "--console=pipe", "--machine="+name)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+socket)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	runtime.LockOSThread() // the signal comes when the thread ends
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer runtime.UnlockOSThread()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil { // it powers the system off
			t.Error(err)
		}
		_ = cmd.Wait()                                                                // its code is that of the signal
		if err := os.RemoveAll("/run/systemd/nspawn/propagate/" + name); err != nil { // systemd-nspawn does so only in a tmpfs
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the system's console:\n%s", said.String())
		}
	})
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
				return s
			}
		}
	}
}

// run runs a shell's words inside, as root, and gives what it prints.
func (s *system) run(words string) (out string, err error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "--target="+s.leader, "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd", "--",
		"env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive", "sh", "-ec", words)
	b, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(b)), err
}

// does fails the test where a command fails.
func (s *system) does(words string) string {
	s.t.Helper()
	out, err := s.run(words)
	if err != nil {
		s.t.Fatalf("%s: %v\n%s\n%s", words, err, out, s.log())
	}
	return out
}

// says holds what a command prints.
func (s *system) says(words, want string) {
	s.t.Helper()
	if got := s.does(words); got != want {
		s.t.Errorf("%s says %q, want %q", words, got, want)
	}
}

// refuses holds that a command fails, and what it prints.
func (s *system) refuses(words, want string) {
	s.t.Helper()
	if out, err := s.run(words); err == nil || !strings.Contains(out, want) {
		s.t.Errorf("%s: %v, %q, want an error with %q", words, err, out, want)
	}
}

// comes waits until a command prints what is wanted.
func (s *system) comes(words, want string) {
	s.t.Helper()
	end := time.After(30 * time.Second)
	for out := ""; ; {
		var err error
		if out, err = s.run(words); strings.Contains(out, want) {
			return
		}
		select {
		case <-end:
			s.t.Fatalf("%s: %v, %q, want %q\n%s", words, err, out, want, s.log())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// log is what the daemon has logged.
func (s *system) log() string {
	out, _ := s.run("journalctl --no-pager -o cat -u slipway -u slipway-backup | tail -n 40") // for a failure that is told already
	return out
}
