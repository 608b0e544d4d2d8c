package install_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/layout"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/disk"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/image"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/install"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/run"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

const secret = "the ledger of a customer"

// loopDisk is a block device of the kernel over a file of secrets, which the machine has as a
// disk.
func (m *machine) loopDisk(name, serial string, size int64) (backing string) {
	m.t.Helper()
	skip := func(why string) {
		if os.Getenv("CI") != "" {
			m.t.Fatal(why)
		}
		m.t.Skip(why)
	}
	if os.Getuid() != 0 {
		skip("only root makes loop devices")
	}
	m.disk(name, serial, size)
	if err := os.Remove(filepath.Join(m.root, "dev", name)); err != nil {
		m.t.Fatal(err)
	}
	backing = filepath.Join(m.t.TempDir(), name)
	if err := os.WriteFile(backing, bytes.Repeat([]byte(secret), int(size)/len(secret)+1)[:size], 0o600); err != nil {
		m.t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", "--partscan", backing).CombinedOutput()
	if err != nil {
		skip("losetup: " + string(out) + err.Error())
	}
	device := strings.TrimSpace(string(out))
	m.t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			m.t.Errorf("%s: %v", out, err)
		}
	})
	var s syscall.Stat_t
	if err := syscall.Stat(device, &s); err != nil {
		m.t.Fatal(err)
	}
	m.put("sys/devices/"+name+"/dev", fmt.Sprintf("%d:%d", s.Rdev>>8, s.Rdev&0xff), 0o644)
	if err := syscall.Mknod(filepath.Join(m.root, "dev", name), syscall.S_IFBLK|0o600, int(s.Rdev)); err != nil {
		skip("mknod: " + err.Error())
	}
	return backing
}

// The disks that a design erases are erased on real block devices, and no others: not one that is
// kept, and not one that nobody designed. An earlier try has erased them once and for all.
func TestErase(t *testing.T) {
	m := &machine{t: t, root: t.TempDir(), is: wire.Machine{UUID: "4c4c4544-0051-3510-8052-b4c04f4a3732", Serial: "J7RQ5R2"}}
	for _, name := range []string{"mount", "umount", "chroot", "mkfs.ext4", "mkfs.vfat", "mkfs.xfs"} {
		m.put("usr/sbin/"+name, "#!/bin/sh\n", 0o755)
	}
	m.put("proc/self/mountinfo", "22 1 0:2 / / rw - rootfs rootfs rw\n", 0o644)
	m.put("proc/swaps", "", 0o644)
	m.put("sys/firmware/efi/efivars/x", "", 0o644)
	var b bytes.Buffer
	m.pack(&b, tar.NewWriter(&b), whole...)
	erased := m.loopDisk("sda", "S1", 96*mib)
	kept := m.loopDisk("sdb", "KEPT", 24*mib)
	other := m.loopDisk("sdc", "OTHER", 16*mib)

	n := design()
	n.Storage.Erase = item.EraseSecure
	os1 := n.Storage.Disks["os"]
	os1.Match = &site.DiskMatch{MinSize: 90 * mib}
	for name, text := range map[string]string{"efi": "40MiB", "root": ">20MiB"} {
		p := os1.Partitions[name]
		var err error
		if p.Size, err = site.ParseExtent(text); err != nil {
			t.Fatal(err)
		}
		os1.Partitions[name] = p
	}
	n.Storage.Disks = map[string]site.Disk{"os": os1, "data": {Match: &site.DiskMatch{MinSize: 20 * mib, MaxSize: 30 * mib}, Keep: true}}
	seen, err := disk.Observe(t.Context(), m.host())
	if err != nil {
		t.Fatal(err)
	}
	l, findings := layout.Of(n, seen)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	sum := sha256.Sum256(m.archive)
	r := wire.Request{Version: wire.Version, Op: wire.OpInstall, Site: "s", Node: "n1", Term: 3, Install: &wire.Install{
		UUID: m.is.UUID, Serial: m.is.Serial, Layout: l, Boot: "uefi", Marker: `{"node":"n1","generation":1}`,
		Image: wire.Image{Kind: "root", SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(m.archive)), URL: "http://192.0.2.1/x/image.tar"},
	}}
	i := &install.Installer{
		Machine: func(*inside.Host) wire.Machine { return m.is },
		Source:  func(wire.Image) (image.Source, error) { return m, nil },
	}
	try := func(r wire.Request) (said []string, told []item.Erasure, is *wire.Installed) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		h := m.host()
		h.TellErased = func(e item.Erasure) { told = append(told, e) }
		h.Tell = func(text string) {
			said = append(said, text)
			if strings.HasPrefix(text, "writing the disk") {
				cancel() // its partitions appear in the kernel, and not in this machine
			}
		}
		is, err := i.Install(ctx, h, r)
		if err == nil || is == nil {
			t.Fatalf("it went on to its end: %v", is)
		}
		t.Log(err)
		return said, told, is
	}
	_, told, is := try(r)
	if len(told) != 1 || !told[0].Done || told[0].Serial != "S1" || told[0].Disk != "os" || told[0].Last().Method != "overwrite" || len(is.Erased) != 1 || !is.Erased[0].Done {
		t.Fatalf("told was %+v, and %+v", told, is.Erased)
	}
	holds := func(backing string) bool {
		syscall.Sync()
		text, err := os.ReadFile(backing)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(text, []byte(secret))
	}
	if holds(erased) {
		t.Error("the disk holds what it held")
	}
	for name, backing := range map[string]string{"kept": kept, "other": other} {
		text, err := os.ReadFile(backing)
		if err != nil || !bytes.Equal(text, bytes.Repeat([]byte(secret), 24*mib/len(secret)+1)[:len(text)]) {
			t.Errorf("the disk that is %s was written: %v", name, err)
		}
	}

	// Another try of the same installation does not erase it again, by the agent's own memory,
	// and, in another process, by what the daemon has recorded.
	again := func(said []string, told []item.Erasure) {
		t.Helper()
		if len(told) != 0 || !strings.Contains(strings.Join(said, "\n"), "were erased by an earlier try of this installation") {
			t.Errorf("it was erased again: %q, %+v", said, told)
		}
	}
	said, told, is := try(r)
	if again(said, told); len(is.Erased) != 1 {
		t.Errorf("the agent does not tell it again: %+v", is.Erased)
	}
	i = &install.Installer{Machine: i.Machine, Source: i.Source}
	asked := *r.Install
	asked.Erased = []string{"S1"}
	r.Install = &asked
	said, told, _ = try(r)
	again(said, told)

	// An error behind the erasure does not say that nothing was written.
	i = &install.Installer{Machine: i.Machine, Source: i.Source}
	asked.Erased = nil
	h := m.host()
	h.TellErased = func(item.Erasure) {
		m.put("proc/swaps", "Filename Type Size Used Priority\n/dev/sda partition 1 0 -1\n", 0o644)
	}
	_, err = i.Install(t.Context(), h, r)
	if err == nil || !strings.HasPrefix(err.Error(), "the disks were erased, and then: sda is in use as swap") || strings.Contains(err.Error(), "nothing was written") {
		t.Errorf("after the disks were erased: %v", err)
	}
}

// A machine that leaves the design: its designed disks are erased and nothing is put there, others
// stay as they are, and what is asked for again goes on. What does not fit is refused before.
func TestRetire(t *testing.T) {
	m := &machine{t: t, root: t.TempDir(), is: wire.Machine{UUID: "4c4c4544-0051-3510-8052-b4c04f4a3732", Serial: "J7RQ5R2"}}
	m.put("proc/self/mountinfo", "22 1 0:2 / / rw - rootfs rootfs rw\n", 0o644)
	m.put("proc/swaps", "", 0o644)
	m.put("sys/firmware/efi/efivars/x", "", 0o644)
	erased, kept, other := m.loopDisk("sda", "S1", 96*mib), m.loopDisk("sdb", "KEPT", 24*mib), m.loopDisk("sdc", "OTHER", 16*mib)
	n := design()
	n.Decommission, n.DecommissionErase = true, item.EraseSecure
	os1 := n.Storage.Disks["os"] // with its partitions, of which none is made
	os1.Match = &site.DiskMatch{MinSize: 90 * mib}
	n.Storage.Disks = map[string]site.Disk{"os": os1, "data": {Match: &site.DiskMatch{MinSize: 20 * mib, MaxSize: 30 * mib}, Keep: true, Use: site.Use{Filesystem: &site.Filesystem{Type: "ext4", Mount: "/srv"}}}}
	seen, err := disk.Observe(t.Context(), m.host())
	if err != nil {
		t.Fatal(err)
	}
	l, findings := layout.Of(n.Retiring(), seen)
	if len(findings) > 0 || len(l.Destroys) != 1 || len(l.Filesystems)+len(l.Arrays) > 0 || l.Erase != item.EraseSecure {
		t.Fatalf("the disks become %+v, %v", l, findings)
	}
	i := &install.Installer{Machine: func(*inside.Host) wire.Machine { return m.is }}
	ask := func(change func(*wire.Request)) (said []string, told []item.Erasure, _ wire.Result) {
		a := wire.Install{UUID: m.is.UUID, Serial: m.is.Serial, Layout: l, Marker: "erase 1"}
		r := wire.Request{Version: wire.Version, Op: wire.OpErase, Site: "s", Node: "n1", Term: 3, Install: &a}
		if change != nil {
			change(&r)
		}
		h := m.host()
		h.Tell = func(text string) { said = append(said, text) }
		h.TellErased = func(e item.Erasure) { told = append(told, e) }
		return said, told, (&run.Program{Host: h, Install: i.Install}).Do(t.Context(), r)
	}
	holds := func(backing string) bool {
		syscall.Sync()
		text, err := os.ReadFile(backing)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(text, []byte(secret))
	}
	for name, c := range map[string]struct {
		change func(*wire.Request)
		says   string
	}{
		"another machine":      {func(r *wire.Request) { r.Install.UUID = "4c4c4544-0000-0000-0000-000000000000" }, "it is another machine; nothing was written"},
		"another disk":         {func(r *wire.Request) { r.Install.Layout.Disks[0].Serial = "S9" }, "is gone; there are"},
		"nobody asks to erase": {func(r *wire.Request) { r.Install.Layout.Erase = "" }, "does not ask for it in its layout; nothing was written"},
		"says not what":        {func(r *wire.Request) { r.Install = nil }, "the request to erase does not say what to erase"},
	} {
		l.Disks = slices.Clone(l.Disks)
		if _, _, got := ask(c.change); got.Error == nil || got.Error.Class != wire.Refused || !strings.Contains(got.Error.Text, c.says) || !holds(erased) {
			t.Errorf("%s: got %+v", name, got.Error)
		}
		l, _ = layout.Of(n.Retiring(), seen)
	}
	_, told, got := ask(nil)
	if got.Error != nil || got.Installed == nil || len(got.Installed.Erased) != 1 || !got.Installed.Erased[0].Done || len(told) != 1 || told[0].Serial != "S1" {
		t.Fatalf("got %+v, %+v; told %+v", got.Error, got.Installed, told)
	}
	if holds(erased) || !holds(kept) || !holds(other) {
		t.Errorf("what was there is left on the erased, the kept and the other disk: %t, %t, %t", holds(erased), holds(kept), holds(other))
	}
	said, told, got := ask(nil)
	if got.Error != nil || len(told) != 0 || len(got.Installed.Erased) != 1 || !strings.Contains(strings.Join(said, "\n"), "are not erased again") {
		t.Errorf("asked for once more: %+v, %q, told %+v", got.Error, said, told)
	}
}
