package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Source provides the bytes of an image. After a lost connection, the reader opens it again at the same offset.
type Source interface {
	// Open returns the bytes from an offset on.
	Open(ctx context.Context, from int64) (io.ReadCloser, error)
}

// tries bounds the consecutive tries of a source without a byte. firstWait is the wait before the second try; it
// doubles after that.
const (
	tries     = 6
	firstWait = time.Second
)

// ErrGone is wrapped in the error of a Source that will never provide the image.
var ErrGone = errors.New("the image is not served")

// steady reads a range of a source, and continues after a lost connection.
type steady struct {
	ctx     context.Context
	source  Source
	at, end int64
	wait    time.Duration // before the second try
	body    io.ReadCloser
	failed  int
}

func (s *steady) Read(b []byte) (int, error) {
	for {
		if s.at >= s.end {
			return 0, io.EOF
		}
		n, err := s.once(b[:min(int64(len(b)), s.end-s.at)])
		if n > 0 {
			s.at += int64(n)
			s.failed = 0
			return n, nil
		}
		s.Close()
		if s.ctx.Err() != nil {
			return 0, s.ctx.Err()
		}
		if s.failed++; s.failed >= tries || errors.Is(err, ErrGone) {
			return 0, fmt.Errorf("reading the image broke off at byte %d of %d: %w", s.at, s.end, err)
		}
		select {
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		case <-time.After(s.wait << (s.failed - 1)):
		}
	}
}

// once reads some bytes. n is 0 only with an error.
func (s *steady) once(b []byte) (n int, err error) {
	if s.body == nil {
		if s.body, err = s.source.Open(s.ctx, s.at); err != nil {
			s.body = nil
			return 0, err
		}
	}
	n, err = s.body.Read(b)
	switch {
	case n > 0:
		return n, nil
	case err == io.EOF, err == nil:
		return 0, io.ErrUnexpectedEOF
	}
	return 0, err
}

func (s *steady) Close() error {
	if s.body == nil {
		return nil
	}
	err := s.body.Close()
	s.body = nil
	return err
}
