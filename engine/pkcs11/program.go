package pkcs11

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"
)

// patience is how long a module may take for everything: some tokens wait for a touch. Tests use less.
var patience = 30 * time.Second

// farewell is how long the program may take to log out after its last answer.
const farewell = time.Second

// MostMessage limits a message between the daemon and the program, in bytes.
const MostMessage = 64 << 10

// inUse allows one user of a token at a time, even one that hangs.
var inUse = make(chan struct{}, 1)

// ask has the program answer a request.
func (s *settings) ask(r Request, file string) (*Answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case inUse <- struct{}{}:
		defer func() { <-inUse }()
	case <-ctx.Done():
		return nil, fmt.Errorf("another request has kept the token for %v", patience)
	}
	p, err := s.start(ctx)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.program, err)
	}
	a, err := p.converse(r, file)
	if err != nil && !errors.Is(err, errSilent) {
		cancel() // the program has nothing more to say
	}
	ended := p.end()
	switch {
	case errors.Is(err, errLate):
		return nil, fmt.Errorf("the module %s has not answered for %v: %w", s.module, patience, err)
	case errors.Is(err, errSilent) && ended != nil:
		return nil, fmt.Errorf("the module %s crashed (%w): %w", s.module, ended, err)
	case err != nil:
		return nil, err
	}
	return a, nil
}

// running is a program that runs.
type running struct {
	ctx  context.Context
	of   *settings
	in   *os.File
	out  *os.File
	line *bufio.Reader
	done chan error
}

// start starts the program in a process group of its own, which is killed at the deadline. Neither its arguments nor its
// environment have anything secret.
func (s *settings) start(ctx context.Context) (*running, error) {
	cmd := exec.CommandContext(ctx, s.program)
	cmd.Dir, cmd.Env = "/", append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/"}, s.environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = farewell
	in, intoProgram, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	fromProgram, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, intoProgram.Close())
	}
	defer out.Close()
	cmd.Stdin, cmd.Stdout = in, out
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, intoProgram.Close(), fromProgram.Close())
	}
	deadline, _ := ctx.Deadline() // a child of the module may keep the pipes open; pipes have deadlines
	p := &running{ctx: ctx, of: s, in: intoProgram, out: fromProgram, line: bufio.NewReaderSize(fromProgram, MostMessage), done: make(chan error, 1)}
	if err := errors.Join(intoProgram.SetWriteDeadline(deadline), fromProgram.SetReadDeadline(deadline)); err != nil {
		return nil, errors.Join(err, cmd.Cancel(), intoProgram.Close(), fromProgram.Close())
	}
	go func() { p.done <- cmd.Wait() }() // do not wait for a process that cannot be killed
	return p, nil
}

// end closes the conversation and returns how the program ended. It gives up waiting for one that cannot be killed.
func (p *running) end() error {
	p.in.Close()
	defer p.out.Close()
	select {
	case err := <-p.done:
		return err
	case <-time.After(farewell):
	}
	return nil // killed once the context ends
}

var (
	errSilent  = errors.New("its program ended without an answer")
	errLate    = errors.New("its program was ended")
	errGarbage = errors.New("the program that loads the module does not answer as " + programName + " does")
)

// converse holds the conversation with the program.
func (p *running) converse(r Request, file string) (*Answer, error) {
	if err := p.send(r); err != nil {
		return nil, err
	}
	a, err := p.receive()
	if err != nil {
		return nil, err
	}
	if a.Login != nil {
		if r.Open != nil && a.Login.Serial != r.Token {
			return nil, errGarbage
		}
		if err := p.login(*a.Login, file); err != nil {
			return nil, err
		}
		if a, err = p.receive(); err != nil {
			return nil, err
		}
	}
	if (a.Found == nil) != (r.Open != nil) || (len(a.Secret) == 0) == (r.Open != nil) {
		return nil, errGarbage
	}
	return a, nil
}

// login sends the PIN, unless the token refused it before.
func (p *running) login(t Token, file string) error {
	pin, stamp, err := p.of.readPIN()
	if err != nil {
		return err
	}
	defer clear(pin)
	n, err := openNote(p.ctx, file, t)
	if err != nil {
		return err
	}
	defer n.close()
	if err := n.try(stamp); err != nil {
		return fmt.Errorf("%w: %s", err, p.of.wayBack(n.path))
	}
	if err := p.sendPIN(pin); err != nil {
		return err
	}
	switch a, err := p.receive(); {
	case err != nil && counts(err):
		return fmt.Errorf("%w. Slipway does not send this PIN to the token %s again, because tokens lock after few attempts: %s", err, t, p.of.wayBack(n.path))
	case err != nil:
		return errors.Join(err, n.clear())
	case !a.Accepted:
		return errGarbage
	}
	return n.clear()
}

// counts reports whether the token may have counted an attempt with a wrong PIN.
func counts(err error) bool {
	var r refusal
	if errors.As(err, &r) && !slices.Contains(beforePIN, r.code) {
		return true
	}
	return slices.ContainsFunc([]error{errWrongPIN, errPINLocked, errSilent, errLate, errGarbage}, func(one error) bool { return errors.Is(err, one) })
}

// wayBack says what a person does once a PIN was refused.
func (s *settings) wayBack(note string) string {
	if pin, err := s.pinFile(); err == nil && pin == s.pin {
		return fmt.Sprintf("write the right PIN into %s, or remove %s to send the same one once more", pin, note)
	}
	return fmt.Sprintf("put the right PIN into the credential %s, and remove %s", s.pin, note)
}

func (p *running) send(message Request) error {
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(line) >= MostMessage {
		return errDamaged
	}
	return p.write(append(line, '\n'))
}

// sendPIN sends the message PIN, and leaves no copy of it in buffers.
func (p *running) sendPIN(pin []byte) error {
	const before, after = `{"pin":"`, "\"}\n"
	line := make([]byte, 0, len(before)+base64.StdEncoding.EncodedLen(len(pin))+len(after))
	line = append(base64.StdEncoding.AppendEncode(append(line, before...), pin), after...)
	defer clear(line)
	return p.write(line)
}

func (p *running) write(line []byte) error {
	if _, err := p.in.Write(line); err != nil {
		return errSilent // the program is gone
	}
	return nil
}

// receive returns the next message of the program.
func (p *running) receive() (*Answer, error) {
	line, err := p.line.ReadSlice('\n')
	defer clear(line)
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, errGarbage
	case errors.Is(err, os.ErrDeadlineExceeded) || err != nil && p.ctx.Err() != nil:
		return nil, errLate
	case err != nil && len(bytes.TrimSpace(line)) > 0 && errors.Is(err, io.EOF):
		return nil, errGarbage
	case err != nil:
		return nil, errSilent
	}
	var a Answer
	if json.Unmarshal(line, &a) != nil { // a Decoder would keep a copy of the secret
		return nil, errGarbage
	}
	if a.Trouble != nil {
		return nil, p.of.explain(a.Trouble)
	}
	return &a, nil
}
