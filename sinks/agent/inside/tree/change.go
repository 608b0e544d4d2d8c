package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// cut asks whether a write is allowed.
func (t *Tree) cut(what string) error {
	if t.Before == nil {
		return nil
	}
	return t.Before(what)
}

// temporary is the name under which the next content of a file is written. It is always the same, so that leftovers
// of an interruption are found again.
func (p *place) temporary() string {
	sum := sha256.Sum256([]byte(p.at()))
	return ".slipway-" + hex.EncodeToString(sum[:6])
}

// Put writes a file at a path, replaces a file or a link there, and creates missing folders above it.
func (t *Tree) Put(name string, content []byte, mode uint32, uid, gid int) error {
	return t.replace(name, func(p *place) error {
		return p.write(mode, uid, gid, func(w io.Writer) error {
			_, err := w.Write(content)
			return err
		})
	})
}

// PutFrom is Put for a content from a reader, which must have the given SHA-256. Otherwise the file stays as it
// was.
func (t *Tree) PutFrom(name string, content io.Reader, size int64, digest string, mode uint32, uid, gid int) error {
	return t.replace(name, func(p *place) error {
		return p.write(mode, uid, gid, func(w io.Writer) error {
			sum := sha256.New()
			got, err := io.Copy(io.MultiWriter(w, sum), content)
			switch is := hex.EncodeToString(sum.Sum(nil)); {
			case err != nil:
				return err
			case got != size:
				return fmt.Errorf("only %d of the %d bytes of %s arrived: %w", got, size, name, io.ErrUnexpectedEOF)
			case is != digest:
				return fmt.Errorf("what came for %s has the digest %s and not %s", name, is, digest)
			}
			return nil
		})
	})
}

// Room is the free space in bytes on the file system of a path, or of its future place.
func (t *Tree) Room(name string) (int64, error) {
	p, err := t.find(name, false)
	if err != nil {
		return 0, err
	}
	defer p.close()
	var s syscall.Statfs_t
	if err := syscall.Fstatfs(p.folder, &s); err != nil {
		return 0, p.fault("find the room of", err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// PutLink creates a symbolic link at a path, and replaces a file or a link there.
func (t *Tree) PutLink(name, target string, uid, gid int) error {
	return t.replace(name, func(p *place) error {
		if err := symlinkAt(target, p.folder, p.temporary()); err != nil {
			return p.fault("link", err)
		}
		return p.fault("own", syscall.Fchownat(p.folder, p.temporary(), uid, gid, atNoFollow))
	})
}

// replace creates something under a temporary name and renames it.
func (t *Tree) replace(name string, make func(p *place) error) (err error) {
	p, err := t.find(name, false)
	if err != nil {
		return err
	}
	defer p.close()
	if err := t.makeFolders(p); err != nil {
		return err
	}
	if err := t.sweep(p); err != nil {
		return err
	}
	if err := t.cut("write " + name); err != nil {
		return err
	}
	defer func() {
		if err != nil && t.cut("clean "+name) == nil {
			unlinkAt(p.folder, p.temporary(), 0)
		}
	}()
	if err := make(p); err != nil {
		return err
	}
	isNew := !p.copyLabel()
	if err := t.cut("rename " + name); err != nil {
		return err
	}
	if err := syscall.Renameat(p.folder, p.temporary(), p.folder, p.name()); err != nil {
		return p.fault("rename", err)
	}
	if isNew {
		if err := t.label(name); err != nil {
			return err
		}
	}
	return p.sync()
}

// copyLabel gives the next content of a file the security label of the file that it will replace. It reports
// whether both are files.
func (p *place) copyLabel() bool {
	var both [2]*os.File
	for i, name := range []string{p.name(), p.temporary()} {
		f, err := p.openName(name, os.O_RDONLY)
		if err != nil {
			return false
		}
		defer f.Close()
		both[i] = f
	}
	inside.CopyLabel(both[1], both[0])
	return true
}

// label labels what is new at a path.
func (t *Tree) label(name string) error {
	if t.Label == nil {
		return nil
	}
	return t.Label(name)
}

// write writes the next content of a file under its temporary name.
func (p *place) write(mode uint32, uid, gid int, fill func(io.Writer) error) error {
	handle, err := openAt(p.folder, p.temporary(), syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return p.fault("write", err)
	}
	f := os.NewFile(uintptr(handle), "/"+p.at())
	err = fill(f)
	if err == nil {
		err = f.Chown(uid, gid)
	}
	if err == nil {
		err = syscall.Fchmod(handle, mode)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// makeFolders creates the missing folders of a place, owned by root with mode 0755.
func (t *Tree) makeFolders(p *place) error {
	for len(p.names) > 1 {
		if p.gap != syscall.ENOENT {
			return p.fault("make the folders of", p.gap)
		}
		next := p.names[0]
		if err := t.cut("make /" + path.Join(p.in, next)); err != nil {
			return err
		}
		made := syscall.Mkdirat(p.folder, next, 0o755)
		if made != nil && made != syscall.EEXIST {
			return p.fault("make the folders of", made)
		}
		handle, err := openAt(p.folder, next, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return p.fault("make the folders of", err)
		}
		syscall.Close(p.folder)
		p.folder, p.in, p.names = handle, path.Join(p.in, next), p.names[1:]
		names, err := readNames(handle)
		if made == nil && err == nil && len(names) == 0 { // otherwise somebody has replaced the folder
			err = syscall.Fchmod(handle, 0o755) // regardless of the umask
		}
		if err != nil {
			return p.fault("make the folders of", err)
		}
		if err := t.label("/" + p.in); err != nil {
			return err
		}
	}
	p.gap = nil
	return nil
}

// ErrOther reports a file that was replaced since the look, has further names, or was writable by others.
var ErrOther = errors.New("it was put there meanwhile, has further names, or others could write it")

// SetMode sets the permissions of a file that was looked at before. An account may have replaced the file, or given
// it further names (hard links); then SetMode sets nothing and returns ErrOther. It also does so if others than the
// owner could write the file: whoever opened or mapped it can still write, whatever its mode. It never changes the
// owner, because the old owner could keep writing in the same way.
func (t *Tree) SetMode(name string, looked Entry, mode uint32) error {
	p, err := t.find(name, false)
	if err != nil {
		return err
	}
	defer p.close()
	f, err := p.open(os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	var s syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &s); err != nil {
		return p.fault("stat", err)
	}
	is := entryOf(&s)
	if s.Nlink != 1 || is.Stamp != looked.Stamp || is.Mode&0o022 != 0 {
		return p.fault("set the mode of", ErrOther)
	}
	if is.Mode == mode {
		return nil
	}
	if err := t.cut("mode " + name); err != nil {
		return err
	}
	return p.fault("set the mode of", syscall.Fchmod(int(f.Fd()), mode))
}

// Remove removes a file or a link, and leftovers of an interruption beside it. A missing file is not an error.
func (t *Tree) Remove(name string) error {
	p, err := t.find(name, false)
	if err != nil {
		return err
	}
	defer p.close()
	if err := t.sweep(p); err != nil {
		return err
	}
	switch e, err := p.look(p.name()); {
	case err != nil:
		return err
	case e.Kind == Nothing:
		return nil
	case e.Kind == Folder:
		return p.fault("remove", syscall.EISDIR)
	}
	if err := t.cut("remove " + name); err != nil {
		return err
	}
	if err := unlinkAt(p.folder, p.name(), 0); err != nil {
		return p.fault("remove", err)
	}
	return p.sync()
}

// Sweep removes leftovers of an interruption beside a file.
func (t *Tree) Sweep(name string) error {
	p, err := t.find(name, false)
	if err != nil {
		return err
	}
	defer p.close()
	return t.sweep(p)
}

func (t *Tree) sweep(p *place) error {
	e, err := p.look(p.temporary())
	if err != nil || e.Kind == Nothing {
		return err
	}
	if err := t.cut("sweep " + p.at()); err != nil {
		return err
	}
	return p.fault("sweep beside", unlinkAt(p.folder, p.temporary(), 0))
}

// RemoveFolders removes the empty folders of a list, deepest first.
func (t *Tree) RemoveFolders(folders []string) error {
	deepest := slices.Clone(folders)
	slices.Sort(deepest)
	slices.Reverse(deepest)
	for _, folder := range deepest {
		if err := t.removeFolder(folder); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tree) removeFolder(folder string) error {
	p, err := t.find(folder, false)
	if err != nil {
		return err
	}
	defer p.close()
	if e, err := p.look(p.name()); err != nil || e.Kind != Folder {
		return nil
	}
	if names, err := p.namesIn(p.name()); err != nil || len(names) > 0 {
		return nil
	}
	if err := t.cut("remove " + folder); err != nil {
		return err
	}
	return p.fault("remove", unlinkAt(p.folder, p.name(), atFolder))
}

// Set writes a value to a kernel file, such as those below /proc/sys.
func (t *Tree) Set(name, value string) error {
	p, err := t.find(name, true)
	if err != nil {
		return err
	}
	defer p.close()
	if err := t.cut("set " + name); err != nil {
		return err
	}
	f, err := p.open(os.O_WRONLY | os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value + "\n")
	return errors.Join(err, f.Close())
}
