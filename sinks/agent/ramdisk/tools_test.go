package ramdisk_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/sinks/agent/ramdisk"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// dynamic is a program that says its name, and needs libc alone.
func dynamic(t *testing.T) []byte {
	t.Helper()
	return compiled(t, "#include <stdio.h>\nint main(int n, char **v) { puts(v[0]); return 0; }\n", nil)
}

// compiled compiles a program or a library, with some libraries that are made beside it.
func compiled(t *testing.T, source string, libraries map[string][]byte, args ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "m.c"), []byte(source))
	args = append([]string{"-o", "m", "m.c"}, args...)
	for name, content := range libraries {
		put(t, filepath.Join(dir, name), content)
		args = append(args, "./"+name)
	}
	does(t, dir, "gcc", append(args, "-Wl,--allow-shlib-undefined", "-Wl,--no-as-needed")...)
	return read(t, filepath.Join(dir, "m"))
}

const libraries = "usr/lib/x86_64-linux-gnu/"

// packLibc makes the package of the C library and its loader.
func packLibc(t *testing.T, folder, packing string, libc, loader []byte) {
	t.Helper()
	pack(t, folder, "libc6", "amd64", packing, map[string][]byte{
		libraries + "libc.so.6": libc, libraries + "ld-linux-x86-64.so.2": loader, "lib64/ld-linux-x86-64.so.2": []byte("-> /lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
	})
}

// realDebs are all packages, with the C library of this host, so that programs run.
func realDebs(t *testing.T, packing string) string {
	t.Helper()
	folder := debs(t, packing)
	packLibc(t, folder, packing, read(t, "/lib/x86_64-linux-gnu/libc.so.6"), read(t, "/lib64/ld-linux-x86-64.so.2"))
	return folder
}

// toolDebs makes packages of all programs for disks. One of the programs needs a library that
// needs another one; each is in a package of its own.
func toolDebs(t *testing.T, folder, packing string) {
	t.Helper()
	all, says := map[string]map[string][]byte{}, dynamic(t)
	for _, p := range wire.Programs {
		if all[p.Package] == nil {
			all[p.Package] = map[string][]byte{"usr/bin/not-asked-for": []byte("nothing")}
		}
		all[p.Package]["usr/sbin/"+p.Name] = says
		if p.File != "" {
			all[p.Package][p.File] = []byte("settings\n")
		}
	}
	// Links lead from the names of programs and libraries to their files, as in Debian.
	all["e2fsprogs"]["usr/sbin/mke2fs"], all["e2fsprogs"]["usr/sbin/mkfs.ext4"] = says, []byte("-> mke2fs")
	bar := compiled(t, "int bar(void) { return 7; }\n", nil, "-shared", "-fPIC", "-Wl,-soname,libbar.so.2")
	foo := compiled(t, "int bar(void); int foo(void) { return bar(); }\n", map[string][]byte{"libbar.so.2": bar}, "-shared", "-fPIC", "-Wl,-soname,libfoo.so.1")
	all["xfsprogs"]["usr/sbin/mkfs.xfs"] = compiled(t, "#include <stdio.h>\nint foo(void); int main(void) { printf(\"xfs %d\\n\", foo()); return 0; }\n", map[string][]byte{"libfoo.so.1": foo})
	for name, files := range all {
		depends := []string{"libc6 (>= 2.34)", "debconf | debconf-2.0", "libunused3"}
		if name == "xfsprogs" {
			depends = append(depends, "libfoo1 (>= 1) | libfoo-alternative", "python3:any")
		}
		pack(t, folder, name, "amd64", packing, files, depends...)
	}
	packLibc(t, folder, packing, bar, bar) // quickly packed, and enough where nothing runs
	pack(t, folder, "libfoo1", "amd64", packing, map[string][]byte{libraries + "libfoo.so.1.9": foo, libraries + "libfoo.so.1": []byte("-> libfoo.so.1.9")}, "libbar2")
	pack(t, folder, "libbar2", "amd64", packing, map[string][]byte{"lib/x86_64-linux-gnu/libbar.so.2": bar})
}

// remove takes packages out of a folder.
func remove(t *testing.T, folder string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.Remove(filepath.Join(folder, name+"_1.2-3_amd64.deb")); err != nil {
			t.Fatal(err)
		}
	}
}

// holdsTools holds the archive of programs to what other programs find in it: the same on the
// medium, with its digest in the initramfs, and programs that run with nothing else.
func holdsTools(t *testing.T, b *ramdisk.Built, initramfs string) {
	t.Helper()
	tools(t, "tar", "zstd", "xorriso")
	archive := read(t, b.Tools.Path)
	if sum := fmt.Sprintf("%x", sha256.Sum256(archive)); b.Tools.SHA256 != sum || b.Tools.Bytes != int64(len(archive)) {
		t.Errorf("the archive is %s with %d bytes, and it is told %+v", sum, len(archive), b.Tools)
	}
	at := filepath.Join(t.TempDir(), "tools")
	does(t, initramfs, "xorriso", "-osirrox", "on", "-indev", b.Medium.Path, "-extract", "/TOOLS.ZST", at)
	if !bytes.Equal(read(t, at), archive) {
		t.Error("the medium has another TOOLS.ZST")
	}
	medium := read(t, b.Medium.Path)
	from, size, err := wire.ToolsOf(bytes.NewReader(medium))
	if err != nil || !bytes.Equal(medium[from:from+size], archive) {
		t.Errorf("the agent finds another archive on the medium: %v", err)
	}
	var want wire.Tools
	if err := json.Unmarshal(read(t, filepath.Join(initramfs, wire.ToolsFile)), &want); err != nil || want != (wire.Tools{SHA256: b.Tools.SHA256, Bytes: b.Tools.Bytes, Unpacked: b.Tools.Unpacked}) {
		t.Errorf("the ramdisk wants %+v, %v", want, err)
	}
	for _, name := range wire.ToolsLinks {
		if to, err := os.Readlink(filepath.Join(initramfs, name)); to != wire.ToolsFolder+name {
			t.Errorf("%s leads to %q, %v", name, to, err)
		}
	}
	holdsPrograms(t, b, at, initramfs)
}

// holdsPrograms unpacks the archive as the agent does, into the folder that the links lead to.
func holdsPrograms(t *testing.T, b *ramdisk.Built, archive, initramfs string) {
	t.Helper()
	folder := filepath.Join(initramfs, wire.ToolsFolder)
	does(t, folder, "tar", "--zstd", "-xf", archive)
	var names, packages []string
	bytes := int64(0)
	for name := range strings.Lines(does(t, folder, "find", ".", "-type", "f", "-printf", "%P %s\n")) {
		var size int64
		var path string
		if _, err := fmt.Sscan(name, &path, &size); err != nil {
			t.Fatal(err)
		}
		names, bytes = append(names, path), bytes+size
	}
	want := []string{"etc/mke2fs.conf", "lib64/ld-linux-x86-64.so.2"}
	for _, library := range []string{"libbar.so.2", "libc.so.6", "libfoo.so.1"} {
		want = append(want, "usr/lib/x86_64-linux-gnu/"+library)
	}
	of := map[string]bool{"libbar2": true, "libc6": true, "libfoo1": true}
	for _, p := range wire.Programs {
		want, of[p.Package] = append(want, "usr/sbin/"+p.Name), true
	}
	if slices.Sort(names); !slices.Equal(names, want) || bytes != b.Tools.Unpacked {
		t.Errorf("the archive has %q with %d bytes, want %q with %d", names, bytes, want, b.Tools.Unpacked)
	}
	for _, p := range b.Tools.Packages {
		packages = append(packages, p.Name)
	}
	if want := slices.Sorted(maps.Keys(of)); !slices.Equal(packages, want) || len(b.Tools.Programs) != len(wire.Programs) {
		t.Errorf("it is told to come from %q, want %q, with %q", packages, want, b.Tools.Programs)
	}
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("only root may use chroot")
		}
		return
	}
	for _, p := range wire.Programs {
		says := "/usr/sbin/" + p.Name
		if p.Name == "mkfs.xfs" {
			says = "xfs 7"
		}
		out, err := exec.Command("chroot", initramfs, "/usr/sbin/"+p.Name).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != says {
			t.Errorf("%s says %q, %v", p.Name, out, err)
		}
	}
}
