package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// actionSystem is a Debian that Slipway has installed, with the helper.
type actionSystem struct {
	*nspawn.System
	t *testing.T
}

func bootActionSystem(t *testing.T) actionSystem {
	s := actionSystem{nspawn.Boot(t, nspawn.Loopback), t}
	program, err := os.ReadFile(build(t, runtime.GOARCH))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"var/lib/slipway-inside/helper-1": program, "etc/slipway/marker.json": []byte(`{"node": "n1", "generation": 3, "image": "ab12"}`),
	} {
		path := filepath.Join(s.Root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// ask runs the helper inside.
func (s actionSystem) ask(r wire.Request) *wire.Result {
	s.t.Helper()
	r.Version, r.Site, r.Node = wire.Version, "test", "n1"
	in, err := os.Create(filepath.Join(s.Root, "root/request"))
	if err == nil {
		err = wire.Write(in, r)
		in.Close()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.Does("/var/lib/slipway-inside/helper-1 </root/request >/root/answer")
	out, err := os.Open(filepath.Join(s.Root, "root/answer"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer out.Close()
	for {
		var f wire.Frame
		if err := wire.Read(out, &f); err != nil {
			s.t.Fatal(err)
		}
		if f.Result != nil {
			return f.Result
		}
	}
}

// do asks for an attempt of an action, and gives what was wrong.
func (s actionSystem) do(name string, attempt int, a item.Action) string {
	s.t.Helper()
	i := item.New(item.KindBootActions+"."+name, map[string]string{"": item.Done}, a)
	r := s.ask(wire.Request{Op: wire.OpApply, Apply: &wire.Apply{Facet: "actions", Items: []item.Item{i}, Once: &item.Once{Attempt: attempt}}})
	if r.Error != nil {
		return r.Error.Text
	}
	return ""
}

// is what an action is, and what is wrong with it.
func (s actionSystem) is(name string) (is, attempts, why string) {
	s.t.Helper()
	key := item.KindBootActions + "." + name
	r := s.ask(wire.Request{Op: wire.OpObserve, Observe: map[string][]string{"actions": {key}}})
	if r.Error != nil {
		s.t.Fatal(r.Error)
	}
	f := r.Facets["actions"]
	return f.Have[key], f.Have[key+".attempts"], f.Cannot[key] + f.Unread[key]
}

// becomes waits until an action is something, and holds what is said of it.
func (s actionSystem) becomes(name, want, attempts, says string) {
	s.t.Helper()
	s.Comes("grep -c '\"ended\"' /var/lib/slipway-inside/actions/"+name+".json", "1")
	if is, n, why := s.is(name); is != want || n != attempts || !strings.Contains(why, says) {
		s.t.Errorf("%s is %q after %s attempts: %q; want %q after %s: %q", name, is, n, why, want, attempts, says)
	}
}

func (s actionSystem) ran(name, times string) {
	s.t.Helper()
	s.Says("cat /var/"+name+" 2>/dev/null | grep -c ran || true", times)
}

// On a real systemd a boot action runs once, outlives its session, and waits for a person when
// nobody knows how it ended.
func TestProveBootActions(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		t.Skip("boots a whole system: set SLIPWAY_PROVE")
	}
	nspawn.Require(t)
	s := bootActionSystem(t)
	shell := func(script string, args ...string) []string {
		return append([]string{"/bin/sh", "-c", script}, args...)
	}

	// What it brings is there before its command, which gets its arguments as they are.
	content, on := "ours", item.Item{}
	motd := item.File{Content: []byte("hello\n"), Mode: "0640", Owner: "root", Group: "root"}
	unit := "[Service]\nExecStart=/bin/sleep infinity\n"
	on = item.New("units.ours.service", map[string]string{"content": item.Digest([]byte(unit)), "state": "running"}, item.Unit{Content: &unit})
	strange := "$USER %n ${HOME} ; a'b\"c \\ `id`"
	quick := item.Action{
		Config:  []item.Item{item.New("files./srv/motd", motd.Fields(), motd), on},
		Run:     shell(`echo ran >>/var/quick; cat /srv/motd; systemctl is-active ours.service; printf '%s' "$0" >/var/args; echo `+content, strange),
		Timeout: time.Minute,
	}
	if is, n, why := s.is("quick"); is != item.NotDone || n != "0" || why != "" {
		t.Errorf("before: %q, %q, %q", is, n, why)
	}
	for range 2 {
		if wrong := s.do("quick", 1, quick); wrong != "" {
			t.Fatal(wrong)
		}
	}
	s.becomes("quick", item.Done, "1", "")
	s.ran("quick", "1")
	s.Says("cat /var/args", strange)
	s.Says("cat /srv/motd; stat -c %a /srv/motd; systemctl is-active ours.service", "hello\n640\nactive")
	s.Comes("journalctl -o cat -u slipway-action-quick", "hello\nactive\nours")
	s.Says("test -e /var/lib/slipway-inside/owned.json || echo none", "none")

	// It outlives the session, is joined, and is never begun twice.
	long := item.Action{Run: shell("echo ran >>/var/long; sleep 600 & sleep 600"), Timeout: time.Hour}
	for range 3 {
		if wrong := s.do("long", 1, long); wrong != "" {
			t.Fatal(wrong)
		}
		if is, n, why := s.is("long"); is != item.Running || n != "1" || why != "" {
			t.Errorf("while it runs: %q, %q, %q", is, n, why)
		}
	}
	s.Cut()
	s.Start()
	for range 2 {
		if is, n, why := s.is("long"); is != item.Unfinished || n != "1" || !strings.Contains(why, "Slipway does not know how it ended: the machine went down meanwhile") {
			t.Errorf("after the power cut: %q, %q, %q", is, n, why)
		}
		if wrong := s.do("long", 1, long); !strings.Contains(wrong, "the machine went down meanwhile") {
			t.Errorf("asked for again: %q", wrong)
		}
	}
	s.ran("long", "1")
	s.becomes("quick", item.Done, "1", "") // also after the boot
	if wrong := s.do("quick", 1, quick); wrong != "" {
		t.Error(wrong)
	}
	s.ran("quick", "1")

	// A person's wish begins it once more. Stopped, killed and late ones wait again.
	if wrong := s.do("long", 2, long); wrong != "" {
		t.Fatal(wrong)
	}
	s.ran("long", "2")
	s.Does("systemctl stop slipway-action-long")
	s.becomes("long", item.Failed, "2", "it was stopped from outside")
	if wrong := s.do("long", 3, long); wrong != "" {
		t.Fatal(wrong)
	}
	s.Does("kill -9 $(systemctl show -P MainPID slipway-action-long)")
	s.Comes("systemctl is-active slipway-action-long || true", "inactive")
	if is, n, why := s.is("long"); is != item.Unfinished || n != "3" || !strings.Contains(why, "is gone, as if it was killed") {
		t.Errorf("killed: %q, %q, %q", is, n, why)
	}
	s.ran("long", "3")
	s.Says("pgrep -c sleep || true", "0")
	slow := item.Action{Run: shell("sleep 600 & sleep 600"), Timeout: time.Second}
	if wrong := s.do("slow", 1, slow); wrong != "" {
		t.Fatal(wrong)
	}
	s.becomes("slow", item.Failed, "1", "it did not end within 1s, and was ended")
	s.Comes("pgrep -c sleep || true", "0")

	// Much output is cut, and the code of its end told.
	loud := item.Action{Run: shell("yes 0123456789 | head -c 20000000; printf '\\nthe \\033[31mreason\\n' >&2; exit 7"), Timeout: time.Minute}
	_ = s.do("loud", 1, loud) // it may have ended already
	s.becomes("loud", item.Failed, "1", "its exit code is 7; it printed last: the  [31mreason")
	s.Says("[ $(stat -c %s /var/lib/slipway-inside/actions/loud.json) -lt 4000 ] && echo small", "small")
	s.Says("stat -c '%a %U' /var/lib/slipway-inside/actions /var/lib/slipway-inside/actions/loud.json", "700 root\n600 root")
}
