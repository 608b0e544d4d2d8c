package secret

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/hostfile"
	"github.com/slipway-gitops/slipway/engine/sealed"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sops"
)

// encrypted is a store's state for secrets that are encrypted in the repository.
type encrypted struct {
	// path is the file of the identity that opens them; empty for none.
	path     string
	made     func(path, recipient string)
	identity sealed.Identity // as it was opened last
	// design is the design in force, whose secrets are used; nil for none.
	design *site.Site
	opened map[string]opened
	// newest are the newest values that were opened. refused says why others are not used. record
	// records the newest ones; nil to record nothing.
	newest  map[string]newest
	refused map[string]string
	// unusable says why those of the design in force cannot be used, by what Attend saw last.
	unusable map[string]string
	record   func(name string, changed time.Time) error
}

// opened is the cached result of decrypting a secret.
type opened struct {
	of   [sha256.Size]byte
	by   hostfile.Stamp
	file *file
	err  error
}

// Unseal names the file of the identity that opens secrets encrypted in the repository. The store
// reads it when needed. If the file is missing, the store makes an identity and calls made; with a
// nil made it does not.
func (s *Store) Unseal(identity string, made func(path, recipient string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.encrypted.path, s.encrypted.made = identity, made
}

// InForce makes the store open the secrets that a design has encrypted, and no longer those of the
// previous design. The caller must not change the design.
func (s *Store) InForce(d *site.Site) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.encrypted.design, s.encrypted.opened, s.encrypted.refused = d, map[string]opened{}, map[string]string{}
	s.fetched = map[string]*fetch{} // drop what left the design
	select {
	case s.inForce <- struct{}{}:
	default:
	}
}

// beforeDesign are the uses of secrets that the daemon needs to reach the repository or other
// secrets, or to tell people that it cannot, and where else it tells of its work. They are always files on this host, whatever the design
// says.
var beforeDesign = map[Use]bool{Git: true, GitHub: true, Webhook: true, Notify: true, Traces: true, Vault: true}

// designed returns the credential of a request in the design in force, or nil for a file on this
// host.
func (s *Store) designed(r Request) (*site.Credential, *site.Site) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.encrypted.design
	if d == nil || beforeDesign[r.Use] {
		return nil, nil
	}
	c := d.Credentials[r.Name]
	if c == nil || c.From == "" || c.From == site.FromFile {
		return nil, nil
	}
	return c, d
}

// decrypt returns a credential that the design has encrypted.
func (s *Store) decrypt(name string, c *site.Credential, d *site.Site) (*file, error) {
	var files site.SealedFiles
	if d.Sealed != nil {
		files = *d.Sealed
	}
	at := path.Join(files.Folder, c.SealedFile(name))
	text, ok := files.Files[at]
	if !ok {
		return nil, fmt.Errorf("%w: there is no file %s in the repository: make it with `slipway secret set %s`, and commit it", ErrMissing, at, name)
	}
	id, by, err := s.identity()
	if err != nil {
		return nil, fmt.Errorf("%s cannot be opened: %w", at, err)
	}
	of := digestOf(c.From, c.Key, string(text))
	if last, known := s.lastOpened(name); known && last.of == of && last.by == by {
		s.recordNewest(name)
		return last.file, last.err
	}
	f, changed, err := unlock(d.Name, name, c, text, id)
	if err != nil {
		err = fmt.Errorf("%s: %w", at, err)
	} else {
		f.path, f.sealed = at, name
	}
	f, err = s.keep(name, c, d, opened{of, by, f, err}, changed)
	s.recordNewest(name)
	return f, err
}

// lastOpened returns the last result of opening a credential.
func (s *Store) lastOpened(name string) (opened, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.encrypted.opened[name]
	return last, known
}

// keep keeps the result for an encrypted secret while its design is in force. It returns
// the credential to use: this one, or one opened before if that is newer.
func (s *Store) keep(name string, c *site.Credential, d *site.Site, now opened, changed time.Time) (*file, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.encrypted.design != d {
		return now.file, now.err // a newer design decides which value counts
	}
	if now.err != nil {
		s.encrypted.opened[name] = now
		return nil, now.err
	}
	used, err := s.newestLocked(name, c, now.file, changed)
	if used == now.file {
		s.encrypted.opened[name] = now // check a refused one again: the clock of this host may have been wrong
	}
	return used, err
}

func digestOf(texts ...string) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, text := range texts {
		fmt.Fprintf(h, "%d %s", len(text), text)
	}
	h.Sum(sum[:0])
	return sum
}

// unlock decrypts a credential, parses it as a credential file, and returns when it was changed.
func unlock(siteName, name string, c *site.Credential, text []byte, id sealed.Identity) (*file, time.Time, error) {
	var plain []byte
	var changed time.Time
	var err error
	if c.From == site.FromSOPS {
		plain, changed, err = sops.Credential(c.File, text, c.Key, siteName, id)
	} else {
		var h sealed.Header
		h, plain, err = sealed.OpenFor(siteName, name, text, id)
		changed = h.Changed
	}
	if err != nil {
		return nil, changed, err
	}
	f, err := readKept(plain, "within the encryption")
	clear(plain) // f keeps its own string
	return f, changed, err
}

// readKept reads a credential from a place where "use" is required.
func readKept(plain []byte, place string) (*file, error) {
	if len(plain) > maxFile {
		return nil, fmt.Errorf("the secret has more than %d bytes, which no password or key needs", maxFile)
	}
	f, err := parse(string(plain))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s, line %w", place, err)
	case len(f.uses) == 0:
		return nil, fmt.Errorf("%s there is no \"use:\" line: %s", place, whichUse)
	}
	return f, nil
}

// CheckText says why the text of a credential is unusable. The text is header lines, an empty line
// and the secret. The error begins with the line, and contains nothing of the text.
func CheckText(text []byte) error {
	f, err := parse(string(text))
	switch {
	case err != nil:
		return fmt.Errorf("line %w", err)
	case len(f.uses) == 0:
		return fmt.Errorf("there is no \"use:\" line: %s", whichUse)
	}
	return nil
}

// ValidName reports whether a credential may have this name.
func ValidName(name string) bool { return validName.MatchString(name) }

var errNoIdentity = errors.New("there is no identity on this host: make one with `slipway secret identity`, add it with `slipway secret recipients add`, and run `slipway secret rekey`")

// Notes returns notes about the identity for people: how to make a copy of it, while a design in
// force needs it and there is none. An identity sealed to a device needs none, because other
// recipients can replace it.
func (s *Store) Notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.encrypted.design == nil || s.encrypted.design.Sealed == nil || s.encrypted.identity.IsZero() || s.encrypted.identity.SealedTo() != "" || strings.HasPrefix(s.encrypted.path, ofServices) {
		return nil
	}
	if _, err := os.Stat(CopyNote(s.encrypted.path)); err == nil {
		return nil
	}
	return []string{copyOf(s.encrypted.path)}
}

func copyOf(path string) string {
	return fmt.Sprintf("the identity %s has no copy yet: run `slipway secret identity --export FILE` and keep the file away from this host, or nobody else may be able to read the sealed secrets", path)
}

// CopyNote returns the file next to an identity that says that a copy was made.
func CopyNote(path string) string { return path + ".exported" }
