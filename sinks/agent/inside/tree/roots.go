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

// Shared is the error for a place in which an account other than root can change what
// the helper would run or remove as root.
type Shared struct {
	// Name is the first folder or file on the way that is not root's alone.
	Name string
	// UID is its owner. Where that is root, others may write there.
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

// shared says whether somebody else than root owns a folder or file, or can write there. A
// program that does not run as root may trust itself.
func (t *Tree) shared(uid, mode uint32) *Shared {
	if int(uid) != os.Geteuid() && !t.trusts(int(uid)) {
		return &Shared{UID: int(uid)}
	}
	if mode&0o022 != 0 {
		return &Shared{}
	}
	return nil
}

// enter notes a folder on the way that is not root's alone. What is root's in a sticky
// folder cannot be replaced by others.
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

// RootsFolder gives the path of a folder without the links above it, and says whether it
// is there. It gives a *Shared where an account other than root can replace the folder or
// change what is in it, and an error where something else is at the path.
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

// RootsFiles gives a *Shared where something in a folder is not root's alone. The folder
// is one that RootsFolder found.
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
			mode = 0 // that of a link counts for nothing
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

// MakeFolder makes a folder, and those above it that are missing: root's, with mode 0755.
func (t *Tree) MakeFolder(name string) error {
	p, err := t.find(path.Join(name, "in"), false)
	if err != nil {
		return err
	}
	defer p.close()
	return t.makeFolders(p)
}
