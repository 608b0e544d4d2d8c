package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// tree is a file system with some files.
func tree(t *testing.T, files map[string]string) *inside.Host {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return inside.Real(root, true)
}

// Each kind of block device is told as lsblk prints it, with what udev knows of it.
func TestDisks(t *testing.T) {
	h := tree(t, map[string]string{
		"sys/block/ram0/dev": "1:0\n", "sys/block/ram0/size": "8\n", "sys/block/loop0/dev": "7:0\n", "sys/block/loop0/size": "8\n",
		"sys/block/sda/dev": "8:0\n", "sys/block/sda/size": "4\n", "sys/block/sda/device/type": "0\n", "sys/block/sda/device/model": "of the kernel\n",
		"sys/block/sda/sda1/partition": "1\n", "sys/block/sda/sda1/size": "2\n", "sys/block/sda/sda1/dev": "8:1\n",
		"run/udev/data/b8:0": "S:disk/by-id/x\nE:ID_MODEL_ENC=A\\x20\"B\\x20\\x20\nE:ID_SERIAL=long\nE:ID_SERIAL_SHORT=S1\n",
		"sys/block/sdb/dev":  "8:16\n", "sys/block/sdb/size": "0\n", "sys/block/sr0/dev": "11:0\n", "sys/block/sr0/size": "9\n", "sys/block/sr0/device/type": "5\n",
		"sys/block/dm-0/dev": "253:0\n", "sys/block/dm-0/size": "2\n", "sys/block/dm-0/dm/name": "vg-root\n", "sys/block/dm-0/dm/uuid": "LVM-abc\n",
		"sys/block/dm-1/dev": "253:1\n", "sys/block/dm-1/size": "2\n", "sys/block/dm-1/dm/name": "safe\n", "sys/block/dm-1/dm/uuid": "CRYPT-LUKS2-abc-safe\n",
		"sys/block/md0/dev": "9:0\n", "sys/block/md0/size": "2\n", "sys/block/md0/md/level": "raid1\n",
		"sys/block/vda/dev": "254:0\n", "sys/block/vda/size": "2\n", "sys/block/vda/serial": "virtual\n", "sys/block/cciss!c0d0/dev": "104:0\n", "sys/block/cciss!c0d0/size": "2\n",
	})
	const want = `NAME="cciss/c0d0" TYPE="disk" SIZE="1024" MODEL="" SERIAL=""
NAME="vg-root" TYPE="lvm" SIZE="1024" MODEL="" SERIAL=""
NAME="safe" TYPE="crypt" SIZE="1024" MODEL="" SERIAL=""
NAME="md0" TYPE="raid1" SIZE="1024" MODEL="" SERIAL=""
NAME="sda" TYPE="disk" SIZE="2048" MODEL="A \x22B" SERIAL="S1"
NAME="sda1" TYPE="part" SIZE="1024" MODEL="" SERIAL=""
NAME="sr0" TYPE="rom" SIZE="4608" MODEL="" SERIAL=""
NAME="vda" TYPE="disk" SIZE="1024" MODEL="" SERIAL="virtual"
`
	if got := string(disks(h)); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// Of the mounts those are told that are on a disk of this machine, each disk once.
func TestLocalMounts(t *testing.T) {
	table := "overlay / overlay rw 0 0\ntmpfs /run tmpfs rw 0 0\n/dev/sda2 /srv/deep ext4 rw 0 0\n/dev/sda2 /srv ext4 rw 0 0\n/dev/sda3 /with\\040space xfs rw 0 0\n" +
		"//server/share /smb cifs rw 0 0\nserver:/x /nfs nfs4 rw 0 0\npool/data /pool zfs rw 0 0\n/dev/sdb /a\\134040 ext4 rw 0 0\nbroken\n"
	var got []string
	for _, m := range local(table) {
		got = append(got, m.source+" "+m.path+" "+m.kind)
	}
	const want = "overlay / overlay|/dev/sda2 /srv ext4|pool/data /pool zfs|/dev/sdb /a\\040 ext4|/dev/sda3 /with space xfs"
	if strings.Join(got, "|") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "|"), want)
	}
}

// A marker that is there and cannot be read is said so; a FIFO in its place holds nobody up.
func TestMarker(t *testing.T) {
	h := tree(t, map[string]string{"etc/slipway/marker.json": "{}\n", "etc/folder/x": ""})
	fifo := h.Path("/etc/fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/etc/slipway/marker.json": "{}\n", "/etc/none": "", "/etc/folder": "unread\n", "/etc/fifo": ""} {
		if got := string(marker(h.Path(path))); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// A system that shows nothing has a report all the same, with each part in its place.
func TestEmptySystem(t *testing.T) {
	h := inside.Real(t.TempDir(), true)
	var b bytes.Buffer
	if err := Print(t.Context(), &b, h); err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, part := range []string{"marker", "boot", "os", "kernel", "booted", "memory", "links", "addresses", "disks", "mounts", "failed"} {
		i := strings.Index(b.String()[at:], "--"+part+"\n")
		if i < 0 {
			t.Fatalf("no part %s behind byte %d of\n%s", part, at, b.String())
		}
		at += i
	}
}
