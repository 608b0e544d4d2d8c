package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/tree"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

var errCut = errors.New("cut off")

// fake is a system in a folder, whose programs are functions.
type fake struct {
	t             testing.TB
	host          *inside.Host
	calls         []string
	writes, limit int
	code          int // of every program
	simulated     string
	menu          func() // what update-grub does instead
}

const status = `Package: linux-image-amd64
Status: install ok installed
Depends: linux-image-6.1.0-18-amd64 (= 6.1.76-1)

Package: linux-image-6.1.0-18-amd64
Status: install ok installed
Depends: kmod, linux-base (>= 4.3~)

Package: linux-image-5.10.0-1-amd64
Status: deinstall ok config-files

Package: linux-base
Status: install ok installed

Package: bash
Status: install ok installed
`

func newFake(t testing.TB, l loader) *fake {
	root, err := os.MkdirTemp("/dev/shm", "slipway-kernel-")
	if err != nil {
		root = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	f := &fake{t: t}
	f.host = &inside.Host{Root: root, Live: true, Exec: f.exec, Tell: func(string) {}}
	f.reload()
	f.put("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=UUID=1 ro quiet console=tty0 console=ttyS0\n")
	f.put("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n")
	f.put("/boot/vmlinuz-6.1.0-18-amd64", "")
	f.put("/lib/modules/6.1.0-18-amd64/modules.builtin", "")
	f.put("/etc/default/grub", "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n")
	switch l {
	case grub:
		f.put("/usr/sbin/update-grub", "")
		f.put("/var/lib/dpkg/status", status)
		f.updateGrub()
	case grubby:
		f.put("/usr/sbin/grubby", "")
		f.put("/boot/grub2/grubenv", "# GRUB Environment Block\nsaved_entry=b-2\nkernelopts=root=UUID=1 ro tuned=1\n")
		for _, n := range []string{"b-1", "b-2", "b-0-rescue"} {
			f.put("/boot/loader/entries/"+n+".conf", "title x\nlinux /vmlinuz\noptions $kernelopts crash=auto\n")
		}
	case stub:
		f.put("/usr/bin/kernel-install", "")
		f.put("/efi/loader/entries/m-6.1.conf", "options root=UUID=1 ro quiet\n")
	}
	return f
}

func (f *fake) put(path, content string) {
	f.t.Helper()
	at := f.host.Path(path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(content), 0o644)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fake) read(path string) string {
	text, _ := os.ReadFile(f.host.Path(path))
	return string(text)
}

func (f *fake) reload() {
	owned, err := inside.LoadOwned(f.host.Root)
	if err != nil {
		f.t.Fatal(err)
	}
	f.host.Owned = owned
}

// would is what apt-get -s tells of installing a package.
func (f *fake) would(n string) string {
	if f.simulated != "" {
		return f.simulated
	}
	return "Inst " + n + " (1 Debian:12 [amd64])\n"
}

// updateGrub does what update-grub does with the two variables.
func (f *fake) updateGrub() {
	ours := ""
	if _, text, found := strings.Cut(f.read(grubFile), "GRUB_CMDLINE_LINUX="); found {
		_, ours, _ = strings.Cut(text, "'")
		ours = ours[:strings.LastIndex(ours, "'")]
	}
	f.put(grubConfig, "menuentry x {\n\tlinux\t/vmlinuz root=UUID=1 ro base=1 "+ours+" quiet\n}\n")
}

func (f *fake) exec(_ context.Context, c inside.Command) (inside.Output, error) {
	if f.limit > 0 && f.writes > f.limit {
		return inside.Output{}, errCut
	}
	f.calls = append(f.calls, c.Path+" "+strings.Join(c.Args, " "))
	if f.code != 0 {
		return inside.Output{Code: f.code, Err: []byte("it broke\n")}, nil
	}
	switch c.Path {
	case "update-grub":
		if f.menu != nil {
			f.menu()
			break
		}
		f.updateGrub()
	case "grubby":
		for _, n := range []string{"b-1", "b-2", "b-0-rescue"} {
			at := "/boot/loader/entries/" + n + ".conf"
			head, options, _ := strings.Cut(f.read(at), "options ")
			all := parse(options)
			for _, a := range c.Args {
				if names, ok := strings.CutPrefix(a, "--remove-args="); ok {
					for name := range strings.FieldsSeq(names) {
						all = without(all, name)
					}
				}
				if set, ok := strings.CutPrefix(a, "--args="); ok {
					for _, p := range parse(set) {
						all = append(without(all, p.name), p)
					}
				}
			}
			f.put(at, head+"options "+join(all)+"\n")
		}
	case "kernel-install":
		line := f.read(cmdlineFile)
		if line == "" {
			line = "root=UUID=1 ro quiet"
		}
		f.put("/efi/loader/entries/m-6.1.conf", "options "+strings.TrimSpace(line)+"\n")
	case "apt-get":
		n := c.Args[len(c.Args)-1]
		switch {
		case n == "update":
		case slices.Contains(c.Args, "-s"):
			return inside.Output{Out: []byte(f.would(n))}, nil
		default:
			f.put("/var/lib/dpkg/status", status+"\nPackage: "+n+"\nStatus: install ok installed\n")
		}
	case "rpm":
		return inside.Output{Out: []byte("kernel-core 5.14.0-1.el9.x86_64\nkernel 5.14.0-1.el9.x86_64\nkernel-tools 5.14.0-1.el9.x86_64\nkernel 5.14.0-2.el9.x86_64\n")}, nil
	}
	return inside.Output{}, nil
}

func (f *fake) before(string) error {
	if f.writes++; f.limit > 0 && f.writes > f.limit {
		return errCut
	}
	return nil
}

func (f *fake) apply(items []item.Item, remove ...string) error {
	return facet{f.before}.Apply(context.Background(), f.host, items, remove)
}

func (f *fake) observe(keys ...string) inside.Seen {
	f.t.Helper()
	seen, err := facet{}.Observe(context.Background(), f.host, keys)
	if err != nil {
		f.t.Fatal(err)
	}
	return seen
}

func (f *fake) listing(times bool) string {
	var lines []string
	err := filepath.WalkDir(f.host.Root, func(at string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(at, f.host.Root)
		if err != nil || !times && strings.HasPrefix(name, "/var") {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		line := fmt.Sprintf("%s %v %d:%d", name, info.Mode(), stat.Uid, stat.Gid)
		if times {
			line += fmt.Sprintf(" %d %d.%d", stat.Ino, stat.Ctim.Sec, stat.Ctim.Nsec)
		}
		if info.Mode().IsRegular() {
			line += fmt.Sprintf(" %q", strings.Join(strings.Fields(f.read(name)), " "))
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func set(name, value string) item.Item {
	return item.Item{Key: "parameters." + name, Fields: map[string]string{"": value}}
}

func class(err error) string {
	var e *wire.Error
	if errors.As(err, &e) {
		return e.Class
	}
	return ""
}

var loaders = []loader{grub, grubby, stub}

func TestParametersComeAtTheNextBoot(t *testing.T) {
	for _, l := range loaders {
		f := newFake(t, l)
		want := f.listing(false)
		items := []item.Item{set("hugepages", "16"), set("nosmt", "true"), set("dyndbg", "file a +p; file b +p"), set("console", "ttyS0")}
		if err := f.apply(items); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		seen := f.observe(item.Keys(items)...)
		if seen.Waits != "reboot" || seen.Pending["parameters.hugepages"] != "16" || seen.Pending["parameters.dyndbg"] != "file a +p; file b +p" {
			t.Errorf("%s: %+v", l, seen)
		}
		if v, there := seen.Pending["parameters.nosmt"]; !there || v != "true" {
			t.Errorf("%s: a bare name is pending as %q, %v", l, v, there)
		}
		if len(f.calls) != 1 {
			t.Errorf("%s: calls %q", l, f.calls)
		}
		// The machine boots.
		next, err := (&work{h: f.host, tree: opened(t, f)}).nextBoot(l)
		if err != nil {
			t.Fatal(err)
		}
		before := f.read("/proc/cmdline")
		f.put("/proc/cmdline", join(next)+"\n")
		if seen = f.observe(item.Keys(items)...); seen.Waits != "" || len(seen.Pending) > 0 {
			t.Errorf("%s after a boot: %+v", l, seen)
		}
		for _, i := range items {
			if v, there := seen.Have[i.Key]; !there || v != i.Fields[""] {
				t.Errorf("%s after a boot: %s is %q", l, i.Key, v)
			}
		}
		f.put("/proc/cmdline", before)
		f.reload()
		once := f.listing(true)
		if err := f.apply(items); err != nil {
			t.Fatal(err)
		}
		if again := f.listing(true); again != once || len(f.calls) != 1 {
			t.Errorf("%s: a second call writes, %q", l, f.calls)
		}
		if err := f.apply(nil, item.Keys(items)...); err != nil {
			t.Fatal(err)
		}
		if got := f.listing(false); got != want {
			t.Errorf("%s: not as before:\n%s\nwant\n%s", l, got, want)
		}
		if keys := f.host.Owned.Keys(name); len(keys) > 0 {
			t.Errorf("%s: still owned: %v", l, keys)
		}
	}
}

func TestAValueFromBeforeComesBack(t *testing.T) {
	for l, i := range map[loader]item.Item{grubby: set("tuned", "2"), stub: set("quiet", "3"), grub: set("base", "2")} {
		f := newFake(t, l)
		w := &work{h: f.host, tree: opened(t, f)}
		before, _ := w.nextBoot(l)
		if err := f.apply([]item.Item{i}); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		f.reload()
		if err := f.apply(nil, i.Key); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		after, err := w.nextBoot(l)
		was, _ := find(before, item.ID(i.Key))
		if is, found := find(after, item.ID(i.Key)); err != nil || !found || is != was || l != grubby && len(before) != len(after) {
			t.Errorf("%s: %q, %v, want %q", l, is, err, was)
		}
	}
}

func TestCutOffAfterEachWrite(t *testing.T) {
	first := []item.Item{set("a", "1"), set("b", "true")}
	second := []item.Item{set("a", "2"), set("c", "x y")}
	for _, l := range loaders {
		fresh := newFake(t, l)
		if err := fresh.apply(second); err != nil {
			t.Fatal(err)
		}
		cuts := 0
		for limit := 1; ; limit++ {
			f := newFake(t, l)
			if err := f.apply(first); err != nil {
				t.Fatal(err)
			}
			f.writes, f.limit = 0, limit
			err := f.apply(second, "parameters.b")
			f.limit = 0
			f.reload()
			if again := f.apply(second, "parameters.b"); again != nil {
				t.Fatalf("%s: cut after %d writes, and then %v", l, limit, again)
			}
			if got, want := f.listing(false), fresh.listing(false); got != want {
				t.Fatalf("%s: cut after %d writes:\n%s\nwant\n%s", l, limit, got, want)
			}
			if err == nil {
				break
			}
			cuts++
		}
		if cuts < 4 {
			t.Errorf("%s: only %d cuts", l, cuts)
		}
	}
}

// A system that had many designs is as one that had the last alone.
func TestTheLastDesignAloneCounts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, l := range loaders {
		f, last := newFake(t, l), []item.Item(nil)
		for range 70 {
			var next []item.Item
			for _, n := range []string{"a", "b-c", "d", "crash"} {
				if r.IntN(2) == 0 {
					next = append(next, set(n, []string{"1", "true", "x y"}[r.IntN(3)]))
				}
			}
			left := slices.DeleteFunc(item.Keys(last), func(k string) bool { return slices.Contains(item.Keys(next), k) })
			fresh := newFake(t, l)
			if err := errors.Join(f.apply(next, left...), fresh.apply(next)); err != nil {
				t.Fatalf("%s: %v", l, err)
			}
			for _, i := range []string{"a", "b-c", "d", "crash"} {
				got, _ := (&work{h: f.host, tree: opened(t, f)}).nextBoot(l)
				want, _ := (&work{h: fresh.host, tree: opened(t, fresh)}).nextBoot(l)
				a, hasA := find(got, i)
				b, hasB := find(want, i)
				if a != b || hasA != hasB {
					t.Fatalf("%s: after %v and %v: %s is %q, and %q on a fresh system", l, item.Values(last), item.Values(next), i, a, b)
				}
			}
			if got, want := f.listing(false), fresh.listing(false); l == grub && got != want {
				t.Fatalf("%s: after %v and %v:\n%s\nwant\n%s", l, item.Values(last), item.Values(next), got, want)
			}
			f.reload()
			last = next
		}
	}
}

func TestABootLoaderThatFailsIsRunAgain(t *testing.T) {
	f := newFake(t, grub)
	f.code = 1
	items := []item.Item{set("a", "1")}
	if err := f.apply(items); class(err) != wire.Failed || !strings.Contains(err.Error(), "it broke") {
		t.Errorf("%v", err)
	}
	f.code = 0
	if err := f.apply(items); err != nil || len(f.calls) != 2 {
		t.Errorf("%v, %q", err, f.calls)
	}
}

func TestWhatComesAfterSlipwayIsTold(t *testing.T) {
	f := newFake(t, grub)
	if err := f.apply([]item.Item{set("quiet", "no")}); class(err) != wire.Refused || !strings.Contains(err.Error(), "GRUB_CMDLINE_LINUX_DEFAULT") {
		t.Errorf("%v", err)
	}
}

func TestHostileParameters(t *testing.T) {
	f := newFake(t, grub)
	before := f.listing(true)
	for _, i := range []item.Item{set("a b", "1"), set("-x", "1"), set("", "1"), set("a", "1'\"; reboot"), set("a", "$(reboot)"), set("a", "x\ny"),
		set("a", "`id`"), set("a", "a;b"), set("a", " x"), set("a", strings.Repeat("x", 5000)), set("--", "")} {
		if err := f.apply([]item.Item{i}); class(err) != wire.Refused {
			t.Errorf("%q=%q: %v", i.Key, i.Fields[""], err)
		}
	}
	if f.listing(true) != before {
		t.Error("something was written")
	}
	if seen := f.observe("parameters.a b", "other.x"); len(seen.Cannot) != 2 {
		t.Errorf("%+v", seen)
	}
}

func TestNoBootLoader(t *testing.T) {
	f := newFake(t, noLoader)
	if why := f.observe("parameters.a").Cannot["parameters.a"]; !strings.Contains(why, "update-grub, grubby nor systemd-boot") {
		t.Errorf("%q", why)
	}
	f.put("/run/systemd/container", "systemd-nspawn\n")
	seen := f.observe("parameters.a", "kernel")
	if !strings.Contains(seen.Cannot["parameters.a"], "container") || !strings.Contains(seen.Cannot["kernel"], "container") {
		t.Errorf("%v", seen.Cannot)
	}
	if err := f.apply([]item.Item{set("a", "1")}); class(err) != wire.Refused {
		t.Errorf("%v", err)
	}
}

func opened(t testing.TB, f *fake) *tree.Tree {
	opened, err := tree.Open(f.host.Root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	return opened
}

func kernelItem(n string) item.Item {
	return item.Item{Key: "kernel", Fields: map[string]string{"package": n}}
}

func TestThePackageOfTheKernel(t *testing.T) {
	f := newFake(t, grub)
	if have := f.observe("kernel").Have["kernel.package"]; have != "linux-image-amd64" {
		t.Errorf("the package is %q", have)
	}
	for _, n := range []string{"linux-image-6.1.0-18-amd64", "linux-image-amd64"} {
		if err := f.apply([]item.Item{kernelItem(n)}); err != nil {
			t.Fatal(err)
		}
		if have := f.observe("kernel").Have["kernel.package"]; have != n {
			t.Errorf("the package is %q, want %q", have, n)
		}
	}
	if len(f.calls) != 0 {
		t.Errorf("programs were run: %q", f.calls)
	}
	if err := f.apply([]item.Item{kernelItem("linux-image-6.12.1-amd64")}); err != nil {
		t.Fatal(err)
	}
	seen := f.observe("kernel")
	if seen.Have["kernel.package"] != "linux-image-amd64" || seen.Pending["kernel.package"] != "linux-image-6.12.1-amd64" || seen.Waits != "reboot" {
		t.Errorf("%+v", seen)
	}
	f.put("/proc/sys/kernel/osrelease", "6.12.1-amd64\n")
	if seen = f.observe("kernel"); seen.Have["kernel.package"] != "linux-image-6.12.1-amd64" || seen.Waits != "" {
		t.Errorf("after a boot: %+v", seen)
	}
	f.calls = nil
	for _, n := range []string{"", "-o", "a b", "../x", "linux-image-amd64-", "linux-image-amd64=1"} {
		if err := f.apply([]item.Item{kernelItem(n)}); class(err) != wire.Refused || len(f.calls) > 0 {
			t.Errorf("%q: %v after %q", n, err, f.calls)
		}
	}
	if err := f.apply(nil, "kernel"); err != nil || len(f.host.Owned.Keys(name)) > 0 {
		t.Errorf("%v, owned %v", err, f.host.Owned.Keys(name))
	}
}

func TestThePackageOfTheKernelByRPM(t *testing.T) {
	f := newFake(t, grubby)
	f.put("/proc/sys/kernel/osrelease", "5.14.0-1.el9.x86_64\n")
	if have := f.observe("kernel").Have["kernel.package"]; have != "kernel" {
		t.Errorf("the package is %q", have)
	}
}

func TestCommandLines(t *testing.T) {
	for line, want := range map[string]string{
		`a b=1 c="x y" "d=x y" e= f=a=b`: `a| b=1 c=x y d=x y e= f=a=b`,
		"\ta  \n b":                      "a| b|",
		`a -- b`:                         "a|",
		`"a b" c`:                        "a b| c|",
		`a="unfinished b`:                "a=unfinished b",
		``:                               "",
	} {
		var got []string
		for _, p := range parse(line) {
			if p.bare {
				got = append(got, p.name+"|")
			} else {
				got = append(got, p.name+"="+p.value)
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%q is read as %q, want %q", line, text, want)
		}
	}
	if v, found := find(parse("no-smt=1 no_smt=2"), "no-smt"); !found || v != "2" {
		t.Errorf("%q", v)
	}
}

func FuzzCommandLine(f *testing.F) {
	f.Add(`a="b c" d`, "n", "v w")
	f.Add(`"`, "a.b", "x")
	f.Add("", "a", "true")
	f.Add("", "a", "")
	f.Fuzz(func(t *testing.T, line, n, value string) {
		all := parse(line)
		if strings.ContainsAny(line, "\"\n") {
			return // only that it ends is asked
		}
		if again := parse(join(all)); !slices.EqualFunc(all, again, func(a, b parameter) bool { return a.name == b.name && a.value == b.value }) {
			t.Errorf("%q: %v, and written and read: %v", line, all, again)
		}
		if bad(n, value) == "" {
			text := want(n, value).text()
			if got, found := find(parse(text), n); !found || got != value {
				t.Errorf("%q=%q is written as %q and read as %q", n, value, text, got)
			}
		}
	})
}

func FuzzBootFiles(f *testing.F) {
	f.Add("linux /vmlinuz a=1\noptions $kernelopts b", "Package: linux-image-1\nStatus: install ok installed\n")
	f.Fuzz(func(t *testing.T, text, packages string) {
		parseGrub(text)
		parseEntry(text, map[string]string{"kernelopts": "$kernelopts x"})
		all := parseStatus(packages)
		if n := all.bringer("1", "x"); n != "" && !all.brings(n, "1") {
			t.Errorf("%q does not bring the kernel", n)
		}
	})
}

// Without a saved entry the loader starts the one with the highest version, which is not
// the last one by its letters.
func TestTheHighestVersionIsStarted(t *testing.T) {
	f := newFake(t, grubby)
	f.put("/boot/grub2/grubenv", "# GRUB Environment Block\n")
	for _, n := range []string{"b-1", "b-2", "b-0-rescue"} {
		if err := os.Remove(f.host.Path("/boot/loader/entries/" + n + ".conf")); err != nil {
			t.Fatal(err)
		}
	}
	f.put("/boot/loader/entries/m-5.14.0-70.el9.x86_64.conf", "options root=UUID=1 ro nosmt=old\n")
	f.put("/boot/loader/entries/m-5.14.0-362.el9.x86_64.conf", "options root=UUID=1 ro nosmt=new\n")
	seen, err := New().Observe(t.Context(), f.host, []string{"parameters.nosmt"})
	if err != nil || seen.Pending["parameters.nosmt"] != "new" {
		t.Errorf("%+v %v", seen, err)
	}
}

// The package of a kernel is installed as any other of the design: what it would remove or
// change besides, or bring by a name that apt-get reads as a pattern, is not done.
func TestTheKernelRemovesNoPackages(t *testing.T) {
	const n = "linux-image-6.12.1-amd64"
	for name, c := range map[string]struct{ simulated, why string }{
		"nothing else":    {"", ""},
		"removes":         {"Remv zfs-dkms [2.1]\nInst " + n + " (1 Debian:12 [amd64])\n", "would remove zfs-dkms"},
		"changes":         {"Inst linux-base [4.9] (5.0 Debian:12 [amd64])\nInst " + n + " (1 Debian:12 [amd64])\n", "would also change linux-base"},
		"is no such name": {"Inst " + n + "-rt (1 Debian:12 [amd64])\nInst " + n + "-dbg (1 Debian:12 [amd64])\n", "no package of this name"},
		"cannot be had":   {"E: nothing\n", "no package of this name"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, grub)
			f.simulated = c.simulated
			err := f.apply([]item.Item{kernelItem(n)})
			installs := slices.DeleteFunc(slices.Clone(f.calls), func(call string) bool {
				return !strings.Contains(call, " install ") || strings.Contains(call, " -s ")
			})
			if c.why == "" {
				if err != nil || len(installs) != 1 || !strings.Contains(installs[0], " --no-remove ") {
					t.Errorf("%v after %q", err, f.calls)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.why) || len(installs) > 0 {
				t.Errorf("%v after %q", err, f.calls)
			}
		})
	}
}
