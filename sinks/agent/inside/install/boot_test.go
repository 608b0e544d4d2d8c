package install

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
)

// A kernel on an encrypted volume is one that the boot loader cannot read, whether / is encrypted or not.
func TestNoBootFromEncryptedVolumes(t *testing.T) {
	efi := item.LayoutFilesystem{On: item.Place{Disk: "os", Partition: 1}, Type: "vfat", Mount: "/boot/efi", EFI: true}
	on := func(mount string, p item.Place) item.LayoutFilesystem {
		return item.LayoutFilesystem{On: p, Type: "ext4", Mount: mount}
	}
	clear, opened := item.Place{Disk: "os", Partition: 2}, item.Place{Opened: "luks-u"}
	inGroup, inClear := item.Place{Group: "data", Volume: "v"}, item.Place{Group: "clear", Volume: "v"}
	for name, c := range map[string]struct {
		holds []item.LayoutFilesystem
		says  string
	}{
		"root with /boot beside":           {[]item.LayoutFilesystem{on("/", opened), on("/boot", clear)}, ""},
		"root in a group, /boot beside":    {[]item.LayoutFilesystem{on("/", inGroup), on("/boot", clear)}, ""},
		"data":                             {[]item.LayoutFilesystem{on("/", clear), on("/srv", inGroup)}, ""},
		"all in a clear group":             {[]item.LayoutFilesystem{on("/", inClear)}, ""},
		"root alone":                       {[]item.LayoutFilesystem{on("/", opened)}, "/ is on an encrypted volume"},
		"root alone, in a group":           {[]item.LayoutFilesystem{on("/", inGroup)}, "/ is on an encrypted volume"},
		"/boot in a group, root in clear":  {[]item.LayoutFilesystem{on("/", clear), on("/boot", inGroup)}, "/boot is on an encrypted volume"},
		"/boot encrypted, root in clear":   {[]item.LayoutFilesystem{on("/", clear), on("/boot", opened)}, "/boot is on an encrypted volume"},
		"/boot/grub in an encrypted group": {[]item.LayoutFilesystem{on("/", clear), on("/boot/grub", inGroup)}, "/boot/grub is on an encrypted volume"},
	} {
		t.Run(name, func(t *testing.T) {
			l := item.Layout{
				Disks:       []item.LayoutDisk{{Name: "os"}},
				Encrypted:   []item.LayoutEncrypted{{Name: "luks-u", On: item.Place{Disk: "os", Partition: 3}, Opens: item.OpenedByTPM}},
				Groups:      []item.LayoutGroup{{Name: "data", Members: []item.LayoutMember{{On: item.Place{Disk: "b"}}, {On: opened}}}, {Name: "clear", Members: []item.LayoutMember{{On: clear}}}},
				Filesystems: append([]item.LayoutFilesystem{efi}, c.holds...),
			}
			for _, mode := range []string{"uefi", "bios"} {
				_, err := planBoot(l, mode, "n1")
				if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "nothing was written")) {
					t.Errorf("%s: got %v, want %q", mode, err, c.says)
				}
			}
		})
	}
}
