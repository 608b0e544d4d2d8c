package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// insideNetwork says that the test is in its own network and mounts, and where the program is that it runs.
const insideNetwork = "SLIPWAY_FAILOVER_PROGRAM"

// The addresses of the network: machines are behind the router, and members have 10.90.0.2 and up.
const (
	router   = "10.90.0.1"
	machines = "10.95.0.0/16"
	images   = "10.95.9.1"
)

// mistake is a change of a file of the program, before it is built.
type mistake struct{ file, was, is string }

// inOwnNetwork runs the test again in a network and with mounts of its own, and reports whether it is in them. The program has
// the mistakes.
func inOwnNetwork(t *testing.T, mistakes ...mistake) bool {
	t.Helper()
	if os.Getenv(insideNetwork) != "" {
		return true
	}
	if _, err := exec.LookPath("ip"); err != nil || os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("only root may have networks, and ip makes them: run ./setup.sh as root")
		}
		t.Skip("only root may have networks, and ip makes them")
	}
	program := t.TempDir() + "/slipway"
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay(t, mistakes), "-o", program, "../../cmd/slipway")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+timeLeft(t).String())
	cmd.Env = append(os.Environ(), insideNetwork+"="+program)
	// Unshare makes the mounts private, which Cloneflags does not. All of it is gone with the process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	return false
}

// overlay is a file that has the program built with mistakes (go help build, -overlay).
func overlay(t *testing.T, mistakes []mistake) string {
	t.Helper()
	dir, replace := t.TempDir(), map[string]string{}
	for i, m := range mistakes {
		file, err := filepath.Abs("../../" + m.file)
		check(t, err)
		from := cmp.Or(replace[file], file)
		text, err := os.ReadFile(from)
		check(t, err)
		if !strings.Contains(string(text), m.was) {
			t.Fatalf("%s does not have %s any more", m.file, m.was)
		}
		replace[file] = fmt.Sprintf("%s/%d.go", dir, i)
		check(t, os.WriteFile(replace[file], []byte(strings.Replace(string(text), m.was, m.is, 1)), 0o600))
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	check(t, err)
	check(t, os.WriteFile(dir+"/overlay.json", text, 0o600))
	return dir + "/overlay.json"
}

// timeLeft is how long the test may still take.
func timeLeft(t *testing.T) time.Duration {
	if end, limited := t.Deadline(); limited {
		return time.Until(end)
	}
	return 12 * time.Hour
}

// run runs a program.
func run(words string) error {
	f := strings.Fields(words)
	if out, err := exec.Command(f[0], f[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", words, err, out)
	}
	return nil
}

func does(t *testing.T, all ...string) {
	t.Helper()
	for _, words := range all {
		if err := run(words); err != nil {
			t.Fatal(err)
		}
	}
}

// layNetwork makes the router, behind which the machines are.
func layNetwork(t *testing.T) {
	t.Helper()
	does(t, "mkdir -p /run/netns", "mount -t tmpfs tmpfs /run/netns",
		"ip link set lo up", "ip link add br0 type bridge", "ip addr add "+router+"/24 dev br0", "ip link set br0 up",
		"ip route add local "+machines+" dev lo")
}

// plug gives a member a network of its own.
func (m *member) plug(t *testing.T) {
	t.Helper()
	n := m.name
	does(t, "ip netns add "+n, "ip link add port-"+n+" type veth peer name eth0 netns "+n, "ip link set port-"+n+" master br0 up",
		"ip -n "+n+" link set lo up", "ip -n "+n+" addr add "+m.host+"/24 dev eth0")
	check(t, m.up())
}

// up lets the member reach all others again.
func (m *member) up() error {
	n := "ip -n " + m.name
	return errors.Join(run(n+" link set eth0 up"), run(n+" route replace default via "+router))
}

// down takes the member's link away: as a switch does, without a word to its connections.
func (m *member) down() error { return run("ip link set port-" + m.name + " down") }

// lose lets all that the member sends to an address get lost, without a word. What that one sends arrives.
func (m *member) lose(to string) error {
	return run("ip -n " + m.name + " neigh replace " + to + " lladdr 02:00:00:00:00:99 dev eth0 nud permanent")
}

// reach ends lose.
func (m *member) reach(to string) error {
	return run("ip -n " + m.name + " neigh del " + to + " dev eth0")
}
