package network

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// room is a folder of files that are there to be deleted: setting a network back writes files, and
// the disk may have filled up since, by accident or on purpose. That the folder is gone also says,
// where not even the marker can be written, that the way back was begun.
func room(name string) string { return folder(name) + "/room" }

const (
	// roomFiles is how many there are beside one for each file of the change: for the marker,
	// the list of what Slipway made, the record, and their folders.
	roomFiles = 16
	// roomLeast is the size of each, in bytes; one is as large as all that is written at once.
	roomLeast = 8 << 10
)

// makeRoom fills the room of a change.
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

// fill makes a file that takes up some bytes of the disk, also where the file system compresses.
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

// useRoom gives up the room.
func useRoom(h *inside.Host, c *change) error { return os.RemoveAll(h.Path(room(c.Name))) }
