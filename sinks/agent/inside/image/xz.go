package image

import (
	"bufio"
	"errors"
	"hash/crc32"
	"io"
	"slices"

	"github.com/ulikunitz/xz/lzma"
)

// These are the bounds and constants of the xz format (The .xz File Format 1.2.1). maxDictionary bounds the memory
// that a hostile file could make us allocate. `xz -9` uses 64 MiB.
const (
	maxDictionary  = 128 << 20
	xzMagic        = "\xfd7zXZ\x00"
	xzFooter       = "YZ"
	filterLZMA2    = 0x21
	maxDictionaryN = 40 // of its code
)

// checkBytes are the sizes of the check after a block, by kind. The check is skipped, because the caller compares
// the digest of the whole image.
var checkBytes = [16]int64{0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64}

// xzReader unpacks one xz stream. It reads the container itself, because the library accepts any dictionary size
// from it.
type xzReader struct {
	in     *tallied
	check  int64
	blocks uint64
	block  *lzma.Reader2
	begun  int64 // offset of the block's data
	done   bool
}

// tallied counts the bytes read.
type tallied struct {
	*bufio.Reader
	n int64
}

func (t *tallied) Read(b []byte) (int, error) {
	n, err := t.Reader.Read(b)
	t.n += int64(n)
	return n, err
}

func (t *tallied) ReadByte() (byte, error) {
	b, err := t.Reader.ReadByte()
	if err == nil {
		t.n++
	}
	return b, err
}

func newXZ(r *bufio.Reader) (*xzReader, error) {
	x := &xzReader{in: &tallied{Reader: r}}
	head, err := x.take(12)
	if err != nil {
		return nil, err
	}
	if string(head[:6]) != xzMagic || head[6] != 0 || head[7] > 15 || !isCRC(head[6:8], head[8:]) {
		return nil, refused("the image looks like xz, and its head is damaged")
	}
	x.check = checkBytes[head[7]]
	return x, nil
}

func isCRC(b, crc []byte) bool {
	is := crc32.ChecksumIEEE(b)
	return slices.Equal(crc, []byte{byte(is), byte(is >> 8), byte(is >> 16), byte(is >> 24)})
}

func (x *xzReader) take(n int64) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(x.in, b)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

func (x *xzReader) Read(b []byte) (int, error) {
	for {
		if x.done {
			return 0, io.EOF
		}
		if x.block == nil {
			if err := x.next(); err != nil {
				return 0, err
			}
			continue
		}
		n, err := x.block.Read(b)
		if err == io.EOF {
			err = x.endBlock()
		} else if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			err = refused("the archive cannot be read: xz: %v", err)
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// next reads the header of a block, or the index after the last one.
func (x *xzReader) next() error {
	size, err := x.in.ReadByte()
	if err != nil {
		return io.ErrUnexpectedEOF
	}
	if size == 0 {
		return x.index()
	}
	rest, err := x.take((int64(size)+1)*4 - 1)
	if err != nil {
		return err
	}
	head := append([]byte{size}, rest...)
	fields := head[2 : len(head)-4]
	damaged := !isCRC(head[:len(head)-4], head[len(head)-4:])
	for _, flag := range []byte{0x40, 0x80} { // sizes, which the chunks also contain
		if head[1]&flag != 0 {
			var ok bool
			if _, fields, ok = cutNumber(fields); !ok {
				damaged = true
			}
		}
	}
	if damaged || head[1]&0x3c != 0 || len(fields) < 3 {
		return refused("the archive cannot be read: the head of a block of xz is damaged")
	}
	if head[1]&3 != 0 || fields[0] != filterLZMA2 || fields[1] != 1 || fields[2] > maxDictionaryN {
		return refused("the image is packed by xz with a filter, which the agent cannot read: pack it by zstd, or by xz without options for filters")
	}
	dictionary := int64(2|fields[2]&1) << (fields[2]/2 + 11)
	if dictionary > maxDictionary {
		return refused("the image is packed by xz with a dictionary of %d bytes, and the agent takes at most %d: pack it by zstd, or by `xz -9`", dictionary, int64(maxDictionary))
	}
	x.blocks++
	x.begun = x.in.n
	if x.block, err = (lzma.Reader2Config{DictCap: int(max(dictionary, lzma.MinDictCap))}).NewReader2(x.in); err != nil {
		return refused("the archive cannot be read: xz: %v", err)
	}
	return nil
}

// endBlock reads what follows a block: padding to a multiple of four, and its check.
func (x *xzReader) endBlock() error {
	x.block = nil
	pad := -(x.in.n - x.begun) & 3
	b, err := x.take(pad + x.check)
	if err == nil && slices.ContainsFunc(b[:pad], func(c byte) bool { return c != 0 }) {
		err = refused("the archive cannot be read: a block of xz does not end where it should")
	}
	return err
}

// index reads what follows the last block.
func (x *xzReader) index() error {
	wrong := refused("the archive cannot be read: the index of xz is damaged")
	begun := x.in.n - 1
	number := func() (n uint64, err error) {
		var b []byte
		for len(b) < 9 {
			c, err := x.in.ReadByte()
			if err != nil {
				return 0, io.ErrUnexpectedEOF
			}
			if b = append(b, c); c&0x80 == 0 {
				n, _, _ = cutNumber(b)
				return n, nil
			}
		}
		return 0, wrong
	}
	records, err := number()
	if err != nil {
		return err
	}
	if records != x.blocks {
		return wrong
	}
	for range 2 * records {
		if _, err := number(); err != nil {
			return err
		}
	}
	// Padding to a multiple of four, the check of the index, and the footer.
	foot, err := x.take(-(x.in.n-begun)&3 + 4 + 12)
	if err != nil {
		return err
	}
	if string(foot[len(foot)-2:]) != xzFooter {
		return wrong
	}
	x.done = true
	for { // zeros may follow
		c, err := x.in.ReadByte()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case c != 0:
			return refused("something follows the end of the archive: several xz streams were put into one file; pack it again as one")
		}
	}
}

// cutNumber reads a number with seven bits in each byte, lowest first.
func cutNumber(b []byte) (n uint64, rest []byte, ok bool) {
	for i, c := range b {
		if i == 9 {
			return 0, nil, false
		}
		n |= uint64(c&0x7f) << (7 * i)
		if c&0x80 == 0 {
			return n, b[i+1:], true
		}
	}
	return 0, nil, false
}
