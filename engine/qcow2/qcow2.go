// Package qcow2 reads disk images in the qcow2 format, versions 2 and 3, as described in QEMU's
// docs/interop/qcow2.txt. It accepts any bytes: its memory is bounded, and it reads only the
// given file. An image that is encrypted, or that needs a backing file or an external data
// file, is an error. It does not read snapshots in an image. The package is pure: its only I/O
// is through the given reader.
package qcow2

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// The limits of an image.
const (
	// MaxSize is the largest disk in an image: 2 TiB.
	MaxSize = 2 << 40
	// The bits of a cluster's size: 512 bytes to 2 MiB.
	minClusterBits, maxClusterBits = 9, 21
	// maxTable is how many entries the first table may have, 8 bytes each: enough for MaxSize
	// with clusters of 4 KiB. QEMU limits the table to 32 MiB.
	maxTable = 1 << 20
	// maxHeader is the largest header.
	maxHeader = 64 << 10
)

// The header's fields, by offset.
const (
	atVersion      = 4
	atBackingFile  = 8
	atClusterBits  = 20
	atSize         = 24
	atCryptMethod  = 32
	atTableEntries = 36
	atTable        = 40
	atIncompatible = 72
	atHeaderLength = 100
	atCompression  = 104
	headerBytes2   = 72
	headerBytes3   = 104
)

// The bits of features that are needed to read an image.
const (
	bitDirty       = 1 << 0 // reference counts may be wrong; reading does not need them
	bitCorrupt     = 1 << 1
	bitDataFile    = 1 << 2
	bitCompression = 1 << 3
	bitExtendedL2  = 1 << 4
)

// The bits of an entry of a table.
const (
	offsetMask     = 0x00fffffffffffe00
	bitCompressed  = 1 << 62
	bitZero        = 1 << 0
	compressedZlib = 0
	compressedZstd = 1
)

var big = binary.BigEndian

// Image is an open image. It is not safe for concurrent use.
type Image struct {
	from  io.ReaderAt
	file  int64 // its size in bytes
	size  int64
	bits  int
	table []uint64 // the first table: where the second tables are

	compression byte
	zstd        *zstd.Decoder

	// second is the second table that was read last, and cluster the cluster that was unpacked
	// last, with their places in the file.
	second    []uint64
	secondAt  uint64
	cluster   []byte
	clusterAt uint64 // its entry in the table
}

// Is reports whether a file begins like a qcow2 image.
func Is(head []byte) bool { return bytes.HasPrefix(head, []byte("QFI\xfb")) }

// Open reads the header and the first table of a file of file bytes.
func Open(from io.ReaderAt, file int64) (*Image, error) {
	head := make([]byte, headerBytes3+1)
	n, err := from.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	head = head[:n]
	if n < headerBytes2 || !Is(head) {
		return nil, errors.New("it is not a qcow2 image")
	}
	i := &Image{from: from, file: file, bits: int(big.Uint32(head[atClusterBits:]))}
	if err := i.features(head); err != nil {
		return nil, err
	}
	size, entries, at := big.Uint64(head[atSize:]), big.Uint32(head[atTableEntries:]), big.Uint64(head[atTable:])
	switch {
	case big.Uint64(head[atBackingFile:]) != 0:
		return nil, errors.New("it builds on another file (a backing file), which is not followed: make one that stands alone with `qemu-img convert -O qcow2`")
	case big.Uint32(head[atCryptMethod:]) != 0:
		return nil, errors.New("it is encrypted: make one that is not with `qemu-img convert -O qcow2`")
	case i.bits < minClusterBits || i.bits > maxClusterBits:
		return nil, fmt.Errorf("its clusters have 2^%d bytes, and 2^%d to 2^%d are known", i.bits, minClusterBits, maxClusterBits)
	case size == 0 || size > MaxSize:
		return nil, fmt.Errorf("the disk in it has %d bytes, and may have up to %d", size, int64(MaxSize))
	}
	i.size = int64(size)
	// A second table has as many entries of 8 bytes as fit into a cluster.
	each := int64(1) << (2*i.bits - 3)
	if needs := (i.size + each - 1) / each; int64(entries) < needs || entries > maxTable {
		return nil, fmt.Errorf("its table has %d entries, and is to have %d", entries, needs)
	}
	i.table, err = i.readTable(at, int(entries))
	return i, err
}

// features refuses features that are needed to read the image but not supported here.
func (i *Image) features(head []byte) error {
	switch version := big.Uint32(head[atVersion:]); {
	case version == 2:
		return nil
	case version != 3:
		return fmt.Errorf("it has version %d of qcow2, and Slipway reads versions 2 and 3", version)
	case len(head) < headerBytes3:
		return errors.New("its header is cut off")
	}
	needs, length := big.Uint64(head[atIncompatible:]), big.Uint32(head[atHeaderLength:])
	switch {
	case length < headerBytes3 || length > maxHeader:
		return fmt.Errorf("its header has %d bytes", length)
	case needs&bitDataFile != 0:
		return errors.New("its data is in another file, which is not followed: make one that stands alone with `qemu-img convert -O qcow2`")
	case needs&bitExtendedL2 != 0:
		return errors.New("it has subclusters, which are not known here: make one without with `qemu-img convert -O qcow2`")
	case needs&bitCorrupt != 0:
		return errors.New("it is marked as damaged: repair it with `qemu-img check -r all`")
	case needs&^(bitDirty|bitCompression) != 0:
		return fmt.Errorf("it needs features of qcow2 (%#x) that are not known here", needs)
	}
	if needs&bitCompression != 0 {
		if length <= atCompression || len(head) <= atCompression {
			return errors.New("its header does not say how it is compressed")
		}
		i.compression = head[atCompression]
	}
	switch i.compression {
	case compressedZlib:
		return nil
	case compressedZstd:
		var err error
		i.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<maxClusterBits), zstd.WithDecoderMaxWindow(8<<20))
		return err
	}
	return fmt.Errorf("it is compressed in a way (%d) that is not known here", i.compression)
}

// readTable reads a table of entries of 8 bytes.
func (i *Image) readTable(at uint64, entries int) ([]uint64, error) {
	if at&(1<<i.bits-1) != 0 || at == 0 || at > uint64(i.file) || uint64(entries)*8 > uint64(i.file)-at {
		return nil, fmt.Errorf("a table of it, at byte %d with %d entries, is not within the file", at, entries)
	}
	b := make([]byte, entries*8)
	if _, err := i.from.ReadAt(b, int64(at)); err != nil && err != io.EOF {
		return nil, err
	}
	table := make([]uint64, entries)
	for k := range table {
		table[k] = big.Uint64(b[k*8:])
	}
	return table, nil
}

// Close frees the image.
func (i *Image) Close() {
	if i.zstd != nil {
		i.zstd.Close()
	}
}

// Size returns the size of the disk, in bytes.
func (i *Image) Size() int64 { return i.size }

// ReadAt reads bytes of the disk. It implements io.ReaderAt, but is not safe for concurrent
// use.
func (i *Image) ReadAt(b []byte, at int64) (n int, err error) {
	if at < 0 {
		return 0, errors.New("a place before the beginning of the disk")
	}
	for n < len(b) && at < i.size {
		within := int(at & (1<<i.bits - 1))
		part := b[n:min(len(b), n+1<<i.bits-within)]
		part = part[:min(int64(len(part)), i.size-at)]
		if err := i.read(part, at>>i.bits, within); err != nil {
			return n, fmt.Errorf("byte %d of the disk in it: %w", at, err)
		}
		n += len(part)
		at += int64(len(part))
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// read reads a part of one cluster of the disk.
func (i *Image) read(b []byte, cluster int64, within int) error {
	entry, err := i.entry(cluster)
	if err != nil {
		return err
	}
	at := entry & offsetMask
	switch {
	case entry&bitCompressed != 0:
		return i.unpack(b, entry, within)
	case entry&bitZero != 0 || at == 0:
		clear(b)
		return nil
	case at&(1<<i.bits-1) != 0 || at >= uint64(i.file):
		return fmt.Errorf("its cluster at byte %d is not within the file", at)
	}
	// The last cluster may be cut off in the file; the missing part is zeros.
	n, err := i.from.ReadAt(b, int64(at)+int64(within))
	if err == io.EOF {
		clear(b[n:])
		err = nil
	}
	return err
}

// entry returns a cluster's entry in its second table, 0 for a cluster that was never written.
func (i *Image) entry(cluster int64) (uint64, error) {
	perTable := int64(1) << (i.bits - 3)
	at := i.table[cluster/perTable] & offsetMask
	if at == 0 {
		return 0, nil
	}
	if i.second == nil || i.secondAt != at {
		second, err := i.readTable(at, int(perTable))
		if err != nil {
			return 0, err
		}
		i.second, i.secondAt = second, at
	}
	return i.second[cluster%perTable], nil
}

// unpack reads a part of a compressed cluster.
func (i *Image) unpack(b []byte, entry uint64, within int) error {
	if i.cluster == nil || i.clusterAt != entry {
		i.clusterAt = 0
		raw, err := i.unpacked(entry)
		if err != nil {
			return fmt.Errorf("a compressed cluster: %w", err)
		}
		i.cluster, i.clusterAt = raw, entry
	}
	copy(b, i.cluster[within:])
	return nil
}

// unpacked returns a whole compressed cluster. Its entry has its offset, and how many sectors
// of 512 bytes it takes after the one in which it begins.
func (i *Image) unpacked(entry uint64) ([]byte, error) {
	shift := 62 - (i.bits - 8)
	at := entry & (1<<shift - 1)
	sectors := entry >> shift & (1<<(i.bits-8) - 1)
	length := (sectors+1)*512 - at&511
	if at == 0 || at >= uint64(i.file) {
		return nil, fmt.Errorf("byte %d is not within the file", at)
	}
	packed := make([]byte, min(length, uint64(i.file)-at))
	if _, err := i.from.ReadAt(packed, int64(at)); err != nil && err != io.EOF {
		return nil, err
	}
	raw := i.cluster
	if raw == nil {
		raw = make([]byte, 1<<i.bits)
	}
	var in io.Reader = flate.NewReader(bytes.NewReader(packed))
	if i.compression == compressedZstd {
		if err := i.zstd.Reset(bytes.NewReader(packed)); err != nil {
			return nil, err
		}
		in = i.zstd // other data follows the frame, so only the cluster is read
	}
	if _, err := io.ReadFull(in, raw); err != nil {
		return nil, err
	}
	return raw, nil
}
