package config

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

func TestUnits(t *testing.T) {
	f := newFake(t)
	f.link("/etc/systemd/system/b.service", "/dev/null")
	seen := f.observe("units.a.service", "units.b.service", "units.static.service", "units.none.service", "units.-x", "units.a\nb.service")
	for n, want := range map[string]string{
		"units.a.service.enabled": "true", "units.a.service.state": "running", "units.b.service.state": "masked", "units.b.service.enabled": "false",
		"units.static.service.enabled": "false", "units.static.service.state": "stopped", "units.none.service.enabled": "", "units.none.service.state": "",
	} {
		if seen.Have[n] != want {
			t.Errorf("%s is %q, want %q", n, seen.Have[n], want)
		}
	}
	if seen.Cannot["units.-x"] == "" || seen.Cannot["units.a\nb.service"] == "" {
		t.Errorf("cannot: %v", seen.Cannot)
	}
	if len(f.calls) != 1 {
		t.Errorf("%d programs were run: %v", len(f.calls), f.calls)
	}
	refuses(t, f, unit("none.service", "", "enabled", ""), "no unit none.service on this system")
	refuses(t, f, unit("a.service", "", "", "dancing"), "the states are")
	refuses(t, f, unit("a.service", "x", "", "masked"), "no content")
	refuses(t, f, unit("a@.service", "x", "", "running"), "is a template")
	if err := f.apply([]item.Item{unit("static.service", "", "enabled", "")}); class(err) != wire.Refused || !strings.Contains(err.Error(), "[Install]") {
		t.Errorf("a static unit is enabled: %v", err)
	}
}

// A unit whose content changed is restarted once, after one daemon-reload, and
// people are told.
func TestAChangedUnitIsRestarted(t *testing.T) {
	f := newFake(t)
	if err := f.apply([]item.Item{unit("n.service", contentUnit("basic.target"), "enabled", "running"), unit("b.service", "", "enabled", "")}); err != nil {
		t.Fatal(err)
	}
	f.calls, f.told = nil, nil
	next := []item.Item{unit("n.service", contentUnit("basic.target")+"# changed\n", "enabled", "running"), unit("b.service", contentUnit("basic.target"), "enabled", "")}
	if err := f.apply(next); err != nil {
		t.Fatal(err)
	}
	calls := strings.Join(f.calls, "\n")
	if strings.Count(calls, "daemon-reload") != 1 || strings.Count(calls, " restart ") != 1 || strings.Count(calls, " start ") != 0 {
		t.Errorf("calls:\n%s", calls)
	}
	if !slices.ContainsFunc(f.told, func(s string) bool { return strings.Contains(s, "restart n.service") }) {
		t.Errorf("told %q", f.told)
	}
}

// Wherever a change of a unit is cut, it is seen to be as designed only when systemd goes by
// its new file.
func TestACutChangeOfAUnitIsSeen(t *testing.T) {
	was, next := unit("n.service", contentUnit("basic.target"), "enabled", "running"), unit("n.service", contentUnit("basic.target")+"# changed\n", "enabled", "running")
	cuts := 0
	for limit := 1; ; limit++ {
		f := newFake(t)
		if err := f.apply([]item.Item{was}); err != nil {
			t.Fatal(err)
		}
		f.writes, f.limit = 0, limit
		err := f.apply([]item.Item{next})
		f.limit = 0
		f.reload()
		if err == nil {
			break
		}
		cuts++
		if wrong := f.met([]item.Item{next}); len(wrong) == 0 && f.runs["n.service"] != f.content("n.service") {
			t.Errorf("cut after write %d: it is seen as designed, and runs by its earlier file", limit)
		}
		if err := f.apply([]item.Item{next}); err != nil {
			t.Fatal(err)
		}
		if wrong := f.met([]item.Item{next}); len(wrong) > 0 || f.runs["n.service"] != f.content("n.service") {
			t.Errorf("cut after write %d, and again: %q, and it runs by %q", limit, wrong, f.runs["n.service"])
		}
	}
	if cuts < 3 {
		t.Errorf("cut %d times", cuts)
	}
}

// At a boot systemd reads all files and starts units by them: what a run that was cut before
// left to be done is done then, and nothing is claimed or restarted that need not be.
func TestACutChangeIsOverAfterABoot(t *testing.T) {
	const dropIn = "/etc/systemd/system/b.service.d/mine.conf"
	was := []item.Item{unit("n.service", contentUnit("basic.target"), "enabled", "running")}
	next := []item.Item{unit("n.service", contentUnit("basic.target")+"# changed\n", "enabled", "running"), file(dropIn, "[Service]\nNice=1\n", "0644", "root")}
	f := newFake(t)
	if err := f.apply(was); err != nil {
		t.Fatal(err)
	}
	f.stale = true // no daemon-reload and no restart works
	if err := f.apply(next); err == nil {
		t.Fatal("it was not cut")
	}
	f.stale = false
	f.reload()
	if wrong := f.met(next); len(wrong) != 2 {
		t.Errorf("before the boot: %q", wrong)
	}
	f.put("/proc/sys/kernel/random/boot_id", "boot-2\n")
	f.loaded["n.service"] = f.content("n.service")
	f.runs["n.service"] = f.content("n.service")
	if wrong := f.met(next); len(wrong) > 0 {
		t.Errorf("after the boot: %q", wrong)
	}
	f.calls = nil
	if err := f.apply(next); err != nil {
		t.Fatal(err)
	}
	if calls := strings.Join(f.calls, "\n"); strings.Contains(calls, "restart") || strings.Contains(calls, "daemon-reload") {
		t.Errorf("after the boot it ran:\n%s", calls)
	}
}

// Wherever a change of a drop-in is cut, its coming and its going, it is done with only when
// systemd has read it.
func TestACutChangeOfADropInIsSeen(t *testing.T) {
	const dropIn = "/etc/systemd/system/b.service.d/mine.conf"
	with := []item.Item{file(dropIn, "[Service]\nNice=1\n", "0644", "root")}
	for name, change := range map[string]func(f *fake) error{
		"made":    func(f *fake) error { return f.apply(with) },
		"removed": func(f *fake) error { return f.apply(nil, with[0].Key) },
	} {
		cuts := 0
		for limit := 1; ; limit++ {
			f := newFake(t)
			if name == "removed" {
				if err := f.apply(with); err != nil {
					t.Fatal(err)
				}
			}
			f.writes, f.limit, f.calls = 0, limit, nil
			err := change(f)
			f.limit = 0
			f.reload()
			if err == nil {
				break
			}
			cuts++
			isDone := len(f.met(with)) == 0
			if _, ours := f.host.Owned.Entry("config", with[0].Key); name == "removed" {
				isDone = !ours
			}
			read := func() bool { return strings.Contains(strings.Join(f.calls, "\n"), "daemon-reload") }
			if isDone && !read() {
				t.Errorf("%s, cut after write %d: it is done, and systemd has not read it", name, limit)
			}
			f.calls = nil
			if err := change(f); err != nil {
				t.Fatal(err)
			}
			if limit > 1 && !read() && !isDone {
				t.Errorf("%s, cut after write %d, and again: systemd has not read it", name, limit)
			}
			if wrong := f.met(with); name == "made" && len(wrong) > 0 {
				t.Errorf("%s, cut after write %d, and again: %q", name, limit, wrong)
			}
		}
		if cuts < 2 {
			t.Errorf("%s: cut %d times", name, cuts)
		}
	}
}

func TestAUnitThatDoesNotStart(t *testing.T) {
	f := newFake(t)
	f.fails["bad.service"] = true
	items := []item.Item{unit("bad.service", contentUnit("basic.target"), "", "running"), unit("b.service", "", "", "running")}
	err := f.apply(items)
	if class(err) != wire.Failed || !strings.Contains(err.Error(), "Active: failed") || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%v", err)
	}
	if f.active["b.service"] != "active" {
		t.Error("the other unit was not started")
	}
	if have := f.observe("units.bad.service").Have["units.bad.service.state"]; have != "failed" {
		t.Errorf("it is seen as %q", have)
	}
	delete(f.fails, "bad.service")
	if err := f.apply(items); err != nil || len(f.met(items)) > 0 {
		t.Errorf("%v, %v", err, f.met(items))
	}
}

// The lines that a unit printed before it failed are told without its secrets.
func TestAUnitThatPrintsASecret(t *testing.T) {
	f := newFake(t)
	f.fails["bad.service"] = true
	f.prints = "bad[1]: connecting with password hunter\nbad[1]: refused"
	err := f.apply([]item.Item{unit("bad.service", contentUnit("basic.target"), "", "running")})
	if err == nil || strings.Contains(err.Error(), "hunter") || !strings.Contains(err.Error(), "[redacted]\nbad[1]: refused") {
		t.Errorf("%v", err)
	}
}

// While a system is installed nothing is started, and units are enabled offline.
func TestUnitsWhileInstalling(t *testing.T) {
	f := newFake(t)
	f.host.Live = false
	items := []item.Item{unit("b.service", "", "enabled", "running"), sysctl("vm.swappiness", "10"), sysctl("net.none", "1"), module("bonding", "")}
	if err := f.apply(items); err != nil {
		t.Fatal(err)
	}
	calls := strings.Join(f.calls, "\n")
	if calls != "systemctl --no-pager --no-ask-password --root=/ --no-reload enable -- b.service" {
		t.Errorf("calls:\n%s", calls)
	}
	if f.read("/proc/sys/vm/swappiness") != "60\n" {
		t.Error("a parameter of the kernel that runs was written")
	}
	if wrong := f.met(items); len(wrong) > 0 {
		t.Error(wrong)
	}
}

func FuzzUnitFile(f *testing.F) {
	f.Add("[Install]\nWantedBy=a\n")
	f.Add("[Unit]\nAlso=\\\n[Install]\n\\\nAlso=x")
	f.Fuzz(func(t *testing.T, text string) {
		i := parseInstall(text)
		if (i.rules || i.also) && !strings.Contains(text, "[Install]") {
			t.Errorf("%q has rules without a section", text)
		}
	})
}

// A unit that the design had started is stopped when it leaves the design, also where its
// package was removed before and did not stop it.
func TestAUnitWhosePackageIsGoneIsStopped(t *testing.T) {
	f, items := newFake(t), []item.Item{unit("b.service", "", "enabled", "running")}
	if err := f.apply(items); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(f.host.Path("/usr/lib/systemd/system/b.service")); err != nil {
		t.Fatal(err)
	}
	f.reload()
	if err := f.apply(nil, item.Keys(items)...); err != nil || f.active["b.service"] != "" {
		t.Errorf("it is %q, %v", f.active["b.service"], err)
	}
}

// A file that takes the place of a unit that Slipway made leaves nothing of that unit
// when it leaves the design.
func TestAFileInThePlaceOfAUnit(t *testing.T) {
	f := newFake(t)
	before := f.listing(false)
	first := []item.Item{unit("new.service", contentUnit("multi-user.target"), "enabled", "running")}
	second := []item.Item{file("/etc/systemd/system/new.service", contentUnit("basic.target"), "0644", "root")}
	for _, c := range []struct {
		items  []item.Item
		remove []string
	}{{first, nil}, {second, item.Keys(first)}, {nil, item.Keys(second)}} {
		if err := f.apply(c.items, c.remove...); err != nil {
			t.Fatal(err)
		}
		if wrong := f.met(c.items); len(wrong) > 0 {
			t.Errorf("%v", wrong)
		}
		f.reload()
	}
	if after := f.listing(false); after != before {
		t.Errorf("it is not as before:\n%s", difference(after, before))
	}
}

// The design's unit file was over one that a package brought, and the package is gone: with
// the design's file the last one goes, and the unit is stopped before.
func TestAUnitEndsWithItsLastFile(t *testing.T) {
	f := newFake(t)
	const packaged = "/usr/lib/systemd/system/packaged.service"
	f.put(packaged, "[Service]\nExecStart=/bin/packaged\n")
	ours := []item.Item{unit("packaged.service", "[Service]\nExecStart=/bin/ours\n", "", "running")}
	if err := f.apply(ours); err != nil || f.active["packaged.service"] != "active" {
		t.Fatalf("%v, %v", err, f.active)
	}
	if err := os.Remove(f.host.Path(packaged)); err != nil {
		t.Fatal(err)
	}
	if err := f.apply(nil, "units.packaged.service"); err != nil {
		t.Fatal(err)
	}
	if is, runs := f.active["packaged.service"]; runs {
		t.Errorf("it is %s, and no file says what it is", is)
	}
}
