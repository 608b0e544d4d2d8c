package secret

import (
	"errors"
	"io/fs"

	"github.com/slipway-gitops/slipway/engine/hostfile"
)

// ruled is what others could change in a file of the host that says how a secret is had.
const ruled = "what runs here, or where secrets go"

// readOwned reads a file of the host that only its owner may change.
func readOwned(path string, owner uint32) (string, error) {
	text, err := hostfile.Read(path, owner, maxFile, ruled)
	if errors.Is(err, fs.ErrPermission) {
		return "", explain(path, err)
	}
	return text, err
}
