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
)

// rootsSSH refuses files that others than root could change: whoever writes them decides who
// logs in, and sshd looks at the owner of some of them only.
func (j *job) rootsSSH() error {
	files, err := j.list(sshNames, "")
	if err != nil {
		return failed("%v", err)
	}
	return j.belongToRoot(append([]string{sshFiles, sshNames, sshSigners, sshRevoked, sshSettings}, files...))
}

// belongToRoot refuses those of the files that are there and that others than root could change.
func (j *job) belongToRoot(files []string) error {
	for _, path := range files {
		at, err := j.place(path)
		if err != nil {
			return failed("%v", err)
		}
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return failed("%v", err)
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || stat.Uid != 0 || info.Mode().Perm()&0o022 != 0 || !info.IsDir() && !info.Mode().IsRegular() {
			return refused("%s must be a file or folder of root that nobody else may write, since it decides who logs in: remove it, and Slipway makes it again", printable(path))
		}
	}
	return nil
}

// designedAt is the field of the design for which Slipway sets a setting.
var designedAt = map[string]string{
	"trustedusercakeys":        "system.ssh",
	"authorizedprincipalsfile": "system.ssh",
	"hostcertificate":          "site.ssh.hosts",
	"revokedkeys":              "site.ssh.revoked",
}

// setByOthers says that somebody else sets what the design asks for.
func setByOthers(file, name, value string) string {
	return fmt.Sprintf("%s sets %s to %s, and Slipway does not override it: remove that setting, or take %s out of the design",
		file, name, printable(value), designedAt[name])
}

// setElsewhere says which file other than ours sets one of the named settings, also where it does so
// for some logins behind a Match: our principals would hold for that authority's people, too, or
// theirs for ours.
func (j *job) setElsewhere(file string, depth int, names ...string) (string, error) {
	const deepest = 16 // as sshd has it
	if depth > deepest {
		return file + " is included too deeply: let the SSH server's settings include less", nil
	}
	text, _, err := j.read(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(strings.Replace(line, "=", " ", 1))
		if len(words) < 2 {
			continue
		}
		word := strings.ToLower(words[0])
		if slices.Contains(names, word) {
			return setByOthers("another file of the SSH server, "+printable(file)+",", word, words[1]), nil
		}
		if word != "include" {
			continue
		}
		for _, pattern := range words[1:] {
			if found, err := j.setByIncluded(strings.Trim(pattern, `"`), depth+1, names...); found != "" || err != nil {
				return found, err
			}
		}
	}
	return "", nil
}

// setByIncluded is setElsewhere for the files of a pattern.
func (j *job) setByIncluded(pattern string, depth int, names ...string) (string, error) {
	if !filepath.IsAbs(pattern) {
		pattern = "/etc/ssh/" + pattern
	}
	folder := filepath.Dir(pattern)
	if strings.ContainsAny(folder, "*?[") {
		return fmt.Sprintf("the SSH server includes %s, and Slipway does not look into folders by a pattern: name the folder", printable(pattern)), nil
	}
	files, err := j.list(folder, "")
	if err != nil {
		return "", err
	}
	for _, file := range files {
		if is, _ := filepath.Match(pattern, file); !is || file == sshSettings || file == sshHostSettings {
			continue
		}
		if found, err := j.setElsewhere(file, depth, names...); found != "" || err != nil {
			return found, err
		}
	}
	return "", nil
}
