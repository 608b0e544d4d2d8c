package base

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// pwdLock is the file that lckpwdf(3) locks for a program that changes accounts. The kernel
// releases that lock when the program ends, whatever it dies of.
const pwdLock = "/etc/.pwd.lock"

// accountFiles are the files in /etc that the programs for accounts write.
var accountFiles = []string{"passwd", "shadow", "group", "gshadow", "subuid", "subgid"}

// leftovers are the names of files in /etc that a program for accounts had made for itself when
// it was killed. A lock among them keeps all such programs out as soon as another process has
// the number in it.
func (j *job) leftovers() (names []string) {
	etc, found := j.working()
	if len(found) == 0 || j.changesAccounts() {
		return nil
	}
	for _, was := range found { // what made it may have ended since, and taken it away
		is, err := os.Lstat(filepath.Join(etc, was.Name()))
		if err == nil && os.SameFile(is, was) && is.ModTime().Equal(was.ModTime()) {
			names = append(names, was.Name())
		}
	}
	return names
}

// sweep takes leftovers away. It holds the lock of the programs for accounts, so that none of
// them is at work; where one is, they are left to a later run.
func (j *job) sweep() error {
	if len(j.leftovers()) == 0 {
		return nil
	}
	lock, err := j.lockAccounts()
	if lock == nil {
		return err
	}
	defer lock.Close()
	etc, found := j.working()
	for _, each := range found {
		j.step("remove /etc/" + each.Name())
		if err := os.Remove(filepath.Join(etc, each.Name())); err != nil {
			return failed("remove what a killed program for accounts left: %v", err)
		}
	}
	return inside.SyncFolder(etc)
}

// working are the files that a program for accounts has for as long as it runs: the lock
// "group.lock", the file "group.4711" with the number of its process that it links the lock
// from, and the new content "group+" (commonio.c of shadow-utils).
func (j *job) working() (etc string, found []fs.FileInfo) {
	etc, err := j.follow("/etc")
	if err != nil {
		return "", nil
	}
	entries, err := os.ReadDir(etc)
	if err != nil {
		return "", nil
	}
	for _, e := range entries {
		i := strings.IndexAny(e.Name(), ".+")
		if i < 0 || !e.Type().IsRegular() || !slices.Contains(accountFiles, e.Name()[:i]) {
			continue
		}
		path, end := filepath.Join(etc, e.Name()), e.Name()[i:]
		if info, err := e.Info(); err == nil && (end == "+" || end == ".lock" || isProcess(path, end[1:])) {
			found = append(found, info)
		}
	}
	return etc, found
}

// isProcess says whether a file is what a lock is linked from: it holds the number that its name
// ends in or, where the program was killed at once, nothing.
func isProcess(path, number string) bool {
	if _, err := strconv.ParseUint(number, 10, 32); err != nil {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64))
	text = bytes.TrimRight(text, "\x00\n")
	return err == nil && (len(text) == 0 || string(text) == number)
}

// changesAccounts says whether a program is changing accounts, or that cannot be known. It takes
// no lock.
func (j *job) changesAccounts() bool {
	f, err := j.openLock(os.O_RDONLY)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	err = syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &lock)
	return err != nil || lock.Type != syscall.F_UNLCK
}

// lockAccounts keeps the programs for accounts out until the file is closed; there is none where
// one of them is at work.
func (j *job) lockAccounts() (*os.File, error) {
	f, err := j.openLock(os.O_WRONLY | os.O_CREATE)
	if err != nil {
		return nil, failed("%v", err)
	}
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &lock); err != nil {
		f.Close()
		return nil, nil
	}
	return f, nil
}

func (j *job) openLock(flags int) (*os.File, error) {
	at, err := j.place(pwdLock)
	if err != nil {
		return nil, err
	}
	return os.OpenFile(at, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
}
