package base

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// In an account that Slipway made, a key or a group that somebody added is drift,
// and is taken away.
func TestForeignKeyInOwnAccount(t *testing.T) {
	s := newFake(t)
	items := []item.Item{account("ops", item.User{Keys: []string{keyA}, Groups: []string{"adm"}})}
	s.applies(items)
	s.put("/home/ops/.ssh/authorized_keys", keyA+"\n"+keyC+"\n")
	_, _ = s.usermod("ops", map[string]string{"--groups": "adm,sudo"})
	seen := s.observe("users.ops")
	if seen.Have["users.ops.keys"] != item.Keyring([]string{keyA, keyC}) || seen.Have["users.ops.groups"] != "adm, sudo" {
		t.Errorf("the drift is not seen: %v", seen.Have)
	}
	s.applies(items)
	s.so(items...)
	if text := s.get("/home/ops/.ssh/authorized_keys"); strings.Contains(text, "carl") {
		t.Errorf("the foreign key is left: %q", text)
	}
}

// A usermod that was killed between its two files is run again.
func TestGroupsInBothFiles(t *testing.T) {
	s := newFake(t)
	s.put("/etc/gshadow", "adm:*::\nsudo:*::\n")
	s.applies([]item.Item{account("ops", item.User{Groups: []string{"adm", "sudo"}})})
	s.cutGroups = true
	items := []item.Item{account("ops", item.User{Groups: []string{"adm"}})}
	if err, _ := s.apply(items); err == nil {
		t.Fatal("it was not killed")
	}
	s.cutGroups = false
	if text := s.get("/etc/gshadow"); !strings.Contains(text, "sudo:*::ops") {
		t.Fatalf("there is nothing to mend: %q", text)
	}
	s.applies(items)
	if text := s.get("/etc/gshadow"); text != "adm:*::ops\nsudo:*::\nops:!::\n" {
		t.Errorf("gshadow has %q", text)
	}
}

// A userdel that was killed between two of its files is ended: else the groups, the password
// and the numbers of the account would be those of the next one of its name.
func TestRemovalThatWasCut(t *testing.T) {
	with := []item.Item{account("ops", item.User{Groups: []string{"adm", "sudo"}, UID: number(1500)})}
	for name, then := range map[string]func(s *fake) error{
		"by the design":   func(s *fake) error { err, _ := s.apply([]item.Item{noAccount("ops")}); return err },
		"out of the list": func(s *fake) error { err, _ := s.apply(nil, "users.ops"); return err },
		"and made again":  func(s *fake) error { err, _ := s.apply(with); return err },
	} {
		for cutAt := 1; cutAt < 5; cutAt++ {
			s := newFake(t)
			s.put("/etc/gshadow", "adm:*::\nsudo:*::\nops:!::\n")
			s.put("/etc/subuid", "ops:100000:65536\n")
			before := map[string]string{}
			s.applies(with)
			for _, file := range []string{"/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/subuid"} {
				before[file] = s.get(file)
			}
			s.cutAt = cutAt
			gone := []item.Item{noAccount("ops")}
			var err error
			if name == "by the design" {
				err, _ = s.apply(gone)
			} else {
				err, _ = s.apply(nil, "users.ops")
			}
			if err == nil {
				t.Fatal("it was not killed")
			}
			if have := s.observe("users.ops").Have["users.ops.state"]; have != "half removed" {
				t.Errorf("%s, cut after %d files: the state is %q", name, cutAt, have)
			}
			s.cutAt = 0
			if err := then(s); err != nil {
				t.Fatalf("%s, cut after %d files: %v", name, cutAt, err)
			}
			if name == "and made again" {
				s.so(with...)
				continue
			}
			for file, text := range before {
				if is := s.get(file); strings.Contains(is, "ops") || text == is {
					t.Errorf("%s, cut after %d files: %s is\n%s", name, cutAt, file, is)
				}
			}
			if have := s.observe("users.ops").Have["users.ops.state"]; have != item.Absent {
				t.Errorf("the state is %q", have)
			}
		}
	}
}

// A useradd that was killed between two files leaves an account without its group or its numbers
// for containers. It is made anew, with the number that owns its home by then.
func TestCreationThatWasCut(t *testing.T) {
	files := []string{"/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/subuid"}
	for _, user := range []item.User{{Groups: []string{"adm"}, UID: number(1500)}, {Groups: []string{"adm"}}} {
		with := []item.Item{account("ops", user)}
		fresh := func() *fake {
			s := newFake(t)
			s.put("/etc/gshadow", "adm:*::\nsudo:*::\n")
			s.put("/etc/subuid", "other:100000:65536\n")
			return s
		}
		whole := fresh()
		whole.applies(with)
		for cutAt := 1; cutAt < 5; cutAt++ {
			s := fresh()
			s.cutAddAt = cutAt
			if err, _ := s.apply(with); err == nil {
				t.Fatal("it was not killed")
			}
			if have := s.observe("users.ops").Have["users.ops.state"]; have != "half made" {
				t.Errorf("cut after %d files: the state is %q", cutAt, have)
			}
			s.cutAddAt = 0
			s.applies(with)
			s.so(with...)
			for _, file := range files {
				if is, want := s.get(file), whole.get(file); is != want {
					t.Errorf("cut after %d files: %s is\n%s\nand not\n%s", cutAt, file, is, want)
				}
			}
		}
		s := fresh() // cut again while it is taken away
		s.cutAddAt = 2
		if err, _ := s.apply(with); err == nil {
			t.Fatal("it was not killed")
		}
		s.add("/etc/passwd", "later:x:2000:2000::/home/later:/bin/sh")
		s.cutAt = 1
		if err, _ := s.apply(with); err == nil {
			t.Fatal("it was not killed")
		}
		s.cutAt, s.cutAddAt = 0, 0
		s.applies(with)
		s.so(with...)
		if is := s.get("/etc/passwd"); !strings.Contains(is, strings.Split(whole.get("/etc/passwd"), "ops:")[1]) {
			t.Errorf("it has another number than its home: %s", is)
		}
	}
}

// What a killed program for accounts leaves in /etc keeps all of them out as soon as another
// process has the number in its lock. It is told of accounts that are ours, and taken away; while
// such a program runs, the same files are its own.
func TestLeftoversOfAKilledProgram(t *testing.T) {
	for _, file := range []string{"/etc/group.lock", "/etc/group.4711", "/etc/subuid+"} {
		s, items := newFake(t), []item.Item{account("ops", item.User{Groups: []string{"adm"}})}
		s.put("/etc/.pwd.lock", "")
		s.put("/etc/passwd.4712", "a copy of a person\n")
		s.applies(items)
		s.put(file, "4711\x00")
		if s.observe("users.old").Have["users.old.state"] != item.Present {
			t.Error("an account that is not ours is told to be half changed")
		}

		release := s.changing()
		s.so(items...)
		s.applies(items)
		if s.gone(file) {
			t.Errorf("%s of a running program was taken away", file)
		}
		release()

		if have := s.observe("users.ops").Have["users.ops.state"]; have != "half changed: a program that was killed left "+file {
			t.Errorf("%s: the state is %q", file, have)
		}
		s.applies(items)
		s.so(items...)
		if !s.gone(file) || s.gone("/etc/passwd.4712") {
			t.Errorf("%s is left (%v), or the copy was taken away", file, !s.gone(file))
		}
		s.quiet(items)
	}
}

// changing is a program that changes accounts: it holds their lock until it is released. The
// lock is one of an open file, which stands in the way of this process too (F_OFD_SETLK of
// fcntl(2)).
func (s *fake) changing() (release func()) {
	s.t.Helper()
	const setLockOfFile = 37
	f, err := os.OpenFile(s.at("/etc/.pwd.lock"), os.O_RDWR, 0)
	s.must(err)
	s.must(syscall.FcntlFlock(f.Fd(), setLockOfFile, &syscall.Flock_t{Type: syscall.F_WRLCK}))
	return func() { s.must(f.Close()) }
}

// sshd reads a second file of keys. In an account that Slipway made, its keys are drift;
// in another one they are nobody's business but the account's.
func TestSecondFileOfKeys(t *testing.T) {
	s, second := newFake(t), "/home/ops/.ssh/authorized_keys2"
	items := []item.Item{account("ops", item.User{Keys: []string{keyA}})}
	for _, then := range [][]item.Item{items, {account("ops", item.User{})}} {
		s.applies(items)
		s.put(second, keyC+"\n")
		if seen := s.observe("users.ops"); seen.Have["users.ops.keys"] != item.Keyring([]string{keyA, keyC}) {
			t.Errorf("the drift is not seen: %v", seen.Have)
		}
		s.applies(then)
		s.so(then...)
		if !s.gone(second) {
			t.Errorf("%s is left", second)
		}
	}
	s.applies(items)
	s.put(second, keyC+"\n")
	s.applies(nil, "users.ops")
	if !s.gone(second) {
		t.Errorf("the account is gone, and %s is left", second)
	}

	s.put("/home/old/.ssh/authorized_keys2", keyC+"\n")
	s.must(os.Lchown(s.at("/home/old/.ssh"), 900, 900))
	old := []item.Item{account("old", item.User{Keys: []string{keyA}})}
	s.applies(old)
	s.so(old...)
	s.applies(nil, "users.old")
	if got := s.get("/home/old/.ssh/authorized_keys2"); got != keyC+"\n" {
		t.Errorf("the keys are %q", got)
	}
}

// An account that was there before keeps its own keys, groups and shell.
func TestAccountThatWasThere(t *testing.T) {
	s := newFake(t)
	s.put("/home/old/.ssh/authorized_keys", "# mine\nno-pty "+keyB+"\n")
	s.must(os.Lchown(s.at("/home/old/.ssh"), 900, 900))
	s.must(os.Lchown(s.at("/home/old/.ssh/authorized_keys"), 900, 900))
	before := s.get("/home/old/.ssh/authorized_keys")
	first := []item.Item{account("old", item.User{Keys: []string{keyA}, Groups: []string{"video"}, Shell: "/bin/bash"})}
	s.applies(first)
	s.so(first...)
	s.quiet(first)
	if got := s.get("/home/old/.ssh/authorized_keys"); got != before+keyA+"\n" {
		t.Errorf("the keys are %q", got)
	}
	second := []item.Item{account("old", item.User{Keys: []string{keyC}})}
	s.applies(second)
	s.so(second...)
	if got := s.get("/home/old/.ssh/authorized_keys"); got != before+keyC+"\n" {
		t.Errorf("the keys are %q", got)
	}
	if all, err := (&job{facet: s.facet(), h: s.host()}).accounts(); err != nil || item.List(all.further(login{name: "old", gid: 900})) != "adm" {
		t.Errorf("the groups are not as before: %+v, %v", all.groups, err)
	}
	s.applies(nil, "users.old")
	if got := s.get("/home/old/.ssh/authorized_keys"); got != before {
		t.Errorf("the keys are %q, want %q", got, before)
	}
	if got := s.get("/etc/passwd"); got != passwdText {
		t.Errorf("passwd is %q", got)
	}
}

// A shell comes back once: what people choose afterwards is theirs.
func TestAShellComesBackOnce(t *testing.T) {
	s := newFake(t)
	s.applies([]item.Item{account("new", item.User{Shell: "/bin/bash"})})
	silent := []item.Item{account("new", item.User{})}
	s.applies(silent)
	shell := func() string {
		all, err := (&job{facet: s.facet(), h: s.host()}).accounts()
		s.must(err)
		l, _ := all.login("new")
		return l.shell
	}
	if got := shell(); got == "/bin/bash" {
		t.Errorf("the shell is still %s", got)
	}
	s.edit("/etc/passwd", func(f []string) []string {
		if f[0] == "new" {
			f[6] = "/bin/zsh"
		}
		return f
	})
	s.applies(append(silent, account("second", item.User{})))
	if got := shell(); got != "/bin/zsh" {
		t.Errorf("the shell that somebody chose is %s", got)
	}
}

func TestPasswords(t *testing.T) {
	s := newFake(t)
	with := func(hash string) []item.Item { return []item.Item{account("ops", item.User{Password: hash})} }
	have := func() string { return s.observe("users.ops").Have["users.ops.password"] }
	s.applies([]item.Item{account("ops", item.User{})})
	if have() != "locked" {
		t.Errorf("a new account is %q", have())
	}
	s.applies(with(hashA))
	for _, run := range s.ran {
		if strings.Contains(run, "abcdef") {
			t.Errorf("the hash is an argument that everybody can read: %s", run)
		}
	}
	if have() != item.Digest([]byte(hashA)) {
		t.Errorf("the designed one is %q", have())
	}
	s.quiet(with(hashA))
	_, _ = s.exec(t.Context(), commandTo("ops:"+hashB))
	if have() != "set" { // another hash is not told, not even as a digest
		t.Errorf("another one is %q", have())
	}
	s.applies(with(hashA))
	s.so(with(hashA)...)
	s.applies(with(hashB))
	s.so(with(hashB)...)
	s.applies(with(""))
	if have() != "locked" || strings.Contains(s.get("/etc/shadow"), hashB) {
		t.Errorf("one that left the design is %q", have())
	}
	// Nor can it be unlocked where a person has locked the account meanwhile.
	s.applies(with(hashB))
	_, _ = s.exec(t.Context(), commandTo("ops:!"+hashB))
	s.applies(with(""))
	if have() != "locked" || strings.Contains(s.get("/etc/shadow"), hashB) {
		t.Errorf("one that was locked and left the design is in %s", s.get("/etc/shadow"))
	}
	// One that the account has already is taken note of, and not written again.
	_, _ = s.exec(t.Context(), commandTo("ops:"+hashA))
	s.applies(with(hashA))
	for _, run := range s.ran {
		if strings.HasPrefix(run, "chpasswd") {
			t.Errorf("set again: %s", run)
		}
	}
	s.so(with(hashA)...)
}

// Keys that sshd would not read are drift.
func TestKeysThatSSHDoesNotRead(t *testing.T) {
	for _, path := range []string{"/home/ops", "/home/ops/.ssh", "/home/ops/.ssh/authorized_keys"} {
		s := newFake(t)
		items := []item.Item{account("ops", item.User{Keys: []string{keyA}})}
		s.applies(items)
		s.must(os.Chmod(s.at(path), 0o777))
		if have := s.observe("users.ops").Have["users.ops.keys"]; !strings.Contains(have, "sshd does not read them: "+path) {
			t.Errorf("%s: the keys are %q", path, have)
		}
		s.applies(items)
		s.so(items...)
	}
}

// Nothing is written through links that the account can make.
func TestLinksInHomes(t *testing.T) {
	s := newFake(t)
	items := []item.Item{account("ops", item.User{Keys: []string{keyA}})}
	s.put("/root/secret", "as it was")
	for name, prepare := range map[string]func(){
		"the file is a link": func() {
			s.must(os.Remove(s.at("/home/ops/.ssh/authorized_keys")))
			s.must(os.Symlink("../../../root/secret", s.at("/home/ops/.ssh/authorized_keys")))
		},
		"the folder is a link": func() {
			s.must(os.RemoveAll(s.at("/home/ops/.ssh")))
			s.must(os.Symlink("/root", s.at("/home/ops/.ssh")))
		},
		"the file that is written first is a link": func() {
			s.must(os.RemoveAll(s.at("/home/ops/.ssh")))
			s.must(os.Mkdir(s.at("/home/ops/.ssh"), 0o700))
			s.must(os.Lchown(s.at("/home/ops/.ssh"), 1000, 1000))
			s.must(os.Symlink("/root/secret", s.at("/home/ops/.ssh/.slipway-keys")))
		},
	} {
		s.applies(items)
		prepare()
		seen := s.observe("users.ops")
		if seen.Unread["users.ops.keys"] == "" && seen.Have["users.ops.keys"] == item.Keyring([]string{keyA}) {
			t.Errorf("%s: seen as designed", name)
		}
		_, _ = s.apply(items) // whether it can be made good differs
		if got := s.get("/root/secret"); got != "as it was" || !s.gone("/root/authorized_keys") {
			t.Errorf("%s: written through it", name)
		}
		s.must(os.RemoveAll(s.at("/home/ops/.ssh")))
	}
}

// An account that another made in the place of ours is not removed.
func TestAnotherAccountOfTheName(t *testing.T) {
	s := newFake(t)
	s.applies([]item.Item{account("ops", item.User{UID: number(1500), Keys: []string{keyA}})})
	_, _ = s.userdel("ops")
	_, _ = s.useradd("ops", map[string]string{"--uid": "1600"})
	s.applies(nil, "users.ops")
	if !strings.Contains(s.get("/etc/passwd"), "ops:x:1600") {
		t.Error("the other account is removed")
	}
}

// An account that somebody else makes after useradd failed, or after a run that was
// cut before it, is theirs: its keys and groups stay, and it is not removed.
func TestSomebodyElseMakesTheAccount(t *testing.T) {
	for name, prepare := range map[string]func(s *fake, items []item.Item){
		"useradd failed": func(s *fake, items []item.Item) {
			s.exit["useradd"] = inside.Output{Code: 1, Err: []byte("useradd: cannot lock /etc/passwd; try again later.")}
			if err, _ := s.apply(items); err == nil {
				t.Fatal("nobody is told that useradd failed")
			}
			delete(s.exit, "useradd")
		},
		"cut before useradd": func(s *fake, items []item.Item) {
			for s.kill = 1; len(s.steps) == 0 || s.steps[len(s.steps)-1] != "run useradd"; s.kill++ {
				s.must(os.RemoveAll(s.at(inside.Folder)))
				if _, dead := s.apply(items); !dead {
					s.t.Fatal("useradd does not run")
				}
			}
			s.kill = 0
		},
		"made in the place of ours": func(s *fake, items []item.Item) {
			s.applies(items)
			_, _ = s.userdel("bob")
			s.must(os.RemoveAll(s.at("/home/bob")))
			s.add("/etc/passwd", "other:x:1000:1000::/home/other:/bin/sh")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			items := []item.Item{account("bob", item.User{Keys: []string{keyA}})}
			prepare(s, items)
			_, _ = s.useradd("bob", nil)
			_, _ = s.usermod("bob", map[string]string{"--groups": "adm,sudo"})
			s.put("/home/bob/.ssh/authorized_keys", keyB+"\n")
			for _, l := range parseLogins(s.get("/etc/passwd")) {
				if l.name == "bob" {
					s.must(os.Lchown(s.at("/home/bob/.ssh"), l.uid, l.gid))
					s.must(os.Lchown(s.at("/home/bob/.ssh/authorized_keys"), l.uid, l.gid))
				}
			}
			passwd, group := s.get("/etc/passwd"), s.get("/etc/group")
			s.applies(items)
			s.so(items...)
			s.quiet(items)
			if got := s.get("/home/bob/.ssh/authorized_keys"); got != keyB+"\n"+keyA+"\n" {
				t.Errorf("the keys are %q", got)
			}
			s.applies(nil, "users.bob")
			if s.get("/etc/passwd") != passwd || s.get("/etc/group") != group || s.get("/home/bob/.ssh/authorized_keys") != keyB+"\n" {
				t.Errorf("not as it was:\n%s\n%s\n%s", s.get("/etc/passwd"), s.get("/etc/group"), s.get("/home/bob/.ssh/authorized_keys"))
			}
			if _, ours := s.owned()["base/users.bob"]; ours {
				t.Error("still owned")
			}
		})
	}
}

// An account that leaves the design before the run after useradd failed is not removed.
func TestSomebodyElsesAccountIsNotRemoved(t *testing.T) {
	s := newFake(t)
	s.exit["useradd"] = inside.Output{Code: 1, Err: []byte("useradd: failure while writing changes to /etc/passwd")}
	if err, _ := s.apply([]item.Item{account("bob", item.User{Keys: []string{keyA}})}); err == nil {
		t.Fatal("nobody is told that useradd failed")
	}
	delete(s.exit, "useradd")
	_, _ = s.useradd("bob", nil)
	s.put("/home/bob/.ssh/authorized_keys", keyB+"\n")
	passwd := s.get("/etc/passwd")
	s.applies(nil, "users.bob")
	if s.get("/etc/passwd") != passwd || s.get("/home/bob/.ssh/authorized_keys") != keyB+"\n" {
		t.Errorf("the account of somebody else is changed: %s", s.get("/etc/passwd"))
	}
}

// An account whose making was cut after useradd is ours: what is left of it goes.
func TestCutAfterUseradd(t *testing.T) {
	items := []item.Item{account("bob", item.User{Keys: []string{keyA}})}
	cut := func() *fake {
		s := newFake(t)
		for s.kill = 1; ; s.kill++ {
			if _, dead := s.apply(items); !dead {
				t.Fatal("never cut after useradd")
			}
			if strings.Contains(s.get("/etc/passwd"), "bob:") {
				s.kill = 0
				return s
			}
		}
	}
	s := cut()
	if have := s.observe("users.bob").Have["users.bob.state"]; have == item.Present {
		t.Error("an account that is half made is told to be present")
	}
	s.applies(items)
	s.so(items...)
	if !strings.Contains(s.get("/etc/passwd"), "bob:x:1000:1000::/home/bob:") {
		t.Errorf("the mark is left: %s", s.get("/etc/passwd"))
	}
	s = cut()
	s.applies(nil, "users.bob")
	if strings.Contains(s.get("/etc/passwd"), "bob:") {
		t.Error("our own account is left")
	}
}

// An account that the design removed stays so when the design no longer speaks of
// it, and can be made again.
func TestAbsentAndAgain(t *testing.T) {
	s := newFake(t)
	s.applies([]item.Item{noAccount("old")})
	s.so(noAccount("old"))
	s.quiet([]item.Item{noAccount("old")})
	if s.gone("/home/old/.profile") || len(s.told) == 0 || !strings.Contains(s.told[0], "/home/old is left") {
		t.Errorf("the home folder is gone, or nobody was told: %q", s.told)
	}
	s.applies(nil, "users.old")
	s.so(noAccount("old"))
	again := []item.Item{account("old", item.User{Keys: []string{keyA}})}
	s.applies(again)
	s.so(again...)
	s.applies(nil, "users.old")
	s.so(noAccount("old"))
}

// The number of an account that leaves is free for another in the same run.
func TestNumberIsFreed(t *testing.T) {
	s := newFake(t)
	s.applies([]item.Item{account("ops", item.User{UID: number(1500)})})
	items := []item.Item{account("admin", item.User{UID: number(1500)})}
	s.applies(items, "users.ops")
	s.so(append(items, noAccount("ops"))...)
}

// What the system cannot have yet does not keep the rest of an account from being
// made.
func TestAccountWithoutSudo(t *testing.T) {
	s := newFake(t)
	s.must(os.Remove(s.at("/usr/bin/sudo")))
	items := []item.Item{account("ops", item.User{Keys: []string{keyA}, Groups: []string{"adm", "later"}, Password: hashA, Sudo: true})}
	s.applies(items)
	have := s.observe("users.ops").Have
	if have["users.ops.keys"] != item.Keyring([]string{keyA}) || have["users.ops.groups"] != "adm" || have["users.ops.sudo"] != "false" ||
		have["users.ops.password"] != item.Digest([]byte(hashA)) {
		t.Errorf("made is %v", have)
	}
	s.put("/usr/bin/sudo", "")
	s.add("/etc/group", "later:x:70:")
	s.applies(items)
	s.so(items...)
}

// The visudo of sudo-rs has no "-" for its input.
func TestSudoOfRust(t *testing.T) {
	s := newFake(t)
	s.exit["visudo -c -f -"] = inside.Output{Code: 1, Err: []byte("visudo: unable to open -: No such file or directory (os error 2)")}
	s.applies([]item.Item{account("ops", item.User{Sudo: true})})
	if got := s.get(item.SudoFile("ops")); got != item.SudoRule("ops") {
		t.Errorf("the rule is %q", got)
	}
}
