package disk

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// cryptsetupEnv keeps cryptsetup(8) from waiting for udev, which does not run in the ramdisk.
var cryptsetupEnv = []string{"DM_DISABLE_UDEV=1"}

// keyRounds are the rounds of PBKDF2 for the passphrase. It has 128 bits, which nobody can guess, so that more would
// only cost time at each start.
const keyRounds = "100000"

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
		if err := m.open(ctx, e, name); err != nil {
			return err
		}
	}
	return nil
}

// open opens an encrypted volume on a device.
func (m *maker) open(ctx context.Context, e item.LayoutEncrypted, device string, more ...string) error {
	args := append([]string{"open", "--type", "luks2", "--key-file", "-", "--disable-locks", "--disable-keyring"}, more...)
	c := inside.Command{Path: "cryptsetup", Args: append(args, "/dev/"+device, e.Name), Env: cryptsetupEnv, Stdin: []byte(m.passphrase), Timeout: programWithin}
	if err := run(ctx, m.h, c); err != nil {
		return err
	}
	_, err := m.device(item.Place{Opened: e.Name})
	return err
}

// openAgain opens an encrypted volume that an earlier run has made, so that it can be read but not written.
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
	return m.open(ctx, e, name, "--readonly")
}
