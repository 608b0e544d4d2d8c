package ramdisk

import (
	"fmt"
	"io"
	"strings"

	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// ForBoot is a view of a medium with the words of one boot, such as slipway.token=…. The words are not on the
// stored medium, so nobody who reads that sees a token. The view has the same size.
func ForBoot(medium io.ReaderAt, size int64, words ...string) (*io.SectionReader, error) {
	at, room, err := wire.WordsOf(medium)
	if err != nil {
		return nil, err
	}
	text := strings.Join(words, " ") + "\n"
	if strings.ContainsFunc(text[:len(text)-1], func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, fmt.Errorf("the settings for a boot must be printable ASCII, and %q is not", text)
	}
	if int64(len(text)) > room || at+room > size {
		return nil, fmt.Errorf("the settings for a boot have %d bytes, and the medium has room for %d", len(text), room)
	}
	part := make([]byte, room)
	copy(part, text)
	return io.NewSectionReader(patched{medium, at, part}, 0, size), nil
}

// patched is a medium with some of its bytes replaced.
type patched struct {
	medium io.ReaderAt
	at     int64
	part   []byte
}

func (p patched) ReadAt(b []byte, off int64) (n int, err error) {
	n, err = p.medium.ReadAt(b, off)
	if from, to := max(off, p.at), min(off+int64(n), p.at+int64(len(p.part))); from < to {
		copy(b[from-off:to-off], p.part[from-p.at:])
	}
	return n, err
}
