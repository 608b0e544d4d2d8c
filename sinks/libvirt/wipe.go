package libvirt

import (
	"context"
	"fmt"
	"io"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
)

// wipe overwrites a volume with zeros. Libvirt would only truncate a sparse file, so files are written like an
// image. The layer below a file, such as a copy-on-write file system or a thin volume, may keep the old data.
func (s *storage) wipe(ctx context.Context, v golibvirt.StorageVol) error {
	about, err := s.describe(ctx, v)
	if err != nil {
		return err
	}
	if about.Type != "" && about.Type != "file" {
		return tell(ctx, s.c.within(wipeTimeout), func(rpc *golibvirt.Libvirt) error { return rpc.StorageVolWipe(v, 0) })
	}
	length := amount(about.Physical)
	if length == 0 {
		length = amount(about.Capacity)
	}
	if holes := length - amount(about.Allocation); holes > 0 {
		if err := s.room(ctx, `overwriting the unused parts of the disk's file (virtual.erase: "delete" needs no room)`, holes); err != nil {
			return err
		}
	}
	for offset := int64(0); offset < length; offset += mostZeros {
		n := min(mostZeros, length-offset)
		written, _, err := s.upload(ctx, v, io.LimitReader(zeros{}, n), offset, n)
		if err == nil && written != n {
			err = fmt.Errorf("at byte %d: %w", offset+written, io.ErrShortWrite)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mostZeros is how much is overwritten at a time. Data is on the disk before it is confirmed, and that has a time
// limit.
const mostZeros = 256 << 20

// wipeTimeout bounds libvirt's own overwriting of a volume.
const wipeTimeout = 12 * time.Hour

// zeros is an endless reader of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
