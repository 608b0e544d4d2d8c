// Package frames is the format in which images of whole disks are kept and sent. An image is
// zstd frames of 8 MiB each, which can be unpacked independently, and then a list of their
// digests in a frame that zstd skips. So `zstd -d` of such a file gives the image. The package
// is pure: it uses no clock and no randomness. The same image gives the same bytes.
package frames

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// The limits of an image.
const (
	// Bytes is how many bytes of the image are in each frame; the last one may have fewer.
	Bytes = 8 << 20
	// MaxImage is the largest image: 2 TiB.
	MaxImage  = maxFrames * Bytes
	maxFrames = 1 << 18
	// maxPacked is more than the size of a frame that does not compress.
	maxPacked = Bytes + 64<<10
	// sector: the size of a disk image is a multiple of this.
	sector = 512
)

// The format of the list: a skippable frame (RFC 8878, section 3.1.2). It contains a head, an
// entry for each frame, and a tail, by which the list is found from the end of the file.
const (
	skippable  = 0x184d2a5e
	mark       = "SLIPWAY\x01"
	outerBytes = 8
	headBytes  = len(mark) + 8 + 4 + 4 + sha256.Size
	entryBytes = 4 + sha256.Size
	// TailBytes is how much of the end of a file ListAt needs.
	TailBytes = 4 + len(mark)
	zeroFlag  = 1 << 31
)

var little = binary.LittleEndian

// Frame is one part of an image.
type Frame struct {
	// At is its offset in the file, and Packed its size there in bytes.
	At     int64
	Packed int
	// SHA256 is the digest of these bytes.
	SHA256 [sha256.Size]byte
	// Zero says that this part of the image is all zeros.
	Zero bool
}

// List describes an image in frames.
type List struct {
	// Image is the size of the image in bytes, and SHA256 its digest.
	Image  int64
	SHA256 [sha256.Size]byte
	Frames []Frame
}

// Size returns how many bytes of the image are in a frame.
func (l *List) Size(frame int) int {
	return int(min(Bytes, l.Image-int64(frame)*Bytes))
}

// Written is the result of Write.
type Written struct {
	// SHA256 is the digest of the file, and Bytes its size.
	SHA256 [sha256.Size]byte
	Bytes  int64
	List   List
}

// Write writes an image as frames. It holds one frame in memory. It returns an error if the
// image is larger than most bytes or is not a multiple of 512 bytes; the output is then
// useless.
func Write(w io.Writer, image io.Reader, most int64) (Written, error) {
	out := &counting{w: w}
	file, whole := sha256.New(), sha256.New()
	out.w = io.MultiWriter(w, file)
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return Written{}, err
	}
	defer encoder.Close()
	most = min(most, MaxImage)
	var l List
	wasZero := false // the frame before, which was full
	raw, packed := make([]byte, Bytes), make([]byte, 0, maxPacked)
	for {
		n, err := io.ReadFull(image, raw)
		if n > 0 {
			if l.Image += int64(n); l.Image > most {
				return Written{}, fmt.Errorf("the image has more than %d bytes", most)
			}
			whole.Write(raw[:n])
			zero := isZero(raw[:n])
			if !zero || !wasZero || n < Bytes { // else packed still holds the same frame
				packed = encoder.EncodeAll(raw[:n], packed[:0])
			}
			wasZero = zero && n == Bytes
			l.Frames = append(l.Frames, Frame{At: out.n, Packed: len(packed), SHA256: sha256.Sum256(packed), Zero: zero})
			if _, err := out.Write(packed); err != nil {
				return Written{}, err
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return Written{}, err
		}
	}
	if l.Image == 0 || l.Image%sector != 0 {
		return Written{}, fmt.Errorf("the image has %d bytes, and that of a disk is a multiple of %d", l.Image, sector)
	}
	l.SHA256 = [sha256.Size]byte(whole.Sum(nil))
	if _, err := out.Write(l.encode()); err != nil {
		return Written{}, err
	}
	return Written{SHA256: [sha256.Size]byte(file.Sum(nil)), Bytes: out.n, List: l}, nil
}

// encode returns the list in its file format.
func (l *List) encode() []byte {
	size := headBytes + len(l.Frames)*entryBytes + TailBytes
	b := make([]byte, 0, outerBytes+size)
	b = little.AppendUint32(b, skippable)
	b = little.AppendUint32(b, uint32(size))
	b = append(b, mark...)
	b = little.AppendUint64(b, uint64(l.Image))
	b = little.AppendUint32(b, Bytes)
	b = little.AppendUint32(b, uint32(len(l.Frames)))
	b = append(b, l.SHA256[:]...)
	for _, f := range l.Frames {
		packed := uint32(f.Packed)
		if f.Zero {
			packed |= zeroFlag
		}
		b = append(little.AppendUint32(b, packed), f.SHA256[:]...)
	}
	return append(little.AppendUint32(b, uint32(size)), mark...)
}

var errNoFrames = errors.New("the file has no list of frames: it is not a disk image from Slipway's store")

// ListAt returns the offset of the list in a file of file bytes, from the last TailBytes of
// it. The result is within the file, and the list's size is within the limits.
func ListAt(tail []byte, file int64) (at int64, err error) {
	if len(tail) != TailBytes || string(tail[4:]) != mark {
		return 0, errNoFrames
	}
	size := int64(little.Uint32(tail))
	if size < int64(headBytes+TailBytes) || size > int64(headBytes+maxFrames*entryBytes+TailBytes) || size+outerBytes > file {
		return 0, errNoFrames
	}
	return file - size - outerBytes, nil
}

// Parse reads the list of a file of file bytes; b is the file from ListAt on. In the result,
// the frames follow each other up to the list, and make up the whole image.
func Parse(b []byte, file int64) (*List, error) {
	wrong := func(format string, a ...any) (*List, error) {
		return nil, fmt.Errorf("the list of frames is damaged: "+format, a...)
	}
	size := len(b) - outerBytes
	if size < headBytes+TailBytes || little.Uint32(b) != skippable || int64(little.Uint32(b[4:])) != int64(size) || string(b[outerBytes:][:len(mark)]) != mark {
		return nil, errNoFrames
	}
	head := b[outerBytes+len(mark):]
	image, each, count := little.Uint64(head), little.Uint32(head[8:]), little.Uint32(head[12:])
	switch {
	case each != Bytes:
		return wrong("its frames have %d bytes, and this program knows those of %d", each, Bytes)
	case image == 0 || image > MaxImage || image%sector != 0:
		return wrong("it describes an image of %d bytes", image)
	case uint64(count) != (image+Bytes-1)/Bytes || size != headBytes+int(count)*entryBytes+TailBytes:
		return wrong("it lists %d frames", count)
	}
	l := &List{Image: int64(image), SHA256: [sha256.Size]byte(head[16:]), Frames: make([]Frame, 0, count)}
	at := int64(0)
	for entries := b[outerBytes+headBytes:]; len(l.Frames) < int(count); entries = entries[entryBytes:] {
		packed := little.Uint32(entries)
		f := Frame{At: at, Packed: int(packed &^ zeroFlag), SHA256: [sha256.Size]byte(entries[4:]), Zero: packed&zeroFlag != 0}
		if f.Packed == 0 || f.Packed > maxPacked {
			return wrong("the frame %d has %d bytes", len(l.Frames), f.Packed)
		}
		at += int64(f.Packed)
		l.Frames = append(l.Frames, f)
	}
	if at+int64(len(b)) != file || string(b[len(b)-len(mark):]) != mark || int64(little.Uint32(b[len(b)-TailBytes:])) != int64(size) {
		return wrong("its frames have %d bytes, and the file has %d", at, file)
	}
	return l, nil
}

// Decoder unpacks frames. It is not safe for concurrent use.
type Decoder struct {
	zstd *zstd.Decoder
	raw  []byte
}

// NewDecoder makes a decoder.
func NewDecoder() (*Decoder, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(Bytes), zstd.WithDecoderMaxWindow(Bytes))
	return &Decoder{d, make([]byte, 0, Bytes)}, err
}

// Close frees the decoder.
func (d *Decoder) Close() { d.zstd.Close() }

// Frame checks the digest of a frame of a list and unpacks the frame. The result is valid
// until the next call.
func (d *Decoder) Frame(l *List, frame int, packed []byte) ([]byte, error) {
	f := l.Frames[frame]
	if is := sha256.Sum256(packed); len(packed) != f.Packed || is != f.SHA256 {
		return nil, fmt.Errorf("frame %d of %d has the SHA-256 %x, and that of the list is %x", frame+1, len(l.Frames), is, f.SHA256)
	}
	raw, err := d.zstd.DecodeAll(packed, d.raw[:0])
	if err != nil {
		return nil, fmt.Errorf("frame %d of %d cannot be unpacked: %w", frame+1, len(l.Frames), err)
	}
	if len(raw) != l.Size(frame) || f.Zero && !isZero(raw) {
		return nil, fmt.Errorf("frame %d of %d is not what the list says: it has %d bytes", frame+1, len(l.Frames), len(raw))
	}
	return raw, nil
}

var zeros [64 << 10]byte

func isZero(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), len(zeros))
		if !bytes.Equal(b[:n], zeros[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

// counting counts the bytes written.
type counting struct {
	w io.Writer
	n int64
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
