package access

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/hostfile"
)

// TokenPrefix begins every token, so that scanners for secrets find one.
const TokenPrefix = "slipway_"

// Bounds of the lifetime of a token.
const (
	shortestLife = time.Minute
	longestLife  = 366 * 24 * time.Hour
)

const (
	secretBytes   = 32
	mostTokenFile = 4 << 10
)

var tokenName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// IsTokenName says whether a text can be the name of a token. It is the name of a file, too.
func IsTokenName(name string) bool { return tokenName.MatchString(name) }

// Issued is what is kept of a token: never its text.
type Issued struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	// By is who made it, on the host.
	By  string `json:"by,omitempty"`
	sum []byte // SHA-256 of the secret
}

// Tokens are the tokens of a folder of the host, a file for each. Files are read for every request:
// one that is removed is revoked.
type Tokens struct {
	Folder string
	// Owner is who has to own the files: root.
	Owner uint32
}

// Make makes a token with a lifetime and gives its text, which is kept nowhere. The error wraps
// fs.ErrExist for a name that is taken.
func (t Tokens) Make(name, by string, now time.Time, life time.Duration) (text string, err error) {
	switch {
	case !IsTokenName(name):
		return "", fmt.Errorf("%q cannot be the name of a token: use at most 63 lower case letters, digits and hyphens", name)
	case life < shortestLife || life > longestLife:
		return "", fmt.Errorf("a token lives from %v to %d days, not %v", shortestLife, longestLife/(24*time.Hour), life)
	}
	secret := make([]byte, secretBytes)
	rand.Read(secret) // never fails
	sum := sha256.Sum256(secret)
	file := fmt.Sprintf("sha256: %s\ncreated: %s\nexpires: %s\n", hex.EncodeToString(sum[:]), now.UTC().Format(time.RFC3339), now.Add(life).UTC().Format(time.RFC3339))
	if by != "" && CheckName(by) == nil {
		file += "by: " + by + "\n"
	}
	if err := makeReadable(t.Folder); err != nil {
		return "", err
	}
	f, err := os.OpenFile(filepath.Join(t.Folder, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(file)
	// The daemon's user reads it, whatever the umask is.
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close(), syncFolder(t.Folder)); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return TokenPrefix + name + "." + encode(secret), nil
}

// makeReadable makes a folder that the daemon's user can read, whatever the umask is. One that is there
// stays as it is.
func makeReadable(folder string) error {
	if _, err := os.Stat(folder); err == nil {
		return nil
	}
	return errors.Join(os.MkdirAll(folder, 0o755), os.Chmod(folder, 0o755))
}

func encode(secret []byte) string { return base64.RawURLEncoding.EncodeToString(secret) }

// Revoke removes a token. The error wraps fs.ErrNotExist where there is none.
func (t Tokens) Revoke(name string) error {
	if !IsTokenName(name) {
		return fmt.Errorf("%w: %q cannot be the name of a token", fs.ErrNotExist, name)
	}
	return errors.Join(os.Remove(filepath.Join(t.Folder, name)), syncFolder(t.Folder))
}

// syncFolder has what was made and removed in a folder outlive a power cut.
func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// List gives the tokens in order of their names, and says of files that are none why.
func (t Tokens) List() ([]Issued, error) {
	files, err := os.ReadDir(t.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []Issued
	for _, f := range files {
		if !IsTokenName(f.Name()) {
			continue // a file that an editor left, which is no token
		}
		i, ierr := t.read(f.Name())
		if ierr != nil {
			err = errors.Join(err, ierr)
			continue
		}
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b Issued) int { return cmp.Compare(a.Name, b.Name) })
	return all, err
}

// errToken is said to everyone whose token is not accepted: neither whether there is one of that name
// nor what is wrong with it.
var errToken = errors.New("the token is not valid: it was never made, was revoked or has expired")

// unreadable is errToken where the file of a token cannot be used, which its owner has to know.
type unreadable struct{ why error }

func (*unreadable) Error() string { return errToken.Error() }
func (*unreadable) Unwrap() error { return errToken }

// WhyUnreadable is why the file of a token cannot be used, of an error of Check; nil for other reasons. It
// is for the log of the daemon, and not for who showed the token.
func WhyUnreadable(err error) error {
	var u *unreadable
	if errors.As(err, &u) {
		return u.why
	}
	return nil
}

// Check gives the token whose text it is. It takes as long for a wrong secret as for the right one; that a
// token of a name exists can be told by the time, and names are not secret.
func (t Tokens) Check(text string, now time.Time) (Issued, error) {
	name, encoded, ok := strings.Cut(strings.TrimPrefix(text, TokenPrefix), ".")
	secret, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if !ok || !strings.HasPrefix(text, TokenPrefix) || !IsTokenName(name) || err != nil || len(secret) != secretBytes || encode(secret) != encoded {
		return Issued{}, errToken // the decoder leaves out line breaks
	}
	sum := sha256.Sum256(secret)
	i, err := t.read(name)
	if err != nil {
		i.sum = make([]byte, sha256.Size) // compared with all the same
	}
	isSame := subtle.ConstantTimeCompare(sum[:], i.sum) == 1
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return Issued{}, &unreadable{err}
	case err != nil || !isSame:
		return Issued{}, errToken
	}
	if !now.Before(i.Expires) || now.Before(i.Created.Add(-clockSlack)) {
		return Issued{}, errToken
	}
	return i, nil
}

// clockSlack is how far in the future a token may have been made: more than that, and the clock of the
// host was set back, so that it does not know what has expired.
const clockSlack = 5 * time.Minute

// read reads the file of a token.
func (t Tokens) read(name string) (Issued, error) {
	path := filepath.Join(t.Folder, name)
	text, err := hostfile.Read(path, t.Owner, mostTokenFile, "who may give orders")
	if err != nil {
		return Issued{}, err
	}
	i := Issued{Name: name}
	err = hostfile.EachSetting(text, "sha256, created, expires and by", func(key, value string, _ int) (_ bool, err error) {
		switch key {
		case "sha256":
			if i.sum, err = hex.DecodeString(value); err == nil && len(i.sum) != sha256.Size {
				err = errors.New("is not a SHA-256 in hex")
			}
		case "created":
			i.Created, err = time.Parse(time.RFC3339, value)
		case "expires":
			i.Expires, err = time.Parse(time.RFC3339, value)
		case "by":
			i.By = value
		default:
			return false, nil
		}
		return true, err
	})
	if err == nil && (i.sum == nil || i.Created.IsZero() || i.Expires.IsZero() || i.Expires.Sub(i.Created) > longestLife) {
		err = errors.New("1: it needs the lines \"sha256:\", \"created:\" and \"expires:\", at most a year apart")
	}
	if err != nil {
		return Issued{}, fmt.Errorf("%s:%w", path, err)
	}
	return i, nil
}
