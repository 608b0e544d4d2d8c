package libvirt

import (
	"context"
	"errors"
	"io"

	golibvirt "github.com/digitalocean/go-libvirt"
)

// mostConsole bounds what is read of a console, whatever the request.
const mostConsole = 1 << 20

// Console implements driver.Consoler. Libvirt logs the machine's output to a file among the disks, so reading it
// disturbs neither the machine nor a person at its console.
func (m *machine) Console(ctx context.Context, most int) ([]byte, error) {
	c, err := m.connection(ctx)
	if err != nil {
		return nil, err
	}
	d, err := m.existing(ctx, c)
	if err != nil || d.owner.Console == nil {
		return nil, err
	}
	log := d.owner.Console
	s, err := m.storage(ctx, c, log.Pool)
	if err != nil {
		return nil, err
	}
	if err := s.refresh(ctx); err != nil { // this updates the file's size
		return nil, err
	}
	v, there, err := s.find(ctx, log.Name)
	if err != nil || !there {
		return nil, err
	}
	return s.tail(ctx, v, int64(min(max(most, 0), mostConsole)))
}

// tail is the end of a volume, at most most bytes.
func (s *storage) tail(ctx context.Context, v golibvirt.StorageVol, most int64) ([]byte, error) {
	size, err := ask(ctx, s.c, func(rpc *golibvirt.Libvirt) (int64, error) {
		_, capacity, _, err := rpc.StorageVolGetInfo(v)
		return int64(capacity), err
	})
	if most = min(most, size); err != nil || most <= 0 {
		return nil, err
	}
	return s.download(ctx, v, size-most, most)
}

// mostDownloads is how often a read of a volume is tried if libvirt sends too little or nothing, which it sometimes
// does on a busy host.
const mostDownloads = 3

// download reads length bytes of a volume from an offset.
func (s *storage) download(ctx context.Context, v golibvirt.StorageVol, offset, length int64) (content []byte, err error) {
	for range mostDownloads {
		content, err = s.downloadOnce(ctx, v, offset, length)
		if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errSilent) {
			break
		}
	}
	return content, classify(err)
}

func (s *storage) downloadOnce(ctx context.Context, v golibvirt.StorageVol, offset, length int64) ([]byte, error) {
	t, err := s.h.transfer(ctx, quietRead)
	if err != nil {
		return nil, err
	}
	defer t.close()
	return t.download(v, offset, length)
}
