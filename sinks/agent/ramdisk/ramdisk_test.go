package ramdisk_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"debug/pe"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/slipway-gitops/slipway/sinks/agent/ramdisk"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// tools are programs that judge what was made.
func tools(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skipf("%v: setup.sh installs it", err)
		}
	}
}

func does(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
}

// pack makes a package of files with dpkg-deb, as Debian does. It depends on others; a content
// that begins with "-> " is a link.
func pack(t *testing.T, folder, name, arch, packing string, files map[string][]byte, depends ...string) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		if to, ok := strings.CutPrefix(string(content), "-> "); ok {
			if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755), os.Symlink(to, filepath.Join(root, path))); err != nil {
				t.Fatal(err)
			}
			continue
		}
		put(t, filepath.Join(root, path), content)
	}
	control := "Package: " + name + "\nVersion: 1.2-3\nArchitecture: " + arch + "\nMaintainer: A <a@example.org>\nInstalled-Size: 100\nDescription: a test\n more\n"
	if len(depends) > 0 {
		control += "Depends: " + strings.Join(depends, ", ") + "\n"
	}
	put(t, filepath.Join(root, "DEBIAN/control"), []byte(control))
	file := filepath.Join(folder, name+"_1.2-3_"+arch+".deb")
	does(t, root, "dpkg-deb", "--root-owner-group", "-Z"+packing, "--build", root, file)
	return file
}

// object compiles a kernel module that does nothing and says something of itself.
func object(t *testing.T, info ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	var c strings.Builder
	for i, text := range info {
		fmt.Fprintf(&c, "__attribute__((section(\".modinfo\"),used)) static const char i%d[] = %q;\n", i, text)
	}
	put(t, filepath.Join(dir, "m.c"), []byte(c.String()))
	does(t, dir, "gcc", "-c", "-o", "m.o", "m.c")
	return read(t, filepath.Join(dir, "m.o"))
}

// program compiles a static program.
func program(t *testing.T, dynamic bool) string {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "m.c"), []byte("int main(void) { return 0; }\n"))
	args := []string{"-o", "agent", "m.c"}
	if !dynamic {
		args = append(args, "-static", "-nostdlib", "-Wl,-e,main")
	}
	does(t, dir, "gcc", args...)
	return filepath.Join(dir, "agent")
}

// stub is a program for UEFI with one section, as PE's specification has it.
func stub() []byte {
	le := binary.LittleEndian
	p := make([]byte, 0x600)
	copy(p, "MZ")
	p[0x3c] = 0x40
	copy(p[0x40:], "PE\x00\x00\x64\x86\x01\x00")
	le.PutUint16(p[0x54:], 240)
	le.PutUint16(p[0x56:], 0x0202)
	o := p[0x58:]
	le.PutUint16(o, 0x20b)
	le.PutUint32(o[32:], 0x1000)
	le.PutUint32(o[36:], 0x200)
	le.PutUint32(o[56:], 0x2000)
	le.PutUint32(o[60:], 0x400)
	le.PutUint16(o[68:], 10)
	le.PutUint32(o[108:], 16)
	s := p[0x58+240:]
	copy(s, ".text")
	le.PutUint32(s[8:], 0x123)
	le.PutUint32(s[12:], 0x1000)
	le.PutUint32(s[16:], 0x200)
	le.PutUint32(s[20:], 0x400)
	le.PutUint32(s[36:], 0x60000020)
	return p
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

const release = "6.9.0-1-amd64"

// madeDebs are packages that were made already, by how they are packed and their files' names.
var madeDebs = map[string]map[string][]byte{}

// debs is a folder with all packages. To make them takes longer than most tests.
func debs(t *testing.T, packing string) string {
	t.Helper()
	tools(t, "dpkg-deb", "gcc")
	if madeDebs[packing] == nil {
		made := t.TempDir()
		bootDebs(t, made, packing)
		toolDebs(t, made, packing)
		names, err := filepath.Glob(filepath.Join(made, "*.deb"))
		if err != nil {
			t.Fatal(err)
		}
		all := map[string][]byte{}
		for _, name := range names {
			all[filepath.Base(name)] = read(t, name)
		}
		madeDebs[packing] = all
	}
	folder := t.TempDir()
	for name, content := range madeDebs[packing] {
		put(t, filepath.Join(folder, name), content)
	}
	return folder
}

// bootDebs makes the packages of the kernel and of the EFI stub.
func bootDebs(t *testing.T, folder, packing string) {
	t.Helper()
	modules := "lib/modules/" + release + "/kernel/"
	pack(t, folder, "systemd-boot-efi", "amd64", packing, map[string][]byte{"usr/lib/systemd/boot/efi/linuxx64.efi.stub": stub()})
	pack(t, folder, "linux-image-"+release, "amd64", packing, map[string][]byte{
		"boot/vmlinuz-" + release:                          []byte("the kernel"),
		modules + "drivers/net/ethernet/intel/fast-net.ko": object(t, "depends=mid,low-er", "alias=pci:v00008086d00001592sv*sd*bc*sc*i*", "alias=pci:v0000AAAAd*", "softdep=pre: sum-crc missing post: other"),
		modules + "lib/mid.ko":                             object(t, "depends=low_er"),
		modules + "lib/low-er.ko":                          object(t, "depends="),
		modules + "lib/other.ko":                           object(t, "depends="),
		modules + "crypto/real_crc.ko":                     object(t, "alias=sum_crc"),
		modules + "drivers/gpu/drm/big.ko":                 []byte("not even a module"),
		modules + "drivers/net/wan/x25.ko":                 object(t, "depends="),
	})
}

func build(t *testing.T, debs string, o ramdisk.Options) (*ramdisk.Built, error) {
	t.Helper()
	o.Debs = debs
	if o.Out == "" {
		o.Out = t.TempDir()
	}
	if o.Agent == "" {
		o.Agent = program(t, false)
	}
	return ramdisk.Build(context.Background(), o)
}

// The image has its parts as other readers of PE find them, the initramfs what cpio unpacks, and
// the medium what xorriso finds. The same packages give the same bytes, however they are packed.
func TestBuild(t *testing.T) {
	tools(t, "cpio", "xorriso")
	agent, all := program(t, false), realDebs(t, "xz")
	steps := map[string]bool{}
	b, err := build(t, all, ramdisk.Options{Agent: agent, Append: "slipway.ip=10.1.0.7/24", Progress: func(what string, have, of int64) {
		steps[what] = true
		if have < 0 || have > of {
			t.Errorf("%s: %d of %d", what, have, of)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if b.Kernel != release || b.Modules != 4 || !steps["packs the initramfs"] || len(b.Packages) != 2 || b.Packages[0].Version != "1.2-3" {
		t.Errorf("%+v, %v", b, steps)
	}
	sections, root := parts(t, b.Image.Path), root(t, b)
	if string(sections[".linux"]) != "the kernel" || string(sections[".uname"]) != release || !strings.HasSuffix(string(sections[".cmdline"]), " slipway.ip=10.1.0.7/24") || !strings.Contains(string(sections[".osrel"]), "ID=slipway\n") {
		t.Errorf("%q, %q, %q", sections[".linux"], sections[".uname"], sections[".cmdline"])
	}
	if !bytes.Equal(read(t, filepath.Join(root, "init")), read(t, agent)) {
		t.Error("/init is not the agent")
	}
	if to, err := os.Readlink(filepath.Join(root, "sbin/modprobe")); to != "/init" {
		t.Error(to, err)
	}
	modules := filepath.Join(root, "lib/modules", release)
	dep := string(read(t, filepath.Join(modules, "modules.dep")))
	if want := "kernel/drivers/net/ethernet/intel/fast-net.ko: kernel/lib/mid.ko kernel/lib/low-er.ko\n"; !strings.Contains(dep, want) || strings.Contains(dep, "x25") || strings.Contains(dep, "big") {
		t.Errorf("modules.dep: %s", dep)
	}
	if a := string(read(t, filepath.Join(modules, "modules.alias"))); !strings.Contains(a, "alias pci:v00008086d00001592sv*sd*bc*sc*i* fast_net\n") || !strings.Contains(a, "alias sum_crc real_crc\n") {
		t.Errorf("modules.alias: %s", a)
	}
	if s := string(read(t, filepath.Join(modules, "modules.softdep"))); s != "softdep fast_net pre: real_crc\n" {
		t.Errorf("modules.softdep: %s", s)
	}
	holdsTools(t, b, root)
	told := does(t, root, "xorriso", "-indev", b.Medium.Path, "-report_el_torito", "plain", "-toc")
	if !strings.Contains(told, "UEFI") || !strings.Contains(told, "'SLIPWAY'") {
		t.Errorf("xorriso: %s", told)
	}
	medium := read(t, b.Medium.Path)
	if at, size, err := wire.ImageOf(bytes.NewReader(medium)); err != nil || !bytes.Equal(medium[at:at+size], read(t, b.Image.Path)) {
		t.Errorf("the daemon finds another image on the medium: %v", err)
	}
	holdsWords(t, root, b.Medium.Path)
	again, err := build(t, realDebs(t, "gzip"), ramdisk.Options{Agent: agent, Append: "slipway.ip=10.1.0.7/24"})
	if err != nil || again.Image.SHA256 != b.Image.SHA256 || again.Tools.SHA256 != b.Tools.SHA256 || again.Medium.SHA256 != b.Medium.SHA256 {
		t.Errorf("again: %+v, %v, not %+v", again, err, b)
	}
	other, err := build(t, all, ramdisk.Options{Agent: agent})
	if err != nil || other.Image.SHA256 == b.Image.SHA256 || other.Tools.SHA256 != b.Tools.SHA256 {
		t.Errorf("with another command line: %+v, %v", other, err)
	}
}

// holdsWords has the words of a boot on a medium, where other programs find them, and leaves
// all else as it is.
func holdsWords(t *testing.T, folder, path string) {
	t.Helper()
	plain := read(t, path)
	m, err := ramdisk.ForBoot(bytes.NewReader(plain), int64(len(plain)), "slipway.token=t0k", "slipway.daemon=10.1.0.2:9482")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(m)
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(t.TempDir(), "boot.iso")
	if err := os.WriteFile(at, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	does(t, folder, "xorriso", "-osirrox", "on", "-indev", at, "-extract", "/BOOT.TXT", at+".txt")
	text := read(t, at+".txt")
	if words := string(bytes.TrimRight(text, "\x00")); words != "slipway.token=t0k slipway.daemon=10.1.0.2:9482\n" {
		t.Errorf("xorriso finds the words %q", words)
	}
	differ := 0
	for i := range plain {
		if plain[i] != whole[i] {
			differ++
		}
	}
	if len(whole) != len(plain) || differ != len("slipway.token=t0k slipway.daemon=10.1.0.2:9482\n") {
		t.Errorf("%d of %d bytes differ, in %d", differ, len(plain), len(whole))
	}
	for off := int64(0); off < m.Size(); off += 1021 { // any range is that of the whole
		b := make([]byte, min(4099, m.Size()-off))
		if _, err := m.ReadAt(b, off); err != nil || !bytes.Equal(b, whole[off:off+int64(len(b))]) {
			t.Fatalf("from byte %d it is another medium: %v", off, err)
		}
	}
	for says, words := range map[string]string{"room for 4096": strings.Repeat("x", 4096), "printable": "slipway.token=t\n"} {
		if _, err := ramdisk.ForBoot(bytes.NewReader(plain), int64(len(plain)), words); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	if _, err := ramdisk.ForBoot(bytes.NewReader(plain[:1<<15]), 1<<15, "x"); !errors.Is(err, wire.ErrNoMedium) {
		t.Errorf("of what is no medium: %v", err)
	}
}

// root is the initramfs of an image, in a folder.
func root(t *testing.T, b *ramdisk.Built) string {
	t.Helper()
	return unpacked(t, parts(t, b.Image.Path)[".initrd"])
}

// parts are the sections of an image. None lies over another, in the file or in memory.
func parts(t *testing.T, file string) map[string][]byte {
	t.Helper()
	f, err := pe.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string][]byte{}
	o := f.OptionalHeader.(*pe.OptionalHeader64)
	for i, s := range f.Sections {
		content, err := s.Data()
		if err != nil {
			t.Fatal(err)
		}
		all[s.Name] = content[:min(int(s.VirtualSize), len(content))]
		if s.VirtualAddress+s.VirtualSize > o.SizeOfImage || s.Offset%o.FileAlignment != 0 {
			t.Errorf("section %s at %x+%x of %x, %x in the file", s.Name, s.VirtualAddress, s.VirtualSize, o.SizeOfImage, s.Offset)
		}
		for _, before := range f.Sections[:i] {
			if s.VirtualAddress < before.VirtualAddress+before.VirtualSize && before.VirtualAddress < s.VirtualAddress+s.VirtualSize || s.Offset < before.Offset+before.Size && before.Offset < s.Offset+s.Size {
				t.Errorf("section %s lies over %s", s.Name, before.Name)
			}
		}
	}
	return all
}

// unpacked is the initramfs in a folder, as cpio(1) unpacks it.
func unpacked(t *testing.T, packed []byte) string {
	t.Helper()
	r, err := zstd.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	root := t.TempDir()
	cmd := exec.Command("cpio", "-id", "--quiet", "--no-absolute-filenames", "--nonmatching", "dev/console") // making a device needs root
	cmd.Dir, cmd.Stdin = root, r
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cpio: %v\n%s", err, out)
	}
	return root
}

// What is wrong with the packages is said, with the package's name, and nothing is written.
func TestWrongPackages(t *testing.T) {
	tools(t, "dpkg-deb", "gcc")
	agent := program(t, false)
	kernel, boot := "linux-image-"+release+"_1.2-3_amd64.deb", "systemd-boot-efi_1.2-3_amd64.deb"
	for name, c := range map[string]struct {
		spoil func(t *testing.T, folder string)
		says  string
	}{
		"no kernel": {func(t *testing.T, f string) { os.Remove(filepath.Join(f, kernel)) }, "has no package with a kernel"},
		"no stub":   {func(t *testing.T, f string) { os.Remove(filepath.Join(f, boot)) }, "has no package with the EFI stub of systemd"},
		"no folder": {func(t *testing.T, f string) { os.RemoveAll(f) }, "the folder of packages cannot be read"},
		"another machine's": {func(t *testing.T, f string) {
			os.Remove(filepath.Join(f, boot))
			pack(t, f, "systemd-boot-efi", "arm64", "gzip", nil)
		}, "is for machines of the architecture arm64"},
		"two kernels": {func(t *testing.T, f string) {
			pack(t, f, "linux-image-6.8.0-1-amd64", "amd64", "gzip", nil)
		}, "a ramdisk is made of one of them"},
		"half a kernel": {func(t *testing.T, f string) {
			all := read(t, filepath.Join(f, kernel))
			put(t, filepath.Join(f, kernel), all[:len(all)/2])
		}, "the package is cut off"},
		"a kernel cut inside": {func(t *testing.T, f string) {
			all := read(t, filepath.Join(f, kernel))
			put(t, filepath.Join(f, kernel), cutData(t, all))
		}, "the package is cut off"},
		"no package":   {func(t *testing.T, f string) { put(t, filepath.Join(f, boot), []byte("<html>not found</html>")) }, "it is not a Debian package"},
		"an empty one": {func(t *testing.T, f string) { put(t, filepath.Join(f, boot), nil) }, "it is not a Debian package"},
		"a package without its file": {func(t *testing.T, f string) {
			os.Remove(filepath.Join(f, boot))
			pack(t, f, "systemd-boot-efi", "amd64", "gzip", nil)
		}, "it has no linuxx64.efi.stub"},
		"a stub that is none": {func(t *testing.T, f string) {
			os.Remove(filepath.Join(f, boot))
			pack(t, f, "systemd-boot-efi", "amd64", "gzip", map[string][]byte{"usr/lib/systemd/boot/efi/linuxx64.efi.stub": []byte("MZ")})
		}, "is not a program for 64-bit UEFI"},
		"no programs":   {func(t *testing.T, f string) { remove(t, f, "mdadm", "lvm2") }, "lacks packages with programs for disks: put lvm2, mdadm there"},
		"no library":    {func(t *testing.T, f string) { remove(t, f, "libbar2") }, "libfoo.so.1 of the package libfoo1 needs the library libbar.so.2, and no package has it: put the packages libbar2 into"},
		"other library": {func(t *testing.T, f string) { remove(t, f, "libbar2"); pack(t, f, "libbar2", "amd64", "gzip", nil) }, "needs the library libbar.so.2, and no package has it: the packages are of different releases"},
		"a package without its program": {func(t *testing.T, f string) {
			remove(t, f, "mdadm")
			pack(t, f, "mdadm", "amd64", "gzip", map[string][]byte{"usr/share/mdadm": []byte("x")})
		}, "it has no program mdadm"},
		"a program that leads nowhere": {func(t *testing.T, f string) {
			remove(t, f, "mdadm")
			pack(t, f, "mdadm", "amd64", "gzip", map[string][]byte{"sbin/mdadm": []byte("-> mdadm")})
		}, "it has no program mdadm"},
		"a program that is a script": {func(t *testing.T, f string) {
			remove(t, f, "mdadm")
			pack(t, f, "mdadm", "amd64", "gzip", map[string][]byte{"sbin/mdadm": []byte("#!/bin/sh\n")})
		}, "mdadm of it is neither a program nor a library for amd64"},
		"a package under another name": {func(t *testing.T, f string) {
			if err := os.Rename(filepath.Join(f, "mount_1.2-3_amd64.deb"), filepath.Join(f, "mdadm_1.2-3_amd64.deb")); err != nil {
				t.Fatal(err)
			}
		}, "mdadm_1.2-3_amd64.deb is the package mount"},
		"two packages of one name": {func(t *testing.T, f string) {
			put(t, filepath.Join(f, "mdadm_2_amd64.deb"), read(t, filepath.Join(f, "mdadm_1.2-3_amd64.deb")))
		}, "mdadm_1.2-3_amd64.deb and mdadm_2_amd64.deb are in the folder of packages"},
		"no settings of mkfs.ext4": {func(t *testing.T, f string) {
			remove(t, f, "e2fsprogs")
			pack(t, f, "e2fsprogs", "amd64", "gzip", map[string][]byte{"sbin/mkfs.ext4": dynamic(t)}, "libc6")
		}, "it has no file /etc/mke2fs.conf, which mkfs.ext4 reads"},
		"a module without what it needs": {func(t *testing.T, f string) {
			os.Remove(filepath.Join(f, kernel))
			pack(t, f, "linux-image-"+release, "amd64", "gzip", map[string][]byte{"boot/vmlinuz-" + release: []byte("k"),
				"lib/modules/" + release + "/kernel/drivers/net/ethernet/a.ko": object(t, "depends=gone")})
		}, "the module a needs gone"},
	} {
		t.Run(name, func(t *testing.T) {
			folder, out := debs(t, "gzip"), t.TempDir()
			c.spoil(t, folder)
			_, err := build(t, folder, ramdisk.Options{Agent: agent, Out: out})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if left, _ := os.ReadDir(out); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// cutData cuts the packed files of a package, within an archive that is whole.
func cutData(t *testing.T, all []byte) []byte {
	t.Helper()
	at := bytes.Index(all, []byte("data.tar.gz"))
	if at < 0 {
		t.Fatal("no data.tar.gz")
	}
	const head = 60
	packed := all[at+head:]
	packed = packed[:len(packed)/2&^1]
	return append(append(slices.Clone(all[:at]), fmt.Appendf(nil, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", "data.tar.gz", 0, 0, 0, "100644", len(packed))...), packed...)
}

// An agent that does not run in the ramdisk is not put there.
func TestWrongAgents(t *testing.T) {
	folder := debs(t, "gzip")
	arm := filepath.Join(t.TempDir(), "agent")
	put(t, arm, append([]byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00\x01\x00\x00\x00"), make([]byte, 40)...))
	for file, says := range map[string]string{
		filepath.Join(t.TempDir(), "none"): "there is no agent to put into the ramdisk",
		program(t, true):                   "needs libraries",
		arm:                                "is not a program for amd64",
	} {
		if _, err := build(t, folder, ramdisk.Options{Agent: file}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	if _, err := build(t, folder, ramdisk.Options{Append: "a\nb"}); err == nil || !strings.Contains(err.Error(), "one line") {
		t.Error(err)
	}
}

// Without room the files of before stay, and the error says what is needed.
func TestNoRoom(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("only root may mount")
		}
		t.Skip("only root may mount")
	}
	folder, out := debs(t, "gzip"), t.TempDir()
	does(t, out, "mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", out)
	t.Cleanup(func() { does(t, "/", "umount", out) })
	put(t, filepath.Join(out, ramdisk.ImageName), []byte("before"))
	_, err := build(t, folder, ramdisk.Options{Out: out})
	if err == nil || !strings.Contains(err.Error(), "there is no room for "+out) {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(out); len(left) != 1 || string(read(t, filepath.Join(out, ramdisk.ImageName))) != "before" {
		t.Errorf("left %v", left)
	}
}

// An interrupt ends the work at any point, and leaves nothing.
func TestInterrupted(t *testing.T) {
	folder, agent := debs(t, "gzip"), program(t, false)
	for _, at := range []string{"packs the programs for disks", "unpacks the kernel", "packs the initramfs"} {
		ctx, cancel := context.WithCancel(context.Background())
		out := t.TempDir()
		_, err := ramdisk.Build(ctx, ramdisk.Options{Debs: folder, Agent: agent, Out: out, Progress: func(what string, _, _ int64) {
			if what == at {
				cancel()
			}
		}})
		if left, _ := os.ReadDir(out); !errors.Is(err, context.Canceled) || len(left) > 0 {
			t.Errorf("%s: %v, left %v", at, err, left)
		}
		cancel()
	}
}

// Whatever a package is, reading it ends with an error or without.
func FuzzPackage(f *testing.F) {
	var data bytes.Buffer
	z := gzip.NewWriter(&data)
	w := tar.NewWriter(z)
	w.WriteHeader(&tar.Header{Name: "./control", Size: 12, Mode: 0o644})
	w.Write([]byte("Package: a\n\n"))
	w.Close()
	z.Close()
	f.Add(fmt.Appendf(nil, "!<arch>\n%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", "control.tar.gz", 0, 0, 0, "100644", data.Len(), data.Bytes()))
	f.Add([]byte("!<arch>\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		folder := t.TempDir()
		put(t, filepath.Join(folder, "systemd-boot-efi_1_amd64.deb"), content)
		if _, err := ramdisk.Build(context.Background(), ramdisk.Options{Debs: folder, Agent: "/proc/self/exe", Out: folder}); err == nil {
			t.Error("it was built of nothing")
		}
	})
}
