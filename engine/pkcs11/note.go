package pkcs11

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// note is a file that remembers which PIN was sent to a token and not accepted, also after a restart of the daemon. It
// is locked while a PIN is sent, so that two processes do not send a wrong one each. It has nothing of the PIN.
type note struct {
	path string
	f    *os.File
}

// mostNote limits what is read of a note, in bytes.
const mostNote = 4 << 10

var notInNames = regexp.MustCompile(`[^A-Za-z0-9]+`)

// notePath is the note of a token, in the folder of a sealed file: all files there have one note for each token.
func notePath(file string, t Token) string {
	return filepath.Join(filepath.Dir(file), "pin-of-"+notInNames.ReplaceAllString(t.Serial, "-")+".refused")
}

// openNote opens and locks the note of a token.
func openNote(ctx context.Context, file string, t Token) (*note, error) {
	n := &note{path: notePath(file, t)}
	const how = os.O_RDWR | syscall.O_NOFOLLOW | syscall.O_CLOEXEC | syscall.O_NONBLOCK
	f, err := os.OpenFile(n.path, how|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = ownedAsFolder(f, filepath.Dir(n.path))
	} else if errors.Is(err, fs.ErrExist) {
		f, err = openAlone(n.path, how)
	}
	if err != nil {
		return nil, fmt.Errorf("no PIN was sent, because the note that it was refused could not be kept: %w: keep the sealed file in a folder to which the daemon may write", err)
	}
	n.f = f
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return n, nil
		}
		select {
		case <-ctx.Done():
			n.close()
			return nil, fmt.Errorf("another process has kept %s locked for %v: %w", n.path, patience, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// openAlone opens a plain file that has no other name: root must not write into one that the daemon's user linked here.
func openAlone(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, how, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Sys().(*syscall.Stat_t).Nlink != 1) {
		err = fmt.Errorf("%s is not a plain file with one name: remove it", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ownedAsFolder gives a new file that root made to the owner of its folder, which is the daemon's user.
func ownedAsFolder(f *os.File, folder string) error {
	info, err := os.Stat(folder)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return f.Chown(int(owner.Uid), int(owner.Gid))
}

// try notes that a PIN is sent now, which counts as refused until clear is called. It refuses a PIN that was noted.
func (n *note) try(stamp string) error {
	was, err := io.ReadAll(io.LimitReader(n.f, mostNote))
	if err != nil {
		return err
	}
	if string(was) == stamp {
		return errors.New("no PIN was sent, because the token did not accept this one before, and tokens lock after few attempts")
	}
	return n.write(stamp)
}

// clear notes that the token took the PIN.
func (n *note) clear() error { return n.write("") }

func (n *note) write(text string) error {
	if err := n.f.Truncate(0); err != nil {
		return err
	}
	if _, err := n.f.WriteAt([]byte(text), 0); err != nil {
		return err
	}
	return n.f.Sync()
}

func (n *note) close() { n.f.Close() }
