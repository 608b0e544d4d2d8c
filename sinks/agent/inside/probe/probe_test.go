package probe_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/probe"
)

// look tries probes on this very system, in which systemctl answers as it is told.
func look(t *testing.T, systemctl func(inside.Command) (inside.Output, error), probes ...item.Probe) inside.Seen {
	t.Helper()
	h := inside.Real("/", true)
	real := h.Exec
	h.Exec = func(ctx context.Context, c inside.Command) (inside.Output, error) {
		if c.Path == "systemctl" {
			return systemctl(c)
		}
		return real(ctx, c)
	}
	return probe.Look(t.Context(), h, item.Probes{Probes: probes, Addresses: []string{"127.0.0.9", "nonsense"}})
}

// says looks at one probe, and holds what is said of it.
func says(t *testing.T, p item.Probe, want string) {
	t.Helper()
	seen := look(t, nil, p)
	if got := seen.Have[p.Key]; !strings.HasPrefix(got, want) || len(seen.Unread) > 0 {
		t.Errorf("%s: got %q, unread %v, want %q", p.Key, got, seen.Unread, want)
	}
}

func listen(t *testing.T, address string) (net.Listener, int) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, l.Addr().(*net.TCPAddr).Port
}

// A port counts wherever on the node it is listened at: for all, for one family, or
// at an address of the design alone.
func TestPorts(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0", "127.0.0.9:0"} {
		_, port := listen(t, address)
		says(t, item.PortProbe(port), item.Passed)
	}
	l, port := listen(t, "127.0.0.1:0")
	l.Close()
	says(t, item.PortProbe(port), fmt.Sprintf("port %d does not answer: nothing listens there", port))
}

// A service whose queue is full does not answer, and is not waited for without an end.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port := name.(*syscall.SockaddrInet4).Port
	for range 4 { // nobody accepts them
		if c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 100*time.Millisecond); err == nil {
			defer c.Close()
		}
	}
	says(t, item.PortProbe(port), fmt.Sprintf("port %d does not answer within 3s", port))
}

func TestRequests(t *testing.T) {
	l, port := listen(t, "127.0.0.1:0")
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "localhost" && r.Host != "shop.example.org" || r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	go srv.Serve(l)
	defer srv.Close()
	says(t, item.HTTPProbe(port, "", "/healthz", 200), item.Passed)
	says(t, item.HTTPProbe(port, "shop.example.org", "/healthz", 200), item.Passed)
	says(t, item.HTTPProbe(port, "", "/broken", 503), item.Passed)
	says(t, item.HTTPProbe(port, "", "/broken", 200), fmt.Sprintf("port %d answers /broken with 503 and not with 200", port))
}

// What is no HTTP, ends at once, or is too long is told, and nothing of it is believed.
func TestHostileAnswers(t *testing.T) {
	for answer, want := range map[string]string{
		"SSH-2.0-OpenSSH_9.2\r\n":              "does not answer / by HTTP",
		"HTTP/1.1 2000 OK\r\n":                 "does not answer / by HTTP",
		"HTTP/1.1\r\n":                         "does not answer / by HTTP",
		"":                                     "closes the connection without an answer to /",
		strings.Repeat("x", 100<<10):           "does not answer / by HTTP",
		"HTTP/1.1 301 \x1b[31mMoved\u202e\r\n": "answers / with 301 and not with 200",
	} {
		l, port := listen(t, "127.0.0.1:0")
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 1024))
			fmt.Fprint(c, answer)
			c.Close()
		}()
		says(t, item.HTTPProbe(port, "", "/", 200), fmt.Sprintf("port %d %s", port, want))
	}
}

// systemctl is asked once for all units, and nothing that it says is taken for a unit
// of another name.
func TestUnits(t *testing.T) {
	names := []string{"a.service", "b.service", "c.service", "d.service", "e.service", "f.timer"}
	var probes []item.Probe
	for _, name := range names {
		probes = append(probes, item.UnitProbe(name))
	}
	calls := 0
	told := "LoadState=loaded\nActiveState=active\nSubState=running\n\n" +
		"LoadState=loaded\nActiveState=failed\nSubState=failed\n\n" +
		"LoadState=not-found\nActiveState=inactive\nSubState=dead\n\n" +
		"LoadState=masked\nActiveState=inactive\nSubState=dead\n\n" +
		"LoadState=loaded\nActiveState=activating\nSubState=auto-restart\n\n" +
		"LoadState=loaded\nActiveState=reloading\nSubState=reload\n"
	seen := look(t, func(c inside.Command) (inside.Output, error) {
		calls++
		if got := strings.Join(c.Args, " "); !strings.HasSuffix(got, "-- "+strings.Join(names, " ")) {
			t.Errorf("asked %q", got)
		}
		return inside.Output{Out: []byte(told)}, nil
	}, probes...)
	for name, want := range map[string]string{
		"a.service": item.Passed, "b.service": "b.service is failed", "c.service": "c.service does not exist", "d.service": "d.service is masked",
		"e.service": "e.service is activating (auto-restart)", "f.timer": item.Passed,
	} {
		if got := seen.Have["unit "+name]; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if calls != 1 || len(seen.Unread) > 0 {
		t.Errorf("%d calls, unread %v", calls, seen.Unread)
	}
	for why, answer := range map[string]func(inside.Command) (inside.Output, error){
		"not found": func(inside.Command) (inside.Output, error) { return inside.Output{Code: 127}, errors.New("not found") },
		"ended with 1: no bus": func(inside.Command) (inside.Output, error) {
			return inside.Output{Code: 1, Err: []byte("no bus\n")}, nil
		},
		"reported 1 units and not": func(inside.Command) (inside.Output, error) {
			return inside.Output{Out: []byte("ActiveState=active\n")}, nil
		},
	} {
		seen := look(t, answer, probes...)
		if len(seen.Have) > 0 || !strings.Contains(seen.Unread["unit a.service"], why) {
			t.Errorf("%s: got %+v", why, seen)
		}
	}
}

// script is a program of the site's that everybody may run.
func script(t *testing.T, text string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "slipway-probe-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "check")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

// needsRoot leaves a test out that only root can run, but not in CI.
func needsRoot(t *testing.T) {
	t.Helper()
	switch {
	case os.Getuid() == 0:
	case os.Getenv("CI") != "":
		t.Fatal("only root may run a program as nobody")
	default:
		t.Skip("only root may run a program as nobody")
	}
}

// A command runs as nobody, with its arguments as they are, and what it says is told
// in one printable line.
func TestCommands(t *testing.T) {
	needsRoot(t)
	path := script(t, `[ "$#" = 2 ] && [ "$2" = 'a b;$(id)' ] && [ "$(id -u):$(id -g):$(id -G)" = 65534:65534:65534 ] && [ -z "$(cat)" ]`)
	says(t, item.CommandProbe([]string{path, "--x", "a b;$(id)"}), item.Passed)
	bad := script(t, "echo no; printf 'queue is \\033[31mfull\\033[0m\\n' >&2; exit 3")
	says(t, item.CommandProbe([]string{bad}), "`"+bad+"` ended with 3: queue is [31mfull [0m")
	says(t, item.CommandProbe([]string{"/nonexistent/check"}), "`/nonexistent/check`")
	long := script(t, "yes | head -c 3000000; exit 1")
	if got := look(t, nil, item.CommandProbe([]string{long})).Have["command "+long]; len(got) > 400 {
		t.Errorf("%d octets are told", len(got))
	}
}

// What a command leaves in its group ends with it, and one that does not end is ended.
func TestCommandsThatStay(t *testing.T) {
	needsRoot(t)
	probe.RunFor(t, time.Second)
	for text, want := range map[string]string{
		"sleep 300 >/dev/null 2>&1 </dev/null & echo $! >&2; exit 4": "ended with 4: ",
		"sleep 300 & echo $! >&2; wait":                              "did not end within 1s: ",
	} {
		path := script(t, text)
		begun := time.Now()
		got := look(t, nil, item.CommandProbe([]string{path})).Have["command "+path]
		_, pid, found := strings.Cut(got, want)
		if !found || time.Since(begun) > 8*time.Second {
			t.Errorf("%q: got %q after %s", text, got, time.Since(begun))
			continue
		}
		tick := time.NewTicker(10 * time.Millisecond)
		for end := time.Now().Add(10 * time.Second); runs(pid); <-tick.C { // it is killed, and may not be gone yet
			if time.Now().After(end) {
				t.Fatalf("process %s is left", pid)
			}
		}
		tick.Stop()
	}
}

// runs says whether a process is there and has not ended.
func runs(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	_, state, _ := strings.Cut(string(text), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

// A system that does not run, and one that is being installed, is unknown.
func TestNotRunning(t *testing.T) {
	for _, h := range []*inside.Host{inside.Real("/", false), inside.Real(t.TempDir(), true)} {
		seen := probe.Look(t.Context(), h, item.Probes{Probes: []item.Probe{item.PortProbe(1), {Key: "something new"}}})
		if len(seen.Have) > 0 || len(seen.Unread) != 2 {
			t.Errorf("got %+v", seen)
		}
	}
}

// FuzzAnswer: whatever a service answers, a look ends and says one short line.
func FuzzAnswer(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\n\r\n")
	f.Add("HTTP/1.1 \x00\xff\u2028 200\n")
	f.Fuzz(func(t *testing.T, answer string) {
		l, port := listen(t, "127.0.0.1:0")
		go func() {
			if c, err := l.Accept(); err == nil {
				c.Read(make([]byte, 1024))
				c.Write([]byte(answer))
				c.Close()
			}
		}()
		p := item.HTTPProbe(port, "", "/", 200)
		if got := look(t, nil, p).Have[p.Key]; got == "" || len(got) > 400 || strings.ContainsAny(got, "\n\x00\x1b") {
			t.Errorf("got %q", got)
		}
	})
}
