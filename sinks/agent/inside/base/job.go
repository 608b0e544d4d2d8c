package base

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// job is one call: everything it reads and writes goes through it.
type job struct {
	*facet
	ctx context.Context
	h   *inside.Host
	// once are the accounts, onceSudo what cannotSudo says, and onceLeft the leftovers,
	// read at most once: for looking alone.
	once     func() (accounts, error)
	onceSudo func() string
	onceLeft func() []string
}

// maxFile bounds the files that are read, in bytes.
const maxFile = 16 << 20

// maxLinks bounds the symbolic links of one path, as the kernel does.
const maxLinks = 40

// place is where a path of the system is for us. Links in its folders are
// followed as the system follows them, and do not lead out of its root; the last
// part is not followed.
func (j *job) place(path string) (string, error) {
	todo := strings.Split(filepath.Clean("/"+path), "/")
	at := "/" // within the root
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		if part == "" || part == "." {
			continue
		}
		if part == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, part)
		if len(todo) == 0 {
			return j.h.Path(next), nil
		}
		target, err := os.Readlink(j.h.Path(next))
		if err != nil { // no link, or nothing there: the caller will see
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: too many symbolic links", path)
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return j.h.Path(at), nil
}

// follow is like place, and follows the last part too.
func (j *job) follow(path string) (string, error) {
	for range maxLinks {
		at, err := j.place(path)
		if err != nil {
			return "", err
		}
		target, err := os.Readlink(at)
		if err != nil {
			return at, nil
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return "", fmt.Errorf("%s: too many symbolic links", path)
}

// exists says whether a path leads to something.
func (j *job) exists(path string) bool {
	at, err := j.follow(path)
	if err != nil {
		return false
	}
	_, err = os.Lstat(at)
	return err == nil
}

// first is the first of some paths that is there, or empty.
func (j *job) first(paths ...string) string {
	for _, path := range paths {
		if j.exists(path) {
			return path
		}
	}
	return ""
}

// read reads a file; there is false where it is none.
func (j *job) read(path string) (text []byte, there bool, err error) {
	at, err := j.follow(path)
	if err != nil {
		return nil, false, err
	}
	f, err := os.OpenFile(at, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	text, err = readRegular(f, maxFile)
	return text, err == nil, err
}

// readRegular reads a file with at most so many bytes.
func readRegular(f *os.File, most int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", f.Name())
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes", f.Name(), most)
	}
	return text, err
}

// write gives a file its content and keeps its mode. It writes nothing that is so
// already.
func (j *job) write(path string, content []byte) error { return j.replace(path, content, 0o644, true) }

// put is like write, for a file that is all ours: its mode is ours too.
func (j *job) put(path string, content []byte, mode fs.FileMode) error {
	return j.replace(path, content, mode, false)
}

func (j *job) replace(path string, content []byte, mode fs.FileMode, keep bool) error {
	at, err := j.place(path)
	if err != nil {
		return err
	}
	info, err := os.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return refused("%s is not a regular file: make it one, or take it out of the design", path)
	default:
		if keep {
			mode = info.Mode().Perm()
		}
		present, err := os.ReadFile(at)
		if err == nil && bytes.Equal(present, content) && info.Mode().Perm() == mode {
			return nil
		}
	}
	j.step("write " + path)
	if err := inside.WriteFile(at, content, mode); err != nil {
		return failed("write %s: %v", path, err)
	}
	if info == nil {
		return j.label(path)
	}
	return nil
}

// label has SELinux know what is new at a path.
func (j *job) label(path string) error {
	if err := j.h.Label(path); err != nil {
		return failed("%v", err)
	}
	return nil
}

// delete removes a file that may not be there.
func (j *job) delete(path string) error {
	at, err := j.place(path)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	j.step("remove " + path)
	if err := os.Remove(at); err != nil {
		return failed("remove %s: %v", path, err)
	}
	return inside.SyncFolder(filepath.Dir(at))
}

// link puts a symbolic link in the place of what is there.
func (j *job) link(target, path string) error {
	at, err := j.place(path)
	if err != nil {
		return err
	}
	if present, err := os.Readlink(at); err == nil && present == target {
		return nil
	}
	j.step("link " + path)
	fresh := filepath.Join(filepath.Dir(at), ".slipway-link")
	_ = os.Remove(fresh) // left by a cut
	if err := os.Symlink(target, fresh); err != nil {
		return failed("link %s: %v", path, err)
	}
	if err := os.Rename(fresh, at); err != nil {
		_ = os.Remove(fresh)
		return failed("link %s: %v", path, err)
	}
	if err := j.label(path); err != nil {
		return err
	}
	return inside.SyncFolder(filepath.Dir(at))
}

// folder makes a folder that is not there, and says whether it did.
func (j *job) folder(path string) (made bool, err error) {
	at, err := j.place(path)
	if err != nil {
		return false, err
	}
	if _, err := os.Stat(at); err == nil {
		return false, nil
	}
	j.step("make " + path)
	if err := os.Mkdir(at, 0o755); err != nil {
		return false, failed("make %s: %v", path, err)
	}
	if err := j.label(path); err != nil {
		return true, err
	}
	return true, inside.SyncFolder(filepath.Dir(at))
}

// run runs a program that changes something.
func (j *job) run(c inside.Command) error {
	j.step("run " + c.Path)
	return j.check(c)
}

// check runs a program that changes nothing, or after its step was told.
func (j *job) check(c inside.Command) error {
	out, err := j.h.Exec(j.ctx, c)
	if err != nil {
		return failed("%v", err)
	}
	if out.Code == 0 {
		return nil
	}
	said := last(append(append(out.Out, '\n'), out.Err...))
	if strings.Contains(said, "cannot lock") || strings.Contains(said, "try again later") {
		return &wire.Error{Class: wire.Busy, Text: fmt.Sprintf("%s: the account files are locked by another program: %s", c.Path, said)}
	}
	return &exit{c.Path, out.Code, said}
}

// exit is how a program failed.
type exit struct {
	program string
	code    int
	said    string
}

func (e *exit) Error() string {
	if e.said == "" {
		return fmt.Sprintf("%s ended with %d and said nothing", e.program, e.code)
	}
	return fmt.Sprintf("%s ended with %d: %s", e.program, e.code, e.said)
}

// last are the last lines of what a program said, for people.
func last(text []byte) string {
	said := inside.Said(text)
	lines := strings.Split(strings.TrimSpace(said[max(0, len(said)-1000):]), "\n")
	return printable(strings.Join(lines[max(0, len(lines)-5):], "; "))
}

// printable puts a mark in the place of what a terminal would act on.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '·'
	}, text)
}

// service restarts a unit, where services run.
func (j *job) service(unit string) error {
	if !j.h.Live || unit == "" {
		return nil
	}
	if err := j.run(inside.Command{Path: "systemctl", Args: []string{"restart", "--", unit}}); err != nil {
		return failed("restart %s: %v. Look at it with `systemctl status %s`", unit, err, unit)
	}
	return nil
}

// entry reads what is known of an owned item.
func (j *job) entry(key string, before, made any) (ours bool) {
	if j.h.Owned == nil {
		return false
	}
	e, ours := j.h.Owned.Entry(name, key)
	if !ours {
		return false
	}
	decode(e.Before, before)
	decode(e.Made, made)
	return true
}

// decode leaves what it decodes into as it is where there is nothing to decode.
func decode(text json.RawMessage, into any) {
	if len(text) > 0 && into != nil {
		_ = json.Unmarshal(text, into) // we wrote it
	}
}

// take owns an item before its first write.
func (j *job) take(key string, before any) error {
	if _, ours := j.h.Owned.Entry(name, key); ours {
		return nil
	}
	text, err := json.Marshal(before)
	if err != nil {
		return err
	}
	j.step("own " + key)
	return j.h.Owned.Take(name, key, text)
}

// note keeps what is made of an owned item.
func (j *job) note(key string, made any) error {
	text, err := json.Marshal(made)
	if err != nil {
		return err
	}
	if e, ours := j.h.Owned.Entry(name, key); ours && same(e.Made, text) {
		return nil
	}
	j.step("note " + key)
	if err := j.h.Owned.Note(name, key, text); err != nil {
		return failed("%v", err)
	}
	return nil
}

// same compares two texts of JSON without their white space, which the list
// changes when it is written.
func same(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// drop forgets an item that is set back.
func (j *job) drop(key string) error {
	if _, ours := j.h.Owned.Entry(name, key); !ours {
		return nil
	}
	j.step("drop " + key)
	if err := j.h.Owned.Drop(name, key); err != nil {
		return failed("%v", err)
	}
	return nil
}
