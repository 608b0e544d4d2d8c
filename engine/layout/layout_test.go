package layout_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unique"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/layout"
	"github.com/slipway-gitops/slipway/engine/site"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// disk is one that is seen.
func disk(name, serial, kind string, bytes int64) item.Disk {
	return item.Disk{Name: name, Serial: serial, Kind: kind, Model: "MODEL " + serial, Bytes: bytes, Sector: 512}
}

func extent(t testing.TB, text string) site.Extent {
	t.Helper()
	if text == "" {
		return site.Extent{}
	}
	e, err := site.ParseExtent(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func mounted(kind, path string) site.Use {
	return site.Use{Filesystem: &site.Filesystem{Type: kind, Mount: path}}
}

func node(s site.Storage, devices map[string]site.Device) *site.Node {
	return &site.Node{Name: "n1", Generation: 3, Storage: s, Hardware: site.Hardware{Devices: devices}}
}

// onRoot is a design of one disk, found by a rule.
func onRoot(m site.DiskMatch) site.Storage {
	return site.Storage{Disks: map[string]site.Disk{"os": {Match: &m, Use: mounted("", "/")}}}
}

// Each designed disk is exactly one of those that were seen, or the layout is refused with
// the candidates.
func TestWhichDiskIsWhich(t *testing.T) {
	a, b := disk("sda", "SA", "ssd", 480e9), disk("sdb", "SB", "ssd", 960e9)
	c, d := disk("nvme0n1", "NC", "nvme", 960e9), disk("nvme1n1", "ND", "nvme", 960e9)
	c.PCI, d.PCI, a.SCSI, a.Paths = "0000:03:00.0", "0000:04:00.0", "0:0:1:0", []string{"/dev/disk/by-path/pci-0000:00:1f.2-ata-1"}
	usb, locked, same := disk("sdz", "USB", "ssd", 480e9), disk("sdy", "RO", "ssd", 480e9), disk("sdx", "SA", "ssd", 480e9)
	usb.Removable, locked.ReadOnly, locked.PCI = true, true, "0000:09:00.0"
	nameless := item.Disk{Name: "vda", Kind: "ssd", Bytes: 480e9, Sector: 512}
	both := func(first, second site.Disk) site.Storage {
		return site.Storage{Disks: map[string]site.Disk{"a": first, "b": second}}
	}
	matching := func(m site.DiskMatch, use site.Use) site.Disk { return site.Disk{Match: &m, Use: use} }
	set := func(count site.DiskCount) site.Storage {
		return site.Storage{Disks: map[string]site.Disk{
			"os":  matching(site.DiskMatch{Kind: "ssd", MaxSize: 500e9}, mounted("", "/")),
			"osd": {Match: &site.DiskMatch{MinSize: 900e9}, Count: count},
		}}
	}
	for name, c := range map[string]struct {
		storage site.Storage
		devices map[string]site.Device
		seen    []item.Disk
		want    map[string]string // serial numbers by names
		says    []string
	}{
		"one fits": {storage: onRoot(site.DiskMatch{Kind: "ssd", MaxSize: 500e9}), seen: []item.Disk{a, b, c}, want: map[string]string{"os": "SA"}},
		"a model":  {storage: onRoot(site.DiskMatch{Model: "*SB"}), seen: []item.Disk{a, b, c}, want: map[string]string{"os": "SB"}},
		"none fits": {storage: onRoot(site.DiskMatch{Kind: "hdd"}), seen: []item.Disk{a, c},
			says: []string{"no disk fits the rule for the disk os (hdd); there are NC (nvme0n1, MODEL NC, 960 GB), SA (sda, MODEL SA, 480 GB)"}},
		"nothing is seen": {storage: onRoot(site.DiskMatch{Kind: "hdd"}), says: []string{"no disk fits the rule for the disk os (hdd); there are none"}},
		"two fit": {storage: onRoot(site.DiskMatch{Kind: "ssd"}), seen: []item.Disk{b, c, a},
			says: []string{"3 disks fit the rule for the disk os (ssd): NC (nvme0n1, MODEL NC, 960 GB), SA (sda, MODEL SA, 480 GB), SB (sdb, MODEL SB, 960 GB)"}},
		"a removable and a locked one fit no rule": {storage: onRoot(site.DiskMatch{MaxSize: 500e9}), seen: []item.Disk{usb, a, locked}, want: map[string]string{"os": "SA"}},
		"what a device names fits no rule": {storage: both(site.Disk{Device: "x", Use: mounted("", "/")}, matching(site.DiskMatch{Kind: "nvme"}, mounted("", "/srv"))),
			devices: map[string]site.Device{"x": {PCI: "0000:03:00.0"}}, seen: []item.Disk{c, d, a}, want: map[string]string{"a": "NC", "b": "ND"}},
		"an address that no disk has": {storage: both(site.Disk{Device: "x", Use: mounted("", "/")}, matching(site.DiskMatch{Kind: "ssd"}, mounted("", "/srv"))),
			devices: map[string]site.Device{"x": {PCI: "0000:05:00.0"}}, seen: []item.Disk{c, a},
			says: []string{"no disk fits the device x of the disk a (pci 0000:05:00.0); there are NC (nvme0n1"}},
		"an address of a controller with two disks": {storage: site.Storage{Disks: map[string]site.Disk{"a": {Device: "x", Use: mounted("", "/")}}},
			devices: map[string]site.Device{"x": {PCI: "0000:00:1f.2"}}, seen: []item.Disk{
				{Name: "sda", Serial: "1", PCI: "0000:00:1f.2", Bytes: 1e9, Sector: 512}, {Name: "sdb", Serial: "2", PCI: "0000:00:1f.2", Bytes: 1e9, Sector: 512}},
			says: []string{"2 disks fit the device x of the disk a (pci 0000:00:1f.2): 1 (sda, 1.0 GB), 2 (sdb, 1.0 GB)"}},
		"SCSI and a path": {storage: both(site.Disk{Device: "x", Use: mounted("", "/")}, site.Disk{Device: "y", Use: mounted("", "/srv")}),
			devices: map[string]site.Device{"x": {SCSI: "0:0:1:0"}, "y": {Path: "/dev/disk/by-path/pci-0000:00:1f.2-ata-1"}}, seen: []item.Disk{a, b},
			says: []string{"the disks a and b are both SA (sda, MODEL SA, 480 GB)"}},
		"a disk that is smaller than its device": {storage: site.Storage{Disks: map[string]site.Disk{"a": {Device: "x", Use: mounted("", "/")}}},
			devices: map[string]site.Device{"x": {SCSI: "0:0:1:0", Size: 960e9}}, seen: []item.Disk{a},
			says: []string{"the device x is to have 960GB, and is SA (sda, MODEL SA, 480 GB)"}},
		"a locked device": {storage: site.Storage{Disks: map[string]site.Disk{"a": {Device: "x", Use: mounted("", "/")}}},
			devices: map[string]site.Device{"x": {PCI: "0000:09:00.0"}}, seen: []item.Disk{locked}, says: []string{"the disk a is RO (sdy, MODEL RO, 480 GB), which is read-only"}},
		"a volume of a controller": {storage: site.Storage{Disks: map[string]site.Disk{"a": {Device: "perc/os", Use: mounted("", "/")}}}, seen: []item.Disk{a},
			says: []string{"no disk reports which volume it is"}},
		"two rules for one": {storage: both(matching(site.DiskMatch{Kind: "nvme"}, mounted("", "/")), matching(site.DiskMatch{MinSize: 900e9}, mounted("", "/srv"))),
			seen: []item.Disk{c, a}, says: []string{"the disks a and b are both NC (nvme0n1"}},
		"nothing to know it by": {storage: onRoot(site.DiskMatch{Kind: "ssd"}), seen: []item.Disk{nameless},
			says: []string{"no serial number (vda, 480 GB), which tells neither a serial number nor a WWN"}},
		"two paths to one disk": {storage: onRoot(site.DiskMatch{Kind: "ssd", Model: "MODEL S*"}), seen: []item.Disk{a, same},
			says: []string{"2 disks fit the rule"}},
		"two paths, one named": {storage: site.Storage{Disks: map[string]site.Disk{"a": {Device: "x", Use: mounted("", "/")}}},
			devices: map[string]site.Device{"x": {SCSI: "0:0:1:0"}}, seen: []item.Disk{a, same}, says: []string{"the disk a is there 2 times: SA (sda, MODEL SA, 480 GB), SA (sdx"}},
		"a set of all":           {storage: set("all"), seen: []item.Disk{d, a, c, b}, want: map[string]string{"os": "SA", "osd-1": "NC", "osd-2": "ND", "osd-3": "SB"}},
		"a set of so many":       {storage: set("3"), seen: []item.Disk{d, a, c, b}, want: map[string]string{"os": "SA", "osd-1": "NC", "osd-2": "ND", "osd-3": "SB"}},
		"a set of too many":      {storage: set("2"), seen: []item.Disk{d, a, c, b}, says: []string{"2 disks must fit the rule for the disks osd (at least 900GB), and 3 do: NC"}},
		"a set of too few":       {storage: set("1"), seen: []item.Disk{a}, says: []string{"1 disk must fit"}},
		"a set of all, and none": {storage: set("all"), seen: []item.Disk{a}, says: []string{"no disk fits the rule for the disks osd (at least 900GB)"}},
		"a set leaves what is one": {storage: site.Storage{Disks: map[string]site.Disk{"os": matching(site.DiskMatch{Kind: "ssd", Model: "MODEL S*", MinSize: 900e9}, mounted("", "/")), "osd": {Match: &site.DiskMatch{MinSize: 900e9}, Count: "all"}}},
			seen: []item.Disk{a, b, c}, want: map[string]string{"os": "SB", "osd-1": "NC"}},
		"nothing is designed": {seen: []item.Disk{a}, says: []string{"no disk is designed"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, findings := layout.Of(node(c.storage, c.devices), c.seen)
			if len(c.says) > 0 {
				wants(t, l, findings, c.says...)
				return
			}
			got := map[string]string{}
			for _, d := range l.Disks {
				got[d.Name] = d.Serial
			}
			if diff := cmp.Diff(c.want, got); diff != "" || len(findings) > 0 {
				t.Errorf("disks (-want, +got):\n%s%v", diff, findings)
			}
		})
	}
}

// wants holds that a layout is refused with findings that say something, each with a place,
// a reason and what to do.
func wants(t *testing.T, l item.Layout, findings []site.Finding, says ...string) {
	t.Helper()
	if len(l.Disks) > 0 {
		t.Errorf("there is a layout beside findings: %+v", l)
	}
	for _, text := range says {
		if !slices.ContainsFunc(findings, func(f site.Finding) bool { return strings.Contains(f.Message, text) }) {
			t.Errorf("nothing says %q: %q", text, findings)
		}
	}
	for _, f := range findings {
		if f.Path == "" || f.Why == "" || f.Fix == "" || f.Severity != site.SeverityError || f.Node != "n1" {
			t.Errorf("the finding %+v is not complete", f)
		}
	}
}

// mirror is two disks with boot loaders, an array over both, volumes on it, and a kept disk.
func mirror(t testing.TB) site.Storage {
	half := map[string]site.Partition{
		"efi":  {Number: 1, Size: extent(t, "512MiB"), Flag: "efi", Use: site.Use{Filesystem: &site.Filesystem{Type: "vfat"}}},
		"raid": {Number: 2, Size: extent(t, ">10GiB"), Use: site.Use{Array: "md0"}},
	}
	first := map[string]site.Partition{"efi": {Number: 1, Size: extent(t, "512MiB"), Flag: "efi", Use: mounted("vfat", "/boot/efi")}, "raid": half["raid"]}
	return site.Storage{
		BootDisk: "a",
		Disks: map[string]site.Disk{
			"a": {Match: &site.DiskMatch{Model: "*A"}, Partitions: first},
			"b": {Match: &site.DiskMatch{Model: "*B"}, Partitions: half},
			"data": {Match: &site.DiskMatch{Kind: "hdd"}, Keep: true, Partitions: map[string]site.Partition{
				"old": {Number: 2, Use: site.Use{Filesystem: &site.Filesystem{Type: "xfs", Mount: "/srv", Options: []string{"noatime", "nofail"}}}}}},
		},
		Arrays: map[string]site.Array{"md0": {Level: "raid1", Use: site.Use{Group: "vg"}}},
		Groups: map[string]site.VolumeGroup{"vg": {Volumes: map[string]site.LogicalVolume{
			"root": {Size: extent(t, "30GiB"), Filesystem: &site.Filesystem{Mount: "/", Label: "root"}},
			"swap": {Size: extent(t, "10%"), Filesystem: &site.Filesystem{Type: "swap"}},
			"var":  {Size: extent(t, ">1GiB"), Filesystem: &site.Filesystem{Type: "xfs", Mount: "/var"}},
		}}},
	}
}

func mirrorDisks() []item.Disk {
	a, b, k := disk("sda", "A", "ssd", 480103981056), disk("sdb", "B", "ssd", 480103981056), disk("sdc", "K", "hdd", 4e12)
	a.Holds = []item.Signature{{Kind: "gpt"}, {Kind: "ext4", Partition: 1, Label: "old-root", UUID: "u"}}
	k.Holds = []item.Signature{{Kind: "gpt"}, {Kind: "partition", Partition: 1}, {Kind: "xfs", Partition: 2, UUID: "kept-uuid", Label: "mine", Bytes: 3e12}}
	return []item.Disk{k, b, a, disk("sdd", "X", "nvme", 1e12)}
}

// The sectors of a mirror, worked out by hand: 480103981056 bytes are 937703088 sectors,
// of which the last 33 hold the copy of the table; the last whole mebibyte ends at the
// sector 937701376.
func TestMirror(t *testing.T) {
	l, findings := layout.Of(node(mirror(t), nil), mirrorDisks())
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	if len(l.Disks) != 3 || l.Disks[0].Serial != "A" || l.Disks[1].Serial != "B" || l.Disks[2].Serial != "K" || !l.Disks[2].Keep || l.Disks[2].Table != "" {
		t.Fatalf("disks: %+v", l.Disks)
	}
	for _, d := range l.Disks[:2] {
		if d.Table != "gpt" || len(d.Partitions) != 2 {
			t.Fatalf("%+v", d)
		}
		efi, raid := d.Partitions[0], d.Partitions[1]
		if efi.First != 2048 || efi.Last != 1050623 || efi.Type != "c12a7328-f81f-11d2-ba4b-00a0c93ec93b" || efi.Number != 1 {
			t.Errorf("efi: %+v", efi)
		}
		if raid.First != 1050624 || raid.Last != 937701375 || raid.Type != "a19d880f-05fc-4d3b-a006-743f0f84911e" {
			t.Errorf("raid: %+v", raid)
		}
	}
	// The member has 457351 MiB, of which the array keeps 128, so that the group has
	// 457223 MiB, less 1 for its own: 114305 extents.
	member := int64(937701376-1050624) * 512
	if member != 457349*mib {
		t.Fatalf("a member has %d MiB", member/mib)
	}
	md := l.Arrays[0]
	if md.Level != "raid1" || md.DataOffset != 128*mib || md.MemberBytes != member-128*mib || md.Bytes != md.MemberBytes || md.Chunk != 0 || len(md.Members) != 2 {
		t.Errorf("array: %+v", md)
	}
	extents := (457349 - 128 - 1) / 4
	want := []item.LayoutVolume{{Name: "root", Extents: 7680}, {Name: "swap", Extents: int64(extents / 10)}, {Name: "var", Extents: int64(extents - 7680 - extents/10)}}
	if diff := cmp.Diff(want, l.Groups[0].Volumes); diff != "" || l.Groups[0].Members[0].Extents != int64(extents) {
		t.Errorf("volumes (-want, +got):\n%s%+v", diff, l.Groups[0].Members)
	}
	var order []string
	for _, f := range l.Filesystems {
		order = append(order, f.Mount+" "+f.Type+" on "+f.On.String())
	}
	if diff := cmp.Diff([]string{"/ ext4 on the volume vg/root", "/boot/efi vfat on the partition 1 of the disk a", "/srv xfs on the partition 2 of the disk data",
		"/var xfs on the volume vg/var", " vfat on the partition 1 of the disk b", " swap on the volume vg/swap"}, order); diff != "" {
		t.Errorf("file systems (-want, +got):\n%s", diff)
	}
	id := func(n int) string { return l.Filesystems[n].UUID }
	fstab := fmt.Sprintf("# Written by Slipway when it laid out the disks.\nUUID=%s\t/\text4\tdefaults\t0\t1\nUUID=%s\t/boot/efi\tvfat\tumask=0077\t0\t2\n"+
		"UUID=kept-uuid\t/srv\txfs\tnoatime,nofail\t0\t0\nUUID=%s\t/var\txfs\tdefaults\t0\t0\nUUID=%s\tnone\tswap\tsw\t0\t0\n", id(0), id(1), id(3), id(5))
	if diff := cmp.Diff(fstab, l.Fstab); diff != "" {
		t.Errorf("fstab (-want, +got):\n%s", diff)
	}
	if want := "ARRAY /dev/md/md0 metadata=1.2 UUID=" + md.MdadmUUID() + "\n"; l.Mdadm != want || strings.Count(l.Mdadm, ":") != 3 {
		t.Errorf("mdadm.conf: %q", l.Mdadm)
	}
	if len(l.Destroys) != 2 || l.Destroys[0].Serial != "A" || l.Destroys[1].Serial != "B" || l.Destroys[0].Held[1].String() != `ext4 on partition 1 "old-root"` {
		t.Errorf("destroyed: %+v", l.Destroys)
	}
	if text := fmt.Sprintf("%+v", l); strings.Contains(text, "MODEL X") || strings.Contains(text, "sdd") {
		t.Errorf("a disk that is not designed is in it: %s", text)
	}
}

// What is known again is the same for the same installation on the same disks in whichever
// order they are seen, and another one for all others.
func TestIdentities(t *testing.T) {
	seen := mirrorDisks()
	first, _ := layout.Of(node(mirror(t), nil), seen)
	slices.Reverse(seen)
	for i := range seen {
		seen[i].Name = "sd" + string(rune('p'+i))
	}
	again, _ := layout.Of(node(mirror(t), nil), seen)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the order of the disks makes a difference:\n%s", diff)
	}
	later := node(mirror(t), nil)
	later.Generation++
	other := node(mirror(t), nil)
	other.Name = "n2"
	exchanged := mirrorDisks()
	exchanged[1].Serial = "C"
	all := map[string]bool{}
	for i, of := range []struct {
		n    *site.Node
		seen []item.Disk
	}{{node(mirror(t), nil), mirrorDisks()}, {later, mirrorDisks()}, {other, mirrorDisks()}} {
		l, findings := layout.Of(of.n, of.seen)
		if len(findings) > 0 {
			t.Fatal(findings)
		}
		for _, id := range ids(l) {
			if all[id] {
				t.Errorf("%d: %s is there twice", i, id)
			}
			all[id] = true
		}
	}
	replaced, _ := layout.Of(node(mirror(t), nil), exchanged)
	if replaced.Arrays[0].UUID == first.Arrays[0].UUID || replaced.Disks[0].GUID != first.Disks[0].GUID || replaced.Disks[1].GUID == first.Disks[1].GUID {
		t.Error("an exchanged disk does not change what it is a part of, and that alone")
	}
}

// ids are all identities that a layout gives.
func ids(l item.Layout) (all []string) {
	for _, d := range l.Disks {
		if !d.Keep {
			all = append(all, d.GUID)
		}
		for _, p := range d.Partitions {
			all = append(all, p.GUID)
		}
	}
	for _, a := range l.Arrays {
		all = append(all, a.UUID)
	}
	for _, g := range l.Groups {
		for _, m := range g.Members {
			all = append(all, m.UUID)
		}
	}
	for _, f := range l.Filesystems {
		if !f.Keep {
			all = append(all, f.UUID)
		}
	}
	return all
}

// What does not fit is said with its place, and there is no layout.
func TestWhatDoesNotFit(t *testing.T) {
	parts := func(table string, all map[string]string) site.Storage {
		d := site.Disk{Match: &site.DiskMatch{Model: "*"}, Table: table, Partitions: map[string]site.Partition{}}
		for name, size := range all {
			d.Partitions[name] = site.Partition{Size: extent(t, size)}
		}
		return site.Storage{Disks: map[string]site.Disk{"os": d}}
	}
	volumes := func(all map[string]string) site.Storage {
		g := site.VolumeGroup{Volumes: map[string]site.LogicalVolume{}}
		for name, size := range all {
			g.Volumes[name] = site.LogicalVolume{Size: extent(t, size)}
		}
		return site.Storage{Disks: map[string]site.Disk{"os": {Match: &site.DiskMatch{Model: "*"}, Use: site.Use{Group: "vg"}}}, Groups: map[string]site.VolumeGroup{"vg": g}}
	}
	kept := func(use site.Use, number int) site.Storage {
		return site.Storage{Disks: map[string]site.Disk{"k": {Match: &site.DiskMatch{Model: "*"}, Keep: true, Partitions: map[string]site.Partition{"p": {Number: number, Use: use}}}}}
	}
	numbers := site.Storage{Disks: map[string]site.Disk{"os": {Match: &site.DiskMatch{Model: "*"}, Table: "mbr", Partitions: map[string]site.Partition{"p": {Number: 5, Size: extent(t, "1GiB")}}}}}
	short := func(s site.Storage, level string, spares int) site.Storage {
		s.Arrays = map[string]site.Array{"md0": {Level: level, Spares: spares, Use: mounted("", "/")}}
		return s
	}
	member := site.Storage{Disks: map[string]site.Disk{"os": {Match: &site.DiskMatch{Model: "*"}, Use: site.Use{Array: "md0"}}}}
	loop := site.Storage{Disks: map[string]site.Disk{"os": {Match: &site.DiskMatch{Model: "*"}, Use: mounted("", "/")}},
		Arrays: map[string]site.Array{"a": {Level: "raid1", Use: site.Use{Array: "b"}}, "b": {Level: "raid1", Use: site.Use{Array: "a"}}}}
	small, odd := disk("sda", "A", "ssd", 10*gib), disk("sda", "A", "ssd", 10*gib+100)
	large := disk("sda", "A", "ssd", 4<<40)
	held := small
	held.Holds = []item.Signature{{Kind: "gpt"}, {Kind: "ext4", Partition: 1, UUID: "u"}}
	unread := small
	unread.Unread = "input/output error"
	for name, c := range map[string]struct {
		storage site.Storage
		seen    item.Disk
		path    string
		says    string
	}{
		"a disk that is too small":   {parts("", map[string]string{"a": "9GiB", "b": "1GiB"}), small, "storage.disks.os.partitions.b.size", "ask for 10GiB up to b, and there is room for 10238MiB"},
		"one mebibyte too much":      {parts("", map[string]string{"a": "10239MiB"}), small, "storage.disks.os.partitions.a.size", "there is room for 10238MiB"},
		"shares over all":            {parts("", map[string]string{"a": "60%", "b": "50%"}), small, "storage.disks.os.partitions.b.size", "there is room for 10238MiB"},
		"two rests":                  {parts("", map[string]string{"a": ">1GiB", "b": ">1GiB"}), small, "storage.disks.os.partitions.b.size", "a second part"},
		"a rest that is not there":   {parts("", map[string]string{"a": "9GiB", "b": ">2GiB"}), small, "storage.disks.os.partitions.b.size", "ask for 11GiB"},
		"no size":                    {parts("", map[string]string{"a": ""}), small, "storage.disks.os.partitions.a", "has no size"},
		"a share of nothing":         {volumes(map[string]string{"a": "1%"}), disk("sda", "A", "ssd", 100*mib), "storage.groups.vg.volumes.a.size", "1% of the volume group vg is smaller than the smallest"},
		"five partitions in an MBR":  {parts("mbr", map[string]string{"a": "1GiB", "b": "1GiB", "c": "1GiB", "d": "1GiB", "e": "1GiB"}), small, "storage.disks.os.partitions.e", "is the 5th"},
		"a number above an MBR's":    {numbers, small, "storage.disks.os.partitions.p", "is the 5th"},
		"an MBR ends":                {parts("mbr", map[string]string{"a": "1TiB", "b": ">1TiB"}), large, "storage.disks.os.partitions.b", "after the sector 4294967295"},
		"sectors that do not fit":    {parts("", map[string]string{"a": "1GiB"}), odd, "storage.disks.os", "10737418340 bytes in sectors of 512"},
		"a group that is too small":  {volumes(map[string]string{"a": "9GiB", "b": "1GiB"}), small, "storage.groups.vg.volumes.b.size", "there is room for 10236MiB"},
		"a name that LVM keeps":      {volumes(map[string]string{"x_rmeta": "1GiB"}), small, "storage.groups.vg.volumes.x_rmeta", "LVM keeps the name"},
		"a member that is too small": {volumes(map[string]string{"a": "4MiB"}), disk("sda", "A", "ssd", 4*mib), "storage.disks.os", "too little for a member"},
		"one member of two":          {short(member, "raid1", 0), small, "storage.arrays.md0.level", "has 1 members and 0 spares, and raid1 needs 2"},
		"all are spares":             {short(member, "raid1", 4), small, "storage.arrays.md0.level", "raid1 needs 2"},
		"arrays in a circle":         {loop, small, "storage.arrays.a", "is a member of itself"},
		"xfs in little":              {site.Storage{Disks: map[string]site.Disk{"os": {Match: &site.DiskMatch{Model: "*"}, Partitions: map[string]site.Partition{"a": {Size: extent(t, "299MiB"), Use: mounted("xfs", "/")}}}}}, small, "storage.disks.os.partitions.a", "and xfs needs 300MiB"},
		"vfat on a lot":              {site.Storage{Disks: map[string]site.Disk{"os": {Match: &site.DiskMatch{Model: "*"}, Use: mounted("vfat", "/x")}}}, large, "storage.disks.os", "and vfat can have"},
		"kept, and another type":     {kept(mounted("xfs", "/srv"), 1), held, "storage.disks.k.partitions.p.filesystem", "must have xfs, but the disk A (sda, MODEL A, 11 GB) holds ext4 on partition 1"},
		"kept, and nothing there":    {kept(mounted("", "/srv"), 2), held, "storage.disks.k.partitions.p.filesystem", "holds nothing that is known"},
		"kept, without a number":     {kept(mounted("", "/srv"), 0), held, "storage.disks.k.partitions.p", "has no number"},
		"kept, and not read":         {kept(mounted("", "/srv"), 1), unread, "storage.disks.k", "cannot be read: input/output error"},
	} {
		t.Run(name, func(t *testing.T) {
			l, findings := layout.Of(node(c.storage, nil), []item.Disk{c.seen})
			wants(t, l, findings, c.says)
			if !slices.ContainsFunc(findings, func(f site.Finding) bool { return f.Path == c.path }) {
				t.Errorf("nothing is at %s: %+v", c.path, findings)
			}
		})
	}
}

// What of other disks cannot be used any more is told; a kept disk is never broken.
func TestWhatBreaks(t *testing.T) {
	member := item.Signature{Kind: "md", UUID: "array-uuid", Name: "data"}
	a, b := disk("sda", "A", "ssd", 100*gib), disk("sdb", "B", "hdd", 100*gib)
	a.Holds, b.Holds = []item.Signature{member}, []item.Signature{member}
	s := onRoot(site.DiskMatch{Kind: "ssd"})
	l, findings := layout.Of(node(s, nil), []item.Disk{a, b})
	if want := []item.Broken{{Shared: item.Shared{Kind: "md", UUID: "array-uuid", Name: "data"}, On: "B"}}; len(findings) > 0 || !slices.Equal(l.Destroys[0].Breaks, want) {
		t.Errorf("breaks %+v, %v", l.Destroys, findings)
	}
	s.Disks["kept"] = site.Disk{Match: &site.DiskMatch{Kind: "hdd"}, Keep: true}
	l, findings = layout.Of(node(s, nil), []item.Disk{a, b})
	wants(t, l, findings, "the kept disk B (sdb, MODEL B, 107 GB) has a part of the array data, and so has the disk A (sda")
	s.Disks["kept"] = site.Disk{Match: &site.DiskMatch{Kind: "hdd"}, Use: mounted("", "/srv")}
	if l, findings = layout.Of(node(s, nil), []item.Disk{a, b}); len(findings) > 0 || len(l.Destroys[0].Breaks) > 0 {
		t.Errorf("an array all of whose disks are erased breaks %q, %v", l.Destroys[0].Breaks, findings)
	}
	group := site.Storage{Disks: map[string]site.Disk{"os": {Match: &site.DiskMatch{Kind: "ssd"}, Use: site.Use{Group: "vg"}}},
		Groups: map[string]site.VolumeGroup{"vg": {Volumes: map[string]site.LogicalVolume{"root": {Size: extent(t, "20GiB"), Filesystem: &site.Filesystem{Mount: "/"}}}}}}
	b.Holds = []item.Signature{{Kind: "lvm", UUID: "g", Name: "vg"}}
	l, findings = layout.Of(node(group, nil), []item.Disk{a, b})
	wants(t, l, findings, "there is a volume group vg on B (sdb, MODEL B, 107 GB), which stays")
}

// What is inside of encrypted volumes is not visible: a group over both would lose its data with one of them, so
// that it is named for the approval, or refused where the other one is kept.
func TestWhatBreaksInsideOfEncryptedVolumes(t *testing.T) {
	a, b := disk("sda", "A", "ssd", 100*gib), disk("sdb", "B", "hdd", 100*gib)
	a.Holds, b.Holds = []item.Signature{{Kind: "gpt"}, {Kind: "luks", UUID: "a-uuid", Partition: 3}}, []item.Signature{{Kind: "luks", UUID: "b-uuid"}}
	s := onRoot(site.DiskMatch{Kind: "ssd"})
	l, findings := layout.Of(node(s, nil), []item.Disk{a, b})
	if want := []item.Broken{{Shared: item.Shared{Kind: "luks", UUID: "a-uuid"}, On: "B"}}; len(findings) > 0 || !slices.Equal(l.Destroys[0].Breaks, want) {
		t.Errorf("breaks %+v, %v", l.Destroys, findings)
	}
	s.Disks["kept"] = site.Disk{Match: &site.DiskMatch{Kind: "hdd"}, Keep: true}
	l, findings = layout.Of(node(s, nil), []item.Disk{a, b})
	wants(t, l, findings, "the kept disk B (sdb, MODEL B, 107 GB) has a part of a volume group or array that may be inside of the encrypted volume a-uuid, and so has the disk A (sda")
	b.Holds = nil
	if l, findings = layout.Of(node(s, nil), []item.Disk{a, b}); len(findings) > 0 || len(l.Destroys[0].Breaks) > 0 {
		t.Errorf("beside a disk that is not encrypted it breaks %+v, %v", l.Destroys, findings)
	}
}

// The finding is at the line that designed the value, or what it is in.
func TestFindingsHavePlaces(t *testing.T) {
	n := node(onRoot(site.DiskMatch{Kind: "hdd"}), nil)
	n.Origins = site.OriginsByPath(map[string]site.Origin{"storage.disks.os": {File: unique.Make("n1.cue"), Line: 7, Col: 3}})
	_, findings := layout.Of(n, nil)
	if len(findings) != 1 || findings[0].Place() != "n1.cue:7:3" {
		t.Errorf("got %+v", findings)
	}
}

// A table for BIOS has its types in two digits, and marks what is booted.
func TestMBR(t *testing.T) {
	s := site.Storage{Disks: map[string]site.Disk{"os": {Match: &site.DiskMatch{Model: "*"}, Table: "mbr", Partitions: map[string]site.Partition{
		"boot": {Number: 2, Size: extent(t, "1GiB"), Use: mounted("", "/boot")},
		"root": {Number: 1, Size: extent(t, "25%"), Use: mounted("xfs", "/")},
		"swap": {Size: extent(t, ">1GiB"), Use: mounted("swap", "")},
	}}}}
	l, findings := layout.Of(node(s, nil), []item.Disk{disk("sda", "A", "ssd", 100*gib)})
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	d := l.Disks[0]
	got := fmt.Sprint(d.Table, len(d.GUID))
	for _, p := range d.Partitions {
		got += fmt.Sprintf(" %s:%d:%d-%d:%s:%v", p.Name, p.Number, p.First, p.Last, p.Type, p.Active)
	}
	// 102399 MiB, of which a quarter is 25599.75.
	if want := fmt.Sprintf("mbr8 root:1:2048-%d:83:false boot:2:%d-%d:83:true swap:3:%d-%d:82:false",
		2048+25599*2048-1, 2048+25599*2048, 2048+(25599+1024)*2048-1, 2048+(25599+1024)*2048, 102400*2048-1); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// How much arrays hold, as md(4) has it.
func TestArrayBytes(t *testing.T) {
	one, two := site.Size(10*gib), site.Size(20*gib) // 10 MiB of each are kept
	each := one - 10*mib
	for _, c := range []struct {
		level   string
		members []site.Size
		spares  int
		want    site.Size
	}{
		{"raid0", []site.Size{one, two}, 0, each + two - 10*mib},
		{"raid1", []site.Size{one, two}, 0, each},
		{"raid1", []site.Size{two, two, one}, 1, each},
		{"raid5", []site.Size{one, two, two}, 0, 2 * each},
		{"raid6", []site.Size{one, one, one, one, one}, 1, 2 * each},
		{"raid10", []site.Size{one, one, one}, 0, each * 3 / 2},
		{"raid10", []site.Size{one, one, one, one}, 0, 2 * each},
		{"raid5", []site.Size{one, one}, 0, 0},
		{"raid1", []site.Size{one}, -1, 0},
		{"raid1", []site.Size{mib, mib}, 0, 0},
		{"raid5", []site.Size{math.MaxInt64, math.MaxInt64, math.MaxInt64}, 0, math.MaxInt64},
		{"raid7", []site.Size{one, one, one, one}, 0, 0},
	} {
		if got := layout.ArrayBytes(c.level, c.members, c.spares); got != c.want {
			t.Errorf("%s of %d: got %d, want %d", c.level, len(c.members), got, c.want)
		}
	}
}

// TestLayoutsHold lays out designs by chance: what comes of it lies within the disks, is
// aligned, does not overlap, adds up, and is mounted in order; or a finding says why not.
func TestLayoutsHold(t *testing.T) {
	laid := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		s, seen := chance(r)
		l, findings := layout.Of(node(s, nil), seen)
		if len(findings) > 0 {
			wants(t, l, findings)
			continue
		}
		laid++
		holds(t, seed, s, seen, l)
		if t.Failed() {
			t.Fatalf("seed %d: %+v\n%+v", seed, s, l)
		}
	}
	if laid < 500 {
		t.Errorf("only %d designs were laid out", laid)
	}
}

// chance is a design and disks.
func chance(r *rand.Rand) (site.Storage, []item.Disk) {
	s := site.Storage{Disks: map[string]site.Disk{}, Arrays: map[string]site.Array{}, Groups: map[string]site.VolumeGroup{}}
	var seen []item.Disk
	some := func() site.Extent {
		switch r.IntN(4) {
		case 0:
			return site.Extent{Share: 1 + r.IntN(40)}
		case 1:
			return site.Extent{Size: site.Size(1+r.IntN(64)) * mib, Rest: true}
		case 2:
			return site.Extent{Size: site.Size(1 + r.Int64N(8*gib))}
		}
		return site.Extent{Size: site.Size(1+r.IntN(9000)) * 1e6}
	}
	mounts := 0
	use := func() site.Use {
		switch r.IntN(4) {
		case 0:
			return site.Use{Array: "md" + string(rune('a'+r.IntN(2)))}
		case 1:
			return site.Use{Group: "vg"}
		}
		mounts++
		return site.Use{Filesystem: &site.Filesystem{Type: []string{"", "ext4", "vfat", "swap"}[r.IntN(4)], Mount: []string{"", fmt.Sprintf("/m%d/x%d", r.IntN(3), mounts), fmt.Sprintf("/m%d", mounts)}[r.IntN(3)]}}
	}
	for i := range 1 + r.IntN(4) {
		name := string(rune('a' + i))
		d := disk("sd"+name, "S"+name, "ssd", 0)
		d.Sector = []int{512, 512, 4096}[r.IntN(3)]
		d.Bytes = (64*mib + r.Int64N(40*gib)) / int64(d.Sector) * int64(d.Sector)
		seen = append(seen, d)
		design := site.Disk{Match: &site.DiskMatch{Model: "*S" + name}, Table: []string{"", "gpt", "mbr"}[r.IntN(3)]}
		if r.IntN(3) == 0 {
			design.Table, design.Use = "", use()
		} else {
			design.Partitions = map[string]site.Partition{}
			for k := range 1 + r.IntN(4) {
				design.Partitions[fmt.Sprintf("p%d", k)] = site.Partition{Size: some(), Number: []int{0, k + 1}[r.IntN(2)], Use: use()}
			}
		}
		s.Disks[name] = design
	}
	levels := []string{"raid0", "raid1", "raid5", "raid6", "raid10"}
	in := map[string]bool{}
	for _, d := range s.Disks {
		in[d.Array], in[d.Group] = true, true
		for _, p := range d.Partitions {
			in[p.Array], in[p.Group] = true, true
		}
	}
	for _, name := range []string{"mda", "mdb"} {
		if in[name] {
			s.Arrays[name] = site.Array{Level: levels[r.IntN(5)], Spares: max(0, r.IntN(4)-2), Use: []site.Use{{Group: "vg"}, mounted("", "/"+name)}[r.IntN(2)]}
			in["vg"] = in["vg"] || s.Arrays[name].Group == "vg"
		}
	}
	if in["vg"] {
		v := map[string]site.LogicalVolume{}
		for k := range 1 + r.IntN(4) {
			v[fmt.Sprintf("v%d", k)] = site.LogicalVolume{Size: some(), Filesystem: use().Filesystem}
		}
		s.Groups["vg"] = site.VolumeGroup{Volumes: v}
	}
	return s, seen
}

func holds(t *testing.T, seed uint64, s site.Storage, seen []item.Disk, l item.Layout) {
	t.Helper()
	size := map[item.Place]int64{}
	for _, d := range l.Disks {
		size[item.Place{Disk: d.Name}] = d.Bytes
		end := int64(0)
		room := d.Bytes / mib
		for _, p := range d.Partitions {
			first, last := p.First*int64(d.Sector), (p.Last+1)*int64(d.Sector)
			if first < mib || first%mib != 0 || last%mib != 0 || first < end || last <= first {
				t.Errorf("%d: partition %+v is not aligned, or overlaps", seed, p)
			}
			if last > d.Bytes || d.Table == "gpt" && last > d.Bytes-int64(d.Sector)-16384 {
				t.Errorf("%d: partition %+v is not on the disk, or in its table", seed, p)
			}
			asked := s.Disks[d.Name].Partitions[p.Name].Size
			if asked.Share == 0 && last-first < int64(asked.Size) {
				t.Errorf("%d: partition %+v is smaller than %s", seed, p, asked)
			}
			if want := float64(room) * float64(asked.Share) / 100; asked.Share != 0 && (float64((last-first)/mib) > want || float64((last-first)/mib) < want-3) {
				t.Errorf("%d: partition %+v is not %s of %d MiB", seed, p, asked, room)
			}
			size[item.Place{Disk: d.Name, Partition: p.Number}], end = last-first, last
		}
		for _, p := range s.Disks[d.Name].Partitions {
			if left := d.Bytes - end; p.Size.Rest && left >= 2*mib+32768 {
				t.Errorf("%d: %d bytes of %s are left", seed, left, d.Name)
			}
		}
	}
	used := map[item.Place]string{}
	uses := func(p item.Place, what string) {
		if before, twice := used[p]; twice || size[p] == 0 {
			t.Errorf("%d: %s is %q and %q, with %d bytes", seed, p, before, what, size[p])
		}
		used[p] = what
	}
	for _, a := range l.Arrays {
		for _, m := range a.Members {
			uses(m, a.Name)
			if size[m] < a.DataOffset+max(a.MemberBytes, 1) {
				t.Errorf("%d: %s is too small for %+v", seed, m, a)
			}
		}
		if a.DataOffset < mib || a.Level != "raid0" && a.MemberBytes < mib {
			t.Errorf("%d: %+v", seed, a)
		}
		size[item.Place{Array: a.Name}] = a.Bytes
	}
	for _, g := range l.Groups {
		var there, taken int64
		for _, m := range g.Members {
			uses(m.On, g.Name)
			if there += m.Extents; m.Extents*item.ExtentBytes+mib > size[m.On] {
				t.Errorf("%d: %s has no room for %d extents", seed, m.On, m.Extents)
			}
		}
		for _, v := range g.Volumes {
			taken += v.Extents
			size[item.Place{Group: g.Name, Volume: v.Name}] = v.Extents * item.ExtentBytes
			if asked := s.Groups[g.Name].Volumes[v.Name].Size; asked.Share == 0 && v.Extents*item.ExtentBytes < int64(asked.Size) {
				t.Errorf("%d: volume %+v is smaller than %s", seed, v, asked)
			}
		}
		if taken > there {
			t.Errorf("%d: %d of %d extents", seed, taken, there)
		}
	}
	mounted := map[string]bool{}
	for _, f := range l.Filesystems {
		uses(f.On, f.Type)
		for above := range mounted {
			if strings.HasPrefix(above, f.Mount+"/") && f.Mount != "" {
				t.Errorf("%d: %s is mounted after %s", seed, f.Mount, above)
			}
		}
		mounted[f.Mount] = true
	}
	got := ids(l)
	if slices.Sort(got); len(slices.Compact(slices.DeleteFunc(got, func(id string) bool { return id == "" }))) == 0 && len(l.Filesystems) > 0 {
		t.Errorf("%d: no identities", seed)
	}
	for _, d := range l.Disks {
		if !slices.ContainsFunc(seen, func(s item.Disk) bool { return d.Is(s) }) {
			t.Errorf("%d: the disk %+v was not seen", seed, d)
		}
	}
}

// Two namespaces of an NVMe drive have one serial number and are two disks, whose partitions and
// file systems are known apart. A second path to a disk that tells less is refused.
func TestDisksOfOneSerialNumber(t *testing.T) {
	one, two := disk("nvme0n1", "S", "nvme", 100*gib), disk("nvme0n2", "S", "nvme", 100*gib)
	one.WWN, two.WWN = "a", "b"
	s := site.Storage{Disks: map[string]site.Disk{"osd": {Match: &site.DiskMatch{Kind: "nvme"}, Count: "all",
		Partitions: map[string]site.Partition{"p": {Size: extent(t, "1GiB"), Use: mounted("xfs", "")}}}}}
	l, findings := layout.Of(node(s, nil), []item.Disk{two, one})
	if len(findings) > 0 || len(l.Disks) != 2 || l.Disks[0].WWN != "a" || l.Disks[1].WWN != "b" {
		t.Fatalf("got %+v, %v", l.Disks, findings)
	}
	if l.Disks[0].GUID == l.Disks[1].GUID || l.Disks[0].Partitions[0].GUID == l.Disks[1].Partitions[0].GUID || l.Filesystems[0].UUID == l.Filesystems[1].UUID {
		t.Errorf("they have one identity: %+v, %+v", l.Disks, l.Filesystems)
	}
	path := one
	path.Name, path.Serial = "sda", ""
	l, findings = layout.Of(node(s, nil), []item.Disk{one, path})
	wants(t, l, findings, "is there 2 times: S (nvme0n1, MODEL S, 107 GB), a (sda")
}
