package tree

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"syscall"
)

// Shared is the error for a place where an account other than root can change what the helper would run or remove
// as root.
type Shared struct {
	// Name is the first folder or file on the path that is not only root's.
	Name string
	// UID is its owner. If that is root, others may write there.
	UID int
}

func (e *Shared) Error() string {
	name, why := e.Name, "may be written by accounts other than root"
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		name = quoted
	}
	if e.UID != 0 {
		why = "belongs to the account number " + strconv.Itoa(e.UID)
	}
	return fmt.Sprintf("%s %s, which could replace what Slipway runs and removes there as root", name, why)
}

// shared reports whether an account other than root owns a folder or file, or can write there. A program that does
// not run as root trusts its own account.
func (t *Tree) shared(uid, mode uint32) *Shared {
	if int(uid) != os.Geteuid() && !t.trusts(int(uid)) {
		return &Shared{UID: int(uid)}
	}
	if mode&0o022 != 0 {
		return &Shared{}
	}
	return nil
}

// enter records a folder on the path that is not only root's. In a sticky folder, others cannot replace root's
// files.
func (t *Tree) enter(w *walk, s *syscall.Stat_t) {
	if w.shared != nil {
		return
	}
	mode := s.Mode
	if mode&syscall.S_ISVTX != 0 {
		mode = 0
	}
	if w.shared = t.shared(s.Uid, mode); w.shared != nil {
		w.shared.Name = "/" + w.path()
	}
}

// RootsFolder returns the path of a folder without the links above it, and whether the folder exists. It returns a
// *Shared if an account other than root can replace or change the folder, and an error if something else is at the
// path.
func (t *Tree) RootsFolder(name string) (at string, there bool, err error) {
	p, err := t.find(name, false)
	if err != nil {
		return "", false, err
	}
	defer p.close()
	if p.shared != nil {
		return "", false, p.shared
	}
	e, err := p.look(p.name())
	if err != nil || e.Kind == Nothing {
		return "/" + p.at(), false, err
	}
	if e.Kind != Folder {
		return "", false, fmt.Errorf("%s is a %s and not a folder", name, e.Kind)
	}
	if shared := t.shared(uint32(e.UID), e.Mode); shared != nil {
		shared.Name = "/" + p.at()
		return "", false, shared
	}
	return "/" + p.at(), true, nil
}

// RootsFiles returns a *Shared if something in a folder is not only root's. The folder comes from RootsFolder.
func (t *Tree) RootsFiles(root, folder string) error {
	return filepath.WalkDir(filepath.Join(root, folder), func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		s := info.Sys().(*syscall.Stat_t)
		mode := s.Mode
		if d.Type() == fs.ModeSymlink {
			mode = 0 // the mode of a link does not matter
		}
		shared := t.shared(s.Uid, mode)
		if shared == nil {
			return nil
		}
		if shared.Name, err = filepath.Rel(root, at); err != nil {
			return err
		}
		shared.Name = "/" + shared.Name
		return shared
	})
}

// MakeFolder creates a folder and missing folders above it, owned by root with mode 0755.
func (t *Tree) MakeFolder(name string) error {
	p, err := t.find(path.Join(name, "in"), false)
	if err != nil {
		return err
	}
	defer p.close()
	return t.makeFolders(p)
}
