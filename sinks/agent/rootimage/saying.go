package rootimage

import (
	"bytes"
	"strings"
	"sync"
	"unicode"
)

// saying parses mmdebstrap's messages: "I: running apt-get update..." for progress, "E: …" for errors.
type saying struct {
	progress func(what string, have, of int64)

	mu     sync.Mutex
	rest   []byte // of a line
	what   string
	have   int64
	errors []string
	last   []string
}

// These are the bounds on what is kept.
const (
	maxLine  = 1000
	maxLines = 5
)

// Write parses mmdebstrap's output. It never fails.
func (s *saying) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, p...)
	for {
		end := bytes.IndexAny(s.rest, "\r\n")
		if end < 0 && len(s.rest) < maxLine {
			return len(p), nil
		}
		if end < 0 {
			end = maxLine - 1
		}
		s.line(printable(string(s.rest[:end])))
		s.rest = s.rest[end+1:]
	}
}

func (s *saying) line(text string) {
	kind, what, _ := strings.Cut(text, ": ")
	switch {
	case kind == "I":
		s.what = strings.TrimSuffix(what, "...")
		s.progress(s.what, s.have, 0)
	case kind == "E":
		s.errors = append(s.errors[max(0, len(s.errors)-maxLines+1):], what)
	case strings.TrimSpace(text) != "":
		s.last = append(s.last[max(0, len(s.last)-maxLines+1):], text)
	}
}

// made records how many bytes of the archive exist.
func (s *saying) made(have int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.have = have
	s.progress(s.what, have, 0)
}

// why is mmdebstrap's explanation of its failure: its errors, after the last lines of the programs that it ran.
func (s *saying) why() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.errors) == 0 {
		return strings.Join(s.last, "; ")
	}
	return strings.Join(append(s.last, s.errors...), "; ")
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
