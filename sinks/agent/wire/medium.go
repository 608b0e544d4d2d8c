package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A ramdisk's medium has space for the words of one boot, such as its token, for the archive of programs for disks,
// and for the image that firmware boots. The volume descriptor (ECMA-119, section 8.4) lists their offsets and
// sizes in bytes, one line each, in its application use field.
const (
	MediumMark = "SLIPWAY BOOT WORDS AT "
	// ToolsMark starts the second line. A medium of an earlier ramdisk lacks it.
	ToolsMark = "SLIPWAY TOOLS AT "
	// ImageMark starts the third line. Media from before network boot lack it.
	ImageMark = "SLIPWAY IMAGE AT "
	// VolumeAt is the offset of the descriptor. ApplicationUse is the offset of our field in it, in bytes.
	VolumeAt         = 16 * 2048
	ApplicationUse   = 883
	ApplicationBytes = 512
	maxMediumWords   = 64 << 10
	// maxImage bounds the image, in bytes.
	maxImage = 64 << 20
)

// ErrNoMedium reports that something is not a ramdisk's medium.
var ErrNoMedium = errors.New("it is not a medium of the ramdisk")

// ErrNoTools reports that a ramdisk's medium has no archive of programs for disks.
var ErrNoTools = errors.New("it has no programs for disks")

// WordsOf returns the offset and size in bytes of the words of a boot on a medium.
func WordsOf(medium io.ReaderAt) (at, size int64, err error) {
	at, size, _, err = placesOf(medium)
	return at, size, err
}

// ToolsOf returns the offset and size in bytes of the archive of programs for disks on a medium.
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

// ErrNoImage reports that a ramdisk's medium does not say where its image is.
var ErrNoImage = errors.New("it does not say where its image is, because an earlier release built it; build it again with `slipway ramdisk build`")

// ImageOf returns the offset and size in bytes of the image that firmware boots on a medium.
func ImageOf(medium io.ReaderAt) (at, size int64, err error) {
	_, _, rest, err := placesOf(medium)
	if err != nil {
		return 0, 0, err
	}
	_, rest, _ = strings.Cut(rest, "\n")
	text, ok := strings.CutPrefix(rest, ImageMark)
	if _, err := fmt.Sscanf(text, "%d %d\n", &at, &size); !ok || err != nil || at < VolumeAt || size <= 0 || size > maxImage {
		return 0, 0, ErrNoImage
	}
	return at, size, nil
}

// placesOf parses the first line, and returns the rest.
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

// ReadWords reads the words of a boot from a medium; empty for none.
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
