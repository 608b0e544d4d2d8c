package base

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// Within a system this program is what the test asks it to be.
func TestMain(m *testing.M) {
	if os.Getenv("SLIPWAY_BASE_TEST") != "" {
		serve()
		return
	}
	os.Exit(nspawn.Main(m))
}

type ask struct {
	Login  string
	Items  []item.Item
	Remove []string
	Keys   []string
}

type answer struct {
	Seen  inside.Seen
	Error string
	Steps []string
	Told  []string
}

// serve applies and observes on the system that it runs in.
func serve() {
	var q ask
	var a answer
	check := func(err error) {
		if err != nil && a.Error == "" {
			a.Error = err.Error()
		}
	}
	check(json.NewDecoder(os.Stdin).Decode(&q))
	h := inside.Real("/", true)
	h.Login = q.Login
	h.Tell = func(text string) { a.Told = append(a.Told, text) }
	var err error
	h.Owned, err = inside.LoadOwned("/")
	check(err)
	f := New().(*facet)
	f.step = func(what string) { a.Steps = append(a.Steps, what) }
	check(f.Apply(context.Background(), h, q.Items, q.Remove))
	a.Seen, err = f.Observe(context.Background(), h, q.Keys)
	check(err)
	check(json.NewEncoder(os.Stdout).Encode(a))
}

type system struct {
	*nspawn.System
	t *testing.T
}

func (s system) ask(q ask) (a answer) {
	s.t.Helper()
	q.Keys = append(q.Keys, item.Keys(q.Items)...)
	text, err := json.Marshal(q)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Root, "root/ask"), text, 0o600); err != nil {
		s.t.Fatal(err)
	}
	out := s.Does("SLIPWAY_BASE_TEST=1 /root/base </root/ask")
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return a
}

// On a real Debian: an account logs in over its sshd, a second run writes nothing,
// and what is removed leaves /etc as it was.
func TestRealDebian(t *testing.T) {
	nspawn.Require(t)
	s := system{nspawn.Boot(t, nspawn.Loopback), t}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][]string{
		{"cp", program, filepath.Join(s.Root, "root/base")},
		{"mkdir", "-p", filepath.Join(s.Root, "usr/share/zoneinfo/Europe")},
		{"cp", "-L", "/usr/share/zoneinfo/Europe/Zurich", filepath.Join(s.Root, "usr/share/zoneinfo/Europe/Zurich")},
	} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", c, err, out)
		}
	}
	s.Does("umount /etc/localtime || true") // systemd-nspawn lays the host's zone over it
	s.Does("ssh-keygen -A >/dev/null; systemctl restart ssh; ssh-keygen -q -t ed25519 -N '' -f /root/key; ssh-keygen -q -t ed25519 -N '' -f /root/other")
	const listing = "cd /etc; find . ! -name 'passwd-' ! -name 'shadow-' ! -name 'group-' ! -name 'gshadow-' ! -name 'sub?id-' ! -name .pwd.lock -printf '%p %M %U:%G %s %l\\n' | sort | grep -v '^\\. '; " +
		"cat passwd group shadow gshadow subuid subgid hosts hostname 2>/dev/null || true; hostname"
	before := s.Does(listing)
	key := strings.TrimSpace(s.Does("cat /root/key.pub"))
	other := strings.TrimSpace(s.Does("cat /root/other.pub"))

	user := item.User{UID: number(1500), Groups: []string{"adm", "video"}, Shell: "/bin/bash", Keys: []string{key}, Password: hashA}
	items := []item.Item{
		hostname("compute-1"), hosts(item.Hosts{"10.0.0.1": {"controller-1"}}), clockItem("Europe/Zurich"), account("ops", user),
	}
	a := s.ask(ask{Items: items})
	if a.Error != "" {
		t.Fatal(a.Error)
	}
	for name, want := range item.Values(items) {
		if have := a.Seen.Have[name]; have != want {
			t.Errorf("%s is %q, want %q (unread %v)", name, have, want, a.Seen.Unread)
		}
	}
	if again := s.ask(ask{Items: items}); again.Error != "" || len(again.Steps) > 0 {
		t.Errorf("a second run: %q, %s", again.Steps, again.Error)
	}
	const ssh = "ssh -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o LogLevel=ERROR -i /root/%s %s@127.0.0.1 %s"
	s.Says(fmt.Sprintf(ssh, "key", "ops", "'id -un; id -u; id -Gn; echo $SHELL; date +%Z | tr -d 0-9'"), "ops\n1500\nops adm video\n/bin/bash\n"+s.Does("date +%Z"))
	s.Refuses(fmt.Sprintf(ssh, "other", "ops", "true"), "Permission denied")
	s.Says("hostname; getent hosts controller-1 | tr -s ' '; readlink /etc/localtime", "compute-1\n10.0.0.1 controller-1\n../usr/share/zoneinfo/Europe/Zurich")
	s.Says("grep ^ops: /etc/shadow | cut -d: -f2", hashA)

	// sudo and time services are not installed.
	user.Sudo = true
	a = s.ask(ask{Items: []item.Item{account("ops", user), clockItem("Europe/Zurich", "10.0.0.1"), logs("udp://10.0.0.5")}})
	if a.Error != "" {
		t.Error(a.Error)
	}
	for field, want := range map[string]string{"users.ops.sudo=true": "add the package sudo", "logs.forward": "add the package rsyslog"} {
		if !strings.Contains(a.Seen.Cannot[field], want) {
			t.Errorf("%s cannot be: %q, want %q", field, a.Seen.Cannot[field], want)
		}
	}

	// root was there before: its own keys stay.
	s.Does("install -d -m 700 /root/.ssh; cp /root/other.pub /root/.ssh/authorized_keys")
	root := []item.Item{account("root", item.User{Keys: []string{key}})}
	if a = s.ask(ask{Items: root}); a.Error != "" || a.Seen.Have["users.root.keys"] != item.Keyring([]string{key}) {
		t.Errorf("root: %v, %s", a.Seen.Have, a.Error)
	}
	s.Says(fmt.Sprintf(ssh, "key", "root", "id -un")+"; "+fmt.Sprintf(ssh, "other", "root", "id -un"), "root\nroot")
	if a = s.ask(ask{Remove: []string{"users.root"}}); a.Error != "" {
		t.Error(a.Error)
	}
	s.Refuses(fmt.Sprintf(ssh, "key", "root", "true"), "Permission denied")
	s.Says("cat /root/.ssh/authorized_keys", other)

	// The account that Slipway logs in with, and one that is in use, stay.
	if a = s.ask(ask{Login: "ops", Remove: []string{"users.ops"}}); !strings.Contains(a.Error, "logs in as ops") {
		t.Errorf("got %q", a.Error)
	}
	s.Does("systemd-run -q --unit=busy --uid=ops sleep 600")
	if a = s.ask(ask{Remove: []string{"users.ops"}}); !strings.Contains(a.Error, "the account ops is in use") {
		t.Errorf("got %q", a.Error)
	}
	s.Does("systemctl stop busy; loginctl terminate-user ops 2>/dev/null || true; pkill -u ops || true")
	s.Comes("pgrep -u ops >/dev/null || echo none", "none")

	if a = s.ask(ask{Remove: []string{"hostname", "hosts", "time", "users.ops"}}); a.Error != "" {
		t.Fatal(a.Error)
	}
	if after := s.Does(listing); after != before {
		t.Errorf("what is left of /etc differs:\n%s", difference(before, after))
	}
	if !strings.Contains(strings.Join(a.Told, "\n"), "/home/ops is left") {
		t.Errorf("told is %q", a.Told)
	}
	s.Does("test -d /home/ops; test ! -e /home/ops/.ssh")
}
