package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

func readMarker(h *inside.Host) (*change, error) {
	text, _, err := readFile(h, markerFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	c := &change{}
	if err == nil {
		err = json.Unmarshal(text, c)
	}
	if err != nil {
		return nil, fmt.Errorf("the unconfirmed change of the network, %s: %w", markerFile, err)
	}
	if c.Room && !c.Undone && !exists(h.Path(room(c.Name))) { // and the marker could not be written
		c.Undone, c.Why = true, unwritten
	}
	return c, nil
}

func writeMarker(h *inside.Host, c *change) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return writeFile(h, markerFile, text, 0o600)
}

// lock lets only one program at a time change the network. The kernel releases the lock when the program ends.
func lock(ctx context.Context, h *inside.Host, wait time.Duration) (unlock func(), err error) {
	at, err := place(h, lockFile)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	end := time.After(wait)
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		select {
		case <-end:
			f.Close()
			return nil, &wire.Error{Class: wire.Busy, Text: "another program changes the network of this machine"}
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// printable removes unprintable characters from foreign text.
func printable(value []byte) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, string(value))
}
