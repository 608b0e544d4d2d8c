package disk

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// loop is a block device of the kernel that the machine has as a disk.
func (k kernel) loop(name, serial string, bytes int64) {
	k.t.Helper()
	skip := func(why string) {
		if os.Getenv("CI") != "" {
			k.t.Fatal(why)
		}
		k.t.Skip(why)
	}
	if os.Getuid() != 0 {
		skip("only root makes loop devices")
	}
	backing := filepath.Join(k.t.TempDir(), name)
	if err := os.WriteFile(backing, nil, 0o600); err != nil {
		k.t.Fatal(err)
	}
	if err := os.Truncate(backing, bytes); err != nil {
		k.t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", backing).CombinedOutput()
	if err != nil {
		skip("losetup: " + string(out) + err.Error())
	}
	device := strings.TrimSpace(string(out))
	k.t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			k.t.Errorf("%s: %v", out, err)
		}
	})
	var s syscall.Stat_t
	if err := syscall.Stat(device, &s); err != nil {
		k.t.Fatal(err)
	}
	k.disk(name, "pci0000:00/0000:00:1f.2/ata1/block", bytes, map[string]string{
		"dev": fmt.Sprintf("%d:%d\n", s.Rdev>>8, s.Rdev&0xff), "device/model": "X\n", "serial": serial + "\n"})
	if err := os.Remove(filepath.Join(k.root, "dev", name)); err != nil {
		k.t.Fatal(err)
	}
	if err := syscall.Mknod(filepath.Join(k.root, "dev", name), syscall.S_IFBLK|0o600, int(s.Rdev)); err != nil {
		skip("mknod: " + err.Error())
	}
}

// Programs are told the names of disks long after these were compared. A name that has come to
// another disk since, as after a controller was reset, is given to none.
func TestNamesThatChangeHands(t *testing.T) {
	for name, c := range map[string]struct {
		change func(k kernel, at string)
		says   string
	}{
		"nothing":                     {func(kernel, string) {}, ""},
		"another disk has the name":   {func(k kernel, at string) { k.put(at+"/serial", "OTHER\n") }, "the disk S1 (sda, X, 67 MB) is now OTHER (sda, X, 67 MB): the disk disappeared, and another disk now has its name; nothing was written to the disk os"},
		"another device has the name": {func(k kernel, at string) { k.put(at+"/dev", "8:240\n") }, "and the disk S1 (sda, X, 67 MB) is 8:240; nothing was written to the disk os"},
		"the disk is gone":            {func(k kernel, at string) { os.Remove(filepath.Join(k.root, "sys/block/sda")) }, "nothing was written to the disk os"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t)
			k.loop("sda", "S1", 64*mib)
			d := item.Disk{Name: "sda", Serial: "S1", Model: "X", Bytes: 64 * mib, Sector: 512}
			h := k.host()
			h.Exec = func(_ context.Context, cmd inside.Command) (inside.Output, error) {
				t.Errorf("it ran %s %q", cmd.Path, cmd.Args)
				return inside.Output{}, nil
			}
			m := &maker{h: h, found: map[string]item.Disk{"os": d}, layout: item.Layout{Disks: []item.LayoutDisk{{Name: "os", Serial: "S1", Bytes: 64 * mib, Sector: 512}},
				Filesystems: []item.LayoutFilesystem{{On: item.Place{Disk: "os"}, Type: "ext4", UUID: "u"}}}}
			if err := m.hold(); err != nil {
				t.Fatal(err)
			}
			defer m.held.close()
			c.change(k, "sys/devices/pci0000:00/0000:00:1f.2/ata1/block/sda")
			is, err := m.device(item.Place{Disk: "os"})
			if c.says == "" {
				if err != nil || is != "sda" {
					t.Errorf("got %q, %v", is, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %q, %v", is, err)
			}
			for what, failed := range map[string]error{"mkfs": m.filesystems(t.Context()), "opening it": openedAlone(k, d)} {
				if failed == nil || !strings.Contains(failed.Error(), "nothing was written") {
					t.Errorf("%s: %v", what, failed)
				}
			}
		})
	}
}

func openedAlone(k kernel, d item.Disk) error {
	f, err := openAlone(k.host(), d)
	if err == nil {
		f.Close()
	}
	return err
}
