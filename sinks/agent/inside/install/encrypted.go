package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/disk"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// crypttabFile is the path of crypttab(5).
const crypttabFile = "/etc/crypttab"

// sealed reports whether the TPM opens a volume of the layout.
func (w *work) sealed() bool {
	return slices.ContainsFunc(w.asked.Layout.Encrypted, func(e item.LayoutEncrypted) bool { return e.Opens == item.OpenedByTPM })
}

// opens checks that the encrypted volumes of the layout can be made, and opened at a start.
func (w *work) opens() error {
	if len(w.asked.Layout.Encrypted) == 0 {
		return nil
	}
	for _, e := range w.asked.Layout.Encrypted {
		if e.Opens != item.OpenedByTPM && e.Opens != item.OpenedAtConsole {
			return refused("%s is to be opened by %q at a start, which the agent does not know; install daemon and ramdisk from one release; nothing was written", e.On, e.Opens)
		}
	}
	if w.asked.Passphrase == "" {
		return refused("the design asks for encrypted volumes, and the request has no passphrase for them; nothing was written")
	}
	return nil
}

// sealWithin bounds one run of clevis(1). A TPM takes seconds for a key.
const sealWithin = 5 * time.Minute

// sealedSlot is the key slot for the key that is sealed to the TPM. The passphrase is in the slot 0.
const sealedSlot = "1"

// sealKeys gives each volume that the TPM opens a second key, which is random and sealed to the TPM of the machine. It is
// not bound to the state of the firmware (PCRs): an update of the firmware or of Secure Boot's certificates would lock
// the machine out of its disks. The initramfs of the new system opens the volume by it.
func (w *work) sealKeys() error {
	for _, e := range w.asked.Layout.Encrypted {
		if e.Opens != item.OpenedByTPM {
			continue
		}
		w.h.Tell("sealing a key of " + e.On.String() + " to the TPM")
		devices, err := disk.Devices(w.ctx, w.h, w.asked.Layout, e.On)
		if err != nil {
			return err
		}
		bind, err := w.target.Exec(w.ctx, inside.Command{Path: "clevis", Timeout: sealWithin, Stdin: []byte(w.asked.Passphrase),
			Args: []string{"luks", "bind", "-y", "-s", sealedSlot, "-k", "-", "-d", devices[0], "tpm2", "{}"}})
		if err != nil {
			return err
		}
		if bind.Code != 0 {
			return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("clevis luks bind of %s to the TPM ended with %d in the new system: %s", e.On, bind.Code, bind.LastLines(5))}
		}
		// What it prints is the key, which goes nowhere.
		pass, err := w.target.Exec(w.ctx, inside.Command{Path: "clevis", Timeout: sealWithin, Args: []string{"luks", "pass", "-d", devices[0], "-s", sealedSlot}})
		if err != nil {
			return err
		}
		if pass.Code != 0 || len(pass.Out) == 0 {
			return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("the TPM does not give back the key of %s that was just sealed to it", e.On)}
		}
	}
	return nil
}

// unpacked is where an initramfs is unpacked in the new system to look into it, which is removed again.
const unpacked = "/var/tmp/slipway-initramfs"

// opensInInitramfs checks that each initramfs of the new system has what opens the encrypted volumes. Its hooks leave
// out what they do not find, with a warning at most, and the machine would wait in its initramfs without end.
func (w *work) opensInInitramfs() (err error) {
	if len(w.asked.Layout.Encrypted) == 0 {
		return nil
	}
	root, err := os.OpenRoot(w.target.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	at := strings.TrimPrefix(unpacked, "/")
	for _, version := range w.is.Kernels {
		file := "/boot/initrd.img-" + version
		w.h.Tell("looking into the initramfs of Linux " + version)
		if err := root.RemoveAll(at); err != nil {
			return err
		}
		o, err := w.target.Exec(w.ctx, inside.Command{Path: "unmkinitramfs", Args: []string{file, unpacked}, Timeout: sealWithin})
		if err == nil && o.Code != 0 {
			err = &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("unmkinitramfs %s ended with %d in the new system: %s", file, o.Code, o.LastLines(3))}
		}
		var lacks []string
		if err == nil {
			lacks, err = w.lacksToOpen(root, at)
		}
		if err := errors.Join(err, root.RemoveAll(at)); err != nil {
			return err
		}
		if len(lacks) > 0 {
			return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("the initramfs %s cannot open the encrypted volumes at a start: it lacks %s. Look at the hooks of initramfs-tools in the image", file, strings.Join(lacks, ", "))}
		}
	}
	return nil
}

// lacksToOpen lists what an unpacked initramfs lacks. Behind the microcode of processors, the rest is in the folder main.
func (w *work) lacksToOpen(root *os.Root, at string) (lacks []string, err error) {
	if _, err := root.Stat(path.Join(at, "main")); err == nil {
		at = path.Join(at, "main")
	}
	crypttab, err := root.ReadFile(path.Join(at, "cryptroot/crypttab"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range w.asked.Layout.Encrypted {
		if !strings.Contains(string(crypttab), e.UUID) {
			lacks = append(lacks, fmt.Sprintf("the line of cryptroot/crypttab for %s (%s)", e.On, e.UUID))
		}
	}
	needs := []string{"sbin/cryptsetup"}
	if w.sealed() {
		needs = append(needs, "bin/clevis-decrypt-tpm2")
	}
	for _, name := range needs {
		if !slices.ContainsFunc([]string{"", "usr"}, func(below string) bool {
			_, err := root.Stat(path.Join(at, below, name))
			return err == nil
		}) {
			lacks = append(lacks, path.Base(name))
		}
	}
	return lacks, nil
}
