package install

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// chip is a TPM. It answers that it has made a primary key, or with a code that it has not.
type chip struct {
	asked   [][]byte
	answers []byte // what it is asked for its attributes
	err     error
	makes   uint32
}

func (c *chip) Write(b []byte) (int, error) { c.asked = append(c.asked, b); return len(b), nil }
func (c *chip) Read(b []byte) (int, error) {
	if binary.BigEndian.Uint32(c.asked[len(c.asked)-1][6:]) == 0x131 {
		return copy(b, binary.BigEndian.AppendUint32([]byte{0x80, 1, 0, 0, 0, 10}, c.makes)), nil
	}
	return copy(b, c.answers), c.err
}
func (c *chip) Close() error { return nil }

// says is the answer of a TPM with permanent attributes.
func says(permanent uint32) []byte {
	b := []byte{0x80, 1, 0, 0, 0, 27, 0, 0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0, 1, 0, 0, 2, 0}
	return binary.BigEndian.AppendUint32(b, permanent)
}

// A TPM to which no key can be sealed, or that the initramfs would not find, is refused before the disks are erased.
func TestTPMsThatSealNothing(t *testing.T) {
	for name, c := range map[string]struct {
		tpm    chip
		driver string
		says   string
	}{
		"it can":                   {chip{answers: says(0x400)}, "tpm_crb", ""},
		"without a driver's name":  {chip{answers: says(0)}, "", "the kernel does not say which driver the TPM of this machine has"},
		"its hierarchy is off":     {chip{answers: says(0x400), makes: 0x185}, "tpm_crb", "the TPM does not make the key that would seal others: it answers with the code 0x185. Switch on its storage hierarchy"},
		"another password alone":   {chip{answers: says(0x6)}, "tpm_tis", ""},
		"an owner's password":      {chip{answers: says(0x401)}, "tpm_tis", "the TPM has an owner's password, without which it seals no key: clear the TPM in the setup of the firmware"},
		"a driver without clevis":  {chip{answers: says(0)}, "tpm_tis_spi", "has the driver tpm_tis_spi, and clevis brings only tpm_crb and tpm_tis"},
		"an error":                 {chip{answers: []byte{0x80, 1, 0, 0, 0, 10, 0, 0, 1, 0}}, "tpm_crb", "it answers with the code 0x100"},
		"a short answer":           {chip{answers: []byte{0x80, 1}}, "tpm_crb", "it answers 2 bytes"},
		"a cut answer":             {chip{answers: says(0)[:24]}, "tpm_crb", "it answers something else"},
		"another property":         {chip{answers: append(append(says(0)[:19:19], 0, 0, 2, 1), 0, 0, 0, 0)}, "tpm_crb", "it answers something else"},
		"no answer":                {chip{err: errors.New("timer expired")}, "tpm_crb", "timer expired"},
		"it is not to be opened":   {chip{err: io.ErrClosedPipe}, "tpm_crb", "closed pipe"},
		"no properties in the end": {chip{answers: append(append(says(0)[:15:15], 0, 0, 0, 0), says(0)[19:]...)}, "tpm_crb", "it answers something else"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, folder := range []string{"dev", "sys/class/tpm/tpm0/device"} {
				if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(root, tpmDevice), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if c.driver != "" {
				if err := os.Symlink("../../bus/"+c.driver, filepath.Join(root, tpmDriver)); err != nil {
					t.Fatal(err)
				}
			}
			w := &work{h: inside.Real(root, true), Installer: &Installer{TPM: func(*inside.Host) (io.ReadWriteCloser, error) { return &c.tpm, nil }}}
			err := w.canSeal()
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasSuffix(err.Error(), "; nothing was written")) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			// An emulated TPM (swtpm 0.7) has made a key by this, and answered with the code 0x185 once its hierarchy was off.
			const permanent, primary = "80010000001600000" + "17a000000060000020000000001", "800200000043000001314000000100000009400000090000000000000400000000001a0023000b00030072000000060080004300100003001000000000000000000000"
			if c.says == "" && fmt.Sprintf("%x", c.tpm.asked) != "["+permanent+" "+primary+"]" {
				t.Errorf("it was asked %x", c.tpm.asked)
			}
		})
	}
}

// An initramfs that lacks what opens a volume is found before the marker is written, and nothing of the look stays.
func TestInitramfsThatOpensNothing(t *testing.T) {
	const first, second = "0b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d", "1b1c2d3e-4f50-4a6b-8c7d-9e0f1a2b3c4d"
	all := map[string]string{"cryptroot/crypttab": "luks-a UUID=" + first + " none luks\nluks-b UUID=" + second + " none luks\n", "usr/sbin/cryptsetup": "x", "usr/bin/clevis-decrypt-tpm2": "x"}
	without := func(names ...string) map[string]string {
		some := map[string]string{}
		for name, text := range all {
			some[name] = text
		}
		for _, name := range names {
			delete(some, name)
		}
		return some
	}
	half := without()
	half["cryptroot/crypttab"] = "luks-a UUID=" + first + " none luks\n"
	for name, c := range map[string]struct {
		opens string
		has   map[string]string
		below string
		code  int
		says  string
	}{
		"whole":                    {"tpm", all, "", 0, ""},
		"behind microcode":         {"tpm", all, "main/", 0, ""},
		"no crypttab":              {"tpm", without("cryptroot/crypttab"), "main/", 0, first + "), the line of cryptroot/crypttab for the disk b (" + second + ")"},
		"a volume is left out":     {"tpm", half, "", 0, "it lacks the line of cryptroot/crypttab for the disk b (" + second + ")."},
		"no clevis":                {"tpm", without("usr/bin/clevis-decrypt-tpm2"), "main/", 0, "it lacks clevis-decrypt-tpm2."},
		"no clevis is needed":      {"console", without("usr/bin/clevis-decrypt-tpm2"), "", 0, ""},
		"no cryptsetup":            {"console", without("usr/sbin/cryptsetup"), "", 0, "it lacks cryptsetup."},
		"it cannot be looked into": {"tpm", all, "", 1, "unmkinitramfs /boot/initrd.img-6.1 ended with 1"},
	} {
		t.Run(name, func(t *testing.T) {
			target := inside.Real(t.TempDir(), false)
			target.Exec = func(_ context.Context, in inside.Command) (inside.Output, error) {
				for file, text := range c.has {
					at := target.Path(filepath.Join(unpacked, c.below, file))
					if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o600)); err != nil {
						t.Error(err)
					}
				}
				return inside.Output{Code: c.code}, nil
			}
			h := inside.Real(t.TempDir(), true)
			h.Tell = func(string) {}
			w := &work{ctx: t.Context(), h: h, target: target, is: &wire.Installed{Kernels: []string{"6.1"}}, asked: &wire.Install{Layout: item.Layout{Encrypted: []item.LayoutEncrypted{
				{Name: "luks-a", On: item.Place{Disk: "a"}, UUID: first, Opens: c.opens}, {Name: "luks-b", On: item.Place{Disk: "b"}, UUID: second, Opens: "console"},
			}}}}
			err := w.opensInInitramfs()
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if _, err := os.Stat(target.Path(unpacked)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("what was unpacked stays: %v", err)
			}
		})
	}
}
