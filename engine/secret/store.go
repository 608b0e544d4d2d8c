package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
)

// maxFile is the largest credential file, in bytes.
const maxFile = 64 << 10

var (
	// ErrMissing is wrapped when there is no file for a credential.
	ErrMissing = errors.New("credential missing")
	// ErrHost is wrapped when a credential may not be sent to a host.
	ErrHost = errors.New("credential not for this host")
)

// Store is a directory with a file per credential, named like it:
//
//	hosts: 192.0.2.0/24, bmc-1.example.org, *.oob.example.org
//	username: admin
//
//	the password, or a PEM private key and perhaps its OpenSSH certificate
//
// The secret is everything after the first blank line, less one final newline.
// "hosts" is required, "username" is not. The file must be regular, of at most
// 64 KiB, belong to this process's user or to root, and be open to nobody else.
// It is read again when it has changed; replace it by renaming another over it.
type Store struct {
	dir string

	mu    sync.Mutex
	files map[string]file
}

// file is a credential file as it was last read.
type file struct {
	stamp stamp
	hosts hosts
	line  int // of "hosts"
	value Value
}

// stamp tells states of a file apart.
type stamp struct {
	dev, ino uint64
	size     int64
	changed  syscall.Timespec // the inode's change time, which nobody can set
}

// Open opens a directory of credentials. With an empty name there is none, and
// every credential is missing.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir, files: map[string]file{}}
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

// Get gives a credential's value for use on a host, which is compared as it is
// written in the endpoint: an address, or a name that is not resolved. Its
// errors wrap ErrMissing and ErrHost, and never hold anything of the content.
func (s *Store) Get(name, host string) (Value, error) {
	f, err := s.load(name)
	if err != nil {
		return Value{}, fmt.Errorf("credential %q: %w", name, err)
	}
	if !f.hosts.allow(host) {
		return Value{}, fmt.Errorf("%w: %q may not be sent to %q: if it is meant for that host, add it to \"hosts:\" in %s:%d",
			ErrHost, name, host, s.path(name), f.line)
	}
	return f.value, nil
}

// Check says what is wrong with the files of credentials, for reporting at
// start what would otherwise be found at first use.
func (s *Store) Check(names []string) []error {
	var wrong []error
	for _, name := range names {
		if _, err := s.load(name); err != nil {
			wrong = append(wrong, fmt.Errorf("credential %q: %w", name, err))
		}
	}
	return wrong
}

// validName keeps names inside the directory.
var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

// load gives a credential's file, from memory when it is as it was.
func (s *Store) load(name string) (file, error) {
	if !validName.MatchString(name) {
		return file{}, errors.New("the name is not made of lower-case letters, digits, '.', '_' and '-', beginning with a letter or digit")
	}
	if s.dir == "" {
		return file{}, fmt.Errorf("%w: there is no directory of credentials: start with --credentials DIR, or as a systemd service with LoadCredential=", ErrMissing)
	}
	path := s.path(name)
	info, err := os.Stat(path)
	if err != nil {
		return file{}, explain(path, err)
	}
	s.mu.Lock()
	f, ok := s.files[name]
	s.mu.Unlock()
	if ok && f.stamp == stampOf(info) {
		return f, nil
	}
	if f, err = read(path); err != nil {
		return file{}, err
	}
	s.mu.Lock()
	s.files[name] = f
	s.mu.Unlock()
	return f, nil
}

func stampOf(info fs.FileInfo) stamp {
	st := info.Sys().(*syscall.Stat_t)
	return stamp{uint64(st.Dev), st.Ino, st.Size, st.Ctim}
}

// read reads and checks a file. It does not wait for a pipe's other end.
func read(path string) (file, error) {
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return file{}, explain(path, err)
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		return file{}, err
	}
	if err := checkAccess(path, info); err != nil {
		return file{}, err
	}
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return file{}, fmt.Errorf("%s: %w", path, err)
	}
	if len(b) > maxFile {
		return file{}, fmt.Errorf("%s: has more than %d bytes, which no password or key needs", path, maxFile)
	}
	f, err := parse(string(b))
	if err != nil {
		return file{}, fmt.Errorf("%s:%w", path, err)
	}
	f.stamp = stampOf(info)
	return f, nil
}

func explain(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: there is no file %s: make one of mode 0600 with the lines \"hosts: 192.0.2.0/24\", \"username: admin\", an empty one, and the secret", ErrMissing, path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: user id %d must be able to read it", err, os.Geteuid())
	}
	return err
}

// checkAccess refuses a file that others can read or replace. Read access of
// the group root is let pass: since version 254 systemd gives a service's user
// access by an ACL, whose mask shows as the group's bits (acl(5), systemd issue
// 29435).
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

// parse reads a credential file. Its errors begin with the line's number and
// hold nothing of the line, which may be a password in the wrong place.
func parse(text string) (file, error) {
	var f file
	var username string
	seen := map[string]bool{}
	for line := 1; ; line++ {
		head, rest, more := strings.Cut(text, "\n")
		text = rest
		head = strings.TrimSpace(head)
		if head == "" && more {
			break
		}
		key, value, ok := strings.Cut(head, ":")
		switch {
		case !more:
			return file{}, fmt.Errorf("%d: there is no empty line between the header and the secret", line)
		case !ok || key != "hosts" && key != "username":
			return file{}, fmt.Errorf("%d: is neither \"hosts: …\" nor \"username: …\"; the secret follows after an empty line", line)
		case seen[key]:
			return file{}, fmt.Errorf("%d: %q stands there twice", line, key)
		case key == "username":
			username = strings.TrimSpace(value)
		default:
			f.line = line
			if err := f.hosts.parse(value); err != nil {
				return file{}, fmt.Errorf("%d: %w", line, err)
			}
		}
		seen[key] = true
	}
	text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	switch {
	case f.hosts.empty():
		return file{}, errors.New("1: there is no \"hosts: …\" line that says where the secret may be sent")
	case text == "":
		return file{}, errors.New("1: there is no secret after the empty line")
	}
	f.value = New(username, text)
	return f, nil
}

// parse takes a list of hosts with commas or spaces between them.
func (h *hosts) parse(list string) error {
	items := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
	for i, item := range items {
		if err := h.add(item); err != nil {
			return fmt.Errorf("item %d of \"hosts\" %w", i+1, err)
		}
	}
	return nil
}
