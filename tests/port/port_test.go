package port

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

const other = "SLIPWAY_TEST_PORTS"

// TestMain is also the other process, which holds what it prints until its input ends.
func TestMain(m *testing.M) {
	if os.Getenv(other) == "" {
		os.Exit(m.Run())
	}
	for range 500 {
		port, err := Free()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Print(port, " ")
	}
}

// Ports are given once, also by processes that ask at the same time, and can be listened at.
func TestNobodyIsGivenTheSame(t *testing.T) {
	seen := map[string]string{}
	none := func(port, who string) {
		if by, was := seen[port]; was {
			t.Errorf("%s is given to %s and to %s", port, by, who)
		}
		seen[port] = who
	}
	for range 500 {
		port, err := Free()
		if err != nil {
			t.Fatal(err)
		}
		none(strconv.Itoa(port), "this process")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), other+"=1"), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	ports := strings.Fields(string(out))
	if len(ports) != 500 {
		t.Fatalf("the other process was given %d ports", len(ports))
	}
	for _, port := range ports {
		none(port, "the other")
	}
	address, err := Address()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// A port on which somebody listens, at whatever address, is not free.
func TestTaken(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !taken(l.Addr().(*net.TCPAddr).Port) {
		t.Error("it counts as free")
	}
}
