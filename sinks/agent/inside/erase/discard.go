package erase

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// discardAtOnce is the size of one request in bytes. discardWithin bounds all of them together.
const (
	discardAtOnce = 32 << 30
	discardWithin = 2 * time.Hour
)

// discard tells the disk that none of its data is needed any more. This only proves something if the disk promises
// that such sectors read as zeros, and they do. secure asks the disk to purge the data.
func (e *eraser) discard(ctx context.Context, secure bool) (verified string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, discardWithin, errCut)
	defer cancel()
	promise := "the disk took a secure discard of all of it"
	if !secure {
		if promise, err = e.promisesZeros(); err != nil {
			return "", err
		}
	}
	zeros := 0
	found, err := e.sampledInto(&zeros, func() error {
		for at := int64(0); at < e.disk.Bytes; at += discardAtOnce {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			e.tell("", float64(at)/float64(e.disk.Bytes))
			if err := e.drive.Discard(at, min(discardAtOnce, e.disk.Bytes-at), secure); err != nil {
				return fmt.Errorf("the disk does not take it: %w", err)
			}
		}
		return e.drive.Sync()
	})
	switch {
	case err != nil:
		return "", err
	case !secure && promise == "":
		return "", fmt.Errorf("%s, but the disk does not promise that discarded sectors read as zeros: that proves nothing", found)
	case !secure && zeros < e.samples:
		return "", fmt.Errorf("the disk promises that discarded sectors read as zeros, and %d of %d samples do not", e.samples-zeros, e.samples)
	}
	return promise + ", and " + found, nil
}

// promisesZeros says how a disk promises that discarded sectors read as zeros; empty if it does not.
func (e *eraser) promisesZeros() (string, error) {
	if e.isNVMe() {
		if zeroes, err := zeroesTrimmed(e.drive); err != nil || !zeroes {
			return "", nil
		}
		return "the disk promises that deallocated sectors read as zeros (DLFEAT)", nil
	}
	if s, err := securityOf(e.drive); err == nil {
		if !s.zeroes {
			return "", nil
		}
		return "the disk promises that trimmed sectors read as zeros (DRAT and RZAT)", nil
	}
	// READ CAPACITY(16): LBPRZ in byte 14, bit 6 (SBC-4, section 5.16.2).
	c := &SCSICommand{CDB: []byte{0x9e, 0x10, 13: 32, 15: 0}, Data: aligned(32), Timeout: ataWithin}
	binary.BigEndian.PutUint32(c.CDB[10:], 32)
	if err := e.drive.Pass(c); err != nil || c.err() != nil || c.Data[14]&(1<<6) == 0 {
		return "", nil
	}
	return "the disk promises that unmapped sectors read as zeros (LBPRZ)", nil
}

// isNVMe reports whether the disk takes NVMe commands.
func (e *eraser) isNVMe() bool { return strings.HasPrefix(e.disk.Name, "nvme") }

// errCut is the cause when a method runs out of time.
var errCut = errors.New("it ran out of time")
