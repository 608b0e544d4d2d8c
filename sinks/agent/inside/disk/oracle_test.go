package disk

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// tools is a tree of Debian with the programs for disks, made once for all tests.
var tools struct {
	sync.Mutex
	root string
}

// in runs a program of Debian's on a file; what it prints is given.
func in(t *testing.T, file *os.File, program string, args ...string) string {
	t.Helper()
	nspawn.Require(t, "chroot")
	tools.Lock()
	defer tools.Unlock()
	if tools.root == "" {
		root, err := os.MkdirTemp("", "disk-tools-")
		if err != nil {
			t.Fatal(err)
		}
		tools.root = root
		nspawn.UnpackTo(t, root, nspawn.Suite{}, packages...)
	}
	at := filepath.Join(tools.root, "disk")
	_ = os.Remove(at) // of the call before
	if err := os.Link(file.Name(), at); err != nil {
		t.Fatal(err)
	}
	out, err := enter(t, append([]string{program}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// enter runs a program in the tree, with the kernel's folders, in mounts of its own.
func enter(t *testing.T, command ...string) *exec.Cmd {
	const script = `for folder in proc sys dev; do mount --bind "/$folder" "$0/$folder"; done; exec chroot "$0" "$@"`
	return exec.CommandContext(t.Context(), "unshare", append([]string{"--mount", "sh", "-ec", script, tools.root}, command...)...)
}

// packages are those of Debian's with the programs.
var packages = []string{"kmod", "mdadm", "lvm2", "xfsprogs", "btrfs-progs", "dosfstools", "cryptsetup-bin", "fdisk", "gdisk", "e2fsprogs", "util-linux"}

func TestMain(m *testing.M) {
	code := m.Run()
	if tools.root != "" {
		if err := os.RemoveAll(tools.root); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// sfdisk and sgdisk, which know nothing of us, read the tables that we write, and find no
// fault with them.
func TestOthersReadOurTables(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for try := range 6 {
		kind := []string{"gpt", "gpt", "mbr"}[try%3]
		size := (64*mib + r.Int64N(20*gib)) / 512 * 512
		sizes := []string{}
		for range 1 + r.IntN(3) {
			sizes = append(sizes, strconv.Itoa(1+r.IntN(30))+"%")
		}
		d := laidOut(t, kind, size, 512, append(sizes, ">1MiB")...)
		f := sparse(t, size)
		if err := lay(f, d, nil); err != nil {
			t.Fatal(err)
		}
		var read struct {
			Table struct {
				Label, ID string
				Parts     []struct {
					Node             string
					Start, Size      int64
					Type, UUID, Name string
				} `json:"partitions"`
			} `json:"partitiontable"`
		}
		text := in(t, f, "sfdisk", "--json", "/disk")
		if err := json.Unmarshal([]byte(text), &read); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		id := d.GUID
		if kind == "mbr" {
			id = "0x" + id
		}
		if got := read.Table; got.Label != map[string]string{"gpt": "gpt", "mbr": "dos"}[kind] || !strings.EqualFold(got.ID, id) || len(got.Parts) != len(d.Partitions) {
			t.Fatalf("sfdisk reads %+v of %+v", got, d)
		}
		for i, p := range read.Table.Parts {
			want := d.Partitions[i]
			if p.Start != want.First || p.Start+p.Size-1 != want.Last || !strings.EqualFold(p.Type, want.Type) || !strings.EqualFold(p.UUID, want.GUID) || kind == "gpt" && p.Name != want.Name {
				t.Errorf("sfdisk reads %+v of %+v", p, want)
			}
		}
		if kind == "gpt" {
			if out := in(t, f, "sgdisk", "-v", "/disk"); !strings.Contains(out, "No problems found") {
				t.Errorf("sgdisk finds:\n%s", out)
			}
		}
		if out := in(t, f, "sfdisk", "--verify", "/disk"); !strings.Contains(out, "No errors detected") {
			t.Errorf("sfdisk finds:\n%s", out)
		}
	}
}

// What other programs make is read as blkid(8) reads it, on the whole of a disk and on a
// partition; and it is not found any more after a wipe, by either.
func TestWhatOthersMakeIsRead(t *testing.T) {
	id := "0b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d"
	for name, c := range map[string]struct {
		kind    string
		program []string
		tells   string // TYPE of blkid
	}{
		"ext4":                {"ext4", []string{"mkfs.ext4", "-q", "-F", "-U", id, "-L", "some label", "/disk"}, "ext4"},
		"ext2":                {"ext4", []string{"mkfs.ext2", "-q", "-F", "-U", id, "/disk"}, "ext2"},
		"xfs":                 {"xfs", []string{"mkfs.xfs", "-q", "-f", "-m", "uuid=" + id, "-L", "label", "/disk"}, "xfs"},
		"btrfs":               {"btrfs", []string{"mkfs.btrfs", "-q", "-f", "-U", id, "-L", "label", "/disk"}, "btrfs"},
		"FAT32":               {"vfat", []string{"mkfs.vfat", "-F", "32", "-I", "-n", "LABEL", "/disk"}, "vfat"},
		"FAT16":               {"vfat", []string{"mkfs.vfat", "-F", "16", "-s", "64", "-I", "/disk"}, "vfat"},
		"swap":                {"swap", []string{"mkswap", "-q", "-U", id, "-L", "label", "/disk"}, "swap"},
		"swap of large pages": {"swap", []string{"mkswap", "-q", "-p", "65536", "-U", id, "/disk"}, "swap"},
		"LUKS2":               {"luks", []string{"sh", "-c", "echo x | cryptsetup luksFormat --batch-mode --type luks2 --label label --uuid " + id + " --pbkdf pbkdf2 --pbkdf-force-iterations 1000 /disk"}, "crypto_LUKS"},
		"LUKS1":               {"luks", []string{"sh", "-c", "echo x | cryptsetup luksFormat --batch-mode --type luks1 --uuid " + id + " --pbkdf-force-iterations 1000 /disk"}, "crypto_LUKS"},
	} {
		t.Run(name, func(t *testing.T) {
			const size = 400 * mib
			f := sparse(t, size)
			in(t, f, c.program[0], c.program[1:]...)
			told := blkid(t, f)
			got, err := probe(f, size, 512)
			if err != nil || len(got) != 1 || got[0].Kind != c.kind || got[0].Bytes != size {
				t.Fatalf("got %v, %v", got, err)
			}
			if told["TYPE"] != c.tells || !strings.EqualFold(told["UUID"], got[0].UUID) || told["LABEL"] != got[0].Label || got[0].UUID == "" {
				t.Errorf("got %+v, blkid has %v", got[0], told)
			}
			if err := wipe(f, 0, size); err != nil {
				t.Fatal(err)
			}
			if left, err := probe(f, size, 512); len(left) > 0 || err != nil || len(blkid(t, f)) > 0 {
				t.Errorf("after the wipe: %v, %v, %v", left, err, blkid(t, f))
			}
		})
	}
}

// blkid is what it tells of a file.
func blkid(t *testing.T, f *os.File) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(in(t, f, "sh", "-c", "blkid -p -o export /disk || [ $? = 2 ]")) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && key != "DEVNAME" {
			all[key] = strings.ReplaceAll(value, `\ `, " ")
		}
	}
	return all
}

// The partitions of a table that sfdisk makes, logical ones too, are read with what is on them.
func TestWhatIsOnPartitionsIsRead(t *testing.T) {
	const size = 100 * mib
	for label, parts := range map[string]string{
		"gpt": "size=10MiB, name=first\nsize=20MiB\nsize=5MiB\n",
		"dos": "size=10MiB, type=83\nsize=20MiB, type=83\nsize=40MiB, type=5\nsize=5MiB, type=83\nsize=6MiB, type=83\nsize=7MiB, type=83\n",
	} {
		f := sparse(t, size)
		in(t, f, "sh", "-c", "printf 'label: "+label+"\n"+strings.ReplaceAll(parts, "\n", `\n`)+"' | sfdisk -q /disk")
		swapOn(t, f, 11*mib) // the second partition
		got, err := probe(f, size, 512)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, s := range got {
			text += fmt.Sprintf("%s:%d:%d+%d:%s ", s.Kind, s.Partition, s.Start/mib, s.Bytes/mib, s.Name)
		}
		want := map[string]string{
			"gpt": "gpt:0:0+100: partition:1:1+10:first swap:2:11+20: partition:3:31+5: ",
			"dos": "mbr:0:0+100: partition:1:1+10: swap:2:11+20: partition:5:32+6: partition:6:39+7: partition:4:71+5: ",
		}[label]
		if text != want {
			t.Errorf("%s:\ngot  %s\nwant %s", label, text, want)
		}
	}
}

// A member of a volume group tells the name and the id of its group.
func TestMembersOfGroupsAreRead(t *testing.T) {
	const size = 64 * mib
	f := sparse(t, size)
	device := loop(t, f)
	lvm := func(args ...string) string {
		t.Helper()
		out, err := enter(t, append([]string{"lvm"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("lvm %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	config := "devices{dir=\"/dev\" scan=\"/dev\" use_devicesfile=0 obtain_device_list_from_udev=0} activation{udev_sync=0 udev_rules=0} global{locking_dir=\"/run\"}"
	lvm("pvcreate", "--config", config, "--devices", device, "-y", device)
	if got, err := probe(f, size, 512); err != nil || len(got) != 1 || got[0].Kind != "lvm" || got[0].Name != "" {
		t.Errorf("without a group: %v, %v", got, err)
	}
	lvm("vgcreate", "--config", config, "--devices", device, "-y", "some-group", device)
	id := strings.TrimSpace(lvm("vgs", "--config", config, "--devices", device, "--noheadings", "-o", "vg_uuid"))
	want := item.Signature{Kind: "lvm", Name: "some-group", UUID: id[max(0, len(id)-38):], Bytes: size}
	if got, err := probe(f, size, 512); err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// loop makes a block device of a file.
func loop(t *testing.T, f *os.File) (device string) {
	t.Helper()
	in(t, f, "true") // the tree is there
	out, err := exec.Command("losetup", "--find", "--show", f.Name()).CombinedOutput()
	if err != nil {
		t.Fatalf("losetup: %v\n%s", err, out)
	}
	device = strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("losetup: %v\n%s", err, out)
		}
	})
	return device
}
