package install

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/disk"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// crypttabFile is the path of crypttab(5).
const crypttabFile = "/etc/crypttab"

// tpmDevice is the kernel's device of a TPM 2.0.
const tpmDevice = "/dev/tpmrm0"

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
	if _, err := os.Stat(w.h.Path(tpmDevice)); w.sealed() && err != nil {
		return refused("the design has the TPM open encrypted volumes, and the kernel finds no TPM 2.0 on this machine: switch it on in the setup of the firmware, or write encrypt: \"console\"; nothing was written")
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
			return &wire.Error{Class: wire.Failed, Text: fmt.Sprintf("clevis luks bind of %s to the TPM ended with %d in the new system: %s. Where the TPM has an owner's password, clear it in the setup of the firmware", e.On, bind.Code, bind.LastLines(5))}
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
