package install_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// opening are the files of an image that opens encrypted volumes at a start.
var opening = []string{"usr/share/initramfs-tools/hooks/cryptroot", "usr/share/initramfs-tools/hooks/clevis", "etc/systemd/system/cryptsetup.target.wants/clevis-luks-askpass.path", "usr/bin/clevis-encrypt-tpm2", "usr/bin/dracut"}

// encrypted makes the root of a request encrypted, on a machine that has all that this takes but
// for some files of the image.
func (m *machine) encrypted(r *wire.Request, opens string, without ...string) {
	l := &r.Install.Layout
	for i, f := range l.Filesystems {
		if f.Mount == "/" {
			l.Encrypted = []item.LayoutEncrypted{{Name: "luks-u", On: f.On, UUID: "u", Opens: opens}}
			l.Filesystems[i].On = item.Place{Opened: "luks-u"}
		}
	}
	l.Filesystems = append(l.Filesystems, item.LayoutFilesystem{On: item.Place{Disk: "os", Partition: 3}, Type: "ext4", Mount: "/boot"})
	l.Crypttab, r.Install.Passphrase = "luks-u\tUUID=u\tnone\tluks,initramfs\n", "a passphrase"
	m.put("usr/sbin/cryptsetup", "#!/bin/sh\n", 0o755)
	m.put("usr/sbin/dmsetup", "#!/bin/sh\n", 0o755)
	m.put("dev/tpmrm0", "", 0o600)
	at := filepath.Join(m.root, "sys/class/tpm/tpm0/device")
	if err := errors.Join(os.MkdirAll(at, 0o755), os.Symlink("../../bus/tpm_crb", filepath.Join(at, "driver"))); err != nil {
		m.t.Fatal(err)
	}
	var b bytes.Buffer
	m.pack(&b, tar.NewWriter(&b), slices.DeleteFunc(append(slices.Clone(whole), opening...), func(name string) bool { return slices.Contains(without, name) })...)
	sum := sha256.Sum256(m.archive)
	r.Install.Image.SHA256, r.Install.Image.Bytes = hex.EncodeToString(sum[:]), int64(len(m.archive))
}

// What an encrypted system lacks to be made, or to be opened at a start, is refused with a
// sentence, and nothing is written.
func TestEncryptedRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		opens   string
		without []string
		change  func(*machine, *wire.Request)
		says    string
	}{
		"no TPM": {"tpm", nil, func(m *machine, _ *wire.Request) { m.remove("dev/tpmrm0") }, "the kernel finds no TPM 2.0 on this machine"},
		"no TPM is needed": {"console", nil, func(m *machine, r *wire.Request) { m.remove("dev/tpmrm0"); m.remove("usr/sbin/mkfs.ext4") },
			"lacks mkfs.ext4"},
		"no passphrase":        {"tpm", nil, func(_ *machine, r *wire.Request) { r.Install.Passphrase = "" }, "has no passphrase for them; nothing was written"},
		"another way":          {"tang", nil, nil, `is to be opened by "tang" at a start, which the agent does not know`},
		"no cryptsetup":        {"console", nil, func(m *machine, _ *wire.Request) { m.remove("usr/sbin/cryptsetup") }, "lacks cryptsetup, which the design of the disks needs"},
		"nothing in initramfs": {"console", opening, nil, "add the package cryptsetup-initramfs to the image, or to system.packages of the design; nothing was written"},
		"dracut alone":         {"console", []string{"usr/sbin/update-initramfs"}, nil, "the image has no initramfs-tools, whose hooks open its encrypted volumes: add the package initramfs-tools"},
		"no clevis":            {"tpm", opening[1:], nil, "add the package clevis-initramfs to the image"},
		"no clevis later":      {"tpm", opening[2:3], nil, "add the package clevis-systemd to the image"},
		"no clevis for TPMs":   {"tpm", opening[3:], nil, "add the package clevis-tpm2 to the image"},
		"clevis is not needed": {"console", append(slices.Clone(opening[1:]), "usr/sbin/sshd"), nil,
			"the image has no SSH server"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			r := m.approved("S1")
			m.encrypted(&r, c.opens, c.without...)
			if c.change != nil {
				c.change(m, &r)
			}
			before := m.state()
			_, got := m.ask(r)
			if got.Error == nil || got.Error.Class != wire.Refused || !strings.Contains(got.Error.Text, c.says) {
				t.Errorf("got %+v, want a refusal that says %q", got.Error, c.says)
			}
			if strings.Contains(got.Error.Text, r.Install.Passphrase) && r.Install.Passphrase != "" {
				t.Error("the refusal has the passphrase")
			}
			if after := m.state(); after != before || len(m.ran) > 0 {
				t.Errorf("something was written, or ran: %q", m.ran)
			}
		})
	}
}

// A volume of this very installation that the passphrase does not open is not erased: the system may be there, made with
// another site key.
func TestAnotherPassphraseErasesNothing(t *testing.T) {
	m := newMachine(t)
	r := m.approved("S1")
	m.encrypted(&r, "console")
	r.Install.Layout.Encrypted[0].On = item.Place{Disk: "os"}
	header := make([]byte, 512) // of LUKS2, by its on-disk format
	copy(header, "LUKS\xba\xbe\x00\x02")
	copy(header[168:], r.Install.Layout.Encrypted[0].UUID)
	f, err := os.OpenFile(filepath.Join(m.root, "dev/sda"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(header, 0); err != nil {
		t.Fatal(err)
	}
	before := m.state()
	m.does = func(c inside.Command) (inside.Output, error) {
		if c.Path == "cryptsetup" {
			return inside.Output{Code: 2, Err: []byte("No key available with this passphrase.")}, nil
		}
		return inside.Output{}, nil
	}
	_, got := m.ask(r)
	if got.Error == nil || got.Error.Class != wire.Refused || !strings.Contains(got.Error.Text, "was made with another passphrase") || !strings.Contains(got.Error.Text, "start the daemon with the earlier site key, or raise generation to install again; nothing was written") {
		t.Errorf("got %+v", got.Error)
	}
	if after := m.state(); after != before {
		t.Errorf("something was written by %q", m.ran)
	}
}

func (m *machine) remove(path string) {
	m.t.Helper()
	if err := os.Remove(filepath.Join(m.root, path)); err != nil {
		m.t.Fatal(err)
	}
}

// An installation was cut between its marker and the proof that its encrypted volumes open, or the proof failed. The
// next try proves it again: where a volume does not open, the system does not count.
func TestTheMarkerDoesNotReplaceTheProof(t *testing.T) {
	m := newMachine(t)
	r := m.approved("S1")
	m.encrypted(&r, "console")
	l := &r.Install.Layout
	l.Encrypted[0].On = item.Place{Disk: "os"}
	l.Disks = append(l.Disks, item.LayoutDisk{Name: "data", Serial: "S2", Bytes: 4 * gib, Sector: 512})
	l.Encrypted = append(l.Encrypted, item.LayoutEncrypted{Name: "luks-v", On: item.Place{Disk: "data"}, UUID: "v", Opens: "console"})
	l.Filesystems = append(l.Filesystems, item.LayoutFilesystem{On: item.Place{Opened: "luks-v"}, Type: "ext4", Mount: "/srv"})
	for name, uuid := range map[string]string{"sda": "u", "sdb": "v"} {
		header := make([]byte, 512)
		copy(header, "LUKS\xba\xbe\x00\x02")
		copy(header[168:], uuid)
		f, err := os.OpenFile(filepath.Join(m.root, "dev", name), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(header, 0); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	isRead := false
	m.does = func(c inside.Command) (inside.Output, error) {
		switch {
		case c.Path == "cryptsetup" && slices.Contains(c.Args, "/dev/sdb") && !isRead:
			return inside.Output{Code: 1, Err: []byte("Cannot read device /dev/sdb.")}, nil
		case c.Path == "cryptsetup" && slices.Contains(c.Args, "luks-u"):
			m.put("sys/block/dm-0/dm/name", "luks-u\n", 0o644)
		case c.Path == "cryptsetup" && slices.Contains(c.Args, "luks-v"):
			m.put("sys/block/dm-1/dm/name", "luks-v\n", 0o644)
		case c.Path == "mount":
			m.put("target/etc/slipway/marker.json", r.Install.Marker, 0o644)
			m.put("target/etc/ssh/ssh_host_ed25519_key.pub", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMachine5 root@x\n", 0o644)
		}
		return inside.Output{}, nil
	}
	_, got := m.ask(r)
	if got.Error == nil || got.Error.Class != wire.Failed || got.Installed.Already || !strings.Contains(got.Error.Text, "is there already, with its marker, and the disk data does not open: cryptsetup open") {
		t.Errorf("got %+v, %+v", got.Error, got.Installed)
	}
	isRead = true
	if _, got := m.ask(r); got.Error != nil || !got.Installed.Already {
		t.Errorf("once it opens: %+v, %+v", got.Error, got.Installed)
	}
}

// A finished system whose answer was lost counts where the TPM was switched off since: it has its keys.
func TestASystemThatIsThereAsksNoTPM(t *testing.T) {
	m := newMachine(t)
	r := m.approved("S1")
	m.encrypted(&r, "tpm")
	r.Install.Layout.Encrypted[0].On = item.Place{Disk: "os"}
	m.remove("dev/tpmrm0")
	m.put("sys/block/dm-0/dm/name", "luks-u\n", 0o644)
	m.does = func(c inside.Command) (inside.Output, error) {
		if c.Path == "mount" {
			m.put("target/etc/slipway/marker.json", r.Install.Marker, 0o644)
			m.put("target/etc/ssh/ssh_host_ed25519_key.pub", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMachine5 root@x\n", 0o644)
		}
		return inside.Output{}, nil
	}
	if _, got := m.ask(r); got.Error != nil || !got.Installed.Already {
		t.Errorf("got %+v, %+v", got.Error, got.Installed)
	}
}
