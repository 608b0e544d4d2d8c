package item

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Content is the content of a file, as far as people may see it.
type Content struct {
	Text string `json:"text,omitempty"`
	// Bytes is the size of the file, whether or not it is shown.
	Bytes int64 `json:"bytes,omitempty"`
	// Withheld says why the text is not shown; empty if Text is complete.
	Withheld string `json:"withheld,omitempty"`
}

// The limits of what is shown, in bytes: per file, and for all differing files in one look at a
// machine.
const (
	MaxShown    = 16 << 10
	MaxShownAll = 256 << 10
)

// Show returns the content of a file with the given permissions ("0644"), as far as it may be
// shown. If not everybody on the machine may read the file, nobody sees it.
func Show(mode string, content []byte) Content {
	c := Content{Bytes: int64(len(content))}
	switch {
	case !IsPublic(mode):
		c.Withheld = NotPublic
	case len(content) > MaxShown:
		c.Withheld = TooLarge(c.Bytes)
	case !IsText(content):
		c.Withheld = "it is not text"
	case HoldsSecret(content):
		c.Withheld = looksSecret
	default:
		c.Text = string(content)
	}
	return c
}

// Content returns the designed content of a file, as far as it may be shown; false for an item that
// is not a file with content.
func (i Item) Content() (Content, bool) {
	if Kind(i.Key) != KindFiles || i.Fields["content"] == "" {
		return Content{}, false
	}
	if _, isSecret := i.Credential(); isSecret {
		return Content{Withheld: IsSecret}, true
	}
	var f File
	if json.Unmarshal(i.Body, &f) != nil {
		return Content{}, false
	}
	if f.Artifact != "" {
		return Content{Withheld: "its content is an artifact"}, true
	}
	return Show(i.Fields["mode"], f.Content), true
}

// Artifact returns the SHA-256 of the artifact that is the content of a file, empty for other
// items.
func (i Item) Artifact() string {
	var f File
	if Kind(i.Key) != KindFiles || json.Unmarshal(i.Body, &f) != nil {
		return ""
	}
	return f.Artifact
}

// Artifacts returns the artifacts of a file, or of the files that an action creates.
func (i Item) Artifacts() (all []string) {
	if of := i.Artifact(); of != "" {
		return []string{of}
	}
	var a Action
	if Kind(i.Key) != KindBootActions || json.Unmarshal(i.Body, &a) != nil {
		return nil
	}
	for _, file := range a.Config {
		all = append(all, file.Artifacts()...)
	}
	return all
}

// MaxArtifact limits the size of an artifact used as the content of a file, in bytes.
const MaxArtifact = 1 << 30

// secret matches a line that seems to give a password, a key or a token. It errs on the side of
// matching, because everybody who reads pull requests sees what is shown.
var secret = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(pass(word|wd|phrase)?|secret|token|\bpsk|private.?key|api.?key|requirepass|credential)s?["']?\s*[:= ]\s*["']?[^\s"']|://[^/\s:@]+:[^/\s@]+@|PRIVATE KEY-----`)
})

// secretWords are such that each text that secret matches has one of them. They are much faster to find.
var secretWords = [][]byte{[]byte("pass"), []byte("secret"), []byte("token"), []byte("psk"), []byte("private"), []byte("api"), []byte("credential"), []byte("://")}

// HoldsSecret reports whether a text contains something like a secret.
func HoldsSecret(text []byte) bool {
	lower := bytes.ToLower(text)
	// Letters outside ASCII may fold to those of a word.
	if isASCII(text) && !slices.ContainsFunc(secretWords, func(w []byte) bool { return bytes.Contains(lower, w) }) {
		return false
	}
	return secret().Match(text)
}

func isASCII(text []byte) bool {
	for _, b := range text {
		if b >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// given matches a line that seems to give a secret, in texts that talk about passwords and tokens
// themselves.
var given = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(pass(word|wd|phrase)?|secret|token|\bpsk|private.?key|api.?key|requirepass|credential)s?["']?\s*(=\s*["']?[^\s"']|:\s*["']?[^\s"']{4,}[0-9])|://[^/\s:@]+:[^/\s@]+@|PRIVATE KEY-----`)
})

// redacted replaces a line that is not shown.
const redacted = "[redacted]"

// Redacted returns the output of a program with "[redacted]" in place of each line for which
// HoldsSecret is true, and of each line of a private key.
func Redacted(text string) string { return redact(text, secret()) }

// RedactedMessage is like Redacted for a message of Slipway, which may quote others. It keeps
// sentences about passwords.
func RedactedMessage(text string) string { return redact(text, given()) }

func redact(text string, looks *regexp.Regexp) string {
	lines := strings.Split(text, "\n")
	from := 0 // first line of a private key that ends later
	inKey := false
	for i, line := range lines {
		begins, ends := strings.Contains(line, "-----BEGIN "), strings.Contains(line, "-----END ")
		if key := strings.Contains(line, "PRIVATE KEY"); key && begins {
			from, inKey = i, true
		} else if key && ends && !inKey { // the key began before the text
			for k := range lines[from:i] {
				lines[from+k] = redacted
			}
		}
		if inKey || looks.MatchString(line) {
			lines[i] = redacted
		}
		if ends {
			from, inKey = i+1, false
		}
	}
	return strings.Join(lines, "\n")
}

// looksSecret is why a text with something like a secret is not shown.
const looksSecret = "[redacted]: it holds what looks like a secret"

// NotPublic is why a file is not shown if not everybody on the machine may read it.
const NotPublic = "not everybody on the machine may read it"

// TooLarge is why a large file is not shown.
func TooLarge(size int64) string {
	return fmt.Sprintf("it has %d bytes, more than the %d that are shown", size, MaxShown)
}

// IsPublic reports whether everybody on the machine may read a file with these permissions.
func IsPublic(mode string) bool {
	return mode != "" && strings.ContainsAny(mode[len(mode)-1:], "4567")
}

// IsText reports whether a content is text that can be compared line by line.
func IsText(content []byte) bool {
	return utf8.Valid(content) && bytes.IndexByte(content, 0) < 0
}
