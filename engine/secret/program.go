package secret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/engine/hostfile"
)

// The defaults and limits of a program's time to answer, and of how long its answer is valid.
const (
	programTimeout = 10 * time.Second
	longestTimeout = time.Minute
	programKeep    = 5 * time.Minute
	longestKeep    = 24 * time.Hour
)

// program says which program prints a credential, and what the credential is for.
type program struct {
	file
	owner   uint32 // of its file and of the command
	command []string
	socket  string // of a service that prints it, instead of a command
	user    string
	timeout time.Duration
	keep    time.Duration
}

// Programs names the folder of the programs that credentials come from. It has a file for
// each credential, with the credential's name:
//
//	command: /usr/local/bin/print-password bmc
//	user: vault-reader
//	timeout: 10s
//	keep: 5m
//	hosts: 192.0.2.0/24
//	use: redfish
//	ports: 443
//	username: admin
//
// The program's output, without one final newline, is the secret. The program runs without a
// shell, with nothing on standard input, in the folder "/". Its environment has only PATH,
// LANG and SLIPWAY_CREDENTIAL, the credential's name. With "socket: FILE" instead of the
// command, the output is read from a socket. For example, systemd can start a service on it
// that has its own user and sandbox. The socket must belong to root or to the user. "hosts"
// and "use" are required. The files belong to root, and nobody else may change them: a merge
// must not be able to run a program here.
func (s *Store) Programs(dir string) { s.programs = dir }

// fromProgram returns a credential that a program prints.
func (s *Store) fromProgram(name string) (*file, error) {
	if !validName.MatchString(name) {
		return nil, errName
	}
	if s.programs == "" {
		return nil, fmt.Errorf("%w: it comes from a program, and --programs names no folder of programs", ErrMissing)
	}
	path := filepath.Join(s.programs, name)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no file %s: make it as root, with the lines \"command: /path/of/the/program\", \"hosts: 192.0.2.0/24\" and \"use: redfish\"", ErrMissing, path)
	}
	if err != nil {
		return nil, err
	}
	return s.fetchOf(name).get(hostfile.StampOf(info), func() (*file, time.Duration, error) {
		p, err := readProgram(path, s.owner)
		if err != nil {
			return nil, 0, err
		}
		text, err := p.ask(name)
		if err != nil {
			return nil, 0, fmt.Errorf("%w: %s: %w", ErrUnavailable, path, err)
		}
		p.value = New(p.username, text)
		return &p.file, p.keep, nil
	})
}

// readProgram reads and checks the file of a program.
func readProgram(path string, owner uint32) (*program, error) {
	text, err := readOwned(path, owner)
	if err != nil {
		return nil, err
	}
	p, err := parseProgram(text)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	p.path, p.owner = path, owner
	return p, nil
}

// parseProgram reads the file of a program. Its errors begin with the line's number.
func parseProgram(text string) (*program, error) {
	p := &program{file: file{lines: map[string]int{}}, timeout: programTimeout, keep: programKeep}
	err := hostfile.EachSetting(text, "command, socket, user, timeout, keep, hosts, use, ports and username", func(key, value string, line int) (bool, error) {
		if known, err := p.limit(key, value, line); known {
			return true, err
		}
		p.lines[key] = line
		return p.how(key, value)
	})
	if err != nil {
		return nil, err
	}
	if err := p.checkLimits(); err != nil {
		return nil, err
	}
	switch {
	case len(p.uses) == 0:
		return nil, fmt.Errorf("1: there is no \"use:\" line: %s", whichUse)
	case (len(p.command) == 0) == (p.socket == ""):
		return nil, errors.New("1: there has to be either \"command: …\", the program that prints the secret, or \"socket: …\"")
	}
	return p, nil
}

// how handles a line that says what prints the secret; known is false for any other line.
func (p *program) how(key, value string) (known bool, err error) {
	switch key {
	case "command":
		p.command = strings.Fields(value)
		if len(p.command) == 0 || !filepath.IsAbs(p.command[0]) {
			err = errors.New("the command does not begin with \"/\": write the program's whole path, and its arguments after it")
		}
	case "socket":
		p.socket = value
		if !filepath.IsAbs(value) {
			err = errors.New("the socket does not begin with \"/\": write its whole path")
		}
	case "user":
		p.user = value
	case "timeout":
		p.timeout, err = hostfile.Within(value, time.Second, longestTimeout)
	case "keep":
		p.keep, err = hostfile.Within(value, 0, longestKeep)
	default:
		return false, nil
	}
	return true, err
}

// ask gets the secret from the program. Its errors contain nothing of the output.
func (p *program) ask(name string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	from := p.connect
	if p.socket == "" {
		from = p.start
	}
	printed, done, err := from(ctx, name)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(printed, maxFile+1))
	late := ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded)
	if err != nil || len(b) > maxFile {
		cancel() // the rest is not needed
	}
	ended := done()
	if p.socket != "" && len(b) > 0 && !bytes.HasSuffix(b, []byte("\n")) {
		ended = errors.New("its output does not end with a newline, so a part of it may be missing")
	}
	text := string(bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r")))
	size := len(b)
	clear(b)
	switch {
	case late:
		return "", fmt.Errorf("%s has not ended within %v", p.what(), p.timeout)
	case size > maxFile:
		return "", fmt.Errorf("%s prints more than %d bytes, which no password or key has", p.what(), maxFile)
	case err != nil:
		return "", fmt.Errorf("%s cannot be read: %w", p.what(), err)
	case ended != nil:
		return "", fmt.Errorf("%s has failed: %w: run it by hand as its user to see what it says", p.what(), ended)
	case text == "":
		return "", fmt.Errorf("%s printed nothing: run it by hand as its user to see what it says", p.what())
	}
	return text, nil
}

func (p *program) what() string {
	if p.socket != "" {
		return "the socket " + p.socket
	}
	return "the program " + p.command[0]
}

// start runs the program in its own process group, which is killed at the timeout. Its
// standard error may contain the secret and is not read.
func (p *program) start(ctx context.Context, name string) (io.Reader, func() error, error) {
	info, err := os.Stat(p.command[0])
	if err != nil {
		return nil, nil, err
	}
	if err := hostfile.OfOwnerAlone(p.command[0], info, p.owner, ruled); err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, p.command[0], p.command[1:]...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "SLIPWAY_CREDENTIAL=" + name}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if cmd.SysProcAttr.Credential, err = p.account(); err != nil {
		return nil, nil, err
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	printed, into, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer into.Close()
	cmd.Stdout = into
	if err := cmd.Start(); err != nil {
		printed.Close()
		return nil, nil, err
	}
	deadline, _ := ctx.Deadline()
	_ = printed.SetReadDeadline(deadline) // a child of the program may keep the pipe open; pipes have deadlines
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // do not wait for a process that cannot be killed
	return printed, func() error {
		printed.Close()
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Until(deadline) + 2*cmd.WaitDelay):
			return errors.New("it could not be ended")
		}
	}, nil
}

// account returns the account of the program's user, or nil for this process's own.
func (p *program) account() (*syscall.Credential, error) {
	switch isRoot := os.Geteuid() == 0; {
	case p.user == "" && isRoot:
		return nil, errors.New("this process is root: name the user that runs the program, \"user: …\"")
	case p.user == "":
		return nil, nil
	}
	u, err := user.Lookup(p.user)
	if err != nil {
		return nil, fmt.Errorf("there is no user %q on this host", p.user)
	}
	uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uerr, gerr); err != nil {
		return nil, err
	}
	switch me := os.Geteuid(); {
	case uint64(me) == uid:
		return nil, nil
	case me != 0:
		return nil, fmt.Errorf("this process is of user id %d and cannot run a program as %s: leave \"user:\" out, or have systemd start it for a socket", me, p.user)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// connect reads the secret from a socket.
func (p *program) connect(ctx context.Context, _ string) (io.Reader, func() error, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", p.socket)
	if err != nil {
		return nil, nil, err
	}
	end := func() error { c.Close(); return nil }
	if err := p.isOf(c.(*net.UnixConn)); err != nil {
		return nil, nil, errors.Join(err, end())
	}
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return nil, nil, errors.Join(err, end())
	}
	return c, end, nil
}

// isOf refuses a socket that belongs to anyone but root and the program's user.
func (p *program) isOf(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var perr error
	if err := raw.Control(func(fd uintptr) { peer, perr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if perr != nil || peer.Uid == 0 {
		return perr
	}
	if u, err := user.Lookup(p.user); err == nil && u.Uid == strconv.FormatUint(uint64(peer.Uid), 10) {
		return nil
	}
	return fmt.Errorf("the socket %s is of user id %d: name its user with \"user:\"", p.socket, peer.Uid)
}
