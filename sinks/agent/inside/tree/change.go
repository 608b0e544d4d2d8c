package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// cut asks whether a write may be made.
func (t *Tree) cut(what string) error {
	if t.Before == nil {
		return nil
	}
	return t.Before(what)
}

// temporary is the name under which the next content of a file is written. It is
// always the same, so that what a cut left there is found again.
func temporary(at string) string {
	sum := sha256.Sum256([]byte(at))
	return path.Join(path.Dir(at), ".slipway-"+hex.EncodeToString(sum[:6]))
}

// Put puts a file at a path, in the place of a file or a link, and makes the
// folders above it.
func (t *Tree) Put(name string, content []byte, mode uint32, uid, gid int) error {
	return t.replace(name, func(at string) error { return t.write(at, content, mode, uid, gid) })
}

// PutFrom puts a file with a content that is read, and that must have a SHA-256, in the
// place of a file or a link. The file is as it was where it has another one.
func (t *Tree) PutFrom(name string, content io.Reader, size int64, digest string, mode uint32, uid, gid int) error {
	return t.replace(name, func(at string) error {
		return t.writeFrom(at, mode, uid, gid, func(w io.Writer) error {
			sum := sha256.New()
			got, err := io.Copy(io.MultiWriter(w, sum), content)
			switch is := hex.EncodeToString(sum.Sum(nil)); {
			case err != nil:
				return err
			case got != size:
				return fmt.Errorf("%d of the %d bytes of %s came: %w", got, size, name, io.ErrUnexpectedEOF)
			case is != digest:
				return fmt.Errorf("what came for %s has the digest %s and not %s", name, is, digest)
			}
			return nil
		})
	})
}

// Room is how many bytes fit on the file system on which a path is, or will be.
func (t *Tree) Room(name string) (int64, error) {
	for folder := path.Dir(name); ; folder = path.Dir(folder) {
		at, err := t.Resolve(folder, true)
		if err != nil {
			return 0, err
		}
		f, err := t.root.Open(at)
		if errors.Is(err, fs.ErrNotExist) && folder != "/" {
			continue
		}
		if err != nil {
			return 0, err
		}
		defer f.Close()
		var s syscall.Statfs_t
		if err := syscall.Fstatfs(int(f.Fd()), &s); err != nil {
			return 0, err
		}
		return int64(s.Bavail) * int64(s.Bsize), nil
	}
}

// PutLink puts a symbolic link at a path, in the place of a file or a link.
func (t *Tree) PutLink(name, target string, uid, gid int) error {
	return t.replace(name, func(at string) error {
		if err := t.root.Symlink(target, at); err != nil {
			return err
		}
		return t.root.Lchown(at, uid, gid)
	})
}

// replace makes something under a temporary name and renames it.
func (t *Tree) replace(name string, make func(at string) error) (err error) {
	if err := t.makeFolders(name); err != nil {
		return err
	}
	at, err := t.Resolve(name, false)
	if err != nil {
		return err
	}
	if err := t.sweep(at); err != nil {
		return err
	}
	if err := t.cut("write " + name); err != nil {
		return err
	}
	defer func() {
		if err != nil && t.cut("clean "+name) == nil {
			t.root.Remove(temporary(at))
		}
	}()
	if err := make(temporary(at)); err != nil {
		return err
	}
	isNew := !t.copyLabel(at)
	if err := t.cut("rename " + name); err != nil {
		return err
	}
	if err := t.root.Rename(temporary(at), at); err != nil {
		return err
	}
	if isNew {
		if err := t.label(name); err != nil {
			return err
		}
	}
	return t.sync(path.Dir(at))
}

// copyLabel gives the next content of a file the label of the file that it will replace.
// It says whether both are files.
func (t *Tree) copyLabel(at string) bool {
	var both [2]*os.File
	for i, name := range []string{at, temporary(at)} {
		if e, err := t.look(name); err != nil || e.Kind != File {
			return false
		}
		f, err := t.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return false
		}
		defer f.Close()
		both[i] = f
	}
	inside.CopyLabel(both[1], both[0])
	return true
}

// label has what is new at a path labelled.
func (t *Tree) label(name string) error {
	if t.Label == nil {
		return nil
	}
	return t.Label(name)
}

func (t *Tree) write(at string, content []byte, mode uint32, uid, gid int) error {
	return t.writeFrom(at, mode, uid, gid, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

func (t *Tree) writeFrom(at string, mode uint32, uid, gid int, fill func(io.Writer) error) error {
	f, err := t.root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = fill(f)
	if err == nil {
		err = f.Chown(uid, gid)
	}
	if err == nil {
		err = syscall.Fchmod(int(f.Fd()), mode)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (t *Tree) sync(at string) error {
	f, err := t.root.Open(at)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// makeFolders makes the folders above a path: root's, with mode 0755.
func (t *Tree) makeFolders(name string) error {
	missing, err := t.MissingFolders(name)
	if err != nil {
		return err
	}
	for _, folder := range missing {
		at, err := t.Resolve(folder, true)
		if err != nil {
			return err
		}
		if err := t.cut("make " + folder); err != nil {
			return err
		}
		if err := t.root.MkdirAll(at, 0o755); err != nil {
			return err
		}
		if err := t.root.Chmod(at, 0o755); err != nil { // whatever the umask is
			return err
		}
		if err := t.label(folder); err != nil {
			return err
		}
	}
	return nil
}

// SetOwner gives a file to an account and a group.
func (t *Tree) SetOwner(name string, uid, gid int) error {
	at, err := t.Resolve(name, false)
	if err == nil {
		err = t.cut("own " + name)
	}
	if err != nil {
		return err
	}
	return t.root.Lchown(at, uid, gid)
}

// SetMode sets the permissions of a file that is no link.
func (t *Tree) SetMode(name string, mode uint32) error {
	at, err := t.Resolve(name, false)
	if err == nil {
		err = t.cut("mode " + name)
	}
	if err != nil {
		return err
	}
	f, err := t.root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return syscall.Fchmod(int(f.Fd()), mode)
}

// Remove removes a file or a link, and what a cut left beside it. It is no error
// where nothing is.
func (t *Tree) Remove(name string) error {
	at, err := t.Resolve(name, false)
	if err != nil {
		return err
	}
	if err := t.sweep(at); err != nil {
		return err
	}
	switch e, err := t.look(at); {
	case err != nil:
		return err
	case e.Kind == Nothing:
		return nil
	case e.Kind == Folder:
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.EISDIR}
	}
	if err := t.cut("remove " + name); err != nil {
		return err
	}
	if err := t.root.Remove(at); err != nil {
		return err
	}
	return t.sync(path.Dir(at))
}

// Sweep removes what a cut left beside a file.
func (t *Tree) Sweep(name string) error {
	at, err := t.Resolve(name, false)
	if err != nil {
		return err
	}
	return t.sweep(at)
}

func (t *Tree) sweep(at string) error {
	e, err := t.look(temporary(at))
	if err != nil || e.Kind == Nothing {
		return err
	}
	if err := t.cut("sweep " + at); err != nil {
		return err
	}
	return t.root.Remove(temporary(at))
}

// RemoveFolders removes those folders that are empty, the deepest first.
func (t *Tree) RemoveFolders(folders []string) error {
	deepest := slices.Clone(folders)
	slices.Sort(deepest)
	slices.Reverse(deepest)
	for _, folder := range deepest {
		at, err := t.Resolve(folder, false)
		if err != nil {
			return err
		}
		if e, err := t.look(at); err != nil || e.Kind != Folder {
			continue
		}
		if names, err := t.Names(folder); err != nil || len(names) > 0 {
			continue
		}
		if err := t.cut("remove " + folder); err != nil {
			return err
		}
		if err := t.root.Remove(at); err != nil {
			return err
		}
	}
	return nil
}

// Set writes a value into a file of the kernel, such as those below /proc/sys.
func (t *Tree) Set(name, value string) error {
	at, err := t.Resolve(name, true)
	if err == nil {
		err = t.cut("set " + name)
	}
	if err != nil {
		return err
	}
	f, err := t.root.OpenFile(at, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value + "\n")
	return errors.Join(err, f.Close())
}
