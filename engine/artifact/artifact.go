// Package artifact holds the files that machines are installed from. It fetches
// them, verifies them as they arrive, and keeps them by SHA-256 in the daemon's
// state folder. It serves each file to the machine that is being installed from
// it, at a URL that nobody else can guess.
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

	"github.com/slipway-gitops/slipway/engine/site"
)

// File is a file that is wanted in the store.
type File struct {
	// SHA256 is the required digest in lower-case hex; empty if the person who
	// adds the file trusts whatever the URL returns.
	SHA256 string
	// URL is http, https, or file below the folder of SourceOptions.Files.
	URL string
	// Form is Raw or Qcow2 for the image of a whole disk, which is converted to frames after
	// the fetch. It is empty for other files.
	Form string
	// For names the file for people: "image debian12".
	For string
	// Copy is set if another daemon of the site gives the file, at URL.
	Copy Copy
}

// Copy is what is known of a file that another daemon of the site gives.
type Copy struct {
	// From names that daemon for people; empty for no copy.
	From string
	// Name and Source are the file's, as in Info. Size is the size that it must have, in bytes; 0 if unknown.
	Name, Source string
	Size         int64
	// Spare is set for a file that no other one is removed for to make room.
	Spare bool
}

// from is where a file is fetched from, for people.
func (f File) from() string {
	if f.Copy.From != "" {
		return "the daemon " + printable(f.Copy.From)
	}
	return shownURL(f.URL)
}

// Info describes a file in the store.
type Info struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
	// Name is a file name, for people and for the end of the URL that serves
	// the file: "debian12.iso".
	Name string `json:"name"`
	// Source is where it came from, without account and query.
	Source string    `json:"source,omitempty"`
	Added  time.Time `json:"added"`
	// Used is when it was last asked for. Of files that nothing names, the
	// least recently used one makes room first.
	Used time.Time `json:"used"`
}

// Errors about a file that is not available. Each comes with a sentence that
// says what to do.
var (
	// ErrMismatch is wrapped if a complete file has another digest than the
	// design says. Fetching it again at once gives the same result.
	ErrMismatch = errors.New("digest mismatch")
	// ErrRefused is wrapped if the file does not exist, is too large, or has a
	// URL that is not allowed.
	ErrRefused = errors.New("refused")
	// ErrNoRoom is wrapped if the store or its disk has no room for the file.
	ErrNoRoom = errors.New("no room")
	// ErrNotFound is wrapped if the store has no file with a digest.
	ErrNotFound = errors.New("not in the artifact store")
)

// sentenced is an error that reads as a sentence and wraps one of the errors above.
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

// shownURL returns a URL for people and logs: printable, and without account
// and query, which may contain a secret.
func shownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "a URL that cannot be read"
	}
	return printable((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String())
}

// printable makes foreign text safe to show.
func printable(text string) string {
	return site.Shorten(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, text), 200)
}

// mostName is the maximum length of a file name. URLs of virtual media have
// little room: some BMCs accept at most 255 bytes.
const mostName = 64

// fileName returns the name of a file at a URL or path. It keeps the extension
// and replaces characters that some BMC rejects in a URL.
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

// Bytes formats a number of bytes for people: "740 MB".
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
