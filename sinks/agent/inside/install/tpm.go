package install

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// These are the kernel's device of a TPM 2.0, and the link to the driver of the TPM.
const (
	tpmDevice = "/dev/tpmrm0"
	tpmDriver = "/sys/class/tpm/tpm0/device/driver"
)

// tpmDrivers are the drivers that the hook of clevis brings into an initramfs.
var tpmDrivers = []string{"tpm_crb", "tpm_tis"}

// canSeal checks that clevis can seal keys to the TPM, and that the initramfs will find it. Otherwise that would only
// show after the disks were erased.
func (w *work) canSeal() error {
	if _, err := os.Stat(w.h.Path(tpmDevice)); err != nil {
		return refused("the design has the TPM open encrypted volumes, and the kernel finds no TPM 2.0 on this machine: switch it on in the setup of the firmware, or write encrypt: \"console\"; nothing was written")
	}
	switch to, err := os.Readlink(w.h.Path(tpmDriver)); {
	case err != nil:
		return refused("the kernel does not say which driver the TPM of this machine has, and clevis brings only tpm_crb and tpm_tis into the initramfs (%v): write encrypt: \"console\"; nothing was written", err)
	case !slices.Contains(tpmDrivers, filepath.Base(to)):
		return refused("the TPM of this machine has the driver %s, and clevis brings only tpm_crb and tpm_tis into the initramfs, so that the machine would wait at its console at each start: write encrypt: \"console\"; nothing was written", filepath.Base(to))
	}
	open := w.TPM
	if open == nil {
		open = openTPM
	}
	tpm, err := open(w.h)
	if err != nil {
		return refused("the TPM cannot be opened: %v; nothing was written", err)
	}
	defer tpm.Close()
	is, err := permanent(tpm)
	switch {
	case err != nil:
		return refused("the TPM does not say whether it can seal keys: %v. Clear it in the setup of the firmware, or write encrypt: \"console\"; nothing was written", err)
	case is&ownerAuthSet != 0:
		return refused("the TPM has an owner's password, without which it seals no key: clear the TPM in the setup of the firmware, or write encrypt: \"console\"; nothing was written")
	}
	if err := makesPrimary(tpm); err != nil {
		return refused("the TPM does not make the key that would seal others: %v. Switch on its storage hierarchy or clear it in the setup of the firmware, or write encrypt: \"console\"; nothing was written", err)
	}
	return nil
}

func openTPM(h *inside.Host) (io.ReadWriteCloser, error) {
	return os.OpenFile(h.Path(tpmDevice), os.O_RDWR, 0)
}

// These are numbers of TPM 2.0 (its Library specification, part 2: tables 12, 19, 23, 30 and 38).
const (
	tagNoSessions     = 0x8001
	commandCapability = 0x17a
	capProperties     = 6
	propertyPermanent = 0x200
	ownerAuthSet      = 1 // a bit of propertyPermanent
)

// permanent asks a TPM for its permanent attributes (TPMA_PERMANENT) by TPM2_GetCapability.
func permanent(tpm io.ReadWriter) (uint32, error) {
	var ask []byte
	ask = binary.BigEndian.AppendUint16(ask, tagNoSessions)
	for _, n := range []uint32{22, commandCapability, capProperties, propertyPermanent, 1} { // the first is the length
		ask = binary.BigEndian.AppendUint32(ask, n)
	}
	b, err := answer(tpm, ask)
	if err != nil {
		return 0, err
	}
	// Behind the head there are: whether there is more, the capability, how many properties there are, and the first.
	if len(b) < 27 || binary.BigEndian.Uint32(b[11:]) != capProperties || binary.BigEndian.Uint32(b[15:]) == 0 || binary.BigEndian.Uint32(b[19:]) != propertyPermanent {
		return 0, errors.New("it answers something else")
	}
	return binary.BigEndian.Uint32(b[23:]), nil
}

// createPrimary is TPM2_CreatePrimary as clevis has it: in the hierarchy of the owner without a password, ECC on P-256 with
// SHA-256, to seal others (part 3: 24.1; the parts of the template in part 2: tables 31, 205, 219 and 225).
var createPrimary = slices.Concat(
	[]byte{0x80, 2, 0, 0, 0, 67, 0, 0, 1, 0x31, 0x40, 0, 0, 1},         // the head, with the length, and the hierarchy
	[]byte{0, 0, 0, 9, 0x40, 0, 0, 9, 0, 0, 0, 0, 0},                   // an empty password
	[]byte{0, 4, 0, 0, 0, 0},                                           // no password of the key, and no data
	[]byte{0, 26, 0, 0x23, 0, 0xb, 0, 3, 0, 0x72, 0, 0},                // ECC, SHA-256, the attributes, no policy
	[]byte{0, 6, 0, 0x80, 0, 0x43, 0, 0x10, 0, 3, 0, 0x10, 0, 0, 0, 0}, // AES-128-CFB, P-256, no point
	[]byte{0, 0, 0, 0, 0, 0},                                           // nothing of outside, no PCR
)

// makesPrimary has a TPM make the key that seals others. The kernel removes it when the device is closed.
func makesPrimary(tpm io.ReadWriter) error {
	_, err := answer(tpm, createPrimary)
	return err
}

// answer gives a command to a TPM, and returns its answer if the TPM has done it.
func answer(tpm io.ReadWriter, ask []byte) ([]byte, error) {
	if _, err := tpm.Write(ask); err != nil {
		return nil, err
	}
	b := make([]byte, 4096)
	n, err := tpm.Read(b) // the kernel gives a whole answer
	if err != nil {
		return nil, err
	}
	if n < 10 {
		return nil, fmt.Errorf("it answers %d bytes", n)
	}
	if code := binary.BigEndian.Uint32(b[6:]); code != 0 {
		return nil, fmt.Errorf("it answers with the code %#x", code)
	}
	return b[:n], nil
}
