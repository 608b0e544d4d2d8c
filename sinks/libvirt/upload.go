package libvirt

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"
)

// workTimeout bounds a call that works on a whole volume.
const workTimeout = 30 * time.Minute

// storage is a storage pool of the hypervisor, over one connection.
type storage struct {
	c    *connection
	h    *hypervisor
	pool golibvirt.StoragePool
	host string // the hypervisor, for people
}

// storage finds a pool.
func (m *machine) storage(ctx context.Context, c *connection, name string) (*storage, error) {
	pool, err := m.pool(ctx, c, name)
	return &storage{c: c, h: m.hypervisor, pool: pool, host: m.where()}, err
}

// refresh makes libvirt rescan the pool. While something is being made in it, libvirt refuses, and the known state
// is used.
func (s *storage) refresh(ctx context.Context) error {
	err := tell(ctx, s.c.within(workTimeout), func(rpc *golibvirt.Libvirt) error { return rpc.StoragePoolRefresh(s.pool, 0) })
	if says(err, golibvirt.ErrInternalError) { // "has asynchronous jobs running"
		return nil
	}
	return err
}

// free is the free space in the pool.
func (s *storage) free(ctx context.Context) (int64, error) {
	return ask(ctx, s.c, func(rpc *golibvirt.Libvirt) (int64, error) {
		_, _, _, available, err := rpc.StoragePoolGetInfo(s.pool)
		return int64(available), err
	})
}

// find finds a volume of the pool by its name.
func (s *storage) find(ctx context.Context, name string) (golibvirt.StorageVol, bool, error) {
	v, err := ask(ctx, s.c, func(rpc *golibvirt.Libvirt) (golibvirt.StorageVol, error) {
		return rpc.StorageVolLookupByName(s.pool, name)
	})
	if says(err, golibvirt.ErrNoStorageVol) {
		return v, false, nil
	}
	return v, err == nil, err
}

// all are the volumes of the pool.
func (s *storage) all(ctx context.Context) ([]golibvirt.StorageVol, error) {
	return ask(ctx, s.c, func(rpc *golibvirt.Libvirt) ([]golibvirt.StorageVol, error) {
		all, _, err := rpc.StoragePoolListAllVolumes(s.pool, 1, 0)
		return all, err
	})
}

// describe is libvirt's description of a volume.
func (s *storage) describe(ctx context.Context, v golibvirt.StorageVol) (*libvirtxml.StorageVolume, error) {
	text, err := ask(ctx, s.c, func(rpc *golibvirt.Libvirt) (string, error) { return rpc.StorageVolGetXMLDesc(v, 0) })
	if err != nil {
		return nil, err
	}
	if len(text) > maxXML {
		return nil, refused("the description of the volume %s has %d bytes", printable(v.Name), len(text))
	}
	var d libvirtxml.StorageVolume
	if err := d.Unmarshal(text); err != nil {
		return nil, refused("the description of the volume %s cannot be understood: %v", printable(v.Name), err)
	}
	return &d, nil
}

// create makes a volume.
func (s *storage) create(ctx context.Context, d libvirtxml.StorageVolume) (golibvirt.StorageVol, error) {
	text, err := xml.Marshal(&d)
	if err != nil {
		return golibvirt.StorageVol{}, err
	}
	return ask(ctx, s.c.within(workTimeout), func(rpc *golibvirt.Libvirt) (golibvirt.StorageVol, error) {
		return rpc.StorageVolCreateXML(s.pool, string(text), 0)
	})
}

// copy makes a volume as a copy of another.
func (s *storage) copy(ctx context.Context, d libvirtxml.StorageVolume, from golibvirt.StorageVol) (golibvirt.StorageVol, error) {
	text, err := xml.Marshal(&d)
	if err != nil {
		return golibvirt.StorageVol{}, err
	}
	return ask(ctx, s.c.within(workTimeout), func(rpc *golibvirt.Libvirt) (golibvirt.StorageVol, error) {
		return rpc.StorageVolCreateXMLFrom(s.pool, string(text), from, 0)
	})
}

// remove deletes a volume. A missing volume is not an error. It waits for a volume that is being made, because
// whoever began that may have been interrupted.
func (s *storage) remove(ctx context.Context, name string) error {
	for {
		err := s.removeNow(ctx, name)
		if !beingMade(err) {
			return err
		}
		if err := sleep(ctx, s.h.opts.Poll); err != nil {
			return err
		}
	}
}

func (s *storage) removeNow(ctx context.Context, name string) error {
	v, there, err := s.find(ctx, name)
	if err != nil || !there {
		return err
	}
	err = tell(ctx, s.c.within(workTimeout), func(rpc *golibvirt.Libvirt) error { return rpc.StorageVolDelete(v, 0) })
	if says(err, golibvirt.ErrNoStorageVol) {
		return nil
	}
	if err != nil {
		err = fmt.Errorf("delete the volume %s: %w", printable(name), err)
	}
	return err
}

// beingMade reports whether libvirt is still making a volume, or reading it to make another.
func beingMade(err error) bool {
	return says(err, golibvirt.ErrOperationInvalid) &&
		(strings.Contains(err.Error(), "still being allocated") || strings.Contains(err.Error(), "still in use"))
}

// upload writes to a volume. It returns errors of the reader and of the volume separately.
func (s *storage) upload(ctx context.Context, v golibvirt.StorageVol, from io.Reader, offset, length int64) (written int64, broken, err error) {
	t, err := s.h.transfer(ctx, quiet)
	if err != nil {
		return 0, nil, err
	}
	defer t.close()
	written, broken, err = t.upload(v, from, offset, length)
	return written, broken, classify(err)
}

// plain is a volume with raw bytes. It only uses the space that its bytes need.
func plain(name string, size int64, mode string) libvirtxml.StorageVolume {
	return libvirtxml.StorageVolume{
		Name:       name,
		Capacity:   &libvirtxml.StorageVolumeSize{Unit: "bytes", Value: uint64(size)},
		Allocation: &libvirtxml.StorageVolumeSize{Unit: "bytes"},
		Target: &libvirtxml.StorageVolumeTarget{
			Format:      &libvirtxml.StorageVolumeTargetFormat{Type: "raw"},
			Permissions: &libvirtxml.StorageVolumeTargetPermissions{Mode: mode},
		},
	}
}
