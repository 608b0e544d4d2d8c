package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

// The format of a bbolt database (go.etcd.io/bbolt, internal/common). Pages have
// no checksums, and bbolt panics on its own goroutines if a page is damaged. So
// this code verifies every page before etcd opens the file. It uses plain reads,
// so that a disk error is an error and not a fault.
const (
	pageHeader  = 16 // id uint64, flags uint16, count uint16, overflow uint32
	elementSize = 16 // leaf: flags, pos, ksize, vsize uint32; branch: pos, ksize uint32, id uint64
	metaSize    = 64 // after the header, including its checksum
	bucketSize  = 16 // root and sequence uint64, before an inline page

	branchFlag   = 0x01
	leafFlag     = 0x02
	freelistFlag = 0x10
	bucketFlag   = 0x01 // of an element

	metaMagic   = 0xED0CDAED
	metaVersion = 2
	noFreelist  = ^uint64(0)

	deepest     = 32  // maximum levels of pages; a database of 2 GiB has about 5
	mostBuckets = 100 // etcd has 12
)

// order is bbolt's byte order: that of the machine.
var order = binary.NativeEndian

// database is a bbolt database that is being verified.
type database struct {
	file     io.ReaderAt
	pageSize int64
	pages    uint64   // pages that are or were in use; the file is not shorter
	used     []uint64 // bits of pages that were visited
	buffers  [deepest][]byte
	buckets  int
	// each receives the pairs of each bucket, in order.
	each func(bucket string, key, value []byte) error
}

// verifyDatabase reads every page of a bbolt database and reports its content, or
// says which page is not as bbolt writes it.
func verifyDatabase(path string, each func(bucket string, key, value []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	d := &database{file: f, each: each}
	root, freelist, err := d.meta(info.Size())
	if err != nil {
		return err
	}
	if d.pages < 2 || d.pages > uint64(info.Size()/d.pageSize) {
		return fmt.Errorf("it was cut off: %d pages of %d bytes are in use, and the file has %d bytes",
			d.pages, d.pageSize, info.Size())
	}
	d.used = make([]uint64, d.pages/64+1)
	if err := d.free(freelist); err != nil {
		return err
	}
	return d.page(root, 0, bounds{}, d.bucketsOf)
}

// meta reads the two meta pages. Like bbolt, it uses the newer one with a valid
// checksum.
func (d *database) meta(size int64) (root, freelist uint64, err error) {
	var newest uint64
	for _, at := range d.metaPlaces(size) {
		m := make([]byte, metaSize)
		if _, err := d.file.ReadAt(m, at+pageHeader); err != nil {
			return 0, 0, err
		}
		if txid := order.Uint64(m[48:]); d.pages == 0 || txid > newest {
			newest, d.pageSize = txid, int64(order.Uint32(m[8:]))
			root, freelist, d.pages = order.Uint64(m[16:]), order.Uint64(m[32:]), order.Uint64(m[40:])
		}
	}
	if d.pages == 0 {
		return 0, 0, errors.New("its first two pages both have a wrong checksum")
	}
	return root, freelist, nil
}

// metaPlaces returns the places of the meta pages with valid checksums: the
// first page, and the second, whose place the first tells unless it is damaged.
func (d *database) metaPlaces(size int64) (places []int64) {
	valid := func(at int64) (pageSize int64) {
		m := make([]byte, metaSize)
		if at+pageHeader+metaSize > size {
			return 0
		}
		if _, err := d.file.ReadAt(m, at+pageHeader); err != nil {
			return 0
		}
		h := fnv.New64a()
		h.Write(m[:metaSize-8])
		pageSize = int64(order.Uint32(m[8:]))
		if order.Uint32(m) != metaMagic || order.Uint32(m[4:]) != metaVersion || pageSize < 512 || order.Uint64(m[metaSize-8:]) != h.Sum64() {
			return 0
		}
		return pageSize
	}
	if n := valid(0); n > 0 {
		places = append(places, 0)
		if valid(n) == n {
			places = append(places, n)
		}
		return places
	}
	for n := int64(1024); n <= 1024<<14; n *= 2 {
		if valid(n) == n {
			return []int64{n}
		}
	}
	return nil
}

// take notes that a page is used. A page may be used only once.
func (d *database) take(id uint64, more uint32) error {
	if id < 2 || id >= d.pages || uint64(more) >= d.pages-id {
		return fmt.Errorf("a reference leads to page %d, which is not valid: %d pages are in use", id, d.pages)
	}
	for i := id; i <= id+uint64(more); i++ {
		if d.used[i/64]&(1<<(i%64)) != 0 {
			return fmt.Errorf("page %d is used twice", i)
		}
		d.used[i/64] |= 1 << (i % 64)
	}
	return nil
}

// load reads a page with its overflow into the buffer of its depth.
func (d *database) load(id uint64, depth int) ([]byte, error) {
	if id < 2 || id >= d.pages {
		return nil, fmt.Errorf("a reference leads to page %d, which is not valid: %d pages are in use", id, d.pages)
	}
	if depth >= deepest {
		return nil, fmt.Errorf("page %d is %d levels deep", id, depth)
	}
	read := func(size int64) ([]byte, error) {
		if int64(cap(d.buffers[depth])) < size {
			d.buffers[depth] = make([]byte, size)
		}
		p := d.buffers[depth][:size]
		_, err := d.file.ReadAt(p, int64(id)*d.pageSize)
		return p, err
	}
	p, err := read(d.pageSize)
	if err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	more := order.Uint32(p[12:])
	if err := d.take(id, more); err != nil {
		return nil, err
	}
	if is := order.Uint64(p); is != id {
		return nil, fmt.Errorf("page %d says that it is page %d", id, is)
	}
	if more == 0 {
		return p, nil
	}
	if p, err = read((int64(more) + 1) * d.pageSize); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return p, nil
}

// free verifies the list of free pages, if there is one: etcd writes none on
// Linux.
func (d *database) free(id uint64) error {
	if id == noFreelist {
		return nil
	}
	p, err := d.load(id, 0)
	if err != nil {
		return err
	}
	count, ids := uint64(order.Uint16(p[10:])), p[pageHeader:]
	if count == 0xFFFF && len(ids) >= 8 {
		count, ids = order.Uint64(ids), ids[8:]
	}
	if order.Uint16(p[8:]) != freelistFlag || count > uint64(len(ids)/8) {
		return fmt.Errorf("page %d is not a list of free pages", id)
	}
	for i := range count {
		if err := d.take(order.Uint64(ids[8*i:]), 0); err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		}
	}
	return nil
}

// bounds limit the keys of a page: from first on, and before end, nil for none.
type bounds struct{ first, end []byte }

// taker receives the elements of a leaf.
type taker func(flags uint32, key, value []byte, depth int) error

// page verifies a page and everything below it.
func (d *database) page(id uint64, depth int, b bounds, take taker) error {
	p, err := d.load(id, depth)
	if err != nil {
		return err
	}
	if err := d.elements(p, depth, b, take); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// elements verifies the content of a page, and everything below it.
func (d *database) elements(p []byte, depth int, b bounds, take taker) error {
	flags, count := order.Uint16(p[8:]), int(order.Uint16(p[10:]))
	if pageHeader+count*elementSize > len(p) {
		return fmt.Errorf("it has no room for %d elements", count)
	}
	keyOf := func(i int) (key, value []byte, err error) {
		e := p[pageHeader+i*elementSize:]
		pos, ksize, vsize := uint64(order.Uint32(e)), uint64(order.Uint32(e[4:])), uint64(0)
		if flags == leafFlag {
			pos, ksize, vsize = uint64(order.Uint32(e[4:])), uint64(order.Uint32(e[8:])), uint64(order.Uint32(e[12:]))
		}
		if i*elementSize+int(pos) < count*elementSize || pos+ksize+vsize > uint64(len(e)) {
			return nil, nil, fmt.Errorf("element %d is not on it", i)
		}
		return e[pos : pos+ksize], e[pos+ksize : pos+ksize+vsize], nil
	}
	if flags != leafFlag && (flags != branchFlag || count == 0) {
		return fmt.Errorf("it is neither a branch nor a leaf (flags %#x, %d elements)", flags, count)
	}
	before := b.first
	for i := range count {
		key, value, err := keyOf(i)
		switch {
		case err != nil:
			return err
		case i == 0 && bytes.Compare(key, before) < 0, i > 0 && bytes.Compare(key, before) <= 0,
			b.end != nil && bytes.Compare(key, b.end) >= 0:
			return fmt.Errorf("element %d is out of order", i)
		}
		before = key
		if flags == leafFlag {
			if err := take(order.Uint32(p[pageHeader+i*elementSize:]), key, value, depth); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
			continue
		}
		below := bounds{key, b.end}
		if i+1 < count {
			if below.end, _, err = keyOf(i + 1); err != nil {
				return err
			}
		}
		if err := d.page(order.Uint64(p[pageHeader+i*elementSize+8:]), depth+1, below, take); err != nil {
			return err
		}
	}
	return nil
}

var errBucket = errors.New("it is not a bucket")

// bucketsOf takes the elements of the root, which are buckets. As in etcd, there
// is one level, and inline buckets contain no buckets.
func (d *database) bucketsOf(flags uint32, name, value []byte, depth int) error {
	if d.buckets++; flags != bucketFlag || len(value) < bucketSize || d.buckets > mostBuckets {
		return errBucket
	}
	bucket := string(name)
	take := func(flags uint32, key, value []byte, _ int) error {
		if flags != 0 {
			return errors.New("it is not a pair")
		}
		return d.each(bucket, key, value)
	}
	if root := order.Uint64(value); root != 0 {
		return d.page(root, depth+1, bounds{}, take)
	}
	inline := value[bucketSize:]
	if len(inline) < pageHeader || order.Uint16(inline[8:]) != leafFlag {
		return errBucket
	}
	return d.elements(inline, depth+1, bounds{}, take)
}
