// Package prometheus runs Debian's Prometheus and Alertmanager for tests, on
// loopback and on ports of their own choice.
package prometheus

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// Require leaves a test out when it cannot have a program; in CI that fails it.
func Require(t testing.TB, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		why := p + " not installed: run make setup"
		if os.Getenv("CI") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
}

// Prometheus runs one with a configuration, and gives its URL. It ends with the
// test.
func Prometheus(t testing.TB, config string) string {
	t.Helper()
	return run(t, "prometheus", config, "--storage.tsdb.path")
}

// Alertmanager runs one that tells nobody, and gives its URL. It ends with the test.
func Alertmanager(t testing.TB) string {
	t.Helper()
	return run(t, "prometheus-alertmanager", "route:\n  receiver: none\nreceivers:\n  - name: none\n", "--storage.path", "--cluster.listen-address=")
}

// listening is what both log once they have their port.
var listening = regexp.MustCompile(`msg="Listening on" address=(127\.0\.0\.1:\d+)`)

func run(t testing.TB, program, config, storage string, args ...string) string {
	t.Helper()
	Require(t, program)
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{"--config.file=" + file, storage + "=" + filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0"}, args...)...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		cmd.Wait() // it was killed, which is no news
	})
	var said strings.Builder
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		fmt.Fprintln(&said, lines.Text())
		if at := listening.FindStringSubmatch(lines.Text()); at != nil {
			go io.Copy(io.Discard, log)
			return "http://" + at[1]
		}
	}
	t.Fatalf("%s does not listen:\n%s", program, said.String())
	return ""
}
