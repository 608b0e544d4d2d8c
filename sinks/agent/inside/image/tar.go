package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// These are the bounds of an archive.
const (
	maxEntries   = 5_000_000
	maxName      = 4095      // bytes of a path, as PATH_MAX
	maxComponent = 255       // bytes of a name, as NAME_MAX
	maxWindow    = 128 << 20 // of zstd, as in `zstd --long`
	maxAttribute = 64 << 10  // bytes of an extended attribute, as XATTR_SIZE_MAX
)

// peek is how much of a file is read to recognize its format.
const peek = 40 << 10

// unpacked decompresses an archive, by its first bytes.
func unpacked(in io.Reader) (io.Reader, func(), error) {
	b := bufio.NewReaderSize(in, peek)
	head, err := b.Peek(peek)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	at := func(offset int, text string) bool {
		return len(head) >= offset+len(text) && string(head[offset:offset+len(text)]) == text
	}
	what := ""
	switch {
	case at(257, "ustar"):
		return b, func() {}, nil
	case at(0, "\x28\xb5\x2f\xfd"), at(1, "\x2a\x4d\x18") && head[0]&0xf0 == 0x50: // or a skippable frame
		d, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(math.MaxInt64))
		if err != nil {
			return nil, nil, err
		}
		return d, d.Close, nil
	case at(0, "\x1f\x8b"):
		d, err := gzip.NewReader(b)
		if err != nil {
			return nil, nil, refused("the image looks like gzip, and cannot be unpacked: %v", err)
		}
		return d, func() {}, nil
	case at(0, xzMagic):
		x, err := newXZ(b)
		return x, func() {}, err
	case at(0, "BZh"):
		what = "is packed by bzip2"
	case at(0, "hsqs"):
		what = "is a squashfs"
	case at(0, "QFI\xfb"):
		what = "is a qcow2 image of a disk"
	case at(32769, "CD001"):
		what = "is an ISO"
	case at(510, "\x55\xaa"):
		what = "is an image of a disk"
	default:
		what = "is none of these"
	}
	return nil, nil, refused("a root file system is a tar, or one packed by zstd, gzip or xz, and the image %s: make a tar of it", what)
}

// lookTar reads an archive and checks that it can be unpacked.
func (c *Checked) lookTar(in io.Reader) error {
	return walk(in, func(e entry, _ io.Reader) error {
		if c.options.Name != nil {
			c.options.Name(e.name)
		}
		return c.fits(e)
	})
}

// fits counts an entry and checks its size and place.
func (c *Checked) fits(e entry) error {
	if c.Entries++; c.Entries > maxEntries {
		return refused("the image has more than %d files", maxEntries)
	}
	if e.size > c.options.Room-c.Unpacked {
		return refused("the files of the image have more than the %d bytes of the file systems that they are for: up to %s they have %d; design a larger one, or use a smaller image",
			c.options.Room, e.name, c.Unpacked+e.size)
	}
	c.Unpacked += e.size
	for _, kept := range c.options.Kept {
		if strings.HasPrefix("/"+e.name, kept+"/") {
			return refused("the image has the file /%s, and at %s a file system is mounted that is kept: design another mount, or leave it out of the image", e.name, kept)
		}
	}
	return nil
}

// entry is an entry of an archive. Its name is relative and clean; "." is the root.
type entry struct {
	*tar.Header
	name string
	// target is the target of a hard link, in the same form.
	target string
	size   int64
	sparse bool
}

// walk reads an archive to its end, and passes on each entry with its content.
func walk(in io.Reader, visit func(e entry, content io.Reader) error) error {
	plain, done, err := unpacked(in)
	if err != nil {
		return err
	}
	defer done()
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nothingFollows(plain)
		}
		if err != nil {
			return damaged(err)
		}
		e, use, err := read(h)
		if err != nil {
			return err
		}
		if !use {
			continue
		}
		if err := visit(e, r); err != nil {
			return damaged(err)
		}
	}
}

// damaged converts a read error for people.
func damaged(err error) error {
	switch {
	case errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong), errors.Is(err, gzip.ErrChecksum), errors.Is(err, gzip.ErrHeader), errors.Is(err, zstd.ErrCRCMismatch),
		errors.Is(err, zstd.ErrMagicMismatch), errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrReservedBlockType), errors.Is(err, io.ErrUnexpectedEOF):
		return refused("the archive cannot be read: %v", err)
	}
	return err
}

// nothingFollows checks that only zeros follow an archive.
func nothingFollows(r io.Reader) error {
	buffer := make([]byte, 64<<10)
	for {
		n, err := r.Read(buffer)
		if len(bytes.Trim(buffer[:n], "\x00")) > 0 {
			return refused("something follows the end of the archive: several were put into one file, of which only the first would be unpacked")
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return damaged(err)
		}
	}
}

// read checks that an entry can be created. use is false if it only describes other entries.
func read(h *tar.Header) (e entry, use bool, err error) {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return e, false, nil
	}
	e = entry{Header: h}
	if e.name, err = clean(h.Name); err != nil {
		return e, false, err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		e.size, e.sparse = h.Size, h.Typeflag == tar.TypeGNUSparse
		for key := range h.PAXRecords {
			e.sparse = e.sparse || strings.HasPrefix(key, "GNU.sparse.")
		}
	case tar.TypeDir, tar.TypeFifo:
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) > maxName {
			return e, false, refused("the link %q of the image leads to a path of %d bytes", e.name, len(h.Linkname))
		}
	case tar.TypeLink:
		if e.target, err = clean(h.Linkname); err == nil && e.target == "." {
			err = refused("the hard link %q of the image is one of the root folder", e.name)
		}
		if err != nil {
			return e, false, err
		}
	case tar.TypeChar, tar.TypeBlock:
		if h.Devmajor < 0 || h.Devmajor >= 1<<12 || h.Devminor < 0 || h.Devminor >= 1<<20 {
			return e, false, refused("the device %q of the image has the numbers %d and %d, which Linux does not have", e.name, h.Devmajor, h.Devminor)
		}
	default:
		return e, false, refused("%q of the image is of the type %q, which is neither a file, a folder, a link, a device nor a pipe: make the tar again, as `tar --format=posix` does", e.name, h.Typeflag)
	}
	switch {
	case e.name == "." && h.Typeflag != tar.TypeDir:
		return e, false, refused("the root of the image is not a folder: make the tar again")
	case h.Uid < 0 || h.Uid > math.MaxUint32-1 || h.Gid < 0 || h.Gid > math.MaxUint32-1:
		return e, false, refused("%q of the image belongs to %d:%d, which cannot be an account", e.name, h.Uid, h.Gid)
	case h.Size < 0:
		return e, false, refused("%q of the image has %d bytes", e.name, h.Size)
	}
	return e, true, nil
}

// clean is a clean name of an archive.
func clean(name string) (string, error) {
	var words []string
	for word := range strings.SplitSeq(name, "/") {
		switch {
		case word == "" || word == ".":
		case word == "..":
			return "", refused("the image has the name %q, which leads out of a folder: make the tar again, without \"..\"", name)
		case len(word) > maxComponent:
			return "", refused("the image has a name of %d bytes, and a file system takes %d: %q", len(word), maxComponent, word[:40]+"…")
		default:
			words = append(words, word)
		}
	}
	clean := strings.Join(words, "/")
	switch {
	case strings.HasPrefix(name, "/"):
		return "", refused("the image has the name %q, which is not relative: make the tar again, without the option -P", name)
	case strings.ContainsRune(name, 0):
		return "", refused("the image has the name %q, with a zero in it", name)
	case len(clean) > maxName:
		return "", refused("the image has a path of %d bytes, and the kernel takes %d", len(clean), maxName)
	case clean == "":
		return ".", nil
	}
	return clean, nil
}

// Result describes what was written.
type Result struct {
	SHA256   string
	Bytes    int64 // of the file
	Unpacked int64
	Entries  int
}

// Unpack puts a root file system into a folder on which its file systems are mounted, and which has nothing else in
// it. It does not sync.
func (c *Checked) Unpack(ctx context.Context, root string) (Result, error) {
	if c.Kind != Root {
		return Result{}, refused("the image is of a %s, not a root file system", c.Kind)
	}
	x, err := newExtractor(root, c.options.Kept)
	if err != nil {
		return Result{}, err
	}
	defer x.close()
	s := &steady{ctx: ctx, source: c.source, end: c.Bytes, wait: c.options.wait}
	defer s.Close()
	sum := sha256.New()
	in := io.TeeReader(c.told(s), sum)
	err = walk(in, func(e entry, content io.Reader) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return x.put(e, content)
	})
	if err == nil {
		err = x.finish()
	}
	if err != nil {
		return Result{}, err
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return Result{}, err
	}
	if is := hex.EncodeToString(sum.Sum(nil)); is != c.SHA256 {
		return Result{}, refused("the image was right at the first reading, and has the SHA-256 %s the second time: it was damaged on the way, or the served file changed. The disks were erased already; try again", is)
	}
	return Result{c.SHA256, c.Bytes, c.Unpacked, c.Entries}, nil
}

// UnpackTrusted unpacks an archive, which its caller has verified, into an empty folder. It reads the archive like
// a root file system. The files may have at most room bytes.
func UnpackTrusted(ctx context.Context, in io.Reader, root string, room int64) (Result, error) {
	x, err := newExtractor(root, nil)
	if err != nil {
		return Result{}, err
	}
	defer x.close()
	c := &Checked{options: Options{Room: room}}
	err = walk(in, func(e entry, content io.Reader) error {
		if err := errors.Join(ctx.Err(), c.fits(e)); err != nil {
			return err
		}
		return x.put(e, content)
	})
	if err == nil {
		err = x.finish()
	}
	return Result{Unpacked: c.Unpacked, Entries: c.Entries}, err
}

// attributes are the extended attributes of an entry, as GNU tar and others write them.
func (e entry) attributes() (names []string, values map[string]string) {
	values = map[string]string{}
	for key, value := range e.PAXRecords {
		if name, ok := strings.CutPrefix(key, "SCHILY.xattr."); ok {
			names, values[name] = append(names, name), value
		}
	}
	slices.Sort(names)
	return names, values
}

// describe names an entry for people.
func (e entry) describe() string { return fmt.Sprintf("/%s of the image", e.name) }
