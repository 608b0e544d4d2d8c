package erase

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"
)

// These are the bounds of an overwrite: bytes per write, blocks to read back, and the slowest disk.
const (
	writeAtOnce = 1 << 20
	mostRead    = 4096
	slowest     = 20 << 20 // bytes per second
)

// overwrite writes random data over the whole disk, and reads back enough to tell whether the disk has it. The disk
// cannot compress random data, and nothing else looks like it.
func (e *eraser) overwrite(ctx context.Context) (verified string, err error) {
	limit := 10*time.Minute + time.Duration(e.disk.Bytes/slowest)*time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errCut)
	defer cancel()
	c, err := newChance()
	if err != nil {
		return "", err
	}
	size := e.disk.Bytes
	b := aligned(writeAtOnce)
	part := func(n int64) []byte { return b[:min(writeAtOnce, size-n*writeAtOnce)] }
	blocks := (size + writeAtOnce - 1) / writeAtOnce
	for n := range blocks {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		e.tell("", float64(n)/float64(blocks))
		p := part(n)
		c.fill(p, n)
		if _, err := e.drive.WriteAt(p, n*writeAtOnce); err != nil {
			return "", fmt.Errorf("byte %d cannot be written: %w", n*writeAtOnce, err)
		}
	}
	if err := e.drive.Sync(); err != nil {
		return "", fmt.Errorf("the disk does not write what it was given: %w", err)
	}
	places, err := spread(blocks, mostRead)
	if err != nil {
		return "", err
	}
	want := make([]byte, writeAtOnce)
	for i, n := range places {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		e.tell("reading back", float64(i)/float64(len(places)))
		p := part(n)
		if _, err := e.drive.ReadAt(p, n*writeAtOnce); err != nil {
			return "", fmt.Errorf("byte %d cannot be read back: %w", n*writeAtOnce, err)
		}
		if c.fill(want[:len(p)], n); !bytes.Equal(p, want[:len(p)]) {
			return "", fmt.Errorf("at byte %d the disk has something else than was written over it", n*writeAtOnce)
		}
	}
	read := "all of it was read back"
	if int64(len(places)) < blocks {
		read = fmt.Sprintf("%d places of 1 MiB all over it were read back", len(places))
	}
	return "every addressable sector was overwritten with random data, and " + read + "; sectors that the disk has taken out of use, or hides, are not reached", nil
}

// chance is a pseudorandom stream that can be repeated from any block. Nobody else can repeat it, because its key
// is forgotten.
type chance struct{ block cipher.Block }

func newChance() (chance, error) {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	b, err := aes.NewCipher(key)
	return chance{b}, err
}

// fill is the nth block of the stream.
func (c chance) fill(b []byte, n int64) {
	iv := make([]byte, aes.BlockSize)
	binary.BigEndian.PutUint64(iv, uint64(n))
	clear(b)
	cipher.NewCTR(c.block, iv).XORKeyStream(b, b)
}
