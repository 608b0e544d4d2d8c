package sealed

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"golang.org/x/crypto/ssh"
)

// Recipient is a recipient of sealed secrets. Its text identifies it; its name is for
// people.
type Recipient struct {
	Text string `json:"recipient"`
	Name string `json:"name,omitempty"`
	Line int    `json:"line,omitempty"`

	to age.Recipient
}

// Label returns the text by which people recognize a recipient: its name, and a
// unique part. For an SSH key that is the fingerprint, as ssh-keygen -l shows it.
func (r Recipient) Label() string {
	short := r.short()
	if r.Name == "" {
		return short
	}
	return r.Name + " (" + short + ")"
}

func (r Recipient) short() string {
	if kind, print := r.fingerprint(); print != "" {
		return kind + " " + print
	}
	head, tail := "", r.Text
	if at := strings.LastIndex(tail, "1"); at > 0 { // Bech32: the part before it may be the name of a plugin
		head, tail = bounded(tail[:at], mostLabelled)+"1", tail[at+1:]
	}
	return head + bounded(tail, mostLabelled)
}

// Fingerprint returns the fingerprint of an SSH key, empty for others.
func (r Recipient) Fingerprint() string {
	_, print := r.fingerprint()
	return print
}

func (r Recipient) fingerprint() (kind, print string) {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(r.Text))
	if err != nil {
		return "", ""
	}
	return key.Type(), ssh.FingerprintSHA256(key)
}

const (
	// mostLabelled is how many characters of a recipient's parts are shown: more than
	// anyone can forge by trial.
	mostLabelled = 20
	// mostName limits the name of a recipient, in characters.
	mostName = 60
)

// bounded cuts a text to most characters, and replaces invisible characters.
func bounded(text string, most int) string {
	var b strings.Builder
	for _, r := range text {
		if most--; most < 0 {
			return b.String() + "…"
		}
		if !unicode.IsPrint(r) {
			r = '?'
		}
		b.WriteRune(r)
	}
	return b.String()
}

const (
	// mostRecipients is how many recipients a secret may have.
	mostRecipients = 64
	// mostRecipientsFile limits the file that lists them, in bytes.
	mostRecipientsFile = 256 << 10
)

// ParseRecipients reads the file that lists the recipients of a site's secrets: one
// per line, with its name in a comment before it. age(1) reads the same file as
// --recipients-file. Recipients that need a program are usable only if with says how
// to run it. Errors begin with the line.
func ParseRecipients(text []byte, with Means) ([]Recipient, error) {
	if len(text) > mostRecipientsFile {
		return nil, errors.New("1: the file is larger than 256 KiB, which no list of recipients needs")
	}
	var all []Recipient
	seen, name := map[string]int{}, ""
	for n, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			name = ""
			continue
		case strings.HasPrefix(line, "#"):
			name = bounded(strings.TrimSpace(strings.TrimLeft(line, "#")), mostName)
			continue
		}
		r, err := ParseRecipient(line, with)
		if err != nil {
			return nil, fmt.Errorf("%d: %w", n+1, err)
		}
		if name != "" {
			r.Name = name
		}
		r.Line, name = n+1, ""
		if first := seen[r.Text]; first > 0 {
			return nil, fmt.Errorf("%d: the recipient stands in line %d already: remove one of the two", n+1, first)
		}
		seen[r.Text] = n + 1
		if all = append(all, r); len(all) > mostRecipients {
			return nil, fmt.Errorf("%d: there are more than %d recipients: let a group of people share one", n+1, mostRecipients)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("1: the file lists no recipient, so nobody could open a secret: add one with `slipway secret recipients add`")
	}
	return all, nil
}

// ParseRecipient reads one recipient.
func ParseRecipient(text string, with Means) (Recipient, error) {
	r := Recipient{Text: text}
	var err error
	switch {
	case strings.HasPrefix(text, "AGE-"):
		return r, errors.New("this is the secret half of an identity, and everybody can read it here: make a new identity, replace all secrets that it opens, and list its public half (age1…)")
	case strings.HasPrefix(text, "ssh-"), strings.HasPrefix(text, "ecdsa-"), strings.HasPrefix(text, "sk-"):
		return parseSSHRecipient(text)
	case strings.HasPrefix(text, "age1pq1"):
		r.to, err = age.ParseHybridRecipient(text)
	case pluginName.MatchString(text):
		return parsePluginRecipient(pluginName.FindStringSubmatch(text)[1], r, with)
	case strings.HasPrefix(text, "age1"):
		r.to, err = age.ParseX25519Recipient(text)
	default:
		err = errors.New("unknown")
	}
	if err != nil {
		return r, errors.New("this is not a recipient: write age1…, age1pq1…, ssh-ed25519 … or ssh-rsa …, as `slipway secret identity` and age-keygen show them")
	}
	return r, nil
}

// pluginName matches a plugin's recipient, Bech32 of "age1NAME", with the name as its
// group. The data after the last "1" contains no "1".
var pluginName = regexp.MustCompile(`^age1([a-z0-9.+_-]+)1[02-9ac-hj-np-z]+$`)

func parsePluginRecipient(name string, r Recipient, with Means) (Recipient, error) {
	if with.PluginRecipient == nil {
		return r, nil // it can be listed, but not sealed for
	}
	to, err := with.PluginRecipient(r.Text)
	if err != nil {
		return r, fmt.Errorf("the recipient needs the program age-plugin-%s: %w", name, err)
	}
	r.to = to
	return r, nil
}

func parseSSHRecipient(text string) (Recipient, error) {
	key, comment, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		return Recipient{}, errors.New("this is not a public key of SSH: copy the line of the file that ends in .pub")
	}
	r := Recipient{Text: sshText(key), Name: bounded(comment, mostName)}
	if r.to, err = agessh.ParseRecipient(r.Text); err != nil {
		return Recipient{}, fmt.Errorf("secrets cannot be sealed for a key of the type %s: use one of the type ssh-ed25519 or ssh-rsa", key.Type())
	}
	return r, nil
}
