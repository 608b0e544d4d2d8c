package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// mostTools is how often the programs for disks are sent for one installation. An installation needs them once.
const mostTools = 2

// withTools extends a supply with the programs for disks of a medium. An agent that was booted over the network has
// no medium to read them from.
func withTools(medium string, supply func(wire.Want) (io.ReadCloser, wire.Blob), open func(sha256 string) (io.ReadCloser, int64, error)) func(wire.Want) (io.ReadCloser, wire.Blob) {
	sent := 0
	return func(w wire.Want) (io.ReadCloser, wire.Blob) {
		if w.For != wire.ToolsFor || medium == "" || open == nil || sent >= mostTools {
			return supply(w)
		}
		sent++
		archive, err := toolsOf(medium, open)
		if err != nil {
			return nil, wire.Blob{Refused: fmt.Sprintf("%s cannot be read on the medium of the ramdisk: %v", wire.ToolsFor, err)}
		}
		if is := sha256.Sum256(archive); hex.EncodeToString(is[:]) != w.SHA256 {
			return nil, wire.Blob{Refused: fmt.Sprintf("the daemon's medium of the ramdisk has other programs for disks, sha256:%x, and the agent wants sha256:%s: it was started from another build",
				is, brief(w.SHA256))}
		}
		return io.NopCloser(bytes.NewReader(archive)), wire.Blob{Size: int64(len(archive))}
	}
}

// toolsOf reads the programs for disks on a medium in the artifact store.
func toolsOf(medium string, open func(sha256 string) (io.ReadCloser, int64, error)) ([]byte, error) {
	f, _, err := open(medium)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, wire.VolumeAt+wire.ApplicationUse+wire.ApplicationBytes)
	if _, err := io.ReadFull(f, head); err != nil {
		return nil, err
	}
	at, size, err := wire.ToolsOf(bytes.NewReader(head))
	if err != nil {
		return nil, err
	}
	if at < int64(len(head)) {
		return nil, wire.ErrNoTools
	}
	if _, err := io.CopyN(io.Discard, f, at-int64(len(head))); err != nil {
		return nil, err
	}
	archive := make([]byte, size)
	_, err = io.ReadFull(f, archive)
	return archive, err
}
