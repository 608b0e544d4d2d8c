// Package artifact holds the files that machines are installed from. It fetches
// them, verifies them while they stream in, keeps them by their SHA-256 in the
// daemon's state folder, and serves each of them to the machine that is being
// installed from it, at a URL that nobody else can guess.
package artifact

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// File is a file that is wanted in the store.
type File struct {
	// SHA256 is the digest that it must have, in lower-case hex; empty where the
	// person who adds it trusts whatever the URL gives.
	SHA256 string
	// URL is where it is: http, https, or file below the folder of Options.Files.
	URL string
	// Form is Raw or Qcow2 for the image of a whole disk that is put into frames after it was
	// fetched, and empty for all else.
	Form string
	// For says what it is, as people call it: "image debian12".
	For string
}

// Info describes a file in the store.
type Info struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	// Name is a file name, for people and as the end of the URL at which it is
	// served: "debian12.iso".
	Name string `json:"name"`
	// Source is where it came from, without account and query.
	Source string    `json:"source,omitempty"`
	Added  time.Time `json:"added"`
	// Used is when it was last asked for; of files that nothing names, the one
	// that was not used for longest makes room first.
	Used time.Time `json:"used"`
}

// Errors of a file that cannot be had. Each comes with a sentence that says what
// to do.
var (
	// ErrMismatch is wrapped when a whole file has another digest than the design
	// says. Fetching it again at once gives the same.
	ErrMismatch = errors.New("digest mismatch")
	// ErrRefused is wrapped when the file is not there, is too large, or is at a
	// URL that is not fetched from.
	ErrRefused = errors.New("refused")
	// ErrNoRoom is wrapped when the store or its disk has no room for the file.
	ErrNoRoom = errors.New("no room")
	// ErrNotFound is wrapped when the store has no file with a digest.
	ErrNotFound = errors.New("not in the artifact store")
)

// sentenced is an error that reads as a sentence and is one of the errors above.
type sentenced struct {
	text string
	is   error
}

func (e *sentenced) Error() string { return e.text }
func (e *sentenced) Unwrap() error { return e.is }

func sentence(is error, format string, a ...any) error {
	return &sentenced{fmt.Sprintf(format, a...), is}
}

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// IsDigest reports whether a text is a SHA-256 in lower-case hex.
func IsDigest(text string) bool { return digestForm.MatchString(text) }

// shownURL is a URL as people and logs may see it: without account and query,
// which may hold a secret, and printable.
func shownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "a URL that cannot be read"
	}
	return printable((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String())
}

// printable is a text of others as people may see it.
func printable(text string) string {
	const most = 200
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, text)
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

// mostName is the longest file name. URLs of virtual media have little room: some
// BMCs take 255 bytes and no more.
const mostName = 64

// fileName is the name of a file at a URL or path, with the characters that
// every BMC takes in a URL, and with the extension kept.
func fileName(at string) string {
	if u, err := url.Parse(at); err == nil && u.Host != "" {
		at = u.Path
	}
	name := strings.Map(func(r rune) rune {
		if r < 128 && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-", r)) {
			return r
		}
		return '-'
	}, path.Base(at))
	ext := path.Ext(name)
	if len(ext) > 8 {
		ext = ""
	}
	stem := strings.Trim(strings.TrimSuffix(name, ext), ".-")
	if stem == "" {
		stem = "image"
	}
	return stem[:min(len(stem), mostName-len(ext))] + ext
}

// Bytes is a number of bytes as people read it: "740 MB".
func Bytes(n int64) string {
	for _, u := range []struct {
		bytes float64
		name  string
	}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		switch x := float64(n) / u.bytes; {
		case x >= 100:
			return fmt.Sprintf("%.0f %s", x, u.name)
		case x >= 1:
			return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0") + " " + u.name
		}
	}
	return fmt.Sprintf("%d B", n)
}
