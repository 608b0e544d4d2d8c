package hostfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.conf")
	me := uint32(os.Geteuid())
	if _, err := Read(path, me, 10, "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	if err := os.WriteFile(path, []byte("a: b\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if text, err := Read(path, me, 10, "x"); err != nil || text != "a: b\n" {
		t.Errorf("got %q, %v", text, err)
	}
	for says, read := range map[string]func() error{
		"has more than 4 bytes":                func() error { _, err := Read(path, me, 4, "x"); return err },
		"who could change what runs here: run": func() error { _, err := Read(path, me+1, 10, "what runs here"); return err },
		"is not a regular file":                func() error { _, err := Read(filepath.Dir(path), me, 10, "x"); return err },
		"others than root could change it: run": func() error {
			err := os.Chmod(path, 0o664)
			_, rerr := Read(path, me, 10, "it")
			return errors.Join(err, rerr)
		},
	} {
		if err := read(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEachSetting(t *testing.T) {
	var got []string
	take := func(key, value string, _ int) (bool, error) {
		got = append(got, key+"="+value)
		return key != "c", nil
	}
	if err := EachSetting("# one\n\n a: b:c \n", "a", take); err != nil || strings.Join(got, " ") != "a=b:c" {
		t.Errorf("got %v, %v", got, err)
	}
	for text, says := range map[string]string{"\nc: 1": "2: is none of the lines that belong here: they begin with a, each with a colon", "a": "1: is none"} {
		if err := EachSetting(text, "a", take); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

func TestWithin(t *testing.T) {
	for text, right := range map[string]bool{"10s": true, "1s": true, "1m": true, "0": false, "61s": false, "-1s": false, "x": false, "": false} {
		if _, err := Within(text, time.Second, time.Minute); (err == nil) != right {
			t.Errorf("%q: %v", text, err)
		}
	}
}
