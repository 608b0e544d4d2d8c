package start

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/image"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/install"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// These are the bounds for the programs for disks.
const (
	mediumWithin = time.Minute      // until the medium appears
	readWithin   = 15 * time.Minute // until it is read: a BMC may serve it from far away
	maxMedia     = 256
	maxToolsFile = 4096
	// toolsSpare is the memory left for running the programs, in bytes.
	toolsSpare = 96 << 20
	// toolsWindow is the memory for unpacking, in bytes.
	toolsWindow = 16 << 20
)

// medium is the boot medium.
type medium struct {
	wait, every time.Duration // until it appears, and between looks
}

// refused is an error that a person must decide about.
func refused(format string, args ...any) error {
	return &wire.Error{Class: wire.Refused, Text: fmt.Sprintf(format+"; nothing was written", args...)}
}

// programs loads the programs for disks from the medium.
func (m *medium) programs(ctx context.Context, h *inside.Host) error {
	return programs(ctx, h, m.archive)
}

// sentPrograms loads them from the daemon.
func sentPrograms(ctx context.Context, h *inside.Host) error { return programs(ctx, h, sentArchive) }

// programs loads the programs for disks into memory, from an archive that from finds. It accepts only the archive
// that the ramdisk was built with. It writes no disk.
func programs(ctx context.Context, h *inside.Host, from func(context.Context, *inside.Host, wire.Tools) (archive []byte, where string, err error)) error {
	want, err := wantedTools(h)
	if err != nil {
		return err
	}
	// The whole archive is in memory at the same time as the unpacked files.
	needs, has := want.Unpacked+want.Bytes+toolsWindow+toolsSpare, install.Available(h)
	switch {
	case has == 0:
		return refused("it is not known how much memory of the machine is free, and the programs for disks need %d MB", needs>>20)
	case has < needs:
		return refused("the machine has %d MB of free memory, and the programs for disks need %d MB: it has too little memory to be installed from the ramdisk", has>>20, needs>>20)
	}
	h.Tell("reading the programs for disks")
	archive, where, err := from(ctx, h, want)
	if err != nil {
		return err
	}
	folder := h.Path(wire.ToolsFolder)
	if err := leaveTools(folder); err != nil {
		return fmt.Errorf("unmount what an earlier try has left at %s: %w; nothing was written", folder, err)
	}
	// The last page of a file is partly empty, and folders take space.
	options := fmt.Sprintf("size=%d,mode=755", want.Unpacked+4<<20)
	if err := syscall.Mount("tools", folder, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount memory at %s for the programs for disks: %w; nothing was written", folder, err)
	}
	is, err := image.UnpackTrusted(ctx, bytes.NewReader(archive), folder, want.Unpacked)
	if err != nil {
		return fmt.Errorf("unpack the programs for disks: %w; nothing was written", errors.Join(err, leaveTools(folder)))
	}
	h.Tell(fmt.Sprintf("the programs for disks are in memory: %d files, %d MB, of %s", is.Entries, is.Unpacked>>20, where))
	return nil
}

// sentArchive receives the archive from the daemon, over the connection on which the daemon is verified.
func sentArchive(_ context.Context, h *inside.Host, want wire.Tools) ([]byte, string, error) {
	content, size, err := h.Fetch(want.SHA256, wire.ToolsFor, want.Bytes)
	if err != nil {
		return nil, "", refused("the daemon sends no programs for disks: %v", err)
	}
	defer content.Close()
	if size != want.Bytes {
		return nil, "", refused("the daemon sends other programs for disks, with %d bytes and not the %d of this ramdisk", size, want.Bytes)
	}
	archive := make([]byte, size)
	if _, err := io.ReadFull(content, archive); err != nil {
		return nil, "", fmt.Errorf("read the programs for disks from the daemon: %w; nothing was written", err)
	}
	if is := sha256.Sum256(archive); hex.EncodeToString(is[:]) != want.SHA256 {
		return nil, "", refused("the daemon sends other programs for disks, with the SHA-256 %x and not %s of this ramdisk", is, want.SHA256)
	}
	return archive, "the daemon", nil
}

// leaveTools unmounts the programs, if mounted.
func leaveTools(folder string) error {
	if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

// wantedTools says which archive belongs to this ramdisk.
func wantedTools(h *inside.Host) (want wire.Tools, err error) {
	f, err := os.Open(h.Path(wire.ToolsFile))
	var text []byte
	if err == nil {
		defer f.Close()
		text, err = io.ReadAll(io.LimitReader(f, maxToolsFile))
	}
	if err == nil {
		err = json.Unmarshal(text, &want)
	}
	if sum, failed := hex.DecodeString(want.SHA256); err != nil || failed != nil || len(sum) != sha256.Size ||
		want.Bytes <= 0 || want.Bytes > wire.MaxTools || want.Unpacked <= 0 || want.Unpacked > wire.MaxUnpackedTools {
		return want, refused("the ramdisk does not say which programs for disks belong to it: build it again with `slipway ramdisk build`")
	}
	return want, nil
}

// archive reads the archive from the medium, which may appear late. It gives up on a device that hangs.
func (m *medium) archive(ctx context.Context, h *inside.Host, want wire.Tools) (content []byte, device string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	type found struct {
		content []byte
		device  string
		err     error
	}
	done := make(chan found, 1)
	go func() {
		content, device, err := m.search(ctx, h, want)
		done <- found{content, device, err}
	}()
	select {
	case f := <-done:
		return f.content, "the medium " + f.device, f.err
	case <-ctx.Done():
		return nil, "", fmt.Errorf("read the programs for disks from the medium: %w; nothing was written", ctx.Err())
	}
}

// search looks at the media repeatedly until it finds ours.
func (m *medium) search(ctx context.Context, h *inside.Host, want wire.Tools) ([]byte, string, error) {
	for until := time.Now().Add(m.wait); ; {
		names, err := media(h)
		if err != nil {
			return nil, "", err
		}
		var wrong error
		for _, name := range names {
			content, err := toolsOn(h.Path("/dev/"+name), want)
			if err == nil {
				return content, name, nil
			}
			if !errors.Is(err, wire.ErrNoMedium) && wrong == nil {
				wrong = refused("the medium %s is of a ramdisk, and %v. The machine must be started from the ISO of one build, and the ISO must not be changed: "+
					"build the ramdisk again, and start the machine from its ISO", name, err)
			}
		}
		if wrong != nil {
			return nil, "", wrong
		}
		if !time.Now().Before(until) {
			return nil, "", refused("the programs for disks are on the ISO of the ramdisk, and no CD, USB or memory device of the machine has it after %s: "+
				"attach the ISO again, or start the machine from the ISO if it was started from the image alone", m.wait)
		}
		select {
		case <-ctx.Done():
			return nil, "", ctx.Err()
		case <-time.After(min(m.every, time.Until(until))):
		}
	}
}

// media are the block devices other than disks from which a machine may have booted: CDs, USB and removable
// devices, and the memory where firmware keeps a medium from the network.
func media(h *inside.Host) (names []string, err error) {
	folder := h.Path("/sys/class/block")
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("look for the medium: %w", err)
	}
	for _, e := range entries {
		at := filepath.Join(folder, e.Name())
		if _, err := os.Stat(filepath.Join(at, "partition")); err == nil {
			continue
		}
		to, err := filepath.EvalSymlinks(at)
		if err != nil {
			continue // it is gone
		}
		isCD, isMemory := strings.HasPrefix(e.Name(), "sr"), strings.HasPrefix(e.Name(), "pmem")
		isUSB, isRemovable := strings.Contains(to, "/usb"), inside.Text(filepath.Join(at, "removable")) == "1"
		if isCD || isMemory || isUSB || isRemovable {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxMedia)], nil
}

// toolsOn reads the whole archive from a device, and checks that it is the wanted one. If the device is not a
// ramdisk's medium, the error is wire.ErrNoMedium.
func toolsOn(device string, want wire.Tools) ([]byte, error) {
	f, err := os.Open(device)
	if err != nil {
		return nil, wire.ErrNoMedium // no disc inserted
	}
	defer f.Close()
	at, size, err := wire.ToolsOf(f)
	if err != nil {
		return nil, err
	}
	if size != want.Bytes {
		return nil, fmt.Errorf("has other programs for disks, with %d bytes and not the %d of this ramdisk", size, want.Bytes)
	}
	content := make([]byte, size)
	if _, err := f.ReadAt(content, at); err != nil {
		return nil, fmt.Errorf("its programs for disks cannot be read: %w", err)
	}
	if is := sha256.Sum256(content); hex.EncodeToString(is[:]) != want.SHA256 {
		return nil, fmt.Errorf("has other programs for disks, with the SHA-256 %x and not %s of this ramdisk", is, want.SHA256)
	}
	return content, nil
}
