// Package sealed keeps secrets in a repository, encrypted with age for the recipients
// of a site (age-encryption.org/v1). A header within the encryption binds each file to
// its site and name. So a file that was renamed, copied or swapped with another is
// refused.
package sealed

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// The place of sealed secrets, relative to the folder of a site's package.
const (
	Folder         = "secrets"
	Extension      = ".age"
	RecipientsFile = "recipients"
)

const (
	// mostText is the largest secret with its headers, in bytes.
	mostText = 96 << 10
	// MostFile is the largest file that is read, in bytes.
	MostFile = 256 << 10
)

// Header is sealed together with a secret.
type Header struct {
	Site string
	Name string
	// Recipients are all that can open the file, as its author wrote them.
	Recipients []string
	// Set is when the value was set. Changed is when anything of the secret last
	// changed. Sealing it again for others changes neither.
	Set, Changed time.Time
}

var (
	// ErrNotSealed is wrapped when a file is not encrypted with age.
	ErrNotSealed = errors.New("not sealed")
	// ErrNotForUs is wrapped when a file is sealed only for others.
	ErrNotForUs = errors.New("sealed for others")
	// ErrDamaged is wrapped when a file is truncated or changed.
	ErrDamaged = errors.New("damaged")
	// ErrElsewhere is wrapped when a file belongs to another name or site.
	ErrElsewhere = errors.New("of another name or site")
)

// why is an error that wraps a class but has its own text.
type why struct {
	class error
	text  string
}

func (e why) Error() string { return e.text }
func (e why) Unwrap() error { return e.class }

// Seal encrypts a secret. The result is armoured text.
func Seal(h Header, text []byte, to []Recipient) ([]byte, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	lines := armor.NewWriter(&out)
	var all []age.Recipient
	for _, r := range to {
		if r.to == nil {
			return nil, fmt.Errorf("the recipient %s needs a plugin: allow its program with --plugin, and see that it is installed", r.Label())
		}
		all = append(all, r.to)
	}
	h.Recipients = nil
	for _, r := range to {
		h.Recipients = append(h.Recipients, r.Text)
	}
	plain := append(h.marshal(), text...)
	defer clear(plain)
	if len(plain) > mostText {
		return nil, fmt.Errorf("the secret has more than %d KiB, which no password or key needs", mostText>>10)
	}
	w, err := age.Encrypt(lines, all...)
	if err != nil && strings.Contains(err.Error(), "incompatible recipients") {
		return nil, errors.New("the recipients are of two kinds, post-quantum (age1pq1…) and others, which age does not mix: the others would make all secrets readable for a quantum computer. Let all be of one kind")
	}
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	_, err = w.Write(plain)
	if err = errors.Join(err, w.Close(), lines.Close()); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return out.Bytes(), nil
}

// Stanzas returns the kinds of recipients of a sealed file, one for each recipient,
// from its unencrypted part. The error wraps ErrNotSealed or ErrDamaged.
func Stanzas(file []byte) ([]string, error) {
	binary, err := unwrapped(file)
	if err != nil {
		return nil, err
	}
	head, err := age.ExtractHeader(bytes.NewReader(binary))
	if err != nil {
		return nil, why{ErrDamaged, "it is cut off or was changed: restore it from Git, or set the secret again with `slipway secret set`"}
	}
	kinds := stanzas(head)
	if len(kinds) > mostRecipients {
		return nil, why{ErrDamaged, fmt.Sprintf("it has more than %d recipients: seal it again with `slipway secret rekey`", mostRecipients)}
	}
	if len(binary) < len(head)+shortest {
		return nil, why{ErrDamaged, "it is cut off: restore it from Git, or set the secret again with `slipway secret set`"}
	}
	return kinds, nil
}

// shortest is the minimum length after the header of a file: a nonce, and the tag of an
// empty text.
const shortest = 16 + 16

func stanzas(head []byte) (kinds []string) {
	for line := range bytes.Lines(head) {
		if rest, ok := bytes.CutPrefix(line, []byte("-> ")); ok {
			kind, _, _ := strings.Cut(strings.TrimSpace(string(rest)), " ")
			if !strings.HasSuffix(kind, "-grease") {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}

const intro = "age-encryption.org/"

// unwrapped returns a file without its armour.
func unwrapped(file []byte) ([]byte, error) {
	switch text := bytes.TrimSpace(file); {
	case len(file) > MostFile:
		return nil, why{ErrDamaged, fmt.Sprintf("it has more than %d KiB, which no sealed secret has", MostFile>>10)}
	case bytes.HasPrefix(text, []byte(armor.Header)):
		binary, err := io.ReadAll(armor.NewReader(bytes.NewReader(text)))
		if err != nil {
			return nil, why{ErrDamaged, "it is cut off or was changed: restore it from Git, or set the secret again with `slipway secret set`"}
		}
		if !bytes.HasPrefix(binary, []byte(intro)) {
			return nil, why{ErrNotSealed, "it is not encrypted with age: set the secret with `slipway secret set`"}
		}
		return binary, nil
	case bytes.HasPrefix(file, []byte(intro)):
		return file, nil
	case len(text) == 0:
		return nil, why{ErrDamaged, "it is empty: restore it from Git, or set the secret again with `slipway secret set`"}
	}
	return nil, why{ErrNotSealed, "it is not encrypted with age: if a secret stands in it, replace that wherever it is valid, and set the new one with `slipway secret set`"}
}

// open decrypts a sealed file and returns its header. Its errors contain nothing of the
// content.
func open(file []byte, id Identity) (Header, []byte, error) {
	if _, err := Stanzas(file); err != nil {
		return Header{}, nil, err
	}
	if id.IsZero() {
		return Header{}, nil, why{ErrNotForUs, "there is no identity to open it with"}
	}
	binary, err := unwrapped(file)
	if err != nil {
		return Header{}, nil, err
	}
	r, err := age.Decrypt(bytes.NewReader(binary), id.of...)
	var none *age.NoIdentityMatchError
	switch {
	case errors.As(err, &none):
		return Header{}, nil, why{ErrNotForUs, fmt.Sprintf("it is sealed for others than this identity%s: add that with `slipway secret recipients add`, and run `slipway secret rekey` where an identity is that opens it",
			named(id.recipients))}
	case err != nil:
		return Header{}, nil, why{ErrDamaged, "it cannot be opened, as it was changed or the identity's program failed: " + err.Error()}
	}
	plain, err := io.ReadAll(io.LimitReader(r, mostText+1))
	defer clear(plain) // parse copies the secret
	switch {
	case err != nil:
		return Header{}, nil, why{ErrDamaged, "it is cut off or was changed: restore it from Git, or set the secret again with `slipway secret set`"}
	case len(plain) > mostText:
		return Header{}, nil, why{ErrDamaged, fmt.Sprintf("it holds more than %d KiB, which no password or key needs", mostText>>10)}
	}
	return parse(plain)
}

func named(recipients []string) string {
	if len(recipients) == 0 {
		return ""
	}
	return " (" + strings.Join(recipients, ", ") + ")"
}

// OpenFor is open for the secret of one name and site. The error wraps ErrElsewhere
// when the file holds another secret.
func OpenFor(siteName, name string, file []byte, id Identity) (Header, []byte, error) {
	h, text, err := open(file, id)
	if err == nil && (h.Site != siteName || h.Name != name) {
		return h, nil, why{ErrElsewhere, fmt.Sprintf("it holds the secret %q of the site %q, not %q of %q: somebody renamed or copied the file. Restore it from Git, or set the secret with `slipway secret set %[3]s`",
			h.Name, h.Site, name, siteName)}
	}
	return h, text, err
}

// The format of the encrypted text: this first line, the header's lines, an empty line,
// and the secret.
const magic = "slipway secret v1"

func (h Header) check() error {
	for _, text := range slices.Concat([]string{h.Site, h.Name}, h.Recipients) {
		if text == "" || strings.ContainsAny(text, "\r\n") {
			return errors.New("seal: a site, a name or a recipient is empty or has several lines")
		}
	}
	return nil
}

func (h Header) marshal() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\nsite: %s\nname: %s\nset: %s\n", magic, h.Site, h.Name, h.Set.UTC().Format(time.RFC3339))
	if h.Changed.After(h.Set) {
		fmt.Fprintf(&b, "changed: %s\n", h.Changed.UTC().Format(time.RFC3339))
	}
	for _, r := range h.Recipients {
		fmt.Fprintf(&b, "recipient: %s\n", r)
	}
	b.WriteString("\n")
	return b.Bytes()
}

var errForeign = why{ErrElsewhere, "it was not made by Slipway, so it does not say for which site and name it is: set the secret with `slipway secret set`"}

// parse reads the decrypted text.
func parse(plain []byte) (h Header, text []byte, err error) {
	in := bufio.NewReader(bytes.NewReader(plain))
	first := true
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return h, nil, errForeign
		}
		line = strings.TrimSuffix(line, "\n")
		if first {
			if line != magic {
				return h, nil, errForeign
			}
			first = false
			continue
		}
		if line == "" {
			break
		}
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case key == "site" && h.Site == "":
			h.Site = value
		case key == "name" && h.Name == "":
			h.Name = value
		case key == "recipient" && len(h.Recipients) < mostRecipients:
			h.Recipients = append(h.Recipients, value)
		case key == "set" && h.Set.IsZero():
			if h.Set, err = time.Parse(time.RFC3339, value); err != nil {
				return h, nil, errForeign
			}
		case key == "changed" && h.Changed.IsZero():
			if h.Changed, err = time.Parse(time.RFC3339, value); err != nil {
				return h, nil, errForeign
			}
		default:
			return h, nil, errForeign
		}
	}
	if h.Site == "" || h.Name == "" {
		return h, nil, errForeign
	}
	if h.Changed.Before(h.Set) {
		h.Changed = h.Set
	}
	text, err = io.ReadAll(in)
	return h, text, err
}

// Encrypt encrypts bytes for one recipient, like the key in a SOPS file.
func Encrypt(text []byte, to Recipient) ([]byte, error) {
	if to.to == nil {
		return nil, fmt.Errorf("the recipient %s needs a plugin: allow its program with --plugin, and see that it is installed", to.Label())
	}
	var out bytes.Buffer
	lines := armor.NewWriter(&out)
	w, err := age.Encrypt(lines, to.to)
	if err != nil {
		return nil, fmt.Errorf("encrypt for %s: %w", to.Label(), err)
	}
	_, err = w.Write(text)
	err = errors.Join(err, w.Close(), lines.Close())
	return out.Bytes(), err
}

// Decrypt decrypts at most most bytes of any age file. The error wraps ErrNotForUs when
// it is encrypted only for others.
func Decrypt(file []byte, most int64, id Identity) ([]byte, error) {
	binary, err := unwrapped(file)
	if err != nil {
		return nil, err
	}
	if id.IsZero() {
		return nil, why{ErrNotForUs, "there is no identity to open it with"}
	}
	r, err := age.Decrypt(bytes.NewReader(binary), id.of...)
	var none *age.NoIdentityMatchError
	switch {
	case errors.As(err, &none):
		return nil, why{ErrNotForUs, "it is encrypted for others than this identity" + named(id.recipients)}
	case err != nil:
		return nil, why{ErrDamaged, "it cannot be opened, as it was changed: " + err.Error()}
	}
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil || int64(len(text)) > most {
		return nil, why{ErrDamaged, "it is cut off, or was changed"}
	}
	return text, nil
}
