// Package sops reads and writes files in the format of SOPS (getsops.io), YAML and
// JSON, with age recipients only. Each value is encrypted separately (AES-256-GCM) with
// a key that is encrypted for each recipient. A digest of all values shows whether any
// was changed. Files with PGP or cloud keys, or with groups of keys, are refused.
package sops

import (
	"bytes"
	"crypto/rand"
	"crypto/sha512"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/slipway-gitops/slipway/engine/sealed"
)

const (
	// mostLeaves, mostDepth and mostKeys limit a file in addition to its size.
	mostLeaves = 10_000
	mostDepth  = 64
	mostKeys   = 64
	// mostRule limits the length of the rule for what is encrypted, because it is tried
	// on each key.
	mostRule = 1000
	// version is the SOPS version whose format is written.
	version = "3.13.3"
	// keySize is the length of a file's key, in bytes.
	keySize = 32
)

// File is a file of SOPS whose values are still encrypted.
type File struct {
	json bool
	root *yaml.Node // a mapping, without the key "sops"
	meta metadata
}

// metadata is the content of "sops".
type metadata struct {
	keys         []agedKey
	lastModified time.Time
	mac          string
	// rule says which values are encrypted, by a suffix or a regular expression.
	rule           ruleKind
	of             string
	matching       *regexp.Regexp
	onlyEncrypted  bool
	version        string
	ruleIsExplicit bool
}

// agedKey is the key of a file, encrypted for one recipient.
type agedKey struct{ recipient, enc string }

// ruleKind is the way in which a file says which of its values are encrypted.
type ruleKind string

const (
	unencryptedSuffix ruleKind = "unencrypted_suffix"
	encryptedSuffix   ruleKind = "encrypted_suffix"
	unencryptedRegex  ruleKind = "unencrypted_regex"
	encryptedRegex    ruleKind = "encrypted_regex"
)

// encrypts reports whether the value at a path is encrypted.
func (m *metadata) encrypts(path []string) bool {
	hit := slices.ContainsFunc(path, func(key string) bool {
		if m.matching != nil {
			return m.matching.MatchString(key)
		}
		return strings.HasSuffix(key, m.of)
	})
	if m.rule == encryptedSuffix || m.rule == encryptedRegex {
		return hit
	}
	return !hit
}

// Is reports whether a text looks like a SOPS file: it has the metadata of one.
func Is(text []byte) bool {
	return bytes.Contains(text, []byte("sops")) && bytes.Contains(text, []byte("lastmodified")) && bytes.Contains(text, []byte("mac"))
}

// Parse reads a file: JSON if its name ends in .json, YAML otherwise. Errors begin with
// the line, if one is to blame, and contain no value.
func Parse(name string, text []byte) (f *File, err error) {
	if len(text) > sealed.MostFile {
		return nil, fmt.Errorf("it has more than %d KiB: divide it", sealed.MostFile>>10)
	}
	defer func() {
		if cause := recover(); cause != nil { // of the YAML library
			f, err = nil, errors.New("it cannot be read as YAML")
		}
	}()
	f = &File{json: strings.HasSuffix(name, ".json")}
	if f.json {
		f.root, err = parseJSON(text)
	} else {
		f.root, err = parseYAML(text)
	}
	if err != nil {
		return nil, err
	}
	if err := check(f.root, 0, new(int)); err != nil {
		return nil, err
	}
	meta := take(f.root, "sops")
	if meta == nil {
		return nil, errors.New("it has no key \"sops\", so it is not encrypted: encrypt it with `sops encrypt --age …`, and replace the secrets in it wherever they are valid")
	}
	if f.meta, err = readMetadata(meta); err != nil {
		return nil, err
	}
	return f, nil
}

// Recipients returns the recipients that can open the file, as it lists them.
func (f *File) Recipients() []string {
	var all []string
	for _, k := range f.meta.keys {
		all = append(all, k.recipient)
	}
	return all
}

// Clear lists the paths of unencrypted values, with their lines.
func (f *File) Clear() map[string]int {
	clear := map[string]int{}
	_ = f.each(func(path []string, n *yaml.Node) error {
		if !f.meta.encrypts(path) {
			clear[strings.Join(path, ".")] = n.Line
		}
		return nil
	})
	return clear
}

// Content is an opened file. None of its values was changed since the file was written.
type Content struct {
	file *File
	key  []byte
	// values are those of the leaves.
	values map[*yaml.Node]any
}

// Open decrypts all values of a file and checks them against its digest.
func (f *File) Open(id sealed.Identity) (*Content, error) {
	key, err := f.key(id)
	if err != nil {
		return nil, err
	}
	c := &Content{f, key, map[*yaml.Node]any{}}
	err = f.each(func(path []string, n *yaml.Node) error {
		v, err := f.leaf(path, n, key)
		c.values[n] = v
		return err
	})
	if err != nil {
		return nil, err
	}
	want, err := decrypt(f.meta.mac, key, f.meta.lastModified.Format(time.RFC3339))
	if got := c.mac(); err != nil || want != got {
		return nil, errors.New("its digest does not fit its values: somebody changed the file without SOPS. Restore it from Git")
	}
	return c, nil
}

// key decrypts the key of a file.
func (f *File) key(id sealed.Identity) ([]byte, error) {
	var last error
	for _, k := range f.meta.keys {
		key, err := sealed.Decrypt([]byte(k.enc), keySize, id)
		if err == nil && len(key) == keySize {
			return key, nil
		}
		if err == nil {
			err = errors.New("its key has the wrong length: restore it from Git")
		}
		if last == nil || !errors.Is(err, sealed.ErrNotForUs) {
			last = err
		}
	}
	return nil, last
}

// leaf returns the value of a leaf.
func (f *File) leaf(path []string, n *yaml.Node, key []byte) (any, error) {
	if !f.meta.encrypts(path) {
		return plain(n)
	}
	if n.ShortTag() != "!!str" {
		return nil, fmt.Errorf("%d: %s is not encrypted, and the file says that it is: restore the file from Git", n.Line, strings.Join(path, "."))
	}
	v, err := decrypt(n.Value, key, additional(path))
	if err != nil {
		return nil, fmt.Errorf("%d: %s %w", n.Line, strings.Join(path, "."), err)
	}
	return v, nil
}

func additional(path []string) string { return strings.Join(path, ":") + ":" }

// macInitial begins the digest over encrypted values only: the SHA-256 of "sops".
var macInitial = []byte{0x8a, 0x3f, 0xd2, 0xad, 0x54, 0xce, 0x66, 0x52, 0x7b, 0x10, 0x34, 0xf3, 0xd1, 0x47, 0xbe, 0xb, 0xb, 0x97, 0x5b, 0x3b, 0xf4, 0x4f, 0x72, 0xc6, 0xfd, 0xad, 0xec, 0x81, 0x76, 0xf2, 0x7d, 0x69}

// mac returns the digest of all values in order, or only of the encrypted ones.
func (c *Content) mac() string {
	h := sha512.New()
	if c.file.meta.onlyEncrypted {
		h.Write(macInitial)
	}
	_ = c.file.each(func(path []string, n *yaml.Node) error {
		if !c.file.meta.onlyEncrypted || c.file.meta.encrypts(path) {
			h.Write(bytesOf(c.values[n]))
		}
		return nil
	})
	return fmt.Sprintf("%X", h.Sum(nil))
}

// Rekey encrypts the file for other recipients with a new key, because anyone who could
// open it before may know the old key. The values and the time of their last change
// stay.
func (f *File) Rekey(id sealed.Identity, to []sealed.Recipient) error {
	c, err := f.Open(id)
	if err != nil {
		return err
	}
	if err := c.Renew(to); err != nil {
		return err
	}
	_, err = c.File(f.meta.lastModified)
	return err
}

// Changed returns when the file was last changed, as it says.
func (f *File) Changed() time.Time { return f.meta.lastModified }

// Renew encrypts all values with a new key, for recipients. The caller must call File
// next.
func (c *Content) Renew(to []sealed.Recipient) error {
	key := make([]byte, keySize)
	rand.Read(key) // never fails
	err := c.file.each(func(path []string, n *yaml.Node) error {
		if !c.file.meta.encrypts(path) {
			return nil
		}
		enc, err := encryptAs(string(bytesOf(c.values[n])), kindOf(n.Value), key, additional(path))
		if err == nil {
			n.Value = enc
		}
		return err
	})
	if err != nil {
		return err
	}
	c.key = key
	return c.file.seal(key, to)
}

// kindOf returns the type of an encrypted value, as the file names it.
func kindOf(value string) string {
	if m := encrypted.FindStringSubmatch(value); m != nil {
		return m[4]
	}
	return "str"
}

func (f *File) seal(key []byte, to []sealed.Recipient) error {
	var keys []agedKey
	for _, r := range to {
		enc, err := sealed.Encrypt(key, r)
		if err != nil {
			return err
		}
		keys = append(keys, agedKey{r.Text, string(enc)})
	}
	f.meta.keys = keys
	return nil
}

// New returns an empty file for recipients.
func New(name string, to []sealed.Recipient) (*Content, error) {
	f := &File{json: strings.HasSuffix(name, ".json"), root: &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}}
	f.meta = metadata{rule: unencryptedSuffix, of: defaultSuffix, version: version, ruleIsExplicit: true}
	key := make([]byte, keySize)
	rand.Read(key) // never fails
	return &Content{f, key, map[*yaml.Node]any{}}, f.seal(key, to)
}

// Set sets a text at a path of keys, and creates the mappings on the way.
func (c *Content) Set(path []string, text string) error {
	at := c.file.root
	for i, key := range path {
		n := child(at, key)
		last := i == len(path)-1
		switch {
		case n == nil && last:
			n = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str"}
		case n == nil:
			n = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		case !last && n.Kind != yaml.MappingNode, last && n.Kind != yaml.ScalarNode:
			return fmt.Errorf("%s is something else already: choose another path", strings.Join(path[:i+1], "."))
		}
		if child(at, key) == nil {
			at.Content = append(at.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, n)
		}
		at = n
	}
	at.Tag, at.Value, at.Style = "!!str", text, 0
	c.values[at] = text
	if c.file.meta.encrypts(path) {
		enc, err := encrypt(text, c.key, additional(path))
		if err != nil {
			return err
		}
		at.Value = enc
	}
	return nil
}

// File returns the file with all changes, with now as the time of change.
func (c *Content) File(now time.Time) (*File, error) {
	c.file.meta.lastModified = now.UTC().Truncate(time.Second)
	mac, err := encrypt(c.mac(), c.key, c.file.meta.lastModified.Format(time.RFC3339))
	c.file.meta.mac = mac
	return c.file, err
}

// Text returns the value at a path of keys as text, and whether it is encrypted.
// Otherwise only the digest protects it. ok is false if there is no value.
func (c *Content) Text(path []string) (text string, encrypted, ok bool) {
	n := c.file.at(path)
	if n == nil || n.Kind != yaml.ScalarNode {
		return "", false, false
	}
	return string(bytesOf(c.values[n])), c.file.meta.encrypts(path), true
}

func (f *File) at(path []string) *yaml.Node {
	n := f.root
	for _, key := range path {
		if n = child(n, key); n == nil {
			return nil
		}
	}
	return n
}

// each visits the leaves in order, with their paths. Items of a list have the path of
// the list.
func (f *File) each(do func(path []string, n *yaml.Node) error) error { return each(nil, f.root, do) }

func each(path []string, n *yaml.Node, do func([]string, *yaml.Node) error) error {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if err := each(append(slices.Clip(path), n.Content[i].Value), n.Content[i+1], do); err != nil {
				return err
			}
		}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			if err := each(path, item, do); err != nil {
				return err
			}
		}
	default:
		if n.ShortTag() != "!!null" {
			return do(path, n)
		}
	}
	return nil
}
