// Package hostfile reads files of the bootstrap host that decide what runs there, where logins are
// sent and who may give orders. Only their owner may change them: a merged line of the design never
// does.
package hostfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

// Read reads a file of at most so many bytes that only its owner may change. The error says what
// others could change otherwise, such as "what runs here"; it wraps fs.ErrNotExist and
// fs.ErrPermission.
func Read(path string, owner uint32, most int64, what string) (string, error) {
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		return "", err
	}
	if err := OfOwnerAlone(path, info, owner, what); err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if int64(len(b)) > most {
		return "", fmt.Errorf("%s: has more than %d bytes", path, most)
	}
	return string(b), nil
}

// OfOwnerAlone refuses a file that others than its owner could change.
func OfOwnerAlone(path string, info fs.FileInfo, owner uint32, what string) error {
	st := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: is not a regular file", path)
	case st.Uid != owner:
		return fmt.Errorf("%s: belongs to user id %d, who could change %s: run chown root %s", path, st.Uid, what, path)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s: has mode %04o, so that others than root could change %s: run chmod go-w %s", path, info.Mode().Perm(), what, path)
	}
	return nil
}

// EachSetting gives the lines "key: value" of a file one by one, without comments and empty lines.
// What takes them says whether it knows the key; known names those that there are. Errors begin
// with the line's number.
func EachSetting(text, known string, take func(key, value string, line int) (bool, error)) error {
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		isKnown, err := take(key, strings.TrimSpace(value), i+1)
		if err == nil && !(ok && isKnown) {
			err = errors.New("is none of the lines that belong here: they begin with " + known + ", each with a colon")
		}
		if err != nil {
			return fmt.Errorf("%d: %w", i+1, err)
		}
	}
	return nil
}

// Within reads a time such as "10s" that has bounds.
func Within(text string, least, most time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		return 0, fmt.Errorf("is not a time from %v to %v, such as 10s or 5m", least, most)
	}
	return d, nil
}
