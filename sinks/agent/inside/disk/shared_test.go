package disk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/slipway-gitops/slipway/engine/item"
)

// What lies on an erased disk and on one that stays is refused right before the first write,
// whoever computed the layout: on a kept disk always, on another one unless it was approved.
func TestNothingThatStaysIsSevered(t *testing.T) {
	md := []item.Signature{{Kind: "md", UUID: "u", Name: "data"}}
	group := func(id, name string) []item.Signature {
		return []item.Signature{{Kind: "lvm", UUID: id, Name: name, Partition: 1}}
	}
	luksOf := func(id string) []item.Signature { return []item.Signature{{Kind: "luks", UUID: id, Partition: 3}} }
	approved := []item.Broken{{Shared: item.Shared{Kind: "md", UUID: "u", Name: "an older name"}, On: "K"}}
	for name, c := range map[string]struct {
		erased, other []item.Signature
		designed      bool
		unread        string
		breaks        []item.Broken
		says          string
	}{
		"an array with a kept disk":           {erased: md, other: md, designed: true, says: "the kept disk K (sdb, 1.0 GB) has a part of the array data, and so has the disk A (sda, 1.0 GB), which is to be erased: keep both, or neither; nothing was written"},
		"a kept disk, approved all the same":  {erased: md, other: md, designed: true, breaks: approved, says: "keep both, or neither"},
		"a group with a kept disk":            {erased: group("g", "vg"), other: group("g", "vg"), designed: true, says: "a part of the volume group vg"},
		"a btrfs with a kept disk":            {erased: []item.Signature{{Kind: "btrfs", UUID: "b", Label: "pool"}}, other: []item.Signature{{Kind: "btrfs", UUID: "b"}}, designed: true, says: "a part of the btrfs file system pool"},
		"a member that names no group":        {erased: group("g", "vg"), other: group("", ""), designed: true, says: "a part of the volume group vg"},
		"a member whose text was cut":         {erased: group("", "vg"), other: group("g", "vg"), designed: true, says: "a part of the volume group vg"},
		"two groups":                          {erased: group("g", "vg"), other: group("h", "vg"), designed: true},
		"two members of no group":             {erased: group("", ""), other: group("", ""), designed: true},
		"two arrays":                          {erased: md, other: []item.Signature{{Kind: "md", UUID: "w", Name: "data"}}, designed: true},
		"file systems with one UUID":          {erased: []item.Signature{{Kind: "ext4", UUID: "e"}}, other: []item.Signature{{Kind: "ext4", UUID: "e"}}, designed: true},
		"a kept disk that cannot be read":     {erased: md, designed: true, unread: "input/output error", says: "the kept disk K (sdb, 1.0 GB) cannot be read (input/output error)"},
		"an array with one that none designs": {erased: md, other: md, says: "the disk K (sdb, 1.0 GB), which stays, has a part of the array data, and so has the disk A (sda, 1.0 GB), which is to be erased: nobody has approved that; nothing was written"},
		"and that was approved":               {erased: md, other: md, breaks: approved},
		"encrypted volumes":                   {erased: luksOf("e"), other: luksOf("k"), says: "the disk K (sdb, 1.0 GB), which stays, has a part of a volume group or array that may be inside of the encrypted volume e, and so has the disk A (sda, 1.0 GB), which is to be erased: nobody has approved that; nothing was written"},
		"encrypted volumes, approved":         {erased: luksOf("e"), other: luksOf("k"), breaks: []item.Broken{{Shared: item.Shared{Kind: "luks", UUID: "e"}, On: "K"}}},
		"an encrypted volume of a kept disk":  {erased: luksOf("e"), other: luksOf("k"), designed: true, says: "keep both, or neither; nothing was written"},
		"a volume of a run that was cut":      {erased: luksOf("OWN"), other: luksOf("k"), designed: true},
		"one encrypted volume":                {erased: luksOf("e"), other: md},
		"and another one was approved":        {erased: md, other: md, breaks: []item.Broken{{Shared: item.Shared{Kind: "md", UUID: "w", Name: "data"}, On: "K"}}, says: "nobody has approved that"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := []item.Disk{
				{Name: "sda", Serial: "A", Bytes: 1e9, Sector: 512, Holds: c.erased},
				{Name: "sdb", Serial: "K", Bytes: 1e9, Sector: 512, Holds: c.other, Unread: c.unread},
			}
			l := item.Layout{Disks: []item.LayoutDisk{{Name: "os", Serial: "A", Bytes: 1e9, Sector: 512}}, Destroys: []item.Destroyed{{Name: "os", Serial: "A", Breaks: c.breaks}},
				Encrypted: []item.LayoutEncrypted{{Name: "luks-own", On: item.Place{Disk: "os", Partition: 3}, UUID: "own"}}}
			if c.designed {
				l.Disks = append(l.Disks, item.LayoutDisk{Name: "data", Serial: "K", Bytes: 1e9, Sector: 512, Keep: true})
			}
			err := severs(l, seen)
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// btrfs puts a superblock of a btrfs onto a disk, the same for all.
func (k kernel) btrfs(name string) {
	k.t.Helper()
	f, err := os.OpenFile(filepath.Join(k.root, "dev", name), os.O_RDWR, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(strings.Repeat("\x01", 16)+"\x00\x00\x01\x00\x00\x00\x00\x00"+strings.Repeat("\x00", 8)+"_BHRfS_M"), btrfsAt+32); err != nil {
		k.t.Fatal(err)
	}
}

// What is done with disks looks at them for that: before the look that asks, and before writing.
func TestSeveredDisksAreRefused(t *testing.T) {
	k := newKernel(t)
	for i, name := range []string{"sda", "sdb"} {
		k.disk(name, "pci0000:00/0000:00:1f.2/ata1/block", 64*mib, map[string]string{"dev": []string{"8:0\n", "8:16\n"}[i], "device/serial": []string{"A\n", "K\n"}[i]})
		k.btrfs(name)
	}
	k.put("proc/self/mountinfo", "")
	l := item.Layout{Disks: []item.LayoutDisk{{Name: "os", Serial: "A", Bytes: 64 * mib, Sector: 512}, {Name: "data", Serial: "K", Bytes: 64 * mib, Sector: 512, Keep: true}}}
	_, checked := Check(t.Context(), k.host(), l)
	for what, err := range map[string]error{"Check": checked, "Apply": Apply(t.Context(), k.host(), l, Passphrase{}), "Take": Take(t.Context(), k.host(), l, nil)} {
		if err == nil || !strings.Contains(err.Error(), "has a part of the btrfs file system 01010101-") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A disk that never answers costs one thread, however often the machine is looked at, and is read
// again once it has answered.
func TestSilentDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		asked := 0
		read := func() ([]item.Signature, error) {
			asked++
			<-answer
			return nil, nil
		}
		_, first := within(t.Context(), "/dev/silent", read)
		_, second := within(t.Context(), "/dev/silent", read)
		if first == nil || !strings.Contains(first.Error(), "it did not answer within 30s") || second == nil || !strings.Contains(second.Error(), "it has not answered since it was read before") || asked != 1 {
			t.Errorf("%v; %v; asked %d times", first, second, asked)
		}
		close(answer)
		synctest.Wait()
		if _, err := within(t.Context(), "/dev/silent", read); err != nil || asked != 2 {
			t.Errorf("once it has answered: %v, asked %d times", err, asked)
		}
	})
}
