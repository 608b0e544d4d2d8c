package disk

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

const arrayUUID = "11f5e1ab-2c7d-4a6e-9f60-7a3f0a51c0de"

// memberOf puts a superblock of an array onto a disk.
func (k kernel) memberOf(name, id string) {
	k.t.Helper()
	b := make([]byte, mdBytes)
	binary.LittleEndian.PutUint32(b, mdMagic)
	b[4] = 1
	octets, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	if err != nil {
		k.t.Fatal(err)
	}
	copy(b[16:], octets)
	copy(b[32:], "n1:system")
	binary.LittleEndian.PutUint64(b[144:], 4096/512)
	var sum uint64
	for i := 0; i < len(b); i += 4 {
		sum += uint64(binary.LittleEndian.Uint32(b[i:]))
	}
	binary.LittleEndian.PutUint32(b[216:], uint32(sum&0xffffffff+sum>>32))
	k.at(name, 4096, b)
}

func (k kernel) at(name string, offset int64, b []byte) {
	k.t.Helper()
	f, err := os.OpenFile(filepath.Join(k.root, "dev", name), os.O_RDWR, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, offset); err != nil {
		k.t.Fatal(err)
	}
}

// mirrored is a machine whose two disks are the members of an array, on which a volume group is,
// and whose kernel has started neither. Its programs start them, and are noted.
func mirrored(t *testing.T) (k kernel, l item.Layout, h *inside.Host, ran *[]string) {
	k = newKernel(t)
	for i, name := range []string{"sda", "sdb"} {
		k.disk(name, "pci0000:00/0000:00:1f.2/ata1/block", 64*mib, map[string]string{"dev": fmt.Sprintf("8:%d\n", 16*i), "device/serial": strings.ToUpper(name) + "\n"})
		k.memberOf(name, arrayUUID)
	}
	k.put("proc/self/mountinfo", "")
	l = item.Layout{
		Disks:  []item.LayoutDisk{{Name: "a", Serial: "SDA", Bytes: 64 * mib, Sector: 512}, {Name: "b", Serial: "SDB", Bytes: 64 * mib, Sector: 512}},
		Arrays: []item.LayoutArray{{Name: "system", UUID: arrayUUID, Level: "raid1", Members: []item.Place{{Disk: "a"}, {Disk: "b"}}}},
		Groups: []item.LayoutGroup{{Name: "vg", Members: []item.LayoutMember{{On: item.Place{Array: "system"}}}, Volumes: []item.LayoutVolume{{Name: "root", Extents: 8}}}},
	}
	h, ran = k.host(), &[]string{}
	h.Tell = func(string) {}
	h.Exec = func(_ context.Context, c inside.Command) (inside.Output, error) {
		*ran = append(*ran, c.Path+" "+strings.Join(c.Args, " "))
		switch {
		case c.Path == "mdadm" && !slices.Contains(c.Args, "/dev/sdc"):
			k.disk("md0", "virtual/block", 64*mib, map[string]string{"dev": "9:0\n"})
			for _, name := range []string{"sda", "sdb"} {
				k.put("sys/devices/pci0000:00/0000:00:1f.2/ata1/block/"+name+"/holders/md0/x", "")
			}
		case c.Path == "lvm":
			k.disk("dm-0", "virtual/block", 32*mib, map[string]string{"dev": "253:0\n", "dm/name": "vg-root\n"})
		}
		return inside.Output{}, nil
	}
	return k, l, h, ran
}

// A machine that was started since an array and a group on it were made knows of neither: both are
// started without writing anything to them, once.
func TestAssemble(t *testing.T) {
	_, l, h, ran := mirrored(t)
	for range 2 {
		if err := Assemble(t.Context(), h, l, ""); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"mdadm --assemble /dev/md0 --readonly --run --uuid=11f5e1ab:2c7d4a6e:9f607a3f:0a51c0de /dev/sda /dev/sdb", "lvm vgchange --config activation{read_only_volume_list=[\"vg\"] "}
	if len(*ran) != 2 || (*ran)[0] != want[0] || !strings.HasPrefix((*ran)[1], want[1]) || !strings.HasSuffix((*ran)[1], " --devices /dev/md0 --activate y vg") {
		t.Errorf("it ran %q", *ran)
	}
	if at, err := Devices(t.Context(), h, l, item.Place{Group: "vg", Volume: "root"}); err != nil || at[0] != "/dev/dm-0" {
		t.Errorf("the volume is %v, %v", at, err)
	}
}

// Members of another layout, or of none, are left alone; an array that does not start is told, and
// its group is not looked for.
func TestAssembleLeavesOthersAlone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(k kernel, l *item.Layout, h *inside.Host)
		ran    int
		tells  string
	}{
		"another array": {func(_ kernel, l *item.Layout, _ *inside.Host) {
			l.Arrays[0].UUID = "22f5e1ab-2c7d-4a6e-9f60-7a3f0a51c0de"
		}, 0, ""},
		"blank disks": {func(k kernel, _ *item.Layout, _ *inside.Host) {
			k.at("sda", 4096, make([]byte, mdBytes))
			k.at("sdb", 4096, make([]byte, mdBytes))
		}, 0, ""},
		"a group on disks that hold none": {func(_ kernel, l *item.Layout, _ *inside.Host) {
			l.Arrays, l.Groups[0].Members[0].On = nil, item.Place{Disk: "a"}
		}, 0, ""},
		"it does not start": {func(_ kernel, _ *item.Layout, h *inside.Host) {
			does := h.Exec
			h.Exec = func(ctx context.Context, c inside.Command) (inside.Output, error) {
				c.Args = append(c.Args, "/dev/sdc") // of which the test's program makes nothing
				if _, err := does(ctx, c); err != nil {
					return inside.Output{}, err
				}
				return inside.Output{Code: 1, Err: []byte("mdadm: no raid1 in this kernel")}, nil
			}
		}, 1, "the array system cannot be started to look for a system on it: mdadm"},
	} {
		t.Run(name, func(t *testing.T) {
			k, l, h, ran := mirrored(t)
			var told []string
			h.Tell = func(text string) { told = append(told, text) }
			c.change(k, &l, h)
			if err := Assemble(t.Context(), h, l, ""); err != nil {
				t.Fatal(err)
			}
			if len(*ran) != c.ran || !strings.Contains(strings.Join(told, "\n"), c.tells) {
				t.Errorf("it ran %q, and told %q", *ran, told)
			}
		})
	}
}
