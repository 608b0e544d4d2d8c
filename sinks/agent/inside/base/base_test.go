package base

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

const (
	keyA  = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA ana@desk"
	keyB  = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB"
	keyC  = "ecdsa-sha2-nistp256 AAAAE2VjZHNhC carl"
	hashA = "$6$salt$abcdefghijklmnop"
	hashB = "$y$j9T$salt$qrstuvwxyz"
)

// everything is a design that uses all of the facet.
func everything() []item.Item {
	return []item.Item{
		hostname("compute-1"),
		hosts(item.Hosts{"10.0.0.1": {"controller-1.example.org", "controller-1"}, "fd00::1": {"controller-1"}}),
		clockItem("Europe/Zurich", "10.0.0.1", "ntp.example.org"),
		logs("udp://10.0.0.5", "tls://logs.example.org:6514", "https://logs.example.org"),
		certificates("compute-1", "ops", "root"),
		account("ops", item.User{UID: number(1500), Groups: []string{"adm", "video"}, Shell: "/bin/bash", Keys: []string{keyA, keyB}, Password: hashA, Sudo: true}),
		account("old", item.User{Groups: []string{"docker"}, Shell: "/bin/bash", Keys: []string{keyC}, Sudo: true}),
	}
}

func TestEverythingIsMadeAndTakenAway(t *testing.T) {
	s := newFake(t)
	before := s.list()
	items := everything()
	s.applies(items)
	s.so(items...)
	s.quiet(items)
	if got := s.get("/etc/hosts"); got != "127.0.0.1 localhost\n127.0.1.1 machine\n# begin slipway\n10.0.0.1 controller-1.example.org controller-1\nfd00::1 controller-1\n# end slipway\n" {
		t.Errorf("hosts is %q", got)
	}
	if got, _ := os.Readlink(s.at("/etc/localtime")); got != "../usr/share/zoneinfo/Europe/Zurich" || s.get("/etc/timezone") != "Europe/Zurich\n" {
		t.Errorf("the time zone leads to %s, timezone is %q", got, s.get("/etc/timezone"))
	}
	for _, path := range []string{"/etc/chrony/chrony.conf", "/etc/chrony/conf.d/site.conf"} {
		for line := range strings.Lines(s.get(path)) {
			if word, value := sourceLine(line); word != "" && value != "10.0.0.1" && value != "ntp.example.org" {
				t.Errorf("%s still has %q", path, line)
			}
		}
	}
	info, err := os.Stat(s.at("/etc/sudoers.d/slipway-ops"))
	if err != nil || info.Mode().Perm() != 0o440 {
		t.Errorf("the rule of sudo: %v, %v", info, err)
	}
	if slices.Sort(s.restart); !slices.Equal(s.restart, []string{"chrony.service", "rsyslog.service", "ssh.service", uploadUnit}) {
		t.Errorf("restarted %q", s.restart)
	}
	if text := s.get(inside.Folder + "/owned.json"); strings.Contains(text, "abcdefghijklmnop") {
		t.Error("the list of what is owned has a password hash")
	}
	s.applies(nil, item.Keys(items)...)
	if len(s.owned()) > 0 {
		t.Errorf("still owned: %v", s.owned())
	}
	s.must(os.Remove(s.at("/home/ops"))) // it is left, and is empty
	if after := s.list(); after != before {
		t.Errorf("what is left differs:\n%s", difference(before, after))
	}
}

func difference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	return "- " + strings.Join(without(x, y), "\n- ") + "\n+ " + strings.Join(without(y, x), "\n+ ")
}

// A run that is killed before any of its steps is made good by the next one.
func TestKilledBeforeEachStep(t *testing.T) {
	changed := []item.Item{
		hostname("compute-2"), hosts(item.Hosts{"10.0.0.2": {"two"}}), clockItem("Asia/Tokyo", "10.0.0.2"), logs("tcp://10.0.0.6:514"),
		certificates("compute-2", "root"), account("ops", item.User{Keys: []string{keyC}, Groups: []string{"docker"}}), account("old", item.User{Keys: []string{keyA}}),
	}
	for _, c := range []struct {
		name   string
		start  []item.Item
		items  []item.Item
		remove []string
	}{
		{name: "made", items: everything()},
		{name: "changed", start: everything(), items: changed},
		{name: "removed", start: everything(), remove: item.Keys(everything())},
		{name: "absent", start: everything(), items: []item.Item{noAccount("ops"), noAccount("old")}},
		{name: "revoked", start: everything(), items: []item.Item{revokes("compute-1", "ops", "root")}},
		{name: "others revoked", start: []item.Item{revokes("compute-1", "root")}, items: []item.Item{hostname("compute-2"), logs("udp://10.0.0.6"), revokes("compute-1", "ops", "root")}},
		{name: "none revoked", start: []item.Item{revokes("compute-1", "ops", "root")}, items: []item.Item{certificates("compute-1", "ops", "root")}},
		{name: "revoked and removed", start: []item.Item{revokes("compute-1", "ops", "root")}, remove: []string{item.KindSSH}},
		{name: "host certificates", items: []item.Item{proves(hostA, hostEC)}},
		{name: "renewed", start: []item.Item{proves(hostA, hostEC)}, items: []item.Item{proves(hostB)}},
		{name: "no host certificates", start: []item.Item{proves(hostA, hostEC)}, remove: []string{item.KindSSHHost}},
		{name: "half removed", start: everything(), items: everything()[:1], remove: item.Keys(everything()[1:])},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole := newFake(t)
			whole.applies(c.start)
			whole.applies(c.items, c.remove...)
			steps := len(whole.steps)
			if steps < 5 {
				t.Fatalf("only %d steps: %q", steps, whole.steps)
			}
			want := whole.list()
			for n := 1; n <= steps; n++ {
				s := newFake(t)
				s.applies(c.start)
				s.kill = n
				if _, dead := s.apply(c.items, c.remove...); !dead {
					t.Fatalf("not killed before step %d", n)
				}
				at := s.steps[n-1]
				s.kill, s.restart = 0, nil
				s.applies(c.items, c.remove...)
				if got := s.list(); got != want {
					t.Errorf("killed before step %d, %q:\n%s", n, at, difference(want, got))
				}
				if a, b := whole.host().Owned.Digest(), s.host().Owned.Digest(); a != b {
					t.Errorf("killed before step %d, %q: owned differs: %s\n%s", n, at, whole.get(inside.Folder+"/owned.json"), s.get(inside.Folder+"/owned.json"))
				}
				if strings.HasPrefix(at, "run systemctl") && len(s.restart) == 0 {
					t.Errorf("killed before %q, and not restarted after", at)
				}
				s.so(c.items...)
				s.quiet(c.items, c.remove...)
			}
		})
	}
}

// Whatever was designed before, a system is like a fresh one with the last design.
func TestManyDesignsAreLikeTheLast(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 17))
	one := newFake(t)
	for n := range 200 {
		items := random(r)
		var remove []string
		for _, key := range one.host().Owned.Keys(name) {
			if !slices.Contains(item.Keys(items), key) {
				remove = append(remove, key)
			}
		}
		one.applies(items, remove...)
		one.so(items...)
		fresh := newFake(t)
		fresh.applies(items)
		if a, b := withoutHomes(one.list()), withoutHomes(fresh.list()); a != b {
			t.Fatalf("design %d differs from a fresh system:\n%s", n, difference(b, a))
		}
		one.quiet(items)
	}
}

// withoutHomes leaves out the order of the account files' lines, and home folders
// that are empty.
func withoutHomes(list string) string {
	var lines []string
	for _, line := range strings.Split(list, "\n") {
		if strings.HasPrefix(line, "/home/") && !strings.Contains(line, ".ssh") {
			continue
		}
		if strings.HasPrefix(line, "/etc/passwd ") || strings.HasPrefix(line, "/etc/group ") || strings.HasPrefix(line, "/etc/shadow ") {
			parts := strings.Split(line, `\n`)
			slices.Sort(parts[1:])
			line = strings.Join(parts, " ")
			line = strings.ReplaceAll(line, `"`, "")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func random(r *rand.Rand) (items []item.Item) {
	maybe := func() bool { return r.IntN(2) == 0 }
	some := func(all ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(string) bool { return maybe() })
	}
	if maybe() {
		items = append(items, hostname(fmt.Sprintf("node-%d", r.IntN(5))))
	}
	if maybe() {
		items = append(items, hosts(item.Hosts{fmt.Sprintf("10.0.0.%d", r.IntN(5)): {"x", "y"}}))
	}
	if servers := some("10.0.0.1", "10.0.0.2"); maybe() && len(servers) > 0 {
		items = append(items, clockItem("", servers...))
	} else if maybe() {
		items = append(items, clockItem([]string{"Europe/Zurich", "Asia/Tokyo"}[r.IntN(2)], servers...))
	}
	if forward := some("udp://10.0.0.5", "tcp://10.0.0.6:601", "tls://logs.example.org", []string{"https://logs.example.org", "http://[fd00::1]:8080"}[r.IntN(2)]); len(forward) > 0 {
		items = append(items, logs(forward...))
	}
	if accounts := some("ops", "root"); maybe() && len(accounts) > 0 {
		items = append(items, certificates("n1", accounts...))
	}
	for n, name := range []string{"ops", "ana", "old"} {
		if !maybe() {
			continue
		}
		u := item.User{Groups: some("adm", "video", "docker"), Keys: some(keyA, keyB, keyC), Sudo: maybe()}
		if maybe() {
			u.Shell = "/bin/bash"
		}
		if name != "old" { // numbers stay the same, and its password is a secret that cannot be set back
			u.UID = number(int64(1500 + n))
			if maybe() {
				u.Password = []string{hashA, hashB}[r.IntN(2)]
			}
		} else {
			u.Groups = without(u.Groups, []string{"adm"}) // it is in that without us
		}
		items = append(items, account(name, u))
	}
	return items
}

func TestRefusals(t *testing.T) {
	login := func(name string) func(*fake) { return func(s *fake) { s.login = name } }
	remove := func(paths ...string) func(*fake) {
		return func(s *fake) {
			for _, p := range paths {
				s.must(os.RemoveAll(s.at(p)))
			}
		}
	}
	many := func(all ...func(*fake)) func(*fake) {
		return func(s *fake) {
			for _, f := range all {
				f(s)
			}
		}
	}
	for _, c := range []struct {
		name, class, want string
		start             func(*fake)
		items             []item.Item
		remove            []string
	}{
		{"a host name with a new line", wire.Refused, "is not a host name", nil, []item.Item{hostname("a\nb")}, nil},
		{"an option as host name", wire.Refused, "is not a host name", nil, []item.Item{hostname("-x")}, nil},
		{"an address that is none", wire.Refused, "is not an address", nil, []item.Item{hosts(item.Hosts{"10.0.0.1 x": {"a"}})}, nil},
		{"a name with a comment", wire.Refused, "is not a host name", nil, []item.Item{hosts(item.Hosts{"10.0.0.1": {"a#b"}})}, nil},
		{"a part of hosts without end", wire.Refused, "does not guess", func(s *fake) { s.put("/etc/hosts", "# begin slipway\n1.1.1.1 x\n") },
			[]item.Item{hosts(item.Hosts{"10.0.0.1": {"a"}})}, nil},
		{"hosts is a link", wire.Refused, "not a regular file", many(remove("/etc/hosts"), func(s *fake) { s.must(os.Symlink("/etc/passwd", s.at("/etc/hosts"))) }),
			[]item.Item{hosts(item.Hosts{"10.0.0.1": {"a"}})}, nil},
		{"a zone outside", wire.Refused, "not the name of a time zone", nil, []item.Item{clockItem("../../../etc/passwd")}, nil},
		{"a time server with a line", wire.Refused, "time server", nil, []item.Item{clockItem("", "10.0.0.1\nallow all")}, nil},
		{"two receivers of the journal", wire.Refused, "one receiver only", nil, []item.Item{logs("https://a", "https://b")}, nil},
		{"a receiver with a quote", wire.Refused, "is not a receiver", nil, []item.Item{logs(`udp://x"y`)}, nil},
		{"settings that rsyslog refuses", wire.Failed, "does not accept", func(s *fake) { s.exit["rsyslogd"] = inside.Output{Code: 1, Err: []byte("bad\x1b[2J")} },
			[]item.Item{logs("udp://10.0.0.5")}, nil},
		{"another number", wire.Refused, "has the number 900", nil, []item.Item{account("old", item.User{UID: number(7)})}, nil},
		{"a number that is taken", wire.Refused, "belongs to the account old", nil, []item.Item{account("ops", item.User{UID: number(900)})}, nil},
		{"a key with a line", wire.Refused, "not an SSH public key", nil, []item.Item{account("ops", item.User{Keys: []string{"ssh-ed25519 AAAA\nssh-rsa BBBB"}})}, nil},
		{"a password that is no hash", wire.Refused, "not a hash", nil, []item.Item{account("ops", item.User{Password: "secret"})}, nil},
		{"a password with a line", wire.Refused, "not a hash", nil, []item.Item{account("ops", item.User{Password: "$6$a\nroot:$6$b"})}, nil},
		{"visudo refuses", wire.Failed, "visudo does not accept", func(s *fake) { s.exit["visudo"] = inside.Output{Code: 1, Out: []byte("parse error")} },
			[]item.Item{account("ops", item.User{Sudo: true})}, nil},
		{"an option as account", wire.Refused, "not a name for an account", nil, []item.Item{account("-r", item.User{})}, nil},
		{"a path as account", wire.Refused, "not a name for an account", nil, []item.Item{noAccount("../../etc/passwd")}, nil},
		{"root is absent", wire.Refused, "does not remove it", nil, []item.Item{noAccount("root")}, nil},
		{"an account in use", wire.Failed, "used by process 4711", func(s *fake) { s.busy = "old" }, []item.Item{noAccount("old")}, nil},
		{"the own account is absent", wire.Refused, "logs in as old", login("old"), []item.Item{noAccount("old")}, nil},
		{"the own account leaves", wire.Refused, "logs in as ops", func(s *fake) {
			s.applies([]item.Item{account("ops", item.User{Keys: []string{keyA}})})
			s.login = "ops"
		}, nil, []string{"users.ops"}},
		{"the own last key", wire.Refused, "without its last key", func(s *fake) {
			s.applies([]item.Item{account("ops", item.User{Keys: []string{keyA}})})
			s.login = "ops"
		},
			[]item.Item{account("ops", item.User{})}, nil},
		{"the key of this session", wire.Refused, "with the key ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA", func(s *fake) {
			s.applies([]item.Item{account("ops", item.User{Keys: []string{keyA}})})
			s.login, s.key = "ops", keyA
		},
			[]item.Item{account("ops", item.User{Keys: []string{keyB}})}, nil},
		{"the password of this session", wire.Refused, "with this account's password", func(s *fake) {
			s.login, s.byPassword = "old", true
		},
			[]item.Item{account("old", item.User{Password: hashA})}, nil},
		{"the own group", wire.Refused, "its groups adm may be what lets it use sudo", func(s *fake) {
			s.applies([]item.Item{account("ops", item.User{Keys: []string{keyA}, Groups: []string{"adm"}})})
			s.login, s.key = "ops", keyA
		},
			[]item.Item{account("ops", item.User{Keys: []string{keyA}})}, nil},
		{"the own sudo", wire.Refused, "needs its sudo", func(s *fake) {
			s.applies([]item.Item{account("ops", item.User{Keys: []string{keyA}, Sudo: true})})
			s.login = "ops"
		}, []item.Item{account("ops", item.User{Keys: []string{keyA}})}, nil},
		{"the account files are locked", wire.Busy, "locked by another program", func(s *fake) {
			s.exit["useradd"] = inside.Output{Code: 1, Err: []byte("useradd: cannot lock /etc/passwd; try again later.")}
		}, []item.Item{account("ops", item.User{})}, nil},
		{"the folder of keys is a link", wire.Refused, "is not a folder", func(s *fake) { s.must(os.Symlink("/root", s.at("/home/old/.ssh"))) },
			[]item.Item{account("old", item.User{Keys: []string{keyA}})}, nil},
		{"the home of an account may be written", wire.Refused, "may be written by others", func(s *fake) { s.must(os.Chmod(s.at("/home/old"), 0o777)) },
			[]item.Item{account("old", item.User{Keys: []string{keyA}})}, nil},
		{"an unknown item", wire.Refused, "no item", nil, []item.Item{item.New("weather", nil, nil)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFake(t)
			if c.start != nil {
				c.start(s)
			}
			good := hostname("good")
			err, _ := s.apply(append([]item.Item{good}, c.items...), c.remove...)
			if len(c.items) > 0 && c.items[0].Key == item.KindHostname {
				err, _ = s.apply(c.items)
			}
			var told *wire.Error
			if !errors.As(err, &told) || told.Class != c.class || !strings.Contains(told.Text, c.want) {
				t.Fatalf("got %#v, want %s with %q", err, c.class, c.want)
			}
			if strings.ContainsRune(told.Text, '\x1b') || len(told.Text) > 2000 {
				t.Errorf("not for a terminal: %q", told.Text)
			}
			s.so(good) // one item keeps no other from being made
		})
	}
}

// What a system cannot have yet is no error: it is told of the field, and all else is set,
// also of the same item. Once it is there, a further run sets it.
func TestLacking(t *testing.T) {
	remove := func(path string) func(s *fake) {
		return func(s *fake) { s.must(os.Rename(s.at(path), s.at(path+".away"))) }
	}
	restore := func(path string) func(s *fake) {
		return func(s *fake) { s.must(os.Rename(s.at(path+".away"), s.at(path))) }
	}
	for _, c := range []struct {
		field, want string
		start, then func(*fake)
		item        item.Item
	}{
		{"time.zone=Europe/Atlantis", "there is no time zone", nil, func(s *fake) { s.put("/usr/share/zoneinfo/Europe/Atlantis", "TZif") }, clockItem("Europe/Atlantis", "10.0.0.1")},
		{"time.zone", "add the package tzdata", remove("/usr/share/zoneinfo"), restore("/usr/share/zoneinfo"), clockItem("Europe/Zurich", "10.0.0.1")},
		{"time.servers", "add the package chrony", remove("/usr/sbin/chronyd"), restore("/usr/sbin/chronyd"), clockItem("Europe/Zurich", "10.0.0.1")},
		{"logs.forward=udp://10.0.0.5", "add the package rsyslog", remove("/usr/sbin/rsyslogd"), restore("/usr/sbin/rsyslogd"), logs("udp://10.0.0.5")},
		{"logs.forward=tls://10.0.0.5", "add the package rsyslog-openssl", remove("/usr/lib/x86_64-linux-gnu"), restore("/usr/lib/x86_64-linux-gnu"), logs("tls://10.0.0.5")},
		{"logs.forward=tls://10.0.0.5", "ca-certificates", remove("/etc/ssl"), restore("/etc/ssl"), logs("tls://10.0.0.5")},
		{"logs.forward=https://a, udp://10.0.0.5", "systemd-journal-remote", remove("/lib/systemd/system/" + uploadUnit), restore("/lib/systemd/system/" + uploadUnit), logs("udp://10.0.0.5", "https://a")},
		{"logs.forward=https://a", "ca-certificates", remove("/etc/ssl"), restore("/etc/ssl"), logs("https://a")},
		{"logs.forward=http://a", "is masked", func(s *fake) { s.must(os.Symlink("/dev/null", s.at(uploadUser))) }, func(s *fake) { s.must(os.Remove(s.at(uploadUser))) }, logs("http://a")},
		{"users.ops.groups=adm, wheel", `no group "wheel"`, nil, func(s *fake) { s.add("/etc/group", "wheel:x:70:") }, account("ops", item.User{Groups: []string{"wheel", "adm"}, Keys: []string{keyA}})},
		{"users.ops.shell=/bin/zsh", "there is no shell /bin/zsh", nil, func(s *fake) { s.put("/bin/zsh", "") }, account("ops", item.User{Shell: "/bin/zsh", Keys: []string{keyA}})},
		{"users.ops.sudo=true", "add the package sudo", remove("/usr/bin/sudo"), restore("/usr/bin/sudo"), account("ops", item.User{Sudo: true, Keys: []string{keyA}})},
		{"users.ops.sudo=true", "@includedir", func(s *fake) { s.put("/etc/sudoers", "root ALL=(ALL) ALL\n") }, func(s *fake) { s.put("/etc/sudoers", "@includedir /etc/sudoers.d\n") },
			account("ops", item.User{Sudo: true, Keys: []string{keyA}})},
	} {
		t.Run(c.field, func(t *testing.T) {
			s := newFake(t)
			if c.start != nil {
				c.start(s)
			}
			items := []item.Item{c.item, hostname("good")}
			s.wants = item.Needing(items)
			for range 2 { // before and after all else is set
				if seen := s.observe(item.Keys(items)...); !strings.Contains(seen.Cannot[c.field], c.want) {
					t.Fatalf("cannot: %q, want of %s %q", seen.Cannot, c.field, c.want)
				}
				s.applies(items)
			}
			seen := s.observe(item.Keys(items)...)
			for name, want := range item.Values(items) {
				if have := seen.Have[name]; have != want && item.Lacking(seen.Cannot, name, want) == "" {
					t.Errorf("%s is %q, want %q", name, have, want)
				}
			}
			c.then(s)
			if seen := s.observe(item.Keys(items)...); len(seen.Cannot) > 0 {
				t.Errorf("still cannot: %q", seen.Cannot)
			}
			s.applies(items)
			s.so(items...)
			s.quiet(items)
		})
	}
}

// An account that is there joins the groups that there are before it is said to lack one.
func TestLackingAGroupAmongOthers(t *testing.T) {
	s := newFake(t)
	s.applies([]item.Item{account("ops", item.User{})})
	items := []item.Item{account("ops", item.User{Groups: []string{"adm", "wheel"}})}
	s.wants = item.Needing(items)
	if seen := s.observe("users.ops"); len(seen.Cannot) > 0 {
		t.Errorf("there is a group to join, and it cannot: %q", seen.Cannot)
	}
	s.applies(items)
	if seen := s.observe("users.ops"); seen.Have["users.ops.groups"] != "adm" || seen.Cannot["users.ops.groups=adm, wheel"] == "" {
		t.Errorf("groups %q, cannot %q", seen.Have["users.ops.groups"], seen.Cannot)
	}
}

// What a system cannot have is seen before anything is tried.
func TestCannot(t *testing.T) {
	s := newFake(t)
	for _, path := range []string{"/usr/share/zoneinfo", "/usr/sbin/chronyd", "/usr/sbin/rsyslogd", "/lib/systemd/system/" + uploadUnit, "/usr/bin/sudo"} {
		s.must(os.RemoveAll(s.at(path)))
	}
	seen := s.observe("time", "logs", "users.ops")
	for name, want := range map[string]string{"time.zone": "tzdata", "time.servers": "chrony", "logs.forward": "rsyslog", "users.ops.sudo=true": "package sudo"} {
		if !strings.Contains(seen.Cannot[name], want) {
			t.Errorf("%s cannot be: %q, want %q", name, seen.Cannot[name], want)
		}
	}
	if seen.Have["users.ops.state"] != item.Absent {
		t.Errorf("the account is seen: %v", seen.Have)
	}
}

// What cannot be read is not told to be absent.
func TestUnread(t *testing.T) {
	s := newFake(t)
	for _, path := range []string{"/etc/passwd", "/etc/hostname", "/etc/hosts"} {
		s.must(os.Remove(s.at(path)))
		s.must(os.Mkdir(s.at(path), 0o755))
	}
	seen := s.observe("users.ops", "hostname", "hosts", "weather")
	for _, key := range []string{"users.ops", "hostname", "hosts", "weather"} {
		if seen.Unread[key] == "" || seen.Have[key] != "" || seen.Have[key+".state"] != "" {
			t.Errorf("%s: unread %q, have %v", key, seen.Unread[key], seen.Have)
		}
	}
}

// A context that ends, ends the work.
func TestEnded(t *testing.T) {
	s := newFake(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.facet().Apply(ctx, s.host(), everything(), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("apply: %v", err)
	}
	if _, err := s.facet().Observe(ctx, s.host(), []string{"hosts"}); !errors.Is(err, context.Canceled) {
		t.Errorf("observe: %v", err)
	}
	if len(s.steps) > 0 {
		t.Errorf("has written %q", s.steps)
	}
}

// Within another root no service is restarted and no running name is set.
func TestNotLive(t *testing.T) {
	s := newFake(t)
	s.live = false
	s.applies(everything())
	s.so(everything()...)
	s.quiet(everything())
	if len(s.restart) > 0 || s.name != "machine" {
		t.Errorf("restarted %q, named %q", s.restart, s.name)
	}
}
