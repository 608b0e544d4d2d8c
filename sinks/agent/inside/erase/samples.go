package erase

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"math/big"
)

// mostSamples is how many places of a disk are looked at.
const mostSamples = 256

// samples are places all over a disk, one at random in each of equal stretches, the first and
// the last sectors among them, in which chance was written: what is found there afterwards
// says what became of the disk.
type samples struct {
	drive Drive
	at    []int64
	was   [][]byte
}

// seed writes samples, and reads each of them back: a disk that does not keep what is written to
// it cannot be verified.
func seed(d Drive, size int64, sector int) (*samples, error) {
	s := &samples{drive: d}
	block := int64(max(alignment, sector))
	if block > size {
		block = int64(sector)
	}
	places, err := spread(size/block, mostSamples)
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		s.at = append(s.at, p*block)
		b := aligned(int(block))
		rand.Read(b) // which never fails
		s.was = append(s.was, b)
	}
	if end := size - block; end > s.at[len(s.at)-1]+block { // sizes need not be multiples of a block
		b := aligned(int(block))
		rand.Read(b)
		s.at, s.was = append(s.at, end), append(s.was, b)
	}
	for i, at := range s.at {
		if _, err := d.WriteAt(s.was[i], at); err != nil {
			return nil, fmt.Errorf("a sample cannot be written at byte %d: %w", at, err)
		}
	}
	if err := d.Sync(); err != nil {
		return nil, fmt.Errorf("the disk does not write what it was given: %w", err)
	}
	is := aligned(int(block))
	for i, at := range s.at {
		if _, err := d.ReadAt(is, at); err != nil {
			return nil, fmt.Errorf("the sample at byte %d cannot be read back: %w", at, err)
		}
		if !bytes.Equal(is, s.was[i]) {
			return nil, fmt.Errorf("the sample at byte %d reads back as something else than was written: the disk is broken, or does not write what it reports", at)
		}
	}
	return s, nil
}

// spread are places out of so many, in order: the first, the last, and one at random in each of
// equal stretches.
func spread(blocks int64, most int) ([]int64, error) {
	if blocks <= 0 {
		return nil, fmt.Errorf("the disk is smaller than one of its sectors")
	}
	n := min(int64(most), blocks)
	all := make([]int64, 0, n)
	for i := range n {
		from, to := i*(blocks/n)+min(i, blocks%n), (i+1)*(blocks/n)+min(i+1, blocks%n)
		switch {
		case i == 0:
			all = append(all, 0)
		case i == n-1:
			all = append(all, blocks-1)
		default:
			r, err := rand.Int(rand.Reader, big.NewInt(to-from))
			if err != nil {
				return nil, err
			}
			all = append(all, from+r.Int64())
		}
	}
	return all, nil
}

// unit is what is compared: a sector of 512 bytes that is as it was has not been erased, whatever
// is around it.
const unit = 512

// gone reads all samples. It is an error where one of them is still there, also in part, or
// cannot be read. Zeros says how many read as zeros alone.
func (s *samples) gone() (zeros int, err error) {
	left := 0
	for i, at := range s.at {
		is := aligned(len(s.was[i]))
		if _, err := s.drive.ReadAt(is, at); err != nil {
			return 0, fmt.Errorf("the sample at byte %d cannot be read, so Slipway does not know whether it is still there: %w", at, err)
		}
		if isZero(is) {
			zeros++
		}
		for from := 0; from < len(is); from += unit {
			to := min(from+unit, len(is))
			if bytes.Equal(is[from:to], s.was[i][from:to]) {
				left++
				break
			}
		}
	}
	if left > 0 {
		return 0, fmt.Errorf("%d of %d samples are still on the disk as they were written before", left, len(s.at))
	}
	return zeros, nil
}

// found says what was observed of the samples.
func (s *samples) found(zeros int) string {
	return fmt.Sprintf("%d samples that were written all over the disk before are gone (%d read as zeros)", len(s.at), zeros)
}

func isZero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}
