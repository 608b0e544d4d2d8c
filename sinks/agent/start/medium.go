package start

import (
	"errors"
	"fmt"
	"os"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// mediumWords reads the words of this boot from the boot medium, which it recognizes by its content; empty for
// none. It mounts nothing. It does not read disks, because a previous system could have written words there that
// name another daemon. An unreadable medium does not hide others. If two media have words, it is unknown which is
// right.
func mediumWords(h *inside.Host) (string, error) {
	names, err := media(h)
	if err != nil {
		return "", err
	}
	var found, at string
	var wrong error
	for _, name := range names {
		words, err := wordsOn(h.Path("/dev/" + name))
		switch {
		case err != nil:
			wrong = errors.Join(wrong, fmt.Errorf("%s: %w", name, err))
		case words == "":
		case found != "":
			return "", fmt.Errorf("%s and %s are both media of the ramdisk with settings for a boot: leave only the one that this machine must start from", at, name)
		default:
			found, at = words, name
		}
	}
	if found != "" {
		return found, nil
	}
	return "", wrong
}

// wordsOn reads the words on one device. A device that cannot be opened or is not a medium has none.
func wordsOn(device string) (string, error) {
	f, err := os.Open(device)
	if err != nil {
		return "", nil
	}
	defer f.Close()
	words, err := wire.ReadWords(f)
	if errors.Is(err, wire.ErrNoMedium) {
		return "", nil
	}
	return words, err
}
