package base

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// fake is a system in a folder, whose programs edit its files as real ones do.
type fake struct {
	cutGroups bool // usermod is killed between group(5) and gshadow(5)
	cutAt     int  // userdel is killed after so many of its files; 0 for never
	cutAddAt  int  // useradd likewise, which has made the home by then
	t         testing.TB
	root      string
	login     string
	key       string
	// byPassword says that the session came by the account's password.
	byPassword bool
	// wants are the values of which it is told whether they can be had.
	wants     map[string]string
	live      bool
	name      string // the running host name
	steps     []string
	kill      int // the step before which the program ends; 0 for none
	ran       []string
	restart   []string
	uploads   bool   // whether systemd-journal-upload runs
	busy      string // an account that is in use
	exit      map[string]inside.Output
	told      []string
	authority string // signed the certificate that the session came by
	noUnit    bool   // systemd does not run the SSH server
	mainPID   string // of the unit of the SSH server
	reloads   func() // what a reload of that server does; nil to open its port again at once
}

const passwdText = `root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
old:x:900:900:An old one:/home/old:/bin/sh
`

const groupText = `root:x:0:
daemon:x:1:
adm:x:4:old
sudo:x:27:
docker:x:800:
video:x:44:
old:x:900:
nogroup:x:65534:
`

const shadowText = `root:$6$root$hash:19000:0:99999:7:::
daemon:*:19000:0:99999:7:::
old:!:19000:0:99999:7:::
`

const chronyConf = `# Debian's.
confdir /etc/chrony/conf.d
pool 2.debian.pool.ntp.org iburst
sourcedir /run/chrony-dhcp
sourcedir /etc/chrony/sources.d
driftfile /var/lib/chrony/chrony.drift
`

// newFake is a small Debian with chrony, sudo and rsyslog.
func newFake(t testing.TB) *fake {
	t.Helper()
	if os.Geteuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("only root may give files to accounts")
	}
	s := &fake{t: t, root: folder(t), live: true, name: "machine", exit: map[string]inside.Output{}}
	for path, text := range map[string]string{
		"/etc/passwd": passwdText, "/etc/group": groupText, "/etc/shadow": shadowText,
		"/etc/hostname": "machine\n", "/etc/hosts": "127.0.0.1 localhost\n127.0.1.1 machine\n", "/etc/timezone": "Etc/UTC\n",
		"/etc/default/useradd": "SHELL=/bin/sh\n", "/etc/chrony/chrony.conf": chronyConf,
		"/etc/chrony/sources.d/own.sources": "server 192.0.2.7\n", "/etc/chrony/conf.d/site.conf": "server 192.0.2.9 iburst\nmakestep 1 3\n",
		"/etc/sudoers": "root ALL=(ALL:ALL) ALL\n@includedir /etc/sudoers.d\n", "/etc/rsyslog.conf": "$IncludeConfig /etc/rsyslog.d/*.conf\n",
		"/usr/share/zoneinfo/Europe/Zurich": "TZif", "/usr/share/zoneinfo/Etc/UTC": "TZif", "/usr/share/zoneinfo/Asia/Tokyo": "TZif",
		"/usr/bin/bash": "", "/usr/bin/sh": "", "/usr/bin/sudo": "", "/usr/sbin/visudo": "", "/usr/sbin/chronyd": "", "/usr/sbin/rsyslogd": "",
		"/usr/lib/x86_64-linux-gnu/rsyslog/lmnsd_gtls.so": "", "/lib/systemd/system/" + uploadUnit: "", "/etc/ssl/certs/ca-certificates.crt": "",
		"/home/old/.profile": "# old\n", "/root/.profile": "",
		sshServer: "", sshMain: "Include /etc/ssh/sshd_config.d/*.conf\nUsePAM yes\n", "/etc/ssh/sshd_config.d/50-cloud-init.conf": "PasswordAuthentication no\n",
	} {
		s.put(path, text)
	}
	for _, folder := range []string{"/etc/sudoers.d", "/etc/rsyslog.d", "/etc/systemd/system", "/var/lib", "/proc"} {
		s.must(os.MkdirAll(s.at(folder), 0o755))
	}
	s.must(os.Symlink("usr/bin", s.at("/bin")))
	s.must(os.Symlink("/usr/share/zoneinfo/Etc/UTC", s.at("/etc/localtime")))
	s.must(os.Lchown(s.at("/home/old"), 900, 900))
	return s
}

// folder is a new folder, in memory where that can be had: many systems are made.
func folder(t testing.TB) string {
	t.Helper()
	path, err := os.MkdirTemp("/dev/shm", "slipway-base-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(path); err != nil {
			t.Error(err)
		}
	})
	return path
}

func (s *fake) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *fake) at(path string) string { return filepath.Join(s.root, path) }

func (s *fake) put(path, text string) {
	s.t.Helper()
	s.must(os.MkdirAll(filepath.Dir(s.at(path)), 0o755))
	s.must(os.WriteFile(s.at(path), []byte(text), 0o644))
}

func (s *fake) get(path string) string {
	s.t.Helper()
	text, err := os.ReadFile(s.at(path))
	s.must(err)
	return string(text)
}

func (s *fake) gone(path string) bool {
	_, err := os.Lstat(s.at(path))
	return err != nil
}

// killed is what ends a run before a step.
type killed struct{ step string }

func (s *fake) facet() *facet {
	return &facet{
		running: func() (string, error) { return s.name, nil },
		rename:  func(name []byte) error { s.name = string(name); return nil },
		step: func(what string) {
			s.steps = append(s.steps, what)
			if len(s.steps) == s.kill {
				panic(killed{what})
			}
		},
	}
}

func (s *fake) host() *inside.Host {
	s.t.Helper()
	owned, err := inside.LoadOwned(s.root)
	s.must(err)
	return &inside.Host{Root: s.root, Live: s.live, Login: s.login, LoginKey: s.key, LoginPassword: s.byPassword, LoginAuthority: s.authority, Owned: owned, Wants: s.wants, Exec: s.exec, Tell: func(text string) { s.told = append(s.told, text) }}
}

// apply is one run of the program; it says whether it was killed.
func (s *fake) apply(items []item.Item, remove ...string) (err error, dead bool) {
	s.steps, s.ran = nil, nil
	h := s.host()
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(killed); !ok {
				panic(p)
			}
			dead = true
		}
	}()
	return s.facet().Apply(context.Background(), h, items, remove), false
}

func (s *fake) applies(items []item.Item, remove ...string) {
	s.t.Helper()
	if err, _ := s.apply(items, remove...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *fake) observe(keys ...string) inside.Seen {
	s.t.Helper()
	s.steps = nil
	before := s.list()
	seen, err := s.facet().Observe(context.Background(), s.host(), keys)
	s.must(err)
	if len(s.steps) > 0 || s.list() != before {
		s.t.Errorf("to observe has written: %q", s.steps)
	}
	return seen
}

// list is everything in the system but what Slipway notes for itself.
func (s *fake) list() string {
	var all strings.Builder
	s.must(filepath.WalkDir(s.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, s.root)
		if name == inside.Folder {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		content := ""
		switch {
		case info.Mode().IsRegular():
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = fmt.Sprintf("%q", text)
		case info.Mode()&fs.ModeSymlink != 0:
			content, _ = os.Readlink(path)
		}
		fmt.Fprintf(&all, "%s %s %d:%d %s\n", name, info.Mode(), stat.Uid, stat.Gid, content)
		return nil
	}))
	return all.String() + "running as " + s.name + ", uploads " + strconv.FormatBool(s.uploads) + "\n"
}

// exec is the system's programs.
func (s *fake) exec(_ context.Context, c inside.Command) (inside.Output, error) {
	s.ran = append(s.ran, c.Path+" "+strings.Join(c.Args, " "))
	for _, name := range []string{c.Path + " " + strings.Join(c.Args, " "), c.Path} { // with these arguments, or with any
		if out, ok := s.exit[name]; ok {
			return out, nil
		}
	}
	options, last := map[string]string{}, ""
	for i := 0; i < len(c.Args); i++ {
		switch a := c.Args[i]; a {
		case "--create-home", "--no-create-home", "--system", "--user-group", "--", "--encrypted":
			options[a] = "yes"
		default:
			if last = a; strings.HasPrefix(a, "--") {
				i++
				options[a] = c.Args[i]
			}
		}
	}
	switch c.Path {
	case "useradd":
		return s.useradd(last, options)
	case "usermod":
		return s.usermod(last, options)
	case "userdel":
		return s.userdel(last)
	case "groupadd":
		s.add("/etc/group", last+":x:999:")
	case "chpasswd":
		account, hash, _ := strings.Cut(strings.TrimSpace(string(c.Stdin)), ":")
		s.edit("/etc/shadow", func(f []string) []string {
			if f[0] == account {
				f[1] = hash
			}
			return f
		})
	case "systemctl":
		if c.Args[len(c.Args)-1] == uploadUnit {
			if slices.Contains(c.Args, "show") {
				return inside.Output{Out: []byte("ActiveState=" + map[bool]string{true: "active", false: "inactive"}[s.uploads] + "\n")}, nil
			}
			s.uploads = c.Args[0] == "restart"
		}
		if c.Args[0] == "is-active" && s.noUnit && strings.HasPrefix(c.Args[len(c.Args)-1], "ssh") {
			return inside.Output{Code: 3}, nil // systemctl(1)
		}
		if slices.Contains(c.Args, "--property=MainPID") {
			return inside.Output{Out: []byte("MainPID=" + s.mainPID + "\n")}, nil
		}
		if c.Args[0] == "daemon-reload" || c.Args[0] == "is-active" {
			break
		}
		s.restart = append(s.restart, c.Args[len(c.Args)-1])
		if c.Args[0] == "reload" && s.mainPID != "" {
			if s.reloads == nil {
				s.reopens()
			} else {
				s.reloads()
			}
		}
	case sshServer:
		return s.sshd(c)
	case sshKeygen:
		if !strings.HasPrefix(string(c.Stdin), "SSHKRL") {
			return inside.Output{Code: 255, Err: []byte("Invalid KRL file\n")}, nil
		}
	case "visudo", "rsyslogd":
	default:
		return inside.Output{Code: 127}, fmt.Errorf("no program %s", c.Path)
	}
	return inside.Output{}, nil
}

// edit changes the lines of a file of accounts; nil takes a line out.
func (s *fake) edit(path string, each func(fields []string) []string) {
	var out strings.Builder
	for line := range strings.Lines(s.get(path)) {
		if fields := each(strings.Split(strings.TrimSuffix(line, "\n"), ":")); fields != nil {
			out.WriteString(strings.Join(fields, ":") + "\n")
		}
	}
	s.put(path, out.String())
}

func (s *fake) add(path, line string) { s.put(path, s.get(path)+line+"\n") }

func (s *fake) useradd(account string, o map[string]string) (inside.Output, error) {
	taken := map[string]bool{}
	for _, l := range parseLogins(s.get("/etc/passwd")) {
		taken[strconv.Itoa(l.uid)] = true
		if l.name == account {
			return inside.Output{Code: 9, Err: []byte("useradd: user '" + account + "' already exists\n")}, nil
		}
	}
	uid := o["--uid"]
	for n := 1000; uid == ""; n++ {
		if !taken[strconv.Itoa(n)] {
			uid = strconv.Itoa(n)
		}
	}
	gid := uid
	for _, g := range parseGroups(s.get("/etc/group")) {
		if g.name == o["--gid"] {
			gid = strconv.Itoa(g.gid)
		}
	}
	shell := o["--shell"]
	if shell == "" {
		shell = "/bin/sh"
	}
	if home := s.at("/home/" + account); o["--no-create-home"] == "" && os.Mkdir(home, 0o755) == nil {
		u, _ := strconv.Atoi(uid)
		g, _ := strconv.Atoi(gid)
		s.must(os.Lchown(home, u, g))
	}
	for n, each := range []struct {
		file, line string
		unless     bool
	}{
		{"/etc/passwd", strings.Join([]string{account, "x", uid, gid, o["--comment"], "/home/" + account, shell}, ":"), false},
		{"/etc/shadow", account + ":!:19000:0:99999:7:::", false},
		{"/etc/group", account + ":x:" + gid + ":", o["--gid"] != ""},
		{"/etc/gshadow", account + ":!::", o["--gid"] != "" || s.gone("/etc/gshadow")},
		{"/etc/subuid", account + ":100000:65536", s.gone("/etc/subuid") || o["--no-create-home"] != ""},
	} {
		if n > 0 && n == s.cutAddAt {
			return inside.Output{Code: -1}, fmt.Errorf("killed")
		}
		if !each.unless {
			s.edit(each.file, func(f []string) []string { // a line of before is replaced
				if f[0] == account {
					return nil
				}
				return f
			})
			s.add(each.file, each.line)
		}
	}
	return inside.Output{}, nil
}

func (s *fake) usermod(account string, o map[string]string) (inside.Output, error) {
	if shell, ok := o["--shell"]; ok {
		s.edit("/etc/passwd", func(f []string) []string {
			if f[0] == account {
				f[6] = shell
			}
			return f
		})
	}
	if day, ok := o["--expiredate"]; ok {
		s.edit("/etc/shadow", func(f []string) []string {
			if f[0] == account {
				f[7] = day
			}
			return f
		})
	}
	if comment, ok := o["--comment"]; ok {
		s.edit("/etc/passwd", func(f []string) []string {
			if f[0] == account {
				f[4] = comment
			}
			return f
		})
	}
	if groups, ok := o["--groups"]; ok {
		want := strings.Split(groups, ",")
		members := func(f []string) []string {
			in := strings.FieldsFunc(f[3], func(r rune) bool { return r == ',' })
			in = slices.DeleteFunc(in, func(m string) bool { return m == account })
			if slices.Contains(want, f[0]) {
				in = append(in, account)
			}
			slices.Sort(in)
			f[3] = strings.Join(in, ",")
			return f
		}
		s.edit("/etc/group", members)
		if s.cutGroups { // it is killed before it writes the other file
			return inside.Output{Code: -1}, fmt.Errorf("killed")
		}
		if !s.gone("/etc/gshadow") {
			s.edit("/etc/gshadow", members)
		}
	}
	return inside.Output{}, nil
}

func (s *fake) userdel(account string) (inside.Output, error) {
	if account == s.busy {
		return inside.Output{Code: 8, Err: []byte("userdel: user " + account + " is currently used by process 4711\n")}, nil
	}
	drop := func(f []string) []string {
		if f[0] == account {
			return nil
		}
		return f
	}
	member := func(f []string) []string {
		members := strings.FieldsFunc(f[3], func(r rune) bool { return r == ',' })
		f[3] = strings.Join(slices.DeleteFunc(members, func(m string) bool { return m == account }), ",")
		return drop(f)
	}
	files := []string{"/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/subuid"}
	for n, each := range []func([]string) []string{drop, drop, member, member, drop} {
		if n > 0 && n == s.cutAt {
			return inside.Output{Code: -1}, fmt.Errorf("killed")
		}
		if !s.gone(files[n]) {
			s.edit(files[n], each)
		}
	}
	return inside.Output{}, nil
}

// The items of tests.

func hostname(name string) item.Item {
	return item.New(item.KindHostname, map[string]string{"": name}, nil)
}

func hosts(h item.Hosts) item.Item { return item.New(item.KindHosts, h.Fields(), h) }

func clockItem(zone string, servers ...string) item.Item {
	body := item.Time{Zone: zone, Servers: servers}
	return item.New(item.KindTime, body.Fields(), body)
}

func logs(forward ...string) item.Item {
	body := item.Logs{Forward: forward}
	return item.New(item.KindLogs, body.Fields(), body)
}

func account(name string, u item.User) item.Item {
	fields := u.Fields()
	if u.Password != "" {
		fields["password"] = item.Digest([]byte(u.Password))
	}
	return item.New(item.KindUsers+"."+name, fields, u)
}

func noAccount(name string) item.Item {
	return item.New(item.KindUsers+"."+name, map[string]string{"state": item.Absent}, nil)
}

// so fails the test where a system is not as items ask for.
func (s *fake) so(items ...item.Item) {
	s.t.Helper()
	seen := s.observe(item.Keys(items)...)
	for name, want := range item.Values(items) {
		if have := seen.Have[name]; have != want {
			s.t.Errorf("%s is %q, want %q (unread %v, cannot %v)", name, have, want, seen.Unread, seen.Cannot)
		}
	}
}

// quiet fails the test where a further run writes.
func (s *fake) quiet(items []item.Item, remove ...string) {
	s.t.Helper()
	before := s.list()
	s.applies(items, remove...)
	if len(s.steps) > 0 || s.list() != before {
		s.t.Errorf("a second run has written: %q", s.steps)
	}
}

func number(n int64) *int64 { return &n }

func (s *fake) owned() map[string]inside.Entry {
	s.t.Helper()
	var list struct{ Items map[string]inside.Entry }
	s.must(json.Unmarshal([]byte(s.get(inside.Folder+"/owned.json")), &list))
	return list.Items
}
