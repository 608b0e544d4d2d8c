package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/control"
)

// environment is that of everything that is started: nothing of the user's Git
// configuration, and our programs found by name.
func (s *stage) environment() []string {
	env := []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "SLIPWAY_STATE=" + stateDir, "PATH=" + s.bin + ":" + os.Getenv("PATH")}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") && !strings.HasPrefix(v, "PATH=") && !strings.HasPrefix(v, "SLIPWAY_") {
			env = append(env, v)
		}
	}
	return env
}

func (s *stage) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	path := program
	if program != "git" {
		path = filepath.Join(s.bin, program)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = s.environment()
	return cmd
}

// run runs a program to its end and gives what it printed.
func (s *stage) run(ctx context.Context, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := s.command(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return string(out), nil
}

// ask runs a program and shows how it was called.
func (s *stage) ask(ctx context.Context, program string, args ...string) (string, error) {
	s.show.command(program + " " + strings.Join(args, " "))
	return s.run(ctx, program, args...)
}

// tell runs a program and shows its answer too.
func (s *stage) tell(ctx context.Context, program string, args ...string) error {
	out, err := s.ask(ctx, program, args...)
	for line := range strings.Lines(out) {
		s.show.answer(strings.TrimRight(line, "\n"))
	}
	return err
}

// process is a program that runs until it is ended.
type process struct {
	name  string
	log   string // path of what it prints
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // why it ended; read after ended is closed
}

// start starts a program that dies with this one, unless it is to be kept.
func (s *stage) start(program string, args ...string) (*process, error) {
	return s.startAs(program, program+".log", args...)
}

// startAs starts a program with a log of its own.
func (s *stage) startAs(program, log string, args ...string) (*process, error) {
	s.show.command(program + " " + strings.Join(args, " "))
	p := &process{name: program, log: log, cmd: s.command(context.Background(), program, args...), ended: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // out of reach of the terminal's interrupt
	if !s.keep {
		p.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// end ends a process and what it started: first politely.
func (p *process) end() {
	if p == nil {
		return
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
	}
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

// dead says whether a process that should run has ended.
func (p *process) dead() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// deaths says which processes have ended that should run.
func (s *stage) deaths() error {
	var errs []error
	for _, p := range []*process{s.lab, s.slipway} {
		if p != nil && p.dead() {
			errs = append(errs, fmt.Errorf("%s has ended: %v", p.name, p.err))
		}
	}
	return errors.Join(errs...)
}

func (s *stage) startLab(ctx context.Context, flags ...string) error {
	args := append([]string{"run", "--site", "site", "--credentials", credentials, "--control", labSocket, "--speed", speed}, flags...)
	var err error
	if s.lab, err = s.start("slipway-lab", args...); err != nil {
		return err
	}
	return s.labReady(ctx)
}

// labReady waits until the lab's machines can be spoken to.
func (s *stage) labReady(ctx context.Context) error {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline) && ctx.Err() == nil && !s.lab.dead(); pause(ctx, moment) {
		if ready, _ := os.ReadFile(s.lab.log); bytes.Contains(ready, []byte("machines ready")) {
			s.show.answer(lastLine(string(ready)))
			return nil
		}
	}
	said, _ := os.ReadFile(s.lab.log)
	return fmt.Errorf("the lab is not ready: %s", bytes.TrimSpace(said))
}

func (s *stage) startDaemon(flags ...string) error {
	var err error
	s.slipway, err = s.start("slipway", append([]string{"run", "--repo", "site.git", "--credentials", credentials, "--artifact-listen", "127.0.0.1:0"}, flags...)...)
	s.daemon = control.Dial(control.Socket(stateDir))
	return err
}

// lastLogs is the end of what the daemon logged.
func (s *stage) lastLogs() string {
	if s.slipway == nil {
		return ""
	}
	log, _ := os.ReadFile(s.slipway.log)
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return "\nThe daemon's last words:\n" + strings.Join(lines[max(0, len(lines)-15):], "\n") + "\n"
}
