package boot

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// machine is a system that runs, with firmware, and a target, whose programs are functions.
type machine struct {
	t         *testing.T
	h, target *inside.Host
	calls     []string
	fail      string // a program that fails
	shim      bool
	firmware  bool // efibootmgr makes entries
}

func newMachine(t *testing.T) *machine {
	if runtime.GOARCH != "amd64" {
		t.Skip("the files have the names of amd64")
	}
	m := &machine{t: t, firmware: true}
	m.h = &inside.Host{Root: t.TempDir(), Live: true, Tell: func(string) {}, Exec: m.exec}
	m.target = &inside.Host{Root: t.TempDir(), Tell: func(string) {}, Exec: m.exec}
	for _, f := range []string{"/boot/vmlinuz-6.1.0-1-amd64", "/boot/vmlinuz-6.1.0-2-amd64", "/boot/initrd.img-6.1.0-1-amd64", "/boot/config-6.1.0-1-amd64", "/usr/sbin/update-initramfs",
		"/usr/sbin/grub-install", "/usr/lib/grub/x86_64-efi/x.mod", "/usr/lib/grub/i386-pc/x.mod", "/usr/bin/efibootmgr", "/boot/efi/x", "/boot/efi2/x"} {
		m.put(m.target, f, "")
	}
	m.put(m.target, "/etc/os-release", "NAME=\"Debian\"\nID=debian\n")
	m.variable("Boot0000"+global, network)
	m.variable("Boot0001"+global, drive("debian", 1, guidA, `\EFI\debian\shimx64.efi`))
	m.variable("Boot000A"+global, drive("other", 2, guidB, `\EFI\other\x.efi`))
	m.variable("BootOrder"+global, []byte{1, 0, 10, 0, 0, 0})
	m.variable("Boot0002-11111111-2222-3333-4444-555555555555", drive("of others", 1, guidA, `\x`))
	return m
}

func (m *machine) put(h *inside.Host, path, content string) {
	m.t.Helper()
	at := h.Path(path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) variable(name string, value []byte) {
	m.put(m.h, variables+"/"+name, "\x07\x00\x00\x00"+string(value))
}

// exec does what Debian's programs do, as far as it is looked at.
func (m *machine) exec(_ context.Context, c inside.Command) (inside.Output, error) {
	call := strings.TrimSpace(c.Path + " " + strings.Join(c.Args, " "))
	m.calls = append(m.calls, call)
	option := func(name string) string {
		for i, a := range c.Args {
			if v, ok := strings.CutPrefix(a, name+"="); ok {
				return v
			}
			if a == name {
				return c.Args[i+1]
			}
		}
		return ""
	}
	if c.Path == m.fail {
		return inside.Output{Code: 1, Err: []byte("it does not work")}, nil
	}
	switch c.Path {
	case "update-initramfs":
		m.put(m.target, "/boot/initrd.img-"+option("-k"), "initramfs")
	case "grub-install":
		if at := option("--efi-directory"); at != "" {
			folder := at + "/EFI/" + option("--bootloader-id")
			m.put(m.target, folder+"/grubx64.efi", "grub")
			m.put(m.target, folder+"/grub.cfg", "configuration")
			if m.shim {
				m.put(m.target, folder+"/shimx64.efi", "shim")
				m.put(m.target, folder+"/mmx64.efi", "mm")
				m.put(m.target, folder+"/fbx64.efi", "fb")
			}
		}
	case "update-grub":
		text, err := os.ReadFile(m.target.Path(proberFile))
		if others := err != nil || !strings.Contains(string(text), "\nGRUB_DISABLE_OS_PROBER=true\n"); others {
			m.t.Errorf("update-grub looks into the file systems of other disks: %q, %v", text, err)
		}
		m.put(m.target, "/boot/grub/grub.cfg", "linux /boot/vmlinuz-6.1.0-2-amd64 root=UUID=1\n")
	case "efibootmgr":
		if m.firmware {
			guid := map[string]string{"/dev/sda": guidC, "/dev/sdb": guidD}[option("--disk")]
			m.variable(fmt.Sprintf("Boot%04X"+global, 0x20+len(m.calls)), drive(option("--label"), 1, guid, option("--loader")))
		}
	}
	return inside.Output{}, nil
}

const (
	guidA = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
	guidB = "0fc63daf-8483-4772-8e79-3d69d8477de4"
	guidC = "11223344-5566-7788-99aa-bbccddeeff00"
	guidD = "00112233-4455-6677-8899-aabbccddeeff"
)

func utf16le(s string) []byte {
	var b []byte
	for _, c := range s {
		b = append(b, byte(c), byte(c>>8))
	}
	return append(b, 0, 0)
}

// drive is a load option as the UEFI specification has it, put together by hand.
func drive(name string, number byte, guid, file string) []byte {
	x, err := hex.DecodeString(strings.ReplaceAll(guid, "-", ""))
	if err != nil {
		panic(err)
	}
	node := []byte{4, 1, 42, 0, number, 0, 0, 0}
	node = append(node, 0, 8, 0, 0, 0, 0, 0, 0) // from sector 2048 on
	node = append(node, 0, 0, 16, 0, 0, 0, 0, 0)
	node = append(node, x[3], x[2], x[1], x[0], x[5], x[4], x[7], x[6])
	node = append(append(node, x[8:]...), 2, 2)
	text := utf16le(file)
	node = append(append(node, 4, 4, byte(4+len(text)), 0), text...)
	node = append(node, 0x7f, 0xff, 4, 0)
	return append(append(append([]byte{1, 0, 0, 0, byte(len(node)), byte(len(node) >> 8)}, utf16le(name)...), node...), "rest"...)
}

// network is a load option that starts no file: ACPI, PCI, and a node of a vendor, by hand as
// well.
var network = append(append([]byte{1, 0, 0, 0, 0x1a, 0}, utf16le("UEFI PXEv4")...),
	0x02, 0x01, 0x0c, 0x00, 0xd0, 0x41, 0x03, 0x0a, 0, 0, 0, 0, 0x01, 0x01, 0x06, 0x00, 0x00, 0x02, 0x03, 0x0b, 0x04, 0x00, 0x7f, 0xff, 0x04, 0x00)

// Only entries that start something of the given partitions are removed; where they cannot be
// known, that is said.
func TestClear(t *testing.T) {
	m := newMachine(t)
	all, err := Entries(m.h)
	if err != nil || len(all) != 2 || all[0] != (Entry{1, "debian", guidA, `\EFI\debian\shimx64.efi`}) || all[1].Number != 10 {
		t.Fatalf("got %+v, %v", all, err)
	}
	removed, err := Clear(m.h, []string{guidA, guidD})
	if err != nil || len(removed) != 1 || removed[0].String() != "Boot0001 (debian)" {
		t.Errorf("removed %v, %v", removed, err)
	}
	left, err := os.ReadDir(m.h.Path(variables))
	var names []string
	for _, e := range left {
		name, _, _ := strings.Cut(e.Name(), "-")
		names = append(names, name)
	}
	if want := []string{"Boot0000", "Boot0002", "Boot000A", "BootOrder"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("left: %v, %v", names, err)
	}
	if err := os.RemoveAll(m.h.Path(variables)); err != nil {
		t.Fatal(err)
	}
	if _, err := Clear(m.h, nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("without variables: %v", err)
	}
	if err := os.MkdirAll(m.h.Path(variables), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Clear(m.h, nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("where nothing is mounted: %v", err)
	}
}

var two = Plan{Mode: UEFI, Name: "n1", ESPs: []ESP{
	{Device: "/dev/sda1", Disk: "/dev/sda", Number: 1, GUID: guidC, Mount: "/boot/efi"}, {Device: "/dev/sdb1", Disk: "/dev/sdb", Number: 1, GUID: guidD, Mount: "/boot/efi2"},
}}

// Each disk has the boot loader, under its own name and at the fallback path, and an entry of
// the firmware that was read again.
func TestInstallUEFI(t *testing.T) {
	for _, shim := range []bool{true, false} {
		m := newMachine(t)
		m.shim = shim
		r, err := Install(t.Context(), m.h, m.target, two)
		if err != nil {
			t.Fatal(err)
		}
		starts, file := "grub", `\EFI\debian\grubx64.efi`
		if shim {
			starts, file = "shim", `\EFI\debian\shimx64.efi`
		}
		for _, esp := range []string{"/boot/efi", "/boot/efi2"} {
			if text, err := os.ReadFile(m.target.Path(esp + "/EFI/BOOT/BOOTX64.EFI")); string(text) != starts || err != nil {
				t.Errorf("%s starts %q, %v", esp, text, err)
			}
			if text, err := os.ReadFile(m.target.Path(esp + "/EFI/debian/grub.cfg")); string(text) != "configuration" || err != nil {
				t.Errorf("%s: %q, %v", esp, text, err)
			}
			if text, err := os.ReadFile(m.target.Path(esp + "/EFI/BOOT/grubx64.efi")); shim && string(text) != "grub" {
				t.Errorf("%s: shim finds no GRUB: %v", esp, err)
			}
			if _, err := os.Stat(m.target.Path(esp + "/EFI/BOOT/fbx64.efi")); err == nil {
				t.Errorf("%s: the fallback would start the machine once more", esp)
			}
		}
		if _, err := os.Stat(m.target.Path(proberFile)); err == nil {
			t.Error("the new system keeps update-grub from finding others")
		}
		var entries []string
		for _, e := range r.Entries {
			entries = append(entries, e.Name+" "+e.Partition+" "+e.File)
		}
		if want := []string{"n1 " + guidC + " " + file, "n1 2 " + guidD + " " + file}; !slices.Equal(entries, want) || r.Unknown != "" {
			t.Errorf("entries %v, %q", entries, r.Unknown)
		}
		want := []string{
			"update-initramfs -u -k 6.1.0-1-amd64", "update-initramfs -c -k 6.1.0-2-amd64",
			"grub-install --target=x86_64-efi --efi-directory=/boot/efi --bootloader-id=debian --no-nvram", "update-grub",
		}
		if !slices.Equal(m.calls[:4], want) || len(m.calls) != 6 {
			t.Errorf("it ran\n%s", strings.Join(m.calls, "\n"))
		}
		again, err := Install(t.Context(), m.h, m.target, two)
		if err != nil || len(again.Entries) != 2 || len(m.calls) != 10 {
			t.Errorf("once more: %+v, %v after %d calls", again, err, len(m.calls))
		}
	}
}

func TestInstallBIOS(t *testing.T) {
	m := newMachine(t)
	r, err := Install(t.Context(), m.h, m.target, Plan{Mode: BIOS, Disks: []string{"/dev/sda", "/dev/sdb"}})
	if err != nil || len(r.Kernels) != 2 || len(r.Entries) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if want := []string{"grub-install --target=i386-pc /dev/sda", "grub-install --target=i386-pc /dev/sdb", "update-grub"}; !slices.Equal(m.calls[2:], want) {
		t.Errorf("it ran\n%s", strings.Join(m.calls, "\n"))
	}
}

// What a system lacks to start is said, and what to do; what is unknown of the firmware too.
func TestWhatIsMissing(t *testing.T) {
	remove := func(path string) func(*machine, *Plan) {
		return func(m *machine, _ *Plan) {
			if err := os.RemoveAll(m.target.Path(path)); err != nil {
				m.t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		change        func(*machine, *Plan)
		says, unknown string
	}{
		"no kernel":          {remove("/boot"), "the image has no kernel", ""},
		"no initramfs":       {remove("/usr/sbin/update-initramfs"), "Add the package initramfs-tools", ""},
		"no GRUB":            {remove("/usr/lib/grub/x86_64-efi"), "Add the package grub-efi-amd64", ""},
		"no GRUB for a BIOS": {func(m *machine, p *Plan) { p.Mode = BIOS; remove("/usr/lib/grub/i386-pc")(m, p) }, "Add the package grub-pc-bin", ""},
		"no ESP":             {func(_ *machine, p *Plan) { p.ESPs = nil }, "no EFI system partition is designed", ""},
		"no disk":            {func(_ *machine, p *Plan) { p.Mode = BIOS }, "the design has no disk that a BIOS", ""},
		"no mode":            {func(_ *machine, p *Plan) { p.Mode = "coreboot" }, `"coreboot", which is neither`, ""},
		"initramfs fails":    {func(m *machine, _ *Plan) { m.fail = "update-initramfs" }, "ended with 1 in the new system:\nit does not work", ""},
		"GRUB fails":         {func(m *machine, _ *Plan) { m.fail = "grub-install" }, "ended with 1 in the new system", ""},
		"the menu fails":     {func(m *machine, _ *Plan) { m.fail = "update-grub" }, "ended with 1 in the new system", ""},
		"no efibootmgr":      {remove("/usr/bin/efibootmgr"), "", "the image has no efibootmgr"},
		"no variables": {func(m *machine, _ *Plan) {
			if err := os.RemoveAll(m.h.Path(variables)); err != nil {
				m.t.Fatal(err)
			}
		}, "", "the kernel shows no variables"},
		"firmware that forgets": {func(m *machine, _ *Plan) { m.firmware = false }, "the firmware has no entry for", ""},
	} {
		m, p := newMachine(t), two
		p.ESPs = slices.Clone(two.ESPs)
		c.change(m, &p)
		r, err := Install(t.Context(), m.h, m.target, p)
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) || c.says == "" && (err != nil || !strings.Contains(r.Unknown, c.unknown) || len(r.Entries) > 0) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// Firmware may hold anything.
func FuzzEntry(f *testing.F) {
	f.Add(drive("debian", 1, guidA, `\EFI\debian\shimx64.efi`))
	f.Add(network)
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, ok := parseEntry(b); ok && len(e.Partition) != 36 {
			t.Errorf("%+v", e)
		}
	})
}
