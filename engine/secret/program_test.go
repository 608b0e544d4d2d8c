package secret

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

const limits = "hosts: 192.0.2.0/24\nuse: redfish\nusername: admin\n"

// printing is a store of one credential, "bmc", that comes from a program with the file.
func printing(t *testing.T, file string) (s *Store, dir string) {
	t.Helper()
	dir = t.TempDir()
	write(t, dir, "bmc", byMe(t, file))
	s = open(t, "")
	s.Programs(dir)
	s.owner = uint32(os.Geteuid()) // who runs the tests need not be root
	s.InForce(&site.Site{Name: "fra", Credentials: map[string]*site.Credential{"bmc": {From: site.FromProgram}}})
	return s, dir
}

// byMe is the file of a program that runs as who runs the tests, who may be root.
func byMe(t *testing.T, file string) string {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(file, "user:") || strings.Contains(file, "socket:") {
		return file
	}
	return strings.TrimSuffix(file, "\n") + "\nuser: " + me.Username + "\n"
}

// script writes a program.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "print")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProgramPrintsTheSecret(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	program := script(t, `echo "$SLIPWAY_CREDENTIAL $1 $(env | wc -l) $(pwd)" >> `+runs+"\necho "+canary+"\n")
	s, dir := printing(t, "# of the vault\ncommand: "+program+" one\n"+limits)
	t.Setenv("SLIPWAY_OTHER", canary)
	for range 3 {
		v, err := s.Get(ask("bmc", "192.0.2.7"))
		if err != nil || v.Reveal() != canary || v.Username() != "admin" {
			t.Fatalf("got %v, %v", v, err)
		}
	}
	if _, err := s.Get(ask("bmc", "198.51.100.9")); !errors.Is(err, ErrHost) || !strings.Contains(err.Error(), dir+"/bmc:3") {
		t.Errorf("another host: %v", err)
	}
	write(t, dir, "bmc", byMe(t, "command: "+program+" two\nkeep: 0s\n"+limits))
	for range 2 {
		if _, err := s.Get(ask("bmc", "192.0.2.7")); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(runs)
	if want := "bmc one 4 /\nbmc two 4 /\nbmc two 4 /\n"; err != nil || string(got) != want { // 4: with PWD, which the shell sets
		t.Errorf("ran %q, %v; want %q", got, err, want)
	}
}

// A credential whose program fails is missing: its other users go on, and what the
// program prints is in no error.
func TestProgramsThatFail(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"fails":          {"echo " + canary + "\necho " + canary + " >&2\nexit 3\n", "has failed: exit status 3: run it by hand"},
		"prints nothing": {"echo\n", "printed nothing"},
		"hangs":          {"echo " + canary + "\nsleep 1000\n", "has not ended within 1s"},
		"leaves others":  {"setsid sleep 5 &\necho " + canary + "\n", "has not ended within 1s"},
		"endless":        {"while :; do echo " + canary + canary + canary + canary + "; done\n", "prints more than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := printing(t, "command: "+script(t, c.text)+"\ntimeout: 1s\n"+limits)
			for range 2 { // the second time from memory
				_, err := s.Get(ask("bmc", "192.0.2.7"))
				if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), canary) {
					t.Errorf("got %v, want %q", err, c.want)
				}
			}
		})
	}
}

func TestFilesOfPrograms(t *testing.T) {
	program := script(t, "echo "+canary+"\n")
	open := script(t, "echo "+canary+"\n")
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		limits:                                `1: there has to be either "command: …"`,
		"command: print\n" + limits:           `1: the command does not begin with "/"`,
		"command:\n" + limits:                 `1: the command does not begin with "/"`,
		"socket: x\n" + limits:                `1: the socket does not begin with "/"`,
		"command: /a\nsocket: /b\n" + limits:  "either",
		"command: /a\ncommand: /a\n":          `2: "command" is given twice`,
		"command: /a\nshell: yes\n":           "2: is none of the lines that belong here: they begin with command, socket",
		"command: /a\ntimeout: 1h\n":          "2: is not a time from 1s to 1m0s",
		"command: /a\nkeep: ever\n":           "2: is not a time from 0s to 24h0m0s",
		"command: /a\nhosts: *\n":             `2: item 1 of "hosts"`,
		"command: /a\nhosts: 192.0.2.1\n":     `1: there is no "use:" line`,
		"command: /a\nuse: redfish\n":         `1: there is no "hosts: …" line`,
		"command: /nowhere/at/all\n" + limits: "no such file",
		"command: /tmp\n" + limits:            "/tmp: is not a regular file",
		"command: " + open + "\n" + limits:    "where secrets go: run chmod go-w",
		"command: " + program + "\nuser: nobody-of-that-name\n" + limits: `there is no user "nobody-of-that-name"`,
	} {
		s, dir := printing(t, text)
		if _, err := s.Get(ask("bmc", "192.0.2.7")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
		if err := os.Chmod(filepath.Join(dir, "bmc"), 0o666); err != nil {
			t.Fatal(err)
		}
		s.fetched = map[string]*fetch{}
		if _, err := s.Get(ask("bmc", "192.0.2.7")); err == nil || !strings.Contains(err.Error(), "has mode 0666") {
			t.Errorf("%q, of which everybody may change: %v", text, err)
		}
	}
	s, dir := printing(t, "command: "+program+"\n"+limits)
	s.owner++
	if _, err := s.Get(ask("bmc", "192.0.2.7")); err == nil || !strings.Contains(err.Error(), "run chown root") {
		t.Errorf("of somebody else: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "bmc")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ask("bmc", "192.0.2.7")); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "make it as root") {
		t.Errorf("without a file: %v", err)
	}
	s.Programs("")
	if _, err := s.Get(ask("bmc", "192.0.2.7")); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "--programs names no folder") {
		t.Errorf("where none is run: %v", err)
	}
}

// As root nothing runs that no line says to run as root.
func TestProgramsOfRoot(t *testing.T) {
	s, dir := printing(t, "socket: /nowhere\n"+limits)
	write(t, dir, "bmc", "command: "+script(t, "echo "+canary)+"\n"+limits)
	v, err := s.Get(ask("bmc", "192.0.2.7"))
	if isRoot := os.Geteuid() == 0; isRoot != (err != nil) || isRoot && !strings.Contains(err.Error(), "name the user that runs the program") {
		t.Errorf("got %v, %v", v, err)
	}
}

// A service of systemd has a user and a sandbox of its own, and answers on a socket.
func TestSocketPrintsTheSecret(t *testing.T) {
	texts := make(chan string, 2)
	texts <- canary + "\n"
	texts <- canary[:4]
	socket := filepath.Join(t.TempDir(), "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, <-texts)
			c.Close()
		}
	}()
	s, _ := printing(t, "socket: "+socket+"\n"+limits)
	v, err := s.Get(ask("bmc", "192.0.2.7"))
	if os.Geteuid() != 0 {
		if err == nil || !strings.Contains(err.Error(), `name its user with "user:"`) {
			t.Errorf("a socket of somebody else: %v", err)
		}
		return
	}
	if err != nil || v.Reveal() != canary {
		t.Errorf("got %v, %v", v, err)
	}
	s.fetched = map[string]*fetch{}
	if _, err := s.Get(ask("bmc", "192.0.2.7")); err == nil || !strings.Contains(err.Error(), "a part of it may be missing") {
		t.Errorf("a half: %v", err)
	}
}
