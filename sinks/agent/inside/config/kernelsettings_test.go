package config

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

func TestSysctl(t *testing.T) {
	f := newFake(t)
	f.put("/usr/lib/sysctl.d/50-default.conf", "# comment\n-vm/swappiness = 60\nnet.ipv4.conf.*.forwarding=0\n-net.ipv4.conf.eth1.forwarding\n")
	f.put("/usr/lib/sysctl.d/70-hidden.conf", "net.ipv4.ip_forward = 7\n")
	f.link("/etc/sysctl.d/70-hidden.conf", "/dev/null")
	f.put("/etc/sysctl.d/10-mine.conf", "net.ipv4.ip_forward = 1\n")
	seen := f.observe("sysctl.vm.swappiness", "sysctl.net.ipv4.ip_forward", "sysctl.net.ipv4.tcp_rmem", "sysctl.net.ipv4.conf.eth0/1.forwarding",
		"sysctl.net.ipv4.conf.eth1.forwarding", "sysctl.net.none", "sysctl.../../etc/passwd", "sysctl.-x")
	for n, want := range map[string]string{
		"vm.swappiness": "60", "net.ipv4.ip_forward": "0, and 1 at the next boot", "net.ipv4.conf.eth0/1.forwarding": "0",
		"net.ipv4.tcp_rmem":             "4096 131072 6291456, and the kernel's own value at the next boot",
		"net.ipv4.conf.eth1.forwarding": "0, and the kernel's own value at the next boot",
	} {
		if got := seen.Have["sysctl."+n]; got != want {
			t.Errorf("%s is %q, want %q", n, got, want)
		}
	}
	for _, n := range []string{"net.none", "../../etc/passwd", "-x"} {
		if seen.Cannot["sysctl."+n] == "" {
			t.Errorf("%s: %v", n, seen)
		}
	}
	f.put("/etc/sysctl.d/99-late.conf", "vm.swappiness = 5\n")
	refuses(t, f, sysctl("vm.swappiness", "10"), "99-late.conf")
	refuses(t, f, sysctl("net.none", "10"), "no parameter")
	refuses(t, f, sysctl("net.ipv4.ip_forward", "1\x00"), "characters")
	items := []item.Item{sysctl("net.ipv4.tcp_rmem", "4096  131072\t6291457"), sysctl("net.ipv4.ip_forward", "2")}
	if err := f.apply(items); err != nil {
		t.Fatal(err)
	}
	if got, want := f.read(sysctlFile), head+"net.ipv4.ip_forward = 2\nnet.ipv4.tcp_rmem = 4096 131072 6291457\n"; got != want {
		t.Errorf("the file is %q, want %q", got, want)
	}
	f.put("/etc/sysctl.d/10-mine.conf", "")
	if err := f.apply(nil, item.Keys(items)...); err != nil {
		t.Fatal(err)
	}
	if f.read("/proc/sys/net/ipv4/ip_forward") != "0\n" || f.tree(sysctlFile) {
		t.Error("not as before")
	}
}

func (f *fake) tree(path string) bool {
	_, err := os.Lstat(f.host.Path(path))
	return err == nil
}

// A pattern means what has no name of its own.
func TestSysctlPatterns(t *testing.T) {
	f := newFake(t)
	items := []item.Item{sysctl("net.ipv4.conf.*.forwarding", "1"), sysctl("net.ipv4.conf.eth1.forwarding", "0")}
	if err := f.apply(items); err != nil {
		t.Fatal(err)
	}
	if a, b := f.read("/proc/sys/net/ipv4/conf/eth0.1/forwarding"), f.read("/proc/sys/net/ipv4/conf/eth1/forwarding"); a != "1\n" || b != "0\n" {
		t.Errorf("eth0.1 %q, eth1 %q", a, b)
	}
	if wrong := f.met(items); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// A module without parameters that is not there is not as designed.
func TestModuleThatIsNotThere(t *testing.T) {
	f := newFake(t)
	if is := f.observe("modules.bonding").Have["modules.bonding.parameters"]; is != item.Absent {
		t.Errorf("before: got %q", is)
	}
	if err := f.apply([]item.Item{module("bonding", "")}); err != nil {
		t.Fatal(err)
	}
	if is, told := f.observe("modules.bonding").Have["modules.bonding.parameters"]; is != "" || !told {
		t.Errorf("once it is loaded: got %q, %t", is, told)
	}
}

func TestModules(t *testing.T) {
	f := newFake(t)
	refuses(t, f, module("ext4", "a=1"), `"ext4.a=1"`)
	refuses(t, f, module("../x", ""), "not a name of a kernel module")
	refuses(t, f, module("-x", ""), "not a name of a kernel module")
	refuses(t, f, module("bonding", "a=1\ninstall x y"), "cannot be written")
	if err := f.apply([]item.Item{module("no-such", "")}); class(err) != wire.Refused || !strings.Contains(err.Error(), "not found") {
		t.Errorf("%v", err)
	}
	if err := f.apply(nil, "modules.no-such"); err != nil {
		t.Fatal(err)
	}
	items := []item.Item{module("ext4", ""), module("dummy", "numdummies=2"), module("bonding", "max_bonds=0, fail_over_mac=1,2")}
	if err := f.apply(items); err != nil {
		t.Fatal(err)
	}
	keys := item.Keys(items)
	seen := f.observe(keys...)
	if seen.Have["modules.dummy.parameters"] != "" || seen.Pending["modules.dummy.parameters"] != "numdummies=2" || seen.Waits != "reboot" {
		t.Errorf("a loaded module with other parameters: %+v", seen)
	}
	if seen.Have["modules.bonding.parameters"] != "fail_over_mac=1,2, max_bonds=0" || len(seen.Pending) != 1 {
		t.Errorf("a module that was not loaded: %+v", seen)
	}
	f.put("/proc/sys/kernel/random/boot_id", "boot-2\n")
	if seen = f.observe(keys...); seen.Waits != "" || seen.Have["modules.dummy.parameters"] != "numdummies=2" {
		t.Errorf("after a boot: %+v", seen)
	}
	if got, want := f.read(modulesLoad)+f.read(modprobe), head+"bonding\ndummy\next4\n"+head+"options bonding fail_over_mac=1,2 max_bonds=0\noptions dummy numdummies=2\n"; got != want {
		t.Errorf("the files are %q, want %q", got, want)
	}
}

func FuzzSysctlLine(f *testing.F) {
	for _, line := range []string{"a.b = c", "-a/b=1", "-a.b", "=", "a", "net.ipv4.conf.eth0/1.x = 1 2"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		a, ok := parseSysctl("x", line)
		if ok && !a.exclude && normal(a.value) != a.value {
			t.Errorf("%q: the value %q is not normal", line, a.value)
		}
		if n := line; badSysctl(n) == "" {
			at := sysctlPath(n)
			if strings.HasPrefix(at, "/") || slices.Contains(strings.Split(at, "/"), "..") {
				t.Errorf("%q leads to %q", n, at)
			}
			if b, ok := parseSysctl("x", n+" = v"); !ok || b.path != at || b.value != "v" {
				t.Errorf("%q is read back as %+v", n, b)
			}
		}
	})
}
