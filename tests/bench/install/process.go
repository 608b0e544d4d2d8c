package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// collects is how much garbage the daemon leaves while it keeps little in memory.
const collects = "GOGC=400"

// own is the command line of a part of this program.
func own(part string, args ...string) []string {
	program, err := os.Executable()
	if err != nil {
		program = "/proc/self/exe"
	}
	return append([]string{program, part}, args...)
}

// process is a program that runs while something is measured.
type process struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	said bytes.Buffer
	over bool
}

// begin starts a program.
func begin(line []string) (*process, error) { return start(line, line, 0) }

// beginApart starts a program in a network namespace of its own, once it is told to go: a
// script makes its network before that.
func beginApart(script string, line []string) (*process, error) {
	sh := []string{"sh", "-ec", "read -r _; " + script + `; exec "$@"`, "sh"}
	return start(append(sh, line...), line, syscall.CLONE_NEWNET)
}

func start(line, shown []string, flags uintptr) (*process, error) {
	p := &process{name: strings.Join(shown, " "), cmd: exec.Command(line[0], line[1:]...)}
	p.cmd.Env = append(os.Environ(), collects)
	p.cmd.Stderr = &p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags, Pdeathsig: syscall.SIGTERM}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

// proceed tells a program to go that was started apart.
func (p *process) proceed() error {
	_, err := io.WriteString(p.in, "go\n")
	return err
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// line is the next one that it prints.
func (p *process) line() (string, error) {
	text, err := p.out.ReadString('\n')
	if err != nil {
		p.end()
		return "", fmt.Errorf("%s: ended: %s", p.name, strings.TrimSpace(p.said.String()))
	}
	return strings.TrimSpace(text), nil
}

// result is what it prints, as JSON.
func (p *process) result(into any) error {
	text, err := p.line()
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), into)
}

// end ends it.
func (p *process) end() {
	if p.over {
		return
	}
	p.over = true
	p.in.Close()
	p.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(10*time.Second, func() { p.cmd.Process.Kill() })
	p.cmd.Wait()
	late.Stop()
}

// peak is the most memory that a process has had, in bytes (VmHWM of proc(5)).
func peak(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmHWM", pid)
}

// untilClosed returns when what has started this part closes its input.
func untilClosed() { io.Copy(io.Discard, os.Stdin) }

// tell prints a result of a part.
func tell(result any) error { return json.NewEncoder(os.Stdout).Encode(result) }

// numbers reads arguments.
func numbers(args []string, into ...*int64) (err error) {
	if len(args) != len(into) {
		return fmt.Errorf("%d arguments, and %d are needed", len(args), len(into))
	}
	for i, to := range into {
		if *to, err = strconv.ParseInt(args[i], 10, 64); err != nil {
			return err
		}
	}
	return nil
}

// run runs a program to its end.
func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
