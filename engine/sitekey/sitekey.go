// Package sitekey holds the root key of a site. What the daemon signs with it
// outlives the daemon's records. Only the site's daemon can make these signatures.
// So after a loss of records, Slipway trusts signed markers inside machines, the
// signed ledger and term, and the signed host keys of installed systems.
//
// The root key is 32 random bytes in a file outside the state directory. Every use
// has its own key, derived by HKDF-SHA-256 (RFC 5869), so that no use can stand in
// for another.
package sitekey

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/slipway-gitops/slipway/engine/keyfile"
	"github.com/slipway-gitops/slipway/engine/keyseal"
	"github.com/slipway-gitops/slipway/engine/pkcs11"
)

// rootSize is the length of a root key in bytes.
const rootSize = 32

// Key is the root key of a site. It prints [redacted].
type Key struct {
	root []byte
	sign ed25519.PrivateKey
}

func newKey(root []byte) (*Key, error) {
	seed, err := hkdf.Key(sha256.New, root, nil, "slipway sign v1", ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("derive the signing key: %w", err)
	}
	return &Key{root: root, sign: ed25519.NewKeyFromSeed(seed)}, nil
}

const redacted = "[redacted]"

// String hides the key.
func (*Key) String() string { return redacted }

// GoString hides the key.
func (*Key) GoString() string { return redacted }

// LogValue hides the key.
func (*Key) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the key.
func (*Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Public returns the public half, as a design lists it in site.keys.
func (k *Key) Public() string {
	return publicPrefix + base64.StdEncoding.EncodeToString(k.sign.Public().(ed25519.PublicKey))
}

const publicPrefix = "ed25519:"

// parsePublic parses the result of Public.
func parsePublic(text string) (ed25519.PublicKey, error) {
	encoded, ok := strings.CutPrefix(text, publicPrefix)
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%q is not the public half of a site key: it begins with %s and is shown by `slipway site key`", text, publicPrefix)
	}
	return raw, nil
}

// Purpose is what a signature is for. A signature for one purpose is not valid for
// another.
type Purpose string

// The purposes.
const (
	ForMarker Purpose = "marker"
	ForStatus Purpose = "status" // the content of the status branch: term, ledger, host keys
)

// Sign signs a value, as its JSON, for one purpose.
func (k *Key) Sign(p Purpose, value any) (string, error) {
	text, err := message(p, value)
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(ed25519.Sign(k.sign, text)), nil
}

// ErrSignature is wrapped when no key of the site made a signature.
var ErrSignature = errors.New("not signed with a key of this site")

// Verify checks that one of the public keys signed a value for a purpose.
func Verify(publics []string, p Purpose, value any, signature string) error {
	text, err := message(p, value)
	if err != nil {
		return err
	}
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return ErrSignature
	}
	for _, public := range publics {
		if key, err := parsePublic(public); err == nil && ed25519.Verify(key, text, raw) {
			return nil
		}
	}
	return ErrSignature
}

// message returns what is signed: the purpose, and the value's JSON.
func message(p Purpose, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("sign for %s: %w", p, err)
	}
	return append([]byte("slipway "+string(p)+" v1\n"), text...), nil
}

// The format of a key's file: this line, and the root key.
const fileHead = "slipway site key v1"

// Create makes a new root key in a file that must not exist yet, and creates its
// folder if necessary.
func Create(path string) (*Key, error) {
	root := make([]byte, rootSize)
	rand.Read(root) // never fails
	k, err := newKey(root)
	if err != nil {
		return nil, err
	}
	if err := keyfile.Create(path, k.text()); err != nil {
		return nil, fmt.Errorf("write the site key: %w", err)
	}
	return k, nil
}

// Seal replaces the key's file by what seal makes of its text: sealed to a device. It
// leaves the file as it is unless the device opens that.
func (k *Key) Seal(path string, seal func(text []byte) ([]byte, error)) error {
	text := k.text()
	defer clear(text)
	sealed, err := seal(text)
	if err == nil {
		err = keyseal.Put(path, sealed, text, pkcs11.SiteKey, true)
	}
	if err != nil {
		return fmt.Errorf("the site key was not changed: %w", err)
	}
	return nil
}

// Save writes the key into a file that must not exist yet.
func (k *Key) Save(path string) error {
	if err := keyfile.Write(path, k.text()); err != nil {
		return fmt.Errorf("write the site key: %w", err)
	}
	return nil
}

func (k *Key) text() []byte {
	return []byte(fileHead + "\n" + base64.StdEncoding.EncodeToString(k.root) + "\n")
}

// mostBytes limits the size of a key's file.
const mostBytes = 16 << 10

// Load reads a root key, which may be sealed to a device of this host. The file must be
// a regular one that only its owner can read. The error wraps fs.ErrNotExist when there is no file.
func Load(path string) (*Key, error) {
	k, _, err := LoadSealed(path)
	return k, err
}

// LoadSealed is Load, and also returns the device that the key's file is sealed to.
func LoadSealed(path string) (*Key, keyseal.Device, error) {
	text, by, err := keyseal.Read(path, mostBytes, pkcs11.SiteKey)
	switch {
	case err != nil && by != keyseal.None:
		return nil, by, fmt.Errorf("site key: %w. If the device no longer opens it, remove the file and put the copy of the key back with `slipway site import-key`; then restart the daemon", err)
	case err != nil:
		return nil, by, fmt.Errorf("site key: %w", err)
	}
	defer clear(text)
	k, err := parse(path, string(text))
	return k, by, err
}

// Derive returns size bytes for one use of the root key (HKDF-SHA-256, RFC 5869).
// They reveal nothing about other uses or signatures. A use begins with its own
// name.
func (k *Key) Derive(use string, size int) ([]byte, error) {
	b, err := hkdf.Key(sha256.New, k.root, nil, "slipway derive v1\x00"+use, size)
	if err != nil {
		return nil, fmt.Errorf("derive from the site key: %w", err)
	}
	return b, nil
}

func parse(path, text string) (*Key, error) {
	head, rest, _ := strings.Cut(text, "\n")
	root, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest))
	if head != fileHead || err != nil || len(root) != rootSize {
		return nil, fmt.Errorf("site key: %s does not hold one: restore it from its copy", path)
	}
	return newKey(root)
}

// LoadOrCreate loads the key of a file, or makes one if there is none. made
// reports whether it made one.
func LoadOrCreate(path string) (k *Key, made bool, err error) {
	k, err = Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, false, err
	}
	k, err = Create(path)
	made = err == nil
	if errors.Is(err, fs.ErrExist) { // another process was faster
		k, err = Load(path)
	}
	return k, made, err
}
