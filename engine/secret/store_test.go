package secret

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const good = "hosts: 192.0.2.0/24, bmc-1.example.org\nuse: redfish\nusername: admin\n\n" + canary + "\n"

// write puts a credential file into a directory as a rotation would.
func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ask is what a Redfish driver asks for.
func ask(name, host string) Request { return Request{Name: name, Use: Redfish, Host: host, Port: 443} }

func TestGet(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "bmc", good)
	write(t, dir, "key", "hosts: *.example.org\n\n-----BEGIN KEY-----\nx: y\n\nz\n-----END KEY-----\n\n")
	write(t, dir, "dos", "hosts: a, b\r\nusername: u\r\n\r\nword\r\n")
	s := open(t, dir)
	for _, c := range []struct{ name, host, username, secret string }{
		{"bmc", "192.0.2.7", "admin", canary},
		{"key", "a.example.org", "", "-----BEGIN KEY-----\nx: y\n\nz\n-----END KEY-----\n"},
		{"dos", "b", "u", "word"},
	} {
		v, err := s.Get(ask(c.name, c.host))
		if err != nil {
			t.Fatal(err)
		}
		if v.Username() != c.username || v.Reveal() != c.secret {
			t.Errorf("%s: got %q %q, want %q %q", c.name, v.Username(), v.Reveal(), c.username, c.secret)
		}
	}
}

func TestGetRefusesOtherHosts(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "bmc", good)
	_, err := open(t, dir).Get(ask("bmc", "198.51.100.9"))
	if !errors.Is(err, ErrHost) {
		t.Fatalf("got %v, want ErrHost", err)
	}
	for _, want := range []string{`"bmc"`, `"198.51.100.9"`, path + ":1"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %s", err, want)
		}
	}
}

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		list, host string
		want       bool
	}{
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"192.0.2.5/24", "192.0.2.200", true},
		{"192.0.2.0/24", "192.0.3.0", false},
		{"2001:db8::/32", "2001:DB8:1::1", true},
		{"fe80::1", "fe80::1%eth0", true},
		{"bmc.example.org", "BMC.example.org.", true},
		{"bmc.example.org", "xbmc.example.org", false},
		{"bmc.example.org", "bmc.example.org.evil.test", false},
		{"*.example.org", "a.b.example.org", true},
		{"*.example.org", "example.org", false},
		{"*.example.org", ".example.org", false},
		{"*.example.org", "aexample.org", false},
		{"*.1", "192.0.2.1", false},
		{"127.0.0.0/8", "127.1", false}, // a name to Go, an address to libc
		{"192.0.2.0/24", "", false},
	} {
		var h hosts
		if err := h.parse(c.list); err != nil {
			t.Fatalf("%s: %v", c.list, err)
		}
		if got := h.allow(c.host); got != c.want {
			t.Errorf("%q allows %q: got %v, want %v", c.list, c.host, got, c.want)
		}
	}
	for _, bad := range []string{"*", "*.", "a.*.b", "192.0.2.0/40", "https://a", "a:443", "ä.example.org", "-"} {
		var h hosts
		if err := h.parse(bad); err == nil {
			t.Errorf("%q is taken as a host", bad)
		}
	}
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "bmc", good)
	s := open(t, dir)
	first, err := s.Get(ask("bmc", "192.0.2.7"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "bmc", strings.Replace(good, canary, "other2-canary", 1)) // of the same length
	second, err := s.Get(ask("bmc", "192.0.2.7"))
	if err != nil {
		t.Fatal(err)
	}
	if first == second || second.Reveal() != "other2-canary" {
		t.Errorf("the changed file was not read again")
	}
	if err := os.Remove(filepath.Join(dir, "bmc")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(ask("bmc", "192.0.2.7")); !errors.Is(err, ErrMissing) {
		t.Errorf("got %v, want ErrMissing", err)
	}
}

// TestBadFiles shows what is said of each, and that nothing of the content is.
func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ content, want string }{
		"bare":      {canary, "no empty line"},
		"bareline":  {canary + "\n", "none of \"hosts: …\""},
		"colon":     {canary + ": x\n\ny\n", "none of \"hosts: …\""},
		"nohosts":   {"username: admin\n\n" + canary, "no \"hosts: …\" line"},
		"emptyhost": {"hosts: ,\n\n" + canary, "no \"hosts: …\" line"},
		"twice":     {"hosts: a\nhosts: b\n\n" + canary, "is given twice"},
		"badhost":   {"hosts: a, " + canary + "!\n\nx", "item 2 of \"hosts\""},
		"baduse":    {"hosts: a\nuse: redfish, " + canary + "\n\nx", "item 2 of \"use\""},
		"nouse":     {"hosts: a\nuse:\n\n" + canary, "\"use:\" line is empty"},
		"badport":   {"hosts: a\nports: 443 " + canary + "\n\nx", "item 2 of \"ports\""},
		"largeport": {"hosts: a\nports: 65536\n\n" + canary, "item 1 of \"ports\""},
		"zeroport":  {"hosts: a\nports: 0-9\n\n" + canary, "item 1 of \"ports\""},
		"backwards": {"hosts: a\nports: 9-8\n\n" + canary, "item 1 of \"ports\""},
		"noport":    {"hosts: a\nports: ,\n\n" + canary, "\"ports:\" line is empty"},
		"nocolon":   {"hosts: a\nusername\n\n" + canary, "none of \"hosts: …\""},
		"nosecret":  {"hosts: a\nusername: " + canary + "\n\n\n", "no secret"},
		"large":     {"hosts: a\n\n" + strings.Repeat(canary, 10_000), "more than 65536 bytes"},
	} {
		path := write(t, dir, name, c.content)
		_, err := open(t, dir).Get(ask(name, "a"))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %q and the path", name, err, c.want)
		} else if strings.Contains(err.Error(), canary) {
			t.Errorf("%s: the content shows in %v", name, err)
		}
	}
}

func TestAccess(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "bmc", good)
	s := open(t, dir)
	for _, mode := range []os.FileMode{0o644, 0o660, 0o604, 0o602} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(ask("bmc", "192.0.2.7")); err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("mode %o: got %v, want the command to run", mode, err)
		}
	}
	for _, mode := range []os.FileMode{0o600, 0o400} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(ask("bmc", "192.0.2.7")); err != nil {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}

// TestCheckAccess goes through owners and groups that only root could make.
func TestCheckAccess(t *testing.T) {
	me := uint32(os.Geteuid())
	for _, c := range []struct {
		mode     os.FileMode
		uid, gid uint32
		want     string
	}{
		{0o440, 0, 0, ""}, // as systemd with an ACL
		{0o440, 0, 7, "chmod 600"},
		{0o460, 0, 0, "chmod 600"},
		{0o600, me, 7, ""},
		{0o600, me + 1, 7, "chown"},
		{0o600 | os.ModeNamedPipe, me, 7, "not a regular file"},
		{0o700 | os.ModeDir, me, 7, "not a regular file"},
	} {
		info := fakeInfo{mode: c.mode, st: syscall.Stat_t{Uid: c.uid, Gid: c.gid}}
		err := checkAccess("f", info)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v of %d:%d: got %v, want %q", c.mode, c.uid, c.gid, err, c.want)
		}
	}
}

type fakeInfo struct {
	os.FileInfo
	mode os.FileMode
	st   syscall.Stat_t
}

func (f fakeInfo) Mode() os.FileMode { return f.mode }
func (f fakeInfo) Sys() any          { return &f.st }

func TestPipeDoesNotHang(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, dir).Get(ask("pipe", "a")); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("got %v, want that it is not a regular file", err)
	}
}

func TestNames(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "bmc", good)
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := open(t, filepath.Join(dir, "sub"))
	for _, name := range []string{"", "../bmc", "..", ".hidden", "a/b", "BMC", "a b", strings.Repeat("a", 200)} {
		if _, err := s.Get(ask(name, "192.0.2.7")); err == nil || !strings.Contains(err.Error(), "lower-case letters") {
			t.Errorf("%q: got %v, want that the name is refused", name, err)
		}
	}
}

func TestMissingSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	_, err := open(t, dir).Get(ask("os", "a"))
	if !errors.Is(err, ErrMissing) {
		t.Fatalf("got %v, want ErrMissing", err)
	}
	for _, want := range []string{`"os"`, filepath.Join(dir, "os"), "hosts: 192.0.2.0/24", "use: redfish", "0600"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %s", err, want)
		}
	}
}

// A folder that systemd hands over has "credentials_" before each name.
func TestFolderThatSystemdHandsOver(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "credentials_bmc", good)
	v, err := open(t, dir).Get(ask("bmc", "192.0.2.7"))
	if err != nil || v.Reveal() != canary {
		t.Errorf("a file from the folder: %v", err)
	}
	write(t, dir, "bmc", "hosts: 192.0.2.0/24\nuse: redfish\n\nplain\n")
	if v, err = open(t, dir).Get(ask("bmc", "192.0.2.7")); err != nil || v.Reveal() != "plain" {
		t.Errorf("a file of the plain name comes first: %v", err)
	}
	err = explain("/run/credentials/slipway.service/os", os.ErrNotExist)
	for _, want := range []string{"no file os", "/etc/slipway/credentials/os", "restart the service"} {
		if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %s", err, want)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "bmc", good)
	for _, bad := range []string{path, filepath.Join(dir, "missing")} {
		if _, err := Open(bad); err == nil || !strings.Contains(err.Error(), "a file per credential") {
			t.Errorf("%s: got %v, want what to do", bad, err)
		}
	}
	if _, err := open(t, "").Get(ask("bmc", "a")); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "--credentials DIR") {
		t.Errorf("got %v, want ErrMissing and the flag", err)
	}
}

// FuzzParse holds that no error shows the content, and that whatever has a
// header gives its secret back.
func FuzzParse(f *testing.F) {
	f.Add("hosts: 192.0.2.0/24\nusername: admin\n\n", "\n")
	f.Add("hosts: a, *.b\n", "\n\nx")
	f.Add("", ": x\n\ny")
	f.Add("hosts: \xff\r\n\r\n", "\r\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		got, err := parse(before + canary + after)
		switch {
		case err != nil && strings.Contains(err.Error(), canary):
			t.Errorf("the content shows in %v", err)
		case err == nil && (got.hosts.empty() || got.value.Reveal() == ""):
			t.Errorf("%q gives a credential without hosts or secret", before+canary+after)
		}
		got, err = parse("hosts: a\n\n" + before + canary + "\n")
		if err != nil || got.value.Reveal() != before+canary {
			t.Errorf("got %q %v, want the secret as written", got.value.Reveal(), err)
		}
	})
}
