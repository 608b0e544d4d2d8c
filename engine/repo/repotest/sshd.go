package repotest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ServeSSH starts OpenSSH's server on a loopback port, for the account that
// runs the test and one key. With v2 it takes the variable by which clients
// ask for version 2 of Git's protocol, which Debian's configuration does not.
//
// Where sshd is not installed the test is skipped, and fails under CI.
func ServeSSH(t testing.TB, v2 bool) *SSH {
	t.Helper()
	sshd := findSSHD(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	host, client := Key(t), Key(t)
	dir := t.TempDir()
	s := &SSH{FreeAddress(t), host.Public, client.Private, me.Username}
	_, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "host_key", host.Private)
	write(t, dir, "authorized_keys", "restrict "+client.Public+"\n")
	config := fmt.Sprintf("ListenAddress 127.0.0.1:%s\nHostKey %s/host_key\nAuthorizedKeysFile %s/authorized_keys\n"+
		"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n", port, dir, dir)
	if v2 {
		config += "AcceptEnv GIT_PROTOCOL\n"
	}
	start(t, sshd, "-D", "-e", "-f", write(t, dir, "sshd_config", config))
	return s
}

func findSSHD(t testing.TB) string {
	t.Helper()
	for _, path := range []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("sshd is not installed: apt-get install openssh-server")
	}
	t.Skip("sshd is not installed: apt-get install openssh-server")
	return ""
}

// start runs the server until the test ends, and returns once it listens.
func start(t testing.TB, sshd string, args ...string) {
	t.Helper()
	if os.Geteuid() == 0 { // it insists on its folder then
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(sshd, args...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	listening := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "Server listening") || strings.Contains(lines.Text(), "fatal") || strings.Contains(lines.Text(), "error") {
				select {
				case listening <- lines.Text():
				default: // only the first counts; the rest is drained
				}
			}
		}
	}()
	select {
	case line := <-listening:
		if !strings.Contains(line, "Server listening") {
			t.Fatalf("sshd: %s", line)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("sshd does not listen")
	}
}

func write(t testing.TB, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
