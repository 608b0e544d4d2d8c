package image

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/slipway-gitops/slipway/engine/frames"
)

// Medium is a disk to be written.
type Medium interface {
	io.ReaderAt
	io.WriterAt
	// Sync flushes writes to the disk. Later reads come from the disk, as far as the system can tell.
	Sync() error
}

// edge bounds how much is held back at each end of an image. The partition tables are there. Without them nothing
// on the disk boots.
const edge = 1 << 20

// frameTries is how often a frame is requested if its bytes do not match the list.
const frameTries = 3

// Unsealed is the result of writing everything of a disk's image except its ends.
type Unsealed struct {
	Result
	// Head and Tail are the bytes of the image before its first partition and after its last one, at most 1 MiB
	// each. The disk has zeros there.
	Head, Tail []byte
}

// Write writes the image of a disk to a disk with enough space, whose ends have no signature of another system. It
// holds back the bytes before first and after last. So the disk has no partition table afterwards, or after an
// interruption at any point. At the end Write reads everything back, and compares it with the digest of the image.
func (c *Checked) Write(ctx context.Context, m Medium, size, first, last int64) (Unsealed, error) {
	if c.Kind != Disk {
		return Unsealed{}, refused("the image is of a %s file system, and not of a disk", c.Kind)
	}
	l := c.list
	if size < l.Image {
		return Unsealed{}, refused("the image is of a disk of %d bytes, and the disk has %d; nothing was written", l.Image, size)
	}
	if first, last = min(first, edge, l.Image), max(last, l.Image-edge); first < 0 || last < first || last > l.Image {
		return Unsealed{}, refused("the partitions of the image are from byte %d to %d of %d; nothing was written", first, last, l.Image)
	}
	// Clear an existing table, and sync, before writing anything else.
	if err := clear(m, 0, min(edge, size)); err != nil {
		return Unsealed{}, err
	}
	if err := clear(m, max(0, size-edge), size); err != nil {
		return Unsealed{}, err
	}
	if err := m.Sync(); err != nil {
		return Unsealed{}, err
	}
	u := Unsealed{Head: make([]byte, first), Tail: make([]byte, l.Image-last)}
	if err := c.each(ctx, func(at int64, raw []byte) error {
		copyAt(u.Head, 0, raw, at)
		copyAt(u.Tail, last, raw, at)
		from, to := max(at, first), min(at+int64(len(raw)), last)
		if from >= to {
			return nil
		}
		_, err := m.WriteAt(raw[from-at:to-at], from)
		return err
	}); err != nil {
		return Unsealed{}, err
	}
	if err := clear(m, last, l.Image); err != nil {
		return Unsealed{}, err
	}
	if err := m.Sync(); err != nil {
		return Unsealed{}, err
	}
	u.Result = Result{SHA256: c.SHA256, Bytes: c.Bytes, Unpacked: l.Image, Entries: len(l.Frames)}
	return u, c.readBack(ctx, m, u, last)
}

// Reader reads from any place of a disk's image, and writes nothing. It caches one frame. It is for one goroutine.
func (c *Checked) Reader(ctx context.Context) (r io.ReaderAt, done func(), err error) {
	d, err := frames.NewDecoder()
	if err != nil {
		return nil, nil, err
	}
	return &framed{c: c, ctx: ctx, decoder: d, frame: -1}, d.Close, nil
}

type framed struct {
	c       *Checked
	ctx     context.Context
	decoder *frames.Decoder
	frame   int // the number of the frame in raw
	raw     []byte
}

// ReadAt implements io.ReaderAt.
func (f *framed) ReadAt(b []byte, at int64) (n int, err error) {
	for n < len(b) && at < f.c.list.Image {
		if err := f.load(int(at / frames.Bytes)); err != nil {
			return n, err
		}
		copied := copy(b[n:], f.raw[at%frames.Bytes:])
		n += copied
		at += int64(copied)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *framed) load(frame int) error {
	if f.frame == frame {
		return nil
	}
	l, its := f.c.list, f.c.list.Frames[frame]
	f.frame = -1
	if its.Zero {
		f.frame, f.raw = frame, make([]byte, l.Size(frame))
		return nil
	}
	s := &steady{ctx: f.ctx, source: f.c.source, at: its.At, end: f.c.Bytes, wait: f.c.options.wait}
	defer s.Close()
	packed := make([]byte, its.Packed)
	if _, err := io.ReadFull(s, packed); err != nil {
		return err
	}
	raw, err := f.decoder.Frame(l, frame, packed)
	if err != nil {
		return err
	}
	f.frame, f.raw = frame, raw
	return nil
}

// clear writes zeros.
func clear(m io.WriterAt, from, to int64) error {
	if from >= to {
		return nil
	}
	_, err := m.WriteAt(make([]byte, to-from), from)
	return err
}

// copyAt copies the overlap of two byte ranges at different offsets.
func copyAt(to []byte, toAt int64, from []byte, fromAt int64) {
	begin, end := max(toAt, fromAt), min(toAt+int64(len(to)), fromAt+int64(len(from)))
	if begin < end {
		copy(to[begin-toAt:end-toAt], from[begin-fromAt:end-fromAt])
	}
}

// each passes all frames of the image in order to use, after comparing their digests. It does not request frames of
// zeros. It requests a frame with wrong bytes again.
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
				return refused("%v, at the %dth try: it was damaged on the way, or the served file changed. The disk was erased already; try again", err, try)
			}
			s.Close()
			s.at = -1 // request it again
		}
		if c.options.Tell != nil && (i%16 == 15 || i == len(l.Frames)-1) {
			c.options.Tell(at+int64(l.Size(i)), l.Image)
		}
	}
	return nil
}

// readBack compares the disk, together with the ends that were held back, with the digest of the image.
func (c *Checked) readBack(ctx context.Context, m Medium, u Unsealed, last int64) error {
	sum, buffer := sha256.New(), make([]byte, 1<<20)
	sum.Write(u.Head)
	for at := int64(len(u.Head)); at < last; {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := buffer[:min(int64(len(buffer)), last-at)]
		if _, err := m.ReadAt(part, at); err != nil {
			return fmt.Errorf("read the disk again from byte %d on: %w", at, err)
		}
		sum.Write(part)
		at += int64(len(part))
	}
	sum.Write(u.Tail)
	if is := [sha256.Size]byte(sum.Sum(nil)); is != c.list.SHA256 {
		return fmt.Errorf("the disk does not hold what was written to it: read back, it has the SHA-256 %x, and the image has %x. "+
			"The disk has no table of partitions, so the machine does not start from it; check the disk", is, c.list.SHA256)
	}
	return nil
}
