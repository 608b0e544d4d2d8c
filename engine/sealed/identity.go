package sealed

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/keyfile"
	"github.com/slipway-gitops/slipway/engine/keyseal"
	"github.com/slipway-gitops/slipway/engine/pkcs11"
)

// Identity opens secrets that were sealed for its recipients. It prints [redacted].
type Identity struct {
	of []age.Identity
	// recipients are the recipients whose secrets it opens, as far as they are known.
	recipients []string
	sealedTo   keyseal.Device
}

const redacted = "[redacted]"

// String hides the identity.
func (Identity) String() string { return redacted }

// GoString hides the identity.
func (Identity) GoString() string { return redacted }

// MarshalText hides the identity.
func (Identity) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Recipients returns the recipients to seal secrets for, so that this identity opens
// them.
func (i Identity) Recipients() []string { return i.recipients }

// SealedTo returns the device that alone can open the identity's file, if it is sealed to one.
func (i Identity) SealedTo() keyseal.Device { return i.sealedTo }

// IsZero reports whether there is no identity.
func (i Identity) IsZero() bool { return len(i.of) == 0 }

// Means are the programs and people that an identity may also need. The daemon has
// neither.
type Means struct {
	// Plugin makes an identity from a line "AGE-PLUGIN-…", and PluginRecipient a
	// recipient from a text "age1NAME1…". A program of that name opens and seals for
	// them. Without these functions both are refused.
	Plugin          func(text string) (age.Identity, error)
	PluginRecipient func(text string) (age.Recipient, error)
	// Passphrase asks for the passphrase of an SSH key.
	Passphrase func() ([]byte, error)
}

// Kind is the kind of an identity to make.
type Kind bool

// The kinds of identity. Secrets for a post-quantum identity are safe from being
// recorded now and opened by a later quantum computer. They cannot have recipients of
// another kind.
const (
	Classic     Kind = false
	PostQuantum Kind = true
)

// mostIdentity limits the size of an identity's file, in bytes.
const mostIdentity = 64 << 10

// Create makes an identity in a file that must not exist yet.
func Create(path string, kind Kind) (Identity, error) {
	text, err := Generate(kind)
	if err != nil {
		return Identity{}, err
	}
	defer clear(text)
	if err := keyfile.Create(path, text); err != nil {
		return Identity{}, fmt.Errorf("write the identity: %w", err)
	}
	return parseIdentity(path, text, Means{})
}

// Generate returns the text of a new identity, as age-keygen(1) writes it.
func Generate(kind Kind) ([]byte, error) {
	var secret, recipient string
	if kind == PostQuantum {
		i, err := age.GenerateHybridIdentity()
		if err != nil {
			return nil, fmt.Errorf("make an identity: %w", err)
		}
		secret, recipient = i.String(), i.Recipient().String()
	} else {
		i, err := age.GenerateX25519Identity()
		if err != nil {
			return nil, fmt.Errorf("make an identity: %w", err)
		}
		secret, recipient = i.String(), i.Recipient().String()
	}
	return fmt.Appendf(nil, "# created: %s\n# public key: %s\n%s\n", time.Now().UTC().Format(time.RFC3339), recipient, secret), nil
}

// Load reads an identity: the output of age-keygen(1), or a private SSH key. Either may
// be sealed to the TPM of this host, or to a token. The file must be a regular one that only its owner
// can read. The error wraps fs.ErrNotExist when there is no file.
func Load(path string, with Means) (Identity, error) {
	id, text, err := LoadText(path, with)
	if _, asks := onlyOf(id).(*agessh.EncryptedSSHIdentity); !asks { // it keeps the text
		clear(text)
	}
	return id, err
}

// LoadText is Load, and also returns the unsealed text of the identity.
func LoadText(path string, with Means) (id Identity, text []byte, err error) {
	text, by, err := keyseal.Read(path, mostIdentity, pkcs11.Identity)
	switch {
	case err != nil && by == keyseal.TPM:
		return Identity{}, nil, fmt.Errorf("identity: %w: make another identity with `slipway secret tpm --new`, add it, and run `slipway secret rekey` with the identity of another recipient", err)
	case err != nil && by == keyseal.Token:
		return Identity{}, nil, fmt.Errorf("identity: %w. If the token is lost, make another identity with `slipway secret pkcs11 --new`, add it, and run `slipway secret rekey` with the identity of another recipient", err)
	case err != nil:
		return Identity{}, nil, fmt.Errorf("identity: %w", err)
	}
	id, err = parseIdentity(path, text, with)
	id.sealedTo = by
	return id, text, err
}

// onlyOf returns the identity of a file with exactly one.
func onlyOf(id Identity) age.Identity {
	if len(id.of) != 1 {
		return nil
	}
	return id.of[0]
}

// LoadOrCreate loads the identity of a file, or makes one if there is none. made reports
// whether it made one.
func LoadOrCreate(path string, kind Kind) (i Identity, made bool, err error) {
	i, err = Load(path, Means{})
	if !errors.Is(err, fs.ErrNotExist) {
		return i, false, err
	}
	if i, err = Create(path, kind); errors.Is(err, fs.ErrExist) { // another process was faster
		i, err = Load(path, Means{})
		return i, false, err
	}
	return i, err == nil, err
}

// parseIdentity reads the text of an identity's file. Its errors contain nothing of it.
func parseIdentity(path string, text []byte, with Means) (Identity, error) {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("-----BEGIN ")) {
		return parseSSH(path, text, with)
	}
	var id Identity
	for n, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := id.add(line, with); err != nil {
			return Identity{}, fmt.Errorf("identity: %s:%d: %w", path, n+1, err)
		}
	}
	if id.IsZero() {
		return Identity{}, fmt.Errorf("identity: %s holds none: restore it from its copy", path)
	}
	return id, nil
}

func (i *Identity) add(line string, with Means) error {
	switch {
	case strings.HasPrefix(line, "AGE-SECRET-KEY-PQ-1"):
		one, err := age.ParseHybridIdentity(line)
		if err != nil {
			return errNoIdentity
		}
		i.of, i.recipients = append(i.of, one), append(i.recipients, one.Recipient().String())
	case strings.HasPrefix(line, "AGE-SECRET-KEY-1"):
		one, err := age.ParseX25519Identity(line)
		if err != nil {
			return errNoIdentity
		}
		i.of, i.recipients = append(i.of, one), append(i.recipients, one.Recipient().String())
	case strings.HasPrefix(line, "AGE-PLUGIN-") && with.Plugin == nil:
		return errors.New("the identity needs a plugin, and the daemon runs none: give it an identity of its own with `slipway secret identity`, and use plugins for people's identities")
	case strings.HasPrefix(line, "AGE-PLUGIN-"):
		one, err := with.Plugin(line)
		if err != nil {
			return err
		}
		i.of = append(i.of, one)
	default:
		return errNoIdentity
	}
	return nil
}

var errNoIdentity = errors.New("the line is not an identity of age: restore the file from its copy")

// parseSSH reads a private SSH key.
func parseSSH(path string, text []byte, with Means) (Identity, error) {
	one, err := agessh.ParseIdentity(text)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked) && (with.Passphrase == nil || locked.PublicKey == nil):
		return Identity{}, fmt.Errorf("identity: %s has a passphrase, which nobody is there to type: use a key without one, or an identity made by `slipway secret identity`", path)
	case errors.As(err, &locked):
		i, err := agessh.NewEncryptedSSHIdentity(locked.PublicKey, text, with.Passphrase)
		if err != nil {
			return Identity{}, fmt.Errorf("identity: %s: only keys of the types ssh-ed25519 and ssh-rsa open secrets", path)
		}
		return Identity{of: []age.Identity{i}, recipients: []string{sshText(locked.PublicKey)}}, nil
	case err != nil:
		return Identity{}, fmt.Errorf("identity: %s is not a private key that opens secrets: it has to be of the type ssh-ed25519 or ssh-rsa", path)
	}
	id := Identity{of: []age.Identity{one}}
	if signer, err := ssh.ParsePrivateKey(text); err == nil {
		id.recipients = []string{sshText(signer.PublicKey())}
	}
	return id, nil
}

// sshText returns a public key without the comment after it.
func sshText(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}
