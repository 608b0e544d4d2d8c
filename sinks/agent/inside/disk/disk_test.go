package disk

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// kernel is a root folder in which the kernel shows disks, in the layout of sysfs.
type kernel struct {
	t    *testing.T
	root string
}

func newKernel(t *testing.T) kernel {
	k := kernel{t, t.TempDir()}
	for _, folder := range []string{"sys/block", "sys/class/block", "dev/disk/by-id", "proc/self"} {
		if err := os.MkdirAll(filepath.Join(k.root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func (k kernel) put(path, content string) {
	k.t.Helper()
	at := filepath.Join(k.root, path)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		k.t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
		k.t.Fatal(err)
	}
}

func (k kernel) link(path, to string) {
	k.t.Helper()
	if err := os.Symlink(to, filepath.Join(k.root, path)); err != nil {
		k.t.Fatal(err)
	}
}

// disk adds a block device below a folder of /sys/devices, with some files.
func (k kernel) disk(name, folder string, bytes int64, files map[string]string) {
	k.t.Helper()
	at := "sys/devices/" + folder + "/" + name
	k.put(at+"/size", fmt.Sprintln(bytes/512))
	k.put(at+"/queue/logical_block_size", "512\n")
	k.put(at+"/queue/physical_block_size", "4096\n")
	for file, text := range files {
		k.put(at+"/"+file, text)
	}
	k.link("sys/block/"+name, "../devices/"+folder+"/"+name)
	k.link("sys/class/block/"+name, "../../devices/"+folder+"/"+name)
	k.put("dev/"+name, "")
	if err := os.Truncate(filepath.Join(k.root, "dev", name), bytes); err != nil {
		k.t.Fatal(err)
	}
}

func (k kernel) host() *inside.Host { return inside.Real(k.root, true) }

// The kernel tells of disks in several ways; what is no disk is not told.
func TestObserve(t *testing.T) {
	k := newKernel(t)
	k.disk("sda", "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:1/0:0:1:0/block", 64*mib, map[string]string{
		"removable": "0\n", "ro": "0\n", "queue/rotational": "0\n", "device/model": "SAMSUNG MZ7  \n", "device/wwid": "naa.5002538F0000\n",
		"device/vpd_pg80": "\x00\x80\x00\x08  S1XNNAtrailing", "device/type": "0\n"})
	k.disk("nvme0n1", "pci0000:00/0000:03:00.0/nvme/nvme0", 64*mib, map[string]string{
		"device/model": "INTEL P5510\n", "device/serial": "BTAC1234 \n", "wwid": "eui.01000000\n", "nsid": "1\n", "queue/rotational": "0\n"})
	k.disk("vda", "pci0000:00/0000:00:04.0/virtio1/block", 64*mib, map[string]string{"serial": "VIRT1\n", "queue/rotational": "1\n", "device/vendor": "0x1af4\n", "ro": "1\n"})
	k.disk("sdb", "pci0000:00/0000:00:14.0/usb1/1-1/host7/target7:0:0/7:0:0:0/block", 64*mib, map[string]string{"device/model": "Virtual Disk\n", "queue/rotational": "1\n"})
	k.disk("sdc", "pci0000:00/0000:05:00.0/host2/target2:0:0/2:0:0:0/block", 64*mib, map[string]string{"device/model": "OLD\n", "queue/rotational": "1\n"})
	if err := os.Remove(filepath.Join(k.root, "dev/sdc")); err != nil {
		t.Fatal(err)
	}
	k.disk("sr0", "pci0000:00/0000:00:1f.2/ata2/host1/target1:0:0/1:0:0:0/block", 64*mib, map[string]string{"device/type": "5\n"})
	k.disk("sdd", "pci0000:00/0000:06:00.0/host3/target3:0:0/3:0:0:0/block", 0, map[string]string{"device/model": "CARD READER\n"})
	k.disk("loop0", "virtual/block", 64*mib, nil)
	k.disk("dm-0", "virtual/block", 64*mib, map[string]string{"dm/name": "vg-root\n"})
	k.link("dev/disk/by-id/ata-SAMSUNG", "../../sda")
	f, err := os.OpenFile(filepath.Join(k.root, "dev/sda"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	swapOn(t, f, 0)
	f.Close()
	got, err := Observe(t.Context(), k.host())
	if err != nil {
		t.Fatal(err)
	}
	want := []item.Disk{
		{Name: "nvme0n1", Serial: "BTAC1234", WWN: "01000000", Model: "INTEL P5510", Kind: "nvme", Bytes: 64 * mib, Sector: 512, Physical: 4096, PCI: "0000:03:00.0",
			Paths: []string{"/dev/disk/by-path/pci-0000:03:00.0-nvme-1", "/sys/devices/pci0000:00/0000:03:00.0/nvme/nvme0/nvme0n1"}},
		{Name: "sda", Serial: "S1XNNA", WWN: "5002538f0000", Model: "SAMSUNG MZ7", Kind: "ssd", Bytes: 64 * mib, Sector: 512, Physical: 4096, PCI: "0000:00:1f.2", SCSI: "0:0:1:0",
			Paths: []string{"/dev/disk/by-id/ata-SAMSUNG", "/dev/disk/by-id/wwn-0x5002538f0000", "/sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:1/0:0:1:0/block/sda"},
			Holds: []item.Signature{{Kind: "swap", UUID: "07070707-0707-0707-0707-070707070707", Bytes: 64 * mib}}},
		{Name: "sdb", Model: "Virtual Disk", Kind: "hdd", Bytes: 64 * mib, Sector: 512, Physical: 4096, PCI: "0000:00:14.0", SCSI: "7:0:0:0", Removable: true,
			Paths: []string{"/sys/devices/pci0000:00/0000:00:14.0/usb1/1-1/host7/target7:0:0/7:0:0:0/block/sdb"}},
		{Name: "sdc", Model: "OLD", Kind: "hdd", Bytes: 64 * mib, Sector: 512, Physical: 4096, PCI: "0000:05:00.0", SCSI: "2:0:0:0", Unread: "no such file or directory",
			Paths: []string{"/sys/devices/pci0000:00/0000:05:00.0/host2/target2:0:0/2:0:0:0/block/sdc"}},
		{Name: "vda", Serial: "VIRT1", Bytes: 64 * mib, Sector: 512, Physical: 4096, PCI: "0000:00:04.0", ReadOnly: true,
			Paths: []string{"/dev/disk/by-path/pci-0000:00:04.0", "/dev/disk/by-path/virtio-pci-0000:00:04.0", "/sys/devices/pci0000:00/0000:00:04.0/virtio1/block/vda"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want, +got):\n%s", diff)
	}
	if err := os.RemoveAll(filepath.Join(k.root, "sys")); err != nil {
		t.Fatal(err)
	}
	if got, err := Observe(t.Context(), k.host()); err == nil || len(got) > 0 {
		t.Errorf("without /sys: %v, %v", got, err)
	}
}

// An array over a disk that is erased and one that is not is left alone, and so is what is
// mounted by somebody else or is swap.
func TestWhatIsUsedIsLeftAlone(t *testing.T) {
	begin := func(t *testing.T) kernel {
		k := newKernel(t)
		for i, name := range []string{"sda", "sdb"} {
			k.disk(name, "pci0000:00/0000:00:1f.2/ata1/block", 64*mib, map[string]string{"dev": fmt.Sprintf("8:%d\n", 16*i), "device/model": "X\n", name + "1/partition": "1\n", name + "1/dev": fmt.Sprintf("8:%d\n", 16*i+1)})
			k.link("sys/class/block/"+name+"1", "../../devices/pci0000:00/0000:00:1f.2/ata1/block/"+name+"/"+name+"1")
		}
		k.disk("md0", "virtual/block", 64*mib, map[string]string{"dev": "9:0\n", "md/level": "raid1\n", "slaves/sda1/x": "", "slaves/sdb1/x": ""})
		for _, name := range []string{"sda", "sdb"} {
			k.put("sys/devices/pci0000:00/0000:00:1f.2/ata1/block/"+name+"/"+name+"1/holders/md0/x", "")
		}
		k.put("proc/self/mountinfo", "")
		return k
	}
	for name, c := range map[string]struct {
		erased       []string
		mounts, swap string
		says         string
		stops        string
	}{
		"an array with another disk": {erased: []string{"sda"}, says: "the array md0 (raid1) stands on the disk sda, which will be erased, and on sdb, which will not"},
		"a mount":                    {erased: []string{"sda", "sdb"}, mounts: "25 1 8:1 / /srv rw - ext4 /dev/sda1 rw\n", says: "sda1 is mounted on /srv by something else"},
		"the mount of an array":      {erased: []string{"sda", "sdb"}, mounts: "25 1 9:0 / /with\\040blank rw - ext4 /dev/md0 rw\n", says: "md0 is mounted on /with blank by something else"},
		"a btrfs":                    {erased: []string{"sda", "sdb"}, mounts: "25 1 0:40 / /srv rw - btrfs /dev/sdb rw\n", says: "sdb is mounted on /srv"},
		"swap":                       {erased: []string{"sda", "sdb"}, swap: "Filename Type\n/dev/sdb1 partition 1 0 -2\n", says: "sdb1 is in use as swap"},
		"a mount of another disk":    {erased: []string{"sda", "sdb"}, mounts: "25 1 8:33 / /srv rw - ext4 /dev/sdc1 rw\n", stops: "mdadm --stop /dev/md0"},
		"what we mounted":            {erased: []string{"sda", "sdb"}, mounts: "25 1 9:0 / ROOT/target rw - ext4 /dev/md0 rw\n26 25 8:1 / ROOT/target/boot rw - vfat /dev/sda1 rw\n", says: "is mounted", stops: "umount /target/boot; umount /target"},
	} {
		t.Run(name, func(t *testing.T) {
			k := begin(t)
			k.put("proc/self/mountinfo", strings.ReplaceAll(c.mounts, "ROOT", k.root))
			k.put("proc/swaps", c.swap)
			h := k.host()
			var ran []string
			h.Exec = func(_ context.Context, cmd inside.Command) (inside.Output, error) {
				ran = append(ran, cmd.Path+" "+strings.Join(cmd.Args, " "))
				if cmd.Path == "mdadm" {
					for _, at := range []string{"sda/sda1", "sdb/sdb1"} {
						if err := os.RemoveAll(filepath.Join(k.root, "sys/devices/pci0000:00/0000:00:1f.2/ata1/block", at, "holders")); err != nil {
							t.Error(err)
						}
					}
				}
				return inside.Output{}, nil
			}
			err := release(t.Context(), h, c.erased)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v", err)
			}
			if got := strings.Join(ran, "; "); got != c.stops {
				t.Errorf("it ran %q", got)
			}
		})
	}
}

// A link on a kept disk does not lead a mount out of the new system.
func TestMountsStayInside(t *testing.T) {
	k := newKernel(t)
	m := &maker{h: k.host()}
	if err := m.folder("/srv/data"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(k.root, "target/srv/out")); err != nil {
		t.Fatal(err)
	}
	if err := m.folder("/srv/out/x"); err == nil || !strings.Contains(err.Error(), "is not a folder") {
		t.Errorf("got %v", err)
	}
	if info, err := os.Stat(filepath.Join(k.root, "target/srv/data")); err != nil || !info.IsDir() {
		t.Errorf("got %v, %v", info, err)
	}
}

// The links that LVM left of a group go; what else has the name of one keeps it from being
// made, before anything is written.
func TestNamesOfGroups(t *testing.T) {
	k := newKernel(t)
	m := &maker{h: k.host()}
	if err := os.MkdirAll(filepath.Join(k.root, "dev/vg"), 0o755); err != nil {
		t.Fatal(err)
	}
	k.link("dev/vg/root", "../mapper/vg-root")
	k.put("dev/mapper/vg-root", "of a device that is gone")
	for _, name := range []string{"vg", "other"} {
		if err := m.freeName(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(k.root, "dev/vg")); !os.IsNotExist(err) {
		t.Errorf("the folder stays: %v", err)
	}
	k.disk("dm-0", "virtual/block", 64*mib, map[string]string{"dm/name": "used-root\n"})
	if err := os.MkdirAll(filepath.Join(k.root, "dev/used"), 0o755); err != nil {
		t.Fatal(err)
	}
	k.link("dev/used/root", "../mapper/used-root")
	k.put("dev/shm/file", "")
	k.put("dev/null", "")
	for _, name := range []string{"shm", "null", "used"} {
		if err := m.freeName(name); err == nil || !strings.HasSuffix(err.Error(), "nothing was written") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(k.root, "dev/shm/file")); err != nil {
		t.Error(err)
	}
}

// What is no block device of the kernel's is not written.
func TestOnlyBlockDevicesAreWritten(t *testing.T) {
	k := newKernel(t)
	k.disk("sda", "pci0000:00/0000:00:1f.2/ata1/block", 64*mib, map[string]string{"dev": "8:0\n", "device/model": "X\n", "device/serial": "S1\n"})
	k.put("proc/self/mountinfo", "")
	l := item.Layout{Disks: []item.LayoutDisk{{Name: "os", Serial: "S1", Bytes: 64 * mib, Sector: 512}}}
	err := Apply(t.Context(), k.host(), l, Passphrase{})
	if err == nil || !strings.Contains(err.Error(), "is not a block device; nothing was written") {
		t.Errorf("got %v", err)
	}
	l.Disks[0].Serial = "S2"
	if err = Apply(t.Context(), k.host(), l, Passphrase{}); err == nil || !strings.Contains(err.Error(), "the disk S2 (os, 67 MB) is gone; there are: S1 (sda, X, 67 MB); nothing was written") {
		t.Errorf("got %v", err)
	}
}
