// Package image puts the image of a system onto disks: a root file system from a tar, or a whole disk. Check reads
// and verifies a whole image before anything is erased for it. The image is verified again while it is written.
// Whatever an image contains, nothing outside the folder or the disk is written.
package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/engine/frames"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// Kind is the kind of an image.
type Kind string

// The kinds.
const (
	// Root is a root file system: a tar, plain or compressed with zstd, gzip or xz.
	Root Kind = "root"
	// Disk is a whole disk, in frames (engine/frames).
	Disk Kind = "disk"
)

// Image identifies the approved image.
type Image struct {
	Kind Kind
	// SHA256 is the digest of the file, in lower-case hex. Bytes is its size.
	SHA256 string
	Bytes  int64
}

// Options are the conditions for an image on a machine.
type Options struct {
	// Memory is the largest image, in bytes, that is kept in memory, so that it is read over the network once
	// instead of twice.
	Memory int64
	// Room is the space, in bytes, of the target file systems or disk.
	Room int64
	// Kept are the mount points of kept file systems. Nothing of the image goes there.
	Kept []string
	// Name is called with the name of each entry of a root file system, such as "usr/sbin/sshd", during the first
	// read. It may be nil.
	Name func(name string)
	// Tell is called from time to time with the bytes done, out of the total. It may be nil.
	Tell func(done, of int64)
	// wait is the delay before the second try of a source that breaks off.
	wait time.Duration
}

// Checked is an image that was read completely, matches the approved one and fits. The caller must close it.
type Checked struct {
	Image
	// Unpacked is the size in bytes of its files, or of the disk.
	Unpacked int64
	// Entries is the number of files, folders and other entries of a root file system.
	Entries int

	source  Source
	options Options
	list    *frames.List // of a disk
}

// refused is an error that a person must decide about.
func refused(format string, args ...any) error {
	return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(format, args...)}
}

// Check reads a whole image and writes nothing. Its error says that the image is not the approved one, cannot be
// installed, does not fit, or could not be read.
func Check(ctx context.Context, source Source, im Image, o Options) (*Checked, error) {
	if o.wait == 0 {
		o.wait = firstWait
	}
	if want, err := hex.DecodeString(im.SHA256); err != nil || len(want) != sha256.Size || im.Bytes <= 0 {
		return nil, refused("the image has the digest %q and %d bytes, which names no file; nothing was written", im.SHA256, im.Bytes)
	}
	c := &Checked{Image: im, source: source, options: o}
	var kept *os.File
	if im.Bytes <= o.Memory {
		var err error
		if kept, err = memory(); err != nil {
			return nil, fmt.Errorf("keep the image in memory: %w", err)
		}
	}
	err := c.look(ctx, kept)
	if err != nil {
		if kept != nil {
			kept.Close()
		}
		return nil, err
	}
	if kept != nil {
		c.source = inMemory{kept}
	}
	return c, nil
}

// Close releases an image.
func (c *Checked) Close() {
	if m, ok := c.source.(inMemory); ok {
		m.file.Close()
	}
}

// look reads the whole image.
func (c *Checked) look(ctx context.Context, kept *os.File) (err error) {
	listAt := int64(0)
	if c.Kind == Disk {
		if listAt, err = c.findList(ctx); err != nil {
			return err
		}
	}
	s := &steady{ctx: ctx, source: c.source, end: c.Bytes, wait: c.options.wait}
	defer s.Close()
	sum, list := sha256.New(), &bytes.Buffer{}
	to := []io.Writer{sum}
	if kept != nil {
		to = append(to, kept)
	}
	if c.Kind == Disk {
		to = append(to, &behind{skip: listAt, to: list})
	}
	in := io.TeeReader(c.told(s), io.MultiWriter(to...))
	var bad error
	switch c.Kind {
	case Root:
		bad = c.lookTar(in)
	case Disk:
	default:
		return refused("the image is of the kind %q, which this agent does not know; nothing was written", c.Kind)
	}
	if s.failed > 0 && bad != nil || ctx.Err() != nil {
		return errors.Join(ctx.Err(), bad) // the real problem is that it could not be read
	}
	// Report problems of the contents only for the right image.
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	if is := hex.EncodeToString(sum.Sum(nil)); is != c.SHA256 {
		return refused("the image has the SHA-256 %s, and the approved one has %s: another file is served, or it was damaged. "+
			"Run `slipway artifact verify` where the daemon runs; nothing was written", is, c.SHA256)
	}
	if bad != nil {
		return fmt.Errorf("%w; nothing was written", bad)
	}
	if c.Kind == Disk {
		return c.lookList(list.Bytes())
	}
	return nil
}

// findList reads only the end of the file.
func (c *Checked) findList(ctx context.Context) (int64, error) {
	if c.Bytes < int64(frames.TailBytes) {
		return 0, refused("the image has %d bytes, which is too few for one of a disk; nothing was written", c.Bytes)
	}
	s := &steady{ctx: ctx, source: c.source, at: c.Bytes - int64(frames.TailBytes), end: c.Bytes, wait: c.options.wait}
	defer s.Close()
	tail := make([]byte, frames.TailBytes)
	if _, err := io.ReadFull(s, tail); err != nil {
		return 0, err
	}
	at, err := frames.ListAt(tail, c.Bytes)
	if err != nil {
		return 0, refused("%v; nothing was written", err)
	}
	return at, nil
}

// lookList reads the list of frames of a verified file.
func (c *Checked) lookList(list []byte) (err error) {
	if c.list, err = frames.Parse(list, c.Bytes); err != nil {
		return refused("%v; nothing was written", err)
	}
	if c.Unpacked = c.list.Image; c.Unpacked > c.options.Room {
		return refused("the image is of a disk of %d bytes, and the disk that it is for has %d; use a larger disk or a smaller image; nothing was written",
			c.Unpacked, c.options.Room)
	}
	return nil
}

// tellEvery is the interval of progress reports.
const tellEvery = 15 * time.Second

// told makes a reader that reports progress.
func (c *Checked) told(s *steady) io.Reader {
	if c.options.Tell == nil {
		return s
	}
	return &telling{in: s, of: c.Bytes, tell: c.options.Tell, last: time.Now()}
}

type telling struct {
	in       io.Reader
	done, of int64
	tell     func(done, of int64)
	last     time.Time
}

func (t *telling) Read(b []byte) (int, error) {
	n, err := t.in.Read(b)
	t.done += int64(n)
	if time.Since(t.last) >= tellEvery || t.done == t.of && n > 0 {
		t.last = time.Now()
		t.tell(t.done, t.of)
	}
	return n, err
}

// behind skips a number of bytes and passes on the rest.
type behind struct {
	skip int64
	to   io.Writer
}

func (b *behind) Write(p []byte) (int, error) {
	n := min(b.skip, int64(len(p)))
	b.skip -= n
	if n < int64(len(p)) {
		if _, err := b.to.Write(p[n:]); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// memory creates a file that exists only in memory.
func memory() (*os.File, error) {
	fd, err := unix.MemfdCreate("image", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "image"), nil
}

// inMemory is an image in such a file.
type inMemory struct{ file *os.File }

func (m inMemory) Open(_ context.Context, from int64) (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(m.file, from, 1<<62)), nil
}
