package base

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
)

// obstacles are what an account can put into its home to keep Slipway from its keys.
var obstacles = map[string]func(s *fake){
	"the folder is a link": func(s *fake) {
		s.must(os.Rename(s.at("/home/ops/.ssh"), s.at("/home/ops/s")))
		s.must(os.Symlink("s", s.at("/home/ops/.ssh")))
	},
	"the folder is a file": func(s *fake) {
		s.must(os.RemoveAll(s.at("/home/ops/.ssh")))
		s.put("/home/ops/.ssh", "")
	},
	"the file is a link": func(s *fake) {
		s.must(os.Rename(s.at("/home/ops/.ssh/authorized_keys"), s.at("/home/ops/keys")))
		s.must(os.Symlink("../keys", s.at("/home/ops/.ssh/authorized_keys")))
	},
	"the file is a folder": func(s *fake) {
		s.must(os.Remove(s.at("/home/ops/.ssh/authorized_keys")))
		s.put("/home/ops/.ssh/authorized_keys/x", "")
	},
}

// No account keeps itself from being removed by what it puts in the place of its keys.
func TestObstaclesToARemoval(t *testing.T) {
	for name, lay := range obstacles {
		for _, way := range []string{"by the design", "out of the list"} {
			t.Run(name+", "+way, func(t *testing.T) {
				s := newFake(t)
				s.applies([]item.Item{account("ops", item.User{Keys: []string{keyA}, Password: hashA})})
				lay(s)
				if way == "by the design" {
					s.applies([]item.Item{noAccount("ops")})
				} else {
					s.applies(nil, "users.ops")
				}
				if strings.Contains(s.get("/etc/passwd"), "ops:") {
					t.Error("the account is still there")
				}
			})
		}
	}
}

// A key that left the design does not go on working because of such an obstacle, and it keeps
// neither the password nor anything else from being set.
func TestObstaclesToKeys(t *testing.T) {
	for name, lay := range obstacles {
		for _, keys := range [][]string{{keyB}, nil} {
			s := newFake(t)
			s.applies([]item.Item{account("ops", item.User{Keys: []string{keyA}})})
			lay(s)
			if have := s.observe("users.ops").Have["users.ops.keys"]; have == item.Keyring([]string{keyA}) {
				t.Errorf("%s: seen as designed", name)
			}
			_, _ = s.apply([]item.Item{account("ops", item.User{Keys: keys, Password: hashA})})
			if !strings.Contains(s.get("/etc/shadow"), "ops:"+hashA+":") {
				t.Errorf("%s: the password is not set", name)
			}
			// As sshd reads them.
			at, err := filepath.EvalSymlinks(s.at("/home/ops/.ssh/authorized_keys"))
			text, _ := os.ReadFile(at)
			if strings.Contains(string(text), parseKey(keyA)) {
				t.Errorf("%s: the old key still logs in: %v %q", name, err, text)
			}
			if name != "the file is a folder" {
				s.so(account("ops", item.User{Keys: keys}))
			}
		}
	}
}

// An account that is in use while it is removed expires at once. When the design has it again,
// it expires when it did before.
func TestAnAccountInUseExpires(t *testing.T) {
	expires := func(s *fake, name string) string {
		for _, r := range records(s.get("/etc/shadow"), 8) {
			if r[0] == name {
				return r[7]
			}
		}
		return "no such account"
	}
	for name, before := range map[string]string{"ops": "", "old": "21000"} {
		s := newFake(t)
		with := account(name, item.User{Groups: []string{"adm"}})
		s.applies([]item.Item{with})
		s.put("/etc/shadow", strings.ReplaceAll(s.get("/etc/shadow"), "old:!:19000:0:99999:7:::", "old:!:19000:0:99999:7::21000:"))
		s.busy = name
		for range 2 { // the second time it has expired already
			if err, _ := s.apply([]item.Item{noAccount(name)}); err == nil || !strings.Contains(err.Error(), "has expired") {
				t.Errorf("%s: %v", name, err)
			}
			if got := expires(s, name); got != "1" {
				t.Errorf("%s expires on %q", name, got)
			}
		}
		if have := s.observe("users." + name).Have["users."+name+".state"]; have != "expired, and not removed yet" {
			t.Errorf("%s: the state is %q", name, have)
		}
		s.applies([]item.Item{with})
		s.so(with)
		if got := expires(s, name); got != before {
			t.Errorf("%s expires on %q, and before on %q", name, got, before)
		}
		s.quiet([]item.Item{with})
	}
}

// A folder of root that an account moved to the place of its keys stays root's.
func TestAFolderOfRootInAHome(t *testing.T) {
	s := newFake(t)
	items := []item.Item{account("ops", item.User{Keys: []string{keyA}})}
	s.applies(items)
	s.must(os.RemoveAll(s.at("/home/ops/.ssh")))
	s.put("/home/ops/.ssh/backup", "root's")
	if err, _ := s.apply(items); err == nil || !strings.Contains(err.Error(), "/home/ops/.ssh belongs to the account number 0 and is not empty") {
		t.Error(err)
	}
	info, err := os.Stat(s.at("/home/ops/.ssh"))
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 || info.Mode().Perm() != 0o755 {
		t.Errorf("the folder is %v of %v: %v", info.Mode(), info.Sys().(*syscall.Stat_t).Uid, err)
	}
	s.must(os.Remove(s.at("/home/ops/.ssh/backup"))) // as a cut leaves it
	s.applies(items)
	s.so(items...)
}
