package erase

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"math/big"
)

// mostSamples is the maximum number of sampled places.
const mostSamples = 256

// samples are places all over a disk: the first and last sectors, and a random place in each of equal ranges.
// Random data is written there. Reading them later shows what happened to the disk.
type samples struct {
	drive Drive
	at    []int64
	was   [][]byte
}

// seed writes samples and reads each back. A disk that does not keep what is written cannot be verified.
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
		rand.Read(b) // never fails
		s.was = append(s.was, b)
	}
	if end := size - block; end > s.at[len(s.at)-1]+block { // the size need not be a multiple of a block
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

// spread picks places in order: the first, the last, and a random one in each of equal ranges.
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

// unit is the size of a comparison: an unchanged sector of 512 bytes was not erased, whatever surrounds it.
const unit = 512

// gone reads all samples. It returns an error if a sample is still there, even in part, or cannot be read. zeros
// counts the samples that read as zeros.
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

// found describes what was observed about the samples.
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
