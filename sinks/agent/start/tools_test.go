package start

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// memoryOf is a machine in a folder whose ramdisk wants an archive.
type memoryOf struct {
	t    *testing.T
	root string
	want wire.Tools
	said []string
}

func newMemory(t *testing.T, archive []byte, unpacked int64) *memoryOf {
	t.Helper()
	m := &memoryOf{t: t, root: t.TempDir(), want: wire.Tools{SHA256: fmt.Sprintf("%x", sha256.Sum256(archive)), Bytes: int64(len(archive)), Unpacked: unpacked}}
	text, err := json.Marshal(m.want)
	if err != nil {
		t.Fatal(err)
	}
	m.put(wire.ToolsFile, text)
	m.put("proc/meminfo", []byte("MemAvailable: 1000000 kB\n"))
	for _, folder := range []string{wire.ToolsFolder, "sys/class/block", "dev"} {
		if err := os.MkdirAll(filepath.Join(m.root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = leaveTools(filepath.Join(m.root, wire.ToolsFolder)) }) // where nobody may mount there is nothing
	return m
}

func (m *memoryOf) put(path string, content []byte) {
	m.t.Helper()
	at := filepath.Join(m.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, content, 0o644)); err != nil {
		m.t.Fatal(err)
	}
}

// device adds a block device below a folder of the kernel's devices.
func (m *memoryOf) device(name, below, removable string, content []byte) {
	m.t.Helper()
	at := "sys/devices/" + below + "/" + name
	m.put(at+"/removable", []byte(removable+"\n"))
	m.put("dev/"+name, content)
	if err := os.Symlink(filepath.Join(m.root, at), filepath.Join(m.root, "sys/class/block", name)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *memoryOf) host() *inside.Host {
	h := inside.Real(m.root, true)
	h.Tell = func(text string) { m.said = append(m.said, text) }
	return h
}

// mediumWith is a medium with an archive, as ECMA-119 has its descriptor.
func mediumWith(archive []byte) []byte {
	const at = 51200
	b := make([]byte, at, at+len(archive))
	copy(b[wire.VolumeAt:], "\x01CD001\x01")
	copy(b[wire.VolumeAt+wire.ApplicationUse:], fmt.Sprintf("%s47104 4096\n%s%d %d\n", wire.MediumMark, wire.ToolsMark, at, len(archive)))
	return append(b, archive...)
}

// archiveOf packs files as the ramdisk's are packed.
func archiveOf(t *testing.T, files map[string]string, more ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o755, ModTime: time.Unix(0, 0)}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range more {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func mayMount(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("only root may mount")
		}
		t.Skip("only root may mount")
	}
}

var someFiles = map[string]string{"usr/sbin/mkfs.ext4": "a program", "lib64/ld.so": "a loader"}

const someBytes = 17

// The programs come from a medium of ours, wherever among the devices it is, also one that
// appears late, and again after a try that was cut. A disk that has the same bytes is not looked
// at.
func TestProgramsComeFromTheMedium(t *testing.T) {
	mayMount(t)
	archive := archiveOf(t, someFiles)
	for name, device := range map[string][3]string{"a CD": {"sr0", "pci/ata1", "1"}, "on USB": {"sdb", "pci/usb1/1-1", "0"}, "memory": {"pmem0", "nd", "0"}, "a card": {"sdc", "pci/card", "1"}} {
		m := newMemory(t, archive, someBytes)
		m.device("sr1", "pci/ata2", "1", []byte("another disc"))
		m.device(device[0], device[1], device[2], mediumWith(archive))
		link, other := filepath.Join(m.root, "sys/class/block", device[0]), filepath.Join(m.root, "dev/sr1")
		to, err := os.Readlink(link)
		if err = errors.Join(err, os.Remove(link)); err != nil {
			t.Fatal(err)
		}
		m.device("sda", "pci/ata3", "0", mediumWith(archive))
		h := m.host()
		if err := (&medium{}).programs(t.Context(), h); err == nil || !strings.Contains(err.Error(), "no CD, USB or memory device of the machine has it") {
			t.Errorf("%s: without it: %v", name, err)
		}
		if err := errors.Join(os.Remove(other), syscall.Mkfifo(other, 0o600)); err != nil {
			t.Fatal(err)
		}
		late := make(chan error, 1)
		go func() { // while the first look is at the other disc
			f, err := os.OpenFile(other, os.O_WRONLY, 0)
			late <- errors.Join(err, os.Remove(other), os.Symlink(to, link), f.Close())
		}()
		if err := (&medium{wait: time.Minute, every: time.Millisecond}).programs(t.Context(), h); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := <-late; err != nil {
			t.Fatal(err)
		}
		if err := (&medium{}).programs(t.Context(), h); err != nil { // in the place of what is there
			t.Errorf("%s: again: %v", name, err)
		}
		for file, want := range someFiles {
			is, err := os.ReadFile(filepath.Join(m.root, wire.ToolsFolder, file))
			if err != nil || string(is) != want {
				t.Errorf("%s: %s is %q, %v", name, file, is, err)
			}
		}
		if last := m.said[len(m.said)-1]; !strings.HasSuffix(last, "2 files, 0 MB, of the medium "+device[0]) {
			t.Errorf("%s: it said %q", name, m.said)
		}
		var s syscall.Statfs_t
		if err := syscall.Statfs(filepath.Join(m.root, wire.ToolsFolder), &s); err != nil || s.Blocks*uint64(s.Bsize) > 5<<20 {
			t.Errorf("%s: the memory for them has %d bytes, %v", name, s.Blocks*uint64(s.Bsize), err)
		}
	}
}

// Whatever is not the archive of this ramdisk is refused with a sentence, and not unpacked.
func TestProgramsAreRefused(t *testing.T) {
	archive := archiveOf(t, someFiles)
	changed := slices.Clone(archive)
	changed[len(changed)/2] ^= 1
	noTools := mediumWith(archive)
	clear(noTools[wire.VolumeAt+wire.ApplicationUse+len(wire.MediumMark)+len("47104 4096\n"):][:40])
	for name, c := range map[string]struct {
		change func(m *memoryOf)
		says   string
	}{
		"no medium":       {func(m *memoryOf) {}, "no CD, USB or memory device of the machine has it after 0s: attach the ISO again"},
		"a changed one":   {func(m *memoryOf) { m.device("sr0", "x", "1", mediumWith(changed)) }, "the medium sr0 is of a ramdisk, and has other programs for disks, with the SHA-256"},
		"of another size": {func(m *memoryOf) { m.device("sr0", "x", "1", mediumWith(append(changed, 0))) }, "bytes and not the"},
		"an earlier one":  {func(m *memoryOf) { m.device("sr0", "x", "1", noTools) }, "the medium sr0 is of a ramdisk, and it has no programs for disks"},
		"cut off":         {func(m *memoryOf) { b := mediumWith(archive); m.device("sr0", "x", "1", b[:len(b)-1]) }, "its programs for disks cannot be read"},
		"little memory":   {func(m *memoryOf) { m.put("proc/meminfo", []byte("MemAvailable: 50000 kB\n")) }, "the machine has 48 MB of free memory, and the programs for disks need 112 MB"},
		"unknown memory":  {func(m *memoryOf) { os.Remove(filepath.Join(m.root, "proc/meminfo")) }, "it is not known how much memory of the machine is free"},
		"no archive":      {func(m *memoryOf) { os.Remove(filepath.Join(m.root, wire.ToolsFile)) }, "the ramdisk does not say which programs for disks belong to it"},
		"a vast archive": {func(m *memoryOf) {
			m.put(wire.ToolsFile, fmt.Appendf(nil, `{"sha256": %q, "bytes": %d, "unpacked": 1}`, m.want.SHA256, wire.MaxTools+1))
		}, "the ramdisk does not say which programs"},
		"a vast tree": {func(m *memoryOf) {
			m.put(wire.ToolsFile, fmt.Appendf(nil, `{"sha256": %q, "bytes": 1, "unpacked": %d}`, m.want.SHA256, wire.MaxUnpackedTools+1))
		}, "the ramdisk does not say which programs"},
		"no digest": {func(m *memoryOf) { m.put(wire.ToolsFile, []byte(`{"sha256": "ab", "bytes": 1, "unpacked": 1}`)) }, "the ramdisk does not say which programs"},
		"no JSON":   {func(m *memoryOf) { m.put(wire.ToolsFile, bytes.Repeat([]byte("["), maxToolsFile+1)) }, "the ramdisk does not say which programs"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, archive, someBytes)
			c.change(m)
			err := (&medium{}).programs(t.Context(), m.host())
			var is *wire.Error
			if !errors.As(err, &is) || is.Class != wire.Refused || !strings.Contains(is.Text, c.says) || !strings.HasSuffix(is.Text, "; nothing was written") {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if left, _ := os.ReadDir(filepath.Join(m.root, wire.ToolsFolder)); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// An archive whose digest is right, but that is no archive, or has more than it is said to have,
// leaves nothing behind.
func TestProgramsThatCannotBeUnpacked(t *testing.T) {
	mayMount(t)
	for name, c := range map[string]struct {
		archive []byte
		says    string
	}{
		"no archive": {[]byte(strings.Repeat("nothing", 100)), "unpack the programs for disks"},
		"more files": {archiveOf(t, map[string]string{"usr/sbin/mkfs.ext4": strings.Repeat("x", 18)}), "more than the 17 bytes"},
		"leads out":  {archiveOf(t, nil, &tar.Header{Typeflag: tar.TypeReg, Name: "../outside", Mode: 0o755}), "leads out of a folder"},
	} {
		m := newMemory(t, c.archive, someBytes)
		m.device("sr0", "x", "1", mediumWith(c.archive))
		err := (&medium{}).programs(t.Context(), m.host())
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "nothing was written") {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
		if left, _ := os.ReadDir(filepath.Join(m.root, wire.ToolsFolder)); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
		if _, err := os.Lstat(filepath.Join(m.root, "outside")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it wrote outside: %v", name, err)
		}
	}
}

// A request that ends ends the wait for the medium too.
func TestWaitForTheMediumEnds(t *testing.T) {
	m := newMemory(t, archiveOf(t, someFiles), someBytes)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&medium{wait: time.Hour}).programs(ctx, m.host()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
