package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// extractor writes entries below a folder. os.Root resolves each path and follows no link out of it. Entries are
// created by their last name in the opened folder.
type extractor struct {
	root    *os.Root
	kept    []string
	devices map[uint64]bool // of kept file systems
	plain   map[uint64]bool // by device: it has neither owners nor modes
	folders []folder        // whose times are set at the end

	in     *os.File // the folder that was opened last
	inPath string
	inDev  uint64
	buffer []byte
}

// folder is a folder whose attributes are set at the end, because adding entries changes its times.
type folder struct {
	path string
	e    entry
}

// newExtractor opens a folder and checks that it contains only mount points and what a new file system has.
func newExtractor(root string, kept []string) (*extractor, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	x := &extractor{root: r, kept: kept, devices: map[uint64]bool{}, plain: map[uint64]bool{}, buffer: make([]byte, 256<<10)}
	for _, k := range kept {
		info, err := r.Stat(strings.TrimPrefix(k, "/"))
		if err != nil {
			x.close()
			return nil, err
		}
		x.devices[deviceOf(info)] = true
	}
	err = fs.WalkDir(r.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case slices.Contains(kept, "/"+name):
			return fs.SkipDir
		case !d.IsDir():
			return fmt.Errorf("there is a file %s before the image was put there: the file system is not a new one", path.Join(root, name))
		}
		return nil
	})
	if err != nil {
		x.close()
		return nil, err
	}
	return x, nil
}

func deviceOf(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Dev
	}
	return 0
}

func (x *extractor) close() {
	if x.in != nil {
		x.in.Close()
	}
	x.root.Close()
}

// enter opens the folder of an entry.
func (x *extractor) enter(folder string) error {
	if x.in != nil && x.inPath == folder {
		return nil
	}
	x.leave()
	f, err := x.root.OpenFile(folder, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) && folder != "." { // a tar need not list all folders
		// One after the other, so that none is created on a kept file system.
		if err := x.enter(path.Dir(folder)); err != nil {
			return err
		}
		if err = unix.Mkdirat(int(x.in.Fd()), path.Base(folder), 0o755); err == nil {
			x.leave()
			f, err = x.root.OpenFile(folder, os.O_RDONLY|unix.O_DIRECTORY, 0)
		}
	}
	if err != nil {
		return refused("the folder /%s cannot be used: %v: an absolute link, or something that is not a folder, is there", folder, plainError(err))
	}
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		f.Close()
		return err
	}
	if x.devices[s.Dev] {
		f.Close()
		return refused("the folder /%s is on a file system that is kept: nothing of the image goes there", folder)
	}
	if _, known := x.plain[s.Dev]; !known {
		var is unix.Statfs_t
		if err := unix.Fstatfs(int(f.Fd()), &is); err != nil {
			f.Close()
			return err
		}
		x.plain[s.Dev] = is.Type == unix.MSDOS_SUPER_MAGIC
	}
	x.in, x.inPath, x.inDev = f, folder, s.Dev
	return nil
}

func (x *extractor) leave() {
	if x.in != nil {
		x.in.Close()
		x.in = nil
	}
}

// plainError drops the path from an error, because the caller names it.
func plainError(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// put creates an entry.
func (x *extractor) put(e entry, content io.Reader) error {
	if e.name == "." {
		x.folders = append(x.folders, folder{".", e})
		return nil
	}
	if slices.Contains(x.kept, "/"+e.name) {
		return nil // it exists and stays as it is
	}
	if err := x.enter(path.Dir(e.name)); err != nil {
		return err
	}
	err := x.make(e, content)
	if errors.Is(err, unix.EEXIST) {
		var there bool
		if there, err = x.makeRoom(e); err == nil && !there {
			err = x.make(e, content)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", e.describe(), err)
	}
	if e.Typeflag == tar.TypeDir {
		x.folders = append(x.folders, folder{e.name, e})
	}
	return nil
}

// makeRoom removes what an earlier entry with the same name created. there is true if it is a folder that stays.
func (x *extractor) makeRoom(e entry) (there bool, err error) {
	dir, base := int(x.in.Fd()), path.Base(e.name)
	var s unix.Stat_t
	if err := unix.Fstatat(dir, base, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return false, err
	}
	isFolder := s.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case isFolder && e.Typeflag == tar.TypeDir:
		return true, nil
	case isFolder:
		return false, refused("a folder is there already")
	case e.Typeflag == tar.TypeLink && e.target == e.name:
		return false, refused("it is a hard link to itself")
	}
	return false, unix.Unlinkat(dir, base, 0)
}

// make creates an entry with its owner, mode, attributes and time. Folders get these later.
func (x *extractor) make(e entry, content io.Reader) error {
	dir, base := int(x.in.Fd()), path.Base(e.name)
	switch e.Typeflag {
	case tar.TypeDir:
		return unix.Mkdirat(dir, base, 0o700)
	case tar.TypeLink:
		return x.link(e, dir, base)
	case tar.TypeSymlink:
		if err := unix.Symlinkat(e.Linkname, dir, base); err != nil {
			return err
		}
	case tar.TypeFifo:
		if err := unix.Mknodat(dir, base, unix.S_IFIFO|0o600, 0); err != nil {
			return err
		}
	case tar.TypeChar, tar.TypeBlock:
		kind := uint32(unix.S_IFCHR)
		if e.Typeflag == tar.TypeBlock {
			kind = unix.S_IFBLK
		}
		if err := unix.Mknodat(dir, base, kind|0o600, int(unix.Mkdev(uint32(e.Devmajor), uint32(e.Devminor)))); err != nil {
			return err
		}
	default:
		if err := x.file(e, dir, base, content); err != nil {
			return err
		}
	}
	return x.attribute(dir, base, e, x.plain[x.inDev])
}

// link makes a hard link to an earlier entry of the archive.
func (x *extractor) link(e entry, dir int, base string) error {
	if e.target == e.name {
		return unix.EEXIST
	}
	to, err := x.root.OpenFile(path.Dir(e.target), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return refused("it is a hard link to /%s, which the archive does not have before it", e.target)
	}
	defer to.Close()
	var s unix.Stat_t
	if err := unix.Fstat(int(to.Fd()), &s); err != nil {
		return err
	}
	if x.devices[s.Dev] {
		return refused("it is a hard link to /%s, which is on a file system that is kept", e.target)
	}
	err = unix.Linkat(int(to.Fd()), path.Base(e.target), dir, base, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return refused("it is a hard link to /%s, which the archive does not have before it", e.target)
	case errors.Is(err, unix.EXDEV):
		return refused("it is a hard link to /%s, which is on another file system: design both on one, or make the image without this link", e.target)
	}
	return err
}

// file makes a regular file with its content.
func (x *extractor) file(e entry, dir int, base string, content io.Reader) (err error) {
	fd, err := unix.Openat(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), e.name)
	defer func() {
		if closing := f.Close(); err == nil {
			err = closing
		}
	}()
	if !e.sparse {
		_, err = io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{content}, x.buffer)
		return err
	}
	at := int64(0)
	for {
		n, err := io.ReadFull(content, x.buffer)
		for part := x.buffer[:n]; len(part) > 0; { // keep holes as holes
			block := part[:min(len(part), 4096)]
			if part = part[len(block):]; slices.ContainsFunc(block, func(b byte) bool { return b != 0 }) {
				if _, err := f.WriteAt(block, at); err != nil {
					return err
				}
			}
			at += int64(len(block))
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF && at == e.size {
			return f.Truncate(at)
		}
		if err != nil {
			return err
		}
	}
}

// attribute sets the owner, mode, extended attributes and time of a name in a folder. The order matters: changing
// the owner clears setuid and capabilities.
func (x *extractor) attribute(dir int, base string, e entry, plain bool) error {
	if !plain {
		if err := unix.Fchownat(dir, base, e.Uid, e.Gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("set its owner: %w", err)
		}
		if e.Typeflag != tar.TypeSymlink {
			if err := unix.Fchmodat(dir, base, uint32(e.Mode)&0o7777, 0); err != nil {
				return fmt.Errorf("set its mode: %w", err)
			}
		}
		// The calls for attributes take no folder. This path leads nowhere else.
		at := fmt.Sprintf("/proc/self/fd/%d/%s", dir, base)
		names, values := e.attributes()
		for _, name := range names {
			if len(values[name]) > maxAttribute {
				return refused("its attribute %s has %d bytes", name, len(values[name]))
			}
			if err := unix.Lsetxattr(at, name, []byte(values[name]), 0); err != nil {
				return fmt.Errorf("set its attribute %s: %w; a file system that keeps such attributes is needed", name, err)
			}
		}
	}
	times := []unix.Timespec{timespec(e.ModTime), timespec(e.ModTime)}
	if err := unix.UtimesNanoAt(dir, base, times, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("set its time: %w", err)
	}
	return nil
}

func timespec(t time.Time) unix.Timespec {
	if t.IsZero() {
		return unix.Timespec{}
	}
	return unix.Timespec{Sec: t.Unix(), Nsec: int64(t.Nanosecond())}
}

// finish sets the attributes of folders, last first, so that the contents of a folder are done before the folder.
func (x *extractor) finish() error {
	x.leave()
	for _, f := range slices.Backward(x.folders) {
		if f.path == "." {
			if err := x.enterAnd(".", ".", f.e); err != nil {
				return err
			}
			continue
		}
		if err := x.enterAnd(path.Dir(f.path), path.Base(f.path), f.e); err != nil {
			return err
		}
	}
	return nil
}

func (x *extractor) enterAnd(folder, base string, e entry) error {
	if err := x.enter(folder); err != nil {
		return err
	}
	var s unix.Stat_t
	if err := unix.Fstatat(int(x.in.Fd()), base, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if s.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil // a later entry of the archive replaced it
	}
	if _, known := x.plain[s.Dev]; !known { // a file system is mounted on it
		in := x.inPath
		if err := x.enter(path.Join(folder, base)); err != nil {
			return err
		}
		if err := x.enter(in); err != nil {
			return err
		}
	}
	if err := x.attribute(int(x.in.Fd()), base, e, x.plain[s.Dev]); err != nil {
		return fmt.Errorf("%s: %w", e.describe(), err)
	}
	return nil
}
