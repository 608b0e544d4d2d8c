package base

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// keyTypes begin the public keys of OpenSSH.
var keyTypes = []string{"ssh-", "ecdsa-", "sk-ssh-", "sk-ecdsa-"}

// parseKey is a line of authorized_keys in a form to compare by: options, type
// and key, without the comment. It is empty for a line that is no key. A key with
// options is another than the one without.
func parseKey(line string) string {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return ""
	}
	options := ""
	first, rest := cutWord(line)
	if !isKeyType(first) {
		options = strings.Join(strings.Fields(first), "_") + ";"
		first, rest = cutWord(rest)
	}
	key, _ := cutWord(rest)
	if !isKeyType(first) || key == "" || strings.Contains(key, `"`) {
		return ""
	}
	return options + first + " " + key
}

func isKeyType(word string) bool {
	return slices.ContainsFunc(keyTypes, func(t string) bool { return strings.HasPrefix(word, t) }) && !strings.ContainsAny(word, `"=,`)
}

// cutWord cuts a line after its first word; white space within quotes belongs to
// it.
func cutWord(line string) (word, rest string) {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quoted && i+1 < len(line):
			i++
		case c == '"':
			quoted = !quoted
		case (c == ' ' || c == '\t') && !quoted:
			return line[:i], strings.TrimLeft(line[i:], " \t")
		}
	}
	return line, ""
}

// parseKeys are the keys in some texts, in their order, each once.
func parseKeys(texts ...string) (all []string) {
	for _, text := range texts {
		for line := range strings.Lines(text) {
			if k := parseKey(line); k != "" && !slices.Contains(all, k) {
				all = append(all, k)
			}
		}
	}
	return all
}

// ring is the file of the keys that may log in to an account.
type ring struct {
	text  string
	there bool
	// second is the text of a further file, which is nobody's but the account's.
	second string
	// unsafe says why sshd does not read the file.
	unsafe string
}

// all are the keys of both files, in their order, each once.
func (r ring) all() []string { return parseKeys(r.text, r.second) }

const (
	sshFolder = ".ssh"
	keysFile  = "authorized_keys"
	maxKeys   = 1 << 20
	// secondFile is read by sshd beside the first (sshd_config(5), AuthorizedKeysFile).
	secondFile = "authorized_keys2"
)

// home opens the home folder of an account. What is below it belongs to somebody
// who may put links there: os.Root keeps to the folder.
func (j *job) home(l login) (*os.Root, error) {
	if l.home == "" || l.home == "/" || !filepath.IsAbs(l.home) {
		return nil, refused("the account %s has no home folder of its own: its keys have no place", l.name)
	}
	at, err := j.place(l.home)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(at)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, refused("the home folder %s of the account %s is not a folder", l.home, l.name)
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		return nil, err
	}
	if opened, err := root.Stat("."); err != nil || !os.SameFile(info, opened) {
		root.Close()
		return nil, failed("the home folder %s was replaced meanwhile", l.home)
	}
	return root, nil
}

// sshHome opens the folder of the keys in a home folder.
func sshHome(l login, home *os.Root) (*os.Root, error) {
	info, err := home.Lstat(sshFolder)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, misplacedAt("%s/%s is not a folder: remove it", l.home, sshFolder)
	}
	return home.OpenRoot(sshFolder)
}

// misplaced is the error for keys in a place that Slipway does not read, and that sshd may.
type misplaced struct{ told *wire.Error }

func misplacedAt(format string, args ...any) error {
	return &misplaced{&wire.Error{Class: wire.Refused, Text: fmt.Sprintf(format, args...)}}
}

func (m *misplaced) Error() string { return m.told.Error() }

func (m *misplaced) Unwrap() error { return m.told }

// clearWay removes a link, or what else is no folder, in the place of the folder of keys: an
// account of ours has put it there, where sshd may follow it to keys that nobody designed.
func (j *job) clearWay(l login, home *os.Root) error {
	if info, err := home.Lstat(sshFolder); err != nil || info.IsDir() {
		return nil
	}
	j.step("remove " + l.home + "/" + sshFolder)
	if err := home.Remove(sshFolder); err != nil {
		return failed("remove %s/%s: %v", l.home, sshFolder, err)
	}
	return nil
}

// keys reads the keys of an account.
func (j *job) keys(l login) (r ring, err error) {
	if l.home == "" || l.home == "/" {
		return r, nil // an account of the system
	}
	home, err := j.home(l)
	if absent(err) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	defer home.Close()
	ssh, err := sshHome(l, home)
	if absent(err) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	defer ssh.Close()
	if second, err := openKeys(l, ssh, secondFile); !absent(err) {
		if err != nil {
			return r, err
		}
		text, err := readRegular(second, maxKeys)
		second.Close()
		if err != nil {
			return r, err
		}
		r.second = string(text)
	}
	f, err := openKeys(l, ssh, keysFile)
	if absent(err) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	defer f.Close()
	text, err := readRegular(f, maxKeys)
	if err != nil {
		return r, err
	}
	r.text, r.there = string(text), true
	for _, part := range []struct {
		path string
		stat func() (fs.FileInfo, error)
	}{
		{l.home, func() (fs.FileInfo, error) { return home.Stat(".") }},
		{l.home + "/" + sshFolder, func() (fs.FileInfo, error) { return ssh.Stat(".") }},
		{l.home + "/" + sshFolder + "/" + keysFile, f.Stat},
	} {
		if info, err := part.stat(); err == nil && r.unsafe == "" {
			r.unsafe = strict(l, part.path, info)
		}
	}
	return r, nil
}

// openKeys opens a file of keys. A link is followed within the folder.
func openKeys(l login, ssh *os.Root, name string) (*os.File, error) {
	f, err := ssh.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err == nil || absent(err) {
		return f, err
	}
	if info, _ := ssh.Lstat(name); info != nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, misplacedAt("%s/%s/%s is a link that leads out of its folder: remove it", l.home, sshFolder, name)
	}
	return nil, err
}

func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// strict says why sshd refuses to read keys at a place (StrictModes): others than
// the account and root may write there.
func strict(l login, path string, info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Sprintf("sshd does not read them: %s may be written by others", printable(path))
	case ok && stat.Uid != 0 && int(stat.Uid) != l.uid:
		return fmt.Sprintf("sshd does not read them: %s belongs to the account number %d", printable(path), stat.Uid)
	}
	return ""
}

// writeKeys writes the keys of an account so that sshd reads them. Its home folder
// is put in order only where Slipway made it, and then it has no second file of keys.
func (j *job) writeKeys(l login, text string, ours bool) error {
	if ours {
		if err := j.makeHome(l); err != nil {
			return err
		}
	}
	home, err := j.home(l)
	if absent(err) {
		return refused("the account %s has no folder %s: make it, or take its keys out of the design", l.name, l.home)
	}
	if err != nil {
		return err
	}
	defer home.Close()
	if err := j.orderHome(l, home, ours); err != nil {
		return err
	}
	if ours {
		if err := j.clearWay(l, home); err != nil {
			return err
		}
	}
	if _, err := home.Lstat(sshFolder); errors.Is(err, fs.ErrNotExist) {
		j.step("make " + l.home + "/" + sshFolder)
		if err := home.Mkdir(sshFolder, 0o700); err != nil {
			return failed("make %s/%s: %v", l.home, sshFolder, err)
		}
	}
	ssh, err := sshHome(l, home)
	if err != nil {
		return err
	}
	defer ssh.Close()
	if err := j.notMoved(l, ssh); err != nil {
		return err
	}
	if err := j.order(l, ssh, l.home+"/"+sshFolder, 0o700); err != nil {
		return err
	}
	if err := j.writeRing(l, ssh, text); err != nil || !ours {
		return err
	}
	return j.removeRing(l, ssh, secondFile)
}

// removeRing removes a file of keys, if it is there. A folder of that name stays: sshd reads no
// keys from it.
func (j *job) removeRing(l login, ssh *os.Root, name string) error {
	if info, err := ssh.Lstat(name); err != nil || info.IsDir() {
		return nil
	}
	j.step("remove " + l.home + "/" + sshFolder + "/" + name)
	if err := ssh.Remove(name); err != nil {
		return failed("remove the keys of %s: %v", l.name, err)
	}
	return nil
}

// makeHome makes the home folder that an account lacks when useradd was cut off.
func (j *job) makeHome(l login) error {
	at, err := j.place(l.home)
	if err != nil {
		return failed("%v", err)
	}
	if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	j.step("make " + l.home)
	if err := os.Mkdir(at, 0o700); err != nil {
		return failed("make %s: %v", l.home, err)
	}
	if err := os.Lchown(at, l.uid, l.gid); err != nil {
		return failed("give %s to %s: %v", l.home, l.name, err)
	}
	return nil
}

func (j *job) orderHome(l login, home *os.Root, ours bool) error {
	info, err := home.Stat(".")
	if err != nil {
		return failed("%v", err)
	}
	wrong := strict(l, l.home, info)
	switch {
	case wrong == "":
		return nil
	case !ours:
		return refused("the keys of %s: %s. Put this right on the machine", l.name, wrong)
	}
	return j.order(l, home, l.home, info.Mode().Perm()&^0o022)
}

// notMoved refuses a folder of keys that is somebody else's and has something in it: the
// account may have moved it there, to be given what it may not change. A cut leaves an empty one.
func (j *job) notMoved(l login, ssh *os.Root) error {
	f, err := ssh.Open(".")
	if err != nil {
		return failed("%v", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return failed("%v", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if names, _ := f.Readdirnames(1); ok && int(stat.Uid) != l.uid && len(names) > 0 {
		return refused("%s/%s belongs to the account number %d and is not empty: Slipway does not give it to %s. Move it away", l.home, sshFolder, stat.Uid, l.name)
	}
	return nil
}

// order gives a folder to an account, if it is not so already.
func (j *job) order(l login, folder *os.Root, path string, mode fs.FileMode) error {
	f, err := folder.Open(".")
	if err != nil {
		return failed("%v", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return failed("%v", err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) == l.uid && info.Mode().Perm()&0o022 == 0 {
		return nil
	}
	j.step("give " + path + " to " + l.name)
	if err := f.Chown(l.uid, l.gid); err != nil {
		return failed("give %s to %s: %v", path, l.name, err)
	}
	if err := f.Chmod(mode); err != nil {
		return failed("set the mode of %s: %v", path, err)
	}
	return nil
}

// writeRing puts the file of keys in place, whole or not at all.
func (j *job) writeRing(l login, ssh *os.Root, text string) (err error) {
	const fresh = ".slipway-keys"
	j.step("write " + l.home + "/" + sshFolder + "/" + keysFile)
	defer func() {
		if err != nil {
			_ = ssh.Remove(fresh)
			err = failed("write the keys of %s: %v", l.name, err)
		}
	}()
	_ = ssh.Remove(fresh) // left by a cut
	f, err := ssh.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.WriteString(text); err == nil {
		err = f.Chown(l.uid, l.gid)
	}
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = ssh.Rename(fresh, keysFile)
	}
	if err != nil {
		return err
	}
	return j.labelKeys(l)
}

// labelKeys has SELinux know the files of keys, where it runs.
func (j *job) labelKeys(l login) error {
	if !j.h.HasSELinux() || j.first("/usr/sbin/restorecon", "/sbin/restorecon") == "" {
		return nil
	}
	return j.check(inside.Command{Path: "restorecon", Args: []string{"-R", "--", l.home + "/" + sshFolder}})
}

// removeKeys removes the file of keys of an account, the second one too where Slipway
// made the account, and its folder unless something else is in it.
func (j *job) removeKeys(l login, ours bool) error {
	home, err := j.home(l)
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer home.Close()
	if ours {
		if err := j.clearWay(l, home); err != nil {
			return err
		}
	}
	ssh, err := sshHome(l, home)
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer ssh.Close()
	if err := j.removeRing(l, ssh, keysFile); err != nil {
		return err
	}
	if ours {
		if err := j.removeRing(l, ssh, secondFile); err != nil {
			return err
		}
	}
	f, err := ssh.Open(".")
	if err != nil {
		return failed("%v", err)
	}
	defer f.Close()
	if rest, err := f.ReadDir(1); err == nil || len(rest) > 0 {
		return nil
	}
	j.step("remove " + l.home + "/" + sshFolder)
	if err := home.Remove(sshFolder); err != nil {
		return failed("remove %s/%s: %v", l.home, sshFolder, err)
	}
	return nil
}
