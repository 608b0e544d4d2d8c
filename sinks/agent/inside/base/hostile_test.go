package base

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// On a full disk a file is whole, as it was or as it is to be, and the run is made
// good once there is room.
func TestFullDisk(t *testing.T) {
	s := newFake(t)
	s.applies(everything())
	if err := syscall.Mount("tmpfs", s.at("/mnt"), "tmpfs", 0, "size=1m"); errors.Is(err, os.ErrNotExist) {
		s.must(os.Mkdir(s.at("/mnt"), 0o755))
		if err := syscall.Mount("tmpfs", s.at("/mnt"), "tmpfs", 0, "size=1m"); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip("no file system may be mounted: ", err)
		}
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(s.at("/mnt"), syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	// The folders with what is written are on the small disk.
	for _, folder := range []string{"/etc", "/home", "/var"} {
		s.must(os.CopyFS(s.at("/mnt"+folder), os.DirFS(s.at(folder))))
		s.must(os.RemoveAll(s.at(folder)))
		s.must(os.Symlink("mnt"+folder, s.at(folder)))
	}
	s.put("/mnt/full", "")
	f, err := os.OpenFile(s.at("/mnt/full"), os.O_WRONLY, 0)
	s.must(err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	before := map[string]string{}
	for _, path := range []string{"/etc/hosts", "/etc/hostname", "/etc/chrony/chrony.conf", rsyslogFile, inside.Folder + "/owned.json"} {
		before[path] = s.get(path)
	}
	items := []item.Item{hostname("other"), hosts(item.Hosts{"10.9.9.9": {"x"}}), clockItem("", "10.9.9.9"), logs("udp://10.9.9.9")}
	err, _ = s.apply(items)
	var told *wire.Error
	if !errors.As(err, &told) || told.Class != wire.Failed || !strings.Contains(told.Text, "no space left") {
		t.Errorf("got %v", err)
	}
	for path, text := range before {
		if got := s.get(path); got != text {
			t.Errorf("%s is half of something: %q", path, got)
		}
	}
	if left, _ := filepath.Glob(s.at("/etc/.slipway*")); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
	s.must(os.Truncate(s.at("/mnt/full"), 0))
	s.applies(items)
	s.so(items...)
}

// Programs that say much, nothing, or do not end are told of in a few words.
func TestProgramsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		out  inside.Output
		want string
	}{
		"much":    {inside.Output{Code: 3, Out: []byte(strings.Repeat("x\n", 1<<20)), Err: []byte("the reason\x07")}, "the reason·"},
		"nothing": {inside.Output{Code: 3}, "said nothing"},
	} {
		s := newFake(t)
		s.exit["useradd"] = c.out
		err, _ := s.apply([]item.Item{account("ops", item.User{Keys: []string{keyA}})})
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 1500 {
			t.Errorf("%s: %v", name, err)
		}
		delete(s.exit, "useradd")
		s.applies([]item.Item{account("ops", item.User{Keys: []string{keyA}})})
		s.so(account("ops", item.User{Keys: []string{keyA}}))
	}
}

// A hash is in no error, not even where the program repeats its input.
func TestErrorsHaveNoHash(t *testing.T) {
	s := newFake(t)
	s.exit["chpasswd"] = inside.Output{Code: 1, Err: []byte("chpasswd: line 1: " + hashA)}
	err, _ := s.apply([]item.Item{account("ops", item.User{Password: hashA})})
	if err == nil || strings.Contains(err.Error(), hashA) || !strings.Contains(err.Error(), "[redacted]") {
		t.Errorf("got %v", err)
	}
}

// What is read of a system is bounded, and a pipe does not hold it up.
func TestFilesThatAreNone(t *testing.T) {
	s := newFake(t)
	s.applies([]item.Item{account("ops", item.User{Keys: []string{keyA}})})
	s.must(os.Remove(s.at("/home/ops/.ssh/authorized_keys")))
	s.must(syscall.Mkfifo(s.at("/home/ops/.ssh/authorized_keys"), 0o600))
	s.must(os.Remove(s.at("/etc/hostname")))
	s.must(syscall.Mkfifo(s.at("/etc/hostname"), 0o600))
	seen := s.observePipes("users.ops", "hostname")
	if !strings.Contains(seen.Unread["users.ops.keys"], "not a regular file") || !strings.Contains(seen.Unread["hostname"], "not a regular file") {
		t.Errorf("unread: %v", seen.Unread)
	}
	s.must(os.Remove(s.at("/etc/hostname")))
	f, err := os.Create(s.at("/etc/hostname"))
	s.must(err)
	s.must(f.Truncate(maxFile + 1))
	s.must(f.Close())
	if seen := s.observePipes("hostname"); !strings.Contains(seen.Unread["hostname"], "more than") {
		t.Errorf("unread: %v", seen.Unread)
	}
}

func (s *fake) observePipes(keys ...string) inside.Seen {
	s.t.Helper()
	seen, err := s.facet().Observe(s.t.Context(), s.host(), keys)
	s.must(err)
	return seen
}

// BenchmarkObserve is the look at a host with many accounts.
func BenchmarkObserve(b *testing.B) {
	s := newFake(b)
	items := []item.Item{hostname("n"), hosts(item.Hosts{"10.0.0.1": {"x"}}), clockItem("Europe/Zurich", "10.0.0.1"), logs("udp://10.0.0.5")}
	for n := range 50 {
		items = append(items, account(fmt.Sprintf("user%d", n), item.User{Keys: []string{keyA, keyB}, Groups: []string{"adm"}, Sudo: true}))
	}
	s.applies(items)
	h, f, keys := s.host(), s.facet(), item.Keys(items)
	for b.Loop() {
		if _, err := f.Observe(b.Context(), h, keys); err != nil {
			b.Fatal(err)
		}
	}
}
