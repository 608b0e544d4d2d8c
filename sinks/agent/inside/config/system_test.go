package config

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// request is what this program is started for inside a system.
type request struct {
	Items   []item.Item
	Remove  []string
	Observe []string
	Enabled []string // units whose files tell how they are enabled
}

// answer is what it prints.
type answer struct {
	Seen   inside.Seen
	Error  string
	Told   []string
	Writes int // how many writes were made
	// Enabled are the words of `systemctl is-enabled`, as the files have them.
	Enabled map[string]string
}

// inSystem is the environment variable that says so.
const inSystem = "SLIPWAY_TEST_INSIDE"

// TestMain is also the program inside a system.
func TestMain(m *testing.M) {
	if os.Getenv(inSystem) == "" {
		os.Exit(m.Run())
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve() error {
	var r request
	var a answer
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		return err
	}
	h := inside.Real("/", true)
	h.Tell = func(s string) { a.Told = append(a.Told, s) }
	var err error
	if h.Owned, err = inside.LoadOwned("/"); err != nil {
		return err
	}
	f := facet{before: func(string) error { a.Writes++; return nil }}
	if len(r.Items)+len(r.Remove) > 0 {
		if err := f.Apply(context.Background(), h, r.Items, r.Remove); err != nil {
			a.Error = err.Error()
		}
	}
	w, err := f.begin(context.Background(), h)
	if err != nil {
		return err
	}
	l, err := w.readLinks()
	if err != nil {
		return err
	}
	a.Enabled = map[string]string{}
	for _, n := range r.Enabled {
		u, err := w.unit(n, l)
		if err != nil {
			return err
		}
		a.Enabled[n] = u.enabled
	}
	if a.Seen, err = f.Observe(context.Background(), h, r.Observe); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(a)
}

// ask runs this program inside a system.
func ask(t *testing.T, s *nspawn.System, r request) (a answer) {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Root, "root/request"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	out := s.Does(inSystem + "=1 /root/program </root/request")
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return a
}

const runs = "[Unit]\nDescription=runs\n[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"

// A real Debian with systemd does what the items say, and is as before without them.
func TestRealSystem(t *testing.T) {
	nspawn.Require(t)
	s := nspawn.Boot(t, nspawn.Loopback)
	s.BringSelf()
	listing := "find /etc /srv -xdev -printf '%p %y %m %u:%g %l\\n' | sort; find /etc /srv -xdev -type f -print0 | sort -z | xargs -0 sha256sum; systemctl list-units --no-legend --plain --state=running --type=service,timer; cat /proc/sys/net/ipv4/conf/all/accept_redirects"
	s.Does("echo 0 >/proc/sys/net/ipv4/conf/all/accept_redirects") // the kernel sets it anew with ip_forward
	before := s.Does(listing)

	// What is-enabled says of every unit is what the files say.
	t.Run("enabled", func(t *testing.T) { comparesEnabled(t, s) })

	items := []item.Item{
		file("/etc/motd", "ours\n", "0640", "root"), file("/srv/a/b", "x", "0600", "root"),
		unit("runs.service", runs, "enabled", "running"), unit("fstrim.timer", "", "enabled", ""), unit("e2scrub_all.timer", "", "", "masked"),
		sysctl("net.ipv4.ip_forward", "1"), sysctl("net.ipv4.conf.lo.rp_filter", "2"),
	}
	a := ask(t, s, request{Items: items, Observe: item.Keys(items)})
	if a.Error != "" {
		t.Fatal(a.Error)
	}
	met(t, a, items)
	s.Says("systemctl is-active runs.service", "active")
	s.Says("systemctl is-enabled runs.service fstrim.timer", "enabled\nenabled")
	s.Says("systemctl is-enabled e2scrub_all.timer || true", "masked")
	s.Says("cat /proc/sys/net/ipv4/ip_forward", "1")
	s.Says("grep -v '^#' /etc/sysctl.d/60-slipway.conf", "net.ipv4.conf.lo.rp_filter = 2\nnet.ipv4.ip_forward = 1")

	if a = ask(t, s, request{Items: items, Observe: item.Keys(items)}); a.Error != "" || a.Writes != 0 {
		t.Errorf("a second time: %q, %d writes", a.Error, a.Writes)
	}

	pid := s.Does("systemctl show -P MainPID runs.service")
	items[2] = unit("runs.service", strings.Replace(runs, "runs", "changed", 1), "enabled", "running")
	a = ask(t, s, request{Items: items, Observe: item.Keys(items)})
	met(t, a, items)
	if s.Does("systemctl show -P MainPID runs.service") == pid || !slices.ContainsFunc(a.Told, func(s string) bool { return strings.Contains(s, "restart runs.service") }) {
		t.Errorf("a changed unit was not restarted, told %q", a.Told)
	}
	s.Says("systemctl show -P Description runs.service", "changed")

	bad := []item.Item{
		unit("bad.service", "[Service]\nExecStart=/bin/sh -c 'echo the reason; exit 3'\nType=oneshot\n", "", "running"),
		unit("none.service", "", "enabled", ""), sysctl("net.ipv4.ip_forward", "no number"), sysctl("no.such.thing", "1"), unit("dbus.service", "", "enabled", ""),
	}
	a = ask(t, s, request{Items: bad, Observe: item.Keys(bad)})
	for _, want := range []string{"bad.service did not start", "status=3", "no unit none.service", "ip_forward", "no parameter no.such.thing", "[Install]"} {
		if !strings.Contains(a.Error, want) {
			t.Errorf("the error has no %q: %s", want, a.Error)
		}
	}
	if a.Seen.Have["units.bad.service.state"] != "failed" {
		t.Errorf("have %v", a.Seen.Have)
	}
	if a = ask(t, s, request{Remove: append(item.Keys(items), item.Keys(bad)...)}); a.Error != "" {
		t.Fatal(a.Error)
	}
	if after := s.Does(listing); after != before {
		t.Errorf("not as before:\n%s", difference(after, before))
	}
	s.Says("systemctl --failed --no-legend --plain | grep -c bad.service || true", "0")
}

func comparesEnabled(t *testing.T, s *nspawn.System) {
	var names []string
	want := map[string]string{}
	for line := range strings.Lines(s.Does("systemctl list-unit-files --no-legend --no-pager --plain")) {
		f := strings.Fields(line)
		if badUnit(f[0]) {
			t.Errorf("%q is no name of a unit", f[0])
		}
		names = append(names, f[0])
		want[f[0]] = f[1]
	}
	have, compared := ask(t, s, request{Enabled: names}).Enabled, map[string]int{}
	for n, w := range want {
		if have[n] != w && !(have[n] == "" && (isTemplate(n) || w == "generated" || w == "transient")) {
			t.Errorf("%s is %q, and systemctl says %q", n, have[n], w)
		}
		compared[w]++
	}
	if compared[enabled] == 0 || compared[disabled] == 0 || compared[static] == 0 || compared[alias] == 0 {
		t.Errorf("too little was compared: %v", compared)
	}
}

func met(t *testing.T, a answer, items []item.Item) {
	t.Helper()
	for n, want := range item.Values(items) {
		if have := a.Seen.Have[n]; have != want {
			t.Errorf("%s is %q, want %q (%s)", n, have, want, a.Error)
		}
	}
}
