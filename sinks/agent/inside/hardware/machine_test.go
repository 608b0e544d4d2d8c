package hardware_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/hardware"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// What the kernel shows in /sys is told of as it is: whole disks and own ports alone, serial
// numbers from wherever they are, and nothing where nothing is known.
func TestMachine(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"sys/class/dmi/id/product_uuid":   "0C5E1A52-93D4-4B6C-8F0E-7A2F9C31D5B8\n",
		"sys/class/dmi/id/product_serial": "S-1 \n", "sys/class/dmi/id/product_name": "Box \x1b[1m2\n", "sys/class/dmi/id/sys_vendor": "Acme\n",
		"proc/cpuinfo": "processor\t: 0\nmodel name\t: Acme 9\nphysical id\t: 0\ncore id\t\t: 0\n\n" +
			"processor\t: 1\nmodel name\t: Acme 9\nphysical id\t: 0\ncore id\t\t: 0\n\n" +
			"processor\t: 2\nmodel name\t: Acme 9\nphysical id\t: 1\ncore id\t\t: 0\n",
		"proc/meminfo":               "MemTotal:       2048 kB\nMemFree: 1 kB\n",
		"sys/class/net/lo/address":   "00:00:00:00:00:00\n",
		"sys/class/net/eth1/address": "52:54:00:AA:00:01\n", "sys/class/net/eth1/carrier": "1\n", "sys/class/net/eth1/speed": "25000\n", "sys/class/net/eth1/device/vendor": "0x8086\n",
		"sys/class/net/eth0/address": "52:54:00:aa:00:00\n", "sys/class/net/eth0/speed": "-1\n", "sys/class/net/eth0/device/vendor": "0x8086\n",
		"sys/block/sda/size": "2048\n", "sys/block/sda/queue/rotational": "1\n", "sys/block/sda/device/model": "Disk One\n",
		"sys/block/sda/device/vpd_pg80": "\x00\x80\x00\x08 WD-12  ", "sys/block/sda/device/wwid": "naa.50014ee2\n",
		"sys/block/sdb/size": "4096\n", "sys/block/sdb/removable": "1\n", "sys/block/sdb/ro": "1\n", "sys/block/sdb/device/vpd_pg80": "\x00\x83\x00\x02xx",
		"sys/block/sdc/size":     "0\n", // a reader without a card
		"sys/block/nvme0n1/size": "8192\n", "sys/block/nvme0n1/queue/rotational": "0\n", "sys/block/nvme0n1/device/serial": "N-1   \n", "sys/block/nvme0n1/device/firmware_rev": "F2.1 \n", "sys/block/nvme0n1/wwid": "eui.0025\n",
		"sys/block/nvme1c0n1/size": "8192\n", "sys/block/nvme1c0n1/hidden": "1\n", // a path to a disk
		"sys/block/vda/size": "16\n", "sys/block/vda/queue/rotational": "0\n", "sys/block/vda/serial": "V-1", "sys/block/vda/device/vendor": "0x1af4\n",
		"sys/block/loop0/size": "16\n", "sys/block/md0/size": "16\n", "sys/block/sr0/size": "16\n", "sys/block/dm-0/size": "16\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../../../bus/pci/drivers/ice", filepath.Join(root, "sys/class/net/eth1/device/driver")); err != nil {
		t.Fatal(err)
	}
	up := true
	want := wire.Machine{
		UUID: "0c5e1a52-93d4-4b6c-8f0e-7a2f9c31d5b8", Serial: "S-1", Manufacturer: "Acme", Product: "Box [1m2", MemoryBytes: 2 << 20,
		Processors: []wire.Processor{{ID: "0", Model: "Acme 9", Cores: 1, Threads: 2}, {ID: "1", Model: "Acme 9", Cores: 1, Threads: 1}},
		Ports:      []wire.Port{{Name: "eth0", MAC: "52:54:00:aa:00:00"}, {Name: "eth1", MAC: "52:54:00:aa:00:01", Driver: "ice", Carrier: &up, Mbps: 25000}},
		Disks: []item.Disk{
			{Name: "nvme0n1", Bytes: 4 << 20, Serial: "N-1", WWN: "0025", Firmware: "F2.1", Kind: "nvme", Paths: []string{"/sys/block/nvme0n1"}},
			{Name: "sda", Bytes: 1 << 20, Model: "Disk One", Serial: "WD-12", WWN: "50014ee2", Kind: "hdd", Paths: []string{"/dev/disk/by-id/wwn-0x50014ee2", "/sys/block/sda"}},
			{Name: "sdb", Bytes: 2 << 20, Removable: true, ReadOnly: true, Paths: []string{"/sys/block/sdb"}},
			{Name: "vda", Bytes: 8 << 10, Serial: "V-1", Paths: []string{"/sys/block/vda"}},
		},
	}
	if diff := cmp.Diff(want, hardware.Machine(inside.Real(root, false))); diff != "" {
		t.Error(diff)
	}
}

// What is on the disks is told where it is asked for, and no disk is opened where it is not.
func TestMachineWithWhatIsOnItsDisks(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"sys/block/sda/size": "2048\n", "sys/block/sda/queue/logical_block_size": "512\n", "sys/block/sda/device/model": "Disk\n", "dev/sda": "",
		"sys/block/sdb/size": "2048\n", "sys/block/sdb/queue/logical_block_size": "512\n", "sys/block/sdb/device/model": "Disk\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(filepath.Join(root, "dev/sda"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte("XFSB\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x09"), 0)
	if err := errors.Join(err, f.Truncate(1<<20), f.Close()); err != nil {
		t.Fatal(err)
	}
	h := inside.Real(root, false)
	is := hardware.Observe(t.Context(), h).Disks
	if len(is) != 2 || len(is[0].Holds) != 1 || is[0].Holds[0].Kind != "xfs" || is[0].Unread != "" || is[1].Unread != "no such file or directory" {
		t.Errorf("got %+v", is)
	}
	if is := hardware.Machine(h).Disks; len(is) != 2 || len(is[0].Holds) != 0 || is[1].Unread != "" {
		t.Errorf("without: %+v", is)
	}
}

// Where /sys cannot be read the machine is not told to have no disks.
func TestMachineThatCannotBeRead(t *testing.T) {
	m := hardware.Machine(inside.Real(t.TempDir(), false))
	if len(m.Unread) != 2 || m.UUID != "" {
		t.Errorf("got %+v", m)
	}
}
