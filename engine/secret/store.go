package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/slipway-gitops/slipway/engine/hostfile"
	"github.com/slipway-gitops/slipway/engine/site"
)

// maxFile is the largest credential file, in bytes.
const maxFile = 64 << 10

var (
	// ErrMissing is wrapped when there is no file for a credential.
	ErrMissing = errors.New("credential missing")
	// ErrUnavailable is wrapped when a credential cannot be fetched now, for example because
	// its server is down.
	ErrUnavailable = errors.New("credential unavailable")
	// ErrHost is wrapped when a credential may not be sent to a host.
	ErrHost = errors.New("credential not for this host")
	// ErrPort is wrapped when a credential may not be sent to a port.
	ErrPort = errors.New("credential not for this port")
	// ErrUse is wrapped when a credential may not be sent by the requesting use.
	ErrUse = errors.New("credential not for this use")
)

// Store is a directory with a file per credential, named like it:
//
//	hosts: 192.0.2.0/24, bmc-1.example.org, *.oob.example.org
//	use: redfish
//	ports: 443, 8443, 9000-9100
//	username: admin
//
//	the password, or a PEM private key and perhaps its OpenSSH certificate
//
// The secret is everything after the first blank line, without one final newline. "hosts" is
// required. A file without "use" may be used for everything but files of systems. Unlimited
// reports such files, and a later version will refuse them. Without "ports" only the usual
// ports of the use are allowed, or any port in a file without "use". The file must be regular,
// have at most 64 KiB, belong to this process's user or to root, and be closed to everyone
// else. The store reads it again when it has changed. To replace it, rename another file over
// it.
//
// systemd passes the files of a folder to a service in one folder, with the setting's name and
// "_" before each name (LoadCredential=credentials:FOLDER makes "credentials_bmc" of "bmc";
// systemd.exec(5)). The store uses such a file if there is none with the plain name.
type Store struct {
	dir string

	mu        sync.Mutex
	files     map[string]*file
	unlimited map[string]map[Use]bool // names of files without "use", and who asked
	encrypted encrypted
	inForce   chan struct{} // tells Attend of another design
	opening   opening
	programs  string // folder of the programs that credentials come from; empty to run none
	owner     uint32 // the required owner of these
	fetched   map[string]*fetch
	vault     vaultServer
	derive    func(Of) (Value, error) // nil without the site key

	telling sync.Mutex  // held while trouble is reported
	tell    func(error) // nil for nobody
	told    string
}

// file is a credential file as last read.
type file struct {
	path string
	// sealed is the name of a credential that is encrypted in the repository.
	sealed string
	// elsewhere is the server that keeps the credential.
	elsewhere string
	stamp     hostfile.Stamp
	hosts     hosts
	uses      []Use
	ports     []portRange
	lines     map[string]int // of the header, by key
	// username becomes part of the value.
	username string
	value    Value
}

// Open opens a directory of credentials. With an empty name there is no directory, and every
// credential is missing.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir, files: map[string]*file{}, unlimited: map[string]map[Use]bool{}, fetched: map[string]*fetch{}, inForce: make(chan struct{}, 1),
		encrypted: encrypted{newest: map[string]newest{}, refused: map[string]string{}}}
	if dir == "" {
		return s, nil
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, fmt.Errorf("open credentials: %w: name a directory with a file per credential", err)
	case !info.IsDir():
		return nil, fmt.Errorf("open credentials: %s is not a directory: name a directory with a file per credential", dir)
	}
	return s, nil
}

// Get returns a credential's value for one use on one host and port. Its errors wrap
// ErrMissing, ErrUnavailable, ErrHost, ErrUse and ErrPort, and contain nothing of the content.
func (s *Store) Get(r Request) (Value, error) {
	defer s.trouble()
	f, err := s.find(r)
	if err != nil {
		return Value{}, fmt.Errorf("credential %q: %w", r.Name, err)
	}
	if err := f.allow(r); err != nil {
		return Value{}, err
	}
	s.note(r, len(f.uses) == 0)
	return f.value, nil
}

// find returns the file of a credential, or what the design in force has instead.
func (s *Store) find(r Request) (*file, error) {
	c, d := s.designed(r)
	switch {
	case c == nil:
		return s.load(r.Name)
	case c.From == site.FromProgram:
		return s.fromProgram(r.Name)
	case c.From == site.FromVault:
		return s.fromVault(r.Name, c, d)
	case c.From == site.FromDerived:
		return s.fromKey(r)
	}
	return s.decrypt(r.Name, c, d)
}

// Unlimited names the files that were used although they have no "use"; nil without any.
func (s *Store) Unlimited() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unlimitedLocked()
}

func (s *Store) unlimitedLocked() error {
	if len(s.unlimited) == 0 {
		return nil
	}
	var files []string
	for _, name := range slices.Sorted(maps.Keys(s.unlimited)) {
		files = append(files, fmt.Sprintf("\"use: %s\" to %s", joined(slices.Sorted(maps.Keys(s.unlimited[name]))), s.path(name)))
	}
	return fmt.Errorf("%d credential files do not say what may send them, so anyone who can merge a line can have them sent by another protocol: add the line %s; the next release refuses files without it",
		len(files), strings.Join(files, ", "))
}

// note records that a file without a use was used, or that it has one now.
func (s *Store) note(r Request, unlimited bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	uses := s.unlimited[r.Name]
	switch {
	case unlimited && uses[r.Use], !unlimited && uses == nil:
		return
	case !unlimited:
		delete(s.unlimited, r.Name)
	case uses == nil:
		s.unlimited[r.Name] = map[Use]bool{r.Use: true}
	default:
		uses[r.Use] = true
	}
}

var errName = errors.New("the name is not made of lower-case letters, digits, '.', '_' and '-', beginning with a letter or digit")

// validName keeps names inside the directory.
var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)

// handed is the prefix of files that systemd passes on from the folder of
// LoadCredential=credentials:FOLDER.
const handed = "credentials_"

// path returns the file of a credential, or where it should be.
func (s *Store) path(name string) string {
	plain, other := filepath.Join(s.dir, name), filepath.Join(s.dir, handed+name)
	if _, err := os.Lstat(plain); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(other); err == nil {
			return other
		}
	}
	return plain
}

// stat returns the file of a credential, as path does, and looks at it. Every look at a machine asks for its
// credential, so a file of the plain name costs one system call.
func (s *Store) stat(name string) (string, fs.FileInfo, error) {
	path := filepath.Join(s.dir, name)
	info, err := os.Stat(path)
	if err != nil {
		path = s.path(name)
		info, err = os.Stat(path)
	}
	return path, info, err
}

// load returns a credential's file, from memory if it has not changed.
func (s *Store) load(name string) (*file, error) {
	if !validName.MatchString(name) {
		return nil, errName
	}
	if s.dir == "" {
		return nil, fmt.Errorf("%w: there is no directory of credentials: start with --credentials DIR, or as a systemd service with LoadCredential=", ErrMissing)
	}
	path, info, err := s.stat(name)
	if err != nil {
		return nil, explain(path, err)
	}
	if f, ok := s.lastRead(name); ok && f.stamp == hostfile.StampOf(info) {
		return f, nil
	}
	f, err := read(path)
	if err != nil {
		return nil, err
	}
	s.keepRead(name, f)
	return f, nil
}

// lastRead returns a credential's file as last read.
func (s *Store) lastRead(name string) (*file, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.files[name]
	return f, ok
}

// keepRead keeps a credential's file as read.
func (s *Store) keepRead(name string, f *file) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = f
}

// read reads and checks a file.
func read(path string) (*file, error) { return readAs(path, parse) }

// readAs reads and checks a file of a form. It does not wait for the other end of a pipe.
func readAs(path string, parse func(text string) (*file, error)) (*file, error) {
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, explain(path, err)
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkAccess(path, info); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("%s: has more than %d bytes, which no password or key needs", path, maxFile)
	}
	f, err := parse(string(b))
	clear(b) // f keeps its own string
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	f.path, f.stamp = path, hostfile.StampOf(info)
	return f, nil
}

// ofServices is where systemd puts the files for services.
const ofServices = "/run/credentials/"

func explain(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(path, ofServices):
		return fmt.Errorf("%w: systemd handed no file %[2]s to this service: put one into the folder of the unit's LoadCredential= (/etc/slipway/credentials/%[2]s), and restart the service",
			ErrMissing, strings.TrimPrefix(filepath.Base(path), handed))
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: there is no file %s: make one of mode 0600 with the lines \"hosts: 192.0.2.0/24\", \"use: redfish\", \"username: admin\", an empty one, and the secret", ErrMissing, path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: user id %d must be able to read it", err, os.Geteuid())
	}
	return err
}

// checkAccess refuses a file that others can read or replace. It permits read access of the
// group root: since version 254 systemd gives a service's user access by an ACL, whose mask
// shows as the group's bits (acl(5), systemd issue 29435).
func checkAccess(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: is not a regular file", path)
	}
	st := info.Sys().(*syscall.Stat_t)
	if uid := os.Geteuid(); st.Uid != 0 && int(st.Uid) != uid {
		return fmt.Errorf("%s: belongs to user id %d, who could change it: run chown %d %s", path, st.Uid, uid, path)
	}
	open := info.Mode().Perm() & 0o077
	if open == 0 || open == 0o040 && st.Gid == 0 {
		return nil
	}
	return fmt.Errorf("%s: has mode %04o, open to others than its owner: run chmod 600 %s", path, info.Mode().Perm(), path)
}

// parse reads a credential file. Its errors, like those of parseHeader, begin with the line's number and
// contain nothing of the line, which may be a misplaced password.
func parse(text string) (*file, error) {
	f, text, err := parseHeader(text)
	if err != nil {
		return nil, err
	}
	if err := f.checkLimits(); err != nil {
		return nil, err
	}
	text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	if text == "" {
		return nil, errors.New("1: there is no secret after the empty line")
	}
	f.value = New(f.username, text)
	return f, nil
}

// parseLimits reads a file that has a header and no secret.
func parseLimits(text string) (*file, error) {
	if !strings.Contains(text, "\n\n") {
		text = strings.TrimSuffix(text, "\n") + "\n\n"
	}
	f, text, err := parseHeader(text)
	switch {
	case err != nil:
		return nil, err
	case strings.TrimSpace(text) != "":
		return nil, errors.New("1: it has a secret after the empty line, and the design says that the value is derived: remove the secret, or give the credential of the design another source or name")
	case len(f.uses) == 0:
		return nil, errors.New("1: there is no \"use: redfish\" line")
	}
	return f, f.checkLimits()
}

// parseHeader reads the lines of a file up to the first empty one, and returns what follows.
func parseHeader(text string) (*file, string, error) {
	f := &file{lines: map[string]int{}}
	for line := 1; ; line++ {
		head, rest, more := strings.Cut(text, "\n")
		text = rest
		head = strings.TrimSpace(head)
		if head == "" && more {
			return f, text, nil
		}
		if !more {
			return nil, "", fmt.Errorf("%d: there is no empty line between the header and the secret", line)
		}
		key, value, ok := strings.Cut(head, ":")
		known, err := f.limit(key, value, line)
		if err == nil && !(ok && known) {
			err = errors.New(`is none of "hosts: …", "use: …", "ports: …" and "username: …"; the secret follows after an empty line`)
		}
		if err != nil {
			return nil, "", fmt.Errorf("%d: %w", line, err)
		}
	}
}

// limit handles a line that says what a secret is for; known is false for any other line.
func (f *file) limit(key, value string, line int) (known bool, err error) {
	if f.lines[key] != 0 {
		return true, fmt.Errorf("%q is given twice", key)
	}
	switch key {
	case "username":
		f.username = strings.TrimSpace(value)
	case "hosts":
		err = f.hosts.parse(value)
	case "use":
		f.uses, err = parseUses(value)
	case "ports":
		f.ports, err = parsePorts(value)
	default:
		return false, nil
	}
	f.lines[key] = line
	return true, err
}

// checkLimits says which line is missing or empty, or returns nil.
func (f *file) checkLimits() error {
	switch {
	case f.hosts.empty():
		return errors.New("1: there is no \"hosts: …\" line that says where the secret may be sent")
	case f.lines["use"] != 0 && len(f.uses) == 0:
		return fmt.Errorf("%d: the \"use:\" line is empty: %s", f.lines["use"], whichUse)
	case f.lines["ports"] != 0 && len(f.ports) == 0:
		return fmt.Errorf("%d: the \"ports:\" line is empty: write ports and ranges such as 443, 8000-8100", f.lines["ports"])
	}
	return nil
}
