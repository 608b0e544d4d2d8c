// Package sshdtest serves SSH by OpenSSH's own server, for tests.
package sshdtest

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// common is what every server here is told: let in the account that runs the
// test, by key or certificate.
const common = `
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
`

// Serve serves on a loopback port until the test ends, as sshd_config(5) lines
// say, and returns the address: each connection is handed to an sshd of its
// own, which ends with it. Where sshd is not installed the test is skipped, and
// fails under CI.
func Serve(t testing.TB, config string) string {
	t.Helper()
	path := find(t)
	if os.Geteuid() == 0 { // Debian's sshd wants it when it runs as root
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "sshd_config")
	Write(t, file, config+common)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { hand(t, conn.(*net.TCPConn), path, file) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

func find(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("/usr/sbin/sshd")
	if err == nil {
		return path
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("openssh-server is not installed: %v", err)
	}
	t.Skipf("openssh-server is not installed: %v", err)
	return ""
}

func hand(t testing.TB, conn *net.TCPConn, sshd, config string) {
	f, err := conn.File()
	conn.Close()
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	var said bytes.Buffer
	cmd := exec.Command(sshd, "-i", "-e", "-f", config)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = f, f, &said
	cmd.Run() // 255 whenever a client just goes
	t.Logf("sshd: %s", said.String())
}

// Account is the one that runs the test, which alone is let in.
func Account(t testing.TB) string {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return me.Username
}

// Key makes a private key at a path, of a kind that ssh-keygen knows, and
// returns the public one, which is beside it.
func Key(t testing.TB, path, kind string) string {
	t.Helper()
	keygen(t, "-t", kind, "-N", "", "-C", "", "-f", path)
	return strings.TrimSpace(Read(t, path+".pub"))
}

// Sign has the authority at a path certify the key at another, with the
// arguments of ssh-keygen that say for what and how long, and returns the
// certificate, which is beside the key.
func Sign(t testing.TB, authority, key string, args ...string) string {
	t.Helper()
	keygen(t, append(append([]string{"-s", authority, "-I", "test"}, args...), key+".pub")...)
	return Read(t, key+"-cert.pub")
}

func keygen(t testing.TB, args ...string) {
	t.Helper()
	if said, err := exec.Command("ssh-keygen", append([]string{"-q"}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen %s: %v: %s", strings.Join(args, " "), err, said)
	}
}

// Read reads a file.
func Read(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Write writes a file that only its owner reads.
func Write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
