// Package target_test installs a system in a virtual machine, as the agent in memory does, and
// starts what was installed.
package target_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/layout"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

const mib = 1 << 20

// packages are what both systems have besides: the one in memory, whose part is played by one
// on a disk, and the one that is installed.
var packages = []string{"linux-image-cloud-amd64", "initramfs-tools", "kmod", "udev", "grub-efi-amd64-bin", "grub2-common", "efibootmgr", "mdadm", "dosfstools", "e2fsprogs", "util-linux"}

// start is the first program of the machine that installs. There is no udev, as in an agent's
// memory.
const start = `#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mount -t tmpfs run /run
for m in virtio_blk raid1 vfat nls_cp437 nls_ascii efivarfs; do modprobe $m; done
echo
echo BEGINS
tr -d '\000' </dev/vdb >/run/script
sh /run/script 2>&1
echo ENDS
sync
echo o >/proc/sysrq-trigger
read nothing
`

// runs is a unit of the image, which tells what runs when it was started, and ends it.
const runs = `[Unit]
After=local-fs.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'echo; echo RUNS; cat /etc/slipway/marker.json; echo; cat /proc/cmdline /etc/hello /boot/efi/EFI/of-the-image/file /etc/ssh/ssh_host_ed25519_key.pub; findmnt -rn -o TARGET,FSTYPE,UUID; cat /proc/mdstat; wc -c /etc/machine-id; echo ENDS; sync; systemctl poweroff --force --force'
StandardOutput=tty
TTYPath=/dev/ttyS0
[Install]
WantedBy=multi-user.target
`

// recipe makes the image of a tree, and where it is asked for the disk of the machine that
// installs in the agent's place.
const recipe = `tree=$1 to=$2 memory=$3
if [ "$memory" ]; then
	cp "$tree"/boot/vmlinuz-* "$to/vmlinuz"
	cp "$tree"/boot/initrd.img-* "$to/initrd"
fi
cp "$to/runs" "$tree/etc/systemd/system/runs.service"
mkdir -p "$tree/etc/systemd/system/multi-user.target.wants"
ln -s ../runs.service "$tree/etc/systemd/system/multi-user.target.wants/runs.service"
rm -f "$tree"/boot/initrd.img-*
# Only the modules that the machine needs: to look at all takes an emulated processor an hour.
echo 'MODULES=list' >"$tree/etc/initramfs-tools/conf.d/few"
printf '%s\n' virtio_pci virtio_blk ext4 raid1 md_mod >>"$tree/etc/initramfs-tools/modules"
mkdir -p "$tree/boot/efi/EFI/of-the-image"
echo file >"$tree/boot/efi/EFI/of-the-image/file"
chown -R 7:7 "$tree/boot/efi/EFI/of-the-image"
echo 'stale key' >"$tree/etc/ssh/ssh_host_ed25519_key.pub"
echo 0123456789abcdef0123456789abcdef >"$tree/etc/machine-id"
tar --format=posix --numeric-owner --xattrs --xattrs-include='*' -C "$tree" -cf - . | zstd -q -3 -T2 >"$to/image.raw"
sha256sum "$to/image.raw" | cut -c1-64 >"$to/image.sha256"
truncate -s %1M "$to/image.raw"
if [ "$memory" ]; then
	cp "$to/start" "$tree/start"; cp "$to/guest" "$tree/guest"; chmod 755 "$tree/start" "$tree/guest"
	mkfs.ext4 -q -L memory -m 0 -d "$tree" "$to/memory.raw" 2G
fi
cp /usr/share/OVMF/OVMF_VARS_4M.fd "$to/vars"
`

// machine is a virtual machine with UEFI firmware.
type machine struct {
	t      *testing.T
	folder string
	image  wire.Image
	log    bytes.Buffer
}

const (
	uuid   = "11f5e1ab-2c7d-4a6e-9f60-7a3f0a51c0de"
	serial = "TARGET-1"
)

// newMachine makes an image and empty disks; memory asks for a system on a disk that installs in
// the place of the agent in the ramdisk.
func newMachine(t *testing.T, memory bool) *machine {
	nspawn.Require(t, "qemu-system-x86_64", "mkfs.ext4", "zstd")
	m := &machine{t: t, folder: t.TempDir()}
	tree := filepath.Join(m.folder, "tree")
	check(t, os.Mkdir(tree, 0o755))
	nspawn.UnpackTo(t, tree, nspawn.Suite{}, packages...)
	role := ""
	if memory {
		role = "memory"
		m.buildGuest()
	}
	check(t, os.WriteFile(filepath.Join(m.folder, "start"), []byte(start), 0o755))
	check(t, os.WriteFile(filepath.Join(m.folder, "runs"), []byte(runs), 0o644))
	if out, err := exec.CommandContext(t.Context(), "bash", "-ec", "set -o pipefail\n"+recipe, "sh", tree, m.folder, role).CombinedOutput(); err != nil {
		t.Fatalf("make the disks: %v\n%s", err, out)
	}
	check(t, os.RemoveAll(tree))
	for name, size := range map[string]int64{"DISK-A": 3072 * mib, "DISK-B": 3072 * mib, "OTHER-X": 64 * mib, "request": 4 * mib} {
		check(t, os.WriteFile(m.file(name), nil, 0o600))
		check(t, os.Truncate(m.file(name), size))
	}
	m.digestImage()
	t.Cleanup(func() {
		if t.Failed() {
			text := m.log.Bytes()
			t.Logf("the machine's console:\n%s", text[max(0, len(text)-20000):])
		}
	})
	return m
}

// buildGuest builds the program that installs in the agent's place.
func (m *machine) buildGuest() {
	m.t.Helper()
	program := exec.CommandContext(m.t.Context(), "go", "build", "-o", filepath.Join(m.folder, "guest"), "./guest")
	program.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := program.CombinedOutput(); err != nil {
		m.t.Fatalf("build the guest's program: %v\n%s", err, out)
	}
}

// digestImage is the image on its disk, with the zeros behind it. A tar that is packed by zstd
// is followed by nothing, so its own size is told by the recipe's digest.
func (m *machine) digestImage() {
	want, err := os.ReadFile(filepath.Join(m.folder, "image.sha256"))
	check(m.t, err)
	f, err := os.ReadFile(m.file("image"))
	check(m.t, err)
	f = bytes.TrimRight(f, "\x00")
	for range 16 { // zeros may be its last bytes
		if sum := sha256.Sum256(f); hex.EncodeToString(sum[:]) == strings.TrimSpace(string(want)) {
			m.image = wire.Image{Kind: "root", SHA256: strings.TrimSpace(string(want)), Bytes: int64(len(f)), URL: "http://192.0.2.1/x"}
			return
		}
		f = append(f, 0)
	}
	m.t.Fatal("the image has another digest than sha256sum tells")
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (m *machine) file(name string) string { return filepath.Join(m.folder, name+".raw") }

// patience is how long a start may take with all that is done in it.
const patience = 30 * time.Minute

// power starts the machine with some disks, and gives the lines of its console. Where one
// begins with until, its power is cut.
func (m *machine) power(what, until string, vars string, disks []string, more ...string) (lines []string) {
	t := m.t
	t.Helper()
	cmd := m.qemu(vars, disks, more...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	began, done, cut := time.Now(), false, false
	in := bufio.NewScanner(io.TeeReader(out, &m.log))
	in.Buffer(nil, 4<<20)
	for in.Scan() {
		line := strings.TrimRight(in.Text(), "\r")
		lines = append(lines, line)
		done = done || line == "ENDS"
		if until != "" && strings.HasPrefix(line, until) && !cut {
			cut = true
			check(t, cmd.Process.Kill())
		}
	}
	_ = cmd.Wait() // of a machine that was killed it is an error
	t.Logf("%s took %s", what, time.Since(began).Round(time.Second))
	if !done && until == "" || until != "" && !cut {
		t.Fatalf("%s: the machine ended after %s\n%s\n%s", what, time.Since(began), strings.Join(lines[max(0, len(lines)-60):], "\n"), stderr.Bytes())
	}
	return lines
}

// qemu is the machine with some disks, whose console is its output.
func (m *machine) qemu(vars string, disks []string, more ...string) *exec.Cmd {
	args := []string{"-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", "1024", "-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot",
		"-uuid", uuid, "-smbios", "type=1,serial=" + serial,
		"-drive", "if=pflash,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd", "-drive", "if=pflash,format=raw,file=" + vars, "-device", "virtio-rng-pci"}
	for _, d := range disks {
		args = append(args, "-drive", "if=none,id="+d+",format=raw,cache=unsafe,file="+m.file(d), "-device", "virtio-blk-pci,drive="+d+",serial="+d)
	}
	cmd := exec.CommandContext(m.t.Context(), "qemu-system-x86_64", append(args, more...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// memory starts the system that installs, with a script.
func (m *machine) memory(what, until, script string) []string {
	m.t.Helper()
	text := []byte(script)
	check(m.t, os.WriteFile(m.file("script"), append(text, make([]byte, 64<<10-len(text))...), 0o600))
	return m.power(what, until, filepath.Join(m.folder, "vars"), []string{"memory", "script", "request", "image", "DISK-A", "DISK-B", "OTHER-X"},
		"-kernel", m.folder+"/vmlinuz", "-initrd", m.folder+"/initrd", "-append", "root=LABEL=memory rw init=/start console=ttyS0 loglevel=3 panic=-1 mitigations=off random.trust_cpu=on raid=noautodetect")
}

// told are what the guest's program printed after a word.
func told[T any](t *testing.T, lines []string, word string) (all []T) {
	t.Helper()
	for _, l := range lines {
		if text, ok := strings.CutPrefix(l, word+" "); ok {
			var v T
			check(t, json.Unmarshal([]byte(text), &v))
			all = append(all, v)
		}
	}
	return all
}

// node is a system on a mirror of two disks, either of which starts it.
func node(t *testing.T, seen []item.Disk) *site.Node {
	extent := func(text string) site.Extent {
		e, err := site.ParseExtent(text)
		check(t, err)
		return e
	}
	half := func(mount string) map[string]site.Partition {
		return map[string]site.Partition{
			"efi":  {Number: 1, Size: extent("64MiB"), Flag: "efi", Use: site.Use{Filesystem: &site.Filesystem{Type: "vfat", Mount: mount}}},
			"raid": {Number: 2, Size: extent(">1GiB"), Use: site.Use{Array: "system"}},
		}
	}
	n := &site.Node{Name: "n1", Generation: 1, Hardware: site.Hardware{Devices: map[string]site.Device{}}, Storage: site.Storage{
		Disks:  map[string]site.Disk{"a": {Device: "a", Partitions: half("/boot/efi")}, "b": {Device: "b", Partitions: half("")}},
		Arrays: map[string]site.Array{"system": {Level: "raid1", Use: site.Use{Filesystem: &site.Filesystem{Mount: "/"}}}},
	}}
	for _, d := range seen {
		if name, ok := map[string]string{"DISK-A": "a", "DISK-B": "b"}[d.Serial]; ok {
			n.Hardware.Devices[name] = site.Device{PCI: d.PCI}
		}
	}
	return n
}

// isRunning holds what a started system told to what was asked for.
func (m *machine) isRunning(what string, lines []string, l item.Layout, marker, key string) {
	t := m.t
	t.Helper()
	begin := slices.Index(lines, "RUNS")
	if begin < 0 {
		t.Fatalf("%s: the system does not run", what)
	}
	text := strings.Join(lines[begin:], "\n")
	wants := []string{marker, "console=ttyS0", "hello from the design\nfile", key, "active raid1", "33 /etc/machine-id"}
	for _, f := range l.Filesystems {
		if f.Mount != "" {
			wants = append(wants, f.Mount+" "+f.Type+" "+f.UUID)
		}
	}
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s: it does not tell %q:\n%s", what, want, text)
		}
	}
}

// request asks for the image on a layout, with a file and a parameter of the kernel.
func (m *machine) request(l item.Layout) wire.Request {
	const hello = "hello from the design\n"
	body, err := json.Marshal(item.File{Content: []byte(hello), Mode: "0644", Owner: "root", Group: "root"})
	check(m.t, err)
	return wire.Request{Version: wire.Version, Op: wire.OpInstall, Site: "test", Node: "n1", Term: 7, Install: &wire.Install{
		UUID: uuid, Serial: serial, Layout: l, Image: m.image, Boot: "uefi", Marker: `{"node":"n1","generation":1,"image":"` + m.image.SHA256 + `"}`,
		Apply: []wire.Apply{
			{Facet: "config", Items: []item.Item{item.New("files./etc/hello", map[string]string{"content": item.Digest([]byte(hello)), "mode": "0644", "owner": "root:root"}, json.RawMessage(body))}},
			{Facet: "kernel", Items: []item.Item{item.New("parameters.console", map[string]string{"": "ttyS0"}, nil)}},
		},
	}}
}

// hostKey is the key by which the SSH server of an installed system is known.
func hostKey(is *wire.Installed) string {
	for _, k := range is.HostKeys {
		if strings.HasPrefix(k, "ssh-ed25519 ") {
			return k
		}
	}
	return "no host key"
}

// TestProveInstallation installs a system on a mirror of two disks, with the power cut in the
// middle, and starts it by the firmware's entry, and then by the second disk alone in a machine
// whose firmware knows nothing of it.
func TestProveInstallation(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		t.Skip("takes many minutes on an emulated processor: set SLIPWAY_PROVE")
	}
	m := newMachine(t, true)
	seen := told[[]item.Disk](t, m.memory("a look", "", "/guest observe"), "SEES")
	if len(seen) != 1 {
		t.Fatal("it saw nothing")
	}
	l, findings := layout.Of(node(t, seen[0]), seen[0])
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	other := m.digest("OTHER-X")
	r := m.request(l)
	marker := r.Install.Marker
	text, err := json.Marshal(r)
	check(t, err)
	check(t, os.WriteFile(m.file("request"), append(text, make([]byte, 4*mib-len(text))...), 0o600))

	const ask = "/guest install /dev/vdc /dev/vdd\n"
	m.memory("an installation that is cut", "TELLS making the initramfs", ask)
	lines := m.memory("an installation", "", ask+"echo AGAIN\n"+ask)
	results := told[wire.Result](t, lines, "RESULT")
	if len(results) != 2 || results[0].Error != nil || results[1].Error != nil {
		t.Fatalf("it says %+v", results)
	}
	first, again := results[0].Installed, results[1].Installed
	if first.Already || !again.Already || !slices.Equal(first.HostKeys, again.HostKeys) {
		t.Errorf("the first time %+v, the second time %+v", first, again)
	}
	if len(first.Entries) != 2 || first.EntriesUnknown != "" || len(first.Kernels) != 1 {
		t.Errorf("it starts by %+v", first)
	}
	// A machine that was started since knows no array: the system is found all the same.
	before := m.digest("DISK-A")
	later := told[wire.Result](t, m.memory("the same request after another start", "", ask), "RESULT")
	if len(later) != 1 || later[0].Error != nil || !later[0].Installed.Already || !slices.Equal(first.HostKeys, later[0].Installed.HostKeys) {
		t.Fatalf("after another start it says %+v", later)
	}
	if m.digest("DISK-A") != before {
		t.Error("looking for the system has written to a disk")
	}
	if m.digest("OTHER-X") != other {
		t.Error("a disk that is not designed was written")
	}
	started := m.power("a start by the firmware's entry", "", filepath.Join(m.folder, "vars"), []string{"DISK-A", "DISK-B"})
	m.isRunning("both disks", started, l, marker, hostKey(first))
	fresh, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.fd")
	check(t, err)
	check(t, os.WriteFile(filepath.Join(m.folder, "fresh"), fresh, 0o600))
	// fstab asks for the ESP of the first disk, which is not there: the system says so for 90
	// seconds, and stops. What is looked at is that firmware, boot loader and mirror work.
	m.power("a start by the second disk", "Begin: Running /scripts/init-bottom", filepath.Join(m.folder, "fresh"), []string{"DISK-B"})
}

// digest is that of a disk's bytes. Blocks of zeros are left out: the file of a disk is mostly
// holes, and to read them takes longer than all else.
func (m *machine) digest(name string) string {
	const seekData, block = 3, mib // lseek(2)
	m.t.Helper()
	f, err := os.Open(m.file(name))
	check(m.t, err)
	defer f.Close()
	h, part, zeros := sha256.New(), make([]byte, block), make([]byte, block)
	for at := int64(0); ; at += block {
		data, err := f.Seek(at, seekData)
		if errors.Is(err, syscall.ENXIO) {
			return fmt.Sprintf("%x", h.Sum(nil))
		}
		check(m.t, err)
		at = data / block * block
		n, err := f.ReadAt(part, at)
		if err != io.EOF {
			check(m.t, err)
		}
		if !bytes.Equal(part[:n], zeros[:n]) {
			fmt.Fprintln(h, at, n)
			h.Write(part[:n])
		}
	}
}
