package record

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"
)

// An export is a sequence of JSON values, one per line: a header, an entry for
// each record, and a trailer with the digest of all previous lines.

// exportVersion is the version of the export format.
const exportVersion = 1

// maxLine limits a line of an export, in bytes: the largest is one record.
const maxLine = 64 << 20

// header is the first line of an export.
type header struct {
	Export  int       `json:"slipwayExport"` // version of this format
	Records int       `json:"records"`       // version of the layout of the records
	Created time.Time `json:"created"`
}

// entry is one line of an export: a record, or one part of a site's design. The
// parts come right before the record that points to the design.
type entry struct {
	Key string `json:"key,omitempty"`
	// JSON is the record's value, Packed the decompressed value of a compressed record.
	JSON   json.RawMessage `json:"json,omitempty"`
	Packed json.RawMessage `json:"packed,omitempty"`
	// Design is a part of the design of Site.
	Site   string          `json:"site,omitempty"`
	Design json.RawMessage `json:"design,omitempty"`
}

// trailer is the last line of an export.
type trailer struct {
	Entries int    `json:"entries"`
	SHA256  string `json:"sha256"` // of all previous lines
}

// streamWriter writes an export.
type streamWriter struct {
	buf     *bufio.Writer
	sum     hash.Hash
	enc     *json.Encoder
	entries int
}

func newStreamWriter(w io.Writer, h header) (*streamWriter, error) {
	s := &streamWriter{buf: bufio.NewWriterSize(w, 64<<10), sum: sha256.New()}
	s.enc = json.NewEncoder(io.MultiWriter(s.buf, s.sum))
	return s, s.enc.Encode(h)
}

func (s *streamWriter) write(e entry) error {
	s.entries++
	return s.enc.Encode(e)
}

func (s *streamWriter) end() error {
	if err := s.enc.Encode(trailer{Entries: s.entries, SHA256: hex.EncodeToString(s.sum.Sum(nil))}); err != nil {
		return err
	}
	return s.buf.Flush()
}

// errSpoilt is wrapped by errors about an export that is incomplete or not ours.
var errSpoilt = errors.New("this export is not complete")

// spoilt returns errSpoilt with what is wrong, and what to do.
func spoilt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format+"; nothing was changed: take another copy of it", append([]any{errSpoilt}, args...)...)
}

// readStream reads an export. It passes the header to begin and each entry to
// take. Until it returns nil, do not rely on what they received: the export may
// be incomplete or altered.
func readStream(r io.Reader, begin func(header) error, take func(entry) error) error {
	lines := &lineReader{buf: bufio.NewReaderSize(r, 64<<10), sum: sha256.New()}
	var h header
	if err := lines.first(&h); err != nil {
		return err
	}
	switch {
	case h.Export > exportVersion || h.Records > Version:
		return fmt.Errorf("this export is of a newer slipway (form %d with records of version %d; this one reads up to %d and %d): nothing was changed; import it with the newer one",
			h.Export, h.Records, exportVersion, Version)
	case h.Export < 1 || h.Records < 1:
		return spoilt("its first line is not a header")
	}
	if err := begin(h); err != nil {
		return err
	}
	for n := 0; ; n++ {
		line, before, err := lines.next()
		if err != nil {
			return err
		}
		var is struct {
			entry
			trailer
		}
		if err := strict(line, &is); err != nil {
			return spoilt("line %d: %w", n+2, err)
		}
		if is.SHA256 != "" {
			return lines.finish(is.trailer, n, before)
		}
		if err := take(is.entry); err != nil {
			return fmt.Errorf("line %d: %w", n+2, err)
		}
	}
}

// strict decodes one JSON value without unknown fields.
func strict(line []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// lineReader returns lines of limited length and computes their digest.
type lineReader struct {
	buf *bufio.Reader
	sum hash.Hash
}

// first reads the header, which may have fields of a newer version.
func (l *lineReader) first(h *header) error {
	line, _, err := l.next()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, h); err != nil {
		return spoilt("its first line is not a header: %w", err)
	}
	return nil
}

// next returns a line, and the digest of the lines before it.
func (l *lineReader) next() (line []byte, before string, err error) {
	before = hex.EncodeToString(l.sum.Sum(nil))
	for {
		part, err := l.buf.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			l.sum.Write(line)
			return line, before, nil
		case errors.Is(err, io.EOF):
			return nil, "", spoilt("it ends before its last line")
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, "", err
		case len(line) > maxLine:
			return nil, "", spoilt("a line of it is longer than %d MiB", maxLine>>20)
		}
	}
}

// finish compares the trailer with what was read.
func (l *lineReader) finish(t trailer, entries int, sum string) error {
	if t.SHA256 != sum || t.Entries != entries {
		return spoilt("its %d records do not have the digest that its last line says", entries)
	}
	if _, err := l.buf.ReadByte(); !errors.Is(err, io.EOF) {
		return spoilt("something follows its last line")
	}
	return nil
}
