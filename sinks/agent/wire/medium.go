package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A medium of the ramdisk has room for words of one boot, such as its token: the descriptor of
// its volume (ECMA-119, section 8.4) says in the use of the application, behind MediumMark,
// where that is and how many bytes it has.
const (
	MediumMark = "SLIPWAY BOOT WORDS AT "
	// VolumeAt is where the descriptor is, ApplicationUse what is in it for us, in bytes.
	VolumeAt         = 16 * 2048
	ApplicationUse   = 883
	ApplicationBytes = 512
	maxMediumWords   = 64 << 10
)

// ErrNoMedium says that something is no medium of the ramdisk.
var ErrNoMedium = errors.New("it is not a medium of the ramdisk")

// WordsOf says where the words of a boot are on a medium, and how many bytes there are.
func WordsOf(medium io.ReaderAt) (at, size int64, err error) {
	volume := make([]byte, ApplicationUse+ApplicationBytes)
	if _, err := medium.ReadAt(volume, VolumeAt); err != nil || !bytes.HasPrefix(volume, []byte("\x01CD001\x01")) {
		return 0, 0, ErrNoMedium
	}
	text, ok := strings.CutPrefix(string(volume[ApplicationUse:]), MediumMark)
	if _, err := fmt.Sscanf(text, "%d %d\n", &at, &size); !ok || err != nil || at < VolumeAt || size <= 0 || size > maxMediumWords {
		return 0, 0, ErrNoMedium
	}
	return at, size, nil
}

// ReadWords reads the words of a boot that a medium has; empty for none.
func ReadWords(medium io.ReaderAt) (string, error) {
	at, size, err := WordsOf(medium)
	if err != nil {
		return "", err
	}
	text := make([]byte, size)
	if _, err := medium.ReadAt(text, at); err != nil {
		return "", fmt.Errorf("read the words of this boot on the medium: %w", err)
	}
	return strings.TrimSpace(string(bytes.TrimRight(text, "\x00"))), nil
}
