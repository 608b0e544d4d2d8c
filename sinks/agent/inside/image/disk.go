package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/slipway-gitops/slipway/engine/frames"
)

// Medium is a disk that is written.
type Medium interface {
	io.ReaderAt
	io.WriterAt
	// Sync puts what was written onto the disk. What is read after it comes from there, as
	// far as the system can tell.
	Sync() error
}

// edge is how much at both ends of an image is written last: the tables of partitions are
// there, without which nothing on the disk boots.
const edge = 1 << 20

// frameTries is how often a frame is asked for whose bytes are not those of the list.
const frameTries = 3

// Write puts the image of a disk onto one that has room for it and on which no signature of
// another system is left at either end. What boots is written last: a run that was cut leaves
// a disk without a table of partitions. At the end all of it is read again; where that is not
// the image, the table is removed.
func (c *Checked) Write(ctx context.Context, m Medium, size int64) (Result, error) {
	if c.Kind != Disk {
		return Result{}, refused("the image is of a %s file system, and not of a disk", c.Kind)
	}
	l := c.list
	if size < l.Image {
		return Result{}, refused("the image is of a disk of %d bytes, and the disk has %d; nothing was written", l.Image, size)
	}
	// The first and the last MiB that a table may be in are cleared first, and synced before
	// anything else is there.
	if err := clear(m, 0, min(edge, size)); err != nil {
		return Result{}, err
	}
	if err := clear(m, max(0, size-edge), size); err != nil {
		return Result{}, err
	}
	if err := m.Sync(); err != nil {
		return Result{}, err
	}
	first, last := min(int64(edge), l.Image), max(int64(edge), l.Image-edge)
	head, tail := make([]byte, first), make([]byte, max(0, l.Image-last))
	if err := c.each(ctx, func(at int64, raw []byte) error {
		copyAt(head, 0, raw, at)
		copyAt(tail, last, raw, at)
		from, to := max(at, first), min(at+int64(len(raw)), last)
		if from >= to {
			return nil
		}
		_, err := m.WriteAt(raw[from-at:to-at], from)
		return err
	}); err != nil {
		return Result{}, err
	}
	if err := m.Sync(); err != nil {
		return Result{}, err
	}
	for _, w := range []struct {
		at    int64
		bytes []byte
	}{{last, tail}, {0, head}} {
		if len(w.bytes) == 0 {
			continue
		}
		if _, err := m.WriteAt(w.bytes, w.at); err != nil {
			return Result{}, err
		}
		if err := m.Sync(); err != nil {
			return Result{}, err
		}
	}
	if err := c.readBack(ctx, m); err != nil {
		return Result{}, errors.Join(err, clear(m, 0, first), m.Sync())
	}
	return Result{SHA256: c.SHA256, Bytes: c.Bytes, Unpacked: l.Image, Entries: len(l.Frames)}, nil
}

// clear writes zeros.
func clear(m io.WriterAt, from, to int64) error {
	if from >= to {
		return nil
	}
	_, err := m.WriteAt(make([]byte, to-from), from)
	return err
}

// copyAt copies what of some bytes at a place is in others at a place.
func copyAt(to []byte, toAt int64, from []byte, fromAt int64) {
	begin, end := max(toAt, fromAt), min(toAt+int64(len(to)), fromAt+int64(len(from)))
	if begin < end {
		copy(to[begin-toAt:end-toAt], from[begin-fromAt:end-fromAt])
	}
}

// each gives all frames of the image in order, each after its digest was compared. Frames of
// zeros are not asked for. A frame with other bytes is asked for again.
func (c *Checked) each(ctx context.Context, use func(at int64, raw []byte) error) error {
	d, err := frames.NewDecoder()
	if err != nil {
		return err
	}
	defer d.Close()
	l := c.list
	s := &steady{ctx: ctx, source: c.source, end: c.Bytes, wait: c.options.wait}
	defer func() { s.Close() }()
	zeros := make([]byte, frames.Bytes)
	var packed []byte
	for i, f := range l.Frames {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := int64(i) * frames.Bytes
		if f.Zero {
			if err := use(at, zeros[:l.Size(i)]); err != nil {
				return err
			}
			continue
		}
		for try := 1; ; try++ {
			if s.at != f.At {
				s.Close()
				s.at = f.At
			}
			packed = append(packed[:0], make([]byte, f.Packed)...)
			if _, err := io.ReadFull(s, packed); err != nil {
				return err
			}
			raw, err := d.Frame(l, i, packed)
			if err == nil {
				if err := use(at, raw); err != nil {
					return err
				}
				break
			}
			if try == frameTries {
				return refused("%v, at the %dth try: it is damaged on the way, or what serves it changed. The disk was erased already; try again", err, try)
			}
			s.Close()
			s.at = -1 // it is asked for anew
		}
		if c.options.Tell != nil && (i%16 == 15 || i == len(l.Frames)-1) {
			c.options.Tell(at+int64(l.Size(i)), l.Image)
		}
	}
	return nil
}

// readBack holds what is on the disk to the digest of the image.
func (c *Checked) readBack(ctx context.Context, m Medium) error {
	sum, buffer := sha256.New(), make([]byte, 1<<20)
	for at := int64(0); at < c.list.Image; {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := buffer[:min(int64(len(buffer)), c.list.Image-at)]
		if _, err := m.ReadAt(part, at); err != nil {
			return fmt.Errorf("read the disk again from byte %d on: %w", at, err)
		}
		sum.Write(part)
		at += int64(len(part))
	}
	if is := [sha256.Size]byte(sum.Sum(nil)); is != c.list.SHA256 {
		return fmt.Errorf("the disk does not hold what was written to it: read again it has the SHA-256 %x, and the image has %x. "+
			"Its table of partitions was removed, so that it does not boot; look at the disk", is, c.list.SHA256)
	}
	return nil
}
