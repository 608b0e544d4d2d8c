package config

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// enable has a unit of a package start with the system.
func (f *fake) enable(names ...string) {
	f.t.Helper()
	for _, n := range names {
		at := "/usr/lib/systemd/system/" + template(n)
		if _, err := os.Lstat(f.host.Path(at)); err != nil {
			f.put(at, fmt.Sprintf(packageUnit, n))
		}
		f.link("/etc/systemd/system/multi-user.target.wants/"+n, at)
	}
}

// newBusy is a Debian on which much starts.
func newBusy(t testing.TB) *fake {
	f := newFake(t)
	f.enable("cron.service", "ssh.service", "systemd-networkd.service", "nginx.service", "served.service", "worker@1.service", "named.service", "session.service")
	f.put("/usr/lib/systemd/system/nginx-a.socket", "[Socket]\nListenStream=80\nService=nginx.service\n[Install]\nWantedBy=sockets.target\n")
	f.put("/usr/lib/systemd/system/served.timer", "[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n")
	f.put("/usr/lib/systemd/system/other.timer", "[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n")
	f.enable("nginx-a.socket", "served.timer", "other.timer")
	// A person has put these there: a timer of a service that is not enabled, and one over the unit of a package.
	f.put("/etc/systemd/system/hand.timer", "[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n")
	f.link("/etc/systemd/system/timers.target.wants/hand.timer", "/etc/systemd/system/hand.timer")
	f.put("/etc/systemd/system/served.service", "[Service]\nExecStart=/bin/sleep 1\n[Install]\nWantedBy=multi-user.target\n")
	f.link("/etc/systemd/system/web.service", "/usr/lib/systemd/system/nginx.service") // another name
	f.put("/usr/lib/systemd/system-preset/90-vendor.preset", "# the distribution's\nenable named.service\ndisable a.service\nenable *\n")
	f.put(dpkgStatus, "Package: a\nStatus: install ok installed\nPriority: optional\n\nPackage: cron\nPriority: important\n\nPackage: nginx\nPriority: optional\n\nPackage: serves\nPriority: extra\n")
	for name, files := range map[string][]string{
		"a": {"/lib/systemd/system/a.service"}, "cron": {"/lib/systemd/system/cron.service"},
		"nginx:amd64": {"/usr/lib/systemd/system/nginx.service", "/usr/lib/systemd/system/nginx-a.socket"},
		"serves":      {"/lib/systemd/system/served.service", "/lib/systemd/system/served.timer", "/lib/systemd/system/other.timer", "/lib/systemd/system/worker@.service"},
	} {
		f.put(dpkgInfo+"/"+name+".list", "/.\n/usr\n"+strings.Join(files, "\n")+"\n")
	}
	pid := strconv.Itoa(os.Getpid())
	f.put("/proc/"+pid+"/status", "Name:\thelper\nPPid:\t777\n")
	f.put("/proc/"+pid+"/cgroup", "0::/user.slice/user-0.slice/session-1.scope\n")
	f.put("/proc/777/status", "Name:\tsshd\nPPid:\t1\n")
	f.put("/proc/777/cgroup", "1:name=systemd:/system.slice/session.service\n")
	return f
}

// listing are the units that are told of as not named, and from which package each is.
func (f *fake) unlistedUnits(more ...string) map[string]string {
	f.t.Helper()
	seen := f.observe(append(more, item.KindUnlisted)...)
	if why := seen.Unread[item.KindUnlisted]; why != "" {
		f.t.Fatal(why)
	}
	found := map[string]string{}
	for key, have := range seen.Have {
		if item.Kind(key) == item.KindUnlisted {
			found[item.ID(key)] = have
			if by := seen.Have[item.BroughtBy(item.ID(key))]; by != "" {
				found[item.ID(key)] += " of " + by
			}
		}
	}
	return found
}

func TestUnitsThatNobodyNamed(t *testing.T) {
	f := newBusy(t)
	want := map[string]string{
		"a.service": "enabled, running of a", "nginx.service": "enabled, stopped of nginx", "nginx-a.socket": "enabled, stopped of nginx",
		"served.service": "enabled, stopped of serves", "served.timer": "enabled, stopped of serves", "worker@1.service": "enabled, stopped of serves",
	}
	before := f.listing(true)
	if diff := cmp.Diff(want, f.unlistedUnits()); diff != "" {
		t.Error(diff)
	}
	if after := f.listing(true); after != before || f.writes > 0 {
		t.Errorf("looking has written: %s", difference(after, before))
	}
	// Whoever does not ask is told nothing, and nothing is read for it.
	if seen := f.observe("units.a.service"); len(seen.Have) != 2 {
		t.Errorf("seen %v", seen.Have)
	}
}

// What the design may mean a unit by is told with it: other names of it, packages that need the one
// which has brought it, and units that would stop with it, also over others.
func TestWhatAUnitMayBeMeantBy(t *testing.T) {
	f := newBusy(t)
	f.put(dpkgStatus, "Package: a\nStatus: install ok installed\n\nPackage: nginx\nStatus: install ok installed\nProvides: httpd (= 1.0)\n\n"+
		"Package: web\nStatus: install ok installed\nDepends: libc6 (>= 2.36),\n something:any\nPre-Depends: lighttpd | httpd\n\n"+
		"Package: shop\nStatus: install ok installed\nDepends: web:any (>= 1), a (<< 9)\n\nPackage: gone\nStatus: deinstall ok config-files\nDepends: a\n\nPackage: loop\nDepends: shop, loop\n")
	f.requires = map[string]string{"a.service": "b.service part.service", "part.service": "top.target"}
	f.parts = map[string]string{"a.service": "part.service", "top.target": "a.service"}
	f.host.Live = true
	seen := f.observe(item.KindUnlisted)
	for key, want := range map[string]string{
		item.BroughtBy("a.service"): "a loop shop", item.BroughtBy("nginx.service"): "nginx loop shop web", item.BroughtBy("served.service"): "serves",
		item.MeantBy("a.service"): "b.service part.service top.target", item.MeantBy("nginx.service"): "web.service", item.MeantBy("served.service"): "",
	} {
		if got := seen.Have[key]; got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

// What a thousand packages depend on is as good as the base, though its priority says otherwise.
func TestWhatMuchDependsOn(t *testing.T) {
	var status strings.Builder
	status.WriteString("Package: bus\nStatus: install ok installed\nPriority: optional\n\n")
	for i := range mostDependents {
		fmt.Fprintf(&status, "Package: p%d\nStatus: install ok installed\nDepends: bus\n\n", i)
	}
	if readInstalled([]byte(status.String())).isBase("bus") {
		t.Error("a thousand are not enough")
	}
	status.WriteString("Package: last\nStatus: install ok installed\nDepends: p7\n")
	if all := readInstalled([]byte(status.String())); !all.isBase("bus") || all.isBase("p7") || all.isBase("last") {
		t.Error("more than a thousand are")
	}
}

// In the RHEL family presets say what belongs to the base, and rpm which package a unit is from.
func TestUnitsThatNobodyNamedByRPM(t *testing.T) {
	f := newFake(t)
	f.enable("crond.service", "httpd.service")
	f.put("/usr/lib/systemd/system-preset/90-default.preset", "enable crond.*\n")
	f.put("/usr/lib/systemd/system-preset/99-default-disable.preset", "disable *\n")
	f.put("/var/lib/rpm/rpmdb.sqlite", "")
	f.rpm = map[string]string{"/usr/lib/systemd/system/httpd.service": "httpd-core"}
	want := map[string]string{"a.service": "enabled, running", "httpd.service": "enabled, stopped of httpd-core"}
	if diff := cmp.Diff(want, f.unlistedUnits()); diff != "" {
		t.Error(diff)
	}
	f.rpm = nil // it does not start
	if seen := f.observe(item.KindUnlisted); !strings.Contains(seen.Unread[item.KindUnlisted], "which package") || len(seen.Have) > 0 {
		t.Errorf("unread %v, have %v", seen.Unread, seen.Have)
	}
}

// What could not be listed is unknown, and not nothing.
func TestUnitsThatCouldNotBeListed(t *testing.T) {
	for what, spoil := range map[string]func(f *fake){
		"dpkg's lists":   func(f *fake) { f.link(dpkgInfo+"/z.list", "z.list") },
		"dpkg's status":  func(f *fake) { must(t, os.Remove(f.host.Path(dpkgStatus))); f.put(dpkgStatus+"/x", "") },
		"a preset":       func(f *fake) { f.link("/usr/lib/systemd/system-preset/10.preset", "10.preset") },
		"a unit's links": func(f *fake) { must(t, os.RemoveAll(f.host.Path(unitFolder))); f.link(unitFolder, "system") },
		"too many": func(f *fake) {
			for n := range maxUnlisted {
				f.enable(fmt.Sprintf("many-%d.service", n))
			}
		},
	} {
		f := newBusy(t)
		spoil(f)
		seen := f.observe(item.KindUnlisted)
		if seen.Unread[item.KindUnlisted] == "" || len(seen.Have) > 0 {
			t.Errorf("%s: unread %v, have %v", what, seen.Unread, seen.Have)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A unit that nobody named is disabled and stopped, what starts it first, and comes back as it was.
func TestUnlistedUnitsComeBack(t *testing.T) {
	f := newBusy(t)
	f.active["nginx.service"], f.active["nginx-a.socket"] = "active", "active"
	before := f.listing(false)
	items := []item.Item{unlisted("a.service"), unlisted("nginx-a.socket"), unlisted("nginx.service"), unlisted("hand.timer"), unlisted("worker@1.service")}
	must(t, f.apply(items))
	if wrong := f.met(items); len(wrong) > 0 {
		t.Errorf("not met: %q", wrong)
	}
	if f.active["nginx.service"]+f.active["nginx-a.socket"]+f.active["a.service"] != "" {
		t.Errorf("still active: %v", f.active)
	}
	calls := strings.Join(f.calls, "\n")
	if socket, service := strings.Index(calls, "stop -- nginx-a.socket"), strings.Index(calls, "stop -- nginx.service"); socket < 0 || service < socket {
		t.Errorf("calls:\n%s", calls)
	}
	f.reload()
	if found := f.unlistedUnits(item.Keys(items)...); found["a.service"] != "disabled of a" || found["served.service"] == "" {
		t.Errorf("found %v", found)
	}
	f.writes = 0
	for _, i := range f.survey().Items {
		if i.Key == "units.a.service" {
			t.Error("the survey takes what Slipway has disabled for what a person has")
		}
	}
	must(t, f.apply(nil, item.Keys(items)...))
	if after := f.listing(false); after != before {
		t.Errorf("not as before:\n%s", difference(after, before))
	}
	if keys := f.host.Owned.Keys(name); len(keys) > 0 {
		t.Errorf("still owned: %v", keys)
	}
}

// One that a person has enabled again is disabled again, and one whose package is gone is as
// asked, and leaves no link behind.
func TestUnlistedUnitsThatPeopleChange(t *testing.T) {
	f := newBusy(t)
	items := []item.Item{unlisted("a.service")}
	must(t, f.apply(items))
	f.enable("a.service")
	f.active["a.service"] = "active"
	if wrong := f.met(items); !slices.Equal(wrong, []string{`unlisted.a.service is "enabled, running", want "disabled"`}) {
		t.Errorf("met: %q", wrong)
	}
	must(t, f.apply(items))
	if wrong := f.met(items); len(wrong) > 0 {
		t.Errorf("not met: %q", wrong)
	}
	must(t, os.Remove(f.host.Path("/usr/lib/systemd/system/a.service")))
	if wrong := f.met(items); len(wrong) > 0 {
		t.Errorf("without its package: %q", wrong)
	}
	must(t, f.apply(nil, "unlisted.a.service"))
	if _, err := os.Lstat(f.host.Path("/etc/systemd/system/multi-user.target.wants/a.service")); err == nil {
		t.Error("there is a link to a unit that is gone")
	}
}

// A unit that the design names after it was disabled is as the design says, and comes back as it
// was before both; it is not started in between.
func TestAUnitThatIsNamedLater(t *testing.T) {
	f := newBusy(t)
	before := f.listing(false)
	must(t, f.apply([]item.Item{unlisted("a.service")}))
	f.calls = nil
	items := []item.Item{unit("a.service", "", "disabled", "")}
	must(t, f.apply(items, "unlisted.a.service"))
	if wrong := f.met(items); len(wrong) > 0 || f.active["a.service"] != "active" {
		t.Errorf("not met: %q; active: %v", wrong, f.active)
	}
	if keys := f.host.Owned.Keys(name); !slices.Equal(keys, []string{"units.a.service"}) {
		t.Errorf("owned: %v", keys)
	}
	must(t, f.apply(nil, item.Keys(items)...))
	if after := f.listing(false); after != before {
		t.Errorf("not as before:\n%s", difference(after, before))
	}
}

// What the machine is reached by is not disabled, whoever asks.
func TestNeededUnitsAreNotDisabled(t *testing.T) {
	f := newBusy(t)
	for _, n := range []string{"ssh.service", "systemd-networkd.service", "NetworkManager.service", "dbus.service", "chrony.service", "getty@tty1.service", "slipway.service", "session.service"} {
		refuses(t, f, unlisted(n), "the system needs "+n)
	}
	refuses(t, f, unlisted("a b.service"), "not a name of a systemd unit")
	refuses(t, f, item.Item{Key: "unlisted.a.service", Fields: map[string]string{"": "enabled"}}, "cannot be made")
	must(t, f.apply([]item.Item{unit("a.service", "", "disabled", "")}))
	if err := f.apply([]item.Item{unlisted("a.service")}); class(err) != wire.Failed || !strings.Contains(err.Error(), "Slipway has not yet set it back") {
		t.Errorf("a unit of the design is disabled: %v", err)
	}
}

// In a system that does not run, links alone say what starts.
func TestUnlistedUnitsOfASystemThatDoesNotRun(t *testing.T) {
	f := newBusy(t)
	f.host.Live = false
	if found := f.unlistedUnits(); found["a.service"] != "enabled of a" || found["session.service"] == "" {
		t.Errorf("found %v", found)
	}
	before := f.listing(false)
	items := []item.Item{unlisted("a.service")}
	must(t, f.apply(items))
	if wrong := f.met(items); len(wrong) > 0 || f.active["a.service"] == "" {
		t.Errorf("not met: %q; active %v", wrong, f.active)
	}
	must(t, f.apply(nil, item.Keys(items)...))
	if after := f.listing(false); after != before {
		t.Errorf("not as before:\n%s", difference(after, before))
	}
}

// rpmSays is what rpm -qf prints of a file.
func (f *fake) rpmSays(args []string) (inside.Output, error) {
	if f.rpm == nil {
		return inside.Output{Code: 127}, os.ErrNotExist
	}
	file := args[len(args)-1]
	if by := f.rpm[file]; by != "" {
		return inside.Output{Out: []byte(by + "\n")}, nil
	}
	return inside.Output{Code: 1, Out: []byte("file " + file + " is not owned by any package\n")}, nil
}
