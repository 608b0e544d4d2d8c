package item

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// Content is what is in a file, as far as it may be shown to people.
type Content struct {
	Text string `json:"text,omitempty"`
	// Bytes is how much is in the file, whether or not it is shown.
	Bytes int64 `json:"bytes,omitempty"`
	// Withheld says why the text is not shown; empty where Text is all of it.
	Withheld string `json:"withheld,omitempty"`
}

// The bounds of what is shown, in bytes: of one file, and of all files that differ
// in one look at a machine.
const (
	MaxShown    = 16 << 10
	MaxShownAll = 256 << 10
)

// Show is a content as it may be shown, of a file with such permissions ("0644").
// What not everybody on the machine may read is shown to nobody.
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
		c.Withheld = LooksSecret
	default:
		c.Text = string(content)
	}
	return c
}

// Content is what a file is designed to have, as it may be shown; false for what is
// no file with a content.
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

// Artifact is the SHA-256 of the artifact that is the content of a file, empty for
// other items.
func (i Item) Artifact() string {
	var f File
	if Kind(i.Key) != KindFiles || json.Unmarshal(i.Body, &f) != nil {
		return ""
	}
	return f.Artifact
}

// Artifacts are those of a file, or of the files that an action puts there.
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

// MaxArtifact bounds the artifact that is the content of a file, in bytes.
const MaxArtifact = 1 << 30

// secret is what a line looks like that gives a password, a key or a token: rather too
// much than too little, since what is shown is read by all who read pull requests.
var secret = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(pass(word|wd|phrase)?|secret|token|\bpsk|private.?key|api.?key|requirepass|credential)s?["']?\s*[:= ]\s*["']?[^\s"']|://[^/\s:@]+:[^/\s@]+@|PRIVATE KEY-----`)
})

// HoldsSecret says whether a text holds what looks like a secret.
func HoldsSecret(text []byte) bool { return secret().Match(text) }

// given is what a line looks like that gives a secret, of texts that speak of passwords
// and tokens themselves.
var given = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(pass(word|wd|phrase)?|secret|token|\bpsk|private.?key|api.?key|requirepass|credential)s?["']?\s*(=\s*["']?[^\s"']|:\s*["']?[^\s"']{4,}[0-9])|://[^/\s:@]+:[^/\s@]+@|PRIVATE KEY-----`)
})

// redacted takes the place of a line that is not shown.
const redacted = "[redacted]"

// Redacted is what a program printed, with "[redacted]" in the place of each line of
// which HoldsSecret is true, and of each line of a private key.
func Redacted(text string) string { return redact(text, secret()) }

// RedactedMessage is like Redacted for a message of Slipway, which may quote what others
// wrote. It leaves sentences about passwords.
func RedactedMessage(text string) string { return redact(text, given()) }

func redact(text string, looks *regexp.Regexp) string {
	lines := strings.Split(text, "\n")
	from := 0 // the first line of a private key that ends later
	inKey := false
	for i, line := range lines {
		begins, ends := strings.Contains(line, "-----BEGIN "), strings.Contains(line, "-----END ")
		if key := strings.Contains(line, "PRIVATE KEY"); key && begins {
			from, inKey = i, true
		} else if key && ends && !inKey { // it began before the text
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

// LooksSecret is why a text is not shown that holds what looks like one.
const LooksSecret = "[redacted]: it holds what looks like a secret"

// NotPublic is why a file is not shown that not everybody on the machine may read.
const NotPublic = "not everybody on the machine may read it"

// TooLarge is why a large file is not shown.
func TooLarge(size int64) string {
	return fmt.Sprintf("it has %d bytes, more than the %d that are shown", size, MaxShown)
}

// IsPublic says whether everybody on the machine may read a file with such
// permissions.
func IsPublic(mode string) bool {
	return mode != "" && strings.ContainsAny(mode[len(mode)-1:], "4567")
}

// IsText says whether a content is text that can be compared line by line.
func IsText(content []byte) bool {
	return utf8.Valid(content) && bytes.IndexByte(content, 0) < 0
}
