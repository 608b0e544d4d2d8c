// Package cleartext recognizes passwords, tokens and private keys that stand
// unencrypted in a text, by their form.
package cleartext

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// recogniser recognizes one kind of secret by its form.
type recogniser struct {
	what string
	// markers are texts of which every such secret contains one. Searching for
	// them is much cheaper than matching form.
	markers []string
	// form matches the secret, or has it as its group.
	form *regexp.Regexp
}

// InURL matches the password of a URL, as its group.
var InURL = regexp.MustCompile(`\b[a-z][a-z0-9+.-]*://[^\s/:@$<{]+:([^\s/@$<{*]+)@`)

// recognisers are for texts that are secrets by themselves.
var recognisers = []recogniser{
	{"a private key", []string{"PRIVATE KEY"}, regexp.MustCompile(
		`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z0-9 ]*-----|\z)`)},
	// The id of an AWS key (IAM User Guide, unique identifiers); its secret
	// part is next to it.
	{"an access key", []string{"AKIA", "ASIA"}, regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z2-7]{16}\b`)},
	// The hash of a password (crypt(5)).
	{"the hash of a password", []string{"$"}, regexp.MustCompile(
		`\$(?:1|2[abxy]?|5|6|7|y|gy|md5|sha1|apr1)\$[./A-Za-z0-9=,$]{20,}`)},
	// A JSON Web Token (RFC 7519).
	{"a token", []string{"eyJ"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*`)},
	// Tokens of GitHub and of GitLab ("About authentication to GitHub", token
	// formats; "GitLab token overview", token prefixes).
	{"a token", []string{"gh", "glpat-"}, regexp.MustCompile(
		`\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,})`)},
	// The secret half of an identity of age (age-keygen(1)).
	{"an identity of age", []string{"AGE-SECRET-KEY-"}, regexp.MustCompile(`\bAGE-SECRET-KEY-(?:PQ-)?1[02-9AC-HJ-NP-Z]{20,}`)},
	{"a URL with a password", []string{"://"}, InURL},
}

// shortest is less than the length of any recognized secret or assignment, in
// bytes.
const shortest = 10

func (r recogniser) find(text string) [][]int {
	if !slices.ContainsFunc(r.markers, func(m string) bool { return strings.Contains(text, m) }) {
		return nil
	}
	return r.form.FindAllStringSubmatchIndex(text, -1)
}

// In names the kind of secret in a text; empty if there is none.
func In(text string) string {
	if len(text) < shortest {
		return ""
	}
	for _, r := range recognisers {
		if len(r.find(text)) > 0 {
			return r.what
		}
	}
	for _, a := range assignments(text) {
		if a.counts() {
			return fmt.Sprintf("a password or token (%s)", a.name)
		}
	}
	return ""
}

// Found is a secret in a text, with the line where it begins.
type Found struct {
	What string
	Line int
}

// Find lists the secrets of a text by line, one per line.
func Find(text string) []Found { return find(text, assignments(text)) }

// FindSure is Find without secrets recognized only by a name, as in "password:
// x".
func FindSure(text string) []Found { return find(text, nil) }

func find(text string, named []assigned) []Found {
	at := map[int]string{}
	note := func(offset int, what string) {
		line := 1 + strings.Count(text[:offset], "\n")
		if at[line] == "" {
			at[line] = what
		}
	}
	for _, r := range recognisers {
		for _, m := range r.find(text) {
			note(m[0], r.what)
		}
	}
	for _, a := range named {
		if a.counts() {
			note(a.from, fmt.Sprintf("a password or token (%s)", a.name))
		}
	}
	var found []Found
	for _, line := range slices.Sorted(maps.Keys(at)) {
		found = append(found, Found{at[line], line})
	}
	return found
}

// counts reports whether an assignment is likely to be a secret. A comment is
// not. Neither is a value after a few words: "the password: lost" is a
// sentence.
func (a assigned) counts() bool {
	sentence := strings.Contains(strings.TrimLeft(a.before, " \t-{\"'"), " ")
	return !strings.ContainsAny(a.before, "#;") && !(sentence && a.loose)
}

// assignment matches a name and its value: "password: x", "API_KEY=x".
var assignment = regexp.MustCompile(`(?i)([a-z0-9_.-]*(?:` + strings.Join(secretNames, "|") +
	`))["']?[?!]?[ \t]*(:=|=|:)([ \t]*)(?:"((?:[^"\\\n]|\\.)+)|'((?:[^'\\\n]|\\.)+)|([^\s"',;{}()\[\]][^\s"',;]*))`)

// secretNames are the endings of names of secrets.
var secretNames = []string{"password", "passwd", "passphrase", "secret", "token", "api_key", "api-key", "apikey", "secret_key", "secret-key", "secretkey"}

// NamesSecret reports whether the value of a name, or path, is likely to be
// secret.
func NamesSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(secretNames, func(end string) bool { return strings.HasSuffix(name, end) }) &&
		!strings.HasSuffix(name, "nopasswd") // of sudoers(5)
}

// assigned is a secret with its name.
type assigned struct {
	// before is the text before the name in its line.
	before, name string
	// from and to are the secret's place in the text.
	from, to int
	// loose says that the value may be just a word after a colon.
	loose bool
}

// assignments lists the secrets that a text assigns to names.
func assignments(text string) []assigned {
	if !strings.ContainsAny(text, ":=") || !namesAny(text) {
		return nil
	}
	var all []assigned
	for _, m := range assignment.FindAllStringSubmatchIndex(text, -1) {
		a := assigned{name: text[m[2]:m[3]], before: text[strings.LastIndexByte(text[:m[2]], '\n')+1 : m[2]]}
		for i := 8; i < len(m); i += 2 {
			if m[i] >= 0 {
				a.from, a.to = m[i], m[i+1]
			}
		}
		value, bare := text[a.from:a.to], m[12] >= 0
		a.loose = bare && text[m[4]:m[5]] == ":" && m[7] > m[6] && !strings.ContainsAny(value, "0123456789")
		if NamesSecret(a.name) && IsValue(a.name, value) {
			all = append(all, a)
		}
	}
	return all
}

// namesAny reports whether a text may contain a secret's name.
func namesAny(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc([]string{"pass", "secret", "token", "key"}, func(s string) bool { return strings.Contains(text, s) })
}

// IsValue reports whether an assigned value can be a secret. A password may be
// any word. Other names often have ordinary words as values, so their secrets
// must have a digit and at least 8 characters.
func IsValue(name, value string) bool {
	word := strings.ToLower(value)
	switch {
	case value == "" || strings.ContainsAny(value[:1], "$<{%/@*-!") || strings.Contains(value, "://"):
		return false // it stands for a value, a file, or nothing
	case strings.Trim(word, "x.*") == "" || noPassword[word]:
		return false
	case strings.Contains(strings.ToLower(name), "pass"):
		return len(value) >= 4
	}
	return len(value) >= 8 && strings.ContainsAny(value, "0123456789") && !strings.ContainsAny(value, " \t")
}

// noPassword are values of password settings that are not passwords: words of
// settings, and of nsswitch.conf(5).
var noPassword = map[string]bool{
	"none": true, "null": true, "true": true, "false": true, "required": true, "optional": true, "prompt": true,
	"disabled": true, "enabled": true, "empty": true, "files": true, "compat": true, "systemd": true, "sssd": true,
	"requisite": true, "sufficient": true, "include": true, "unset": true,
}

// hidden replaces a secret.
const hidden = "***"

// Discreet removes the secrets from a finding, which would otherwise repeat
// them in a log that others read.
func Discreet(f site.Finding) site.Finding {
	if NamesSecret(f.Path) {
		f.Message, f.Fix = unquoted(f.Path, f.Message), unquoted(f.Path, f.Fix)
	}
	for _, text := range []*string{&f.Path, &f.Message, &f.Why, &f.Fix} {
		*text = discreet(*text)
	}
	return f
}

// quotedValue matches a value as a message shows it: a text in quotes, which
// may be cut off, or a number.
var quotedValue = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"?|'([^'\s]+)'|(?:^|[ \[(])([0-9]{4,})\b`)

// unquoted removes the values at a path from a message about it.
func unquoted(path, message string) string {
	return without(message, quotedValue.FindAllStringSubmatchIndex(message, -1), func(value string) bool {
		return !strings.HasSuffix(path, value) && IsValue(path, value)
	})
}

// discreet removes the secrets that one of our texts quotes.
func discreet(text string) string {
	if len(text) < shortest {
		return text
	}
	for _, r := range recognisers {
		text = without(text, r.find(text), nil)
	}
	var found [][]int
	for _, a := range assignments(text) {
		if !a.loose {
			found = append(found, []int{a.from, a.to})
		}
	}
	return without(text, found, nil)
}

// without hides the wanted matches in a text, or only their group if they have
// one.
func without(text string, matches [][]int, wanted func(string) bool) string {
	for _, m := range slices.Backward(matches) {
		from, to := secretPart(m)
		if wanted == nil || wanted(text[from:to]) {
			text = text[:from] + hidden + text[to:]
		}
	}
	return text
}

// secretPart returns the last matched group, or the whole match.
func secretPart(match []int) (from, to int) {
	for i := len(match) - 2; i >= 0; i -= 2 {
		if match[i] >= 0 {
			return match[i], match[i+1]
		}
	}
	return 0, 0
}

// Masked replaces the secrets in a file's text by stars. Lines and columns stay
// the same.
func Masked(src []byte) []byte {
	text := string(src)
	masked := bytes.Clone(src)
	mask := func(from, to int) {
		for i := from; i < to; i++ {
			if masked[i] != '\n' {
				masked[i] = '*'
			}
		}
	}
	for _, r := range recognisers {
		for _, m := range r.find(text) {
			mask(secretPart(m))
		}
	}
	for _, a := range assignments(text) {
		mask(a.from, a.to)
	}
	return masked
}
