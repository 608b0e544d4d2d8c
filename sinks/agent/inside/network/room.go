package network

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// room is a folder of files that only reserve disk space. A revert writes files, and the disk may have filled up
// since, by accident or on purpose. If not even the marker can be written, the missing folder shows that the revert
// has begun.
func room(name string) string { return folder(name) + "/room" }

const (
	// roomFiles is the number of files in addition to one per file of the change: for the marker, the list of what
	// Slipway made, the record, and their folders.
	roomFiles = 16
	// roomLeast is the minimum size of each, in bytes. Each is as large as everything that is written at once.
	roomLeast = 8 << 10
)

// makeRoom reserves the space for a change.
func makeRoom(h *inside.Host, c *change) error {
	at := h.Path(room(c.Name))
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	size := roomLeast
	for _, path := range append(c.Paths, inside.Folder+"/owned.json") {
		if text, _, err := readFile(h, path); err == nil {
			size += len(text)
		}
	}
	for i := range len(c.Paths) + roomFiles {
		if err := fill(fmt.Sprintf("%s/%d", at, i), size); err != nil {
			return fmt.Errorf("the disk has no room to reserve for restoring the network: %w", err)
		}
		size = roomLeast
	}
	c.Room = true
	return inside.SyncFolder(at)
}

// fill creates a file that takes up disk space even on a compressing file system.
func fill(path string, size int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.CopyN(f, rand.Reader, int64(size)); err != nil {
		return err
	}
	return f.Sync()
}

// useRoom frees the reserved space.
func useRoom(h *inside.Host, c *change) error { return os.RemoveAll(h.Path(room(c.Name))) }
