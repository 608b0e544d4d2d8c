package disk

import (
	"context"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

const (
	luksUUID   = "0b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d"
	passphrase = "bcdefghijklnrtuvbcdefghijklnrtuv"
)

// encryptedVolume is a machine with an encrypted volume on its array, below the group. What its
// programs are given is noted, and what they read is checked: nothing but the passphrase, by
// standard input.
func encryptedVolume(t *testing.T) (k kernel, l item.Layout, h *inside.Host, ran *[]string) {
	k, l, h, ran = mirrored(t)
	l.Encrypted = []item.LayoutEncrypted{{Name: "luks-" + luksUUID, On: item.Place{Array: "system"}, UUID: luksUUID, Opens: item.OpenedByTPM}}
	l.Groups[0].Members[0].On = item.Place{Opened: "luks-" + luksUUID}
	does := h.Exec
	h.Exec = func(ctx context.Context, c inside.Command) (inside.Output, error) {
		if all := strings.Join(append(c.Args, c.Env...), " "); strings.Contains(all, passphrase) {
			t.Errorf("others can read the passphrase of %s: %s", c.Path, all)
		}
		if (string(c.Stdin) == passphrase) != (c.Path == "cryptsetup") {
			t.Errorf("%s reads %q", c.Path, c.Stdin)
		}
		if c.Path == "cryptsetup" && c.Args[0] == "open" {
			k.disk("dm-1", "virtual/block", 48*mib, map[string]string{"dev": "253:1\n", "dm/name": "luks-" + luksUUID + "\n"})
		}
		return does(ctx, c)
	}
	return k, l, h, ran
}

// A volume that an earlier run has encrypted is opened to be read, between its array and its group.
func TestAssembleOpens(t *testing.T) {
	_, l, h, ran := encryptedVolume(t)
	for range 2 {
		if err := Assemble(t.Context(), h, l, passphrase); err != nil {
			t.Fatal(err)
		}
	}
	if len(*ran) != 3 || !strings.HasPrefix((*ran)[1], "cryptsetup open ") || !strings.Contains((*ran)[1], " --readonly /dev/md0 luks-"+luksUUID) || !strings.Contains((*ran)[2], " --devices /dev/dm-1 ") {
		t.Errorf("it ran %q", *ran)
	}
	_, l, h, ran = encryptedVolume(t) // without a passphrase nothing on it is found
	if err := Assemble(t.Context(), h, l, ""); err != nil || len(*ran) != 1 {
		t.Errorf("without a passphrase it ran %q, %v", *ran, err)
	}
}

// A wrong passphrase, as of a disk of another installation, is told and is no error: nothing is found.
func TestAssembleTellsWhatStaysShut(t *testing.T) {
	_, l, h, _ := encryptedVolume(t)
	var told []string
	h.Tell = func(text string) { told = append(told, text) }
	does := h.Exec
	h.Exec = func(ctx context.Context, c inside.Command) (inside.Output, error) {
		if c.Path == "cryptsetup" {
			return inside.Output{Code: 2, Err: []byte("No key available with this passphrase.")}, nil
		}
		return does(ctx, c)
	}
	if err := Assemble(t.Context(), h, l, passphrase); err != nil || !strings.Contains(strings.Join(told, "\n"), "the array system cannot be opened to look for a system on it: cryptsetup open") {
		t.Errorf("it tells %q, %v", told, err)
	}
}

// What is encrypted is made with the designed UUID and opened, before what lies on it; without a
// passphrase it is not made.
func TestEncrypt(t *testing.T) {
	_, l, h, ran := encryptedVolume(t)
	m, err := places(t.Context(), h, l)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.assemble(t.Context(), l.Arrays[0]); err != nil {
		t.Fatal(err)
	}
	if err := m.encryptDevices(t.Context()); err == nil || !strings.Contains(err.Error(), "no passphrase") {
		t.Errorf("without a passphrase: %v", err)
	}
	m.passphrase = passphrase
	if err := m.encryptVolumes(t.Context()); err != nil || len(*ran) != 1 {
		t.Errorf("on no volume: %q, %v", *ran, err)
	}
	if err := m.encryptDevices(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(*ran) != 3 || !strings.HasPrefix((*ran)[1], "cryptsetup luksFormat ") || !strings.HasSuffix((*ran)[1], " /dev/md0") ||
		!strings.Contains((*ran)[1], " --uuid "+luksUUID+" --offset 32768 ") || !strings.HasSuffix((*ran)[2], " /dev/md0 luks-"+luksUUID) || strings.Contains((*ran)[2], "readonly") {
		t.Errorf("it ran %q", *ran)
	}
	if at, err := Devices(t.Context(), h, l, l.Groups[0].Members[0].On); err != nil || at[0] != "/dev/dm-1" {
		t.Errorf("it is open as %v, %v", at, err)
	}
}

// Whether a layout is on the disks is seen by the header of what is encrypted.
func TestStateOfEncrypted(t *testing.T) {
	is := item.Disk{Name: "sda", Serial: "SDA", Bytes: 64 * mib, Sector: 512}
	l := item.Layout{
		Disks:       []item.LayoutDisk{{Name: "a", Serial: "SDA", Bytes: 64 * mib, Sector: 512}},
		Encrypted:   []item.LayoutEncrypted{{Name: "luks-" + luksUUID, On: item.Place{Disk: "a"}, UUID: luksUUID, Opens: item.OpenedByTPM}},
		Filesystems: []item.LayoutFilesystem{{On: item.Place{Opened: "luks-" + luksUUID}, Type: "ext4", UUID: "u", Mount: "/"}},
		Destroys:    []item.Destroyed{{Name: "a"}},
	}
	for kind, want := range map[string]State{"": Untouched, "luks": Laid, "ext4": Begun} {
		seen := is
		if kind != "" {
			seen.Holds = []item.Signature{{Kind: kind, UUID: luksUUID}}
		}
		if got, err := StateOf(l, []item.Disk{seen}); err != nil || got != want {
			t.Errorf("with %q it is %s (%v), want %s", kind, got, err, want)
		}
	}
}
