// Package report prints what a system reports about itself: the installation, its boot, what the system is and has.
// The text is the same as that of the daemon's shell script for a system without the helper
// (sinks/agent/report.go), but needs no program for each line. Each part follows a line of its own, in the format
// of uname(1), ip(8), lsblk(8), df(1) and systemctl(1).
package report

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/systemd"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// These are the bounds on the output, in bytes, and on what may never answer.
const (
	maxText    = 64 << 10
	maxMemory  = 8 << 10
	maxLinks   = 128 << 10
	maxDisks   = 64 << 10
	maxMounts  = 64 << 10
	maxUnits   = 32 << 10
	soonEnough = 5 * time.Second
)

// Print writes the report of a running system. It leaves out what it cannot find out.
func Print(ctx context.Context, w io.Writer, h *inside.Host) error {
	out := bufio.NewWriter(w)
	for _, part := range []struct {
		name string
		text []byte
	}{
		{"marker", marker(h.Path("/etc/slipway/marker.json"))},
		{"boot", file(h, "/proc/sys/kernel/random/boot_id", maxText)},
		{"os", file(h, "/etc/os-release", maxText)},
		{"kernel", file(h, "/proc/sys/kernel/osrelease", maxText)},
		{"booted", lineOf(file(h, "/proc/stat", maxText), "btime ")},
		{"memory", file(h, "/proc/meminfo", maxMemory)},
		{"links", clip(links(), maxLinks)},
		{"addresses", clip(addresses(), maxLinks)},
		{"disks", clip(disks(h), maxDisks)},
		{"mounts", clip(mounts(h), maxMounts)},
		{"failed", clip(failedUnits(ctx, h), maxUnits)},
	} {
		out.WriteString("--" + part.name + "\n")
		out.Write(part.text)
		out.WriteString("\n")
	}
	return out.Flush()
}

// marker is the file that identifies the installation; empty if there is none.
func marker(path string) []byte {
	text, err := inside.ReadAtMost(path, maxText)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return []byte(wire.Unread + "\n")
	}
	return text
}

// file is the beginning of a file of the system; empty if it cannot be read.
func file(h *inside.Host, path string, most int) []byte {
	text, err := inside.ReadAtMost(h.Path(path), int64(most))
	if err != nil {
		return nil
	}
	return text
}

// lineOf is the first line with a prefix.
func lineOf(text []byte, begins string) []byte {
	for l := range bytes.Lines(text) {
		if bytes.HasPrefix(l, []byte(begins)) {
			return l
		}
	}
	return nil
}

func clip(text []byte, most int) []byte { return text[:min(len(text), most)] }

// failedUnits lists the failed units, and ends a complete list with wire.AllUnits.
func failedUnits(ctx context.Context, h *inside.Host) []byte {
	ctx, cancel := context.WithTimeout(ctx, soonEnough)
	defer cancel()
	units, err := systemd.Failed(ctx, h)
	if err != nil {
		return nil
	}
	var b bytes.Buffer
	for _, u := range append(units, wire.AllUnits) {
		b.WriteString(onOneLine(u) + "\n")
	}
	return b.Bytes()
}

// onOneLine keeps foreign text from breaking a line.
func onOneLine(text string) string { return strings.Map(plain, text) }

func plain(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}
