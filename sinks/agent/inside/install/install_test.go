package install_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/layout"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/boot"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/disk"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/image"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/install"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/run"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// machine is one in a folder, with disks that are files and programs that are only noted.
// It tells what it is as a kernel does.
type machine struct {
	t       *testing.T
	root    string
	is      wire.Machine
	ran     []string
	archive []byte
	serves  []byte
	// programs brings those that are missing; it may be nil.
	programs func(context.Context, *inside.Host) error
}

// entry is a variable of the firmware, which starts something of the partition oldGUID; the
// table of sda has it.
const entry = "sys/firmware/efi/efivars/Boot0001-8be4df61-93ca-11d2-aa0d-00e098032b8c"

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, root: t.TempDir(), is: wire.Machine{UUID: "4c4c4544-0051-3510-8052-b4c04f4a3732", Serial: "J7RQ5R2"}}
	for _, name := range []string{"mount", "umount", "chroot", "mkfs.ext4", "mkfs.vfat", "mkfs.xfs", "mdadm"} {
		m.put("usr/sbin/"+name, "#!/bin/sh\n", 0o755)
	}
	m.put("proc/self/mountinfo", "22 1 0:2 / / rw - rootfs rootfs rw\n", 0o644)
	m.put("proc/swaps", "", 0o644)
	m.put(entry, "\x07\x00\x00\x00"+"not one that starts a disk", 0o644)
	m.disk("sda", "S1", 4*gib)
	m.disk("sdb", "S2", 4*gib)
	m.disk("sdc", "OTHER", gib)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	m.pack(&b, w, whole...)
	return m
}

// whole are files of an image that lacks nothing of what a system needs.
var whole = []string{"etc/hostname", "boot/vmlinuz-6.1.0-1-amd64", "usr/sbin/update-initramfs", "usr/sbin/sshd", "usr/sbin/grub-install", boot.LoaderFolder(boot.UEFI) + "/x.mod"}

// pack makes the image, of files with one line each.
func (m *machine) pack(b *bytes.Buffer, w *tar.Writer, files ...string) {
	m.t.Helper()
	for _, name := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "./" + name, Size: 3, Mode: 0o644}); err != nil {
			m.t.Fatal(err)
		}
		io.WriteString(w, "n1\n")
	}
	if err := w.Close(); err != nil {
		m.t.Fatal(err)
	}
	m.archive, m.serves = b.Bytes(), b.Bytes()
}

// without is the image without what begins so.
func (m *machine) without(beginning string, r *wire.Request) {
	m.t.Helper()
	var b bytes.Buffer
	m.pack(&b, tar.NewWriter(&b), slices.DeleteFunc(slices.Clone(whole), func(f string) bool { return strings.HasPrefix(f, beginning) })...)
	sum := sha256.Sum256(m.archive)
	r.Install.Image.SHA256, r.Install.Image.Bytes = hex.EncodeToString(sum[:]), int64(len(m.archive))
}

func (m *machine) put(path, content string, mode os.FileMode) {
	m.t.Helper()
	at := filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), mode); err != nil {
		m.t.Fatal(err)
	}
}

// disk is one with a system on it.
func (m *machine) disk(name, serial string, size int64) {
	m.t.Helper()
	at := "sys/devices/" + name
	m.put(at+"/size", fmt.Sprint(size/512), 0o644)
	m.put(at+"/queue/logical_block_size", "512", 0o644)
	m.put(at+"/queue/rotational", "0", 0o644)
	m.put(at+"/serial", serial, 0o644)
	m.put(at+"/ro", "0", 0o644)
	m.put(at+"/dev", "8:0", 0o644)
	m.put(at+"/device/model", "disk", 0o644)
	for _, folder := range []string{"sys/block", "sys/class/block"} {
		if err := os.MkdirAll(filepath.Join(m.root, folder), 0o755); err != nil {
			m.t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(m.root, at), filepath.Join(m.root, folder, name)); err != nil {
			m.t.Fatal(err)
		}
	}
	m.put("dev/"+name, strings.Repeat("an old system ", 10000), 0o600)
	if err := os.Truncate(filepath.Join(m.root, "dev", name), size); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) host() *inside.Host {
	h := inside.Real(m.root, true)
	h.Exec = func(_ context.Context, c inside.Command) (inside.Output, error) {
		m.ran = append(m.ran, c.Path+" "+strings.Join(c.Args, " "))
		return inside.Output{}, nil
	}
	return h
}

// state is a digest of all that is on the machine but for what Slipway notes in memory.
func (m *machine) state() string {
	m.t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(m.root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.Contains(path, inside.Folder) {
			return err
		}
		fmt.Fprintln(sum, path)
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.CopyN(sum, f, 2*mib) // what is behind it is a hole
		if err == io.EOF {
			err = nil
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func (m *machine) Open(_ context.Context, from int64) (io.ReadCloser, error) {
	if from > int64(len(m.serves)) {
		return nil, image.ErrGone
	}
	return io.NopCloser(bytes.NewReader(m.serves[from:])), nil
}

// design is a node with its system on S1, which is mirrored to S2 where it says so.
func design() *site.Node {
	size := func(text string) site.Extent {
		e, err := site.ParseExtent(text)
		if err != nil {
			panic(err)
		}
		return e
	}
	return &site.Node{Name: "n1", Generation: 1, Storage: site.Storage{Disks: map[string]site.Disk{
		"os": {Match: &site.DiskMatch{MaxSize: 5 * gib, MinSize: 3 * gib}, Partitions: map[string]site.Partition{
			"efi":  {Number: 1, Size: size("200MiB"), Flag: "efi", Use: site.Use{Filesystem: &site.Filesystem{Type: "vfat", Mount: "/boot/efi"}}},
			"root": {Number: 2, Size: size(">1GiB"), Use: site.Use{Filesystem: &site.Filesystem{Type: "ext4", Mount: "/"}}},
		}},
	}}}
}

// approved is a request as it is approved of the machine.
func (m *machine) approved(serial string) wire.Request {
	m.t.Helper()
	seen, err := disk.Observe(m.t.Context(), m.host())
	if err != nil {
		m.t.Fatal(err)
	}
	for i := range seen { // the one that the design is of is the only one that it sees
		if seen[i].Serial == serial {
			seen = seen[i : i+1]
			break
		}
	}
	l, findings := layout.Of(design(), seen)
	if len(findings) > 0 {
		m.t.Fatal(findings)
	}
	sum := sha256.Sum256(m.archive)
	return wire.Request{Version: wire.Version, Op: wire.OpInstall, Site: "s", Node: "n1", Term: 3, Install: &wire.Install{
		UUID: m.is.UUID, Serial: m.is.Serial, Layout: l, Boot: "uefi", Marker: `{"node":"n1","generation":1}`,
		Image: wire.Image{Kind: "root", SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(m.archive)), URL: "http://192.0.2.1/x/image.tar"},
	}}
}

func (m *machine) ask(r wire.Request) (said []string, _ wire.Result) {
	m.t.Helper()
	i := &install.Installer{
		Machine: func(*inside.Host) wire.Machine { return m.is },
		Source:  func(wire.Image) (image.Source, error) { return m, nil },
		Facets:  map[string]inside.Facet{"packages": nil}, Programs: m.programs,
	}
	p := run.Program{Host: m.host(), Install: i.Install}
	var in, out bytes.Buffer
	if err := wire.Write(&in, r); err != nil {
		m.t.Fatal(err)
	}
	if err := p.Answer(m.t.Context(), &in, &out); err != nil {
		m.t.Fatal(err)
	}
	for {
		var f wire.Frame
		if err := wire.Read(&out, &f); err != nil {
			m.t.Fatal(err)
		}
		if f.Result != nil {
			return said, *f.Result
		}
		said = append(said, f.Progress.Text)
	}
}

// Whatever is not as it was approved is refused with a sentence, and nothing is written: no
// disk, no variable of the firmware, and no program is run.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*machine, *wire.Request)
		says   string
	}{
		"another UUID": {func(m *machine, _ *wire.Request) { m.is.UUID = "4c4c4544-0000-0000-0000-000000000000" }, "and this one has 4c4c4544-0000-0000-0000-000000000000: it is another machine; nothing was written"},
		"wrong serial": {func(m *machine, _ *wire.Request) { m.is.Serial = "XXXXXXX" }, "is for the machine with the serial number J7RQ5R2, and this one has XXXXXXX: it is another machine; nothing was written"},
		"no serial":    {func(m *machine, _ *wire.Request) { m.is.Serial = "" }, "this machine reports no serial number, and the installation of n1 is for the one with J7RQ5R2"},
		"no machine":   {func(_ *machine, r *wire.Request) { r.Install.UUID, r.Install.Serial = "", "" }, "names no machine"},
		"wrong disk":   {func(m *machine, _ *wire.Request) { m.put("sys/devices/sda/serial", "S9", 0o644) }, "the disk S1 (os, 4.3 GB) is gone; there are: S9 (sda"},
		"disk missing": {func(m *machine, _ *wire.Request) { os.Remove(filepath.Join(m.root, "sys/block/sda")) }, "the disk S1 (os, 4.3 GB) is gone; there are: S2 (sdb"},
		"ambiguous":    {func(m *machine, _ *wire.Request) { m.put("sys/devices/sdb/serial", "S1", 0o644) }, "the disk S1 (os, 4.3 GB) is there 2 times: S1 (sda, disk, 4.3 GB), S1 (sdb, disk, 4.3 GB); nothing was written"},
		"another size": {func(m *machine, _ *wire.Request) { m.put("sys/devices/sda/size", fmt.Sprint(3*gib/512), 0o644) }, "had 4294967296 bytes in sectors of 512, and has 3221225472"},
		"mounted": {func(m *machine, _ *wire.Request) {
			m.put("proc/self/mountinfo", "30 1 8:0 / /mnt rw - ext4 /dev/sda rw\n", 0o644)
		}, "sda is mounted on /mnt by something else: unmount it; nothing was written"},
		"read-only": {func(m *machine, _ *wire.Request) { m.put("sys/devices/sda/ro", "1", 0o644) }, "is read-only; nothing was written"},
		"image digest wrong": {func(m *machine, _ *wire.Request) {
			m.serves = bytes.Replace(m.archive, []byte("n1\n"), []byte("n2\n"), 1)
		}, "another file is served, or it was damaged. Run `slipway artifact verify` where the daemon runs; nothing was written"},
		"image damaged":        {func(m *machine, _ *wire.Request) { m.serves = bytes.Repeat([]byte("x"), len(m.archive)) }, "another file is served"},
		"image cut short":      {func(m *machine, r *wire.Request) { r.Install.Image.SHA256 = "00" }, "names no file; nothing was written"},
		"no kernel":            {func(m *machine, r *wire.Request) { m.without("boot/", r) }, "the image has no kernel: add a kernel such as linux-image-"},
		"no initramfs program": {func(m *machine, r *wire.Request) { m.without("usr/sbin/update", r) }, "the image has no program that makes an initramfs: add the package initramfs-tools to the image, or to system.packages of the design; nothing was written"},
		"no SSH server": {func(m *machine, r *wire.Request) {
			m.without("usr/sbin/sshd", r)
			r.Install.Apply = []wire.Apply{{Facet: "packages", Items: []item.Item{item.New("packages.nginx", nil, nil), item.New("packages.openssh-server", map[string]string{"state": item.Absent}, nil)}}}
		}, "the image has no SSH server: add the package openssh-server"},
		"no boot loader": {func(m *machine, r *wire.Request) { m.without("usr/lib/grub", r) }, "the image has no boot loader for uefi"},
		"no mdadm": {func(_ *machine, r *wire.Request) {
			r.Install.Layout.Arrays = []item.LayoutArray{{Name: "m"}}
		}, "the image has no mdadm, by which it would find its arrays"},
		"image of a disk": {func(_ *machine, r *wire.Request) { r.Install.Image.Kind = "disk" }, "and the image of a whole disk has its own; nothing was written"},
		"image larger than it": {func(_ *machine, r *wire.Request) {
			for i := range r.Install.Layout.Filesystems {
				r.Install.Layout.Filesystems[i].Bytes = 1
			}
		}, "the files of the image have more than the 2 bytes of the file systems"},
		"no place for it": {func(_ *machine, r *wire.Request) {
			for i := range r.Install.Layout.Filesystems {
				r.Install.Layout.Filesystems[i].Mount = "/srv"
			}
		}, "no file system that is made is mounted at /"},
		"no ESP": {func(_ *machine, r *wire.Request) {
			for i := range r.Install.Layout.Filesystems {
				r.Install.Layout.Filesystems[i].EFI = false
			}
		}, "no EFI system partition is designed"},
		"ESP on an array": {func(_ *machine, r *wire.Request) {
			for i, f := range r.Install.Layout.Filesystems {
				if f.EFI {
					r.Install.Layout.Filesystems[i].On = item.Place{Array: "m"}
				}
			}
		}, "the EFI system partition on the array m cannot be read by firmware"},
		"no way to start":  {func(_ *machine, r *wire.Request) { r.Install.Boot = "" }, "neither uefi nor bios"},
		"no marker":        {func(_ *machine, r *wire.Request) { r.Install.Marker = "" }, "is not JSON"},
		"an unknown facet": {func(_ *machine, r *wire.Request) { r.Install.Apply = []wire.Apply{{Facet: "gpu"}} }, `cannot configure "gpu"`},
		"no program":       {func(m *machine, _ *wire.Request) { os.Remove(filepath.Join(m.root, "usr/sbin/mkfs.ext4")) }, "lacks mkfs.ext4, which the design of the disks needs"},
		"an older term":    {func(m *machine, r *wire.Request) { m.put("var/lib/slipway-inside/term", `{"s": 4}`, 0o600) }, "a daemon of term 4"},
		"says not of what": {func(_ *machine, r *wire.Request) { r.Install = nil }, "does not say what"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			r := m.approved("S1")
			c.change(m, &r)
			before := m.state()
			_, got := m.ask(r)
			if got.Error == nil || got.Error.Class != wire.Refused || !strings.Contains(got.Error.Text, c.says) {
				t.Errorf("got %+v, want a refusal that says %q", got.Error, c.says)
			}
			if after := m.state(); after != before || len(m.ran) > 0 {
				t.Errorf("something was written, or ran: %q", m.ran)
			}
		})
	}
}

// A rule that fits two disks gives no layout, so that there is nothing to approve.
func TestAmbiguousRule(t *testing.T) {
	m := newMachine(t)
	seen, err := disk.Observe(t.Context(), m.host())
	if err != nil {
		t.Fatal(err)
	}
	l, findings := layout.Of(design(), seen)
	if len(l.Disks) > 0 || len(findings) != 1 || !strings.Contains(findings[0].Message, "2 disks fit the rule for the disk os") {
		t.Errorf("got %+v, %v", l.Disks, findings)
	}
}

// The image is read before the first thing is changed, and then the firmware's entries are
// cleared before the disks. Here the disks are files, which are refused then; the run is noted
// as one that failed, which the next run tells.
func TestOrderUpToTheDisks(t *testing.T) {
	m := newMachine(t)
	r := m.approved("S1")
	guid := r.Install.Layout.Disks[0].Partitions[0].GUID
	if err := os.Remove(filepath.Join(m.root, entry)); err != nil {
		t.Fatal(err)
	}
	before := m.state() // without the entry
	m.put(entry, "\x07\x00\x00\x00"+string(drive(guid)), 0o644)
	said, got := m.ask(r)
	if got.Error == nil || !strings.Contains(got.Error.Text, "is not a block device; nothing was written") || got.Installed == nil {
		t.Fatalf("got %+v, %+v", got.Error, got.Installed)
	}
	if c := got.Installed.Cleared; len(c) != 1 || c[0] != "Boot0001 (old)" {
		t.Errorf("cleared %q", c)
	}
	if m.state() != before {
		t.Error("more than the entry of the firmware is another one")
	}
	if len(said) < 2 || !strings.HasPrefix(said[0], "reading the image") {
		t.Errorf("it said %q", said)
	}
	said, _ = m.ask(r)
	if len(said) == 0 || !strings.HasPrefix(said[0], "an earlier run failed: install (n1), begun at") {
		t.Errorf("the next run says %q", said)
	}
}

// What the image lacks may come by a package of the design.
func TestAPackageBringsWhatTheImageLacks(t *testing.T) {
	m := newMachine(t)
	r := m.approved("S1")
	m.without("usr/sbin/sshd", &r)
	r.Install.Apply = []wire.Apply{{Facet: "packages", Items: []item.Item{item.New("packages.openssh-server", map[string]string{"state": item.Present}, nil)}}}
	if _, got := m.ask(r); got.Error == nil || !strings.Contains(got.Error.Text, "is not a block device") { // as far as the disks, which are files here
		t.Errorf("got %+v", got.Error)
	}
}

// drive is a load option that starts a partition of a GPT, by hand.
func drive(guid string) []byte {
	x, err := hex.DecodeString(strings.ReplaceAll(guid, "-", ""))
	if err != nil {
		panic(err)
	}
	node := append([]byte{4, 1, 42, 0, 1, 0, 0, 0}, make([]byte, 16)...)
	node = append(node, x[3], x[2], x[1], x[0], x[5], x[4], x[7], x[6])
	node = append(append(node, x[8:]...), 2, 2, 0x7f, 0xff, 4, 0)
	return append([]byte{1, 0, 0, 0, byte(len(node)), 0, 'o', 0, 'l', 0, 'd', 0, 0, 0}, node...)
}

// An installed system's program never installs.
func TestAnInstalledSystemDoesNotInstall(t *testing.T) {
	m := newMachine(t)
	p := run.Program{Host: m.host()}
	got := p.Do(t.Context(), m.approved("S1"))
	if got.Error == nil || got.Error.Class != wire.Refused || !strings.Contains(got.Error.Text, "never installs another one over it") {
		t.Errorf("got %+v", got.Error)
	}
}

// A request is the same when it was sent.
func TestRequestIsSent(t *testing.T) {
	r := newMachine(t).approved("S1")
	var b bytes.Buffer
	var got wire.Request
	if err := wire.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	if err := wire.Read(&b, &got); err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(r)
	if is, err := json.Marshal(got); err != nil || !bytes.Equal(is, want) {
		t.Errorf("got %s, %v", is, err)
	}
}
