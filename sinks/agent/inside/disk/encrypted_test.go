package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
		reads := c.Path == "cryptsetup" && c.Args[0] != "token"
		if (string(c.Stdin) == passphrase) != reads || strings.Contains(string(c.Stdin), passphrase) != reads {
			t.Errorf("%s reads %q", c.Path, c.Stdin)
		}
		if c.Path == "cryptsetup" && c.Args[0] == "token" {
			c.Args = append(c.Args, string(c.Stdin))
		}
		if reads && c.Args[0] == "open" && !slices.Contains(c.Args, "--test-passphrase") {
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

// A volume of this very installation that the passphrase does not open may hold its system: that is an error, so that
// nothing is erased. One of another installation, one whose making was cut and one that nobody can ask for its UUID are
// told only: nothing is found.
func TestAssembleOfVolumesThatStayShut(t *testing.T) {
	for name, c := range map[string]struct {
		code        int
		says        string
		uuid        string
		tells, fail string
	}{
		"another passphrase":      {2, "No key available with this passphrase.", strings.ToUpper(luksUUID) + "\n", "", "the array system cannot be opened: the volume is of this very installation, and was made with another passphrase (cryptsetup open"},
		"of another installation": {2, "No key available with this passphrase.", "7b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d\n", "another encrypted volume is in its place", ""},
		"of no known UUID":        {2, "No key available with this passphrase.", "", "another encrypted volume is in its place", ""},
		"no key slot yet":         {1, "No usable keyslot is available.", luksUUID, "the array system cannot be opened to look for a system on it: cryptsetup open", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, l, h, _ := encryptedVolume(t)
			var told []string
			h.Tell = func(text string) { told = append(told, text) }
			does := h.Exec
			h.Exec = func(ctx context.Context, in inside.Command) (inside.Output, error) {
				switch {
				case in.Path == "cryptsetup" && in.Args[0] == "luksUUID":
					return inside.Output{Out: []byte(c.uuid)}, nil
				case in.Path == "cryptsetup":
					return inside.Output{Code: c.code, Err: []byte(c.says)}, nil
				}
				return does(ctx, in)
			}
			err := Assemble(t.Context(), h, l, passphrase)
			if c.fail == "" && err != nil || c.fail != "" && (!errors.Is(err, ErrOtherPassphrase) || !strings.Contains(err.Error(), c.fail)) {
				t.Errorf("got %v, want %q", err, c.fail)
			}
			if all := strings.Join(told, "\n"); !strings.Contains(all, c.tells) || strings.Contains(all+fmt.Sprint(err), passphrase) {
				t.Errorf("it tells %q", told)
			}
		})
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
	m.passphrase, m.origin = passphrase, item.DerivedFrom{Site: "fra", Machine: "4c4c4544-0051-4810-8057-b4c04f4a4e33", Generation: 2, Key: "ed25519:k"}
	if err := m.encryptVolumes(t.Context()); err != nil || len(*ran) != 1 {
		t.Errorf("on no volume: %q, %v", *ran, err)
	}
	if err := m.encryptDevices(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(*ran) != 4 || !strings.HasPrefix((*ran)[1], "cryptsetup luksFormat ") || !strings.HasSuffix((*ran)[1], " /dev/md0") ||
		!strings.Contains((*ran)[1], " --uuid "+luksUUID+" --offset 32768 ") || !strings.HasSuffix((*ran)[3], " /dev/md0 luks-"+luksUUID) || strings.Contains((*ran)[3], "readonly") ||
		(*ran)[2] != `cryptsetup token import --token-id 31 --json-file - --disable-locks /dev/md0 {"type":"slipway","keyslots":["0"],"site":"fra","machine":"4c4c4544-0051-4810-8057-b4c04f4a4e33","generation":2,"key":"ed25519:k"}` {
		t.Errorf("it ran %q", *ran)
	}
	if at, err := Devices(t.Context(), h, l, l.Groups[0].Members[0].On); err != nil || at[0] != "/dev/dm-1" {
		t.Errorf("it is open as %v, %v", at, err)
	}
}

// What was made is closed with what is on it, and opened again from the disks by the slot of the passphrase; the array
// below goes on. What does not open again is an error.
func TestReopen(t *testing.T) {
	for name, c := range map[string]struct {
		refuses string // an argument of cryptsetup
		code    int
		says    string
	}{
		"it opens":            {"", 0, ""},
		"another passphrase":  {"--test-passphrase", 2, "the array system does not open: "},
		"it cannot be read":   {"--readonly", 1, "the array system does not open: the encrypted volume luks-" + luksUUID + " is not open"},
		"it cannot be closed": {"remove", 1, "the array system cannot be closed to read it again from the disks: dmsetup remove"},
	} {
		t.Run(name, func(t *testing.T) {
			k, l, h, ran := encryptedVolume(t)
			if err := Assemble(t.Context(), h, l, passphrase); err != nil {
				t.Fatal(err)
			}
			k.put("sys/class/block/dm-1/holders/dm-0/x", "")
			does := h.Exec
			h.Exec = func(ctx context.Context, in inside.Command) (inside.Output, error) {
				switch {
				case slices.Contains(in.Args, c.refuses):
					return inside.Output{Code: c.code}, nil
				case in.Path == "dmsetup":
					gone := map[string]string{"vg-root": "dm-0", "luks-" + luksUUID: "dm-1"}[in.Args[len(in.Args)-1]]
					for _, at := range []string{"sys/class/block/dm-1/holders/" + gone, "sys/block/" + gone, "sys/class/block/" + gone, "sys/devices/virtual/block/" + gone} {
						if err := os.RemoveAll(filepath.Join(k.root, at)); err != nil {
							t.Error(err)
						}
					}
				}
				return does(ctx, in)
			}
			*ran = nil
			err := Reopen(t.Context(), h, l, passphrase)
			if c.says != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.says) {
					t.Errorf("got %v, want %q", err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []string{"dmsetup remove --retry --noudevsync vg-root", "dmsetup remove --retry --noudevsync luks-" + luksUUID, "cryptsetup open ", "lvm vgchange ", "cryptsetup open --type luks2 --key-file - --disable-locks --test-passphrase --key-slot 0 /dev/md0"} {
				if len(*ran) != 5 || !strings.HasPrefix((*ran)[i], want) {
					t.Fatalf("it ran %q, want %q", *ran, want)
				}
			}
			if !strings.Contains((*ran)[2], " --readonly ") {
				t.Errorf("it is opened to be written: %s", (*ran)[2])
			}
		})
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
		if got, err := stateOf(l, []item.Disk{seen}); err != nil || got != want {
			t.Errorf("with %q it is %s (%v), want %s", kind, got, err, want)
		}
	}
}
