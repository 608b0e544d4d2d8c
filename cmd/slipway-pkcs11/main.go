// Command slipway-pkcs11 loads the PKCS#11 module of a vendor and has a token open one wrapped secret. The daemon starts
// it and speaks with it over its standard input and output; nobody else needs to. So the vendor's code never runs in the
// daemon.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/engine/pkcs11"
)

// lifetime ends a program that the daemon has left alone with a module that hangs.
const lifetime = 2 * time.Minute

func main() {
	runtime.LockOSThread() // a module is told that one thread calls it
	time.AfterFunc(lifetime, func() { os.Exit(1) })
	d, err := standardStreams()
	if err != nil {
		fmt.Fprintln(os.Stderr, "slipway-pkcs11:", err)
		os.Exit(1)
	}
	var r pkcs11.Request
	if err := d.receive(&r); err != nil {
		os.Exit(1)
	}
	m, err := load(r.Module)
	if err == nil {
		err = d.answer(m, r)
	}
	var trouble *trouble
	if errors.As(err, &trouble) {
		err = d.send(pkcs11.Answer{Trouble: &trouble.Trouble})
	}
	m.finalize() // after the answer: a module may hang in it
	if err != nil {
		os.Exit(1)
	}
}

// daemon is the other side of the conversation.
type daemon struct {
	in  *bufio.Reader
	out *os.File
}

// standardStreams takes the standard streams away from modules, some of which print: what the daemon reads is from this
// program alone. It also keeps the memory of the process from others and out of cores.
func standardStreams() (*daemon, error) {
	if err := errors.Join(unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0), unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})); err != nil {
		return nil, err
	}
	in, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	out, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	for stream := range 3 {
		if err := unix.Dup3(null, stream, 0); err != nil {
			return nil, err
		}
	}
	return &daemon{bufio.NewReaderSize(os.NewFile(uintptr(in), "daemon"), pkcs11.MostMessage), os.NewFile(uintptr(out), "daemon")}, nil
}

func (d *daemon) receive(message any) error {
	line, err := d.in.ReadSlice('\n')
	defer clear(line)
	if err != nil {
		return err
	}
	return json.Unmarshal(line, message)
}

func (d *daemon) send(a pkcs11.Answer) error {
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = d.out.Write(append(line, '\n'))
	return err // with a secret in buffers: the process ends now
}

// answer does what was asked for.
func (d *daemon) answer(m *module, r pkcs11.Request) error {
	if err := m.initialize(); err != nil {
		return err
	}
	s, err := m.slot(r.Token, r.Open != nil)
	if err != nil {
		return err
	}
	if err := s.open(); err != nil {
		return err
	}
	if err := d.login(s); err != nil {
		return err
	}
	key, err := s.privateKey(r.Key)
	if err != nil {
		return err
	}
	if r.Open == nil {
		found, err := s.describe(key)
		if err != nil {
			return err
		}
		return d.send(pkcs11.Answer{Found: found})
	}
	secret, err := s.unwrap(key, r.Open)
	if err != nil {
		return err
	}
	defer clear(secret)
	return d.send(pkcs11.Answer{Secret: secret})
}

// login asks the daemon for the PIN where the token demands one, and only where a wrong one would not lock it.
func (d *daemon) login(s *slot) error {
	switch flags := s.info.flags; {
	case flags&flagLoginRequired == 0:
		return nil
	case flags&flagPINInitialized == 0:
		return kind(pkcs11.NoPIN)
	case flags&flagPINPad != 0:
		return kind(pkcs11.PINPad)
	case flags&flagPINLocked != 0:
		return kind(pkcs11.PINLocked)
	case flags&flagPINFinalTry != 0:
		return kind(pkcs11.LastAttempt)
	}
	if err := d.send(pkcs11.Answer{Login: &s.token}); err != nil {
		return err
	}
	var p pkcs11.PIN
	if err := d.receive(&p); err != nil {
		return err
	}
	defer clear(p.PIN)
	if err := s.login(p.PIN); err != nil {
		return err
	}
	return d.send(pkcs11.Answer{Accepted: true})
}
