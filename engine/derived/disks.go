package derived

import "github.com/slipway-gitops/slipway/engine/secret"

// Disks is the purpose of the passphrase that opens the encrypted volumes of a machine.
const Disks = "disk encryption"

// diskForm is the form of that passphrase: 32 letters with 128 bits. These letters are in the same
// place on nearly all keyboards, as nobody knows which one the console assumes (they are those of
// modhex, which recovery keys of systemd have too).
var diskForm = Form{Name: "disk", Length: 32, Classes: []string{"bcdefghijklnrtuv"}}

// DiskForm returns the form of passphrases of encrypted volumes.
func DiskForm() Form { return diskForm }

// OfDisks derives the passphrase of the encrypted volumes of a machine, by its UUID, for a
// generation. Its epoch is the generation: each installation has another passphrase.
func OfDisks(root Root, site, machine string, generation int) (secret.Value, error) {
	return Password(root, Of{Site: site, Purpose: Disks, Machine: machine, Epoch: generation}, diskForm)
}
