package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// These are the commands of fcntl(2) for locks that belong to an open file. Such locks end with the program, and
// can be queried without being taken.
const (
	getLock = 36 // F_OFD_GETLK
	setLock = 37 // F_OFD_SETLK
)

// lock keeps other runs of Slipway from writing to this host until it is released, at the latest when the program
// ends.
func (p *Program) lock(what string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(p.file("lock")), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(p.file("lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	whole := syscall.Flock_t{Type: syscall.F_WRLCK}
	switch err := syscall.FcntlFlock(f.Fd(), setLock, &whole); err {
	case nil:
	case syscall.EAGAIN, syscall.EACCES:
		f.Close()
		return nil, busy("%s", held(p.file("lock"), p.now()))
	default:
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", p.file("lock"), err)
	}
	since := p.now()
	f.Truncate(0)
	f.WriteAt([]byte(what+" "+since.UTC().Format(time.RFC3339)), 0) // for people
	return func() { f.Close() }, nil
}

// lockedBy says who holds the lock, without taking it; empty for nobody.
func (p *Program) lockedBy() string {
	f, err := os.Open(p.file("lock"))
	if err != nil {
		return ""
	}
	defer f.Close()
	asked := syscall.Flock_t{Type: syscall.F_RDLCK}
	if err := syscall.FcntlFlock(f.Fd(), getLock, &asked); err != nil || asked.Type == syscall.F_UNLCK {
		return ""
	}
	return held(p.file("lock"), p.now())
}

// held says what another run does, and since when.
func held(path string, now time.Time) string {
	text, _ := os.ReadFile(path)
	what, stamp, _ := strings.Cut(clip(string(text)), " ")
	since, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return "another run of Slipway writes to this machine"
	}
	return fmt.Sprintf("another run of Slipway writes to this machine (%s) since %s (%s)", what, since.Format("2006-01-02 15:04:05Z"), now.Sub(since).Round(time.Second))
}
