package install_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/frames"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/layout"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/disk"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/image"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/install"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/run"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// The images of these tests: a GPT with an EFI system partition of 1 MiB, a partition of noise,
// and an ext4 with a system as the last one.
const (
	wholeBytes = 24 * mib
	diskBytes  = 40 * mib
	rootAt     = 4 * mib
)

func sh(t *testing.T, script string, args ...string) string {
	t.Helper()
	out, err := exec.Command("sh", append([]string{"-ec", script, "sh"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// fat is the first sector of a vfat, which is all that is looked at.
func fat() []byte {
	b := make([]byte, 512)
	copy(b, "\xeb\x58\x90mkfs.fat\x00\x02\x08\x20\x00\x02\x00\x00\x00\x00\xf8")
	copy(b[82:], "FAT32   ")
	copy(b[510:], "\x55\xaa")
	return b
}

// wholeImage is the image of a disk with a system of a few files. Change may change its files.
func wholeImage(t *testing.T, change func(root string)) []byte {
	t.Helper()
	nspawn.Require(t, "sfdisk", "mkfs.ext4", "losetup", "ssh-keygen", "chroot", "ldd", "partx", "e2fsck")
	root := t.TempDir()
	for name, text := range map[string]string{
		"etc/os-release": "ID=debian\n", "etc/machine-id": "0123456789abcdef0123456789abcdef\n", "usr/sbin/sshd": "#!\n",
		"etc/ssh/ssh_host_rsa_key": "of another system", "etc/ssh/ssh_host_rsa_key.pub": "of another system", "etc/passwd": "root:x:0:0::/root:/bin/sh\n",
		"etc/cloud/cloud.cfg.d/05_logging.cfg": "# its own\n", "etc/slipway/marker.json": `{"node":"golden"}`,
		"var/lib/slipway-inside/owned.json": `{"items":{"config/files./etc/passwd":{}}}`, "var/lib/slipway-inside/term": `{"s": 9}`, "var/lib/slipway-inside/actions/once.done": "",
	} {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sh(t, `cd "$1"; for f in /usr/bin/ssh-keygen $(ldd /usr/bin/ssh-keygen | grep -o '/[^ ]*'); do
		mkdir -p ".$(dirname $f)"; cp -L "$f" ".$f"; done; mkdir -p dev proc sys run var tmp`, root)
	if change != nil {
		change(root)
	}
	file := filepath.Join(t.TempDir(), "image")
	sh(t, `truncate -s $2 "$1"; printf 'label: gpt\nstart=1MiB, size=1MiB, type=U\nstart=2MiB, size=2MiB, type=21686148-6449-6E6F-744E-656564454649\nstart=4MiB, type=L\n' | sfdisk -q "$1"
		mkfs.ext4 -q -d "$3" -E offset=$4 "$1" $(( ($2 - $4 - 1048576) / 1024 ))k`, file, fmt.Sprint(wholeBytes), root, fmt.Sprint(rootAt))
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	copy(raw[mib:], fat())
	copy(raw[3*mib:], "noise")
	return raw
}

// hardware is a machine with one disk that is a real block device, sda, and a kept one that is a
// file. Programs run, with the new system under its folder.
type hardware struct {
	t      *testing.T
	root   string
	loop   string // "loop0"
	esp    string // what is on the EFI system partition, which this kernel may not mount
	served []byte
	left   int // programs until the power goes; below 0 for all
	ran    int
}

func newHardware(t *testing.T, raw []byte) *hardware {
	t.Helper()
	h := &hardware{t: t, root: t.TempDir(), esp: t.TempDir(), left: -1}
	var b bytes.Buffer
	if _, err := frames.Write(&b, bytes.NewReader(raw), frames.MaxImage); err != nil {
		t.Fatal(err)
	}
	h.served = b.Bytes()
	file := filepath.Join(t.TempDir(), "disk")
	sh(t, `yes 'what was there' | head -c $2 > "$1"; printf 'label: gpt\nsize=10MiB\ntype=L\n' | sfdisk -q -w never "$1"`, file, fmt.Sprint(diskBytes))
	h.loop = strings.TrimPrefix(strings.TrimSpace(sh(t, `losetup --partscan --find --show "$1"`, file)), "/dev/")
	t.Cleanup(func() {
		sh(t, `for m in $(grep -o " $1/target[^ ]*" /proc/self/mountinfo | tac); do umount "$m"; done; losetup --detach "/dev/$2"`, h.root, h.loop)
	})
	h.put("sys/devices/sda/size", fmt.Sprint(diskBytes/512))
	h.put("sys/devices/sda/queue/logical_block_size", "512")
	h.put("sys/devices/sda/queue/rotational", "0")
	h.put("sys/devices/sda/serial", "S1")
	h.put("sys/devices/sda/ro", "0")
	h.put("sys/devices/sda/device/model", "disk")
	h.put("sys/devices/sda/dev", strings.TrimSpace(sh(t, `cat /sys/block/$1/dev`, h.loop)))
	h.link("/proc", "proc")
	h.link(filepath.Join(h.root, "sys/devices/sda"), "sys/block/sda")
	h.link(filepath.Join(h.root, "sys/devices/sda"), "sys/class/block/sda")
	h.link("/dev/"+h.loop, "dev/sda")
	for n := 1; n <= 4; n++ {
		part := fmt.Sprintf("%sp%d", h.loop, n)
		h.link("/sys/block/"+h.loop+"/"+part, "sys/devices/sda/"+part)
		h.link("/sys/block/"+h.loop+"/"+part, "sys/class/block/"+part)
		h.link("/dev/"+part, "dev/"+part)
	}
	for _, name := range []string{"mount", "umount", "chroot"} {
		h.put("usr/sbin/"+name, "")
		if err := os.Chmod(filepath.Join(h.root, "usr/sbin", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(h.esp, "EFI/BOOT"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.esp, "EFI/BOOT/BOOTX64.EFI"), []byte("MZ"), 0o644); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *hardware) put(path, content string) {
	h.t.Helper()
	at := filepath.Join(h.root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hardware) link(to, path string) {
	h.t.Helper()
	at := filepath.Join(h.root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Symlink(to, at); err != nil {
		h.t.Fatal(err)
	}
}

var errPower = errors.New("the power is gone")

// host is the system in memory: its mounts are below the folder of the test.
func (h *hardware) host() *inside.Host {
	host, real := inside.Real(h.root, true), inside.Real("/", true)
	host.Exec = func(ctx context.Context, c inside.Command) (inside.Output, error) {
		if h.left == 0 {
			return inside.Output{}, errPower
		}
		h.left--
		h.ran++
		c.Args = slices.Clone(c.Args)
		last := len(c.Args) - 1
		c.Args[last] = filepath.Join(h.root, c.Args[last])
		if c.Path == "mount" && c.Args[1] == "vfat" {
			c.Args = []string{"--bind", "-o", "ro", h.esp, c.Args[last]}
		}
		return real.Exec(ctx, c)
	}
	return host
}

// motd is a facet that writes a file of the new system.
type motd struct{}

func (motd) Observe(_ context.Context, h *inside.Host, _ []string) (inside.Seen, error) {
	text, err := os.ReadFile(h.Path("/etc/motd"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return inside.Seen{Have: map[string]string{"files.motd.text": strings.TrimSpace(string(text))}}, err
}

func (motd) Apply(_ context.Context, h *inside.Host, _ []item.Item, _ []string) error {
	return os.WriteFile(h.Path("/etc/motd"), []byte("hello\n"), 0o644)
}

// wants is a request as it is approved of the machine.
func (h *hardware) wants() wire.Request {
	h.t.Helper()
	seen, err := disk.Observe(h.t.Context(), h.host())
	if err != nil {
		h.t.Fatal(err)
	}
	l, findings := layout.Of(&site.Node{Name: "n1", Generation: 1, Storage: site.Storage{Disks: map[string]site.Disk{"os": {Match: &site.DiskMatch{MinSize: mib}}}}}, seen)
	if len(findings) > 0 {
		h.t.Fatal(findings)
	}
	sum := sha256.Sum256(h.served)
	return wire.Request{Version: wire.Version, Op: wire.OpInstall, Site: "s", Node: "n1", Term: 3, Install: &wire.Install{
		UUID: "u", Layout: l, Boot: "uefi", Marker: `{"node":"n1","generation":1}`,
		Image: wire.Image{Kind: "disk", SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(h.served)), URL: "http://192.0.2.1/x/image.frames"},
		Apply: []wire.Apply{{Facet: "base", Items: []item.Item{item.New("files.motd", map[string]string{"text": "hello"}, nil)}}},
	}}
}

func (h *hardware) ask(r wire.Request) wire.Result {
	h.t.Helper()
	m := &machine{t: h.t, serves: h.served}
	i := &install.Installer{
		Machine: func(*inside.Host) wire.Machine { return wire.Machine{UUID: "u"} },
		Source:  func(wire.Image) (image.Source, error) { return m, nil },
		Facets:  map[string]inside.Facet{"base": motd{}},
	}
	// The kernel of a test's machine may be one that reads no tables of partitions: partx(8) reads
	// them instead, from when the table is written on.
	ctx, cancel := context.WithCancel(h.t.Context())
	var reads sync.WaitGroup
	defer reads.Wait()
	defer cancel()
	host := h.host()
	host.Tell = func(text string) {
		if text == "writing the tables of partitions" {
			reads.Go(func() {
				for range time.Tick(20 * time.Millisecond) {
					if ctx.Err() != nil || exec.CommandContext(ctx, "partx", "--add", "/dev/"+h.loop).Run() == nil {
						return
					}
				}
			})
		}
	}
	return (&run.Program{Host: host, Install: i.Install}).Do(h.t.Context(), r)
}

// table is what sfdisk finds on the disk; empty for no table.
func (h *hardware) table() string {
	out, _ := exec.Command("sfdisk", "--dump", "/dev/"+h.loop).Output()
	return string(out)
}

// A whole disk is installed on a block device: with its system's own keys, the marker and what
// was configured, and with tables that other programs find whole, the second one at the end.
func TestAWholeDisk(t *testing.T) {
	raw := wholeImage(t, nil)
	h := newHardware(t, raw)
	r := h.wants()
	if len(r.Install.Layout.Destroys) != 1 || r.Install.Layout.Destroys[0].Serial != "S1" {
		t.Fatalf("lost is %+v", r.Install.Layout.Destroys)
	}
	got := h.ask(r)
	if got.Error != nil || got.Installed == nil || got.Installed.Unpacked != wholeBytes || got.Installed.SHA256 != r.Install.Image.SHA256 {
		t.Fatalf("got %+v, %+v", got.Error, got.Installed)
	}
	if verify := sh(t, `sfdisk --verify /dev/$1; sfdisk --dump /dev/$1`, h.loop); !strings.Contains(verify, "No errors") || !strings.Contains(verify, fmt.Sprintf("last-lba: %d", diskBytes/512-34)) {
		t.Errorf("sfdisk finds %s", verify)
	}
	at := t.TempDir()
	sh(t, `mount -o ro /dev/$1p3 "$2"`, h.loop, at)
	defer sh(t, `umount "$1"`, at)
	for name, want := range map[string]string{
		"etc/slipway/marker.json": r.Install.Marker, "etc/motd": "hello\n", "etc/machine-id": "", "etc/cloud/cloud.cfg.d/05_logging.cfg": "# its own\n",
		"var/lib/cloud/seed/nocloud/user-data": "#cloud-config\n{}\n",
	} {
		if is, err := os.ReadFile(filepath.Join(at, name)); err != nil || string(is) != want {
			t.Errorf("%s is %q, %v", name, is, err)
		}
	}
	if is, err := os.ReadFile(filepath.Join(at, "etc/cloud/cloud.cfg.d/99-slipway.cfg")); err != nil || !strings.Contains(string(is), "datasource_list: [NoCloud, None]") {
		t.Errorf("cloud-init is told %q, %v", is, err)
	}
	keys := got.Installed.HostKeys
	public, err := os.ReadFile(filepath.Join(at, "etc/ssh/ssh_host_ed25519_key.pub"))
	if err != nil || len(keys) == 0 || !slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(string(public), k+" ") }) {
		t.Errorf("its keys are %q, and it tells %q, %v", public, keys, err)
	}
	// Its own fence and journal are there, and not what the other system had made.
	if is, err := os.ReadFile(filepath.Join(at, "var/lib/slipway-inside/term")); err != nil || !strings.Contains(string(is), "3") {
		t.Errorf("its fence is %q, %v", is, err)
	}
	if is, err := os.ReadFile(filepath.Join(at, "var/lib/slipway-inside/owned.json")); strings.Contains(string(is), "passwd") || err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it owns %q, %v", is, err)
	}
	if _, err := os.Lstat(filepath.Join(at, "var/lib/slipway-inside/actions")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it has the journal of the system that the image was made of: %v", err)
	}
	if is, err := os.ReadFile(filepath.Join(at, "etc/ssh/ssh_host_rsa_key")); err == nil && string(is) == "of another system" {
		t.Error("it has the key of the system that the image was made of")
	}
	if _, err := os.Stat(filepath.Join(at, "usr/sbin/policy-rc.d")); err == nil {
		t.Error("its packages do not start their services")
	}
	sh(t, `e2fsck -fn /dev/$1p3`, h.loop)
	if is := sh(t, `dd if=/dev/$1 bs=1M skip=3 count=1 status=none | head -c 5`, h.loop); is != "noise" {
		t.Errorf("between the partitions is %q", is)
	}
}

// Cut at each program that an installation runs: the disk has no table, so that nothing on it
// starts, and the same request brings it to its end.
func TestAWholeDiskIsCutAnywhere(t *testing.T) {
	raw := wholeImage(t, nil)
	h := newHardware(t, raw)
	r := h.wants()
	if got := h.ask(r); got.Error != nil {
		t.Fatalf("%+v", got.Error)
	}
	all := h.ran
	if all < 10 {
		t.Fatalf("it runs %d programs", all)
	}
	for n := 0; n < all; n += 1 + all/5 {
		before := h.table()
		r.Install.Marker = fmt.Sprintf(`{"node":"n1","generation":%d}`, 2+n) // the one before is there
		h.left = n
		got := h.ask(r)
		h.left = -1
		if got.Error == nil {
			t.Fatalf("cut at program %d of %d: it says that it is done", n, all)
		}
		if is := h.table(); is != "" && is != before {
			t.Errorf("cut at program %d of %d: the disk has the table\n%s", n, all, is)
		} else if is != "" && strings.Contains(got.Error.Text, "the disks were erased") && !strings.Contains(got.Error.Text, "umount") {
			t.Errorf("cut at program %d of %d, the disk has a table after %s", n, all, got.Error.Text)
		}
	}
	if got := h.ask(r); got.Error != nil || h.table() == "" {
		t.Errorf("the last run: %+v", got.Error)
	}
}

// A whole disk that is asked for once more is there already, also after its system has run and
// made its partition larger. Nothing is written. Another installation writes it anew.
func TestAWholeDiskIsThereAlready(t *testing.T) {
	h := newHardware(t, wholeImage(t, nil))
	r := h.wants()
	first := h.ask(r)
	if first.Error != nil || first.Installed.Already {
		t.Fatalf("got %+v, %+v", first.Error, first.Installed)
	}
	again := func(what string) {
		t.Helper()
		before := sh(t, `sha256sum /dev/$1`, h.loop)
		got := h.ask(r)
		if got.Error != nil || !got.Installed.Already || !slices.Equal(got.Installed.HostKeys, first.Installed.HostKeys) || got.Installed.SHA256 != r.Install.Image.SHA256 || got.Installed.EntriesUnknown == "" {
			t.Fatalf("%s: got %+v, %+v", what, got.Error, got.Installed)
		}
		if sh(t, `sha256sum /dev/$1`, h.loop) != before {
			t.Errorf("%s: something was written", what)
		}
	}
	again("at once")
	sh(t, `sfdisk -q --no-reread --no-tell-kernel --delete /dev/$1 2
		echo ', +' | sfdisk -q --no-reread --no-tell-kernel -N 3 /dev/$1
		partx --delete /dev/$1; partx --add /dev/$1
		mkdir "$2/run"; mount /dev/${1}p3 "$2/run"; echo data > "$2/run/data"; umount "$2/run"`, h.loop, h.esp)
	again("after the system ran")
	r.Install.Marker = `{"node":"n1","generation":2}`
	if got := h.ask(r); got.Error != nil || got.Installed.Already {
		t.Errorf("another one: got %+v, %+v", got.Error, got.Installed)
	}
}

// What of an image is wrong is refused before anything is written; what is known only when it is
// mounted leaves a disk without a table.
func TestWholeDisksThatAreRefused(t *testing.T) {
	raw := wholeImage(t, nil)
	changed := func(change func(b []byte)) []byte {
		b := slices.Clone(raw)
		change(b)
		return b
	}
	for name, c := range map[string]struct {
		raw    []byte
		change func(h *hardware, r *wire.Request)
		says   string
		erased bool
	}{
		"larger than the disk": {append(slices.Clone(raw), make([]byte, diskBytes)...), nil, "and the disk that it is for has", false},
		"no table":             {changed(func(b []byte) { clear(b[:mib]) }), nil, "no table of partitions", false},
		"no ESP":               {changed(func(b []byte) { clear(b[mib : mib+512]) }), nil, "no EFI system partition with a vfat", false},
		"no system":            {changed(func(b []byte) { clear(b[rootAt : rootAt+mib]) }), nil, "has an ext4, xfs or btrfs", false},
		"another digest":       {raw, func(_ *hardware, r *wire.Request) { r.Install.Image.SHA256 = strings.Repeat("0", 64) }, "another file is served", false},
		"not in frames": {raw, func(h *hardware, r *wire.Request) {
			h.served = raw
			r.Install.Image.Bytes = wholeBytes
		}, "has no list of frames", false},
		"file systems beside it": {raw, func(_ *hardware, r *wire.Request) {
			r.Install.Layout.Filesystems = []item.LayoutFilesystem{{Type: "ext4", Mount: "/srv", Keep: true}}
		}, "should be made beside it", false},
		"by a BIOS":      {raw, func(_ *hardware, r *wire.Request) { r.Install.Boot = "bios" }, "only UEFI starts images", false},
		"no disk for it": {raw, func(_ *hardware, r *wire.Request) { r.Install.Layout.Disks[0].Keep = true }, "0 disks should be written", false},
		"no loader":      {raw, func(h *hardware, _ *wire.Request) { os.RemoveAll(filepath.Join(h.esp, "EFI")) }, "no boot loader at the path", true},
		"nothing in it":  {wholeImage(t, func(root string) { os.Remove(filepath.Join(root, "etc/os-release")) }), nil, "the image has 0 systems", true},
		"a /home elsewhere": {wholeImage(t, func(root string) {
			os.WriteFile(filepath.Join(root, "etc/fstab"), []byte("LABEL=root / ext4\n# /var\nLABEL=home /home/ ext4\n"), 0o644)
		}), nil, "the image has /home/ on a file system of its own", true},
		"no SSH server": {wholeImage(t, func(root string) { os.Remove(filepath.Join(root, "usr/sbin/sshd")) }), nil, "no SSH server", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHardware(t, c.raw)
			r := h.wants()
			if c.change != nil {
				c.change(h, &r)
			}
			before := sh(t, `sha256sum /dev/$1`, h.loop)
			got := h.ask(r)
			if got.Error == nil || !strings.Contains(got.Error.Text, c.says) {
				t.Fatalf("got %+v, want %q", got.Error, c.says)
			}
			if refused := got.Error.Class == wire.Refused; refused == c.erased {
				t.Errorf("it is of the class %s", got.Error.Class)
			}
			switch after := sh(t, `sha256sum /dev/$1`, h.loop); {
			case !c.erased && after != before:
				t.Error("something was written")
			case c.erased && h.table() != "":
				t.Errorf("the disk has a table: %s", h.table())
			}
		})
	}
}
