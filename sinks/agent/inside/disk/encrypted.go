package disk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// cryptsetupEnv keeps cryptsetup(8) from waiting for udev, which does not run in the ramdisk.
var cryptsetupEnv = []string{"DM_DISABLE_UDEV=1"}

// keyRounds are the rounds of PBKDF2 for the passphrase. It has 128 bits, which nobody can guess, so that more would
// only cost time at each start.
const keyRounds = "100000"

// Passphrase opens all encrypted volumes of a layout.
type Passphrase struct {
	// Text is the passphrase; empty for a layout without encrypted volumes.
	Text string
	// From is what it was derived from.
	From item.DerivedFrom
}

// encryptDevices makes and opens the encrypted volumes on disks, partitions and arrays.
func (m *maker) encryptDevices(ctx context.Context) error { return m.encrypt(ctx, false) }

// encryptVolumes makes and opens those on logical volumes.
func (m *maker) encryptVolumes(ctx context.Context) error { return m.encrypt(ctx, true) }

func (m *maker) encrypt(ctx context.Context, onVolumes bool) error {
	for _, e := range m.layout.Encrypted {
		if (e.On.Volume != "") != onVolumes {
			continue
		}
		if m.passphrase == "" {
			return errors.New("there is no passphrase for the encrypted volumes of the layout")
		}
		m.h.Tell("encrypting " + e.On.String())
		name, err := m.device(e.On)
		if err != nil {
			return err
		}
		args := []string{
			"luksFormat", "--batch-mode", "--type", "luks2", "--uuid", e.UUID, "--offset", fmt.Sprint(item.LUKSBytes / 512), "--sector-size", fmt.Sprint(item.LUKSSector),
			"--cipher", "aes-xts-plain64", "--key-size", "512", "--hash", "sha256", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", keyRounds,
			"--key-slot", "0", "--key-file", "-", "--disable-locks", "/dev/" + name,
		}
		if err := run(ctx, m.h, inside.Command{Path: "cryptsetup", Args: args, Env: cryptsetupEnv, Stdin: []byte(m.passphrase), Timeout: programWithin}); err != nil {
			return err
		}
		if err := m.note(ctx, name); err != nil {
			return err
		}
		if err := m.open(ctx, e, name); err != nil {
			return err
		}
	}
	return nil
}

// originToken is the number of the LUKS2 token that says what the passphrase was derived from, the last one that LUKS2 has.
// clevis takes the lowest free one.
const originToken = "31"

// note writes onto an encrypted volume what its passphrase was derived from, so that the passphrase can be derived again
// whatever the design says by then.
func (m *maker) note(ctx context.Context, device string) error {
	if m.origin == (item.DerivedFrom{}) {
		return nil
	}
	token, err := json.Marshal(item.Token(m.origin))
	if err != nil {
		return err
	}
	return run(ctx, m.h, inside.Command{Path: "cryptsetup", Args: []string{"token", "import", "--token-id", originToken, "--json-file", "-", "--disable-locks", "/dev/" + device},
		Env: cryptsetupEnv, Stdin: token, Timeout: programWithin})
}

// ErrOtherPassphrase means that an encrypted volume of the layout is there, and has another passphrase.
var ErrOtherPassphrase = errors.New("the volume is of this very installation, and was made with another passphrase")

// otherPassphrase is the exit code of cryptsetup(8) for a volume with key slots that the passphrase does not open. A volume
// whose making was cut has none yet, which is another code.
const otherPassphrase = 2

// open opens an encrypted volume on a device.
func (m *maker) open(ctx context.Context, e item.LayoutEncrypted, device string, more ...string) error {
	if err := m.tries(ctx, device, append([]string{"--disable-keyring"}, more...), e.Name); err != nil {
		return err
	}
	_, err := m.device(item.Place{Opened: e.Name})
	return err
}

// tries has cryptsetup(8) open a device by the passphrase.
func (m *maker) tries(ctx context.Context, device string, options []string, name ...string) error {
	args := append([]string{"open", "--type", "luks2", "--key-file", "-", "--disable-locks"}, options...)
	c := inside.Command{Path: "cryptsetup", Args: append(append(args, "/dev/"+device), name...), Env: cryptsetupEnv, Stdin: []byte(m.passphrase), Timeout: programWithin}
	o, err := m.h.Exec(ctx, c)
	switch {
	case err != nil:
		return err
	case o.Code == otherPassphrase:
		return fmt.Errorf("%w (%w)", ErrOtherPassphrase, ended(c, o))
	case o.Code != 0:
		return ended(c, o)
	}
	return nil
}

// openAgain opens an encrypted volume that an earlier run has made, so that it can be read but not written. One that is
// not there is no error.
func (m *maker) openAgain(ctx context.Context, e item.LayoutEncrypted) error {
	if m.passphrase == "" || e.On.Disk != "" && !m.holds(e.On, func(s item.Signature) bool { return s.Kind == "luks" && s.UUID == e.UUID }) {
		return nil
	}
	if _, err := m.device(item.Place{Opened: e.Name}); err == nil {
		return nil // it is open
	}
	name, err := m.device(e.On)
	if err != nil {
		return nil // the reason was already reported for the array or the group
	}
	m.h.Tell("opening " + e.On.String() + " read-only, to look for a system on it")
	err = m.open(ctx, e, name, "--readonly")
	if errors.Is(err, ErrOtherPassphrase) && e.On.Disk == "" {
		if o, failed := m.h.Exec(ctx, inside.Command{Path: "cryptsetup", Args: []string{"luksUUID", "/dev/" + name}}); failed != nil || !strings.EqualFold(strings.TrimSpace(string(o.Out)), e.UUID) {
			return errors.Join(failed, errors.New("another encrypted volume is in its place"))
		}
	}
	return err
}

// Reopen closes the encrypted volumes of a finished layout with all that is on them, and opens them again from the disks
// by the key slot of the passphrase, so that they can be read but not written. It proves that the passphrase opens
// them, also where the TPM does.
func Reopen(ctx context.Context, h *inside.Host, l item.Layout, passphrase string) error {
	m, err := places(ctx, h, l)
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(l.Encrypted) { // those on volumes first
		name, err := m.mappedAs(e.Name)
		if err == nil && name != "" {
			err = stack{h}.shut(ctx, name, 0)
		}
		if err != nil {
			return fmt.Errorf("%s cannot be closed to read it again from the disks: %w", e.On, err)
		}
	}
	if err := Assemble(ctx, h, l, passphrase); err != nil {
		return err
	}
	return Opens(ctx, h, l, passphrase)
}

// Opens proves that all encrypted volumes of a layout are open, and that the key slot of the passphrase opens them.
func Opens(ctx context.Context, h *inside.Host, l item.Layout, passphrase string) error {
	if len(l.Encrypted) == 0 {
		return nil
	}
	m, err := places(ctx, h, l)
	if err != nil {
		return err
	}
	m.passphrase = passphrase
	for _, e := range l.Encrypted {
		name, err := m.device(e.On)
		if err == nil {
			err = m.tries(ctx, name, []string{"--test-passphrase", "--key-slot", "0"})
		}
		if err == nil {
			_, err = m.device(item.Place{Opened: e.Name})
		}
		if err != nil {
			return fmt.Errorf("%s does not open: %w", e.On, err)
		}
	}
	return nil
}

// shut takes down a device with all that is built on it.
func (s stack) shut(ctx context.Context, name string, depth int) error {
	holders, err := s.below(name, "holders")
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return fmt.Errorf("more is built on %s than Slipway can stop", s.describe(name))
	}
	for _, on := range holders {
		if err := s.shut(ctx, on, depth+1); err != nil {
			return err
		}
	}
	return s.stop(ctx, name)
}
