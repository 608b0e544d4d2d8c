package start

import (
	"errors"
	"fmt"
	"os"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// mediumWords are the words of this boot on the medium that the machine was started from, which
// is found by what is on it; empty where there is none. Nothing is mounted. Disks are not
// looked at: who wrote to them, such as the system of before, names no daemon. One medium that
// cannot be read hides no other, and of two with words nobody knows which is the right one.
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

// wordsOn are those on one device. One that cannot be opened or is no medium has none.
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
