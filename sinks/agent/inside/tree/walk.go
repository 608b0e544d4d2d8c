package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	// maxLinks bounds the links of one path, like the kernel.
	maxLinks = 40
	// maxDepth bounds the folders of one path, because each is open during the walk.
	maxDepth = 256
)

// errEscape is for paths that are not below the root.
var errEscape = errors.New("not a path below the root")

// UnsafeLink is the error for a link that is not followed. An account other than root controls its target, and the
// target is not that account's. The helper is root, so following the link would lend root's rights to the account.
type UnsafeLink struct {
	Link, Target string
	// UID is the number of the account.
	UID int
	// Placed says that the link belongs to another account but is in a folder of this account, which may have moved
	// it there.
	Placed bool
}

func (e *UnsafeLink) Error() string {
	return e.Text("the account number " + strconv.Itoa(e.UID))
}

// Text is the error with a name for the account.
func (e *UnsafeLink) Text(account string) string {
	link, target := e.Link, e.Target
	if quoted := strconv.Quote(link); quoted != `"`+link+`"` {
		link = quoted
	}
	if len(target) > 200 {
		target = target[:200] + "…"
	}
	why := fmt.Sprintf("belongs to %s and leads to something that does not", account)
	if e.Placed {
		why = fmt.Sprintf("is in a folder of %s and belongs to somebody else", account)
	}
	return fmt.Sprintf("the link %s to %q %s. Slipway does not follow it: it works as root, and the account could have files of others "+
		"written or removed. Replace the link by a folder, or write the path to which it leads in the design", link, target, why)
}

// place is the end of a path: a name in an open folder.
type place struct {
	folder int    // handle of the deepest folder that exists
	in     string // its path without links, relative to the root
	// names are the names below the folder: one, or more if folders are missing.
	names []string
	// gap says why there is more than one name, such as syscall.ENOENT.
	gap error
	// public says that everyone may enter the folder and those above it.
	public bool
	// shared is the first folder on the path that is not only root's; nil if all are.
	shared *Shared
}

func (p *place) close() { syscall.Close(p.folder) }

// name is the last name of the path; "." for the root.
func (p *place) name() string { return p.names[len(p.names)-1] }

// at is the path without links, relative to the root.
func (p *place) at() string { return path.Join(append([]string{p.in}, p.names...)...) }

// fault is an error of a system call about the place.
func (p *place) fault(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: "/" + p.at(), Err: err}
}

// step is an open folder on the path, with its name in the previous one.
type step struct {
	handle int
	name   string
	uid    uint32
	public bool
}

// part is a name still to be walked.
type part struct {
	name string
	// link is the link of an account other than root through which the name was reached. What is found there must
	// belong to that account.
	link *UnsafeLink
}

func partsOf(name string, link *UnsafeLink) (parts []part) {
	for n := range strings.SplitSeq(name, "/") {
		if n != "" && n != "." {
			parts = append(parts, part{n, link})
		}
	}
	return parts
}

// walk is the path to a place. Every folder on it is open, so renaming one does not change the path.
type walk struct {
	steps  []step // the root is the first
	links  int
	shared *Shared // the first entered folder that is not only root's
}

func (w *walk) top() step { return w.steps[len(w.steps)-1] }

func (w *walk) pop() {
	syscall.Close(w.top().handle)
	w.steps = w.steps[:len(w.steps)-1]
}

func (w *walk) push(handle int, name string, s *syscall.Stat_t) error {
	if len(w.steps) > maxDepth {
		syscall.Close(handle)
		return syscall.ENAMETOOLONG
	}
	public := s.Mode&0o001 != 0 && (len(w.steps) == 0 || w.top().public)
	w.steps = append(w.steps, step{handle, name, s.Uid, public})
	return nil
}

func (w *walk) close() {
	for len(w.steps) > 0 {
		w.pop()
	}
}

// path is the path of the folder that was reached.
func (w *walk) path() string {
	at := "."
	for _, s := range w.steps[1:] {
		at = path.Join(at, s.name)
	}
	return at
}

// place returns the end of the walk and takes over the handle of the last folder.
func (w *walk) place(names []string, gap error) *place {
	p := &place{folder: w.top().handle, in: w.path(), names: names, public: w.top().public, shared: w.shared}
	if len(names) > 1 {
		p.gap = gap
	}
	w.steps = w.steps[:len(w.steps)-1]
	return p
}

// find walks a path folder by folder. With last, it also follows a link at the end. Absolute link targets are below
// the root.
//
// It follows root's links. It follows another account's links only through that account's own files and folders,
// which systemd calls a safe transition (CHASE_SAFE). A folder that is reached without a link may belong to anyone:
// only accounts that may write to the folder above it can move it.
func (t *Tree) find(name string, last bool) (*place, error) {
	if !path.IsAbs(name) || strings.ContainsRune(name, 0) {
		return nil, fmt.Errorf("%q: %w", name, errEscape)
	}
	p, err := t.walk(partsOf(name, nil), last)
	var errno syscall.Errno
	if errors.As(err, &errno) {
		err = &fs.PathError{Op: "resolve", Path: name, Err: errno}
	}
	return p, err
}

func (t *Tree) walk(rest []part, last bool) (*place, error) {
	w := &walk{}
	defer w.close()
	root, stat, err := openPlain(t.root, ".")
	if err == nil {
		err = w.push(root, "", &stat)
	}
	if err != nil {
		return nil, err
	}
	for len(rest) > 0 {
		next := rest[0]
		rest = rest[1:]
		if next.name == ".." {
			if len(w.steps) > 1 { // the root is its own parent
				w.pop()
			}
			if next.link != nil && int(w.top().uid) != next.link.UID {
				return nil, next.link
			}
			continue
		}
		if len(rest) == 0 && !last {
			return w.place([]string{next.name}, nil), nil
		}
		handle, stat, err := openPlain(w.top().handle, next.name)
		if err == syscall.ENOENT {
			if next.link != nil {
				return nil, next.link
			}
			return w.missing(next, rest, err)
		}
		if err != nil {
			return nil, err
		}
		if next.link != nil && int(stat.Uid) != next.link.UID {
			syscall.Close(handle)
			return nil, next.link
		}
		switch stat.Mode & syscall.S_IFMT {
		case syscall.S_IFDIR:
			if err := w.push(handle, next.name, &stat); err != nil {
				return nil, err
			}
			t.enter(w, &stat)
		case syscall.S_IFLNK:
			target, err := readLink(handle, "")
			syscall.Close(handle)
			if err != nil {
				return nil, err
			}
			more, err := t.follow(w, next.name, target, int(stat.Uid))
			if err != nil {
				return nil, err
			}
			rest = append(more, rest...)
		default:
			syscall.Close(handle)
			return w.missing(next, rest, syscall.ENOTDIR)
		}
	}
	if len(w.steps) == 1 {
		return w.place([]string{"."}, nil), nil
	}
	reached := w.top().name
	w.pop()
	return w.place([]string{reached}, nil), nil
}

// missing is a place below a name that is not a folder. No ".." may follow.
func (w *walk) missing(next part, rest []part, gap error) (*place, error) {
	names := []string{next.name}
	for _, r := range rest {
		if r.name == ".." {
			return nil, gap
		}
		names = append(names, r.name)
	}
	return w.place(names, gap), nil
}

// follow returns the rest of the path through a link in the last folder, or refuses the link.
func (t *Tree) follow(w *walk, name, target string, uid int) ([]part, error) {
	if w.links++; w.links > maxLinks {
		return nil, syscall.ELOOP
	}
	link := &UnsafeLink{Link: "/" + path.Join(w.path(), name), Target: target, UID: uid}
	if above := int(w.top().uid); !t.trusts(above) && above != uid {
		link.UID, link.Placed = above, true
		return nil, link
	}
	if path.IsAbs(target) {
		for len(w.steps) > 1 {
			w.pop()
		}
		if !t.trusts(uid) && int(w.top().uid) != uid {
			return nil, link
		}
	}
	if t.trusts(uid) {
		link = nil
	}
	return partsOf(target, link), nil
}

// trusts reports whether an account's links may lead anywhere: root, and the owner of the root folder, who may
// replace everything in it.
func (t *Tree) trusts(uid int) bool { return uid == 0 || uid == t.owner }

// openPlain opens a name in a folder without following a link. The handle cannot be read.
func openPlain(folder int, name string) (handle int, stat syscall.Stat_t, err error) {
	const flags = oPath | syscall.O_NOFOLLOW
	// Try it as a folder first, so that an automount is triggered.
	handle, err = openAt(folder, name, flags|syscall.O_DIRECTORY, 0)
	if err == syscall.ENOTDIR || err == syscall.ELOOP {
		handle, err = openAt(folder, name, flags, 0)
	}
	if err != nil {
		return -1, stat, err
	}
	if err := syscall.Fstat(handle, &stat); err != nil {
		syscall.Close(handle)
		return -1, stat, err
	}
	return handle, stat, nil
}

// look describes a name in the place's folder. It does not follow links.
func (p *place) look(name string) (Entry, error) {
	if p.gap != nil {
		return Entry{}, nil
	}
	s, err := statAt(p.folder, name)
	if err == syscall.ENOENT {
		return Entry{}, nil
	}
	if err != nil {
		return Entry{}, p.fault("look at", err)
	}
	e := entryOf(&s)
	if e.Kind == Link {
		e.Target, err = readLink(p.folder, name)
	}
	return e, p.fault("look at", err)
}

// entryOf is an entry without a link's target.
func entryOf(s *syscall.Stat_t) Entry {
	return Entry{Kind: kind(s.Mode), Mode: s.Mode & 0o7777, UID: int(s.Uid), GID: int(s.Gid), Size: s.Size,
		Stamp: fmt.Sprintf("%d:%d:%d:%d:%d", s.Dev, s.Ino, s.Size, syscall.TimespecToNsec(s.Mtim), syscall.TimespecToNsec(s.Ctim))}
}

func kind(mode uint32) Kind {
	switch mode & syscall.S_IFMT {
	case syscall.S_IFREG:
		return File
	case syscall.S_IFDIR:
		return Folder
	case syscall.S_IFLNK:
		return Link
	case syscall.S_IFIFO:
		return Pipe
	case syscall.S_IFSOCK:
		return Socket
	}
	return Device
}

// open opens the regular file at the place. It never blocks on a pipe or a device, and does not follow a link that
// appeared meanwhile.
func (p *place) open(flags int) (*os.File, error) { return p.openName(p.name(), flags) }

// openName is open for a name in the place's folder.
func (p *place) openName(name string, flags int) (*os.File, error) {
	e, err := p.look(name)
	switch {
	case err != nil:
		return nil, err
	case e.Kind == Nothing:
		return nil, p.fault("open", fs.ErrNotExist)
	case e.Kind != File:
		return nil, fmt.Errorf("/%s is not a file", p.at())
	}
	handle, err := openAt(p.folder, name, flags|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, p.fault("open", err)
	}
	f := os.NewFile(uintptr(handle), "/"+p.at())
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("/%s is not a file", p.at())
	}
	return f, nil
}

// namesIn are the sorted names in a folder of the place's folder; none if it is not a folder.
func (p *place) namesIn(name string) ([]string, error) {
	if p.gap != nil {
		return nil, nil
	}
	handle, err := openAt(p.folder, name, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err == syscall.ENOENT || err == syscall.ENOTDIR || err == syscall.ELOOP {
		return nil, nil
	}
	if err != nil {
		return nil, p.fault("open", err)
	}
	defer syscall.Close(handle)
	names, err := readNames(handle)
	return names, p.fault("list", err)
}

// readNames are the sorted names in an open folder.
func readNames(handle int) ([]string, error) {
	copied, err := openAt(handle, ".", syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(copied), ".")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// sync flushes the folder's names to the disk.
func (p *place) sync() error {
	handle, err := openAt(p.folder, ".", syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return p.fault("open the folder of", err)
	}
	defer syscall.Close(handle)
	return p.fault("sync the folder of", syscall.Fsync(handle))
}
