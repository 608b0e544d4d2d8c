package start

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

func TestParse(t *testing.T) {
	ca := "sha256:" + strings.Repeat("0a", 32)
	s, err := Parse("console=tty0 slipway.daemon=10.1.0.2:9482 quiet slipway.ca="+ca+" slipway.token=t0k slipway.ip=10.1.0.7/24 slipway.gateway=10.1.0.1 slipway.dns=10.1.0.3,10.1.0.4 slipway.mac=52:54:00:AA:00:01\n", "")
	if err != nil || s.Daemon != "10.1.0.2:9482" || len(s.CA) != 32 || s.Token != "t0k" || s.Address != netip.MustParsePrefix("10.1.0.7/24") || s.Gateway.String() != "10.1.0.1" || len(s.DNS) != 2 || s.MAC != "52:54:00:aa:00:01" {
		t.Errorf("got %+v, %v", s, err)
	}
	if s, err := Parse("console=tty0 slipwayx=1", ""); err != nil || s.Daemon != "" {
		t.Errorf("got %+v, %v", s, err)
	}
	for line, says := range map[string]string{
		"slipway.daemon=10.1.0.2":                  `slipway.daemon on the kernel's command line: "10.1.0.2" is not HOST:PORT`,
		"slipway.daemon=10.1.0.2:1":                "needs slipway.ca beside it",
		"slipway.ca=sha256:0a":                     "is not sha256: and 64 hex digits",
		"slipway.ca=" + strings.Repeat("0a", 32):   "is not sha256: and 64 hex digits",
		"slipway.ip=10.1.0.7":                      "is not an IPv4 address with the length",
		"slipway.ip=fd00::7/64":                    "is not an IPv4 address with the length",
		"slipway.gateway=10.1.0.1":                 "needs slipway.ip beside it",
		"slipway.gateway=x slipway.ip=10.1.0.7/24": "is not an IPv4 address",
		"slipway.dns=10.1.0.3,":                    "is not an IP address",
		"slipway.mac=52:54":                        "is not a MAC address",
		"slipway.wipe=yes":                         "slipway.wipe on the kernel's command line: the agent does not know it",
	} {
		if _, err := Parse(line, ""); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", line, err, says)
		}
	}
}

// The words of a medium say what the command line does not.
func TestParseMedium(t *testing.T) {
	ca, other := "slipway.ca=sha256:"+strings.Repeat("0a", 32), "slipway.ca=sha256:"+strings.Repeat("0b", 32)
	s, err := Parse("console=tty0 "+ca, "slipway.daemon=10.1.0.2:9482 slipway.token=t0k "+other+" slipway.dns=10.1.0.3 slipway.dns=10.1.0.4")
	if err != nil || s.Daemon != "10.1.0.2:9482" || s.Token != "t0k" || s.CA[0] != 0x0a || len(s.DNS) != 2 {
		t.Errorf("got %+v, %v", s, err)
	}
	for medium, says := range map[string]string{
		"slipway.wipe=yes": "slipway.wipe on the medium: the agent does not know it",
		"quiet":            `"quiet" on the medium does not begin with "slipway."`,
		"\xff\xfe":         "does not begin with",
	} {
		if _, err := Parse("", medium); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", medium, err, says)
		}
	}
}

// The words are on a medium that the machine can be started from. A disk has none, whatever
// somebody has written to it; one medium that is broken hides no other, and two are refused.
func TestMediumWords(t *testing.T) {
	h := inside.Real(t.TempDir(), true)
	medium := make([]byte, 64<<10)
	copy(medium[wire.VolumeAt:], "\x01CD001\x01")
	copy(medium[wire.VolumeAt+wire.ApplicationUse:], wire.MediumMark+"47104 4096\n")
	copy(medium[47104:], "slipway.token=t0k\n")
	broken := slices.Clone(medium)
	copy(broken[wire.VolumeAt+wire.ApplicationUse:], wire.MediumMark+"99999999999 4096\n")
	foreign := slices.Clone(medium)
	clear(foreign[wire.VolumeAt+wire.ApplicationUse : wire.VolumeAt+wire.ApplicationUse+512])
	add := func(name string, content []byte) {
		t.Helper()
		at, device := h.Path("/sys/class/block/"+name), h.Path("/dev/"+name)
		if err := errors.Join(os.MkdirAll(at, 0o755), os.WriteFile(filepath.Join(at, "removable"), []byte("0\n"), 0o644),
			os.MkdirAll(filepath.Dir(device), 0o755), os.WriteFile(device, content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	add("sda", []byte("short"))
	add("sr1", foreign)
	add("nvme0n1", medium) // by the system of before
	if words, err := mediumWords(h); words != "" || err != nil {
		t.Errorf("without a medium: %q, %v", words, err)
	}
	add("sr2", broken)
	if words, err := mediumWords(h); err == nil || !strings.Contains(err.Error(), "sr2") {
		t.Errorf("a broken medium: %q, %v", words, err)
	}
	add("sr3", medium)
	if words, err := mediumWords(h); words != "slipway.token=t0k" || err != nil {
		t.Errorf("got %q, %v", words, err)
	}
	add("sr4", medium)
	if words, err := mediumWords(h); err == nil || !strings.Contains(err.Error(), "sr3 and sr4 are both media") {
		t.Errorf("two media: %q, %v", words, err)
	}
}

// modulesOf are modules in lists, and what the kernel is given of them.
func modulesOf(t *testing.T) (m *Modules, given *[]string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"modules.dep":     "kernel/net/fast-net.ko: kernel/lib/mid.ko kernel/lib/low-er.ko\nkernel/lib/mid.ko: kernel/lib/low-er.ko\nkernel/lib/low-er.ko:\nkernel/crc.ko:\nkernel/bad.ko:\n",
		"modules.alias":   "alias pci:v00008086d00001592sv*sd*bc*sc*i* fast_net\nalias acpi*:PNP0501:* crc\nalias usb:v*p*d*dc*dsc*dp*ic08isc0[1-6]ip50in* mid\nalias pci:v0000BADBd* bad\n",
		"modules.softdep": "softdep fast_net pre: crc\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, err := openModules(dir)
	if err != nil {
		t.Fatal(err)
	}
	given = new([]string)
	m.insert = func(file string) error {
		*given = append(*given, strings.TrimPrefix(file, dir+"/"))
		if strings.Contains(file, "bad") {
			return errors.New("no such device")
		}
		return nil
	}
	return m, given
}

// A module is loaded once, after all that it needs.
func TestModules(t *testing.T) {
	m, given := modulesOf(t)
	for range 2 {
		if found, err := m.Load("pci:v00008086d00001592sv00001028sd00000001bc02sc00i00"); !found || err != nil {
			t.Errorf("%v, %v", found, err)
		}
	}
	if want := []string{"kernel/crc.ko", "kernel/lib/low-er.ko", "kernel/lib/mid.ko", "kernel/net/fast-net.ko"}; !slices.Equal(*given, want) {
		t.Errorf("the kernel was given %v, want %v", *given, want)
	}
	if found, err := m.Load("low-er"); !found || err != nil {
		t.Errorf("by its name: %v, %v", found, err)
	}
	for range 2 {
		if found, _ := m.Load("pci:v00008086d0000FFFFsv0sd0bc0sc0i0"); found || len(*given) != 4 {
			t.Errorf("of no module: %v, %v", found, *given)
		}
	}
	if found, err := m.Load("pci:v0000BADBd0001"); !found || err == nil || !strings.Contains(err.Error(), "the module bad: no such device") {
		t.Errorf("%v, %v", found, err)
	}
}

// Each kind of device is asked for once, wherever it is, and new ones later.
func TestDevices(t *testing.T) {
	m, given := modulesOf(t)
	sys := t.TempDir()
	device := func(path, alias string) {
		if err := os.MkdirAll(filepath.Join(sys, "devices", path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sys, "devices", path, "modalias"), []byte(alias+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	device("pci0000:00/0000:00:1f.0", "acpi:PNP0501:")
	device("pci0000:00/0000:00:1f.1", "")
	device("platform/x", "platform:unknown")
	if n, err := m.Devices(sys); n != 1 || err != nil || len(*given) != 1 {
		t.Errorf("%d, %v, %v", n, err, *given)
	}
	device("pci0000:00/usb1/1-1/1-1:1.0", "usb:v0951p1666d0110dc00dsc00dp00ic08isc06ip50in00")
	if n, err := m.Devices(sys); n != 1 || err != nil || len(*given) != 3 {
		t.Errorf("%d, %v, %v", n, err, *given)
	}
}

// The real lists of the ramdisk and the kernel's own aliases agree with what modprobe does; this
// holds the patterns to those of fnmatch(3).
func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		is            bool
	}{
		{"a*c", "abbc", true}, {"a*c", "ab/bc", true}, {"a?c", "a/c", true}, {"a[0-3]c", "a2c", true}, {"a[0-3]c", "a4c", false}, {"a*", "b", false}, {"fs-ext4", "fs-ext4", true}, {"", "", true}, {"[", "[", false},
	} {
		if matches(c.pattern, c.name) != c.is {
			t.Errorf("%q and %q: not %v", c.pattern, c.name, c.is)
		}
	}
}

// What a server gives is taken only where an address can be made of it.
func TestOffered(t *testing.T) {
	ack := func(mask net.IPMask, more ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
		p, err := dhcpv4.New(append(more, dhcpv4.WithYourIP(net.IPv4(10, 1, 0, 7)), dhcpv4.WithOption(dhcpv4.OptSubnetMask(mask)))...)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a, gateway, dns, err := offered(ack(net.CIDRMask(24, 32), dhcpv4.WithRouter(net.IPv4(10, 1, 0, 1)), dhcpv4.WithDNS(net.IPv4(10, 1, 0, 3))))
	if err != nil || a.String() != "10.1.0.7/24" || gateway.String() != "10.1.0.1" || len(dns) != 1 {
		t.Errorf("%v, %v, %v, %v", a, gateway, dns, err)
	}
	if a, gateway, _, err := offered(ack(net.CIDRMask(31, 32))); err != nil || gateway.IsValid() || a.Bits() != 31 {
		t.Errorf("%v, %v, %v", a, gateway, err)
	}
	none := ack(net.CIDRMask(24, 32))
	none.YourIPAddr = net.IPv4zero
	for _, wrong := range []*dhcpv4.DHCPv4{none, ack(net.IPv4Mask(255, 0, 255, 0)), ack(net.CIDRMask(0, 32))} {
		if _, _, _, err := offered(wrong); err == nil {
			t.Errorf("%v is taken", wrong)
		}
	}
}

// A system that Slipway has installed is found on a disk without writing to it, although its
// journal was not replayed.
func TestProvenSystem(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("only root may mount")
		}
		t.Skip("only root may mount")
	}
	dir := t.TempDir()
	blocks, devices, at := filepath.Join(dir, "blocks"), filepath.Join(dir, "dev"), filepath.Join(dir, "mnt")
	for _, d := range []string{blocks, devices, at, filepath.Join(dir, "root/etc/slipway")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	marker := filepath.Join(dir, "root/etc/slipway/marker.json")
	for _, c := range []struct {
		name, marker string
		found        bool
	}{{"one", `{"node": "n1", "generation": 1}`, true}, {"two", `{"node": ""}`, false}, {"three", `half a mar`, false}} {
		if err := os.WriteFile(marker, []byte(c.marker), 0o644); err != nil {
			t.Fatal(err)
		}
		image := filepath.Join(dir, c.name)
		for _, cmd := range [][]string{{"truncate", "-s", "8M", image}, {"mkfs.ext4", "-q", "-d", filepath.Join(dir, "root"), image}} {
			if out, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", cmd, err, out)
			}
		}
		out, err := exec.Command("losetup", "--find", "--show", image).Output()
		if err != nil {
			t.Fatal(err)
		}
		loop := strings.TrimSpace(string(out))
		before := sum(t, image)
		for _, make := range []error{os.WriteFile(filepath.Join(blocks, "sda1"), nil, 0o644), os.Symlink(loop, filepath.Join(devices, "sda1"))} {
			if make != nil {
				t.Error(make)
			}
		}
		device, found := provenSystem(blocks, devices, at)
		if found != c.found || found && device != filepath.Join(devices, "sda1") {
			t.Errorf("%s: %s, %v", c.name, device, found)
		}
		if out, err := exec.Command("losetup", "--detach", loop).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		os.Remove(filepath.Join(devices, "sda1"))
		if sum(t, image) != before {
			t.Errorf("%s: the disk was written to", c.name)
		}
	}
}

func sum(t *testing.T, file string) string {
	t.Helper()
	out, err := exec.Command("sha256sum", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))[0]
}
