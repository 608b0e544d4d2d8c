// Package sitekey is the root key of a site: what its daemon signs with it
// outlives the daemon's records. Markers inside machines, the ledger, the term
// and the host keys of installed systems are believed after a loss of records
// because of a signature that only the site's daemon can make.
//
// The root key is 32 random bytes in a file outside the state directory. Every
// use of it has a key of its own, derived by HKDF-SHA-256 (RFC 5869), so that
// no use can stand in for another.
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
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
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

// Public is the public half, as a design names it in site.keys.
func (k *Key) Public() string {
	return publicPrefix + base64.StdEncoding.EncodeToString(k.sign.Public().(ed25519.PublicKey))
}

const publicPrefix = "ed25519:"

// ParsePublic reads what Public gives.
func ParsePublic(text string) (ed25519.PublicKey, error) {
	encoded, ok := strings.CutPrefix(text, publicPrefix)
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%q is not the public half of a site key: it begins with %s and is shown by `slipway site key`", text, publicPrefix)
	}
	return raw, nil
}

// Purpose is what a signature is for. A signature for one purpose is none for
// another.
type Purpose string

// The purposes.
const (
	ForMarker Purpose = "marker"
	ForStatus Purpose = "status" // what the status branch holds: term, ledger, host keys
)

// Sign signs a value, as its JSON, for one purpose.
func (k *Key) Sign(p Purpose, value any) (string, error) {
	text, err := message(p, value)
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(ed25519.Sign(k.sign, text)), nil
}

// ErrSignature is wrapped where a signature is none of the site's.
var ErrSignature = errors.New("not signed with a key of this site")

// Verify says whether one of the public keys has signed a value for a purpose.
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
		if key, err := ParsePublic(public); err == nil && ed25519.Verify(key, text, raw) {
			return nil
		}
	}
	return ErrSignature
}

// message is what is signed: the purpose, and the value as encoding/json writes
// it.
func message(p Purpose, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("sign for %s: %w", p, err)
	}
	return append([]byte("slipway "+string(p)+" v1\n"), text...), nil
}

// The form of a key's file: a line that says what it is, and the root key.
const fileHead = "slipway site key v1"

// Create makes a new root key in a file that must not exist yet, and the folder
// of the file where there is none.
func Create(path string) (*Key, error) {
	root := make([]byte, rootSize)
	rand.Read(root) // never fails
	k, err := newKey(root)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("write the site key: %w", err)
	}
	return k, k.Save(path)
}

// Save writes the key into a file that must not exist yet.
func (k *Key) Save(path string) error { return write(path, k.root) }

// write makes the file as a whole: a crash leaves all of it or nothing. Written by
// root, it belongs to the owner of its folder: that is the daemon's user.
func write(path string, root []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".site-key-*")
	if err != nil {
		return fmt.Errorf("write the site key: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintf(f, "%s\n%s\n", fileHead, base64.StdEncoding.EncodeToString(root))
	if err = errors.Join(err, f.Chmod(0o400), giveToOwner(f, filepath.Dir(path)), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the site key: %w", err)
	}
	err = os.Link(f.Name(), path)                                                  // fails if there is one
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) { // FAT has no links
		err = unix.Renameat2(unix.AT_FDCWD, f.Name(), unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		return fmt.Errorf("write the site key: %s: %w", path, err)
	}
	return syncFolder(filepath.Dir(path))
}

func giveToOwner(f *os.File, folder string) error {
	info, err := os.Stat(folder)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return f.Chown(int(owner.Uid), int(owner.Gid))
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// mostBytes bounds a key's file.
const mostBytes = 1 << 10

// Load reads a root key. The file must be a plain one that nobody but its owner
// can read. The error wraps fs.ErrNotExist when there is none.
func Load(path string) (*Key, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("site key: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("site key: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("site key: %s is not a plain file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("site key: others can read %s (mode %04o): run chmod 400 on it, and replace the key if they may have read it", path, info.Mode().Perm())
	case info.Size() > mostBytes:
		return nil, fmt.Errorf("site key: %s is not one: it is too large", path)
	}
	text := make([]byte, info.Size())
	if _, err := f.ReadAt(text, 0); err != nil {
		return nil, fmt.Errorf("site key: %w", err)
	}
	return parse(path, string(text))
}

func parse(path, text string) (*Key, error) {
	head, rest, _ := strings.Cut(text, "\n")
	root, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest))
	if head != fileHead || err != nil || len(root) != rootSize {
		return nil, fmt.Errorf("site key: %s does not hold one: restore it from its copy", path)
	}
	return newKey(root)
}

// LoadOrCreate loads the key of a file and makes one where there is none. It
// says whether it has made it.
func LoadOrCreate(path string) (k *Key, made bool, err error) {
	k, err = Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, false, err
	}
	if k, err = Create(path); errors.Is(err, fs.ErrExist) { // somebody was faster
		k, err = Load(path)
		return k, false, err
	}
	return k, err == nil, err
}
