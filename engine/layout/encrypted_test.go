package layout_test

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/layout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// encrypted is a design with an encrypted root, a group on an encrypted array, and an encrypted
// volume in a group that is not.
func encrypted(t *testing.T) site.Storage {
	tpm := func(u site.Use) site.Use { u.Encrypt = item.OpenedByTPM; return u }
	disk := func(kind string) site.Disk {
		return site.Disk{Match: &site.DiskMatch{Kind: kind}, Partitions: map[string]site.Partition{
			"half": {Number: 9, Size: extent(t, "10GiB"), Use: site.Use{Array: "md0"}},
		}}
	}
	os, other := disk("nvme"), disk("ssd")
	os.Partitions["efi"] = site.Partition{Number: 1, Size: extent(t, "512MiB"), Flag: "efi", Use: mounted("vfat", "/boot/efi")}
	os.Partitions["boot"] = site.Partition{Number: 2, Size: extent(t, "1GiB"), Use: mounted("", "/boot")}
	os.Partitions["root"] = site.Partition{Number: 3, Size: extent(t, "30GiB"), Use: tpm(mounted("", "/"))}
	os.Partitions["clear"] = site.Partition{Number: 4, Size: extent(t, "10GiB"), Use: site.Use{Group: "clear"}}
	return site.Storage{
		Disks:  map[string]site.Disk{"os": os, "other": other},
		Arrays: map[string]site.Array{"md0": {Level: "raid1", Use: tpm(site.Use{Group: "data"})}},
		Groups: map[string]site.VolumeGroup{
			"data":  {Volumes: map[string]site.LogicalVolume{"srv": {Size: extent(t, ">1GiB"), Filesystem: &site.Filesystem{Type: "xfs", Mount: "/srv"}}}},
			"clear": {Volumes: map[string]site.LogicalVolume{"home": {Size: extent(t, "1GiB"), Filesystem: &site.Filesystem{Mount: "/home"}, Encrypt: item.OpenedAtConsole}}},
		},
	}
}

func encryptedDisks() []item.Disk {
	nvme, ssd := disk("nvme0n1", "NA", "nvme", 100*gib), disk("sda", "SB", "ssd", 100*gib)
	nvme.Kind = "nvme"
	return []item.Disk{nvme, ssd}
}

// What is encrypted is smaller by the header of LUKS2, and what is on it lies inside.
func TestEncrypted(t *testing.T) {
	s := encrypted(t)
	other := s.Disks["other"]
	other.Match.Kind, other.Match.Model = "", "MODEL SB"
	s.Disks["other"] = other
	l, wrong := layout.Of(node(s, nil), encryptedDisks())
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	if len(l.Encrypted) != 3 {
		t.Fatalf("encrypted are %+v", l.Encrypted)
	}
	root, array, home := l.Encrypted[0], l.Encrypted[1], l.Encrypted[2]
	if root.On != (item.Place{Disk: "os", Partition: 3}) || root.Opens != "tpm" || array.On != (item.Place{Array: "md0"}) ||
		home.On != (item.Place{Group: "clear", Volume: "home"}) || home.Opens != "console" {
		t.Errorf("encrypted are %+v", l.Encrypted)
	}
	want := map[string]struct {
		on    item.Place
		bytes int64
	}{
		"/": {item.Place{Opened: root.Name}, 30*gib - 16*mib}, "/boot": {item.Place{Disk: "os", Partition: 2}, gib},
		"/srv": {item.Place{Group: "data", Volume: "srv"}, 0}, "/home": {item.Place{Opened: home.Name}, gib - 16*mib},
	}
	for _, f := range l.Filesystems {
		if w, is := want[f.Mount]; is && (f.On != w.on || w.bytes > 0 && f.Bytes != w.bytes) {
			t.Errorf("%s is on %v with %d bytes, want %+v", f.Mount, f.On, f.Bytes, w)
		}
	}
	member := l.Groups[1].Members[0]
	if room := l.Arrays[0].Bytes - 16*mib - mib; member.On != (item.Place{Opened: array.Name}) || member.Extents != room/item.ExtentBytes {
		t.Errorf("the member is %+v, of an array of %d bytes", member, l.Arrays[0].Bytes)
	}
	if kind := l.Disks[0].Partitions[2].Type; kind != "ca7d7ccb-63ed-4c53-861c-1742536059cc" {
		t.Errorf("the partition has the type %s", kind)
	}
	for _, e := range l.Encrypted {
		if line := e.Name + "\tUUID=" + e.UUID + "\tnone\tluks,initramfs\n"; e.Name != "luks-"+e.UUID || !strings.Contains(l.Crypttab, line) {
			t.Errorf("crypttab has no line %q:\n%s", line, l.Crypttab)
		}
	}
	again, _ := layout.Of(node(s, nil), encryptedDisks())
	next := node(s, nil)
	next.Generation++
	later, _ := layout.Of(next, encryptedDisks())
	if again.Encrypted[0] != root || later.Encrypted[0].UUID == root.UUID {
		t.Errorf("the same layout has %+v, that of the next generation %+v, want %+v once", again.Encrypted[0], later.Encrypted[0], root)
	}
}

// What cannot be encrypted is refused where a design comes past the rules.
func TestNotEncrypted(t *testing.T) {
	for name, c := range map[string]struct {
		disk site.Disk
		says string
		more int64 // bytes
	}{
		"of odd size": {site.Disk{Use: site.Use{Filesystem: &site.Filesystem{Type: "ext4"}, Encrypt: "tpm"}},
			"with 107374182912 bytes, and LUKS2 encrypts a device whose size is a multiple of 4096 bytes", 512},
		"of odd size in a group": {site.Disk{Use: site.Use{Group: "data", Encrypt: "console"}}, "with 107374184448 bytes, and LUKS2 encrypts", 2048},
		"a member of an array":   {site.Disk{Use: site.Use{Array: "md0", Encrypt: "tpm"}}, "is encrypted, and nothing that can be is on it", 0},
		"for the firmware": {site.Disk{Partitions: map[string]site.Partition{"efi": {Size: extent(t, "1GiB"), Flag: "efi", Use: site.Use{Filesystem: &site.Filesystem{Type: "vfat"}, Encrypt: "tpm"}}}},
			"is encrypted, and nothing that can be is on it", 0},
		"too small": {site.Disk{Partitions: map[string]site.Partition{"a": {Size: extent(t, "16MiB"), Use: site.Use{Filesystem: &site.Filesystem{Type: "ext4"}, Encrypt: "tpm"}}}},
			"has 16MiB, and LUKS2 takes 16 MiB of it", 0},
		"kept": {site.Disk{Keep: true, Use: site.Use{Filesystem: &site.Filesystem{Type: "ext4"}, Encrypt: "tpm"}}, "is kept, and is to be encrypted", 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.disk.Match = &site.DiskMatch{Kind: "ssd"}
			s := site.Storage{Disks: map[string]site.Disk{"os": c.disk}}
			if c.disk.Array != "" {
				s.Arrays = map[string]site.Array{"md0": {Level: "raid1", Use: mounted("", "/")}}
			}
			if c.disk.Group != "" {
				s.Groups = map[string]site.VolumeGroup{c.disk.Group: {}}
			}
			_, wrong := layout.Of(node(s, nil), []item.Disk{disk("sda", "SA", "ssd", 100*gib+c.more)})
			if len(wrong) == 0 || !strings.Contains(wrong[0].Message, c.says) {
				t.Errorf("it finds %v", wrong)
			}
		})
	}
}

// A partition of a disk of odd size ends at a whole mebibyte, and so does what is not encrypted.
func TestEncryptedOnADiskOfOddSize(t *testing.T) {
	root := site.Partition{Number: 1, Size: extent(t, ">1GiB"), Use: site.Use{Filesystem: &site.Filesystem{Type: "ext4", Mount: "/srv"}, Encrypt: "tpm"}}
	odd := disk("sda", "SA", "ssd", 100*gib+512)
	for name, d := range map[string]site.Disk{"a partition": {Partitions: map[string]site.Partition{"all": root}}, "in clear": {Use: mounted("ext4", "/srv")}} {
		d.Match = &site.DiskMatch{Kind: "ssd"}
		if _, wrong := layout.Of(node(site.Storage{Disks: map[string]site.Disk{"os": d}}, nil), []item.Disk{odd}); len(wrong) > 0 {
			t.Errorf("%s: %v", name, wrong)
		}
	}
}

// An installation that was cut after it made its encrypted volume goes on: the volume is its own, and nothing of a disk
// that stays is inside.
func TestOwnVolumesAreSharedWithNoDisk(t *testing.T) {
	os := site.Disk{Match: &site.DiskMatch{Kind: "ssd"}, Partitions: map[string]site.Partition{
		"efi":  {Number: 1, Size: extent(t, "512MiB"), Flag: "efi", Use: mounted("vfat", "/boot/efi")},
		"boot": {Number: 2, Size: extent(t, "1GiB"), Use: mounted("", "/boot")},
		"root": {Number: 3, Size: extent(t, ">20GiB"), Use: site.Use{Filesystem: &site.Filesystem{Mount: "/"}, Encrypt: "tpm"}},
	}}
	for name, kept := range map[string]*site.Disk{"kept": {Match: &site.DiskMatch{Kind: "hdd"}, Keep: true}, "not designed": nil} {
		t.Run(name, func(t *testing.T) {
			s := site.Storage{Disks: map[string]site.Disk{"os": os}}
			if kept != nil {
				s.Disks["data"] = *kept
			}
			a, b := disk("sda", "A", "ssd", 100*gib), disk("sdb", "B", "hdd", 100*gib)
			b.Holds = []item.Signature{{Kind: "luks", UUID: "somebodys"}} // of a person, since ever
			n := node(s, nil)
			l, findings := layout.Of(n, []item.Disk{a, b})
			if len(findings) > 0 || len(l.Destroys[0].Breaks) > 0 {
				t.Fatalf("at first: %v, %+v", findings, l.Destroys)
			}
			// the power is cut after cryptsetup luksFormat
			a.Holds = []item.Signature{{Kind: "gpt", UUID: l.Disks[0].GUID}, {Kind: "luks", Partition: 3, UUID: l.Encrypted[0].UUID}}
			again, findings := layout.Of(n, []item.Disk{a, b})
			if len(findings) > 0 {
				t.Fatalf("after the cut it is refused: %v", findings[0].Message)
			}
			for _, d := range again.Destroys {
				if len(d.Breaks) > 0 {
					t.Errorf("after the cut it breaks %+v, which nobody has approved", d.Breaks)
				}
			}
		})
	}
}
