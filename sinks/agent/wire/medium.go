package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A medium of the ramdisk has room for words of one boot, such as its token, the archive of
// programs for disks and the image that its firmware starts: the descriptor of its volume
// (ECMA-119, section 8.4) says in the use of the application, a line each, where that is and how
// many bytes it has.
const (
	MediumMark = "SLIPWAY BOOT WORDS AT "
	// ToolsMark begins the second line. A medium of an earlier ramdisk does not have it.
	ToolsMark = "SLIPWAY TOOLS AT "
	// ImageMark begins the third line, which media had not before there was network boot.
	ImageMark = "SLIPWAY IMAGE AT "
	// VolumeAt is where the descriptor is, ApplicationUse what is in it for us, in bytes.
	VolumeAt         = 16 * 2048
	ApplicationUse   = 883
	ApplicationBytes = 512
	maxMediumWords   = 64 << 10
	// MaxImage bounds the image, in bytes.
	MaxImage = 64 << 20
)

// ErrNoMedium says that something is no medium of the ramdisk.
var ErrNoMedium = errors.New("it is not a medium of the ramdisk")

// ErrNoTools says that a medium of the ramdisk has no archive of programs for disks.
var ErrNoTools = errors.New("it has no programs for disks")

// WordsOf says where the words of a boot are on a medium, and how many bytes there are.
func WordsOf(medium io.ReaderAt) (at, size int64, err error) {
	at, size, _, err = placesOf(medium)
	return at, size, err
}

// ToolsOf says where the archive of programs for disks is on a medium, and how many bytes it
// has.
func ToolsOf(medium io.ReaderAt) (at, size int64, err error) {
	_, _, rest, err := placesOf(medium)
	if err != nil {
		return 0, 0, err
	}
	text, ok := strings.CutPrefix(rest, ToolsMark)
	if _, err := fmt.Sscanf(text, "%d %d\n", &at, &size); !ok || err != nil || at < VolumeAt || size <= 0 || size > MaxTools {
		return 0, 0, ErrNoTools
	}
	return at, size, nil
}

// ErrNoImage says that a medium of the ramdisk does not tell where its image is.
var ErrNoImage = errors.New("it does not say where its image is, because an earlier release built it; build it again with `slipway ramdisk build`")

// ImageOf says where the image that firmware starts is on a medium, and how many bytes it has.
func ImageOf(medium io.ReaderAt) (at, size int64, err error) {
	_, _, rest, err := placesOf(medium)
	if err != nil {
		return 0, 0, err
	}
	_, rest, _ = strings.Cut(rest, "\n")
	text, ok := strings.CutPrefix(rest, ImageMark)
	if _, err := fmt.Sscanf(text, "%d %d\n", &at, &size); !ok || err != nil || at < VolumeAt || size <= 0 || size > MaxImage {
		return 0, 0, ErrNoImage
	}
	return at, size, nil
}

// placesOf reads the first line, and gives what is behind it.
func placesOf(medium io.ReaderAt) (at, size int64, rest string, err error) {
	volume := make([]byte, ApplicationUse+ApplicationBytes)
	if _, err := medium.ReadAt(volume, VolumeAt); err != nil || !bytes.HasPrefix(volume, []byte("\x01CD001\x01")) {
		return 0, 0, "", ErrNoMedium
	}
	line, rest, _ := strings.Cut(string(volume[ApplicationUse:]), "\n")
	text, ok := strings.CutPrefix(line, MediumMark)
	if _, err := fmt.Sscanf(text, "%d %d", &at, &size); !ok || err != nil || at < VolumeAt || size <= 0 || size > maxMediumWords {
		return 0, 0, "", ErrNoMedium
	}
	return at, size, rest, nil
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
