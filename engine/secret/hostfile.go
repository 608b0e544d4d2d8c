package secret

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

// Files of the bootstrap host say what runs there for a secret, and where a login is sent. Only
// their owner may change them. A merged line of the design cannot.

// readOwned reads a file that only its owner may change.
func readOwned(path string, owner uint32) (string, error) {
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) {
		return "", explain(path, err)
	}
	if err != nil {
		return "", err
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		return "", err
	}
	if err := ofOwnerAlone(path, info, owner); err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if len(b) > maxFile {
		return "", fmt.Errorf("%s: has more than %d bytes", path, maxFile)
	}
	return string(b), nil
}

// ofOwnerAlone refuses a file that anyone but its owner can change.
func ofOwnerAlone(path string, info fs.FileInfo, owner uint32) error {
	st := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: is not a regular file", path)
	case st.Uid != owner:
		return fmt.Errorf("%s: belongs to user id %d, who could change what runs here, or where secrets go: run chown root %s", path, st.Uid, path)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s: has mode %04o, so that others than root could change what runs here, or where secrets go: run chmod go-w %s", path, info.Mode().Perm(), path)
	}
	return nil
}

// eachSetting passes the lines "key: value" of a file to take, one by one, without comments and
// empty lines. take returns whether it knows the key; known names the keys that exist. Errors
// begin with the line's number.
func eachSetting(text, known string, take func(key, value string, line int) (bool, error)) error {
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

// within parses a duration such as "10s" and checks its limits.
func within(text string, least, most time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		return 0, fmt.Errorf("is not a time from %v to %v, such as 10s or 5m", least, most)
	}
	return d, nil
}
