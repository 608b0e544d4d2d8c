package start

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// mediumWords are the words of this boot on the medium that the machine was started from, which
// is found by what is on it; empty where there is none. Nothing is mounted.
func mediumWords(blocks, devices string) (string, error) {
	names, err := os.ReadDir(blocks)
	if err != nil {
		return "", err
	}
	for _, n := range names {
		words, err := wordsOn(filepath.Join(devices, n.Name()))
		if err != nil {
			return "", fmt.Errorf("%s: %w", n.Name(), err)
		}
		if words != "" {
			return words, nil
		}
	}
	return "", nil
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
